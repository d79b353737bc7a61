/**
 * Words of a text, as search sees them, and texts without case.
 *
 * W1  a word is a run of letters, marks, numbers and connector punctuation (such as _), as Unicode classes them. A character of a script that
 *     is written without spaces is a word by itself, as UAX #29 has it without a dictionary: several of them are found as a phrase
 * W2  case is folded character by character, whatever stands around it, and no character beyond ASCII folds into ASCII: what is
 *     ASCII in a word is ASCII in the texts it is found in, and can be looked for in their bytes
 */

const OTHER = 0
const IN_WORD = 1
const WORD_BY_ITSELF = 2

const BY_ITSELF =
  /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]$/u
const OF_WORD = /^[\p{L}\p{M}\p{N}\p{Pc}]$/u

const PAGE = 256
/** Classes of the characters, by pages that are filled when first asked for. */
const pages: (Uint8Array | undefined)[] = []

function classOf(codePoint: number): number {
  const number = codePoint >>> 8
  const page = (pages[number] ??= Uint8Array.from({ length: PAGE }, (_, i) => classify(PAGE * number + i)))
  return page[codePoint & 0xff]!
}

function classify(codePoint: number): number {
  const character = String.fromCodePoint(codePoint)
  if (!OF_WORD.test(character)) return OTHER
  return BY_ITSELF.test(character) && /\p{L}/u.test(character) ? WORD_BY_ITSELF : IN_WORD
}

/** 1 for every byte below 128 that is part of a word; 0 for all others. */
export const ASCII_OF_WORD = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte < 128 && classOf(byte) !== OTHER ? 1 : 0,
)

/** W2 */
export function fold(text: string): string {
  if (isAscii(text)) return text.toLowerCase()
  let folded = ''
  for (const character of text) folded += foldCharacter(character)
  return folded
}

function foldCharacter(character: string): string {
  if (character === 'ς') return 'σ' // the same letter at the end of a word
  const lower = character.toLowerCase()
  return character.codePointAt(0)! >= 128 && lower.codePointAt(0)! < 128 ? character : lower
}

export function isAscii(text: string): boolean {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) >= 128) return false
  return true
}

/** Calls `visit` with each word, folded, until it returns true. @returns whether it did */
export function someWord(text: string, visit: (word: string) => boolean): boolean {
  let start = -1
  for (let at = 0; at < text.length;) {
    const codePoint = text.codePointAt(at)!
    const units = codePoint > 0xffff ? 2 : 1
    const kind = classOf(codePoint)
    if (kind !== IN_WORD && start >= 0) {
      if (visit(fold(text.slice(start, at)))) return true
      start = -1
    }
    if (kind === WORD_BY_ITSELF && visit(text.slice(at, at + units))) return true
    if (kind === IN_WORD && start < 0) start = at
    at += units
  }
  return start >= 0 && visit(fold(text.slice(start)))
}

export function wordsOf(text: string): string[] {
  const words: string[] = []
  someWord(text, (word) => {
    words.push(word)
    return false
  })
  return words
}
