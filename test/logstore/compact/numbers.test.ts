import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { FORMAT_PROTOBUF, SIGNAL_LOG, SIGNAL_TRACE } from '../../../src/logstore/batch-frame.ts'
import { BlockKeys, BlockTexts } from '../../../src/logstore/compact/block-reader.ts'
import { filterTestOf, judgeOf } from '../../../src/logstore/compact/block-search.ts'
import { BlockWriter } from '../../../src/logstore/compact/block-writer.ts'
import { Shapes } from '../../../src/logstore/compact/shapes.ts'
import { MATCHES, MUST_READ } from '../../../src/logstore/compact/verdict.ts'
import { messageType } from '../../../src/logstore/query/render/otlp-types.ts'
import { parseSearch } from '../../../src/logstore/search/parse.ts'
import { testSeed } from '../../support/seed.ts'
import { mulberry32 } from '../../support/sim-files.ts'
import { TestStore } from '../../support/stored-segments.ts'
import type { QueryResponseBody } from '../../support/stored-segments.ts'

const WHOLE = ['0', '1', '-1', '7', '-300', '301', '9007199254740991', '9007199254740992', '9007199254740993']
const WIDE = [...WHOLE, '-9007199254740993', '9223372036854775807', '-9223372036854775808']
const FRACTIONS = [0, -0, 0.5, -2.5, 1e3, 1.5e-7, -1e300, 9007199254740992, Infinity, -Infinity, NaN, 301]
const TEXTS = [
  ...WIDE,
  '1e3',
  '-2.5',
  '+7',
  '.5',
  '5.',
  '1.e+3',
  '1E3',
  '0x10',
  ' 7',
  '7 ',
  '',
  '-',
  'e',
  '007',
  '1_0',
  '18446744073709551616',
]
const KEYS = ['n', 'm', 'a', 'a.b']

type Random = () => number
const picker =
  (random: Random) =>
  <Item>(items: readonly Item[]): Item =>
    items[Math.floor(random() * items.length)]!

function valueOf(random: Random): object {
  const pick = picker(random)
  const scalar = () =>
    pick<() => object>([
      () => ({ intValue: pick(WIDE) }),
      () => ({ doubleValue: pick(FRACTIONS) }),
      () => ({ stringValue: random() < 0.5 ? pick(TEXTS) : String(Math.floor(random() * 1000) - 500) }),
    ])()
  const roll = random()
  if (roll < 0.8) return scalar()
  return pick<() => object>([
    () => ({ boolValue: random() < 0.5 }),
    () => ({ arrayValue: { values: [scalar(), scalar()] } }),
    () => ({ kvlistValue: { values: [{ key: 'b', value: scalar() }] } }),
    () => ({ bytesValue: Buffer.of(1) }),
    () => ({}),
  ])()
}

const attributesOf = (random: Random, most: number): object[] =>
  Array.from({ length: Math.floor(random() * (most + 1)) }, () => ({
    key: picker(random)(KEYS),
    value: valueOf(random),
  }))

const TIMES = ['0', '1', '1000', '1300', '9007199254740993', '18446744073709551615']

function spanOf(random: Random, time: bigint): object {
  const pick = picker(random)
  const isPlain = random() < 0.7
  return {
    traceId: Buffer.alloc(16, 3),
    spanId: Buffer.alloc(8, 7),
    name: 'GET',
    ...(random() < 0.9 && { startTimeUnixNano: isPlain ? String(time) : pick(TIMES) }),
    ...(random() < 0.9 && {
      endTimeUnixNano: isPlain ? String(time + BigInt(Math.floor(random() * 600))) : pick(TIMES),
    }),
    ...(random() < 0.7 && { kind: Math.floor(random() * 6) }),
    ...(random() < 0.6 && { status: random() < 0.7 ? { code: Math.floor(random() * 3) } : { message: 'late' } }),
    ...(random() < 0.3 && { flags: Math.floor(random() * 400) }),
    attributes: attributesOf(random, 3),
  }
}

const logOf = (random: Random, time: bigint): object => ({
  timeUnixNano: String(time),
  ...(random() < 0.7 && { severityNumber: picker(random)([0, 1, 9, 13, 17, 24, 40]) }),
  ...(random() < 0.3 && { severityText: picker(random)(['WARN', 'error']) }),
  ...(random() < 0.3 && { flags: Math.floor(random() * 400) }),
  body: valueOf(random),
  attributes: attributesOf(random, 3),
})

const LOGS = messageType('opentelemetry.proto.collector.logs.v1.ExportLogsServiceRequest')
const TRACES = messageType('opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest')

function fill(store: TestStore, random: Random): void {
  for (let batch = 0; batch < 24; batch++) {
    const time = (i: number): bigint => BigInt(1000 + batch * 20 + i)
    const resource = { attributes: batch % 3 === 0 ? attributesOf(random, 2) : [] }
    const scope = { name: 'app', attributes: batch % 4 === 0 ? attributesOf(random, 2) : [] }
    const isLogs = batch % 2 === 0
    const records = Array.from({ length: 30 }, (_, i) => (isLogs ? logOf : spanOf)(random, time(i)))
    const message = isLogs
      ? { resourceLogs: [{ resource, scopeLogs: [{ scope, logRecords: records }] }] }
      : { resourceSpans: [{ resource, scopeSpans: [{ scope, spans: records }] }] }
    const type = isLogs ? LOGS : TRACES
    const body = Buffer.from(type.encode(type.fromObject(message)).finish())
    store.addBody('acme', body, isLogs ? SIGNAL_LOG : SIGNAL_TRACE, FORMAT_PROTOBUF, ['orders'])
    if (batch % 8 === 7) store.seal()
  }
  store.publish()
}

const NAMES = [
  ...KEYS,
  'attributes.n',
  'resource.attributes.n',
  'scope.attributes.m',
  'duration',
  'kind',
  'status.code',
  'flags',
  'severity_number',
  'severity',
  'body',
  'missing',
]
const NUMBERS = [...WIDE, '0.5', '-2.5', '1e3', '1.5e-7', '-1e300', '.5', '250', '300', '17', '2']
const atom = fc.oneof(
  {
    arbitrary: fc
      .tuple(fc.constantFrom(...NAMES), fc.constantFrom('>', '>=', '<', '<=', ''), fc.constantFrom(...NUMBERS))
      .map(([name, by, number]) => (name === 'severity' ? `severity:${by}17` : `${name}:${by}${number}`)),
    weight: 6,
  },
  {
    arbitrary: fc
      .tuple(fc.constantFrom(...NAMES), fc.constantFrom('*', '1*', '-*', 'true', 'server', 'error'))
      .map(([name, value]) => (name === 'severity' ? 'severity:>=warn' : `${name}:${value}`)),
    weight: 1,
  },
)
const search = fc
  .array(fc.tuple(fc.boolean(), atom), { minLength: 1, maxLength: 3 })
  .chain((atoms) =>
    fc
      .constantFrom(' ', ' OR ')
      .map((between) => atoms.map(([isNot, each]) => (isNot ? `-${each}` : each)).join(between)),
  )

/** A block of logs with these severities and values of the attribute `n`, and what a search says of the block and of each record. */
function blockOf(records: readonly { readonly severity: number; readonly n: object }[]) {
  const type = messageType('opentelemetry.proto.logs.v1.LogRecord')
  const encoded = records.map(({ severity, n }) => {
    const record = { timeUnixNano: '5', severityNumber: severity, attributes: [{ key: 'n', value: n }] }
    return Buffer.from(type.encode(type.fromObject(record)).finish())
  })
  const shapes = new Shapes()
  const writer = new BlockWriter(shapes)
  writer.begin(Buffer.concat(encoded))
  const nothing = Buffer.alloc(0)
  const parts = { resource: nothing, scope: nothing, resourceSchemaUrl: nothing, scopeSchemaUrl: nothing }
  const group = { signal: SIGNAL_LOG, format: FORMAT_PROTOBUF, source: 1, ...parts, root: 1 }
  let at = 0
  for (const [entry, { byteLength }] of encoded.entries()) {
    writer.add(at, at + byteLength, group, 0, 5, entry, new Uint32Array(4), 0, null)
    at += byteLength
  }
  const block = writer.finish()
  const keys = new BlockKeys(block.keys, records.length, 5n)
  return {
    mayMatch: (text: string) => filterTestOf(parseSearch(text))(null, { severities: block.severities, counted: 0 }),
    verdicts: (text: string) => {
      const texts = new BlockTexts(block.texts, records.length, shapes, {
        keys: () => keys,
        numbers: () => block.numbers,
        values: () => block.values,
      })
      const verdict = judgeOf(parseSearch(text))(texts, shapes)
      return records.map((_, row) => (typeof verdict === 'number' ? verdict : verdict[row]))
    },
  }
}

describe('a comparison with a number in a compacted bundle', () => {
  it('finds and counts what it does in one that is not, whatever the values are', (context) => {
    const plain = TestStore.open(context)
    const compacted = TestStore.open(context)
    for (const store of [plain, compacted]) fill(store, mulberry32(testSeed()))
    compacted.compact()
    assert(compacted.segments.every(({ row }) => row?.isCompacted === true))
    let found = 0
    fc.assert(
      fc.property(search, fc.constantFrom('asc', 'desc'), (text, order) => {
        const question = { dataset: 'orders', filter: { search: text }, order, page: { limit: 40, cursor: null } }
        const expected: QueryResponseBody = plain.query('acme', question)
        assert.deepEqual(compacted.query('acme', question), expected, text)
        found += expected.matched_records
      }),
      { numRuns: 150, seed: testSeed() },
    )
    assert(found > 1500, `${found} found`)
  })

  it('is told by the numbers of a block, and no record is looked at', () => {
    const numbers = [
      ...Array.from({ length: 50 }, (_, i) => ({ severity: 9, n: { intValue: i - 25 } })),
      { severity: 9, n: { doubleValue: 3.5 } },
      { severity: 9, n: { boolValue: true } },
      { severity: 9, n: { stringValue: 'order 17 is late' } },
    ]
    const { verdicts } = blockOf(numbers)
    for (const [text, matched] of [
      ['n:>3', 22],
      ['n:<=-20', 6],
      ['n:3.5', 1],
      ['n:true', 1],
      ['n:*', 53],
      ['severity_number:9', 53],
    ] as const) {
      const told = verdicts(text)
      assert(!told.includes(MUST_READ), text)
      assert.equal(told.filter((each) => each === MATCHES).length, matched, text)
    }
  })

  it('passes over blocks that have no such severity', () => {
    const { mayMatch } = blockOf([5, 9].map((severity) => ({ severity, n: { intValue: 1 } })))
    const unsaid = blockOf([0].map((severity) => ({ severity, n: { intValue: 1 } })))
    for (const [text, may] of [
      ['severity:>=warn', false],
      ['severity:<debug', false],
      ['severity:info', true],
      ['severity:<warn', true],
      ['-severity:>=warn', true],
      ['severity:>=warn OR a', true],
    ] as const) {
      assert.equal(mayMatch(text), may, text)
      assert.equal(unsaid.mayMatch(text), true, 'its text may say one')
    }
  })
})
