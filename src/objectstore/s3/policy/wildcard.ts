/**
 * Patterns with `*` for any text and `?` for any one character (a UTF-16 code unit).
 *
 * A pattern is split at its stars, once. The first and the last piece are compared where they must stand, every piece between them is
 * searched behind the one before.
 *
 * W1  a pattern whose question marks stand beside stars, or that has none, takes at most 3 × (text + pattern) steps
 * W2  a piece with question marks between other characters takes at most 3 × ⌈piece / 32⌉ steps for each character of the text
 * W3  a search in slices takes at most STEPS_AT_ONCE steps, or the length of the pattern, in one
 */
import { STEPS_AT_ONCE } from '../slices.ts'
import { atOnce } from '../../../steps.ts'
import type { Sliced } from '../slices.ts'

export interface Pattern {
  /** Without a pause: for texts that are short. */
  matches(text: string): boolean
  /** W3 */
  search(text: string): Sliced<boolean>
}

/** Each pattern once: one that is listed a thousand times takes no more memory, and is not tried again. */
export const distinct = (patterns: readonly string[]): readonly string[] => [...new Set(patterns)]

export const wildcard = (pattern: string): Pattern => new Wildcard(pattern)

const NOTHING: readonly string[] = []

/** Kept small: a document of 20 KiB has thousands of patterns. */
class Wildcard implements Pattern {
  readonly #first: string
  /** Null: there is no star. */
  readonly #last: string | null
  readonly #between: readonly string[]
  readonly #charactersMin: number
  /** Made when a text is searched for them: most patterns have none, or are never reached. */
  #pieces: readonly Piece[] | null = null

  constructor(pattern: string) {
    const split = pattern.split('*')
    const between = split.slice(1, -1).filter((piece) => piece !== '')
    this.#first = split[0]!
    this.#last = split.length === 1 ? null : split.at(-1)!
    this.#between = between.length === 0 ? NOTHING : between
    this.#charactersMin = split.reduce((sum, piece) => sum + piece.length, 0)
  }

  matches(text: string): boolean {
    return this.#fits(text) && (this.#between.length === 0 || atOnce(this.#findBetween(text)))
  }

  *search(text: string): Sliced<boolean> {
    yield this.#first.length + (this.#last ?? '').length
    return this.#fits(text) && (this.#between.length === 0 || (yield* this.#findBetween(text)))
  }

  #fits(text: string): boolean {
    const [first, last] = [this.#first, this.#last]
    return (
      text.length >= this.#charactersMin &&
      standsAt(text, first, 0) &&
      (last === null ? text.length === first.length : standsAt(text, last, text.length - last.length))
    )
  }

  *#findBetween(text: string): Sliced<boolean> {
    this.#pieces ??= this.#between.map(pieceOf)
    const end = text.length - this.#last!.length // there are stars, so there is a last piece
    let at = this.#first.length
    for (const piece of this.#pieces) {
      at = yield* find(piece, text, at, end)
      if (at < 0) return false
    }
    return true
  }
}

function standsAt(text: string, piece: string, at: number): boolean {
  if (!piece.includes('?')) return text.startsWith(piece, at)
  for (let i = 0; i < piece.length; i++) if (piece[i] !== '?' && piece[i] !== text[at + i]) return false
  return true
}

/** What stands between two stars: question marks around it only say how much text there must be on either side. */
interface Piece {
  readonly before: number
  /** Null: nothing but question marks. */
  readonly core: { begin(): CoreSearch } | null
  readonly behind: number
}

interface CoreSearch {
  /** Takes text[from, to), which stands behind what it took before. @returns where the core ends, -1: not yet found */
  take(text: string, from: number, to: number): number
  /** Steps since the search began. */
  readonly steps: number
  /** Most steps for one character of the text, on average. */
  readonly stepsPerCharacter: number
}

function pieceOf(text: string): Piece {
  let [from, to] = [0, text.length]
  while (from < to && text[from] === '?') from++
  while (to > from && text[to - 1] === '?') to--
  const [core, around] = [text.slice(from, to), { before: from, behind: text.length - to }]
  if (core === '') return { ...around, core: null }
  return { ...around, core: core.includes('?') ? new GappedCore(core) : new PlainCore(core) }
}

/** @returns where the leftmost occurrence at or behind `from` ends, -1: there is none that ends at or before `end` */
function* find({ before, core, behind }: Piece, text: string, from: number, end: number): Sliced<number> {
  const last = end - behind
  let at = from + before
  if (core === null) return at + behind <= end ? at + behind : -1
  const search = core.begin()
  const charactersAtOnce = Math.max(1, Math.floor(STEPS_AT_ONCE / search.stepsPerCharacter))
  for (let told = 0; at < last; at += charactersAtOnce) {
    const found = search.take(text, at, Math.min(last, at + charactersAtOnce))
    yield search.steps - told
    told = search.steps
    if (found >= 0) return found + behind
  }
  return -1
}

/** Knuth, Morris and Pratt: no character of the text is looked at again. W1 */
class PlainCore {
  readonly #text: string
  /** For each length of a prefix, that of the longest shorter prefix which the first one ends with. */
  readonly #borders: Uint32Array

  constructor(text: string) {
    this.#text = text
    const borders = new Uint32Array(text.length + 1)
    for (let length = 2, border = 0; length <= text.length; length++) {
      while (border > 0 && text[border] !== text[length - 1]) border = borders[border]!
      if (text[border] === text[length - 1]) border++
      borders[length] = border
    }
    this.#borders = borders
  }

  begin(): CoreSearch {
    const [core, borders] = [this.#text, this.#borders]
    let [matched, steps] = [0, 0]
    return {
      stepsPerCharacter: 2,
      get steps() {
        return steps
      },
      take(text: string, from: number, to: number) {
        for (let at = from; at < to; at++) {
          const character = text.charCodeAt(at)
          for (steps++; matched > 0 && core.charCodeAt(matched) !== character; steps++) matched = borders[matched]!
          if (core.charCodeAt(matched) === character) matched++
          if (matched === core.length) return at + 1
        }
        return -1
      },
    }
  }
}

/** Shift-And: a bit for each prefix of the core says whether the text so far ends with it. W2 */
class GappedCore {
  readonly #words: number
  readonly #lastBit: number
  /** The bits of question marks. */
  readonly #gaps: Int32Array
  /** Where each character stands; used for those that stand in fewer places than there are words. */
  readonly #places = new Map<number, number[]>()
  /** Bits of all others, with those of question marks. There are at most 32 such characters, so all this is as large as the core. */
  readonly #masks = new Map<number, Int32Array>()

  constructor(core: string) {
    this.#words = Math.ceil(core.length / 32)
    this.#lastBit = 1 << ((core.length - 1) % 32)
    this.#gaps = new Int32Array(this.#words)
    for (let i = 0; i < core.length; i++) {
      if (core[i] === '?') setBit(this.#gaps, i)
      else {
        const places = this.#places.get(core.charCodeAt(i))
        if (places === undefined) this.#places.set(core.charCodeAt(i), [i])
        else places.push(i)
      }
    }
    for (const [character, places] of this.#places) {
      if (places.length < this.#words) continue
      const mask = this.#gaps.slice()
      for (const place of places) setBit(mask, place)
      this.#masks.set(character, mask)
    }
  }

  begin(): CoreSearch {
    const [words, lastBit, gaps, places, masks] = [this.#words, this.#lastBit, this.#gaps, this.#places, this.#masks]
    const matched = new Int32Array(words)
    const scratch = gaps.slice()
    let steps = 0
    return {
      stepsPerCharacter: 3 * words,
      get steps() {
        return steps
      },
      take(text: string, from: number, to: number) {
        for (let at = from; at < to; at++) {
          const character = text.charCodeAt(at)
          let mask = masks.get(character)
          const few = mask === undefined ? places.get(character) : undefined
          if (few !== undefined) for (const place of few) setBit(scratch, place)
          mask ??= scratch
          let carry = 1
          for (let word = 0; word < words; word++) {
            const bits = matched[word]!
            matched[word] = ((bits << 1) | carry) & mask[word]!
            carry = bits >>> 31
          }
          if (few !== undefined) for (const place of few) scratch[place >>> 5] = gaps[place >>> 5]!
          steps += words + 2 * (few?.length ?? 0)
          if ((matched[words - 1]! & lastBit) !== 0) return at + 1
        }
        return -1
      },
    }
  }
}

function setBit(bits: Int32Array, at: number): void {
  bits[at >>> 5]! |= 1 << (at & 31)
}
