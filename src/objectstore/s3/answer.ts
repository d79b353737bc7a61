/**
 * Answers as clients see them: the headers that every answer has, the names under which a client knows them, and refusals.
 *
 * A1  a client that speaks S3 finds every header that S3 has under its name there as well (header-text.ts). It speaks S3 if it signs the request,
 *     or the fields of its form, or sends any `x-amz-…` header
 * A2  a HEAD is never answered with a body
 * A3  a body in pieces is sent with its length when it is short, and else at the pace of its reader
 */
import { LEADER_HEADER } from '../../http/cluster.ts'
import { textOfHeaders } from '../../http/exchange.ts'
import type { Exchange } from '../../http/exchange.ts'
import { isSignedInQuery } from './auth/query-signature-v2.ts'
import type { SignedRequest } from './auth/canonical-request.ts'
import { renderError } from './error-answer.ts'
import { StoreError } from '../../errors.ts'
import { FrameLost, FrameNotTaken } from '../../engine/appender.ts'
import { LeadLost, S3Error, refuse } from '../refusals.ts'
import type { Address, EndpointStyle } from './addressing.ts'
import type { Answer, AnswerBody, HeaderLine } from './handler.ts'
import { headerText, safeValue } from './header-text.ts'
import { TARGET_BYTES_MAX } from './limits.ts'
import { handlerName } from './operations-table.ts'
import type { Operation } from './operations-table.ts'

/** Causes of refusals that are logged where they arise. */
const TOLD_ELSEWHERE = [FrameNotTaken, FrameLost, LeadLost]
/** HostId of every error, and `x-amz-id-2`: S3's second id of a request says where it was served. */
const HOST_ID = 'objstore'
export const RETRY_AFTER_SECONDS = '1'
const XML_TYPE = 'application/xml'
/** A3. In characters: a page of 1000 usual keys is shorter than WHOLE_PIECES_MAX of them. */
const PIECE_LENGTH = 32 * 1024
const WHOLE_PIECES_MAX = 16

/** What the gateway knows of a request when it answers. */
export interface AnswerContext {
  readonly method: string
  readonly speaksS3: boolean
  /** Path of the target, as sent; null: not known. */
  readonly path: string | null
  readonly style: EndpointStyle
  /** Null: the request is for none of our operations, or could not be read. */
  readonly address: Pick<Address, 'bucket' | 'key'> | null
  /** Null: none of ours. */
  readonly operation: Operation | null
  readonly body: { readonly isPresent: boolean; readonly wasTaken: boolean }
  /** CORS headers of the bucket, for a request from another origin. */
  readonly cors: readonly HeaderLine[]
}

/** A1, as far as the head of a request shows it. */
export function headSpeaksS3({ headers, query }: SignedRequest): boolean {
  if (headers.has('authorization') || isSignedInQuery(query)) return true
  for (const name of headers.keys()) if (name.startsWith('x-amz-')) return true
  return false
}

/** @throws S3Error RequestTimeout when the client is gone */
export const reserveRoom = (exchange: Exchange, bytes: number): Promise<void> =>
  new Promise((granted, gone) => {
    exchange.reserve(bytes, granted)
    exchange.onEnd(() => gone(refuse('RequestTimeout')))
  })

export function sendAnswer(exchange: Exchange, asked: AnswerContext, answer: Answer): void {
  const { status, headers, objectHeaders, body } = answer
  const ofObject = objectHeaders === undefined ? '' : objectHeaders.textFor(asked.speaksS3)
  send(exchange, asked, status, ofObject + headerText(headers ?? [], asked.speaksS3), body ?? null)
}

export function sendRefusal(exchange: Exchange, asked: AnswerContext, refused: S3Error): void {
  const { code, status, category, retryable } = refused
  const headers: HeaderLine[] = [
    ...refused.headers,
    ['x-obj-error-code', code],
    ['x-obj-error-category', category],
    ['x-obj-error-retryable', String(retryable)],
    ['x-obj-error-redacted', String(category === 'server')],
  ]
  if (refused.leader !== null) headers.push([LEADER_HEADER, refused.leader])
  if (category === 'throttle') headers.push(['Retry-After', RETRY_AFTER_SECONDS])
  const bytes = renderError(refused, { resource: resourceOf(asked), requestId: exchange.id, hostId: HOST_ID })
  send(exchange, asked, status, headerText(headers, asked.speaksS3), { contentType: XML_TYPE, bytes })
}

/** `/bucket/key`, also when the host names the bucket; the path as it was sent where they are not known. */
function resourceOf({ path, address }: AnswerContext): string | null {
  if (address === null) return path?.slice(0, TARGET_BYTES_MAX) ?? null
  const { bucket, key } = address
  return `/${bucket ?? ''}${key === null ? '' : `/${key}`}`
}

/** The refusal that answers an error. Null: the error is our own bug, of which only the log says more. */
export function refusalOf(error: unknown): S3Error | null {
  if (error instanceof S3Error) return error
  if (!(error instanceof StoreError)) return null
  if (error.kind === 'overloaded') return refuse('SlowDown', undefined, { cause: error })
  return error.kind === 'unavailable' ? refuse('ServiceUnavailable', undefined, { cause: error }) : null
}

/**
 * Whether an operator must know: a thread or a disk failed to read, or there is a bug of ours. That the log took nothing, or lost what it had taken, is
 * logged once, with its state, and so is the end of a lead.
 *
 * @param refused what `refusalOf` says of the error
 */
export const isFailure = (refused: S3Error | null): boolean =>
  refused === null || (refused.category === 'server' && !TOLD_ELSEWHERE.some((kind) => refused.cause instanceof kind))

function send(
  exchange: Exchange,
  asked: AnswerContext,
  status: number,
  ownHeaders: string,
  body: AnswerBody | null,
): void {
  let headers = headersOfEveryAnswer(asked)
  if (asked.speaksS3) headers += `\r\nx-amz-request-id: ${exchange.id}\r\nx-amz-id-2: ${HOST_ID}`
  headers += ownHeaders + textOfHeaders(asked.cors)

  if (status === 204 || status === 304) {
    closeSource(body)
    exchange.answer(status, null, null, headers)
  } else if (body === null) {
    exchange.answer(status, null, '', headers)
  } else if ('source' in body && (body.source.whole === undefined || asked.method === 'HEAD')) {
    exchange.answerFrom(status, safeValue(body.contentType), body.lengthBytes, body.source, headers)
  } else if (asked.method === 'HEAD') {
    exchange.answer(status, safeValue(body.contentType), null, headers) // A2
  } else if ('pieces' in body) {
    sendPieces(exchange, status, safeValue(body.contentType), body.pieces, headers)
  } else {
    const bytes = 'bytes' in body ? body.bytes : body.source.whole!
    exchange.answer(status, safeValue(body.contentType), bytes, headers)
  }
}

/** A3 */
function sendPieces(
  exchange: Exchange,
  status: number,
  contentType: string,
  pieces: Iterator<string, void>,
  headers: string,
): void {
  const made: string[] = []
  for (let piece = gathered(pieces); piece !== ''; piece = gathered(pieces)) {
    made.push(piece)
    if (made.length < WHOLE_PIECES_MAX) continue
    const next = async (): Promise<Uint8Array | null> => {
      const piece = made.shift() ?? gathered(pieces)
      return piece === '' ? null : Buffer.from(piece)
    }
    return exchange.answerStream(status, contentType, { next, close: () => {} }, headers)
  }
  exchange.answer(status, contentType, made.join(''), headers)
}

/** Empty: there is no more. */
function gathered(pieces: Iterator<string, void>): string {
  let text = ''
  while (text.length < PIECE_LENGTH) {
    const { done, value } = pieces.next()
    if (done === true) break
    text += value
  }
  return text
}

/** By disposition of the body. */
type HeadersOfEveryAnswer = Partial<Record<Operation['body'] | 'discarded', string>>

const ofEveryAnswer: Readonly<Record<EndpointStyle, Map<Operation | null, HeadersOfEveryAnswer>>> = {
  path: new Map(),
  'virtual-host': new Map(),
}

function headersOfEveryAnswer({ operation, style, body }: AnswerContext): string {
  const taken = body.wasTaken && operation !== null ? operation.body : 'discarded'
  const disposition = body.isPresent ? taken : 'none'
  let ofOperation = ofEveryAnswer[style].get(operation)
  if (ofOperation === undefined) ofEveryAnswer[style].set(operation, (ofOperation = {}))
  return (ofOperation[disposition] ??= textOfHeaders([
    ['x-obj-profile', 'objapi-core-v1'],
    ['x-obj-gateway-contract', 'v1'],
    ['x-obj-operation', operation?.name ?? 'Unsupported'],
    ['x-obj-handler', operation === null ? 'none' : handlerName(operation.name)],
    ['x-obj-addressing-contract', 'v1'],
    ['x-obj-endpoint-style', style],
    ['x-obj-body-disposition', disposition],
  ]))
}

export function closeSource(body: AnswerBody | null): void {
  if (body !== null && 'source' in body) body.source.close()
}
