import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { FORMAT_PROTOBUF, SIGNAL_TRACE } from '../../../src/logstore/batch-frame.ts'
import { parseFieldsRequest } from '../../../src/logstore/survey/request.ts'
import { TestStore } from '../../support/stored-segments.ts'
import { encodeTraces, text, tracesRequest } from '../../support/otlp.ts'
import type { Span } from '../../support/otlp.ts'
import { questionOf, steps, survey, withModel } from './support.ts'
import type { FieldsAnswer, Stored } from './support.ts'

const fields = (store: TestStore, asked: object = {}): FieldsAnswer =>
  survey(store, 'acme', { fields: { dataset: 'orders', ...asked } }) as FieldsAnswer // as its route documents it

const SEVERITIES: Readonly<Record<number, string>> = {
  0: 'unspecified',
  1: 'trace',
  9: 'info',
  12: 'info',
  17: 'error',
  24: 'fatal',
  77: 'unspecified',
}

/** Names and values of a record of the random stores. */
const seenOf = ({ tenant, dataset, severity = 0, attributes = {} }: Stored): [name: string, value: string][] => [
  ['signal', 'log'],
  ['severity', SEVERITIES[severity]!],
  ['resource.attributes.tenant_id', tenant],
  ['resource.attributes.service.name', dataset],
  ...Object.entries(attributes).map(([key, value]): [string, string] => [`attributes.${key}`, value]),
]

function expectedOf(records: readonly Stored[]): FieldsAnswer['fields'] {
  const keys = new Map<string, Map<string, number>>()
  for (const [name, value] of records.flatMap(seenOf)) {
    const values = keys.get(name) ?? new Map<string, number>()
    keys.set(name, values.set(value, (values.get(value) ?? 0) + 1))
  }
  return Array.from(keys, ([name, values]) => ({
    name,
    of: name.startsWith('resource.') ? 'resource' : name.startsWith('attributes.') ? 'record' : 'field',
    records: [...values.values()].reduce((sum, count) => sum + count, 0),
    distinct_values: values.size,
    values: Array.from(values, ([value, records]) => ({ value, records })).sort(
      (a, b) => b.records - a.records || (a.value < b.value ? -1 : 1),
    ),
  })).sort((a, b) => b.records - a.records || (a.name < b.name ? -1 : 1))
}

describe('the fields of records', () => {
  it('are those of all that match, with their values by how often they come, however the records are spread', () => {
    fc.assert(
      fc.property(
        steps,
        fc.option(fc.bigInt({ min: 5n, max: 60n }), { nil: null }),
        fc.constantFrom(null, '1', '2'),
        (run, from, begins) =>
          withModel(run, (model) => {
            const search = begins === null ? null : `${begins}*`
            const answer = fields(model.store, { filter: { start_time_unix_nano: from?.toString() ?? null, search } })
            const isInRange = ({ dataset, time }: Stored): boolean =>
              dataset === 'orders' && (from === null || time >= from)
            const { whole, lost } = model.of('acme', isInRange)
            const matching = whole.filter(({ text }) => begins === null || text.startsWith(begins))
            assert.deepEqual(
              [answer.matched_records, answer.quarantined_records ?? 0, answer.sampled, answer.sampled_records],
              [matching.length, lost, false, matching.length],
            )
            assert.deepEqual(answer.fields, expectedOf(matching))
          }),
      ),
      { numRuns: 60 },
    )
  })

  it('are counted in a sample beyond its bound, and the answer says of how many', () => {
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 60 }), fc.boolean(), (run, bound, searches) =>
        withModel(run, (model) => {
          const search = searches ? 'signal:log' : null
          const answer = fields(model.store, { sample_records: bound, filter: { search } })
          const { whole } = model.of('acme', ({ dataset }) => dataset === 'orders')
          assert.equal(answer.matched_records, whole.length)
          assert(answer.sampled_records <= bound)
          assert.equal(answer.sampled, answer.sampled_records < whole.length)
          assert.equal(answer.sampled_records === 0, whole.length === 0)
          if (whole.length > 0) assert.equal(answer.fields[0]!.records, answer.sampled_records) // all records have the first field
        }),
      ),
      { numRuns: 60 },
    )
  })

  it('of a sample are none of damaged frames, wherever the sample falls', (context) => {
    const store = TestStore.open(context)
    const positions = Array.from({ length: 8 }, (_, i) =>
      store.add('acme', [{ dataset: 'orders', time: BigInt(1 + i), trace: null, text: `${i}` }]),
    )
    store.quarantined = positions
      .filter((_, i) => i % 2 === 0)
      .map((position) => ({ from: position, to: position + 8 }))
    for (const sealed of [false, true]) {
      if (sealed) {
        store.seal()
        store.publish()
      }
      for (const bound of [1, 2, 3]) {
        const { matched_records, sampled_records, quarantined_records } = fields(store, { sample_records: bound })
        assert.deepEqual([matched_records, sampled_records, quarantined_records], [4, bound, 4])
      }
    }
  })

  it('come from every part of what is sampled', (context) => {
    const store = TestStore.open(context)
    for (let batch = 0; batch < 40; batch++) {
      const records = Array.from({ length: 50 }, (_, i) => {
        const attributes = { batch: String(Math.floor(batch / 4)) }
        return { dataset: 'orders', time: BigInt(100 * batch + i), trace: null, text: `${batch}.${i}`, attributes }
      })
      store.add('acme', records)
      if (batch % 13 === 12) store.seal()
      if (batch === 20) store.publish()
    }
    for (const filter of [{}, { search: 'signal:log' }]) {
      const answer = fields(store, { sample_records: 400, filter })
      assert.deepEqual([answer.matched_records, answer.sampled], [2000, true])
      assert(answer.sampled_records >= ('search' in filter ? 200 : 380), `${answer.sampled_records}`)
      const batches = answer.fields.find(({ name }) => name === 'attributes.batch')!
      assert.equal(batches.distinct_values, 10)
      for (const { records } of batches.values) assert(records > answer.sampled_records / 40, `${records}`)
    }
  })

  it('of spans are those that OTLP has, enums by their names', (context) => {
    const store = TestStore.open(context)
    const ids = { traceId: Buffer.alloc(16, 1), spanId: Buffer.alloc(8, 1) }
    const status = { code: 2, message: 'gone' }
    const spans: Span[] = [
      { ...ids, name: 'GET /', kind: 2, startTimeUnixNano: '1', status, attributes: [text('host', 'a')] },
      { ...ids, name: 'GET /', kind: 3, startTimeUnixNano: '2' },
    ]
    const request = tracesRequest(spans, [text('service.name', 'orders')])
    store.addBody('acme', encodeTraces(request), SIGNAL_TRACE, FORMAT_PROTOBUF, ['orders'])
    const told = new Map(fields(store).fields.map(({ name, of, values }) => [name, { of, values }]))
    const values = (...pairs: [value: string, records: number][]) => ({
      of: 'field',
      values: pairs.map(([value, records]) => ({ value, records })),
    })
    assert.deepEqual(told.get('signal'), values(['trace', 2]))
    assert.deepEqual(told.get('name'), values(['GET /', 2]))
    assert.deepEqual(told.get('kind'), values(['client', 1], ['server', 1]))
    assert.deepEqual(told.get('status.code'), values(['error', 1], ['unset', 1]))
    assert.deepEqual(told.get('status.message'), values(['gone', 1]))
    assert.deepEqual(told.get('attributes.host'), { of: 'record', values: [{ value: 'a', records: 1 }] })
    assert.equal(told.has('severity'), false)
  })

  it('are as many as an answer has room for, and values as many as are asked for', (context) => {
    const store = TestStore.open(context)
    for (let i = 0; i < 11; i++) {
      const attributes = Object.fromEntries(Array.from({ length: 100 }, (_, key) => [`key-${i}-${key}`, `${key}`]))
      store.add('acme', [{ dataset: 'orders', time: BigInt(i), trace: null, text: `${i}`, attributes }])
    }
    const answer = fields(store, { values: 0 })
    assert.deepEqual([answer.fields.length, answer.left_out_fields], [1000, 11 * 100 + 4 - 1000])
    for (const { values, distinct_values } of answer.fields) assert.deepEqual([values, distinct_values > 0], [[], true])
  })
})

describe('the body that asks for fields', () => {
  it('is refused with the name of what is wrong', () => {
    const problem = (body: object): string => {
      const parsed = parseFieldsRequest(Buffer.from(JSON.stringify({ dataset: 'orders', ...body })))
      assert('message' in parsed)
      assert.equal(parsed.kind, 'invalid_query')
      return parsed.message
    }
    for (const sample_records of [0, 50_001, '5'])
      assert.match(problem({ sample_records }), /^sample_records must be an integer from 1 to 50000$/)
    for (const values of [-1, 101, 'x']) assert.match(problem({ values }), /^values must be an integer from 0 to 100$/)
    assert.match(
      problem({ buckets: 3 }),
      /unknown field; known are dataset, filter, deadline_ms, sample_records, values/,
    )
    assert.match(problem({ dataset: null }), /^dataset is required/)
  })

  it('may leave everything but the dataset out', () => {
    assert.partialDeepStrictEqual(questionOf({ fields: { dataset: 'orders' } }), { sampleMax: 10_000, valuesMax: 10 })
  })
})
