/**
 * A node that a command asks over HTTP. Source: specification "Command-line tool mq", row "Remote".
 *
 * T1  no redirect is followed: the key goes to the address that was named, and nowhere else. With TLS the node must show a certificate of the
 *     authorities that were named; without, only plain http is spoken
 * T2  the key is in no message: texts that repeat it are scrubbed
 */
import { Type } from '../schema.ts'
import { isOf } from '../schema-check.ts'
import { nodeTransport } from '../client/http/node-transport.ts'
import type { TlsSettings } from '../client/http/node-transport.ts'
import type { HttpTransport } from '../client/http/transport.ts'
import * as wire from '../client/http/wire.ts'
import { CliFailure, EXIT_REFUSED, refusal, usageFailure } from './failure.ts'
import type { FailureDetail } from './failure.ts'

const TIMEOUT_MS = 30_000
export const REDACTED = '[redacted]'

/** What a node answered, with any status. */
export interface TargetAnswer {
  readonly path: string
  readonly status: number
  readonly text: string
}

export interface AskOptions {
  /** How long the node may wait before it answers. */
  readonly waitMs?: number
  readonly stop?: AbortSignal
}

export class Target {
  /** `http://host:port`, or with https. */
  readonly url: string
  readonly #key: string | null
  readonly #isTls: boolean
  readonly #transport: HttpTransport

  /**
   * @param tls null: only plain http is accepted
   * @throws CliFailure, which has neither the key nor a secret of the URL
   */
  constructor(url: string, key: string | null, tls: TlsSettings | null) {
    this.url = originOf(url, tls !== null)
    this.#isTls = this.url.startsWith('https:')
    this.#transport = nodeTransport(tls ?? {})
    if (key !== null && !/^[\x21-\x7e]+$/.test(key)) {
      throw usageFailure('--api-key must be visible ASCII characters without spaces')
    }
    this.#key = key
  }

  get hasKey(): boolean {
    return this.#key !== null
  }

  /** @throws CliFailure when the node refuses, cannot be reached, or is no broker */
  async get(path: string, options: AskOptions = {}): Promise<unknown> {
    return this.#succeeded(await this.ask('GET', path, null, options))
  }

  async post(path: string, body: object): Promise<unknown> {
    return this.#succeeded(await this.ask('POST', path, body))
  }

  /** @throws CliFailure when the node cannot be reached */
  async ask(
    method: 'GET' | 'POST',
    path: string,
    body: object | null = null,
    { waitMs = 0, stop }: AskOptions = {},
  ): Promise<TargetAnswer> {
    const late = AbortSignal.timeout(TIMEOUT_MS + waitMs)
    try {
      const { status, text } = await this.#transport.send({
        origin: this.url,
        method,
        path,
        headers: {
          accept: 'application/json, text/plain',
          ...(body !== null && { 'content-type': 'application/json' }),
          ...(this.#key !== null && { authorization: `Bearer ${this.#key}` }),
        },
        body: body === null ? null : JSON.stringify(body),
        signal: stop ? AbortSignal.any([stop, late]) : late,
      })
      return { path, status, text }
    } catch (error) {
      stop?.throwIfAborted()
      throw this.#unreachable(late.aborted ? 'it did not answer in time' : causeOf(error))
    }
  }

  /** Null: the answer is a success. */
  failureOf({ path, status, text }: TargetAnswer): CliFailure | null {
    if (status >= 200 && status < 300) return null
    const detail = detailOf(text)
    if (detail === null) {
      const message = `${this.url} answered ${path} with the status ${status}, and is no broker`
      return refusal('not_a_broker', message, { action: 'Check the address of --target.' })
    }
    return new CliFailure(EXIT_REFUSED, { ...detail, message: this.scrub(detail.message) })
  }

  /** T2 */
  scrub(text: string): string {
    return this.#key === null ? text : text.replaceAll(this.#key, REDACTED)
  }

  #succeeded(answer: TargetAnswer): unknown {
    const failure = this.failureOf(answer)
    if (failure) throw failure
    try {
      return JSON.parse(answer.text)
    } catch {
      throw refusal('not_a_broker', `${this.url} answered ${answer.path} with a body that is not JSON`, {
        action: 'Check the address of --target.',
      })
    }
  }

  #unreachable(why: string): CliFailure {
    return refusal('unreachable', this.scrub(`${this.url} cannot be reached: ${why}`), {
      action: this.#isTls
        ? 'Check that the node runs, that --target has its address, and that --tls-ca has the authority of its certificate.'
        : 'Check that the node runs, and that --target has its address.',
      retryable: true,
    })
  }
}

export const streamPath = (stream: string): string => wire.streamPath(nameInUrl(stream))

export const groupPath = (stream: string, group: string): string =>
  wire.groupPath({ stream: nameInUrl(stream), group: nameInUrl(group) })

/** @throws CliFailure for names that a URL takes for steps in a path, even if they are escaped */
function nameInUrl(name: string): string {
  if (name === '.' || name === '..') throw usageFailure(`the name ${name} cannot stand in a URL`)
  return name
}

/** @throws CliFailure */
export function originOf(text: string, isTls: boolean): string {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url?.protocol === 'https:' && !isTls) {
    throw usageFailure('--target must be a plain http address: https is not supported without --tls-ca')
  }
  if (url?.protocol === 'http:' && isTls) throw usageFailure('--tls-ca goes with a --target that begins with https:')
  const isPlain = url?.username === '' && url.password === '' && url.search === '' && url.hash === ''
  if (url === null || !/^https?:$/.test(url.protocol) || !isPlain || url.pathname !== '/') {
    throw usageFailure('--target must be http://host:port, and nothing more')
  }
  return url.origin
}

export const causeOf = (error: unknown): string => {
  const cause = error instanceof Error ? (error.cause ?? error) : error
  if (!(cause instanceof Error)) return String(cause)
  return cause.message || ('code' in cause ? String(cause.code) : cause.name)
}

const Refusal = Type.Object({
  error: Type.Object({
    code: Type.String(),
    message: Type.String(),
    action: Type.Optional(Type.String()),
    retryable: Type.Optional(Type.Boolean()),
  }),
})

/** Null: it is not the envelope of the broker's refusals. */
function detailOf(text: string): FailureDetail | null {
  try {
    const body: unknown = JSON.parse(text)
    return isOf(Refusal, body) ? { action: 'Fix what the message names.', retryable: false, ...body.error } : null
  } catch {
    return null
  }
}
