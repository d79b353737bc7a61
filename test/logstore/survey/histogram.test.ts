import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { parseHistogramRequest } from '../../../src/logstore/survey/request.ts'
import { TRACES, TestStore } from '../../support/stored-segments.ts'
import { questionOf, steps, survey, time, withModel } from './support.ts'
import type { HistogramAnswer, Stored } from './support.ts'

const histogram = (store: TestStore, asked: object): HistogramAnswer =>
  survey(store, 'acme', { histogram: { dataset: 'orders', ...asked } }) as HistogramAnswer // as its route documents it

const filters = fc.record({
  start: fc.option(time, { nil: null }),
  end: fc.option(time, { nil: null }),
  trace: fc.constantFrom(null, null, ...TRACES),
  begins: fc.constantFrom(null, null, '1', '2'),
})
type Filter = typeof filters extends fc.Arbitrary<infer Value> ? Value : never

const bodyOf = ({ start, end, trace, begins }: Filter): object => ({
  start_time_unix_nano: start?.toString() ?? null,
  end_time_unix_nano: end?.toString() ?? null,
  trace_id: trace,
  search: begins === null ? null : `${begins}*`,
})

const matches =
  ({ start, end, trace, begins }: Filter) =>
  (record: Stored): boolean =>
    record.dataset === 'orders' &&
    (start === null || record.time >= start) &&
    (end === null || record.time < end) &&
    (trace === null || record.trace === trace) &&
    (begins === null || record.text.startsWith(begins))

const SEVERITIES: Readonly<Record<number, string>> = {
  0: 'unspecified',
  1: 'trace',
  9: 'info',
  12: 'info',
  17: 'error',
  24: 'fatal',
  77: 'unspecified',
}

const SPLITS: Readonly<Record<string, (record: Stored) => string | null>> = {
  severity: ({ severity = 0 }) => SEVERITIES[severity]!,
  host: ({ attributes = {} }) => attributes['host'] ?? null,
  'attributes.host': ({ attributes = {} }) => attributes['host'] ?? null,
  'resource.attributes.host': () => null,
  'service.name': ({ dataset }) => dataset,
  body: ({ text }) => text,
  trace_id: ({ trace }) => trace,
  signal: () => 'log',
}

describe('a histogram', () => {
  it('counts what matches by time and by value, however it is spread over segments', () => {
    fc.assert(
      fc.property(
        steps,
        filters,
        fc.oneof(
          fc.record({ buckets: fc.integer({ min: 1, max: 40 }) }),
          fc.record({ interval_nano: fc.constantFrom('1', '7', '30', '4611686018427387904') }),
        ),
        fc.constantFrom(null, null, ...Object.keys(SPLITS)),
        fc.integer({ min: 1, max: 4 }),
        (run, filter, width, splitBy, top) =>
          withModel(run, (model) => {
            const body = { dataset: 'orders', filter: bodyOf(filter), ...width, split_by: splitBy, top }
            const answer = model.store.askSurvey('acme', questionOf({ histogram: body }))
            if (answer.kind !== 'ok') {
              assert.deepEqual([answer.kind, 'interval_nano' in width], ['invalid_query', true])
              return
            }
            const told = JSON.parse(Buffer.from(answer.body).toString()) as HistogramAnswer
            const { whole } = model.of('acme', matches(filter))
            const { lost } = model.of('acme', matches({ ...filter, begins: null })) // the texts of lost records are unknown
            assert.deepEqual([told.matched_records, told.quarantined_records ?? 0], [whole.length, lost])
            assertBuckets(told, whole, filter, width)
            if (splitBy !== null) assertSeries(told, whole, SPLITS[splitBy]!, top)
            else assert.equal(told.series, undefined)
          }),
      ),
      { numRuns: 150 },
    )
  })
})

const bucketOf = ({ buckets, interval_nano }: HistogramAnswer, at: bigint): number =>
  Number((at - BigInt(buckets[0]!.start_time_unix_nano)) / BigInt(interval_nano))

function assertBuckets(told: HistogramAnswer, whole: readonly Stored[], filter: Filter, width: object): void {
  const { buckets, interval_nano } = told
  const interval = BigInt(interval_nano)
  const begins = buckets.map(({ start_time_unix_nano }) => BigInt(start_time_unix_nano))
  for (const [i, begin] of begins.entries()) assert.equal(begin, begins[0]! + BigInt(i) * interval)
  if (begins.length > 0) {
    if ('interval_nano' in width) assert.equal(begins[0]! % interval, 0n)
    else if (filter.start !== null) assert.equal(begins[0], filter.start)
    if ('buckets' in width) assert(begins.length <= (width.buckets as number))
    const end = begins.at(-1)! + interval
    if (filter.end !== null) assert(begins.at(-1)! < filter.end && end >= filter.end)
  }
  const counts = Array.from(buckets, () => 0)
  for (const record of whole) counts[bucketOf(told, record.time)]!++
  assert.deepEqual(
    buckets.map(({ records }) => records),
    counts,
  )
}

function assertSeries(
  told: HistogramAnswer,
  whole: readonly Stored[],
  valueOf: (record: Stored) => string | null,
  top: number,
): void {
  const series = told.series!
  const byValue = Map.groupBy(whole, valueOf)
  const none = byValue.get(null) ?? []
  byValue.delete(null)
  const ranked = [...byValue].sort(([a, own], [b, other]) => other.length - own.length || (a! < b! ? -1 : 1))
  const shown = ranked.slice(0, top)
  const other = ranked.slice(top).flatMap(([, records]) => records)
  const countsOf = (records: readonly Stored[]): number[] => {
    const counts = Array.from(told.buckets, () => 0)
    for (const record of records) counts[bucketOf(told, record.time)]!++
    return counts
  }
  const rowOf = (kind: string, records: readonly Stored[]) => ({
    kind,
    records: records.length,
    counts: countsOf(records),
  })
  assert.deepEqual(series, [
    ...shown.map(([value, records]) => ({ ...rowOf('value', records), value })),
    ...(other.length > 0 ? [rowOf('other', other)] : []),
    ...(none.length > 0 ? [rowOf('none', none)] : []),
  ])
  assert.equal(told.top_is_certain, undefined)
}

describe('the buckets of a histogram', () => {
  const filled = (store: TestStore): void => {
    for (const time of [100n, 150n, 199n, 250n])
      store.add('acme', [{ dataset: 'orders', time, trace: null, text: `${time}` }])
  }

  it('begin at multiples of the interval, and those of the ends count what is in the range only', (context) => {
    const store = TestStore.open(context)
    filled(store)
    const filter = { start_time_unix_nano: 120, end_time_unix_nano: '250' }
    assert.deepEqual(histogram(store, { interval_nano: 100, filter }).buckets, [
      { start_time_unix_nano: '100', records: 2 },
      { start_time_unix_nano: '200', records: 0 },
    ])
  })

  it('reach from the first record of the dataset to its last where the filter leaves the ends open', (context) => {
    const store = TestStore.open(context)
    filled(store)
    const { buckets, interval_nano } = histogram(store, { buckets: 3 })
    assert.equal(interval_nano, '51')
    assert.deepEqual(buckets, [
      { start_time_unix_nano: '100', records: 2 },
      { start_time_unix_nano: '151', records: 1 },
      { start_time_unix_nano: '202', records: 1 },
    ])
    assert.deepEqual(histogram(store, { filter: { search: '150' }, buckets: 3 }).buckets[0], {
      start_time_unix_nano: '100',
      records: 1,
    })
  })

  it('are none for a dataset without records, nor for an empty range', (context) => {
    const store = TestStore.open(context)
    assert.deepEqual(histogram(store, {}).buckets, [])
    filled(store)
    const filter = { start_time_unix_nano: 9, end_time_unix_nano: 9 }
    assert.deepEqual([histogram(store, { filter }).buckets, histogram(store, { filter }).matched_records], [[], 0])
    assert.deepEqual(histogram(store, { dataset: 'payments', split_by: 'severity' }).buckets, [])
  })

  it('that are too many are refused, with how many there are', (context) => {
    const store = TestStore.open(context)
    filled(store)
    const filter = { start_time_unix_nano: 0, end_time_unix_nano: 4000 }
    assert.equal(histogram(store, { interval_nano: 2, filter }).buckets.length, 2000)
    const answer = store.askSurvey('acme', questionOf({ histogram: { dataset: 'orders', interval_nano: 1, filter } }))
    assert.deepEqual(answer, {
      kind: 'invalid_query',
      message: 'interval_nano makes 4000 buckets of the time range, and 2000 are allowed: raise it or narrow the range',
      incident: null,
    })
  })
})

describe('a split', () => {
  it('by a key with more values than are counted at once has exact counts of the most frequent ones', (context) => {
    const store = TestStore.open(context)
    const add = (hosts: readonly string[]): void => {
      for (let first = 0; first < hosts.length; first += 250) {
        store.add(
          'acme',
          hosts.slice(first, first + 250).map((host, i) => {
            const number = first + i
            return { dataset: 'orders', time: BigInt(1 + number), trace: null, text: `${number}`, attributes: { host } }
          }),
        )
      }
    }
    add(Array.from({ length: 900 }, (_, i) => (i % 9 === 0 ? 'often' : i % 9 === 4 ? 'seldom' : `host-${i}`)))
    // 700 values in 2000 buckets each are more than there is room for at once
    const filter = { start_time_unix_nano: 0, end_time_unix_nano: 2000 }
    for (const buckets of [2, 2000]) {
      const { series, matched_records, top_is_certain } = histogram(store, {
        buckets,
        filter,
        split_by: 'host',
        top: 2,
      })
      assert.equal(matched_records, 900)
      assert.equal(top_is_certain, undefined)
      assert.deepEqual(
        series!.map(({ kind, value, records }) => [kind, value, records]),
        [
          ['value', 'often', 100],
          ['value', 'seldom', 100],
          ['other', undefined, 700],
        ],
      )
      for (const { records, counts } of series!) {
        assert.equal(
          counts.reduce((sum, count) => sum + count, 0),
          records,
        )
      }
    }
  })

  it('tells long values cut, and takes those that differ behind the cut for different ones', (context) => {
    const store = TestStore.open(context)
    const long = 'x'.repeat(300)
    for (const [i, host] of [`${long}a`, `${long}b`, `${long}a`].entries()) {
      store.add('acme', [{ dataset: 'orders', time: BigInt(i), trace: null, text: `${i}`, attributes: { host } }])
    }
    const { series } = histogram(store, { buckets: 1, split_by: 'host' })
    const value = 'x'.repeat(256)
    assert.deepEqual(series, [
      { kind: 'value', value, value_is_cut: true, records: 2, counts: [2] },
      { kind: 'value', value, value_is_cut: true, records: 1, counts: [1] },
    ])
  })
})

describe('the body of a histogram', () => {
  const problem = (body: object): string => {
    const parsed = parseHistogramRequest(Buffer.from(JSON.stringify({ dataset: 'orders', ...body })))
    assert('message' in parsed)
    assert.equal(parsed.kind, 'invalid_query')
    return parsed.message
  }

  it('is refused with the name of what is wrong', () => {
    assert.match(problem({ dataset: '' }), /^dataset is required/)
    assert.match(problem({ filter: { search: '(' } }), /^filter\.search: .*column 2/)
    for (const interval_nano of [0, '0', 1.5, -1, '18446744073709551616', 'x', {}]) {
      assert.match(problem({ interval_nano }), /^interval_nano must be/)
    }
    for (const buckets of [0, 2001, 1.5, '3'])
      assert.match(problem({ buckets }), /^buckets must be an integer from 1 to 2000$/)
    for (const top of [0, 101]) assert.match(problem({ top }), /^top must be an integer from 1 to 100$/)
    for (const split_by of ['', 7, 'x'.repeat(1025)]) assert.match(problem({ split_by }), /^split_by must be a string/)
    assert.match(problem({ interval_nano: 1, buckets: 1 }), /^interval_nano and buckets exclude each other$/)
    assert.match(problem({ page: {} }), /unknown field; known are dataset, filter, deadline_ms, interval_nano/)
    assert.match(problem({ deadline_ms: 0 }), /^deadline_ms must be/)
  })

  it('may leave everything but the dataset out', () => {
    const question = questionOf({ histogram: { dataset: 'orders', filter: null, interval_nano: null, split_by: null } })
    assert.partialDeepStrictEqual(question, { width: { buckets: 60 }, splitBy: null, top: 10, deadlineMs: 10_000 })
  })
})
