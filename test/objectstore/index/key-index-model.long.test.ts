import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { KeyIndex } from '../../../src/objectstore/index/key-index.ts'
import type { CheckpointWriter } from '../../../src/objectstore/index/checkpoint.ts'
import { NaiveIndex, bytesOf, textOf } from './naive-index.ts'
import { checkStructure } from './structure.ts'
import { contentOf, expectedContent, valueOf } from './support.ts'

const BUCKETS = [0, 1, 2 ** 32 - 1] as const
const bucket = fc.constantFrom(...BUCKETS)

/** Parts of keys, with a character for each byte: delimiters, UTF-8 of é and 😀 whole and in parts, the lowest and the highest byte. */
const unit = fc.constantFrom('a', 'b', '/', '//', '\xc3\xa9', '\xc3', '\xf0\x9f\x98\x80', '\0', '\xff', '\xff\xff')
const short = fc.array(unit, { maxLength: 5 }).map((units) => units.join(''))
/** Long parts that share much or nothing, so that a few hundred keys make a tree of three levels. */
const filler = fc.constantFrom('', '', 'x'.repeat(300), 'y'.repeat(900), '\xff'.repeat(1018), '\0'.repeat(600))
const key = fc.tuple(short, filler, short).map((pieces) => pieces.join('').slice(0, 1024))

/**
 * Many long keys at once. A group of them takes several leaves, and its long separators share nothing with those of other groups, so pages
 * above the leaves overflow too.
 */
const many = fc.record({
  bucket: fc.constantFrom(1, 1, 1, 0),
  group: fc.nat(25),
  first: fc.nat(150),
  count: fc.integer({ min: 1, max: 150 }),
  step: fc.constantFrom(1, -1, 7),
})
type Many = typeof many extends fc.Arbitrary<infer T> ? T : never

const FILLERS_BYTES = [700, 300, 0, 500]
const GROUP_KEYS = 150

function keysOf({ group, first, count, step }: Many): string[] {
  const filler = String.fromCharCode(0x21 + group).repeat(1 + FILLERS_BYTES[group % FILLERS_BYTES.length]!)
  return Array.from({ length: count }, (_, i) => {
    const number = (first + step * i + 10 * GROUP_KEYS) % GROUP_KEYS
    return `${filler}/${String(number).padStart(3, '0')}/${'t'.repeat(number % 3 === 0 ? 0 : 250)}`
  })
}

const scanOptions = fc.record({
  prefix: fc.oneof(fc.constant(''), short),
  delimiter: fc.oneof(fc.constant(''), fc.constant('/'), unit),
  from: fc.oneof(fc.constant(''), key),
  after: fc.oneof(fc.constant(''), key),
  max: fc.oneof(fc.nat(4), fc.constant(1000)),
})

const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('put' as const), bucket, key }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('delete' as const), bucket, key }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('delete one' as const), bucket, which: fc.nat() }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('put many' as const), many }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('delete many' as const), many }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('delete range' as const), bucket, which: fc.nat(), count: fc.nat(150) }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('scan' as const), bucket, options: scanOptions }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('reopen' as const) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('checkpoint' as const), parts: fc.nat(2) }) },
)

/** The index and its model, side by side. */
class Pair {
  index = KeyIndex.create()
  readonly naive = new NaiveIndex()
  #number = 0
  #writer: CheckpointWriter | null = null
  #written: Uint8Array[] = []
  #expected = new NaiveIndex()

  put(bucket: number, key: string): void {
    const value = valueOf(this.#number++)
    assert.deepEqual(this.index.put(bucket, bytesOf(key), value), this.naive.put(bucket, key, value))
  }

  delete(bucket: number, key: string): void {
    assert.deepEqual(this.index.delete(bucket, bytesOf(key)), this.naive.delete(bucket, key))
  }

  deleteRange(bucket: number, which: number, count: number): void {
    const keys = this.naive.sorted(bucket)
    const from = which % (keys.length + 1)
    for (const key of keys.slice(from, from + count)) this.delete(bucket, key)
  }

  scan(bucket: number, options: Parameters<NaiveIndex['scan']>[1]): void {
    const { prefix, delimiter, from, after, max } = options
    const bytes = { prefix: bytesOf(prefix), delimiter: bytesOf(delimiter), from: bytesOf(from), after: bytesOf(after) }
    const listing = this.index.scan(bucket, { ...bytes, max })
    assert.deepEqual(
      {
        keys: listing.keys.map(({ key }) => textOf(key)),
        commonPrefixes: listing.commonPrefixes.map(textOf),
        truncated: listing.next !== null,
      },
      this.naive.scan(bucket, options),
    )
    for (const { key, value } of listing.keys) assert.deepEqual(value, this.naive.bucket(bucket).get(textOf(key)))
  }

  reopen(): void {
    this.finishCheckpoint()
    this.index = KeyIndex.decode(this.index.encode())
  }

  /** Begins a checkpoint, or takes some parts of the one under way. */
  stepCheckpoint(parts: number): void {
    if (this.#writer === null) {
      this.#writer = this.index.checkpoint()
      this.#written = []
      this.#expected = this.naive.copy()
    }
    for (let i = 0; i < parts && this.#writer !== null; i++) this.#takePart()
  }

  finishCheckpoint(): void {
    while (this.#writer !== null) this.#takePart()
  }

  #takePart(): void {
    const part = this.#writer!.next()
    if (part !== null) {
      this.#written.push(part)
      return
    }
    this.#writer = null
    checkStructure(this.#written)
    assertSame(KeyIndex.decode(this.#written), this.#expected)
  }
}

function assertSame(index: KeyIndex, naive: NaiveIndex): void {
  for (const bucket of BUCKETS) {
    assert.deepEqual(contentOf(index, bucket), expectedContent(naive, bucket))
    assert.equal(index.size(bucket), naive.bucket(bucket).size)
    const first = index.firstKey(bucket)
    assert.equal(first === null ? undefined : textOf(first), naive.sorted(bucket)[0])
  }
}

test('the index agrees with a sorted map after any changes, its tree holds, and checkpoints are as it was when they began', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60, size: 'max' }), (steps) => {
      const pair = new Pair()
      for (const step of steps) {
        if (step.kind === 'put') pair.put(step.bucket, step.key)
        else if (step.kind === 'delete') pair.delete(step.bucket, step.key)
        else if (step.kind === 'delete one') pair.deleteRange(step.bucket, step.which, 1)
        else if (step.kind === 'put many') for (const key of keysOf(step.many)) pair.put(step.many.bucket, key)
        else if (step.kind === 'delete many') for (const key of keysOf(step.many)) pair.delete(step.many.bucket, key)
        else if (step.kind === 'delete range') pair.deleteRange(step.bucket, step.which, step.count)
        else if (step.kind === 'scan') pair.scan(step.bucket, step.options)
        else if (step.kind === 'reopen') pair.reopen()
        else pair.stepCheckpoint(step.parts)
      }
      pair.finishCheckpoint()
      assertSame(pair.index, pair.naive)
      const { entries } = checkStructure(pair.index.encode())
      assert.equal(
        entries.length,
        BUCKETS.reduce((sum, bucket) => sum + pair.naive.bucket(bucket).size, 0),
      )

      for (const bucket of BUCKETS) pair.deleteRange(bucket, 0, Infinity)
      assert.equal(pair.index.pages, 1)
    }),
    { numRuns: 30 },
  )
})

test('a listing in pages gives what was there all the time once and in order, whatever is put and deleted in between', () => {
  const change = fc.record({ put: fc.boolean(), key: short })
  const turn = fc.record({ max: fc.integer({ min: 1, max: 4 }), changes: fc.array(change, { maxLength: 6 }) })
  const turns = fc.infiniteStream(turn)
  const delimiters = fc.constantFrom('', '/', '//', '\xc3\xa9', '\xff')
  fc.assert(
    fc.property(fc.array(short, { maxLength: 60, size: 'max' }), delimiters, turns, (first, delimiter, turns) => {
      const pair = new Pair()
      for (const key of first) pair.put(1, key)
      const all = { prefix: '', delimiter, from: '', after: '', max: Infinity }
      const itemsOf = (): Set<string> => {
        const { keys, commonPrefixes } = pair.naive.scan(1, all)
        return new Set([...keys, ...commonPrefixes])
      }
      let always = itemsOf()
      const ever = new Set(always)

      const seen: string[] = []
      let from: Buffer | null = Buffer.alloc(0)
      for (const { max, changes } of turns) {
        const { keys, commonPrefixes, next } = pair.index.scan(1, { delimiter: bytesOf(delimiter), from, max })
        assert.ok(keys.length + commonPrefixes.length <= max)
        seen.push(
          ...[...keys.map(({ key }) => key), ...commonPrefixes].sort((a, b) => Buffer.compare(a, b)).map(textOf),
        )
        if (next === null) break
        from = next
        for (const { put, key } of changes) {
          if (put) pair.put(1, key)
          else pair.delete(1, key)
          const now = itemsOf()
          always = new Set([...always].filter((item) => now.has(item)))
          for (const item of now) ever.add(item)
        }
      }
      assert.deepEqual(seen, [...new Set(seen)].sort(byBytes))
      for (const item of always) assert.ok(seen.includes(item), `${JSON.stringify(item)} was skipped`)
      for (const item of seen) assert.ok(ever.has(item), `${JSON.stringify(item)} never was`)
    }),
    { numRuns: 50 },
  )
})

const byBytes = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)
