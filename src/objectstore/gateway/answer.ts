/**
 * Answers as clients see them: the headers that every answer has, the names under which a client knows them, and refusals.
 *
 * A1  who speaks S3, by signing or by any `x-amz-…` header, finds every header that S3 has under its name there as well
 * A2  what stands in a header cannot end it: characters that could become spaces
 * A3  a HEAD is never answered with a body
 */
import type { Exchange } from '../../http/exchange.ts'
import { isSignedInQuery } from '../auth/query-signature-v2.ts'
import type { SignedRequest } from '../auth/canonical-request.ts'
import { renderError } from '../documents/error-answer.ts'
import { StoreError } from '../../errors.ts'
import { FrameLost, FrameNotTaken } from '../../log/appender.ts'
import { S3Error, refuse } from '../refusals.ts'
import type { EndpointStyle } from './addressing.ts'
import type { Answer, AnswerBody, HeaderLine } from './handler.ts'
import { handlerName } from './operations-table.ts'
import type { Operation } from './operations-table.ts'

/** Of every error, and `x-amz-id-2`: S3's second id of a request says where it was served. */
const HOST_ID = 'objstore'
const RETRY_AFTER_SECONDS = '1'
const XML_TYPE = 'application/xml'

const OWN_HEADER = /^x-obj-(?:bucket-id|object-id|version-id|commit-sequence|durability|error-.+)$/
// oxlint-disable-next-line no-control-regex -- they are what is looked for
const ENDS_A_HEADER = /[\u0000-\u0008\u000a-\u001f\u007f]/

/** What the gateway knows of a request when it answers. */
export interface Asked {
  readonly method: string
  readonly speaksS3: boolean
  readonly style: EndpointStyle
  /** Null: none of ours. */
  readonly operation: Operation | null
  readonly body: { readonly isPresent: boolean; readonly wasTaken: boolean }
  /** CORS headers of the bucket, for a request from another origin. */
  readonly cors: readonly HeaderLine[]
}

/** A1 */
export function speaksS3({ headers, query }: SignedRequest): boolean {
  if (headers.has('authorization') || isSignedInQuery(query)) return true
  for (const name of headers.keys()) if (name.startsWith('x-amz-')) return true
  return false
}

export function sendAnswer(exchange: Exchange, asked: Asked, answer: Answer): void {
  send(exchange, asked, answer.status, answer.headers ?? [], answer.body ?? null)
}

export function sendRefusal(exchange: Exchange, asked: Asked, refused: S3Error): void {
  const { code, status, category, retryable } = refused
  const headers: HeaderLine[] = [
    ...refused.headers,
    ['x-obj-error-code', code],
    ['x-obj-error-category', category],
    ['x-obj-error-retryable', String(retryable)],
    ['x-obj-error-redacted', String(category === 'server')],
  ]
  if (category === 'throttle') headers.push(['Retry-After', RETRY_AFTER_SECONDS])
  const bytes = renderError(refused, { requestId: exchange.id, hostId: HOST_ID })
  send(exchange, asked, status, headers, { contentType: XML_TYPE, bytes })
}

/** What is not a refusal of ours: null when it is our own bug, and its log is all that says more. */
export function refusalOf(error: unknown): S3Error | null {
  if (error instanceof S3Error) return error
  if (!(error instanceof StoreError)) return null
  if (error.kind === 'overloaded') return refuse('SlowDown', undefined, { cause: error })
  return error.kind === 'unavailable' ? refuse('ServiceUnavailable', undefined, { cause: error }) : null
}

/**
 * Whether an operator must hear of it: a thread or a disk that failed to read, or our own bug. That the log took nothing, or lost what it
 * had taken, is told once, with its state.
 *
 * @param refused what `refusalOf` says of the error
 */
export const isFailure = (refused: S3Error | null): boolean =>
  refused === null ||
  (refused.category === 'server' && !(refused.cause instanceof FrameNotTaken || refused.cause instanceof FrameLost))

function send(
  exchange: Exchange,
  asked: Asked,
  status: number,
  ownHeaders: readonly HeaderLine[],
  body: AnswerBody | null,
): void {
  const headers = [...headersOfEveryAnswer(asked)]
  if (asked.speaksS3) headers.push(['x-amz-request-id', exchange.id], ['x-amz-id-2', HOST_ID])
  for (const [name, text] of ownHeaders) {
    const value = safeValue(text)
    headers.push([name, value])
    if (asked.speaksS3 && name.startsWith('x-obj-') && !OWN_HEADER.test(name)) {
      headers.push([`x-amz-${name.slice('x-obj-'.length)}`, value])
    }
  }
  headers.push(...asked.cors)

  if (status === 204 || status === 304) {
    closeSource(body)
    exchange.answer(status, null, null, headers)
  } else if (body === null) {
    exchange.answer(status, null, '', headers)
  } else if ('source' in body && (body.source.whole === undefined || asked.method === 'HEAD')) {
    exchange.answerFrom(status, safeValue(body.contentType), body.lengthBytes, body.source, headers)
  } else if (asked.method === 'HEAD') {
    exchange.answer(status, safeValue(body.contentType), null, headers) // A3
  } else {
    const bytes = 'bytes' in body ? body.bytes : body.source.whole!
    exchange.answer(status, safeValue(body.contentType), bytes, headers)
  }
}

/** As many as there are operations, twice or three times. */
const ofEveryAnswer = new Map<string, readonly HeaderLine[]>()

function headersOfEveryAnswer({ operation, style, body }: Asked): readonly HeaderLine[] {
  const taken = body.wasTaken && operation !== null ? operation.body : 'discarded'
  const disposition = body.isPresent ? taken : 'none'
  const about = `${operation?.name} ${style} ${disposition}`
  let headers = ofEveryAnswer.get(about)
  if (headers === undefined) {
    headers = [
      ['x-obj-profile', 'objapi-core-v1'],
      ['x-obj-gateway-contract', 'v1'],
      ['x-obj-operation', operation?.name ?? 'Unsupported'],
      ['x-obj-handler', operation === null ? 'none' : handlerName(operation.name)],
      ['x-obj-addressing-contract', 'v1'],
      ['x-obj-endpoint-style', style],
      ['x-obj-body-disposition', disposition],
    ]
    ofEveryAnswer.set(about, headers)
  }
  return headers
}

/** A2 */
const safeValue = (text: string): string =>
  ENDS_A_HEADER.test(text) ? text.replaceAll(new RegExp(ENDS_A_HEADER, 'g'), ' ') : text

function closeSource(body: AnswerBody | null): void {
  if (body !== null && 'source' in body) body.source.close()
}
