/**
 * XXH64, XXH3 and XXH128 with seed 0, by WebAssembly of hash-wasm. It takes 14 MiB and tens of milliseconds to load, and few clients ask for these
 * checksums: each thread loads it with the first body that needs it.
 *
 * X1  there is one instance of each algorithm in a thread; bodies take turns, and the state of each is put aside meanwhile
 */
import assert from 'node:assert/strict'
import type { IHasher } from 'hash-wasm'

export type XxhashName = 'XXHASH64' | 'XXHASH3' | 'XXHASH128'

let hashers: Readonly<Record<XxhashName, IHasher>> | null = null
let loading: Promise<void> | null = null

/** @returns null: it is loaded */
export function loadXxhash(): Promise<void> | null {
  if (hashers !== null) return null
  loading ??= load().finally(() => {
    loading = null
  })
  return loading
}

async function load(): Promise<void> {
  const { createXXHash64, createXXHash3, createXXHash128 } = await import('hash-wasm')
  const [XXHASH64, XXHASH3, XXHASH128] = await Promise.all([createXXHash64(), createXXHash3(), createXXHash128()])
  hashers = { XXHASH64, XXHASH3, XXHASH128 }
}

export class XxhashDigest {
  readonly #hasher: IHasher
  #state: Uint8Array

  constructor(name: XxhashName) {
    assert(hashers !== null, 'loadXxhash was waited for')
    this.#hasher = hashers[name]
    this.#state = this.#hasher.init().save()
  }

  /** X1 */
  update(bytes: Uint8Array): void {
    this.#state = this.#hasher.load(this.#state).update(bytes).save()
  }

  /** In the canonical order of the algorithm: big-endian. */
  digest(): Buffer {
    return Buffer.from(this.#hasher.load(this.#state).digest('binary'))
  }
}
