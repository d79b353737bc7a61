/** Seeded pseudo-random numbers: the same seed gives the same records, run after run. Not for secrets. */

/** Bijective on 32 bits: different inputs never collide. Source: the finaliser of MurmurHash3. */
export function mix32(value: number): number {
  let mixed = value ^ (value >>> 16)
  mixed = Math.imul(mixed, 0x85eb_ca6b)
  mixed ^= mixed >>> 13
  mixed = Math.imul(mixed, 0xc2b2_ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}

export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = mix32(seed)
  }

  /** Uniform in [0, 2^32). Source: a Weyl sequence through mix32, as in SplitMix. */
  uint32(): number {
    this.#state = (this.#state + 0x9e37_79b9) >>> 0
    return mix32(this.#state)
  }

  /** Uniform integer in [min, max]. */
  between(min: number, max: number): number {
    return min + Math.floor((this.uint32() / 2 ** 32) * (max - min + 1))
  }

  pick<T>(choices: readonly [T, ...T[]]): T {
    return choices[this.between(0, choices.length - 1)] ?? choices[0]
  }
}
