/**
 * One connection that sends batch after batch, each one again and again until it is acknowledged: across refusals, across the
 * death of the server, with the same bytes.
 */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { ConnectionError, HttpConnection } from '../../../bench/load/http-connection.ts'
import type { TimedResponse } from '../../../bench/load/http-connection.ts'
import { DEVELOPMENT_CREDENTIALS, requestHead } from '../../../test/support/logstore.ts'
import { LIMIT_MS } from '../../../test/support/waiting.ts'
import type { Batches, Route, SentBatch } from './batches.ts'

/** Between two tries while the server is away or unwell. */
const RETRY_MS = 50

export interface SenderOptions {
  readonly batches: Batches
  readonly route: Route
  /** host:port of the server that runs now. */
  readonly authority: () => string
  readonly token?: string
  /** Between an acknowledgement and the next batch. */
  readonly pauseMs?: number
  /** Waits as long as the server asks after a refusal. */
  readonly obeyRetryAfter?: boolean
}

export class Sender {
  /** Answers other than 200, by status and Retry-After: `429 retry-after 1`. */
  readonly refusals = new Map<string, number>()
  /** Requests without an answer. */
  unanswered = 0
  readonly #options: SenderOptions
  #connection: HttpConnection | null = null
  #stopping = false
  #abandoned = false

  constructor(options: SenderOptions) {
    this.#options = options
  }

  /** Resolves when it was told to stop and its last batch was acknowledged. */
  async run(): Promise<void> {
    const { batches, route, pauseMs = 0 } = this.#options
    while (!this.#stopping) {
      const { batch, body } = batches.make(route)
      await this.#untilAcknowledged(batch, body)
      if (pauseMs > 0) await sleep(pauseMs)
    }
    this.#connection?.destroy()
  }

  stop(): void {
    this.#stopping = true
  }

  /** Ends without an acknowledgement of the last batch. */
  abandon(): void {
    this.#stopping = true
    this.#abandoned = true
    this.#connection?.destroy()
  }

  async #untilAcknowledged(batch: SentBatch, body: Buffer): Promise<void> {
    while (!this.#abandoned) {
      const response = await this.#try(batch.route, body)
      if (response?.status === 200) return this.#options.batches.acknowledge(batch, recordIdsOf(response))
      await sleep(response ? this.#refused(response) : RETRY_MS)
    }
  }

  /** Null when there was no answer: the batch may be stored or not. */
  async #try({ path, contentType }: Route, body: Buffer): Promise<TimedResponse | null> {
    try {
      const connection = await this.#open()
      const { token = DEVELOPMENT_CREDENTIALS.token } = this.#options
      const headers = { 'content-type': contentType, authorization: `Bearer ${token}` }
      return await connection.send(Buffer.from(requestHead(path, body.byteLength, headers)), body)
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error
      assert.notEqual(error.kind, 'bad_response', error.message)
      this.unanswered++
      return null
    }
  }

  async #open(): Promise<HttpConnection> {
    if (this.#connection?.isOpen) return this.#connection
    const [host = '', port] = this.#options.authority().split(':')
    const target = { host, port: Number(port) }
    const nowMs = (): number => performance.now()
    const connection = new HttpConnection({ target, timeoutMs: LIMIT_MS, nowMs })
    await connection.open()
    return (this.#connection = connection)
  }

  /** Everything but a typed, retryable refusal is a failure. Returns how long to wait, in ms. */
  #refused({ status, retryAfterSeconds, contentType, body }: TimedResponse): number {
    const what = `${status} ${contentType} ${body.toString()}`
    assert(status === 429 || status === 503, `neither stored nor refused with 429 or 503: ${what}`)
    assert(retryAfterSeconds !== null && retryAfterSeconds >= 1, `without Retry-After: ${what}`)
    assert(/(quota|concurrency)_exceeded|wal_unavailable/.test(body.toString('latin1')), `without a kind: ${what}`)
    const name = `${status} retry-after ${retryAfterSeconds}`
    this.refusals.set(name, (this.refusals.get(name) ?? 0) + 1)
    return this.#options.obeyRetryAfter ? retryAfterSeconds * 1000 : RETRY_MS
  }
}

function recordIdsOf({ contentType, body }: TimedResponse): readonly string[] {
  if (contentType !== 'application/json') return []
  return (JSON.parse(body.toString()) as { record_ids: string[] }).record_ids // the contract's answer of the JSON routes
}
