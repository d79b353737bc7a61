/**
 * Requests to the object store, whichever process that is at the moment.
 *
 * C1  a request is sent once. Without an answer its outcome is unknown, and the caller gets null
 * C2  an answer is a success, or one of the refusals that the caller expects; anything else fails the run
 * C3  where disks and threads are made to fail, a request may fail too, retryably: then its outcome is unknown, or it is known not to
 *     have happened
 */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RefusalCode } from '../../../src/objectstore/refusals.ts'
import type { ObjectReply, ObjectStoreServer, RequestOptions } from '../../../test/support/objectstore.ts'
import { Abandoned } from '../actor.ts'
import type { Gate } from '../gate.ts'
import type { Failures } from '../crew.ts'

const AGAIN_MS = 20
/** Error codes of sockets whose other end is gone. */
const LOST: ReadonlySet<string> = new Set(['ECONNRESET', 'ECONNREFUSED', 'EPIPE'])

export interface AskOptions extends RequestOptions {
  /** Refusals that are no failure. */
  readonly expected?: readonly RefusalCode[]
  /** Called when it is about to be sent: from here on it may have happened. */
  readonly onSend?: () => void
  /** C3: it did not happen. The caller gets no answer besides. */
  readonly onUndone?: () => void
}

/** C3. Codes of answers that report a failure. */
const FAILURES: ReadonlySet<string | null> = new Set(['InternalError', 'ServiceUnavailable'])

/** Counts of all clients together. */
export class Traffic {
  operations = 0
  unanswered = 0
  failures = 0
  readonly refusals: Record<string, number> = {}
}

export interface ClientOptions {
  readonly server: ObjectStoreServer
  /** Nothing is sent while it is closed. */
  readonly gate: Gate
  readonly traffic: Traffic
  readonly failures: () => Failures
}

export class Client {
  readonly #options: ClientOptions
  #abandoned = false
  /** Requests that are under way. */
  busy = 0

  constructor(options: ClientOptions) {
    this.#options = options
  }

  /**
   * C1, C2, C3
   *
   * @throws Abandoned
   */
  async ask(method: string, target: string, options: AskOptions = {}): Promise<ObjectReply | null> {
    const { expected = [], onSend, onUndone } = options
    const { gate, traffic } = this.#options
    await gate.pass()
    if (this.#abandoned) throw new Abandoned()
    traffic.operations++
    onSend?.()
    const reply = await this.#send(method, target, options)
    if (reply === null || reply.status < 300) return reply
    const code = method === 'HEAD' && reply.status === 404 ? 'NoSuchKey' : reply.header('x-obj-error-code')
    if (this.failed(code)) {
      assert.equal(reply.header('x-obj-error-retryable'), 'true', reply.text)
      if (this.#options.failures() === 'undone') onUndone?.()
      return null
    }
    assert(
      expected.some((each) => each === code),
      `${method} ${target} ${JSON.stringify(options.headers)}: ${reply.status} ${code} ${reply.text}`,
    )
    traffic.refusals[code!] = (traffic.refusals[code!] ?? 0) + 1
    return reply
  }

  /** For questions: asks until it is answered. */
  async get(target: string, options: AskOptions = {}): Promise<ObjectReply> {
    for (;;) {
      const reply = await this.ask('GET', target, options)
      if (reply !== null) return reply
      await sleep(AGAIN_MS)
    }
  }

  /** C3. Whether a code that was answered tells of a failure that is allowed now. */
  failed(code: string | null): boolean {
    if (this.#options.failures() === 'forbidden' || !FAILURES.has(code)) return false
    this.#options.traffic.failures++
    return true
  }

  abandon(): void {
    this.#abandoned = true
  }

  async #send(method: string, target: string, options: RequestOptions): Promise<ObjectReply | null> {
    this.busy++
    try {
      return await this.#options.server.request(method, target, options)
    } catch (error) {
      const { code = '' } = error as NodeJS.ErrnoException // of node:http, which throws nothing else
      if (!LOST.has(code)) throw new Error(`${method} ${target}: ${String(error)}`, { cause: error })
      this.#options.traffic.unanswered++
      await sleep(AGAIN_MS)
      return null
    } finally {
      this.busy--
    }
  }
}
