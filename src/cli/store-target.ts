/**
 * A log store that a command asks over HTTP.
 *
 * T1  no redirect is followed: the token goes to the address that was named, and nowhere else. With TLS the store must show a certificate of the
 *     authorities that were named; without, only plain http is spoken
 * T2  the token is in no message: texts that repeat it are scrubbed
 * T3  an answer that is read in lines ends with its last line or with a failure: what is cut off is never taken for the whole
 */
import { request as httpRequest } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { Type } from '../schema.ts'
import { isOf } from '../schema-check.ts'
import { tlsOptionsOf } from '../client/http/node-transport.ts'
import type { TlsSettings } from '../client/http/node-transport.ts'
import { CliFailure, EXIT_REFUSED, refusal, usageFailure } from './failure.ts'
import { REDACTED, causeOf, originOf } from './http-target.ts'

export interface StoreCaller {
  readonly tenant: string
  readonly token: string
}

/** The public credentials of a log store that has no tenant policy. */
export const DEVELOPMENT: StoreCaller = { tenant: 'local', token: 'local-dev-token' }

/** A query takes up to its deadline, and a tail says something every 10 s. */
const SILENCE_MS = 40_000
/** Several pages of the largest records. */
const ANSWER_CHARACTERS_MAX = 256 << 20

/** A server-sent event of a tail. */
export interface StoreEvent {
  /** '': a record. */
  readonly event: string
  /** '': none. */
  readonly id: string
  /** '': none, as in an event that only tells how far the tail is. */
  readonly data: string
}

interface Asked {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly body?: object
  readonly headers?: Readonly<Record<string, string>>
  readonly stop?: AbortSignal
}

export class StoreTarget {
  readonly #origin: string
  readonly #caller: StoreCaller
  readonly #tls: TlsSettings | null

  /** @throws CliFailure, which has neither the token nor a secret of the URL */
  constructor(url: string, caller: StoreCaller, tls: TlsSettings | null) {
    this.#origin = originOf(url, tls !== null)
    for (const [name, value] of Object.entries(caller)) {
      if (!/^[\x21-\x7e]+$/.test(value)) throw usageFailure(`--${name} must be visible ASCII characters without spaces`)
    }
    this.#caller = caller
    this.#tls = tls
  }

  /** @throws CliFailure when the store refuses, cannot be reached, or is no log store */
  get(path: string): Promise<unknown> {
    return this.#json({ method: 'GET', path })
  }

  post(path: string, body: object): Promise<unknown> {
    return this.#json({ method: 'POST', path, body })
  }

  /** The lines of an answer, as they come (T3). */
  async *lines(asked: Asked): AsyncGenerator<string, void> {
    const response = await this.#open(asked)
    response.setEncoding('utf8')
    const parts: string[] = []
    try {
      for await (const chunk of response as AsyncIterable<string>) {
        let start = 0
        for (let end = chunk.indexOf('\n'); end >= 0; end = chunk.indexOf('\n', start)) {
          yield [...parts.splice(0), chunk.slice(start, end)].join('')
          start = end + 1
        }
        if (start < chunk.length) parts.push(chunk.slice(start))
      }
    } catch (error) {
      throw this.#lost(error)
    } finally {
      response.destroy()
    }
    if (parts.length > 0) yield parts.join('')
  }

  /** @param lastId the tail continues after this event; '': it begins now */
  async *events(path: string, lastId: string, stop: AbortSignal): AsyncGenerator<StoreEvent, void> {
    const headers = lastId === '' ? {} : { 'last-event-id': lastId }
    let fields = new Map<string, string>()
    for await (const line of this.lines({ method: 'GET', path, headers, stop })) {
      if (line !== '') {
        const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line)!
        fields.set(name!, value!)
        continue
      }
      const field = (name: string): string => fields.get(name) ?? ''
      yield { event: field('event'), id: field('id'), data: field('data') }
      fields = new Map()
    }
  }

  /** The refusal that an answer or an event holds; null: it holds none. */
  refusalIn(text: string): CliFailure | null {
    try {
      const body: unknown = JSON.parse(text)
      if (!isOf(Rejection, body)) return null
      const { retryable, error } = body
      const detail = { code: error.kind, message: this.#scrub(error.message), action: ACTION, retryable }
      return new CliFailure(EXIT_REFUSED, detail)
    } catch {
      return null
    }
  }

  async #json(asked: Asked): Promise<unknown> {
    const text = await this.#text(await this.#open(asked))
    try {
      return JSON.parse(text)
    } catch {
      throw this.#noStore(`answered ${asked.path} with a body that is not JSON`)
    }
  }

  /** A successful answer, whose body is still to be read. */
  async #open(asked: Asked): Promise<IncomingMessage> {
    const response = await this.#send(asked)
    const { statusCode = 0 } = response
    if (statusCode === 200) return response
    const text = await this.#text(response)
    throw (
      this.refusalIn(text) ?? this.#noStore(`answered ${asked.path} with the status ${statusCode}, and is no log store`)
    )
  }

  #send({ method, path, body, headers = {}, stop }: Asked): Promise<IncomingMessage> {
    const { hostname, port, protocol } = new URL(this.#origin)
    const { tenant, token } = this.#caller
    const text = body === undefined ? '' : JSON.stringify(body)
    return new Promise((resolve, reject) => {
      const sent = (protocol === 'https:' ? httpsRequest : httpRequest)({
        agent: false,
        hostname: hostname.replace(/^\[|\]$/g, ''),
        port,
        method,
        path,
        headers: {
          'x-logstore-tenant': tenant,
          authorization: `Bearer ${token}`,
          ...headers,
          ...(body !== undefined && {
            'content-type': 'application/json',
            'content-length': Buffer.byteLength(text),
          }),
        },
        timeout: SILENCE_MS,
        ...(stop && { signal: stop }),
        ...(this.#tls !== null && tlsOptionsOf(this.#tls)),
      })
      sent.on('timeout', () => sent.destroy(new Error('it did not answer in time')))
      sent.on('error', (error) => reject(this.#lost(error)))
      sent.on('response', resolve)
      sent.end(text)
    })
  }

  async #text(response: IncomingMessage): Promise<string> {
    response.setEncoding('utf8')
    const parts: string[] = []
    let length = 0
    try {
      for await (const chunk of response as AsyncIterable<string>) {
        parts.push(chunk)
        length += chunk.length
        if (length > ANSWER_CHARACTERS_MAX) throw new Error('the answer is too long')
      }
    } catch (error) {
      throw this.#lost(error)
    }
    return parts.join('')
  }

  #lost(error: unknown): CliFailure {
    return refusal('unreachable', this.#scrub(`${this.#origin} cannot be reached: ${causeOf(error)}`), {
      action: this.#origin.startsWith('https:')
        ? 'Check that the log store runs, that --target has its address, and that --tls-ca has the authority of its certificate.'
        : 'Check that the log store runs, and that --target has its address.',
      retryable: true,
    })
  }

  #noStore(why: string): CliFailure {
    return refusal('not_a_log_store', this.#scrub(`${this.#origin} ${why}`), {
      action: 'Check the address of --target.',
    })
  }

  /** T2 */
  #scrub(text: string): string {
    return text.replaceAll(this.#caller.token, REDACTED)
  }
}

const ACTION = 'Fix what the message names.'

const Rejection = Type.Object({
  status: Type.Literal('rejected'),
  retryable: Type.Boolean(),
  error: Type.Object({ kind: Type.String(), message: Type.String() }),
})
