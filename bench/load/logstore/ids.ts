/**
 * Trace and span ids as random as real ones, and yet computable from a number: what was sent can be asked for later
 * without having been remembered.
 *
 * I1  within a run (one seed) different traces have different trace ids, different records different span ids:
 *     the first word is a bijection of the number's low half, the second of its high half
 * I2  no id is all zeros, which OTLP calls invalid: a word that comes out as 0 at the end is replaced
 */
import { mix32 } from '../random.ts'

export class Ids {
  readonly #keys: Uint32Array

  constructor(seed: number) {
    this.#keys = Uint32Array.from({ length: 6 }, (_, index) => mix32(mix32(seed) + index * 0x9e37_79b9))
  }

  /** @param words receives the id, most significant word first */
  traceId(traceNumber: number, words: Uint32Array): void {
    const keys = this.#keys
    const low = mix32(traceNumber ^ keys[0]!)
    words[0] = low
    words[1] = mix32(high(traceNumber) ^ low ^ keys[1]!)
    words[2] = mix32(low ^ keys[2]!)
    words[3] = mix32(low + keys[3]!) || 1 // I2
  }

  spanId(recordNumber: number, words: Uint32Array): void {
    const keys = this.#keys
    const low = mix32(recordNumber ^ keys[4]!)
    words[0] = low
    words[1] = mix32(high(recordNumber) ^ low ^ keys[5]!)
    if (low === 0 && words[1] === 0) words[0] = 1 // I2: collides with one other id in 2^64, if at all
  }

  traceIdHex(traceNumber: number): string {
    const words = new Uint32Array(4)
    this.traceId(traceNumber, words)
    return toHex(words)
  }

  spanIdHex(recordNumber: number): string {
    const words = new Uint32Array(2)
    this.spanId(recordNumber, words)
    return toHex(words)
  }
}

/** The bits above the lowest 32 of an integer up to 2^53. */
function high(value: number): number {
  return Math.floor(value / 2 ** 32)
}

function toHex(words: Uint32Array): string {
  return [...words].map((word) => word.toString(16).padStart(8, '0')).join('')
}
