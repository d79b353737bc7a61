/**
 * The CRC of two messages one behind the other, from their CRCs alone: crc(a · b) = crc(a) · x^(8 · |b|) + crc(b) modulo the generator.
 *
 * Holds for reflected CRCs that begin and end with all ones: what both add cancels out.
 *
 * Source: Mark Adler, crc32_combine of zlib.
 */

/** Modulo the generator, in two words: x^0 is the highest bit of `high`. With a generator of degree 32, `low` is 0. */
interface Remainder {
  readonly high: number
  readonly low: number
}

const ONE: Remainder = { high: 1 << 31, low: 0 }
const X: Remainder = { high: 1 << 30, low: 0 }

export class CrcCombiner {
  readonly #is64: boolean
  readonly #generator: Remainder
  /** x^(2^k), as far as was needed. */
  readonly #squares = [X]
  /** Length of the last call. Its power is kept, because all parts of an upload but one have the same length. */
  #bytes = 0
  #power = ONE

  /** @param generator without its highest power, reflected: bit widthBits - 1 - i is the coefficient of x^i */
  constructor(widthBits: 32 | 64, generator: bigint) {
    this.#is64 = widthBits === 64
    this.#generator = this.#remainder(generator)
  }

  /** @param secondBytes length of the second message */
  combine(first: bigint, second: bigint, secondBytes: number): bigint {
    if (secondBytes !== this.#bytes) {
      this.#power = this.#powerOf(secondBytes)
      this.#bytes = secondBytes
    }
    const { high, low } = this.#multiply(this.#power, this.#remainder(first))
    const shifted = this.#is64 ? (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0) : BigInt(high >>> 0)
    return shifted ^ second
  }

  #remainder(crc: bigint): Remainder {
    const low = Number(BigInt.asIntN(32, crc))
    return this.#is64 ? { high: Number(BigInt.asIntN(32, crc >> 32n)), low } : { high: low, low: 0 }
  }

  /** x^(8 · bytes). */
  #powerOf(bytes: number): Remainder {
    let power = ONE
    let k = 3
    for (let left = bytes; left > 0; left = Math.floor(left / 2)) {
      if (left % 2 === 1) power = this.#multiply(this.#square(k), power)
      k++
    }
    return power
  }

  #square(k: number): Remainder {
    for (let last = this.#squares.length - 1; last < k; last++) {
      this.#squares.push(this.#multiply(this.#squares[last]!, this.#squares[last]!))
    }
    return this.#squares[k]!
  }

  /** Words, not a bigint, which takes several times as long: an upload may have ten thousand parts. */
  #multiply(a: Remainder, b: Remainder): Remainder {
    const generator = this.#generator
    let { high, low } = b // times x^i in turn i
    let productHigh = 0
    let productLow = 0
    for (let i = 0; i < (this.#is64 ? 64 : 32); i++) {
      const taken = -(((i < 32 ? a.high : a.low) >>> (31 - (i & 31))) & 1) // all ones or none
      productHigh ^= high & taken
      productLow ^= low & taken
      const carried = -((this.#is64 ? low : high) & 1)
      low = this.#is64 ? ((low >>> 1) | (high << 31)) ^ (generator.low & carried) : 0
      high = (high >>> 1) ^ (generator.high & carried)
    }
    return { high: productHigh, low: productLow }
  }
}
