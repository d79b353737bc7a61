import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { FORMAT_PROTOBUF, SIGNAL_LOG, SIGNAL_TRACE } from '../../../src/logstore/batch-frame.ts'
import { messageType } from '../../../src/logstore/query/render/otlp-types.ts'
import { mulberry32 } from '../../support/sim-files.ts'
import { testSeed } from '../../support/seed.ts'
import { TestStore } from '../../support/stored-segments.ts'
import type { QueryResponseBody } from '../../support/stored-segments.ts'

const WORDS = [
  'order',
  'paid',
  'a',
  '17',
  'c17x',
  'naïve',
  'Größe',
  'payment',
  'refused',
  '007',
  'x_1',
  'ไทย5',
  'GET',
  '99999999999999999',
]
const KEYS = ['pod', 'a', 'a.b', 'service.instance.id', 'n', '', 'a.']

/** A log as a service may send it, or as it should not. */
function logOf(random: () => number, time: bigint): object {
  const pick = <Item>(items: readonly Item[]): Item => items[Math.floor(random() * items.length)]!
  const text = () =>
    Array.from({ length: 1 + Math.floor(random() * 5) }, () => pick(WORDS)).join(pick([' ', ' ', ', ', '-', '/']))
  const value = (): object =>
    random() < 0.7
      ? { stringValue: text() }
      : pick([
          { intValue: String(Math.floor(random() * 40)) },
          { intValue: pick(['9007199254740992', '9007199254740993']) },
          { doubleValue: pick([2 ** 53, 2 ** 63, 0.5]) },
          { arrayValue: { values: [{ stringValue: text() }, { stringValue: text() }] } },
          { kvlistValue: { values: [{ key: pick(['b', '']), value: { stringValue: text() } }] } },
          { boolValue: true },
        ])
  const attributes = Array.from({ length: Math.floor(random() * 3) }, () => ({ key: pick(KEYS), value: value() }))
  return {
    timeUnixNano: String(time),
    ...(random() < 0.8 && { severityNumber: pick([0, 5, 9, 13, 17]) }),
    ...(random() < 0.3 && { severityText: pick(['WARN', 'error', 'x']) }),
    ...(random() < 0.9 && { body: value() }),
    ...(random() < 0.1 && { eventName: text() }),
    attributes,
  }
}

function spanOf(random: () => number, time: bigint): object {
  const name = WORDS[Math.floor(random() * WORDS.length)]!
  return {
    traceId: Buffer.alloc(16, 1 + Math.floor(random() * 3)),
    spanId: Buffer.alloc(8, 7),
    name: `GET ${name}`,
    startTimeUnixNano: String(time),
    endTimeUnixNano: String(time + 5n),
    status: { message: random() < 0.5 ? 'payment refused' : '' },
    events: random() < 0.3 ? [{ timeUnixNano: '1', name: 'order 17', attributes: [] }] : [],
  }
}

const LOGS = messageType('opentelemetry.proto.collector.logs.v1.ExportLogsServiceRequest')
const TRACES = messageType('opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest')

function fill(store: TestStore, random: () => number): void {
  for (let batch = 0; batch < 24; batch++) {
    const time = (i: number): bigint => BigInt(1000 + ((batch * 7) % 24) * 10 + i)
    const attributes = [{ key: 'service.instance.id', value: { stringValue: `i-${batch % 3}` } }]
    const resource = { attributes }
    const scope = { name: 'app', attributes: [{ key: 'a', value: { stringValue: 'order' } }] }
    const isLogs = batch % 4 !== 3
    const message = isLogs
      ? {
          resourceLogs: [
            {
              resource,
              scopeLogs: [{ scope, logRecords: Array.from({ length: 20 }, (_, i) => logOf(random, time(i))) }],
            },
          ],
        }
      : {
          resourceSpans: [
            { resource, scopeSpans: [{ scope, spans: Array.from({ length: 20 }, (_, i) => spanOf(random, time(i))) }] },
          ],
        }
    const type = isLogs ? LOGS : TRACES
    const body = Buffer.from(type.encode(type.fromObject(message)).finish())
    store.addBody('acme', body, isLogs ? SIGNAL_LOG : SIGNAL_TRACE, FORMAT_PROTOBUF, ['orders'])
    if (batch % 6 === 2) {
      const json = { dataset: 'orders', trace: null, severity: 13, attributes: { pod: 'order 17' } }
      store.add('acme', [{ ...json, time: time(3), text: batch % 2 === 0 ? 'paid 17' : 'a "quoted" paid\ttext' }])
    }
    if (batch % 8 === 7) store.seal()
  }
  store.publish()
}

const word = fc.constantFrom(...WORDS, 'nothing', 'or*', 'c1*', '1*', 'pay*')
const atom = fc.oneof(
  word,
  fc.tuple(word, word).map(([a, b]) => `"${a.replace('*', '')} ${b.replace('*', '')}"`),
  fc
    .tuple(
      fc.constantFrom(
        ...KEYS.filter((key) => key !== ''),
        '""',
        'attributes.',
        'body.',
        'name',
        'status.message',
        'severity_text',
        'body',
        'resource.attributes.service.instance.id',
      ),
      word,
    )
    .map(([key, value]) => `${key}:${value}`),
  fc.constantFrom(
    'n:>10',
    'service.instance.id:i-1',
    'severity:>=warn',
    'severity:<info',
    'severity:error',
    'severity:*',
    'severity:unspecified',
    'signal:*',
    '"":*',
    'a.:*',
    'attributes.:*',
    'body.:*',
    'n:9007199254740993',
    'a:9007199254740992',
    'a.:9223372036854775807',
    'signal:log',
    'a.b:*',
    'pod:"order 17"',
    'duration:>1',
  ),
)
const search = fc
  .array(fc.tuple(fc.boolean(), atom), { minLength: 1, maxLength: 3 })
  .chain((atoms) =>
    fc
      .constantFrom(' ', ' OR ')
      .map((between) => atoms.map(([isNot, each]) => (isNot ? `-${each}` : each)).join(between)),
  )

describe('a search in a compacted bundle, and in one that several were merged into', () => {
  it('finds, counts and orders what it does in one that is not, page by page', (context) => {
    const plain = TestStore.open(context)
    const compacted = TestStore.open(context)
    const merged = TestStore.open(context)
    for (const store of [plain, compacted, merged]) fill(store, mulberry32(testSeed()))
    compacted.compact()
    merged.compact()
    assert(merged.merge(0, 2) && merged.merge(0, 3))
    assert.equal(merged.bundles().length, 1)
    assert(compacted.segments.every(({ row }) => row?.isCompacted === true))
    let found = 0
    fc.assert(
      fc.property(
        search,
        fc.constantFrom('asc', 'desc'),
        fc.constantFrom(3, 500),
        fc.boolean(),
        (text, order, limit, isCut) => {
          const filter = { search: text, ...(isCut && { start_time_unix_nano: 1043, end_time_unix_nano: 1127 }) }
          for (let cursor: string | null = null, pages = 0; pages < 3; pages++) {
            const question: object = { dataset: 'orders', filter, order, page: { limit, cursor } }
            const expected: QueryResponseBody = plain.query('acme', question)
            const answer: QueryResponseBody = compacted.query('acme', question)
            assert.deepEqual(answer, expected, text)
            const { scanned_bundles, ...ofMerged } = merged.query('acme', question)
            assert.deepEqual({ ...ofMerged, scanned_bundles: expected.scanned_bundles }, expected, text)
            assert(scanned_bundles <= 1)
            found += expected.results.length
            cursor = expected.page.next_cursor
            if (cursor === null) break
          }
        },
      ),
      { numRuns: 120, seed: testSeed() },
    )
    assert(found > 300, `${found} found`)
  })
})
