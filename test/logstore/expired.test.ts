/** Retention of datasets: to every question, a store answers as one that never held the expired records. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { expiredOf } from '../../src/logstore/expired.ts'
import type { Cursor } from '../../src/logstore/query/cursor.ts'
import { parseTenantPolicy } from '../../src/logstore/tenants/tenant-policy-file.ts'
import type { WalkBody } from '../../src/logstore/walk/tasks.ts'
import { TRACES, TestStore, textsOf } from '../support/stored-segments.ts'
import type { TestRecord } from '../support/batch-payloads.ts'
import type { QueriedRecord } from '../support/stored-segments.ts'
import { questionOf } from './survey/support.ts'
import type { DatasetsAnswer } from './survey/support.ts'

const DATASETS = ['orders', 'payments', 'visits']
const [TRACE] = TRACES
const NO_FILTER = { recordId: null, traceId: null, startTime: null, endTime: null, search: null }
const DEADLINE_MS = 60_000

const record = fc.record({
  dataset: fc.constantFrom(...DATASETS),
  time: fc.oneof(fc.bigInt({ min: 5n, max: 12n }), fc.constantFrom(0xffff_ffffn, 1n << 32n)),
  trace: fc.constantFrom(null, TRACE!),
})
const steps = fc.array(
  fc.oneof(
    { arbitrary: fc.array(record, { minLength: 1, maxLength: 12 }), weight: 4 },
    { arbitrary: fc.constantFrom('seal', 'publish', 'compact', 'merge'), weight: 3 },
  ),
  { maxLength: 16, size: 'max' },
)
const expired = fc.record({
  orders: fc.constantFrom(6n, 9n, 13n, 0xffff_ffffn),
  payments: fc.constantFrom(0n, 8n, (1n << 32n) + 1n),
})

type Steps = typeof steps extends fc.Arbitrary<infer Value> ? Value : never

/** @param isKept false: the record is not stored */
function fill(store: TestStore, run: Steps, isKept: (record: Omit<TestRecord, 'text'>) => boolean): void {
  let number = 0
  for (const step of run) {
    if (step === 'seal') store.seal()
    else if (step === 'publish') store.publish()
    else if (step === 'compact') store.publish(false, true)
    else if (step === 'merge') store.publish(false, true, 9)
    else if (typeof step !== 'string') {
      const records = step.map((each) => ({ ...each, text: `${number++}` })).filter(isKept)
      if (records.length > 0) store.add('acme', records)
    }
  }
}

const saysOf = (line: string): string => (JSON.parse(line) as QueriedRecord).raw_payload.record.body.stringValue // as queries show it

/** All answers about the records, in words that do not name the places where they are stored. */
function answersOf(store: TestStore): unknown {
  const query = (body: object): unknown => {
    const reply = store.query('acme', body)
    return [reply.matched_records, textsOf(reply)]
  }
  const survey = (asked: Parameters<typeof questionOf>[0]): Record<string, unknown> => {
    const answer = store.askSurvey('acme', questionOf(asked))
    assert(answer.kind === 'ok')
    const { scanned_bundles: _, ...body } = JSON.parse(Buffer.from(answer.body).toString()) as Record<string, unknown>
    return body
  }
  const { datasets } = survey({ datasets: '', allowed: null }) as unknown as DatasetsAnswer
  const walk = (dataset: string | null, traceId: string | null): string[] => {
    const lines: string[] = []
    let resume: Cursor | null = null
    do {
      const filter = { ...NO_FILTER, traceId }
      const asked = { kind: 'export', dataset, filter, order: 'asc', resume, deadlineMs: DEADLINE_MS } as const
      const body: WalkBody = store.walk('acme', asked)
      lines.push(...Buffer.from(body.text).toString().split('\n').slice(0, -1).map(saysOf))
      ;({ resume } = body)
    } while (resume !== null)
    return lines
  }
  const tail = (dataset: string | null): number => {
    let records = 0
    let from = { position: 0, recordNumber: 0 }
    for (let isAtEnd = false; !isAtEnd;) {
      const asked = {
        kind: 'tail',
        dataset,
        search: null,
        from,
        to: null,
        isCounted: true,
        deadlineMs: DEADLINE_MS,
      } as const
      const body = store.walk('acme', asked)
      records += body.records
      from = body.next
      ;({ isAtEnd } = body)
    }
    return records
  }
  return {
    pages: DATASETS.flatMap((dataset) => [
      query({ dataset, page: { limit: 3 } }),
      query({ dataset, order: 'desc', page: { limit: 3 } }),
      query({ dataset, filter: { search: '1*' } }),
      query({ dataset, filter: { trace_id: TRACE } }),
      query({ dataset, filter: { start_time_unix_nano: '7' } }),
    ]),
    trace: query({ filter: { trace_id: TRACE } }),
    datasets: datasets.map((held) => ({ ...held, bytes: 0 })), // expired records may still count
    histograms: DATASETS.flatMap((dataset) => [
      survey({ histogram: { dataset, interval_nano: '4294967296' } }),
      survey({ histogram: { dataset, interval_nano: '4294967296', filter: { search: '1*' } } }),
    ]),
    fields: DATASETS.map((dataset) => survey({ fields: { dataset } })),
    exports: [...DATASETS.map((dataset) => walk(dataset, null)), walk(null, TRACE!)],
    tails: [...DATASETS, null].map(tail),
    tree: store.walk('acme', { kind: 'trace', traceId: TRACE!, form: 'tree', deadlineMs: DEADLINE_MS }).records,
  }
}

function withStores(check: (stored: TestStore, kept: TestStore) => void): void {
  const stores = [new TestStore(), new TestStore()] as const
  try {
    check(...stores)
  } finally {
    for (const store of stores) store.close()
  }
}

describe('what has expired', () => {
  it('is found by nothing that can be asked, wherever it is stored', () => {
    fc.assert(
      fc.property(steps, expired, (run, times) =>
        withStores((stored, kept) => {
          const expired = new Map(Object.entries(times))
          fill(stored, run, () => true)
          fill(kept, run, ({ dataset, time }) => time >= (expired.get(dataset) ?? 0n))
          stored.expired = expired
          assert.deepEqual(answersOf(stored), answersOf(kept))
        }),
      ),
      { numRuns: 60 },
    )
  })

  it('follows from the policy of the tenant and the clock', () => {
    const credentials = [{ token_sha256: 'a'.repeat(64), datasets: ['*'] }]
    const policy = parseTenantPolicy(
      JSON.stringify({
        tenants: [
          { id: 'acme', credentials, retention: { debug: { max_age_seconds: 60 }, all: { max_age_seconds: 1e9 } } },
          { id: 'globex', credentials },
        ],
      }),
      1,
    )
    const nowNs = 100_000_000_000n
    assert.deepEqual(
      [...expiredOf(policy, 'acme', nowNs)],
      [
        ['debug', 40_000_000_000n],
        ['all', 0n],
      ],
    )
    assert.deepEqual([expiredOf(policy, 'globex', nowNs).size, expiredOf(policy, 'nobody', nowNs).size], [0, 0])
  })
})
