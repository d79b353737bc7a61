import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import {
  FORMAT_JSON,
  FORMAT_PROTOBUF,
  SIGNAL_LOG,
  SIGNAL_TRACE,
  StoredBatch,
} from '../../../src/logstore/batch-frame.ts'
import type { Search, ValueCondition } from '../../../src/logstore/search/expression.ts'
import { SearchMatcher } from '../../../src/logstore/search/matcher.ts'
import { parseQueryRequest } from '../../../src/logstore/query/request.ts'
import { parseSearch } from '../../../src/logstore/search/parse.ts'
import { LOGS_REQUEST, TRACES_REQUEST, encode, toOtlpJson } from '../../support/otlp.ts'
import type { AnyValue, KeyValue, LogRecord, Span } from '../../support/otlp.ts'
import { SearchError } from '../../../src/logstore/search/expression.ts'
import { COSTLY_SEARCHES, HOSTILE_TEXTS, hostileSearches } from '../../support/search-texts.ts'
import { payloadOf } from '../../support/batch-payloads.ts'

interface Group {
  readonly resource?: { readonly attributes?: readonly KeyValue[] }
  readonly scope?: { readonly name?: string; readonly version?: string; readonly attributes?: readonly KeyValue[] }
  readonly records: readonly (LogRecord | Span)[]
}

function storedBatch(groups: readonly Group[], isLog: boolean, format: number): StoredBatch {
  const request = isLog
    ? {
        resourceLogs: groups.map(({ resource, scope, records }) => ({
          resource,
          scopeLogs: [{ scope, logRecords: records }],
        })),
      }
    : {
        resourceSpans: groups.map(({ resource, scope, records }) => ({
          resource,
          scopeSpans: [{ scope, spans: records }],
        })),
      }
  const body =
    format === FORMAT_JSON
      ? Buffer.from(JSON.stringify(toOtlpJson(request)))
      : encode(isLog ? LOGS_REQUEST : TRACES_REQUEST, request)
  return new StoredBatch(payloadOf('local', body, isLog ? SIGNAL_LOG : SIGNAL_TRACE, format, ['app']))
}

function matching(batch: StoredBatch, search: Search): number[] {
  const numbers = Uint16Array.from({ length: batch.recordCount }, (_, i) => i)
  const found: number[] = []
  new SearchMatcher(search, () => {}).run(batch, numbers, numbers.length, (at) => found.push(at))
  return found
}

// The reference: the same questions asked of plain objects, each in the simplest way there is.

const foldNaive = (text: string): string =>
  Array.from(text, (character) => {
    const lower = character === 'ς' ? 'σ' : character.toLowerCase()
    return character > '\x7f' && lower < '\x80' ? character : lower
  }).join('')

const WORDS =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Thai}]|(?:(?![\p{Script=Han}\p{Script=Hiragana}\p{Script=Thai}])[\p{L}\p{M}\p{N}\p{Pc}])+/gu

function textHas(text: string, words: readonly string[], prefix: boolean): boolean {
  const all = Array.from(text.matchAll(WORDS), ([word]) => foldNaive(word))
  return all.some((_, at) =>
    words.every((word, i) => (prefix && i === words.length - 1 ? all[at + i]?.startsWith(word) : all[at + i] === word)),
  )
}

function stringsOf(value: AnyValue | undefined): string[] {
  if (value?.stringValue !== undefined) return [value.stringValue]
  if (value?.arrayValue) return value.arrayValue.values.flatMap(stringsOf)
  return value?.kvlistValue?.values.flatMap((pair) => stringsOf(pair.value)) ?? []
}

const textsOf = (attributes: readonly KeyValue[] = []): string[] => attributes.flatMap(({ value }) => stringsOf(value))

function valuePasses(value: AnyValue | undefined, condition: ValueCondition): boolean {
  if (condition.kind === 'exists') return true
  if (value?.arrayValue) return value.arrayValue.values.some((one) => valuePasses(one, condition))
  const { stringValue, intValue, doubleValue, boolValue } = value ?? {}
  if (condition.kind === 'begins') return stringValue !== undefined && foldNaive(stringValue).startsWith(condition.text)
  const number = intValue === undefined ? doubleValue : Number(intValue)
  if (condition.kind === 'equals') {
    if (stringValue !== undefined) return foldNaive(stringValue) === condition.text
    if (boolValue !== undefined) return String(boolValue) === condition.text
    return number !== undefined && condition.number !== null && number === Number(condition.number)
  }
  const compared = number ?? (/^-?[0-9]+(\.[0-9]+)?$/.test(stringValue ?? '') ? Number(stringValue) : undefined)
  const than = Number(condition.number)
  if (compared === undefined) return false
  if (condition.by === '<') return compared < than
  if (condition.by === '<=') return compared <= than
  return condition.by === '>' ? compared > than : compared >= than
}

function attributesPass(attributes: readonly KeyValue[] = [], name: string, condition: ValueCondition): boolean {
  return attributes.some(
    ({ key, value }) =>
      (key === name && valuePasses(value, condition)) ||
      (name.startsWith(`${key}.`) &&
        value?.kvlistValue !== undefined &&
        attributesPass(value.kvlistValue.values, name.slice(key.length + 1), condition)),
  )
}

function passes(search: Search, group: Group, record: LogRecord | Span, isLog: boolean): boolean {
  const { resource, scope } = group
  const again = (one: Search): boolean => passes(one, group, record, isLog)
  const log = record as LogRecord // read only where it is one
  const span = record as Omit<Span, 'events' | 'status'> & {
    events?: readonly { name?: string; attributes?: readonly KeyValue[] }[]
    status?: { message?: string; code?: number }
  }
  switch (search.kind) {
    case 'all':
      return true
    case 'and':
      return search.of.every(again)
    case 'or':
      return search.of.some(again)
    case 'not':
      return !again(search.of)
    case 'signal':
      return isLog === (search.signal === 'log')
    case 'severity': {
      if (!isLog) return false
      const named = { warn: 13, error: 17 }[(log.severityText ?? '').toLowerCase()] ?? 0
      const severity = log.severityNumber || named
      return severity >= search.min && severity <= search.max
    }
    case 'text': {
      const texts = isLog
        ? [...stringsOf(log.body), ...textsOf(log.attributes), log.eventName ?? '']
        : [
            span.name ?? '',
            span.status?.message ?? '',
            ...textsOf(span.attributes),
            ...(span.events ?? []).flatMap(({ name, attributes }) => [name ?? '', ...textsOf(attributes)]),
          ]
      return texts.some((text) => textHas(text, search.words, search.prefix))
    }
    case 'name': {
      const { name, value } = search
      const texts = isLog
        ? { severity_text: log.severityText, event_name: log.eventName }
        : { name: span.name, 'status.message': span.status?.message }
      const fields = { name: '', 'status.message': '', severity_text: '', event_name: '', ...texts }
      if (Object.hasOwn(fields, name)) {
        const text = fields[name as keyof typeof fields] ?? '' // just checked
        return text !== '' && valuePasses({ stringValue: text }, value)
      }
      if (name === 'end_time_unix_nano') {
        const end = span.endTimeUnixNano ?? '0'
        return !isLog && end !== '0' && valuePasses({ intValue: end }, value)
      }
      if (name === 'status.code') return !isLog && valuePasses({ intValue: `${span.status?.code ?? 0}` }, value)
      if (name === 'body') return isLog && log.body !== undefined && valuePasses(log.body, value)
      if (name.startsWith('body.'))
        return isLog && attributesPass(log.body?.kvlistValue?.values, name.slice('body.'.length), value)
      if (name.startsWith('attributes.'))
        return attributesPass(record.attributes, name.slice('attributes.'.length), value)
      if (name === 'duration') {
        const [start, end] = [BigInt(span.startTimeUnixNano ?? 0), BigInt(span.endTimeUnixNano ?? 0)]
        if (isLog || start === 0n || end === 0n) return false
        return valuePasses({ intValue: `${end < start ? 0 : end - start}` }, value)
      }
      return [record.attributes, scope?.attributes, resource?.attributes].some((list) =>
        attributesPass(list, name, value),
      )
    }
  }
}

// Few words, so that much matches; escapes and other scripts among them.
const texts = fc
  .array(
    fc.constantFrom(
      'timeout',
      'Timeout',
      'timeouts',
      'GET',
      'get',
      'größe',
      'GRÖSSE',
      '日志',
      'e\u0301',
      '42',
      '\u212a',
      'a_b',
    ),
    { maxLength: 5 },
  )
  .chain((words) => fc.constantFrom(' ', '-', '/', '"', '\n', '').map((by) => words.join(by)))
const values: fc.Arbitrary<AnyValue> = fc.letrec<{ value: AnyValue }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    { weight: 3, arbitrary: texts.map((stringValue) => ({ stringValue })) },
    fc.constantFrom('500', '42', '-1', '9007199254740993').map((intValue) => ({ intValue })),
    fc.constantFrom(42, 0.5, 500).map((doubleValue) => ({ doubleValue })),
    fc.boolean().map((boolValue) => ({ boolValue })),
    fc.array(tie('value'), { maxLength: 2 }).map((values) => ({ arrayValue: { values } })),
    fc
      .array(fc.record({ key: fc.constantFrom('b', 'c', 'b.c', ''), value: tie('value') }), { maxLength: 2 })
      .map((values) => ({ kvlistValue: { values } })),
  ),
})).value
const attributes = fc.array(fc.record({ key: fc.constantFrom('a', 'a.b', 'http.method', 'code', ''), value: values }), {
  maxLength: 3,
})
const times = fc.constantFrom('1700000000000000000', '1700000000000000500', '1700000000100000000')
const logs: fc.Arbitrary<LogRecord> = fc.record(
  {
    timeUnixNano: times,
    body: values,
    attributes,
    severityNumber: fc.constantFrom(0, 9, 13, 17, 18),
    severityText: fc.constantFrom('', 'WARN', 'Error', 'odd'),
    eventName: fc.constantFrom('', 'timeout'),
  },
  { requiredKeys: [] },
)
const spans: fc.Arbitrary<Span> = fc.record(
  {
    traceId: fc.constant(new Uint8Array(16).fill(7)),
    spanId: fc.constant(new Uint8Array(8).fill(7)),
    name: texts,
    startTimeUnixNano: times,
    endTimeUnixNano: fc.oneof(times, fc.constant('0')),
    attributes,
    events: fc.array(fc.record({ name: texts, attributes }), { maxLength: 2 }),
    status: fc.record({ message: texts, code: fc.constantFrom(0, 1, 2) }, { requiredKeys: [] }),
  },
  { requiredKeys: ['traceId', 'spanId'] },
)
const groupOf = (records: fc.Arbitrary<LogRecord | Span>): fc.Arbitrary<Group> =>
  fc.record({
    resource: fc.record({ attributes }),
    scope: fc.record({ name: fc.constant('lib'), attributes }),
    records: fc.array(records, { minLength: 1, maxLength: 4 }),
  })

const CONDITIONS = `timeout | TIMEOUT* | get | "get timeout" | "timeout get" | größe | 日 | "日 志" | e | k | ge* | a_b | 42 | a:timeout | a:42 | a.b:get |
  a.b.c:* | code:>41 | code:<=42 | code:9007199254740993 | a:true | a:time* | http.method:"get/timeout" | severity:>=warn | severity:error | signal:log |
  severity:* | severity:unspecified | signal:* | "":timeout | "":* | a.:get | a.:* | a..b:* | .b:* | attributes.:42 | attributes.a.:* | body.:timeout | body.:* |
  body.b:get | body.b.:* | body:* | name:timeout | name:* | name:"" | severity_text:* | severity_text:odd | event_name:* | status.message:* | end_time_unix_nano:* |
  end_time_unix_nano:<1 | status:error | status.code:<2 | body:get | duration:>=500 | duration:<1ms`
const conditions: fc.Arbitrary<Search> = fc
  .constantFrom(...CONDITIONS.split('|').map((text) => text.trim()))
  .map(parseSearch)
const searches = fc.letrec<{ search: Search }>((tie) => ({
  search: fc.oneof(
    { maxDepth: 3 },
    { weight: 3, arbitrary: conditions },
    tie('search').map((of): Search => ({ kind: 'not', of })),
    fc.array(tie('search'), { minLength: 2, maxLength: 3 }).map((of): Search => ({ kind: 'and', of })),
    fc.array(tie('search'), { minLength: 2, maxLength: 3 }).map((of): Search => ({ kind: 'or', of })),
  ),
})).search

describe('a search finds in a stored batch what a plain look at its records finds', () => {
  for (const isLog of [true, false]) {
    for (const format of [FORMAT_PROTOBUF, FORMAT_JSON]) {
      it(`of ${isLog ? 'logs' : 'spans'} in ${format === FORMAT_JSON ? 'JSON' : 'protobuf'}`, () => {
        let found = 0
        const groups = fc.array(groupOf(isLog ? logs : spans), { minLength: 1, maxLength: 3 })
        fc.assert(
          fc.property(groups, searches, (groups, search) => {
            const expected = groups
              .flatMap((group) => group.records.map((record) => passes(search, group, record, isLog)))
              .flatMap((isFound, number) => (isFound ? [number] : []))
            assert.deepEqual(matching(storedBatch(groups, isLog, format), search), expected)
            found += expected.length
          }),
          { numRuns: 1500 },
        )
        assert(found > 500) // else nothing was compared
      })
    }
  }

  it('takes a record with an invalid id as one without it, and a span without a valid parent as a root', () => {
    const valid = { traceId: Buffer.alloc(16, 7), spanId: Buffer.alloc(8, 7) }
    const found = (records: readonly (LogRecord | Span)[], isLog: boolean, text: string): number[][] =>
      [FORMAT_PROTOBUF, FORMAT_JSON].map((format) =>
        matching(storedBatch([{ records }], isLog, format), parseSearch(text)),
      )
    const logs = [
      valid,
      { traceId: Buffer.alloc(16), spanId: Buffer.alloc(8) },
      { traceId: Buffer.alloc(15, 7), spanId: Buffer.alloc(9, 7) },
      { traceId: Buffer.alloc(0), spanId: Buffer.alloc(0) },
      {},
    ]
    for (const name of ['trace_id', 'span_id']) {
      assert.deepEqual(found(logs, true, `${name}:*`), [[0], [0]])
      assert.deepEqual(found(logs, true, `-${name}:*`), [
        [1, 2, 3, 4],
        [1, 2, 3, 4],
      ])
    }
    assert.deepEqual(found(logs, true, `trace_id:${'0'.repeat(32)}`), [[], []])
    assert.deepEqual(found(logs, true, `trace_id:${'07'.repeat(16)}`), [[0], [0]])
    const spans = [
      { ...valid, parentSpanId: Buffer.alloc(8, 9) },
      { ...valid, parentSpanId: Buffer.alloc(8) },
      { ...valid, parentSpanId: Buffer.alloc(1, 9) },
      valid,
    ]
    assert.deepEqual(found(spans, false, '-parent_span_id:*'), [
      [1, 2, 3],
      [1, 2, 3],
    ])
  })

  it('takes a name with a prefix as that of one place only', () => {
    const batch = storedBatch(
      [
        {
          resource: { attributes: [{ key: 'name', value: { stringValue: 'r' } }] },
          scope: { name: 'lib', version: '2', attributes: [{ key: 'name', value: { stringValue: 's' } }] },
          records: [{ timeUnixNano: '1', attributes: [{ key: 'name', value: { stringValue: 'own' } }] }],
        },
      ],
      true,
      FORMAT_PROTOBUF,
    )
    const finds = (text: string): boolean => matching(batch, parseSearch(text)).length === 1
    for (const text of [
      'attributes.name:own',
      'scope.attributes.name:S',
      'resource.attributes.name:r',
      'scope.name:lib',
      'scope.version:2',
    ]) {
      assert(finds(text), text)
    }
    for (const text of ['attributes.name:r', 'resource.attributes.name:own', 'name:own']) assert(!finds(text), text)
  })

  it('finds whole numbers beyond 2^53: those of 64 bits exactly, doubles by every number that they stand for', () => {
    const values = [
      { intValue: '9007199254740993' },
      { intValue: '9007199254740992' },
      { doubleValue: 9223372036854775808 },
      { doubleValue: 123456789012345680000 },
      { doubleValue: 9007199254740992 },
      { doubleValue: 1e21 },
    ]
    const records = values.map((value): LogRecord => ({ attributes: [{ key: 'n', value }] }))
    for (const format of [FORMAT_PROTOBUF, FORMAT_JSON]) {
      const batch = storedBatch([{ records }], true, format)
      for (const [number, expected] of [
        ['9007199254740993', [0, 4]],
        ['9007199254740992', [1, 4]],
        ['9223372036854775808', [2]],
        ['9223372036854775807', [2]],
        ['9223372036854776000', [2]],
        ['123456789012345680000', [3]],
        ['123456789012345683968', [3]],
        ['1000000000000000000000', [5]],
        ['1e21', [5]],
      ] as const) {
        assert.deepEqual(matching(batch, parseSearch(`n:${number}`)), expected, `n:${number}`)
        assert.deepEqual(matching(batch, parseSearch(`n:>=${number} n:<=${number}`)), expected, `n:>=${number}`)
        const request = parseQueryRequest(
          Buffer.from(`{"dataset":"app","filter":{"search":{"attributes":{"n":${number}}}}}`),
        )
        assert(!('kind' in request))
        assert.deepEqual(matching(batch, request.filter.search!), expected, `an object with ${number}`)
      }
      assert.deepEqual(matching(batch, parseSearch('n:>9007199254740992')), [0, 2, 3, 5])
    }
  })

  it('finds a word in a text also where a key or a longer word has it before', () => {
    const [text, key] = [(stringValue: string) => ({ stringValue }), 'http.request.method']
    const logs = [
      { body: text('requested'), attributes: [{ key, value: text('GET') }] },
      { body: text('requests, a REQUEST'), attributes: [{ key, value: text('GET') }] },
      { body: text('requested'), eventName: 'request' },
      { body: text('x'), attributes: [{ key, value: text('a request') }] },
      {
        attributes: [
          { key, value: text('GET') },
          { key: 'request', value: text('the request') },
        ],
      },
      {
        attributes: [
          { key: 'a', value: text('requested') },
          { key: 'request', value: text('POST') },
        ],
      },
      { body: { kvlistValue: { values: [{ key: 'request', value: { arrayValue: { values: [text('request')] } } }] } } },
    ]
    const spans = [
      { name: 'requests', attributes: [{ key, value: text('GET') }], status: { message: 'no request' } },
      { name: 'x', events: [{ name: 'requested' }, { name: 'request' }] },
      { name: 'x', events: [{ name: 'requested', attributes: [{ key, value: text('GET') }] }] },
    ].map((span) => ({ ...span, traceId: new Uint8Array(16).fill(7), spanId: new Uint8Array(8).fill(7) }))
    for (const format of [FORMAT_PROTOBUF, FORMAT_JSON]) {
      const search = parseSearch('request')
      assert.deepEqual(matching(storedBatch([{ records: logs }], true, format), search), [1, 2, 3, 4, 6])
      assert.deepEqual(matching(storedBatch([{ records: spans }], false, format), search), [0, 1])
    }
  })

  it('lets the deadline end it inside a batch, whatever the conditions', () => {
    const records = Array.from({ length: 64 }, (): LogRecord => ({ body: { stringValue: 'größe '.repeat(3000) } }))
    const batch = storedBatch([{ records }], true, FORMAT_PROTOBUF)
    const numbers = Uint16Array.from(records, (_, i) => i)
    let checks = 0
    const matcher = new SearchMatcher(parseSearch('ошибка OR отказ OR -größe'), () => {
      if (++checks === 2) throw new Error('over')
    })
    assert.throws(() => matcher.run(batch, numbers, numbers.length, () => {}), /over/)
  })

  it('answers whatever it is asked, of texts in every script, and the same in both formats', () => {
    const records = HOSTILE_TEXTS.map((stringValue): LogRecord => ({
      body: { stringValue },
      attributes: [{ key: stringValue, value: { stringValue } }],
    }))
    const [protobuf, json] = [FORMAT_PROTOBUF, FORMAT_JSON].map((format) => storedBatch([{ records }], true, format))
    let answered = 0
    const searched = (text: string): void => {
      const search = searchOrNull(text)
      if (search === null) return
      assert.deepEqual(matching(protobuf!, search), matching(json!, search))
      answered++
    }
    for (const text of COSTLY_SEARCHES) searched(text)
    assert.equal(answered, COSTLY_SEARCHES.length)
    fc.assert(fc.property(hostileSearches, searched), { numRuns: 1000 })
    assert(answered > 100) // else only refusals were tried
  })
})

/** Null: it is refused. */
function searchOrNull(text: string): Search | null {
  try {
    return parseSearch(text)
  } catch (error) {
    assert(error instanceof SearchError, String(error))
    return null
  }
}
