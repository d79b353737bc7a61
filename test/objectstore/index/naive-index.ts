/** A model of the key index: a map that is sorted for each question. Keys are texts with one character for each byte. */
import type { ObjectValue } from '../../../src/objectstore/index/value.ts'

export const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('latin1')
export const bytesOf = (text: string): Buffer => Buffer.from(text, 'latin1')

interface NaiveListing {
  readonly keys: readonly string[]
  readonly commonPrefixes: readonly string[]
  readonly truncated: boolean
}

export class NaiveIndex {
  readonly #buckets = new Map<number, Map<string, ObjectValue>>()

  get buckets(): number[] {
    return [...this.#buckets.keys()]
  }

  bucket(bucket: number): ReadonlyMap<string, ObjectValue> {
    return this.#buckets.get(bucket) ?? new Map<string, ObjectValue>()
  }

  put(bucket: number, key: string, value: ObjectValue): ObjectValue | null {
    const before = this.bucket(bucket).get(key) ?? null
    if (!this.#buckets.has(bucket)) this.#buckets.set(bucket, new Map())
    this.#buckets.get(bucket)!.set(key, value)
    return before
  }

  delete(bucket: number, key: string): ObjectValue | null {
    const before = this.bucket(bucket).get(key) ?? null
    this.#buckets.get(bucket)?.delete(key)
    return before
  }

  sorted(bucket: number): string[] {
    return [...this.bucket(bucket).keys()].sort(compare)
  }

  copy(): NaiveIndex {
    const copy = new NaiveIndex()
    for (const [bucket, keys] of this.#buckets) copy.#buckets.set(bucket, new Map(keys))
    return copy
  }

  scan(
    bucket: number,
    options: { prefix: string; delimiter: string; from: string; after: string; max: number },
  ): NaiveListing {
    const { prefix, delimiter, from, after, max } = options
    const keys: string[] = []
    const commonPrefixes: string[] = []
    for (const key of this.sorted(bucket)) {
      if (!key.startsWith(prefix) || compare(key, from) < 0 || (after !== '' && compare(key, after) <= 0)) continue
      const end = delimiter === '' ? -1 : key.indexOf(delimiter, prefix.length)
      const common = end < 0 ? null : key.slice(0, end + delimiter.length)
      if (common !== null && common === commonPrefixes.at(-1)) continue
      if (keys.length + commonPrefixes.length === max) return { keys, commonPrefixes, truncated: max > 0 }
      if (common === null) keys.push(key)
      else commonPrefixes.push(common)
    }
    return { keys, commonPrefixes, truncated: false }
  }
}

/** With one character for each byte, UTF-16 units have the order of the bytes. */
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)
