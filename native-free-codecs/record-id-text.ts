/** Record ids as clients see them. Apart from record-id.ts, so that threads which only show and look for ids load no hashing. */

const PREFIX = 'logstore_'

/** `logstore_` and 32 lower-case hexadecimal digits. */
export function formatRecordId(words: Uint32Array, at: number): string {
  let text = PREFIX
  for (let i = at; i < at + 4; i++) text += words[i]!.toString(16).padStart(8, '0')
  return text
}

/** False when the text is not what formatRecordId writes; words[at .. at + 4) are then unchanged. */
export function parseRecordId(text: string, words: Uint32Array, at: number): boolean {
  if (!/^logstore_[0-9a-f]{32}$/.test(text)) return false
  for (let i = 0; i < 4; i++) {
    const digit = PREFIX.length + 8 * i
    words[at + i] = Number.parseInt(text.slice(digit, digit + 8), 16)
  }
  return true
}
