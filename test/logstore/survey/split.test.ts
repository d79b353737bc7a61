import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { nodeFiles } from '../../../src/log/node-files.ts'
import { STAND_IN_NAME } from '../../../src/log/stand-in.ts'
import { FORMAT_JSON, FORMAT_PROTOBUF, SIGNAL_LOG, SIGNAL_TRACE } from '../../../src/logstore/batch-frame.ts'
import { CompactIndex } from '../../../src/logstore/compact/compact-index.ts'
import { PieceCache } from '../../../src/logstore/compact/piece-cache.ts'
import { mulberry32 } from '../../support/sim-files.ts'
import { testSeed } from '../../support/seed.ts'
import { TestStore } from '../../support/stored-segments.ts'
import { questionOf } from './support.ts'

type Random = () => number
const picker =
  (random: Random) =>
  <Item>(items: readonly Item[]): Item =>
    items[Math.floor(random() * items.length)]!

// Protobuf is encoded by hand, so that it may be what no library writes.
const varint = (value: bigint): Buffer => {
  const bytes: number[] = []
  let left = BigInt.asUintN(64, value)
  for (; left > 127n; left >>= 7n) bytes.push(Number(left & 127n) | 128)
  return Buffer.from([...bytes, Number(left)])
}
const tag = (field: number, type: number): Buffer => varint(BigInt(8 * field + type))
const part = (field: number, ...contents: readonly Buffer[]): Buffer => {
  const bytes = Buffer.concat(contents)
  return Buffer.concat([tag(field, 2), varint(BigInt(bytes.byteLength)), bytes])
}
const text = (field: number, value: string): Buffer => part(field, Buffer.from(value))
const number = (field: number, value: bigint): Buffer => Buffer.concat([tag(field, 0), varint(value)])
const fixed64 = (field: number, value: bigint): Buffer => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(value)
  return Buffer.concat([tag(field, 1), bytes])
}
const fixed32 = (field: number, value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return Buffer.concat([tag(field, 5), bytes])
}
const double = (field: number, value: number): Buffer => {
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleLE(value)
  return Buffer.concat([tag(field, 1), bytes])
}

const TEXTS = [
  '',
  'a',
  'shop-1',
  'shop-2',
  'Größe',
  '\u0001',
  '\u0002x 7',
  '007',
  '17',
  'true',
  'x'.repeat(300),
  '\ufeffa',
]
const WHOLE = [0n, 1n, -1n, 17n, 1n << 31n, (1n << 53n) + 1n, -(1n << 63n)]
const KEYS = ['k', 'k', 'pod', 'k.b', 'a', '']

function valueOf(random: Random): Buffer {
  const pick = picker(random)
  const scalar = (): Buffer =>
    pick<() => Buffer>([
      () => text(1, pick(TEXTS)),
      () => text(1, `order ${Math.floor(random() * 40)} of c${Math.floor(random() * 9)}x`),
      () => number(2, pick([0n, 1n, 5n])),
      () => number(3, pick(WHOLE)),
      () => double(4, pick([0, -0, 0.5, NaN, Infinity, 17, 1e300])),
    ])()
  if (random() < 0.7) return scalar()
  return pick<() => Buffer>([
    () => Buffer.alloc(0),
    () => part(7, Buffer.of(1, 255)),
    () => part(5, part(1, scalar()), part(1, scalar())),
    () => part(5),
    () => part(6, part(1, text(1, 'b'), part(2, scalar())), part(1, text(1, 'b'), part(2, scalar()))),
    () => Buffer.concat([scalar(), scalar()]), // the last one counts
    () => Buffer.concat([tag(3, 0), Buffer.of(0x81, 0x00)]), // in more bytes than it needs
  ])()
}

/** A key and a value, mostly. */
function pairOf(random: Random): Buffer {
  const pick = picker(random)
  const key = text(1, pick(KEYS))
  const value = part(2, valueOf(random))
  if (random() < 0.85) return Buffer.concat([key, value])
  return pick([
    key,
    value,
    Buffer.concat([value, key]),
    Buffer.concat([key, value, part(2, valueOf(random))]),
    Buffer.concat([key, text(1, pick(KEYS)), value]),
  ])
}

const pairs = (random: Random, field: number, most: number): Buffer =>
  Buffer.concat(Array.from({ length: Math.floor(random() * (most + 1)) }, () => part(field, pairOf(random))))

function logOf(random: Random, time: bigint): Buffer {
  const pick = picker(random)
  const maybe = (share: number, make: () => Buffer): Buffer => (random() < share ? make() : Buffer.alloc(0))
  return Buffer.concat([
    fixed64(1, time),
    maybe(0.8, () => number(2, pick([0n, 1n, 9n, 17n, 24n, 33n, -1n, (1n << 33n) + 9n]))),
    maybe(0.05, () => number(2, 5n)),
    maybe(0.3, () => text(3, pick(['WARN', 'x', '']))),
    maybe(0.8, () => part(5, random() < 0.5 ? text(1, pick(['order 17 paid', 'order 8 refused'])) : valueOf(random))),
    pairs(random, 6, 3),
    maybe(0.2, () => fixed32(8, pick([0, 1, 0xffff_ffff]))),
    maybe(0.1, () => number(8, pick([1n, -1n]))),
    maybe(0.2, () => text(12, pick(TEXTS))),
  ])
}

function spanOf(random: Random, time: bigint): Buffer {
  const pick = picker(random)
  const maybe = (share: number, make: () => Buffer): Buffer => (random() < share ? make() : Buffer.alloc(0))
  return Buffer.concat([
    part(1, Buffer.alloc(16, 3)),
    part(2, Buffer.alloc(8, 7)),
    maybe(0.2, () => text(3, pick(TEXTS))),
    maybe(0.9, () => text(5, pick(['GET', 'order 17', '']))),
    maybe(0.05, () => text(5, 'another')),
    maybe(0.7, () => number(6, pick([0n, 2n, 3n, 77n, -2n]))),
    fixed64(7, time),
    fixed64(8, time + 5n),
    pairs(random, 9, 3),
    maybe(0.2, () => part(11, fixed64(1, 1n), text(2, 'order 17'), pairs(random, 3, 2))),
    maybe(0.5, () =>
      part(
        15,
        maybe(0.5, () => text(2, pick(TEXTS))),
        maybe(0.7, () => number(3, pick([0n, 1n, 2n, 9n]))),
      ),
    ),
  ])
}

const scopeOf = (random: Random): Buffer =>
  random() < 0.2 ? Buffer.alloc(0) : part(1, text(1, picker(random)(['app', 'lib', ''])), pairs(random, 3, 2))

const BATCHES = 20
const ROWS = 16

/** @returns where its frames begin */
function fill(store: TestStore, random: Random): number[] {
  const positions: number[] = []
  for (let batch = 0; batch < BATCHES; batch++) {
    const time = (row: number): bigint => BigInt(1000 + ((batch * 7) % BATCHES) * 10 + row)
    const isLogs = batch % 3 !== 2
    const of = isLogs ? logOf : spanOf
    const groups = Array.from({ length: 2 }, (_, group) =>
      part(
        1,
        random() < 0.1 ? Buffer.alloc(0) : part(1, pairs(random, 1, 2)),
        part(
          2,
          scopeOf(random),
          ...Array.from({ length: ROWS / 2 }, (_, row) => part(2, of(random, time(2 * row + group)))),
        ),
      ),
    )
    const body = Buffer.concat(groups)
    const signal = isLogs ? SIGNAL_LOG : SIGNAL_TRACE
    positions.push(store.addBody('acme', body, signal, FORMAT_PROTOBUF, ['orders', 'orders']))
    if (batch % 5 === 1)
      positions.push(store.addBody('acme', jsonOf(random, time(3)), SIGNAL_LOG, FORMAT_JSON, ['orders']))
    if (batch === 12) store.seal()
  }
  store.seal()
  store.publish()
  return positions
}

function jsonOf(random: Random, time: bigint): Buffer {
  const pick = picker(random)
  const attributes = () => [{ key: pick(KEYS), value: pick([{ stringValue: pick(TEXTS) }, { intValue: '17' }, {}]) }]
  const logRecords = Array.from({ length: 4 }, () => ({
    timeUnixNano: String(time),
    severityNumber: 9,
    body: { stringValue: 'order 17 paid' },
    attributes: attributes(),
  }))
  const resource = { attributes: attributes() }
  return Buffer.from(
    JSON.stringify({ resourceLogs: [{ resource, scopeLogs: [{ scope: { name: 'app' }, logRecords }] }] }),
  )
}

const NAMES = [
  'k k.b pod a a.b nowhere \ud800 attributes. attributes.k scope.attributes.k resource.attributes.k resource.attributes.pod',
  'severity signal severity_text severity_number flags name kind status status.message event_name trace_state',
  'scope.name scope.version body body.b trace_id duration time_unix_nano',
].flatMap((names) => names.split(' '))
const SEARCHES = [
  null,
  null,
  '*',
  'order',
  'refused',
  '17',
  'signal:log',
  'severity:>=error',
  'k:17',
  '-k:17',
  'pod:* order',
  'name:get',
]
const questions = fc.record({
  search: fc.constantFrom(...SEARCHES),
  start: fc.constantFrom(null, 1043, 0),
  end: fc.constantFrom(null, 1127, 1043, 5000),
  width: fc.oneof(
    fc.constantFrom(1, 3, 7, 2000).map((buckets) => ({ buckets })),
    fc.constantFrom(1, 40, 1_000_000).map((width) => ({ interval_nano: width })),
  ),
  splitBy: fc.constantFrom(null, ...NAMES, ...NAMES.slice(0, 12)),
  top: fc.constantFrom(1, 3, 100),
  damaged: fc.constantFrom(-1, -1, 3, 11),
  committed: fc.constantFrom(-1, -1, 9),
  expired: fc.constantFrom(0n, 0n, 1060n),
})

describe('a histogram of compacted bundles, and of one that several were merged into', () => {
  it('has the counts and values that the records have, whatever was sent', (context) => {
    const plain = TestStore.open(context)
    const compacted = TestStore.open(context)
    const merged = TestStore.open(context)
    const stores = [plain, compacted, merged]
    const [positions] = stores.map((store) => fill(store, mulberry32(testSeed())))
    compacted.compact()
    merged.compact()
    assert(merged.merge(0, 2))
    let values = 0
    fc.assert(
      fc.property(questions, ({ search, start, end, width, splitBy, top, damaged, committed, expired }) => {
        // Where the snapshot ends inside a bundle, the bundle alone does not say how far the records reach.
        const [from, to] = committed < 0 ? [start, end] : [start ?? 1000, end ?? 1200]
        const filter = { search, start_time_unix_nano: from, end_time_unix_nano: to }
        const question = questionOf({ histogram: { dataset: 'orders', filter, ...width, split_by: splitBy, top } })
        const answers = stores.map((store) => {
          store.quarantined = damaged < 0 ? [] : [{ from: positions![damaged]!, to: positions![damaged]! + 8 }]
          store.expired = new Map([['orders', expired]])
          const snapshot = store.snapshot()
          const seen = committed < 0 ? snapshot : { ...snapshot, committed: positions![committed]! }
          const answer = store.askSurvey('acme', question, seen)
          if (answer.kind !== 'ok') return answer
          const body = JSON.parse(Buffer.from(answer.body).toString()) as Answer
          return { ...body, scanned_bundles: 0 } // merged bundles are fewer
        })
        for (const answer of answers.slice(1)) assert.deepEqual(answer, answers[0])
        values += answers[0] !== undefined && 'series' in answers[0] ? answers[0].series.length : 0
      }),
      { numRuns: 250, seed: testSeed() },
    )
    assert(values > 300, `${values} values`)
  })

  it('is made without records where columns say what it is split by', (context) => {
    const [plain, compacted] = [TestStore.open(context), TestStore.open(context)]
    for (const store of [plain, compacted]) {
      const logs = (batch: number) =>
        Array.from({ length: 20 }, (_, row) =>
          part(
            2,
            fixed64(1, BigInt(1000 + 20 * batch + row)),
            number(2, 9n),
            text(3, row % 2 === 0 ? 'INFO' : 'info'),
            part(5, text(1, `order ${row} was paid`)),
            ...(row % 3 === 0 ? [] : [part(6, text(1, 'pod'), part(2, text(1, `shop-${row % 4}`)))]),
            part(6, text(1, 'ms'), part(2, number(3, BigInt(row % 5)))),
          ),
        )
      for (let batch = 0; batch < 6; batch++) {
        const resource = part(1, part(1, text(1, 'pod'), part(2, text(1, `node-${batch % 2}`))))
        const scope = part(1, text(1, batch % 3 === 0 ? 'app' : 'lib'))
        const body = part(1, resource, part(2, scope, ...logs(batch)))
        store.addBody('acme', body, SIGNAL_LOG, FORMAT_PROTOBUF, ['orders'])
      }
      store.seal()
      store.publish()
    }
    compacted.compact()
    const path = `${compacted.directoryOf(0)}/${STAND_IN_NAME}`
    const file = nodeFiles.open(path, 'read')
    const { blocks } = new CompactIndex(file, 0, new PieceCache(1 << 20))
    file.close()
    const bytes = readFileSync(path)
    for (const { values } of blocks) bytes.fill(0, values.at, values.at + values.bytes)
    writeFileSync(path, bytes)
    const names = [
      'pod',
      'attributes.pod',
      'resource.attributes.pod',
      'ms',
      'scope.name',
      'severity_text',
      'severity',
      'signal',
    ]
    for (const split_by of [null, ...names])
      for (const search of [null, 'paid', 'pod:shop-1', 'ms:>2'])
        for (const buckets of [1, 7]) {
          const asked = { dataset: 'orders', filter: { search }, buckets, split_by }
          const [expected, answer] = [plain, compacted].map((store) => {
            const answer = store.askSurvey('acme', questionOf({ histogram: asked }))
            return answer.kind === 'ok' ? Buffer.from(answer.body).toString() : answer
          })
          assert.deepEqual(answer, expected, JSON.stringify(asked))
        }
  })
})

interface Answer {
  readonly series?: readonly unknown[]
}
