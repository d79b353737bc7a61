/**
 * What Jaeger's query service answers over HTTP, as far as Grafana's data source asks for it. A service is a dataset that has spans, an
 * operation the name of a span.
 *
 * A search that takes longer than its deadline is refused: a part of an answer never stands for the whole.
 *
 * J1  a trace search finds the traces of the newest spans that match, newest first; each is shown whole, over every dataset that may be read
 * J2  services and operations are those of the newest records: PROBE_STEPS and NAME_STEPS bound how many are looked at
 */
import type { AnswerSource, Exchange, RequestHead } from '../../http/exchange.ts'
import type { Endpoint, OperationDocument } from '../../http/routes.ts'
import { JSON_TYPE } from '../../http/text-answer.ts'
import { freeMemory } from '../../free-memory.ts'
import type { Logger } from '../../observability/logger.ts'
import type { QueryFilter } from '../query/cursor.ts'
import { DEADLINE_DEFAULT_MS, DEADLINE_MAX_MS } from '../query/request.ts'
import { refusal } from '../refusals.ts'
import type { Refusal } from '../refusals.ts'
import type { AdmissionSlots } from '../tenants/admission-slots.ts'
import { isRefusal } from '../tenants/caller.ts'
import type { Caller } from '../tenants/caller.ts'
import type { SpansRequest, WalkBody } from '../walk/tasks.ts'
import { traceSearchOf } from './jaeger-query.ts'
import type { TraceSearch } from './jaeger-query.ts'
import { JaegerServices } from './jaeger-services.ts'
import { ReadBroke, piecesOf, queryParameters } from './readers.ts'
import type { Readers } from './readers.ts'
import { traceNotFound } from './trace-front.ts'

const PROBE_STEPS = 2
const NAME_STEPS = 16
const NAMES_MAX = 1000
const SPANS: QueryFilter = {
  recordId: null,
  traceId: null,
  startTime: null,
  endTime: null,
  search: { kind: 'signal', signal: 'trace' },
}

type Handle = (head: RequestHead, caller: Caller, exchange: Exchange) => Promise<Refusal | null>

export class JaegerFront {
  readonly #readers: Readers
  readonly #slots: AdmissionSlots
  readonly #logger: Pick<Logger, 'warn'>
  readonly #services: JaegerServices

  /** @param slots the slots of short reads */
  constructor(readers: Readers, slots: AdmissionSlots, logger: Pick<Logger, 'warn'>) {
    this.#readers = readers
    this.#slots = slots
    this.#logger = logger
    this.#services = new JaegerServices(() => this.#nowMs())
  }

  services(document: OperationDocument): Endpoint {
    return this.#endpoint(document, (_head, caller, exchange) => this.#listServices(caller, exchange))
  }

  /** Operations of a service: of the one in the path, by their names; or of the parameter `service`, with their kinds. */
  operations(document: OperationDocument, where: 'path' | 'parameter'): Endpoint {
    return this.#endpoint(document, (head, caller, exchange) => {
      if (where === 'path') return this.#listOperations(caller, exchange, head.param(0) ?? '', null)
      const given = queryParameters(head.query, ['service', 'spanKind'])
      if (isRefusal(given)) return Promise.resolve(given)
      return this.#listOperations(caller, exchange, given.service ?? '', given.spanKind ?? '')
    })
  }

  traces(document: OperationDocument): Endpoint {
    return this.#endpoint(document, async (head, caller, exchange) => {
      const search = traceSearchOf(head.query)
      return isRefusal(search) ? search : this.#findTraces(caller, exchange, search)
    })
  }

  trace(document: OperationDocument): Endpoint {
    return this.#endpoint(document, (head, caller, exchange) => this.#getTrace(caller, exchange, head.param(0) ?? ''))
  }

  /** Always empty: the store does not compute which service calls which. */
  dependencies(document: OperationDocument): Endpoint {
    return this.#endpoint(document, async (_head, _caller, exchange) => answerData(exchange, []))
  }

  /** Answers with the refusal that a handler returns, if any. A handler reads the head before its first await. */
  #endpoint(document: OperationDocument, handle: Handle): Endpoint {
    const begin = (head: RequestHead, exchange: Exchange): void => {
      const caller = this.#readers.admit(head, exchange, this.#slots)
      if (caller === null) return
      handle(head, caller, exchange).then(
        (refused) => void (refused !== null && this.#readers.refuse(exchange, refused)),
        (error: unknown) => exchange.fail(error),
      )
    }
    return { document, begin }
  }

  async #listServices(caller: Caller, exchange: Exchange): Promise<Refusal | null> {
    const all = await this.#readers.step(caller, { kind: 'datasets', deadlineMs: DEADLINE_DEFAULT_MS })
    if (isRefusal(all)) return all
    const services: string[] = []
    const untilMs = this.#nowMs() + DEADLINE_DEFAULT_MS
    for (const dataset of all.names) {
      const hasSpans = await this.#hasSpans(caller, dataset, untilMs)
      if (typeof hasSpans === 'object') return hasSpans
      if (hasSpans) services.push(dataset)
    }
    return answerData(exchange, services)
  }

  /** J2 */
  #hasSpans(caller: Caller, dataset: string, untilMs: number): Promise<boolean | Refusal> {
    return this.#services.has(caller.tenant.id, dataset, async () => {
      const wanted = { of: 'names', limit: 1, steps: PROBE_STEPS, untilMs } as const
      const found = await this.#gather(caller, dataset, SPANS, wanted)
      return isRefusal(found) ? found : { hasSpans: found.names.length > 0, isAll: found.isAll }
    })
  }

  /** @param kind of the spans; '': of any kind; null: only names are wanted */
  async #listOperations(
    caller: Caller,
    exchange: Exchange,
    service: string,
    kind: string | null,
  ): Promise<Refusal | null> {
    if (service === '') return refusal('invalid_query', 'service is required: the name of a dataset')
    const untilMs = this.#nowMs() + DEADLINE_DEFAULT_MS
    const wanted = { of: 'names', limit: NAMES_MAX, steps: NAME_STEPS, untilMs } as const
    const found = await this.#gather(caller, service, SPANS, wanted)
    if (isRefusal(found)) return found
    const operations = found.names.map((text) => {
      const space = text.indexOf(' ')
      return { name: text.slice(space + 1), spanKind: text.slice(0, space) }
    })
    if (kind === null) return answerData(exchange, [...new Set(operations.map(({ name }) => name))].sort())
    const ofKind = operations.filter(({ spanKind }) => kind === '' || spanKind === kind)
    return answerData(
      exchange,
      ofKind.toSorted((a, b) => (a.name < b.name ? -1 : Number(a.name > b.name))),
    )
  }

  /** J1 */
  async #findTraces(caller: Caller, exchange: Exchange, search: TraceSearch): Promise<Refusal | null> {
    const { service, filter, limit } = search
    const untilMs = this.#nowMs() + DEADLINE_DEFAULT_MS
    const ids = await this.#gather(caller, service, filter, { of: 'traces', limit, steps: Infinity, untilMs })
    if (isRefusal(ids)) return ids
    this.#answerTraces(exchange, caller, ids.names)
    return null
  }

  /** Distinct names, newest first, and whether they are of all records. */
  async #gather(
    caller: Caller,
    dataset: string,
    filter: QueryFilter,
    { of, limit, steps, untilMs }: { of: SpansRequest['of']; limit: number; steps: number; untilMs: number },
  ): Promise<{ readonly names: readonly string[]; readonly isAll: boolean } | Refusal> {
    const names = new Set<string>()
    const request: Omit<SpansRequest, 'resume'> = {
      kind: 'spans',
      dataset,
      filter,
      of,
      limit,
      deadlineMs: DEADLINE_DEFAULT_MS,
    }
    let resume: SpansRequest['resume'] = null
    for (let taken = 0; taken < steps && names.size < limit; taken++) {
      if (this.#nowMs() > untilMs) return tooSlow()
      const step: WalkBody | Refusal = await this.#readers.step(caller, { ...request, resume })
      if (isRefusal(step)) return step
      for (const name of step.names) if (names.size < limit) names.add(name)
      ;({ resume } = step)
      if (resume === null) return { names: [...names], isAll: true }
    }
    return { names: [...names], isAll: false }
  }

  async #getTrace(caller: Caller, exchange: Exchange, given: string): Promise<Refusal | null> {
    if (!/^[0-9a-fA-F]{1,32}$/.test(given))
      return refusal('invalid_query', 'a trace id has up to 32 hexadecimal digits')
    const traceId = given.toLowerCase().padStart(32, '0') // Jaeger omits leading zeros
    const body = await this.#traceOf(caller, traceId)
    if (isRefusal(body)) return body
    if (body.text.byteLength === 0) return traceNotFound(body.quarantined)
    this.#answerTraces(exchange, caller, [traceId], body)
    return null
  }

  #traceOf(caller: Caller, traceId: string): Promise<WalkBody | Refusal> {
    const request = { kind: 'trace', form: 'jaeger', traceId, deadlineMs: DEADLINE_MAX_MS } as const
    return this.#readers.stepWithRetries(caller, request)
  }

  #answerTraces(exchange: Exchange, caller: Caller, ids: readonly string[], first: WalkBody | null = null): void {
    const pieces = this.#tracePieces(caller, ids, first)
    const source: AnswerSource = {
      next: async () => (await pieces.next()).value ?? null,
      close: () => void pieces.return(),
    }
    exchange.answerStream(200, JSON_TYPE, source)
  }

  /** One trace in memory at a time. */
  async *#tracePieces(
    caller: Caller,
    ids: readonly string[],
    first: WalkBody | null,
  ): AsyncGenerator<Uint8Array, void> {
    let total = 0
    for (const id of ids) {
      const body = first ?? (await this.#traceOf(caller, id))
      if (isRefusal(body)) {
        this.#logger.warn(
          { kind: body.kind, reason: body.message },
          'an answer with traces ended before it was complete',
        )
        throw new ReadBroke(body)
      }
      if (body.text.byteLength === 0) continue // retention removed it
      yield Buffer.from(total === 0 ? '{"data":[' : ',')
      total++
      yield* piecesOf(body.text)
      freeMemory(body.text)
    }
    const begin = total === 0 ? '{"data":[' : ''
    yield Buffer.from(`${begin}],"total":${total},"limit":0,"offset":0,"errors":null}\n`)
  }

  #nowMs(): number {
    return this.#readers.parts.clock.nowMs()
  }
}

const tooSlow = (): Refusal =>
  refusal('deadline_exceeded', `the spans could not be searched in ${DEADLINE_DEFAULT_MS} ms: narrow the time range`)

function answerData(exchange: Exchange, data: readonly unknown[]): null {
  const body = { data, total: data.length, limit: 0, offset: 0, errors: null }
  exchange.answer(200, JSON_TYPE, `${JSON.stringify(body)}\n`)
  return null
}
