/**
 * Finds where a delimiter stands in a key for the first time, as Knuth, Morris and Pratt do: what was compared is not compared again. So a search
 * takes at most two comparisons for each byte of the key, however much key and delimiter are alike.
 */
export class FirstEnd {
  readonly #delimiter: Uint8Array
  /** By the number of bytes of the delimiter that agree: how many still do when the next one differs. Made for the first key that can need it. */
  #agreeing: Uint16Array | null = null

  constructor(delimiter: Uint8Array) {
    this.#delimiter = delimiter
  }

  /** Where the first occurrence in `key` at or behind `from` ends; 0 when there is none, or the delimiter is empty. */
  in(key: Uint8Array, from: number, keyBytes: number): number {
    const { length } = this.#delimiter
    if (length === 0 || from + length > keyBytes) return 0
    return length === 1 ? behindByte(key, this.#delimiter[0]!, from, keyBytes) : this.#search(key, from, keyBytes)
  }

  #search(key: Uint8Array, from: number, keyBytes: number): number {
    const delimiter = this.#delimiter
    const { length } = delimiter
    const agreeing = (this.#agreeing ??= agreeingOf(delimiter))
    let agreed = 0
    for (let at = from; at < keyBytes; at++) {
      while (agreed > 0 && key[at] !== delimiter[agreed]) agreed = agreeing[agreed]!
      if (key[at] === delimiter[agreed]) agreed++
      if (agreed === length) return at + 1
    }
    return 0
  }
}

function behindByte(key: Uint8Array, byte: number, from: number, keyBytes: number): number {
  for (let at = from; at < keyBytes; at++) if (key[at] === byte) return at + 1
  return 0
}

function agreeingOf(delimiter: Uint8Array): Uint16Array {
  const agreeing = new Uint16Array(delimiter.length + 1)
  let agreed = 0
  for (let at = 1; at < delimiter.length; at++) {
    while (agreed > 0 && delimiter[at] !== delimiter[agreed]) agreed = agreeing[agreed]!
    if (delimiter[at] === delimiter[agreed]) agreed++
    agreeing[at + 1] = agreed
  }
  return agreeing
}
