/** Random entries for an index, the index built from them, and the plain list that says what every answer must be. */
import assert from 'node:assert/strict'
import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import { ActiveIndex } from '../../../src/logstore/index/active-index.ts'
import { BlockCache } from '../../../src/logstore/index/block-cache.ts'
import { IndexBuilder } from '../../../src/logstore/index/builder.ts'
import type { IndexHeader } from '../../../src/logstore/index/index-file.ts'
import { BundleIndex } from '../../../src/logstore/index/reader.ts'
import { memorySource } from '../../support/memory-source.ts'

export interface Entry {
  readonly id: readonly [number, number, number, number]
  /** All zero: no trace. */
  readonly trace: readonly [number, number, number, number]
  readonly time: bigint
  readonly partition: number
  readonly frameOffset: number
  readonly recordNumber: number
}

/** Few values, so that ties and shared prefixes are common; the extremes of a word among them. */
const word = fc.constantFrom(0, 1, 2, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff)
const time = fc.oneof(
  fc.constantFrom(0n, 1n, 0xffff_ffffn, 1n << 32n, (1n << 63n) + 5n, (1n << 64n) - 1n),
  fc.bigInt({ min: 1_700_000_000_000_000_000n, max: 1_700_000_000_000_000_020n }),
)
const draft = fc.record({
  firstWord: fc.constantFrom(7, 8, 0xffff_fff0),
  trace: fc.tuple(word, word, word, word),
  time,
  partition: fc.integer({ min: 0, max: 4 }),
  newFrame: fc.boolean(),
})

export const entries: fc.Arbitrary<Entry[]> = fc.array(draft, { maxLength: 300, size: 'max' }).map((drafts) => {
  let frameOffset = 64
  let recordNumber = -1
  return drafts.map(({ firstWord, trace, time, partition, newFrame }, i): Entry => {
    recordNumber = newFrame ? 0 : recordNumber + 1
    if (newFrame) frameOffset += 8 * (1 + (i % 5))
    return { id: [firstWord, 0, 0, i], trace, time, partition, frameOffset, recordNumber }
  })
})

export const partitionName = (number: number): { tenant: string; dataset: string } => ({
  tenant: number % 2 === 0 ? 'acme' : 'größe',
  dataset: `service-${number}`,
})

/** Bytes of the record with this id, as the index has them. */
export const bytesOf = (id: Entry['id']): number => 0xffff_ff00 + (id[3] & 0xff)
export const signalOf = (id: Entry['id']): number => 1 + (id[3] % 5 === 0 ? 1 : 0)

export function activeOf(list: readonly Entry[], capacity = 512): ActiveIndex {
  const active = ActiveIndex.create(capacity)
  for (const { id, trace, time, partition, frameOffset, recordNumber } of list) {
    const { tenant, dataset } = partitionName(partition)
    const number = active.partitionOf(tenant, dataset)
    const high = Number(time >> 32n)
    const low = Number(time & 0xffff_ffffn)
    active.append(
      Uint32Array.from(id),
      0,
      Uint32Array.from(trace),
      0,
      high,
      low,
      frameOffset,
      recordNumber,
      number,
      bytesOf(id),
      signalOf(id),
    )
  }
  active.publish(0, 0)
  return active
}

export const BASE = 4096
export const endOf = (list: readonly Entry[]): number => BASE + (list.at(-1)?.frameOffset ?? 64) + 8

/** A file that was built, with all of its bytes. */
export function build(
  builder: IndexBuilder,
  active: ActiveIndex,
  count: number,
  base: number,
  end: number,
): { readonly bytes: Buffer; readonly header: IndexHeader } {
  const parts: { readonly bytes: Buffer; readonly at: number }[] = []
  const built = builder.build(active, count, base, end, (bytes, at) => parts.push({ bytes: Buffer.from(bytes), at }))
  const bytes = Buffer.concat(parts.toSorted((a, b) => a.at - b.at).map((part) => part.bytes))
  assert.equal(bytes.byteLength, built.bytes)
  assert.equal(crc32(bytes), built.crc32)
  return { bytes, header: built.header }
}

export const buildOf = (list: readonly Entry[]): ReturnType<typeof build> =>
  build(new IndexBuilder(), activeOf(list), list.length, BASE, endOf(list))

export const openBytes = (bytes: Buffer, cacheBytes = 1 << 20): BundleIndex =>
  new BundleIndex(memorySource(bytes), '0000000000000000', new BlockCache(cacheBytes))

export const words = (time: bigint): [number, number] => [Number(time >> 32n), Number(time & 0xffff_ffffn)]

export function seek(index: BundleIndex, entry: number): Omit<Entry, 'trace'> {
  index.seekEntry(entry)
  const [w0, w1, w2, w3] = index.idOf(entry)
  return {
    id: [w0!, w1!, w2!, w3!],
    time: (BigInt(index.timeHigh) << 32n) | BigInt(index.timeLow),
    partition: index.partition,
    frameOffset: index.frameOffset,
    recordNumber: index.recordNumber,
  }
}
