/**
 * Text with some bytes of its UTF-8 written in another way. One pass over the bytes, without a call or a string for each that is written so: a page of
 * keys may have a million of them.
 */

/** Longest texts whose room is made once, as for keys. */
const TEXT_BYTES_USUAL = 1024

export class ByteEscapes {
  /** By byte; null: the byte stays. */
  readonly #escapes: readonly (Uint8Array | null)[]
  readonly #longest: number
  readonly #room: Buffer

  /** @param escapeOf how a byte is written; null: as it is. All bytes of a character that is not ASCII must be treated alike */
  constructor(escapeOf: (byte: number) => string | null) {
    this.#escapes = Array.from({ length: 256 }, (_, byte) => {
      const escape = escapeOf(byte)
      return escape === null ? null : Buffer.from(escape)
    })
    this.#longest = Math.max(1, ...this.#escapes.map((escape) => escape?.length ?? 0))
    this.#room = Buffer.allocUnsafeSlow(this.#longest * TEXT_BYTES_USUAL)
  }

  /** Half of a surrogate pair counts as U+FFFD. */
  escape(text: string): string {
    const bytes = Buffer.from(text)
    const roomBytes = this.#longest * bytes.length
    const into = roomBytes > this.#room.length ? Buffer.allocUnsafe(roomBytes) : this.#room
    let end = 0
    for (const byte of bytes) {
      const escape = this.#escapes[byte]!
      if (escape === null) into[end++] = byte
      else for (let i = 0; i < escape.length; i++) into[end++] = escape[i]!
    }
    return into.toString('utf8', 0, end)
  }
}
