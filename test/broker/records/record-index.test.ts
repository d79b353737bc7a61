import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { Places } from '../../../src/broker/records/places.ts'
import { RecordIndex } from '../../../src/broker/records/record-index.ts'
import { RUN_RECORDS_MAX } from '../../../src/broker/records/record-run.ts'
import { decodeSegmentIndex, encodeSegmentIndex } from '../../../src/broker/records/segment-index.ts'

const SEGMENT_BYTES = 1 << 20
/** Bytes of a record's key, headers and frame. */
const BESIDE_PAYLOAD_BYTES = 70

interface Entry {
  readonly segmentBase: number
  readonly place: number
  readonly eventTimeMs: number
  readonly ingestTimeMs: number
  readonly bytes: number
}

type Operation =
  | { readonly kind: 'append'; readonly hole: number; readonly records: readonly Sizes[] }
  | { readonly kind: 'move'; readonly at: number; readonly count: number }
  | { readonly kind: 'rotate' | 'dropOldest' | 'reload' }
  | { readonly kind: 'dropBelow'; readonly at: number }

interface Sizes {
  readonly timeMs: number
  readonly bytes: number
}

/** The index beside a map of every record that it should know. */
class World {
  index = new RecordIndex()
  readonly entries = new Map<number, Entry>()
  nextOffset = 0
  #floor = 0
  #base = 0
  #place = 64
  #nowMs = 1000
  readonly #sidecars = new Map<number, Uint8Array<ArrayBuffer>>()
  /** Frames of the active segment. */
  #frames: { readonly first: number; readonly place: number; readonly entries: readonly Entry[] }[] = []

  run(operation: Operation): void {
    switch (operation.kind) {
      case 'append':
        this.nextOffset += operation.hole
        this.#nowMs += 5
        this.#append(
          this.nextOffset,
          operation.records.map(({ timeMs, bytes }) => ({ ...this.#here, eventTimeMs: timeMs, bytes })),
        )
        this.nextOffset += operation.records.length
        return
      case 'move': {
        const { offsets } = this
        const first = offsets[operation.at % Math.max(1, offsets.length)]
        if (first === undefined) return
        const moved: Entry[] = []
        for (let offset = first; moved.length < operation.count; offset++) {
          const entry = this.entries.get(offset)
          if (entry === undefined || entry.segmentBase === this.#base) break
          moved.push({ ...entry, segmentBase: this.#base, place: this.#place })
        }
        return this.#append(first, moved)
      }
      case 'rotate':
        this.#sidecars.set(
          this.#base,
          encodeSegmentIndex(this.#segment(this.#base), [{ number: 4, index: this.index }]),
        )
        this.#base += SEGMENT_BYTES
        this.#place = 64
        this.#frames = []
        return
      case 'dropOldest': {
        const [oldest] = this.#sidecars.keys()
        if (oldest === undefined) return
        this.#sidecars.delete(oldest)
        this.index.dropSegment(oldest)
        for (const [offset, { segmentBase }] of this.entries) if (segmentBase === oldest) this.entries.delete(offset)
        return
      }
      case 'dropBelow':
        this.#floor = Math.max(this.#floor, operation.at % (this.nextOffset + 1))
        this.index.dropBelow(this.#floor)
        for (const offset of this.entries.keys()) if (offset < this.#floor) this.entries.delete(offset)
        return
      case 'reload':
        this.index = new RecordIndex()
        this.index.dropBelow(this.#floor)
        for (const [base, bytes] of this.#sidecars) {
          const runs = decodeSegmentIndex(bytes, this.#segment(base))
          assert.ok(runs)
          for (const { streamNumber, run } of runs) {
            assert.equal(streamNumber, 4)
            this.index.adopt(run)
          }
        }
        for (const { first, place, entries } of this.#frames) this.#index(first, place, entries)
    }
  }

  get offsets(): number[] {
    return [...this.entries.keys()].sort((a, b) => a - b)
  }

  #append(first: number, entries: readonly Entry[]): void {
    const place = this.#place
    this.#place += 8 * (entries.length + 1)
    this.#frames.push({ first, place, entries })
    this.#index(first, place, entries)
    for (const [i, entry] of entries.entries()) this.entries.set(first + i, entry)
  }

  /** Adds each record as a frame of its own, as a frame has one ingest time and records moved together may have several. */
  #index(first: number, place: number, entries: readonly Entry[]): void {
    for (const [i, { ingestTimeMs, eventTimeMs, bytes }] of entries.entries()) {
      const at = { segmentBase: this.#base, place, frameBytes: bytes + BESIDE_PAYLOAD_BYTES }
      this.index.append(
        at,
        first + i,
        1,
        ingestTimeMs,
        () => eventTimeMs,
        () => bytes,
      )
    }
  }

  get #here() {
    return { segmentBase: this.#base, place: this.#place, ingestTimeMs: this.#nowMs }
  }

  #segment(base: number) {
    return { base, end: base + SEGMENT_BYTES - 64 }
  }
}

const sizes = fc.record(
  { timeMs: fc.oneof(fc.nat(50), fc.integer({ min: 900, max: 1100 })), bytes: fc.nat(20) },
  { noNullPrototype: true },
)
const append = fc.record(
  {
    kind: fc.constant('append' as const),
    hole: fc.oneof({ weight: 5, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(3) }),
    records: fc.oneof(
      fc.array(sizes, { minLength: 1, maxLength: 5 }),
      fc.array(sizes, { minLength: 60, maxLength: 150, size: 'max' }),
    ),
  },
  { noNullPrototype: true },
)
const move = fc.record({ kind: fc.constant('move' as const), at: fc.nat(), count: fc.integer({ min: 1, max: 100 }) })
const simple = fc.record({ kind: fc.constantFrom('rotate' as const, 'dropOldest' as const, 'reload' as const) })
const dropBelow = fc.record({ kind: fc.constant('dropBelow' as const), at: fc.nat() })
const history = (...kinds: fc.Arbitrary<Operation>[]): fc.Arbitrary<readonly Operation[]> =>
  fc.array(fc.oneof(...kinds), { maxLength: 25, size: 'max' })

function after(operations: readonly Operation[]): World {
  const world = new World()
  for (const operation of operations) world.run(operation)
  return world
}

const anything = history(append, append, append, move, simple, simple, dropBelow)
const range = fc.tuple(fc.nat(500), fc.nat(500))

function collected(
  index: RecordIndex,
  from: number,
  end: number,
  max: number,
): { offset: number; base: number; place: number }[] {
  const out = new Places(max)
  index.collect(from, end, max, out)
  return Array.from({ length: out.count }, (_, n) => ({
    offset: out.offset(n),
    base: out.segmentBase(n),
    place: out.place(n),
  }))
}

describe('the index of a stream', () => {
  it('finds every record where it was stored last, and no other', () => {
    fc.assert(
      fc.property(anything, (operations) => {
        const world = after(operations)
        const { index, entries } = world
        for (let offset = 0; offset <= world.nextOffset; offset++) {
          const out = new Places(1)
          const entry = entries.get(offset)
          assert.equal(index.find(offset, out), entry !== undefined)
          if (entry) assert.deepEqual([out.segmentBase(0), out.place(0)], [entry.segmentBase, entry.place])
        }
        assert.equal(index.recordCount, entries.size)
        assert.equal(index.firstOffset, world.offsets[0] ?? index.end)
        if (entries.size > 0) assert.equal(index.end, world.offsets.at(-1)! + 1)
      }),
    )
  })

  it('tells which records have their places in a range of a segment', () => {
    fc.assert(
      fc.property(anything, fc.nat(3), fc.nat(2000), fc.nat(2000), (operations, segment, from, to) => {
        const { index, entries } = after(operations)
        const segmentBase = segment * SEGMENT_BYTES
        const found = index
          .offsetsAt(segmentBase, from, to)
          .flatMap(({ from, end }) => Array.from({ length: end - from }, (_, i) => from + i))
        const expected = [...entries].filter(
          ([, { segmentBase: base, place }]) => base === segmentBase && place >= from && place < to,
        )
        assert.deepEqual(
          found,
          expected.map(([offset]) => offset).sort((a, b) => a - b),
        )
      }),
    )
  })

  it('lists the records of any range in order, as many as asked for', () => {
    fc.assert(
      fc.property(anything, range, fc.nat(300), (operations, [from, length], max) => {
        const world = after(operations)
        const inRange = world.offsets.filter((offset) => offset >= from && offset < from + length)
        const expected = inRange.slice(0, max).map((offset) => {
          const { segmentBase: base, place } = world.entries.get(offset)!
          return { offset, base, place }
        })
        assert.deepEqual(collected(world.index, from, from + length, max), expected)
        assert.equal(world.index.recordsBetween(from, from + length), inRange.length)
      }),
    )
  })

  it('leads to the first record at or above any time, whatever was dropped or moved', () => {
    fc.assert(
      fc.property(
        anything,
        fc.constantFrom('event', 'ingest'),
        fc.nat(1200),
        fc.nat(600),
        (operations, by, timeMs, from) => {
          const world = after(operations)
          const timeOf = (offset: number): number => {
            const { eventTimeMs, ingestTimeMs } = world.entries.get(offset)!
            return by === 'event' ? eventTimeMs : ingestTimeMs
          }
          const expected = world.offsets.find((offset) => offset >= from && timeOf(offset) >= timeMs)
          let found: number | undefined
          for (let next = from; found === undefined;) {
            const candidates = world.index.candidates(by, timeMs, next)
            if (candidates === null) break
            assert.ok(
              candidates.from >= next && candidates.end > candidates.from && candidates.end - candidates.from <= 64,
            )
            found = collected(world.index, candidates.from, candidates.end, 64)
              .map(({ offset }) => offset)
              .find((offset) => timeOf(offset) >= timeMs)
            next = candidates.end
          }
          assert.equal(found, expected)
        },
      ),
    )
  })

  it('leads to the oldest record that fits into a size, exactly, while nothing was moved', () => {
    fc.assert(
      fc.property(history(append, append, simple, dropBelow), fc.nat(4000), (operations, maxBytes) => {
        const world = after(operations)
        assert.equal(lowestKept(world, maxBytes), lowestByCounting(world, maxBytes))
      }),
    )
  })

  it('never leads to giving up a record that fits into a size', () => {
    fc.assert(
      fc.property(anything, fc.nat(4000), (operations, maxBytes) => {
        const world = after(operations)
        assert.ok(lowestKept(world, maxBytes) <= lowestByCounting(world, maxBytes))
      }),
    )
  })

  it('counts nothing for what is left of 64 neighbours of which some were moved', () => {
    const world = new World()
    const records = Array.from({ length: 64 }, () => ({ timeMs: 1, bytes: 10 }))
    world.run({ kind: 'append', hole: 0, records })
    world.run({ kind: 'rotate' })
    world.run({ kind: 'move', at: 0, count: 32 })
    assert.equal(lowestKept(world, 700), 0) // 640 bytes are stored; counting the 32 moved records twice would make 960
    assert.equal(world.index.storedBytes, 640 + 64 * BESIDE_PAYLOAD_BYTES)
  })

  it('says how much it holds, and in each segment: records exactly, bytes when they are of one size', () => {
    const uniform = history(
      append.map((operation) => ({ ...operation, records: operation.records.map((one) => ({ ...one, bytes: 10 })) })),
      move,
      simple,
      dropBelow,
    )
    fc.assert(
      fc.property(uniform, (operations) => {
        const { index, entries, offsets } = after(operations)
        assert.equal(Math.round(index.storedBytes), (10 + BESIDE_PAYLOAD_BYTES) * entries.size)
        const bases = [...new Set(Array.from(entries.values(), ({ segmentBase }) => segmentBase))].sort((a, b) => a - b)
        const expected = bases.map((segmentBase) => {
          const own = offsets.filter((offset) => entries.get(offset)!.segmentBase === segmentBase)
          const records = own.length
          return { segmentBase, records, payloadBytes: 10 * records, firstOffset: own[0], lastOffset: own.at(-1) }
        })
        assert.deepEqual(index.segments(), expected)
        assert.equal(index.oldestSegment, bases[0] ?? null)
      }),
    )
  })

  it('goes on in a new run when one is full, in memory as from a sidecar', () => {
    const count = 131_200 // two runs and 128
    const index = new RecordIndex()
    for (let offset = 0; offset < count; offset += 100) {
      const place = { segmentBase: 0, place: 64 + 8 * offset, frameBytes: 1000 }
      index.append(
        place,
        offset,
        100,
        1000 + offset,
        (n) => offset + n,
        () => 3,
      )
    }
    const loaded = new RecordIndex()
    const segment = { base: 0, end: 1 << 24 }
    for (const { run } of decodeSegmentIndex(encodeSegmentIndex(segment, [{ number: 1, index }]), segment)!) {
      loaded.adopt(run)
    }
    for (const each of [index, loaded]) {
      assert.equal(each.runsIn(0).length, 3)
      assert.equal(each.recordCount, count)
      assert.equal(Math.round(each.storedBytes), 10 * count)
      for (const offset of [0, RUN_RECORDS_MAX - 1, RUN_RECORDS_MAX, count - 1]) {
        const [found] = collected(each, offset, count, 1)
        assert.deepEqual(found, { offset, base: 0, place: 64 + 800 * Math.floor(offset / 100) })
        const candidates = each.candidates('event', offset)
        assert.ok(candidates && candidates.from <= offset && offset < candidates.end)
      }
      assert.equal(each.candidates('event', count), null)
    }
  })
})

function lowestKept({ index, entries, nextOffset }: World, maxBytes: number): number {
  let bytes = 0
  for (let end = nextOffset; ;) {
    const range = index.candidatesByBytes(maxBytes, end, bytes)
    if (range === null) return index.firstOffset
    bytes = range.bytesAfter
    for (const { offset } of collected(index, range.from, range.end, 64).reverse()) {
      const ofRecord = entries.get(offset)!.bytes
      if (bytes + ofRecord > maxBytes) return offset + 1
      bytes += ofRecord
    }
    end = range.from
  }
}

function lowestByCounting({ offsets, entries, index }: World, maxBytes: number): number {
  let bytes = 0
  for (const offset of offsets.toReversed()) {
    bytes += entries.get(offset)!.bytes
    if (bytes > maxBytes) return offset + 1
  }
  return index.firstOffset
}
