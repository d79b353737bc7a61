/**
 * Every error of the client library. Code branches on `kind` or on `code`, and it is the same whether the broker runs in this process or
 * behind HTTP. Source: specification "Client library entry points".
 *
 * Neither a message nor a cause has a credential or a payload in it.
 */
import type { BrokerError } from '../broker/refusals.ts'

export type SdkErrorKind =
  | 'InvalidConfig' // fix the configuration
  | 'HttpBroker' // the broker refused: see HttpBrokerError
  | 'Transport' // the broker cannot be asked: see TransportCode
  | 'Aborted' // the caller's own signal said so

/** Codes of the kind `Transport`, except `broker_closed` of an embedded broker and `lease_expired` of a subscription. */
export type TransportCode =
  | 'connection_failed' // there was no connection: nothing was sent
  | 'connection_lost' // the call may have had its effect all the same
  | 'timeout' // likewise
  | 'bad_answer' // likewise: this is no answer of a broker
  | 'too_many_calls' // too many calls wait for a connection: nothing was sent
  | 'client_closed' // nothing was sent

export class SdkError extends Error {
  readonly kind: SdkErrorKind
  /** Code of the broker's refusal, or of the failure to reach the broker. */
  readonly code: string
  /** The same call can succeed later without a change, and does not happen twice. */
  readonly retryable: boolean

  constructor(kind: SdkErrorKind, code: string, message: string, options: ErrorOptions & { retryable?: boolean } = {}) {
    super(message, options)
    this.name = 'SdkError'
    this.kind = kind
    this.code = code
    this.retryable = options.retryable ?? false
  }
}

/** What a broker says in an answer that is no success. */
export interface BrokerAnswer {
  /** HTTP status of the refusal. */
  readonly status: number
  readonly code: string
  readonly message: string
  /** What to do about it. */
  readonly action: string
  readonly retryable: boolean
  /** Whole seconds; null: the broker does not say when. */
  readonly retryAfterSeconds: number | null
}

/** The broker refused. A broker in this process, without HTTP, has the same error, so that callers need not tell the two apart. */
export class HttpBrokerError extends SdkError {
  readonly status: number
  readonly action: string
  readonly retryAfterSeconds: number | null

  constructor({ status, code, message, action, retryable, retryAfterSeconds }: BrokerAnswer, options?: ErrorOptions) {
    super('HttpBroker', code, message, { ...options, retryable })
    this.name = 'HttpBrokerError'
    this.status = status
    this.action = action
    this.retryAfterSeconds = retryAfterSeconds
  }
}

/** @param message names the field */
export const invalidConfig = (message: string, options?: ErrorOptions): SdkError =>
  new SdkError('InvalidConfig', 'InvalidConfig', message, options)

export const transportFailed = (
  code: TransportCode,
  message: string,
  options?: ErrorOptions & { retryable?: boolean },
): SdkError => new SdkError('Transport', code, message, options)

export const aborted = (): SdkError => new SdkError('Aborted', 'aborted', 'the call was aborted by its signal')

/** True when the failed operation may have taken effect, so that a second try may do it twice. */
export const mayHaveHappened = (error: unknown): boolean =>
  error instanceof SdkError && (error.code === 'connection_lost' || error.code === 'timeout')

/** The error that would be read from the refusal's answer over HTTP. @param cause what the operation threw */
export function brokerRefused(refused: BrokerError, cause: unknown): HttpBrokerError {
  const { status, detail, retryAfterSeconds } = refused
  const saysWhen = detail.retryable && (status === 429 || status === 503)
  return new HttpBrokerError(
    { ...detail, status, retryAfterSeconds: saysWhen ? retryAfterSeconds : null },
    cause === refused ? {} : { cause },
  )
}
