/**
 * Questions to the query threads, on the main thread: permissions, admission slots, and a snapshot for the thread that answers. Every question, whatever
 * its route, takes one of the tenant's slots for queries.
 *
 * Order of refusals: tenant header, credentials, tenant known, token, content type, encoding, declared size,
 * slots, body, request, dataset. A question without a body has no content type, encoding and size.
 */
import { freeMemory } from '../../free-memory.ts'
import type { Endpoint, OperationDocument } from '../../http/routes.ts'
import { gatherBody } from '../../http/body.ts'
import { isIdentity } from '../../http/content-encoding.ts'
import type { Exchange, RequestHead } from '../../http/exchange.ts'
import { mediaTypeOf } from '../../http/media-type.ts'
import { JSON_TYPE } from '../../http/text-answer.ts'
import { StoreError } from '../../errors.ts'
import type { Expired } from '../expired.ts'
import type { Log } from '../../log/log.ts'
import type { Lead } from '../lead.ts'
import type { Logger } from '../../observability/logger.ts'
import type { ReadErrors } from '../../observability/read-errors.ts'
import type { JobPool } from '../../pipeline/jobs.ts'
import { AdmissionSlots } from '../tenants/admission-slots.ts'
import { TENANT_HEADER, identifyCaller, isRefusal } from '../tenants/caller.ts'
import type { Caller } from '../tenants/caller.ts'
import type { QueryCounters, QueryKind } from '../counters.ts'
import type { BucketStore } from '../bucket/bucket-store.ts'
import { QUERY_BODY_BYTES_MAX } from '../limits.ts'
import { LATE } from './deadline.ts'
import { parseQueryRequest } from './request.ts'
import type { QueryRequest, QueryRequestProblem } from './request.ts'
import { processNowMs } from './task.ts'
import type { QueryAnswer, QueryIncident, QueryTask, Question, ThreadAnswer } from './task.ts'
import { answerRefusal, bodyTimedOut } from '../replies.ts'
import { refusal } from '../refusals.ts'
import type { Refusal } from '../refusals.ts'
import type { SegmentRegistry } from '../index/segment-registry.ts'
import { HeldSlot } from '../tenants/held-slot.ts'
import { mayUseDataset } from '../tenants/tenant-policy.ts'
import type { Credential, TenantPolicy } from '../tenants/tenant-policy.ts'

/** The engine watches its deadline itself; a thread that does not answer this long after it is stuck, and is replaced. */
const STUCK_MS = 5000

export interface QueryParts {
  readonly log: Log
  readonly registry: SegmentRegistry
  readonly jobs: Pick<JobPool<QueryTask<Question>, QueryAnswer>, 'run'>
  readonly maxConcurrentQueries: number
  readonly counters: QueryCounters
  readonly logger: Logger
  readonly readErrors: Pick<ReadErrors, 'note'>
  readonly policy: () => TenantPolicy
  /** What has expired by now, by the id of the tenant. */
  readonly expired: (tenant: string) => Expired
  readonly onIncident: (incident: QueryIncident) => void
  /** A search was answered. */
  readonly onSearched: () => void
  /** The bucket that queries are answered from; null: from the log. */
  readonly bucket: Pick<BucketStore, 'query' | 'problem' | 'isCurrent' | 'dropDamaged'> | null
  /** Absent: there is no cluster. */
  readonly lead?: Lead
}

/** The parts that a question needs. */
export type AskParts<Asked extends Question, Body> = Pick<
  QueryParts,
  'onIncident' | 'logger' | 'readErrors' | 'bucket' | 'lead' | 'expired'
> & {
  readonly log: Pick<Log, 'committed' | 'generation' | 'id' | 'incidents' | 'segments'>
  readonly registry: Pick<SegmentRegistry, 'snapshot'>
  readonly jobs: Pick<JobPool<QueryTask<Asked>, ThreadAnswer<Body>>, 'run'>
}

/** A question in a body, about the records of one dataset, or, when `dataset` is null, of all that may be read. */
export interface BodyForm<Asked extends Question & { readonly dataset: string | null }> {
  /** Reads a body; valid only during the call. */
  readonly parse: (body: Uint8Array) => Asked | QueryRequestProblem
  /** For the metrics. */
  readonly kindOf: (asked: Asked) => QueryKind
}

/** A question in a URL, about what a credential may read. */
export interface UrlForm<Asked extends Question> {
  readonly parse: (query: string, credential: Credential) => Asked | QueryRequestProblem
  readonly kind: QueryKind
}

const PAGES: BodyForm<QueryRequest> = {
  parse: parseQueryRequest,
  kindOf: ({ filter }) => (filter.recordId !== null ? 'record_id' : filter.traceId !== null ? 'trace_id' : 'time'),
}

export class QueryFront {
  readonly #parts: QueryParts
  /** Slots are per tenant only: the queue of the query threads bounds the whole. */
  readonly #slots = new AdmissionSlots(Infinity)

  constructor(parts: QueryParts) {
    this.#parts = parts
  }

  /** `POST /v1/query`. */
  endpoint(document: OperationDocument): Endpoint {
    return this.bodyEndpoint(document, PAGES)
  }

  bodyEndpoint<Asked extends Question & { readonly dataset: string | null }>(
    document: OperationDocument,
    form: BodyForm<Asked>,
  ): Endpoint {
    return { document, begin: (head, exchange) => this.#beginBody(head, exchange, form) }
  }

  urlEndpoint<Asked extends Question>(document: OperationDocument, form: UrlForm<Asked>): Endpoint {
    return { document, begin: (head, exchange) => this.#beginUrl(head, exchange, form) }
  }

  #beginBody<Asked extends Question & { readonly dataset: string | null }>(
    head: RequestHead,
    exchange: Exchange,
    form: BodyForm<Asked>,
  ): void {
    const caller = this.#admitBody(head)
    if (isRefusal(caller)) return this.#refuse(exchange, caller)
    exchange.tenant = caller.tenant.id
    this.#slots.arriving(caller.tenant.id, exchange)
    const slot = new HeldSlot(() => this.#slots.release(caller.tenant.id))
    exchange.onEnd(() => {
      this.#slots.arrived(exchange)
      slot.leave()
    })
    const startedMs = processNowMs()
    gatherBody(exchange, QUERY_BODY_BYTES_MAX, {
      whole: (body) => {
        this.#slots.arrived(exchange)
        const request = form.parse(body)
        if ('message' in request) return this.#refuse(exchange, refusal(request.kind, request.message))
        if (request.dataset !== null && !mayUseDataset(credentialOf(caller), request.dataset)) {
          const why = 'the credential is not allowed for the dataset'
          return this.#refuse(exchange, refusal('dataset_not_authorized', why))
        }
        this.#run(exchange, { caller, slot }, request, form.kindOf(request), startedMs)
      },
      tooLarge: () => this.#refuse(exchange, bodyTooLarge()),
      timedOut: (why) => this.#refuse(exchange, bodyTimedOut(why)),
    })
  }

  #beginUrl<Asked extends Question>(head: RequestHead, exchange: Exchange, form: UrlForm<Asked>): void {
    const caller = this.#takeSlot(this.#identify(head))
    if (isRefusal(caller)) return this.#refuse(exchange, caller)
    exchange.tenant = caller.tenant.id
    const slot = new HeldSlot(() => this.#slots.release(caller.tenant.id))
    exchange.onEnd(() => slot.leave())
    const request = form.parse(head.query, credentialOf(caller))
    if ('message' in request) return this.#refuse(exchange, refusal(request.kind, request.message))
    this.#run(exchange, { caller, slot }, request, form.kind, processNowMs())
  }

  #identify(head: RequestHead): Caller | Refusal {
    return identifyCaller(this.#parts.policy(), head.header(TENANT_HEADER), head.header('authorization'))
  }

  #admitBody(head: RequestHead): Caller | Refusal {
    const caller = this.#identify(head)
    if (isRefusal(caller)) return caller
    return headProblem(head) ?? this.#takeSlot(caller)
  }

  #takeSlot(caller: Caller | Refusal): Caller | Refusal {
    if (isRefusal(caller)) return caller
    if (this.#slots.tryTake(caller.tenant.id, this.#parts.maxConcurrentQueries) !== 'taken') {
      return refusal('concurrency_exceeded', 'the tenant has too many queries in progress')
    }
    return caller
  }

  #run(exchange: Exchange, admitted: Admitted, request: Question, kind: QueryKind, startedMs: number): void {
    this.#answer(exchange, admitted, request, kind, startedMs).catch((error: unknown) => exchange.fail(error))
  }

  async #answer(
    exchange: Exchange,
    { caller, slot }: Admitted,
    request: Question,
    kind: QueryKind,
    startedMs: number,
  ): Promise<void> {
    const { datasets } = credentialOf(caller)
    const answer = await slot.during(askThread(this.#parts, caller.tenant.id, request, startedMs, datasets))
    const { counters, onSearched } = this.#parts
    if (request.filter?.search) onSearched()
    if (isRefusal(answer)) return this.#refuse(exchange, answer)
    counters.answered(kind, processNowMs() - startedMs)
    exchange.onEnd(() => freeMemory(answer))
    exchange.answer(200, JSON_TYPE, answer)
  }

  #refuse(exchange: Exchange, refused: Refusal): void {
    this.#parts.counters.refused(refused.kind)
    answerRefusal(exchange, refused, 'json')
  }
}

interface Admitted {
  readonly caller: Caller
  readonly slot: HeldSlot
}

const credentialOf = ({ tenant, credentialNumber }: Caller): Credential => tenant.credentials[credentialNumber]!

/** What is wrong with the headers of a request whose body is a query. */
export function headProblem(head: RequestHead): Refusal | null {
  if (mediaTypeOf(head.header('content-type')) !== JSON_TYPE) {
    return refusal('unsupported_content_type', `a query is sent as ${JSON_TYPE}`)
  }
  if (!isIdentity(head.header('content-encoding'))) {
    return refusal('unsupported_content_encoding', 'a query is sent without a content encoding')
  }
  return head.contentLength > QUERY_BODY_BYTES_MAX ? bodyTooLarge() : null
}

export const bodyTooLarge = (): Refusal =>
  refusal('payload_too_large', `a query holds at most ${QUERY_BODY_BYTES_MAX} bytes`)

/**
 * Has a query thread answer from what is stored now. What retention drops meanwhile is neither damaged nor missing: the question is asked again
 * of what is left, until its deadline.
 *
 * @param tenant its id
 * @param among  for a question that names no dataset: the datasets that may be read; null: all
 */
export async function askThread<Asked extends Question, Body extends object>(
  parts: AskParts<Asked, Body>,
  tenant: string,
  request: Asked,
  startedMs: number,
  among: readonly string[] | null = null,
): Promise<Body | Refusal> {
  const { log, registry, onIncident, readErrors, bucket, lead } = parts
  if (bucket !== null) return askBucket(parts, bucket, tenant, request, startedMs, among)
  const term = lead?.term ?? null
  const segments = registry.snapshot()
  const { catalog, indexed } = segments
  const { committed, generation, id: logId, incidents: quarantined } = log
  const snapshot = { committed, generation, logId, indexed, catalog, quarantined }
  const oldest = log.segments[0]?.base
  try {
    const deadlineAtMs = startedMs + request.deadlineMs
    const answer = await answerOf(parts, { tenant, request, among, deadlineAtMs, snapshot })
    const led = lead?.refusedAfter(term) ?? null
    if (led !== null) return led
    if (isRefusal(answer)) return answer
    if (answer.kind === 'ok') return answer.body
    const isOfReading = answer.incident !== null || answer.kind === 'bundle_read_failed'
    if (isOfReading && log.segments[0]?.base !== oldest) return askThread(parts, tenant, request, startedMs, among)
    if (answer.incident) onIncident(answer.incident)
    else if (answer.kind === 'bundle_read_failed') readErrors.note(answer.message)
    return refusal(answer.kind, answer.message)
  } finally {
    segments.release()
  }
}

/** Has a query thread answer from what is in the bucket. */
async function askBucket<Asked extends Question, Body extends object>(
  parts: AskParts<Asked, Body>,
  bucket: NonNullable<QueryParts['bucket']>,
  tenant: string,
  request: Asked,
  startedMs: number,
  among: readonly string[] | null,
): Promise<Body | Refusal> {
  const query = bucket.query()
  if (query === null) {
    return refusal(
      'object_storage_read_failed',
      `the bucket cannot be read (${bucket.problem ?? 'not seen yet'}); retry later`,
    )
  }
  const { catalog, logId, end, damaged } = query.snapshot
  const snapshot = { committed: end, generation: 0, logId, indexed: [], catalog, quarantined: damaged }
  const deadlineAtMs = startedMs + request.deadlineMs
  try {
    const answer = await answerOf(parts, { tenant, request, among, deadlineAtMs, snapshot, remote: query.access })
    if (isRefusal(answer)) return answer
    if (answer.kind === 'ok') return answer.body
    if (answer.kind === 'object_storage_read_failed') {
      // What was removed meanwhile is neither damaged nor missing.
      if (!bucket.isCurrent(query)) return askThread(parts, tenant, request, startedMs, among)
      parts.logger.warn({ reason: answer.message }, 'a query could not read the bucket')
      if (answer.incident !== null) bucket.dropDamaged(answer.incident.base) // what it holds is not ours to repair
    }
    return refusal(answer.kind, answer.message)
  } finally {
    query.release()
  }
}

/** The answer of a thread; a refusal when no thread gave one. @throws on a bug of ours, such as a task that cannot be cloned */
async function answerOf<Asked extends Question, Body extends object>(
  { jobs, logger, bucket, expired }: AskParts<Asked, Body>,
  asked: Omit<QueryTask<Asked>, 'expired'>,
): Promise<ThreadAnswer<Body> | Refusal> {
  const task: QueryTask<Asked> = { ...asked, expired: expired(asked.tenant) }
  try {
    return await jobs.run(task, {
      timeoutMs: task.request.deadlineMs + STUCK_MS,
      ...(task.remote && { transfer: [task.remote.port] }),
    })
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    if (error.kind === 'overloaded') return refusal('concurrency_exceeded', 'all query threads are busy')
    if (error.code === 'job_timed_out') {
      // On a busy machine a question waits for a thread, or its thread for a core: that says nothing about the disk.
      logger.warn({ reason: error.message }, 'a query thread did not answer in time')
      return refusal('deadline_exceeded', LATE)
    }
    // A thread reports what it cannot read, so this is a bug of ours, and no disk is at fault.
    if (error.code === 'job_failed') throw error
    logger.error({ code: error.code, reason: error.message }, 'a query thread failed')
    if (bucket !== null) return refusal('object_storage_read_failed', 'the query thread failed; repeat the query')
    return refusal('bundle_read_failed', 'the query thread failed; repeat the query')
  }
}
