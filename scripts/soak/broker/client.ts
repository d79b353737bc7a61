/**
 * One connection to the broker, whichever process that is at the moment.
 *
 * C1  a request is sent once. Without an answer its outcome is unknown, and the caller gets null
 * C2  an answer is a success, or one of the refusals that the caller expects; anything else fails the run
 * C3  where disks and threads are made to fail, a change may fail too: then its outcome is unknown, or it is known not to have
 *     happened
 */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Static, TSchema } from 'typebox'
import { ConnectionError, HttpConnection } from '../../../bench/load/http-connection.ts'
import type { TimedResponse } from '../../../bench/load/http-connection.ts'
import type { RefusalCode } from '../../../src/broker/refusals.ts'
import { BrokerReply } from '../../../test/support/broker.ts'
import { LIMIT_MS } from '../../../test/support/waiting.ts'
import { Abandoned } from '../actor.ts'
import type { Gate } from '../gate.ts'
import type { Failures } from '../crew.ts'

const RECONNECT_MS = 20

export interface RequestOptions {
  readonly body?: object
  /** Refusals that are no failure. */
  readonly expected?: readonly RefusalCode[]
  /** Called when it is about to be sent: from here on it may have happened. */
  readonly onSend?: () => void
  /** C3: it did not happen. The caller gets no answer besides. */
  readonly onUndone?: () => void
}

/** C3. Codes of answers to a change that failed. */
const FAILURES: ReadonlySet<RefusalCode> = new Set(['internal_error', 'queue_state_persistence_failed'])

/** Counts of all clients together. */
export class Traffic {
  operations = 0
  unanswered = 0
  failures = 0
  readonly refusals: Partial<Record<RefusalCode, number>> = {}
}

export interface ClientOptions {
  /** host:port of the process that runs now. */
  readonly authority: () => string
  /** Nothing is sent while it is closed. */
  readonly gate: Gate
  readonly traffic: Traffic
  readonly failures: () => Failures
}

export type Answer<Body> =
  | { readonly kind: 'ok'; readonly body: Body }
  | { readonly kind: 'refused'; readonly code: RefusalCode }

export class Client {
  readonly #options: ClientOptions
  #connection: HttpConnection | null = null
  #abandoned = false
  /** A request is under way. */
  isBusy = false

  constructor(options: ClientOptions) {
    this.#options = options
  }

  /**
   * C1, C2, C3
   *
   * @throws Abandoned
   */
  async request<Schema extends TSchema>(
    schema: Schema,
    method: string,
    path: string,
    { body, expected = [], onSend, onUndone }: RequestOptions = {},
  ): Promise<Answer<Static<Schema>> | null> {
    const bytes = body === undefined ? null : Buffer.from(JSON.stringify(body))
    const length = bytes === null ? '' : `content-length: ${bytes.byteLength}\r\n`
    const head = Buffer.from(`${method} ${path} HTTP/1.1\r\nhost: localhost\r\n${length}\r\n`)
    const response = await this.#send(head, bytes, onSend)
    if (response === null) return null
    const headers = new Headers({ 'content-type': response.contentType })
    const reply = new BrokerReply(response.status, headers, response.body)
    if (reply.status < 300) return { kind: 'ok', body: reply.succeeded(schema, reply.status) }
    const refusal = reply.refusal()
    const failures = this.#options.failures()
    if (failures !== 'forbidden' && FAILURES.has(refusal.code)) {
      assert(refusal.retryable, reply.text)
      this.#options.traffic.failures++
      if (failures === 'undone') onUndone?.()
      return null
    }
    assert(
      expected.includes(refusal.code),
      `${reply.status} ${reply.text} to ${method} ${path} ${JSON.stringify(body)}`,
    )
    const { refusals } = this.#options.traffic
    refusals[refusal.code] = (refusals[refusal.code] ?? 0) + 1
    return { kind: 'refused', code: refusal.code }
  }

  /** For questions: asks until it is answered. */
  async get<Schema extends TSchema>(schema: Schema, path: string): Promise<Static<Schema>> {
    for (;;) {
      const answer = await this.request(schema, 'GET', path)
      if (answer?.kind === 'ok') return answer.body
    }
  }

  abandon(): void {
    this.#abandoned = true
    this.#connection?.destroy()
  }

  async #send(head: Buffer, bytes: Buffer | null, onSend?: () => void): Promise<TimedResponse | null> {
    const connection = await this.#open()
    try {
      this.#options.traffic.operations++
      this.isBusy = true
      onSend?.()
      return await connection.send(head, bytes)
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error
      assert(error.kind !== 'bad_response' && error.kind !== 'timeout', error.message)
      this.#options.traffic.unanswered++
      return null
    } finally {
      this.isBusy = false
    }
  }

  async #open(): Promise<HttpConnection> {
    for (;;) {
      await this.#options.gate.pass()
      if (this.#abandoned) throw new Abandoned()
      if (this.#connection?.isOpen) return this.#connection
      const [host = '', port] = this.#options.authority().split(':')
      const target = { host, port: Number(port) }
      const connection = new HttpConnection({ target, timeoutMs: LIMIT_MS, nowMs: () => performance.now() })
      try {
        await connection.open()
        this.#connection = connection
        continue // the gate may have closed meanwhile
      } catch (error) {
        if (!(error instanceof ConnectionError)) throw error
        await sleep(RECONNECT_MS)
      }
    }
  }
}
