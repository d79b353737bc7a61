/**
 * The object store over HTTP: its management routes, and the gateway behind them for all other requests.
 *
 * Checks run in this order: origin (`local` mode), size and form (classify), admission slot, caller, permission, bucket, policy. Then the handler of its
 * operation gets the request.
 *
 * G1  no answer reveals what is not durable (operations.ts, O2): refusals and answers wait, except for operations whose answers the store itself
 *     holds back until then (operations-table O4)
 * G2  in a cluster only the leader answers. An answer goes out in the term in which its request came, so it was judged in that term, too
 */
import { hostOf } from '../../addresses.ts'
import type { Exchange, RequestHead } from '../../http/exchange.ts'
import { WITHOUT_CERTIFICATE } from '../../http/routes.ts'
import type { HttpService, Route, ServiceFront } from '../../http/routes.ts'
import { answerText } from '../../http/text-answer.ts'
import type { TrustedProxies } from '../../http/trusted-proxies.ts'
import type { WebGuard } from '../../http/web-guard.ts'
import { AUDIT } from '../../observability/audit-log.ts'
import type { AuditLog } from '../../observability/audit-log.ts'
import type { Logger } from '../../observability/logger.ts'
import type { Authenticator } from './auth/authenticator.ts'
import type { SignedRequest } from './auth/canonical-request.ts'
import type { Caller } from './auth/request-identity.ts'
import { demandEmptyContent } from './body/content-sha256.ts'
import type { StoreCounters } from '../counters.ts'
import { TAGGING_BODY_BYTES_MAX } from './document-limits.ts'
import { readTagging } from './objects/tagging.ts'
import type { Bucket, ObjectStore } from '../operations.ts'
import { notLeading, outcomeUnknown, refuse } from '../refusals.ts'
import type { S3Error } from '../refusals.ts'
import { Addressing } from './addressing.ts'
import type { AddressedRequest } from './addressing.ts'
import { Admission } from './admission.ts'
import {
  RETRY_AFTER_SECONDS,
  closeSource,
  headSpeaksS3,
  isFailure,
  refusalOf,
  reserveRoom,
  sendAnswer,
  sendRefusal,
} from './answer.ts'
import type { AnswerContext } from './answer.ts'
import { Authorization, demandExpectedOwner, demandPermission } from './authorize.ts'
import { ExchangeBody, RepeatableBody } from './body/request-body.ts'
import { corsRequestOf, corsRulesOf, policyOf } from './bucket-documents.ts'
import { classify } from './classify.ts'
import type { Classified } from './classify.ts'
import { collectBody } from './body/collect-body.ts'
import type { Answer, GatewayContext, GatewayRequest, HeaderLine, MaybePromise } from './handler.ts'
import type { HandlerOf, Handlers } from './handlers.ts'
import { CONCURRENT_REQUESTS_MAX } from './limits.ts'
import { withoutAcls } from './objects/acl.ts'
import type { Extension, OperationName } from './operations-table.ts'
import { DocumentGate } from './document-gate.ts'
import { Pace } from './pace.ts'
import { whenDurable } from './when-durable.ts'
import { asksForRequestTags } from './policy/policy-values.ts'

export interface GatewayParts {
  readonly store: ObjectStore
  readonly authenticator: Authenticator
  readonly handlers: Handlers
  /** Keeps web pages out where requests need no credentials. Null: they need some, unless a policy lets every caller in. */
  readonly guard: WebGuard | null
  readonly proxies: Pick<TrustedProxies, 'isSecure' | 'addressOf'>
  /** Trusted base domain of virtual-host addressing; null: path-style only. */
  readonly baseDomain: string | null
  readonly region: string
  readonly extensions: ReadonlySet<Extension>
  /** Cap of a single PUT and of a part. */
  readonly putBytesMax: number
  /** Default 1024. */
  readonly concurrentRequestsMax?: number
  /** The management routes, which go before every bucket. */
  readonly management: readonly Route[]
  /** Milliseconds since the Unix epoch. */
  readonly nowMs: () => number
  /** Calls `run` in the next turn of the event loop. */
  readonly nextTurn: (run: () => void) => void
  readonly logger: Pick<Logger, 'error'>
  /** Gets deletions and changes of access, each with its principal. */
  readonly audit: AuditLog
  readonly counters: Pick<StoreCounters, 'refused'>
}

/** Operations that the audit log gets, beside DeleteObjects, which logs its keys itself. */
const AUDITED: ReadonlySet<OperationName> = new Set([
  'DeleteBucket',
  'DeleteObject',
  'PutBucketPolicy',
  'DeleteBucketPolicy',
  'PutBucketCors',
  'DeleteBucketCors',
])
/** Keys in one line of the audit log. */
const AUDITED_KEYS_MAX = 100

const ANONYMOUS: Caller = { principal: null, contentSha256: null, chunkSigning: null }
const NO_BODY = { isPresent: false, wasTaken: false }

export function objectStoreGateway(parts: GatewayParts): HttpService {
  const gateway = new Gateway(parts)
  return {
    ...objectStoreFront(parts),
    routes: parts.management,
    // The gateway takes every path and every method that no management route has.
    notFound: (head, exchange) => gateway.begin(head, exchange),
    methodNotAllowed: (_head, exchange, allow) =>
      answerText(exchange, 405, 'Method not allowed', [['allow', allow.join(', ')]]),
  }
}

export function objectStoreFront({ counters }: Pick<GatewayParts, 'counters'>): ServiceFront {
  const send = (exchange: Exchange, asked: AnswerContext, refused: S3Error): void => {
    counters.refused(refused.code)
    sendRefusal(exchange, asked, refused)
  }
  return {
    name: 'objectstore',
    requestIdHeader: 'x-obj-request-id',
    requestIdAlias: 'x-amz-request-id',
    ownRequestIds: 'printable',
    requestIdPrefix: 'objreq-',
    withoutCertificate: (head, exchange) =>
      send(exchange, { ...UNKNOWN, method: head.method, path: head.path }, refuse('AccessDenied', WITHOUT_CERTIFICATE)),
    malformed: (exchange, message) => send(exchange, UNKNOWN, refuse('BadRequest', message)),
    internalError: (exchange) => sendRefusal(exchange, UNKNOWN, refuse('InternalError')),
  }
}

/** Refuses a request before the store is open. */
export const refuseUnopened = (head: RequestHead, exchange: Exchange, message: string): void => {
  const headers = [['Retry-After', RETRY_AFTER_SECONDS]] as const
  sendRefusal(
    exchange,
    { ...UNKNOWN, method: head.method, path: head.path },
    refuse('ServiceUnavailable', message, { headers }),
  )
}

const UNKNOWN: AnswerContext = {
  method: 'GET',
  speaksS3: true,
  path: null,
  style: 'path',
  address: null,
  operation: null,
  body: NO_BODY,
  cors: [],
}

type Request = SignedRequest & AddressedRequest

/** What is known of one request; it grows while the request is handled. */
type MutableAsked = { -readonly [Name in keyof AnswerContext]: AnswerContext[Name] } & {
  /** G2. Null: this node did not lead when the request came. */
  term: number | null
}

class Gateway {
  readonly #parts: GatewayParts
  readonly #addressing: Addressing
  readonly #admission: Admission
  readonly #authorization: Authorization
  readonly #context: GatewayContext

  constructor(parts: GatewayParts) {
    const { store, authenticator, region, extensions, putBytesMax, nowMs } = parts
    const pace = new Pace(parts.nextTurn)
    this.#parts = parts
    this.#addressing = new Addressing(parts.baseDomain)
    this.#admission = new Admission(parts.concurrentRequestsMax ?? CONCURRENT_REQUESTS_MAX)
    this.#authorization = new Authorization(store, nowMs, pace)
    this.#context = {
      store,
      region,
      putBytesMax,
      ignoresAcls: extensions.has('ignore-acl-headers'),
      nowMs,
      pace,
      documents: new DocumentGate(),
      deleted: ({ operation, requestId, caller }, bucket, keys) => {
        for (let from = 0; from < keys.length; from += AUDITED_KEYS_MAX) {
          const part = { bucket, keys: keys.slice(from, from + AUDITED_KEYS_MAX) }
          const principal = caller.principal?.id ?? null
          parts.audit.info({ operation, ...part, principal, request_id: requestId }, AUDIT)
        }
      },
      authorize: (request, action, bucketName, key) => this.#authorization.demand(request, action, bucketName, key),
      authenticateForm: (field, caller) => authenticator.authenticateForm(field, caller),
    }
  }

  begin(head: RequestHead, exchange: Exchange): void {
    const { method, path, query } = head
    const headers = head.headers()
    const isSecure = this.#parts.proxies.isSecure(exchange, headers)
    const request: Request = { method, path, query, headers, isSecure }
    const body = new ExchangeBody(exchange, head.contentLength, headers)
    const asked: MutableAsked = {
      method,
      speaksS3: headSpeaksS3(request),
      path,
      style: 'path',
      address: null,
      operation: null,
      body,
      cors: [],
      term: null,
    }
    let classified: Classified
    const term = this.#parts.store.term()
    if (typeof term !== 'number') return this.#fail(exchange, asked, term)
    asked.term = term
    try {
      this.#keepPagesOut(request)
      classified = classify(request, this.#addressing, this.#parts.extensions)
    } catch (error) {
      return this.#failUnclassified(request, exchange, asked, error)
    }
    const { operation, address } = classified
    exchange.route = operation.name
    asked.operation = operation
    asked.style = address.style
    asked.address = address
    this.#serve(request, classified, body, exchange, asked)
  }

  /** A preflight is let in: it does nothing, and the bucket's CORS rules answer it, too. @throws S3Error AccessDenied */
  #keepPagesOut(request: Request): void {
    const { guard } = this.#parts
    if (guard === null) return
    const { headers, method } = request
    const host = headers.get('host') ?? ''
    const isAllowed = (): boolean =>
      method === 'OPTIONS' || this.#corsHeaders(request, this.#addressing.placeOf(request).bucket).length > 0
    const problem = guard.hostProblem(host) ?? guard.siteProblem(headers.get('sec-fetch-site') ?? '', isAllowed)
    if (problem !== null && hostOf(host) !== null) throw refuse('AccessDenied', problem) // without a host the request is an InvalidURI
  }

  #serve(request: Request, classified: Classified, body: ExchangeBody, exchange: Exchange, asked: MutableAsked): void {
    const { operation, address } = classified
    try {
      asked.cors = this.#corsHeaders(request, address.bucket)
      this.#admission.enter(exchange)
      const answer = this.#perform(request, classified, body, exchange, () => void (asked.speaksS3 = true))
      if (!operation.isStored) void this.#answerSettled(exchange, asked, classified, answer)
      else if (!(answer instanceof Promise)) this.#send(exchange, asked, classified, answer)
      else {
        answer.then(
          (given) => this.#sendLater(exchange, asked, classified, given),
          (error: unknown) => this.#refuse(exchange, asked, error),
        )
      }
    } catch (error) {
      void this.#refuse(exchange, asked, error)
    }
  }

  /** G1 */
  async #answerSettled(
    exchange: Exchange,
    asked: MutableAsked,
    classified: Classified,
    answer: MaybePromise<Answer>,
  ): Promise<void> {
    try {
      const given = await answer
      await this.#parts.store.settled()
      this.#send(exchange, asked, classified, given)
    } catch (error) {
      await this.#refuse(exchange, asked, error)
    }
  }

  #sendLater(exchange: Exchange, asked: MutableAsked, classified: Classified, answer: Answer): void {
    try {
      this.#send(exchange, asked, classified, answer)
    } catch (error) {
      void this.#refuse(exchange, asked, error)
    }
  }

  #send(exchange: Exchange, asked: MutableAsked, { operation, address }: Classified, answer: Answer): void {
    this.#demandTermOf(asked, answer)
    if (AUDITED.has(operation.name)) {
      const { bucket, key } = address
      const what = { operation: operation.name, bucket, ...(key !== null && { key }) }
      this.#parts.audit.info({ ...what, principal: exchange.principal, request_id: exchange.id }, AUDIT)
    }
    sendAnswer(exchange, asked, answer)
  }

  /** G2. @throws S3Error: the term is over */
  #demandTermOf({ term, method }: MutableAsked, answer: Answer): void {
    const refusal = this.#overTerm(term)
    if (refusal === null) return
    closeSource(answer.body ?? null)
    throw method === 'GET' || method === 'HEAD' ? refusal : outcomeUnknown()
  }

  /** The refusal when the term is over; null: it is not. */
  #overTerm(term: number | null): S3Error | null {
    const now = this.#parts.store.term()
    if (now === term) return null
    return typeof now === 'number' ? notLeading(null) : now
  }

  /** G2. In place of a refusal that reveals state: those of category throttle or server do not. */
  #refusalInTerm({ term }: MutableAsked, refused: S3Error | null): S3Error | null {
    const isJudged = refused !== null && refused.category !== 'throttle' && refused.category !== 'server'
    return isJudged && term !== null ? (this.#overTerm(term) ?? refused) : refused
  }

  async #refuse(exchange: Exchange, asked: MutableAsked, error: unknown): Promise<void> {
    if (refusalOf(error)?.code === 'NoSuchBucket') asked.cors = [] // the bucket's CORS headers would tell that it exists
    this.#fail(exchange, asked, await whenDurable(this.#parts.store, error))
  }

  /** Uses the address as far as it can be read, so that a browser may see this refusal as well. */
  #failUnclassified(request: SignedRequest, exchange: Exchange, asked: MutableAsked, error: unknown): void {
    const { style, bucket } = this.#addressing.placeOf(request)
    const cors = this.#corsHeaders(request, bucket)
    const known = { ...asked, style, cors }
    if (cors.length === 0) return this.#fail(exchange, known, error)
    void whenDurable(this.#parts.store, error).then((durable) => this.#fail(exchange, known, durable)) // G1: the CORS headers reveal the bucket's rules
  }

  /** Without a promise, unless a policy or the handler has to wait. */
  #perform(
    signed: Request,
    classified: Classified,
    body: ExchangeBody,
    exchange: Exchange,
    answerAsS3: () => void,
  ): MaybePromise<Answer> {
    const { operation, address, query, headers } = classified
    const isPublic = operation.permission === null
    const bucketInHost = address.style === 'virtual-host' ? address.bucket : null
    const { authenticator, handlers, nowMs } = this.#parts
    const caller = isPublic ? ANONYMOUS : authenticator.authenticate({ ...signed, bucketInHost }, nowMs())
    exchange.principal = caller.principal?.id ?? null
    if (operation.body === 'none' && !body.isPresent) demandEmptyContent(caller.contentSha256)
    const asked: GatewayRequest = {
      operation: operation.name,
      method: signed.method,
      requestId: exchange.id,
      isSecure: signed.isSecure,
      sourceAddress: () => this.#parts.proxies.addressOf(exchange, signed.headers),
      query,
      headers,
      url: address.url,
      caller,
      answerAsS3,
      reserveRoom: (bytes) => reserveRoom(exchange, bytes),
      body,
    }
    const handler = handlers[operation.name]
    if (handler.of === 'service' || handler.of === 'bucket name') {
      if (!isPublic && caller.principal === null) throw refuse('AccessDenied')
      demandPermission(caller.principal, operation.permission)
      const request = this.#withoutAcls(asked)
      if (handler.of === 'service') return handler.handle(request, this.#context)
      return handler.handle(request, address.bucket!, this.#context) // classified by its bucket
    }
    if (handler.of === 'form') return this.#takeForm(handler, asked, classified)
    if (operation.name === 'PutObjectTagging') {
      return this.#withTags(asked, classified).then((tagged) => this.#judge(handler, tagged, classified))
    }
    return this.#judge(handler, asked, classified)
  }

  async #takeForm(
    { handle }: HandlerOf<'form'>,
    asked: GatewayRequest,
    { operation, address }: Classified,
  ): Promise<Answer> {
    if (asked.caller.principal !== null) {
      await this.#authorization.demandPossible(asked, operation.action!, address.bucket!, null)
    }
    return handle(this.#withoutAcls(asked), address.bucket!, this.#context)
  }

  #judge(
    handler: HandlerOf<'bucket' | 'keys' | 'object'>,
    asked: GatewayRequest,
    classified: Classified,
  ): MaybePromise<Answer> {
    const bucket = this.#bucketFor(asked, classified, handler.of === 'keys')
    if (bucket instanceof Promise) return bucket.then((bucket) => this.#handle(handler, asked, bucket, classified))
    return this.#handle(handler, asked, bucket, classified)
  }

  #handle(
    handler: HandlerOf<'bucket' | 'keys' | 'object'>,
    asked: GatewayRequest,
    bucket: Bucket,
    { address }: Classified,
  ): MaybePromise<Answer> {
    demandExpectedOwner(asked, bucket)
    const request = this.#withoutAcls(asked)
    if (handler.of !== 'object') return handler.handle(request, bucket, this.#context)
    return handler.handle(request, bucket, address.key!, this.#context) // classified by its key
  }

  #bucketFor(request: GatewayRequest, classified: Classified, hasKeysInBody: boolean): Bucket | Promise<Bucket> {
    const { operation, address } = classified
    const { action, permission } = operation
    if (hasKeysInBody) return this.#authorization.demandPossible(request, action!, address.bucket!, null)
    return this.#authorization.demand(request, action!, address.bucket!, address.key, permission!)
  }

  /** Where a policy asks for the tags in the body of a request, they have to be read before it is judged. */
  async #withTags(request: GatewayRequest, { operation, address }: Classified): Promise<GatewayRequest> {
    const bucket = await this.#authorization.demandPossible(request, operation.action!, address.bucket!, address.key)
    const policy = policyOf(bucket)
    if (!policy || !asksForRequestTags(policy.conditionKeys)) return request
    const repeatable = { ...request, body: new RepeatableBody(request.body) }
    return {
      ...repeatable,
      requestTags: readTagging(await collectBody(repeatable, TAGGING_BODY_BYTES_MAX)),
    }
  }

  /** With the extension `ignore-acl-headers` only policies see ACL headers: they are evaluated before. */
  #withoutAcls(request: GatewayRequest): GatewayRequest {
    return this.#context.ignoresAcls ? { ...request, headers: withoutAcls(request.headers) } : request
  }

  /** For an actual request: the answer to a preflight is made elsewhere. */
  #corsHeaders({ headers, method }: SignedRequest, bucketName: string | null): readonly HeaderLine[] {
    if (!headers.has('origin') || bucketName === null || method === 'OPTIONS') return []
    const bucket = this.#parts.store.bucket(bucketName)
    const rules = bucket && corsRulesOf(bucket)
    return rules?.headersFor(corsRequestOf(method, headers)) ?? []
  }

  #fail(exchange: Exchange, asked: MutableAsked, error: unknown): void {
    const refused = this.#refusalInTerm(asked, refusalOf(error))
    if (isFailure(refused)) {
      this.#parts.logger.error({ request_id: exchange.id, err: refused?.cause ?? error }, 'request failed')
    }
    const refusal = refused ?? refuse('InternalError')
    this.#parts.counters.refused(refusal.code)
    sendRefusal(exchange, asked, refusal)
  }
}
