/** Random stores, and the plain list of their records: each answer about a store must be as the list says. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { QuerySnapshot } from '../../../src/logstore/query/task.ts'
import type { SurveyQuestion } from '../../../src/logstore/survey/question.ts'
import {
  parseDatasetsRequest,
  parseFieldsRequest,
  parseHistogramRequest,
} from '../../../src/logstore/survey/request.ts'
import { TRACES, TestStore } from '../../support/stored-segments.ts'
import type { TestRecord } from '../../support/batch-payloads.ts'

export interface Stored extends TestRecord {
  readonly tenant: string
  readonly position: number
}

type Step =
  | { readonly kind: 'add'; readonly tenant: string; readonly records: readonly Omit<TestRecord, 'text'>[] }
  | { readonly kind: 'seal' }
  | { readonly kind: 'publish'; readonly fromFrames: boolean; readonly compacts: boolean; readonly merges: number }
  | { readonly kind: 'restart' }
  | { readonly kind: 'damage'; readonly pick: number }

/** Most times are close to each other, some are at the limits. */
export const time = fc.oneof(
  { arbitrary: fc.bigInt({ min: 5n, max: 60n }), weight: 8 },
  { arbitrary: fc.constantFrom(0xffff_ffffn, 1n << 32n, (1n << 63n) + 3n, (1n << 64n) - 1n), weight: 1 },
)
const record = fc.record({
  dataset: fc.constantFrom('orders', 'orders', 'payments', 'mail'),
  time,
  trace: fc.constantFrom(null, ...TRACES),
  severity: fc.constantFrom(0, 1, 9, 12, 17, 24, 77),
  attributes: fc.oneof(fc.constant({}), fc.record({ host: fc.constantFrom('a', 'b', 'c', 'd', 'e') })),
})
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    arbitrary: fc.record({
      kind: fc.constant('add' as const),
      tenant: fc.constantFrom('acme', 'acme', 'globex'),
      records: fc.array(record, { minLength: 1, maxLength: 12 }),
    }),
    weight: 8,
  },
  { arbitrary: fc.constant({ kind: 'seal' } as const), weight: 2 },
  {
    arbitrary: fc.record({
      kind: fc.constant('publish' as const),
      fromFrames: fc.boolean(),
      compacts: fc.boolean(),
      merges: fc.constantFrom(0, 2, 9),
    }),
    weight: 2,
  },
  { arbitrary: fc.constant({ kind: 'restart' } as const), weight: 1 },
  { arbitrary: fc.record({ kind: fc.constant('damage' as const), pick: fc.nat() }), weight: 1 },
)
export const steps = fc.array(step, { maxLength: 20, size: 'max' })

export class Model {
  readonly store: TestStore
  readonly records: Stored[] = []
  readonly #positions: number[] = []
  readonly #damaged = new Set<number>()

  constructor(store: TestStore) {
    this.store = store
  }

  run(step: Step): void {
    switch (step.kind) {
      case 'add': {
        const records = step.records.map((record, i) => ({ ...record, text: `${this.records.length + i}` }))
        const position = this.store.add(step.tenant, records)
        this.#positions.push(position)
        for (const record of records) this.records.push({ ...record, tenant: step.tenant, position })
        return
      }
      case 'seal':
        return this.store.seal()
      case 'publish':
        return this.store.publish(step.fromFrames, step.compacts, step.merges)
      case 'restart':
        return this.store.restart()
      case 'damage': {
        const position = this.#positions[step.pick % this.#positions.length]
        if (position === undefined || this.#damaged.has(position)) return
        this.#damaged.add(position)
        this.store.quarantined = [...this.#damaged]
          .sort((a, b) => a - b)
          .map((position) => ({ from: position, to: position + 8 }))
      }
    }
  }

  /** The records that can be read, and the number of those that cannot. */
  of(
    tenant: string,
    isWanted: (record: Stored) => boolean,
  ): { readonly whole: readonly Stored[]; readonly lost: number } {
    const all = this.records.filter((record) => record.tenant === tenant && isWanted(record))
    const whole = all.filter(({ position }) => !this.#damaged.has(position))
    return { whole, lost: all.length - whole.length }
  }
}

export function withModel(run: readonly Step[], check: (model: Model) => void): void {
  const store = new TestStore()
  try {
    const model = new Model(store)
    for (const step of run) model.run(step)
    check(model)
  } finally {
    store.close()
  }
}

/** A question as a client writes it. */
export type Asked =
  | { readonly datasets: string; readonly allowed: readonly string[] | null }
  | { readonly histogram: object }
  | { readonly fields: object }

export function questionOf(asked: Asked): SurveyQuestion {
  const bodyOf = (body: object): Buffer => Buffer.from(JSON.stringify(body))
  const question =
    'datasets' in asked
      ? parseDatasetsRequest(asked.datasets, asked.allowed)
      : 'histogram' in asked
        ? parseHistogramRequest(bodyOf(asked.histogram))
        : parseFieldsRequest(bodyOf(asked.fields))
  assert(!('message' in question), 'message' in question ? question.message : '')
  return question
}

/** The answer of the store. */
export function survey(
  store: TestStore,
  tenant: string,
  asked: Asked,
  snapshot: QuerySnapshot = store.snapshot(),
): unknown {
  const answer = store.askSurvey(tenant, questionOf(asked), snapshot)
  assert(answer.kind === 'ok', answer.kind === 'ok' ? '' : answer.message)
  return JSON.parse(Buffer.from(answer.body).toString())
}

export interface DatasetsAnswer {
  readonly datasets: readonly {
    readonly dataset: string
    readonly records: number
    readonly bytes: number | null
    readonly first_time_unix_nano: string | null
    readonly last_time_unix_nano: string | null
    readonly signals: readonly string[] | null
    readonly quarantined_records?: number
  }[]
  readonly page: { readonly limit: number; readonly cursor: string | null; readonly next_cursor: string | null }
  readonly quarantined_ranges?: number
}

export interface HistogramAnswer {
  readonly matched_records: number
  readonly interval_nano: string
  readonly buckets: readonly { readonly start_time_unix_nano: string; readonly records: number }[]
  readonly series?: readonly {
    readonly kind: string
    readonly value?: string
    readonly records: number
    readonly counts: readonly number[]
  }[]
  readonly top_is_certain?: false
  readonly quarantined_records?: number
}

export interface FieldsAnswer {
  readonly matched_records: number
  readonly sampled: boolean
  readonly sampled_records: number
  readonly fields: readonly {
    readonly name: string
    readonly of: string
    readonly records: number
    readonly distinct_values: number
    readonly values: readonly { readonly value: string; readonly records: number; readonly value_is_cut?: true }[]
  }[]
  readonly left_out_fields?: number
  readonly quarantined_records?: number
}
