/** Keys and values for tests of the key index. */
import type { KeyIndex } from '../../../src/objectstore/index/key-index.ts'
import type { ObjectValue } from '../../../src/objectstore/index/value.ts'
import { bytesOf, textOf } from './naive-index.ts'
import type { NaiveIndex } from './naive-index.ts'

/** A value that differs in every field from those of other numbers. */
export const valueOf = (number: number): ObjectValue => ({
  position: 2 ** 47 + number,
  size: 2 ** 33 + number,
  lastModifiedMs: 1_795_000_000_000 + number,
  commitSequence: number,
  etag: number.toString(16).padStart(32, 'a'),
  parts: number % 10_001,
  flags: number % 1024,
})

/** All keys of a bucket with their values, in the order of a scan. */
export const contentOf = (index: KeyIndex, bucket: number): [string, ObjectValue][] =>
  index.scan(bucket, { max: Infinity }).keys.map(({ key, value }) => [textOf(key), value])

export const expectedContent = (naive: NaiveIndex, bucket: number): [string, ObjectValue][] =>
  naive.sorted(bucket).map((key) => [key, naive.bucket(bucket).get(key)!])

export const put = (index: KeyIndex, bucket: number, ...keys: string[]): void => {
  for (const [i, key] of keys.entries()) index.put(bucket, bytesOf(key), valueOf(i))
}
