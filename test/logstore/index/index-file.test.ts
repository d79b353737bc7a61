import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { StoreError } from '../../../src/errors.ts'
import { ActiveIndex } from '../../../src/logstore/index/active-index.ts'
import { IndexBuilder } from '../../../src/logstore/index/builder.ts'
import { BLOCK_BYTES, HEADER_BYTES, sealIndexFile } from '../../../src/logstore/index/index-file.ts'
import type { BundleIndex } from '../../../src/logstore/index/reader.ts'
import {
  BASE,
  activeOf,
  build,
  buildOf,
  bytesOf,
  endOf,
  entries,
  openBytes,
  partitionName,
  seek,
  signalOf,
  words,
} from './support.ts'
import type { Entry } from './support.ts'

const byTime = (list: readonly Entry[], partition: number): { entry: number; time: bigint }[] =>
  list
    .map(({ time, partition }, entry) => ({ entry, time, partition }))
    .filter((one) => one.partition === partition)
    .sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : a.entry - b.entry))
    .map(({ entry, time }) => ({ entry, time }))

function postingsOf(index: BundleIndex, partition: number): { entry: number; time: bigint }[] {
  const { tenant, dataset } = partitionName(partition)
  const found = index.findPartition(tenant, dataset)
  if (found === null) return []
  return Array.from({ length: found.records }, (_, row) => {
    index.seekPosting(found.firstPosting + row)
    return {
      entry: index.postingEntry,
      time: (BigInt(index.postingTimeHigh) << 32n) | BigInt(index.postingTimeLow),
    }
  })
}

describe('the index of a bundle', () => {
  it('gives back every entry in ingest order, and finds each by its id', () => {
    fc.assert(
      fc.property(entries, (list) => {
        const index = openBytes(buildOf(list).bytes)
        assert.equal(index.entryCount, list.length)
        for (const [entry, expected] of list.entries()) {
          const { trace: _, ...columns } = expected
          const { tenant, dataset } = partitionName(expected.partition)
          assert.deepEqual(seek(index, entry), { ...columns, partition: index.findPartition(tenant, dataset)?.number })
          assert.ok(index.mayContainId(...expected.id))
          assert.equal(index.findId(...expected.id)?.entry, entry)
        }
      }),
    )
  })

  it('says of every partition what is in it: records, bytes, signals and the times of the first and the last', () => {
    fc.assert(
      fc.property(entries, (list) => {
        const index = openBytes(buildOf(list).bytes)
        const summaries = [...index.partitions()]
        const used = new Set(list.map(({ partition }) => partition))
        assert.equal(summaries.length, used.size)
        for (const number of used) {
          const own = list.filter(({ partition }) => partition === number)
          const names = partitionName(number)
          const found = summaries.find(({ tenant, dataset }) => tenant === names.tenant && dataset === names.dataset)
          const times = own.map(({ time }) => time).sort((a, b) => (a < b ? -1 : 1))
          const bytes = own.reduce((sum, { id }) => sum + bytesOf(id), 0)
          const signals = own.reduce((bits, { id }) => bits | signalOf(id), 0) // for signals 1 and 2, the bit is the number
          assert.ok(found)
          assert.deepEqual(found.facts, { bytes, signals })
          assert.deepEqual(found.partition, index.findPartition(names.tenant, names.dataset))
          const { records, minTimeHigh, minTimeLow, maxTimeHigh, maxTimeLow } = found.partition
          assert.equal(records, own.length)
          assert.deepEqual(
            [minTimeHigh, minTimeLow, maxTimeHigh, maxTimeLow],
            [...words(times[0]!), ...words(times.at(-1)!)],
          )
        }
      }),
    )
  })

  it('of a version that did not count bytes and signals is read, and says that it does not know them', () => {
    fc.assert(
      fc.property(entries, (list) => {
        const { bytes, header } = buildOf(list)
        const checksums = Uint32Array.from({ length: header.blockCount }, (_, block) =>
          bytes.readUInt32LE(HEADER_BYTES + 4 * block),
        )
        sealIndexFile(bytes, checksums, { ...header, factBytes: 0 })
        const index = openBytes(bytes)
        for (const { partition, tenant, dataset, facts } of index.partitions()) {
          assert.equal(facts, null)
          assert.deepEqual(index.findPartition(tenant, dataset), partition)
        }
      }),
    )
  })

  it('finds no id that is not there', () => {
    fc.assert(
      fc.property(
        entries,
        fc.tuple(fc.constantFrom(0, 7, 8, 0xffff_ffff), fc.nat(2), fc.nat(2), fc.nat(400)),
        (list, id) => {
          const index = openBytes(buildOf(list).bytes)
          const expected = list.findIndex((entry) => entry.id.every((word, i) => word === id[i]))
          assert.equal(index.findId(...id)?.entry ?? -1, expected)
        },
      ),
    )
  })

  it('lists the records of a trace in ingest order, and none without a trace id', () => {
    fc.assert(
      fc.property(entries, fc.nat(), (list, pick) => {
        const index = openBytes(buildOf(list).bytes)
        const trace = list[pick % Math.max(1, list.length)]?.trace ?? [1, 2, 3, 4]
        const none = trace.every((word) => word === 0)
        const expected = none
          ? []
          : list.flatMap((entry, number) => (entry.trace.every((word, i) => word === trace[i]) ? [number] : []))
        const { from, to } = index.traceRows(...trace)
        assert.deepEqual(
          Array.from({ length: to - from }, (_, i) => index.traceEntry(from + i)),
          expected,
        )
        if (expected.length > 0) assert.ok(index.mayContainTrace(...trace))
      }),
    )
  })

  it('lists a partition by time, ties in ingest order, and counts any range of it', () => {
    fc.assert(
      fc.property(entries, fc.nat(4), fc.nat(), fc.nat(), (list, partition, pickFrom, pickTo) => {
        const index = openBytes(buildOf(list).bytes)
        const expected = byTime(list, partition)
        assert.deepEqual(postingsOf(index, partition), expected)
        const { tenant, dataset } = partitionName(partition)
        const found = index.findPartition(tenant, dataset)
        if (found === null) return assert.equal(expected.length, 0)
        const from = list[pickFrom % list.length]!.time
        const to = list[pickTo % list.length]!.time
        const inRange = expected.filter(({ time }) => time >= from && time < to)
        const postingsBefore = (time: bigint): number =>
          index.lowerBoundPosting(found, ...words(time), 0) - found.firstPosting
        assert.equal(Math.max(0, postingsBefore(to) - postingsBefore(from)), inRange.length)
        assert.equal(index.lowerBoundPosting(found, 2 ** 32, 0, 0) - found.firstPosting, expected.length)
      }),
    )
  })

  it('places any frame and record among its entries', () => {
    fc.assert(
      fc.property(entries, fc.nat(2000), fc.nat(20), (list, frameOffset, recordNumber) => {
        const index = openBytes(buildOf(list).bytes)
        const before = list.filter(
          (entry) =>
            entry.frameOffset < frameOffset || (entry.frameOffset === frameOffset && entry.recordNumber < recordNumber),
        )
        assert.equal(index.entriesBefore(frameOffset, recordNumber), before.length)
      }),
    )
  })

  it('holds only the entries it was asked to take', () => {
    const list = fc.sample(entries, { seed: 1, numRuns: 20 }).find(({ length }) => length > 50)!
    const part = list.slice(0, 20)
    const { bytes } = build(new IndexBuilder(), activeOf(list), part.length, BASE, endOf(part))
    assert.ok(bytes.equals(buildOf(part).bytes))
  })

  it('is the same file whatever its builder built before', () => {
    const builder = new IndexBuilder()
    for (const [number, list] of fc.sample(entries, { seed: 2, numRuns: 20 }).entries()) {
      if (number % 3 === 2) builder.discard()
      assert.ok(build(builder, activeOf(list), list.length, BASE, endOf(list)).bytes.equals(buildOf(list).bytes))
    }
  })

  it('is made in pieces, so that it is never in memory as a whole', () => {
    const count = 100_000
    const active = ActiveIndex.create(count)
    const partition = active.partitionOf('acme', 'orders')
    const [id, trace] = [new Uint32Array(4), new Uint32Array(4)]
    for (let i = 0; i < count; i++) {
      id[0] = Math.imul(i, 0x9e3779b1)
      trace[3] = i
      active.append(id, 0, trace, 0, 1, i, 64 + 8 * i, 0, partition, 1, 1)
    }
    active.publish(0, 0)
    let longest = 0
    const builder = new IndexBuilder()
    const built = builder.build(active, count, 0, 64 + 8 * count, ({ byteLength }) => {
      longest = Math.max(longest, byteLength)
    })
    assert(longest < built.bytes / 3, `${longest} of ${built.bytes} bytes`)
    const index = openBytes(build(builder, active, count, 0, 64 + 8 * count).bytes)
    for (let i = 0; i < count; i += 997) {
      const entry = index.findId(Math.imul(i, 0x9e3779b1) >>> 0, 0, 0, 0)?.entry
      assert.equal(entry, i)
      index.seekEntry(i)
      assert.deepEqual([index.timeLow, index.frameOffset], [i, 64 + 8 * i])
    }
  })

  it('answers rightly over many blocks, also with a cache of one block', () => {
    const count = 20_000
    const active = ActiveIndex.create(count)
    const id = new Uint32Array(4)
    const trace = new Uint32Array(4)
    const partition = active.partitionOf('acme', 'orders')
    const other = active.partitionOf('acme', 'payments')
    for (let i = 0; i < count; i++) {
      id[0] = Math.imul(i, 0x9e3779b1)
      id[3] = i
      trace[3] = 1 + (i % 7)
      active.append(
        id,
        0,
        trace,
        0,
        1,
        (i * 7919) % 5000,
        64 + 8 * (i >> 4),
        i & 15,
        i % 3 === 0 ? other : partition,
        1,
        1,
      )
    }
    active.publish(0, 0)
    const { bytes } = build(new IndexBuilder(), active, count, 0, 64 + 8 * count)
    const index = openBytes(bytes, BLOCK_BYTES)
    for (let i = 0; i < count; i += 97) {
      assert.equal(index.findId(Math.imul(i, 0x9e3779b1) >>> 0, 0, 0, i)?.entry, i)
      assert.equal(index.findId((Math.imul(i, 0x9e3779b1) + 1) >>> 0, 0, 0, i), null)
    }
    const { from, to } = index.traceRows(0, 0, 0, 3)
    assert.equal(to - from, Array.from({ length: count }, (_, i) => i).filter((i) => i % 7 === 2).length)
    assert.equal(index.traceEntry(from), 2)
    assert.equal(index.traceEntry(to - 1), 19_994 + ((2 - (19_994 % 7) + 7) % 7))
    const found = index.findPartition('acme', 'orders')!
    for (const time of [0, 1, 1234, 2500, 4999, 5000]) {
      const expected = Array.from({ length: count }, (_, i) => i).filter((i) => i % 3 !== 0 && (i * 7919) % 5000 < time)
      assert.equal(index.lowerBoundPosting(found, 1, time, 0) - found.firstPosting, expected.length)
    }
    assert.equal(index.findPartition('acme', 'nothing'), null)
  })
})

describe('a damaged index file', () => {
  const list = fc.sample(entries, { seed: 5, numRuns: 30 }).find(({ length }) => length > 200)!
  const { bytes } = buildOf(list)
  const whole = readAll(openBytes(bytes))

  it('gives the right answers or says that it is corrupt, whichever bit is flipped', () => {
    fc.assert(
      fc.property(fc.nat(bytes.byteLength * 8 - 1), (bit) => sameOrCorrupt(flipped(bytes, bit))),
      { numRuns: 300 },
    )
  })

  it('says so of every flipped bit of its header', () => {
    for (let bit = 0; bit < 8 * HEADER_BYTES; bit++) assert.throws(() => openBytes(flipped(bytes, bit)), isCorrupt)
  })

  it('says so wherever it is cut, and when bytes follow it', () => {
    fc.assert(
      fc.property(fc.nat(bytes.byteLength - 1), (length) =>
        assert.throws(() => openBytes(bytes.subarray(0, length)), isCorrupt),
      ),
    )
    assert.throws(() => openBytes(Buffer.concat([bytes, Buffer.alloc(BLOCK_BYTES)])), isCorrupt)
  })

  function sameOrCorrupt(damaged: Buffer): void {
    let answers: unknown
    try {
      answers = readAll(openBytes(damaged))
    } catch (error) {
      return assert.ok(isCorrupt(error))
    }
    assert.deepEqual(answers, whole)
  }

  function readAll(index: BundleIndex): unknown {
    return {
      entries: list.map((_, entry) => seek(index, entry)),
      ids: list.map(({ id }) => [index.mayContainId(...id), index.findId(...id)]),
      traces: list.map(({ trace }) => {
        const { from, to } = index.traceRows(...trace)
        return Array.from({ length: to - from }, (_, i) => index.traceEntry(from + i))
      }),
      postings: [0, 1, 2, 3, 4].map((partition) => postingsOf(index, partition)),
    }
  }
})

function flipped(bytes: Buffer, bit: number): Buffer {
  const damaged = Buffer.from(bytes)
  damaged[bit >> 3]! ^= 1 << (bit & 7)
  return damaged
}

const isCorrupt = (error: unknown): boolean =>
  error instanceof StoreError &&
  error.kind === 'corrupt' &&
  error.code === 'bundle_index_corrupt' &&
  error.message.startsWith('bundle 0000000000000000: ')
