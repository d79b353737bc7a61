import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { TRACES, TestStore, textsOf, withStore } from '../../support/stored-segments.ts'
import type { TestRecord } from '../../support/batch-payloads.ts'
import type { QueriedRecord, QueryResponseBody } from '../../support/stored-segments.ts'

/** A stored record, and the position that orders it among records of one time. */
interface ModelRecord extends TestRecord {
  readonly tenant: string
  readonly position: number
}

type Step =
  | { readonly kind: 'add'; readonly tenant: string; readonly records: readonly Omit<TestRecord, 'text'>[] }
  | { readonly kind: 'seal' }
  | { readonly kind: 'publish'; readonly fromFrames: boolean; readonly compacts: boolean; readonly merges: number }
  | { readonly kind: 'restart' }

const record = fc.record({
  dataset: fc.constantFrom('orders', 'payments'),
  time: fc.oneof(fc.bigInt({ min: 5n, max: 12n }), fc.constantFrom(0xffff_ffffn, 1n << 32n, (1n << 64n) - 1n)),
  trace: fc.constantFrom(null, ...TRACES),
})
const publishing = { fromFrames: fc.boolean(), compacts: fc.boolean(), merges: fc.constantFrom(0, 2, 9) }
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    arbitrary: fc.record({
      kind: fc.constant('add' as const),
      tenant: fc.constantFrom('acme', 'acme', 'globex'),
      records: fc.array(record, { minLength: 1, maxLength: 12 }),
    }),
    weight: 6,
  },
  { arbitrary: fc.constant({ kind: 'seal' } as const), weight: 2 },
  {
    arbitrary: fc.record({ kind: fc.constant('publish' as const), ...publishing }),
    weight: 2,
  },
  { arbitrary: fc.constant({ kind: 'restart' } as const), weight: 1 },
)
const steps = fc.array(step, { maxLength: 20, size: 'max' })

interface ModelFilter {
  readonly trace: string | null
  readonly from: bigint | null
  readonly to: bigint | null
  /** Beginning of the texts, which a search looks for; null: no search. */
  readonly begins: string | null
  readonly order: 'asc' | 'desc'
}

const filter = fc.record({
  trace: fc.constantFrom(null, null, ...TRACES),
  from: fc.option(fc.bigInt({ min: 4n, max: 13n }), { nil: null }),
  to: fc.option(fc.oneof(fc.bigInt({ min: 4n, max: 13n }), fc.constant((1n << 64n) - 1n)), { nil: null }),
  begins: fc.constantFrom(null, null, '1', '2', '3'),
  order: fc.constantFrom('asc' as const, 'desc' as const),
})

/** Runs steps on a store and keeps the plain list of what was stored. */
class Model {
  readonly records: ModelRecord[] = []
  readonly store: TestStore

  constructor(store: TestStore) {
    this.store = store
  }

  run(step: Step): void {
    switch (step.kind) {
      case 'add': {
        const records = step.records.map((record, i) => ({ ...record, text: `${this.records.length + i}` }))
        const position = this.store.add(step.tenant, records)
        for (const record of records) this.records.push({ ...record, tenant: step.tenant, position })
        return
      }
      case 'seal':
        return this.store.seal()
      case 'publish':
        return this.store.publish(step.fromFrames, step.compacts, step.merges)
      case 'restart':
        return this.store.restart()
    }
  }

  /** Texts of all results in order: by time, ties in the order of storing. */
  expected(
    tenant: string,
    datasets: string | readonly string[],
    { trace, from, to, begins, order }: ModelFilter,
  ): string[] {
    const found = this.records
      .filter((one) => one.tenant === tenant && [datasets].flat().includes(one.dataset))
      .filter((one) => trace === null || one.trace === trace)
      .filter(({ time }) => (from === null || time >= from) && (to === null || time < to))
      .filter(({ text }) => begins === null || text.startsWith(begins))
      .sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : Number(a.text) - Number(b.text)))
      .map(({ text }) => text)
    return order === 'asc' ? found : found.reverse()
  }
}

const requestFilter = ({ trace, from, to, begins }: ModelFilter): object => ({
  trace_id: trace,
  search: begins === null ? null : `${begins}*`,
  start_time_unix_nano: from?.toString() ?? null,
  end_time_unix_nano: to?.toString() ?? null,
})

describe('a query', () => {
  it('answers like a list that is filtered and sorted, however the records are spread over segments', () => {
    fc.assert(
      fc.property(
        steps,
        filter,
        fc.constantFrom('acme', 'globex'),
        fc.integer({ min: 1, max: 500 }),
        (run, filter, tenant, limit) =>
          withStore((store) => {
            const model = new Model(store)
            for (const step of run) model.run(step)
            const reply = store.query(tenant, {
              dataset: 'orders',
              filter: requestFilter(filter),
              order: filter.order,
              page: { limit },
            })
            const expected = model.expected(tenant, 'orders', filter)
            assert.equal(reply.matched_records, expected.length)
            assert.deepEqual(textsOf(reply), expected.slice(0, limit))
            assert.equal(reply.page.next_cursor === null, expected.length <= limit)
            for (const { record } of reply.results) {
              const stored = model.records[Number(record.raw_payload.record.body.stringValue)]!
              assert.equal(record.time_unix_nano, stored.time.toString())
              assert.equal(record.trace_id, stored.trace)
            }
          }),
      ),
      { numRuns: 100 },
    )
  })

  it('without a dataset finds a trace in every dataset that may be read, page by page, and nothing of another tenant', () => {
    const among = fc.constantFrom(null, ['orders'], ['payments', 'none'], ['orders', 'payments'], [])
    fc.assert(
      fc.property(
        steps,
        filter,
        fc.constantFrom(...TRACES),
        among,
        fc.integer({ min: 1, max: 9 }),
        (run, rest, trace, among, limit) =>
          withStore((store) => {
            const model = new Model(store)
            for (const step of run) model.run(step)
            const filter = { ...rest, trace }
            const expected = model.expected('acme', among ?? ['orders', 'payments'], filter)
            const seen: string[] = []
            let cursor: string | null = null
            do {
              const body = { filter: requestFilter(filter), order: filter.order, page: { limit, cursor } }
              const reply: QueryResponseBody = store.query('acme', body, store.snapshot(), among)
              assert.equal(reply.matched_records, expected.length)
              assert.deepEqual(reply.used_indexes, ['identity.trace_id'])
              for (const { record } of reply.results) {
                assert.equal(record.dataset, model.records[Number(record.raw_payload.record.body.stringValue)]!.dataset)
                const { record_id } = record
                const byId = { filter: { trace_id: trace, record_id } }
                assert.equal(store.query('acme', byId, store.snapshot(), among).matched_records, 1)
              }
              seen.push(...textsOf(reply))
              cursor = reply.page.next_cursor
            } while (cursor !== null)
            assert.deepEqual(seen, expected)
          }),
      ),
      { numRuns: 60 },
    )
  })

  it('counts the records of an unsealed segment, whole or not, in the range or not, damaged or not', () => {
    const time = fc.integer({ min: 0, max: 9 })
    const batch = fc.record({ time, spread: fc.integer({ min: 0, max: 2 }), records: fc.integer({ min: 1, max: 12 }) })
    fc.assert(
      fc.property(
        fc.array(batch, { minLength: 1, maxLength: 12 }),
        time,
        time,
        fc.integer({ min: 1, max: 5 }),
        fc.option(fc.nat(), { nil: null }),
        fc.constantFrom('asc', 'desc'),
        (batches, from, to, limit, damaged, order) =>
          withStore((store) => {
            const stored = batches.map(({ time, spread, records }, batch) => {
              const times = Array.from({ length: records }, (_, i) => time + (i % (spread + 1)))
              const position = store.add(
                'acme',
                times.map((time, i) => ({
                  dataset: 'orders',
                  time: BigInt(time + 1),
                  trace: null,
                  text: `${batch}.${i}`,
                })),
              )
              return { times, position }
            })
            if (damaged !== null) {
              const { position } = stored[damaged % stored.length]!
              store.quarantined = [{ from: position, to: position + 8 }]
            }
            const filter = { start_time_unix_nano: `${from + 1}`, end_time_unix_nano: `${to + 1}` }
            const reply = store.query('acme', { dataset: 'orders', filter, order, page: { limit } })
            const matching = (at: number): number[] => stored[at]!.times.filter((time) => time >= from && time < to)
            const counts = stored.map((_, at) => matching(at).length)
            const lost = damaged === null ? 0 : counts[damaged % stored.length]!
            const all = counts.reduce((sum, count) => sum + count, 0)
            assert.deepEqual([reply.matched_records, reply.quarantined_records ?? 0], [all - lost, lost])
            assert.equal(reply.results.length, Math.min(limit, all - lost))
            const cursor = reply.page.next_cursor
            if (cursor === null) return
            const next = store.query('acme', { dataset: 'orders', filter, order, page: { limit, cursor } })
            assert.deepEqual([next.matched_records, next.quarantined_records ?? 0], [all - lost, lost])
            assert.equal(next.results.length, Math.min(limit, all - lost - limit))
          }),
      ),
      { numRuns: 200 },
    )
  })

  it('walked page by page gives what its first page saw, each record once and in order, while records come and segments are sealed', () => {
    const walk = fc.array(
      fc.record({ limit: fc.integer({ min: 1, max: 9 }), between: fc.array(step, { maxLength: 3 }) }),
      {
        minLength: 1,
        maxLength: 5,
      },
    )
    fc.assert(
      fc.property(steps, filter, walk, (run, filter, walk) =>
        withStore((store) => {
          const model = new Model(store)
          for (const step of run) model.run(step)
          const expected = model.expected('acme', 'orders', filter)
          const seen: string[] = []
          let cursor: string | null = null
          let page = 0
          do {
            const { limit, between } = walk[page++ % walk.length]!
            const body = {
              dataset: 'orders',
              filter: requestFilter(filter),
              order: filter.order,
              page: { limit, cursor },
            }
            const reply: QueryResponseBody = store.query('acme', body)
            assert.equal(reply.matched_records, expected.length)
            assert.equal(reply.page.cursor, cursor)
            seen.push(...textsOf(reply))
            cursor = reply.page.next_cursor
            for (const step of between) model.run(step)
          } while (cursor !== null)
          assert.deepEqual(seen, expected)
        }),
      ),
      { numRuns: 100 },
    )
  })

  it('finds every record by its id, alone and together with other filters', () => {
    fc.assert(
      fc.property(steps, (run) =>
        withStore((store) => {
          const model = new Model(store)
          for (const step of run) model.run(step)
          const all = store.query('acme', { dataset: 'orders', page: { limit: 500 } })
          for (const { record } of all.results.slice(0, 20)) checkId(store, record)
        }),
      ),
      { numRuns: 40 },
    )

    function checkId(store: TestStore, record: QueriedRecord): void {
      const ask = (filter: object, tenant = 'acme', dataset = 'orders') =>
        store.query(tenant, { dataset, filter: { record_id: record.record_id, ...filter } })
      const found = ask({})
      assert.equal(found.matched_records, 1)
      assert.deepEqual(found.results, [{ record }])
      assert.deepEqual(found.used_indexes, ['record_id'])
      assert.ok(found.scanned_bundles <= 2) // the filter of another bundle holds one id in thousands that it does not have
      assert.equal(ask({}, 'globex').matched_records, 0)
      assert.equal(ask({}, 'acme', 'payments').matched_records, 0)
      assert.equal(ask({ end_time_unix_nano: record.time_unix_nano }).matched_records, 0)
      assert.equal(ask({ start_time_unix_nano: record.time_unix_nano }).matched_records, 1)
      for (const trace of TRACES) {
        const both = ask({ trace_id: trace })
        assert.equal(both.matched_records, record.trace_id === trace ? 1 : 0)
        assert.deepEqual(both.used_indexes, ['record_id', 'identity.trace_id'])
      }
    }
  })

  it('sees nothing beyond the committed position', (context) => {
    const store = TestStore.open(context)
    store.add('acme', [{ dataset: 'orders', time: 5n, trace: TRACES[0]!, text: 'durable' }])
    const before = store.snapshot()
    store.add('acme', [{ dataset: 'orders', time: 4n, trace: TRACES[0]!, text: 'on its way' }])
    for (const filter of [{}, { trace_id: TRACES[0]! }]) {
      assert.deepEqual(textsOf(store.query('acme', { dataset: 'orders', filter }, before)), ['durable'])
      assert.deepEqual(textsOf(store.query('acme', { dataset: 'orders', filter })), ['on its way', 'durable'])
    }
    const late = store.query('acme', { dataset: 'orders' }).results[0]!.record.record_id
    assert.equal(store.query('acme', { dataset: 'orders', filter: { record_id: late } }, before).matched_records, 0)
  })

  it('matches nothing by an id of another shape, an empty time range or an unknown dataset, and says which index it is', (context) => {
    const store = TestStore.open(context)
    store.add('acme', [{ dataset: 'orders', time: 5n, trace: null, text: 'a' }])
    const nothing = (body: object) => {
      const reply = store.query('acme', { dataset: 'orders', ...body })
      assert.deepEqual([reply.matched_records, reply.results, reply.page.next_cursor], [0, [], null])
      return reply.used_indexes
    }
    assert.deepEqual(nothing({ filter: { record_id: 'something' } }), ['record_id'])
    assert.deepEqual(nothing({ filter: { trace_id: '0'.repeat(32) } }), ['identity.trace_id'])
    assert.deepEqual(nothing({ filter: { start_time_unix_nano: 6, end_time_unix_nano: 5 } }), ['dataset_time'])
    assert.deepEqual(nothing({ filter: { start_time_unix_nano: '5', end_time_unix_nano: '5' } }), ['dataset_time'])
    assert.deepEqual(nothing({ dataset: 'nothing' }), ['dataset_time'])
  })

  it('ends a page early when its records are very large, and the cursor goes on from there', (context) => {
    const store = TestStore.open(context)
    const large = 'x'.repeat(12 << 20)
    for (let i = 1; i <= 5; i++)
      store.add('acme', [{ dataset: 'orders', time: BigInt(i), trace: null, text: `${i}${large}` }])
    const lengths: number[] = []
    const seen: string[] = []
    let cursor: string | null = null
    do {
      const reply: QueryResponseBody = store.query('acme', { dataset: 'orders', page: { cursor } })
      assert.equal(reply.matched_records, 5)
      lengths.push(reply.results.length)
      seen.push(...textsOf(reply).map((text) => text[0]!))
      cursor = reply.page.next_cursor
    } while (cursor !== null)
    assert.deepEqual(
      [lengths, seen],
      [
        [3, 2],
        ['1', '2', '3', '4', '5'],
      ],
    )
  })

  it('opens only bundles that can hold a match', (context) => {
    const store = TestStore.open(context)
    for (const time of [100n, 200n, 300n]) {
      store.add('acme', [{ dataset: 'orders', time, trace: null, text: `${time}` }])
      store.seal()
    }
    store.publish()
    const scanned = (filter: object) => store.query('acme', { dataset: 'orders', filter }).scanned_bundles
    assert.equal(scanned({}), 3)
    assert.equal(scanned({ start_time_unix_nano: '150' }), 2)
    assert.equal(scanned({ start_time_unix_nano: '150', end_time_unix_nano: '250' }), 1)
    assert.equal(scanned({ start_time_unix_nano: '301' }), 0)
    assert.equal(store.query('globex', { dataset: 'orders' }).scanned_bundles, 0)
  })

  it('lets go of bundles that retention dropped', (context) => {
    const store = TestStore.open(context)
    for (const text of ['old', 'new']) {
      store.add('acme', [{ dataset: 'orders', time: 1n, trace: null, text }])
      store.seal()
    }
    store.publish()
    assert.deepEqual(textsOf(store.query('acme', { dataset: 'orders' })), ['old', 'new'])
    const first = store.query('acme', { dataset: 'orders', page: { limit: 1 } })
    const [dropped] = store.segments.splice(0, 1)
    rmSync(store.directoryOf(dropped!.base), { recursive: true })
    assert.deepEqual(textsOf(store.query('acme', { dataset: 'orders' })), ['new'])
    const rest = store.query('acme', { dataset: 'orders', page: { cursor: first.page.next_cursor } })
    assert.deepEqual(textsOf(rest), ['new'])
  })
})

describe('a search over a network', () => {
  it('says of each bundle which frames it reads next, each once and in their order', (context) => {
    const store = TestStore.open(context)
    const positions = [0, 1].map((bundle) => {
      const frames = [5n, 3n, 4n].map((time) =>
        store.add('acme', [
          { dataset: 'orders', time, trace: null, text: `first ${bundle} ${time}` },
          { dataset: 'orders', time: time + 10n, trace: null, text: `second ${bundle} ${time}` },
        ]),
      )
      store.add('acme', [{ dataset: 'payments', time: 1n, trace: null, text: `payment ${bundle}` }])
      store.seal()
      return frames
    })
    store.publish()
    store.expected = []
    const { matched_records } = store.query('acme', {
      dataset: 'orders',
      filter: { search: 'first' },
      page: { limit: 1 },
    })
    assert.equal(matched_records, 6)
    const told = store.expected.filter(({ name }) => name === 'records.log').map(({ reads }) => reads)
    const [first, second] = store.segments
    const placesOf = (base: number, frames: readonly number[]) =>
      frames.map((position) => ({ base, at: position - base }))
    assert.deepEqual(told.slice(0, 2), [placesOf(first!.base, positions[0]!), placesOf(second!.base, positions[1]!)])
  })
})

describe('a query and its deadline', () => {
  it('is rejected when the time is over before it begins', (context) => {
    const store = TestStore.open(context)
    store.add('acme', [{ dataset: 'orders', time: 1n, trace: null, text: 'a' }])
    store.clock.nowMs = 1000
    const answer = store.ask('acme', { dataset: 'orders' }, store.snapshot(), 1000)
    assert.equal(answer.kind, 'deadline_exceeded')
    assert.equal(store.ask('acme', { dataset: 'orders' }, store.snapshot(), 1001).kind, 'ok')
  })

  it('stops between any two pieces of its work', (context) => {
    const store = TestStore.open(context)
    for (let i = 0; i < 3; i++) {
      store.add('acme', [{ dataset: 'orders', time: BigInt(i), trace: TRACES[0]!, text: `${i}` }])
      store.seal()
      if (i < 2) store.publish()
    }
    for (const filter of [{}, { trace_id: TRACES[0]! }]) {
      let looks = 0
      Object.defineProperty(store.clock, 'nowMs', { get: () => looks++, configurable: true })
      assert.equal(store.ask('acme', { dataset: 'orders', filter }, store.snapshot(), Infinity).kind, 'ok')
      const needed = looks
      for (let deadline = 0; deadline < needed; deadline++) {
        looks = 0
        const answer = store.ask('acme', { dataset: 'orders', filter }, store.snapshot(), deadline)
        assert.equal(answer.kind, 'deadline_exceeded')
        assert.equal(looks, deadline + 1)
      }
    }
  })
})

describe('a cursor', () => {
  const cursorOf = (store: TestStore): string => {
    for (let i = 0; i < 3; i++) store.add('acme', [{ dataset: 'orders', time: BigInt(i), trace: null, text: `${i}` }])
    return store.query('acme', { dataset: 'orders', page: { limit: 1 } }).page.next_cursor!
  }

  it('is refused with another tenant, dataset or filter', (context) => {
    const store = TestStore.open(context)
    const cursor = cursorOf(store)
    const ask = (tenant: string, body: object) => store.ask(tenant, { page: { cursor }, ...body }).kind
    assert.equal(ask('acme', { dataset: 'orders' }), 'ok')
    assert.equal(ask('acme', { dataset: 'orders', filter: {} }), 'ok')
    assert.equal(ask('globex', { dataset: 'orders' }), 'invalid_cursor')
    assert.equal(ask('acme', { dataset: 'payments' }), 'invalid_cursor')
    assert.equal(ask('acme', { dataset: 'orders', filter: { trace_id: TRACES[0] } }), 'invalid_cursor')
    assert.equal(ask('acme', { dataset: 'orders', filter: { record_id: 'x' } }), 'invalid_cursor')
    assert.equal(ask('acme', { dataset: 'orders', filter: { start_time_unix_nano: 0 } }), 'invalid_cursor')
    assert.equal(ask('acme', { dataset: 'orders', filter: { end_time_unix_nano: 9 } }), 'invalid_cursor')
  })

  it('is refused when a character is changed, removed or added', (context) => {
    const store = TestStore.open(context)
    const cursor = cursorOf(store)
    const kindOf = (cursor: string) => store.ask('acme', { dataset: 'orders', page: { cursor } }).kind
    for (let i = 0; i < cursor.length; i++) {
      assert.equal(
        kindOf(`${cursor.slice(0, i)}${cursor[i] === 'A' ? 'B' : 'A'}${cursor.slice(i + 1)}`),
        'invalid_cursor',
      )
      assert.equal(kindOf(cursor.slice(0, i) + cursor.slice(i + 1) || 'A'), 'invalid_cursor')
      assert.equal(kindOf(`${cursor.slice(0, i)} ${cursor.slice(i)}`), 'invalid_cursor')
    }
    assert.equal(kindOf(`${cursor}=`), 'invalid_cursor')
    fc.assert(fc.property(fc.string({ minLength: 1 }), (text) => assert.equal(kindOf(text), 'invalid_cursor')))
  })

  it('of a log that went further than this one is refused', (context) => {
    const store = TestStore.open(context)
    const empty = store.snapshot()
    const cursor = cursorOf(store)
    assert.equal(store.ask('acme', { dataset: 'orders', page: { cursor } }, empty).kind, 'invalid_cursor')
  })
})
