import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { parseSearch } from '../../../src/logstore/search/parse.ts'
import type { Cursor } from '../../../src/logstore/query/cursor.ts'
import { parseEventId } from '../../../src/logstore/walk/event-id.ts'
import type { LogPlace, WalkBody } from '../../../src/logstore/walk/tasks.ts'
import { LOG_ID, TRACES, TestStore } from '../../support/stored-segments.ts'
import type { TestRecord } from '../../support/batch-payloads.ts'
import type { QueriedRecord } from '../../support/stored-segments.ts'

const DEADLINE_MS = 10_000

type Step =
  | { readonly kind: 'add'; readonly tenant: string; readonly records: readonly Omit<TestRecord, 'text'>[] }
  | { readonly kind: 'seal' | 'publish' | 'restart' }

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    arbitrary: fc.record({
      kind: fc.constant('add' as const),
      tenant: fc.constantFrom('acme', 'acme', 'globex'),
      records: fc.array(
        fc.record({
          dataset: fc.constantFrom('orders', 'payments'),
          time: fc.bigInt({ min: 5n, max: 12n }),
          trace: fc.constantFrom(null, ...TRACES),
        }),
        { minLength: 1, maxLength: 12 },
      ),
    }),
    weight: 6,
  },
  {
    arbitrary: fc.record({ kind: fc.constantFrom('seal' as const, 'publish' as const, 'restart' as const) }),
    weight: 4,
  },
)
const steps = fc.array(step, { maxLength: 20, size: 'max' })

interface Stored extends TestRecord {
  readonly tenant: string
}

class Model {
  readonly store = new TestStore()
  readonly records: Stored[] = []

  run(step: Step): void {
    if (step.kind !== 'add') return this.store[step.kind]()
    const records = step.records.map((record, i) => ({ ...record, text: `${this.records.length + i}` }))
    this.store.add(step.tenant, records)
    for (const record of records) this.records.push({ ...record, tenant: step.tenant })
  }
}

function withModel(run: (model: Model) => void): void {
  const model = new Model()
  try {
    run(model)
  } finally {
    model.store.close()
  }
}

const textOf = ({ text }: WalkBody): string => Buffer.from(text).toString()
const saysOf = (line: string): string => (JSON.parse(line) as QueriedRecord).raw_payload.record.body.stringValue // as queries show it

describe('an export', () => {
  it('gives every record of a query in its order, each once, as they were at its first step, in steps that are bounded', () => {
    const walked = fc.record({
      order: fc.constantFrom('asc' as const, 'desc' as const),
      dataset: fc.constantFrom('orders', null),
      from: fc.option(fc.bigInt({ min: 4n, max: 13n }), { nil: null }),
      to: fc.option(fc.bigInt({ min: 4n, max: 13n }), { nil: null }),
      begins: fc.constantFrom(null, null, '1', '2'),
      between: fc.array(step, { maxLength: 6 }),
    })
    fc.assert(
      fc.property(steps, walked, (run, { order, dataset, from, to, begins, between }) =>
        withModel((model) => {
          for (const step of run) model.run(step)
          const trace = dataset === null ? TRACES[0]! : null
          const expected = model.records
            .filter((one) => one.tenant === 'acme' && (dataset === null || one.dataset === dataset))
            .filter((one) => trace === null || one.trace === trace)
            .filter(({ time }) => (from === null || time >= from) && (to === null || time < to))
            .filter(({ text }) => begins === null || text.startsWith(begins))
            .sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : Number(a.text) - Number(b.text)))
            .map(({ text }) => text)
          if (order === 'desc') expected.reverse()
          const search = begins === null ? null : parseSearch(`${begins}*`)
          const filter = { recordId: null, traceId: trace, startTime: from, endTime: to, search }
          const seen: string[] = []
          let resume: Cursor | null = null
          let number = 0
          do {
            const body: WalkBody = model.store.walk('acme', {
              kind: 'export',
              dataset,
              filter,
              order,
              resume,
              deadlineMs: DEADLINE_MS,
            })
            const lines = textOf(body).split('\n').slice(0, -1)
            assert.equal(lines.length, body.records)
            assert.ok(lines.length <= 5)
            seen.push(...lines.map(saysOf))
            ;({ resume } = body)
            const meanwhile = between[number++]
            if (meanwhile !== undefined) model.run(meanwhile)
          } while (resume !== null)
          assert.deepEqual(seen, expected)
        }),
      ),
      { numRuns: 150 },
    )
  })

  it('leaves records of damaged frames out, and counts them once', () =>
    withModel((model) => {
      const of = (text: string): TestRecord => ({ dataset: 'orders', time: 7n, trace: null, text })
      model.store.add(
        'acme',
        Array.from({ length: 9 }, (_, i) => of(`a${i}`)),
      )
      const position = model.store.add('acme', [of('b0'), of('b1')])
      model.store.quarantined = [{ from: position, to: position + 8 }]
      let resume: Cursor | null = null
      const quarantined: number[] = []
      let records = 0
      do {
        const filter = { recordId: null, traceId: null, startTime: null, endTime: null, search: null }
        const body: WalkBody = model.store.walk('acme', {
          kind: 'export',
          dataset: 'orders',
          filter,
          order: 'asc',
          resume,
          deadlineMs: DEADLINE_MS,
        })
        quarantined.push(body.quarantined)
        records += body.records
        ;({ resume } = body)
      } while (resume !== null)
      assert.equal(records, 9)
      assert.equal(quarantined[0], 2)
      assert.ok(quarantined.slice(1).every((count) => count === 0))
    }))
})

describe('a tail', () => {
  it('gives every record once in the order of storing, whatever happens between its steps, and counts what it is told to skip', () => {
    const tailed = fc.record({
      dataset: fc.constantFrom('orders', null),
      among: fc.constantFrom<readonly string[] | null>(null, ['payments']),
      begins: fc.constantFrom(null, null, '1', '2'),
      skips: fc.boolean(),
    })
    fc.assert(
      fc.property(steps, tailed, (run, { dataset, among, begins, skips }) =>
        withModel((model) => {
          const search = begins === null ? null : parseSearch(`${begins}*`)
          const seen: string[] = []
          let counted = 0
          let from: LogPlace = { position: 0, recordNumber: 0 }
          const catchUp = (stepsMax: number): void => {
            for (let taken = 0; taken < stepsMax; taken++) {
              const isCounted = skips && taken % 2 === 1
              const body = model.store.walk(
                'acme',
                { kind: 'tail', dataset, search, from, to: null, isCounted, deadlineMs: DEADLINE_MS },
                model.store.snapshot(),
                among,
              )
              if (isCounted) {
                counted += body.records
                assert.equal(body.text.byteLength, 0)
              } else {
                const events = textOf(body).split('\n\n').slice(0, -1)
                assert.equal(events.length, body.records)
                for (const event of events) {
                  const [id, data] = event.split('\n') as [string, string]
                  seen.push(saysOf(data.slice('data: '.length)))
                  const { logId, ...place } = parseEventId(id.slice('id: '.length))!
                  assert.equal(logId, LOG_ID)
                  // A client that comes back with the last id goes on where the step ended, or before what does not match.
                  assert.ok(place.position <= body.next.position)
                }
              }
              from = body.next
              if (body.isAtEnd) return
            }
          }
          for (const step of run) {
            model.run(step)
            catchUp(1)
          }
          catchUp(Infinity)
          const expected = model.records
            .filter(({ tenant }) => tenant === 'acme')
            .filter((one) => (dataset === null ? (among?.includes(one.dataset) ?? true) : one.dataset === dataset))
            .filter(({ text }) => begins === null || text.startsWith(begins))
            .map(({ text }) => text)
          assert.equal(seen.length + counted, expected.length)
          if (counted === 0) assert.deepEqual(seen, expected)
          else
            assert.deepEqual(
              expected.filter((text) => seen.includes(text)),
              seen,
            )
        }),
      ),
      { numRuns: 150 },
    )
  })

  it('goes on behind the event whose id it is given', () =>
    withModel((model) => {
      const texts = Array.from({ length: 12 }, (_, i) => `${i}`)
      for (let at = 0; at < 12; at += 4) {
        const records = texts.slice(at, at + 4).map((text) => ({ dataset: 'orders', time: 9n, trace: null, text }))
        model.store.add('acme', records)
        if (at === 4) model.store.seal()
      }
      model.store.publish()
      const eventsFrom = (from: LogPlace): { id: string; says: string }[] => {
        const events: { id: string; says: string }[] = []
        for (let isAtEnd = false; !isAtEnd;) {
          const body = model.store.walk('acme', {
            kind: 'tail',
            dataset: null,
            search: null,
            from,
            to: null,
            isCounted: false,
            deadlineMs: DEADLINE_MS,
          })
          for (const event of textOf(body).split('\n\n').slice(0, -1)) {
            const [id, data] = event.split('\n') as [string, string]
            events.push({ id: id.slice('id: '.length), says: saysOf(data.slice('data: '.length)) })
          }
          from = body.next
          ;({ isAtEnd } = body)
        }
        return events
      }
      const all = eventsFrom({ position: 0, recordNumber: 0 })
      assert.deepEqual(
        all.map(({ says }) => says),
        texts,
      )
      for (const [at, { id }] of all.entries()) {
        const rest = eventsFrom(parseEventId(id)!)
        assert.deepEqual(
          rest.map(({ says }) => says),
          texts.slice(at + 1),
        )
      }
    }))

  it('counts records of frames that are damaged', () =>
    withModel((model) => {
      const of = (text: string): TestRecord => ({ dataset: 'orders', time: 7n, trace: null, text })
      const position = model.store.add('acme', [of('a'), of('b')])
      model.store.add('acme', [of('c')])
      model.store.quarantined = [{ from: position, to: position + 8 }]
      const from = { position: 0, recordNumber: 0 }
      const tail = { kind: 'tail', dataset: 'orders', search: null, from, to: null, isCounted: false } as const
      const body = model.store.walk('acme', { ...tail, deadlineMs: DEADLINE_MS })
      assert.deepEqual([body.quarantined, body.records], [2, 1])
    }))
})

describe('the id of an event', () => {
  it('is what the store wrote, and nothing else', () => {
    for (const text of ['', '1', '1-2', '1-2-3-4', 'x-1-1', '1-1-1 ', '1-00000000000001-1', '-1-1-1', '1-1-10000']) {
      assert.equal(parseEventId(text), null, text)
    }
    assert.deepEqual(parseEventId('4d-1f-a'), { logId: 77, position: 31, recordNumber: 10 })
  })
})
