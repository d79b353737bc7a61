/**
 * Every error of the client library. Code branches on `kind` or on `code`, and it is the same whether the broker runs in this process or
 * behind HTTP. Source: specification "Client library entry points".
 */
import type { BrokerError } from '../broker/refusals.ts'

export type SdkErrorKind =
  | 'InvalidConfig' // fix the configuration
  | 'HttpBroker' // the broker refused: see HttpBrokerError
  | 'Transport' // the broker cannot be asked: it is closed, or not there

export class SdkError extends Error {
  readonly kind: SdkErrorKind
  /** Of the broker's refusal, or else what is wrong with the way to it. */
  readonly code: string
  /** The same call can succeed later without a change. */
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
  /** That HTTP has for it. */
  readonly status: number
  readonly code: string
  readonly message: string
  /** What to do about it. */
  readonly action: string
  readonly retryable: boolean
  /** Whole seconds; null: the broker does not say when. */
  readonly retryAfterSeconds: number | null
}

/** The broker refused. It keeps its name in this process too, where no HTTP is involved: callers need not know. */
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

/** As its answer over HTTP would be read. @param cause what the operation threw */
export function brokerRefused(refused: BrokerError, cause: unknown): HttpBrokerError {
  const { status, detail, retryAfterSeconds } = refused
  const saysWhen = detail.retryable && (status === 429 || status === 503)
  return new HttpBrokerError(
    { ...detail, status, retryAfterSeconds: saysWhen ? retryAfterSeconds : null },
    cause === refused ? {} : { cause },
  )
}
