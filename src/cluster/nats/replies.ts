/**
 * Requests that share one inbox for their answers. The client's own requests make a timer, two promises and an error with its stack for each, which is a
 * third of what a message costs its writer.
 *
 * Q1  a request is answered, or fails after ANSWER_MS and at most LOOK_MS more, whatever becomes of the connection
 */
import { createInbox } from '@nats-io/transport-node'
import type { Msg, MsgHdrs, NatsConnection } from '@nats-io/transport-node'

interface RepliesParts {
  readonly connection: Pick<NatsConnection, 'publish' | 'subscribe'>
  /** Monotonic. */
  readonly nowMs: () => number
  /** Calls once; the returned function prevents it. */
  readonly after: (delayMs: number, run: () => void) => () => void
}

interface Waiting extends PromiseWithResolvers<Msg> {
  readonly untilMs: number
}

const ANSWER_MS = 5000
/** How often Q1 is checked. */
const LOOK_MS = 500
const NO_RESPONDERS = 503

export class Replies {
  readonly #parts: RepliesParts
  readonly #inbox = createInbox()
  /** By the last word of the answer's subject, the oldest first. */
  readonly #waiting = new Map<string, Waiting>()
  #count = 0
  #isLooking = false
  #cancelLook = (): void => {}

  constructor(parts: RepliesParts) {
    this.#parts = parts
    parts.connection.subscribe(`${this.#inbox}.*`, {
      callback: (error, message) => {
        if (error === null) this.#answered(message)
      },
    })
  }

  /** @throws Error when there is no answer */
  ask(subject: string, body: Uint8Array, headers: MsgHdrs): Promise<Msg> {
    const { connection, nowMs } = this.#parts
    this.#count += 1
    const word = String(this.#count)
    connection.publish(subject, body, { reply: `${this.#inbox}.${word}`, headers })
    const waiting = { ...Promise.withResolvers<Msg>(), untilMs: nowMs() + ANSWER_MS }
    this.#waiting.set(word, waiting)
    if (!this.#isLooking) this.#lookSoon()
    return waiting.promise
  }

  /** Whether an answer is waited for. */
  get isBusy(): boolean {
    return this.#waiting.size > 0
  }

  close(): void {
    this.#cancelLook()
    this.#failUntil(Infinity)
  }

  #answered(message: Msg): void {
    const word = message.subject.slice(this.#inbox.length + 1)
    const waiting = this.#waiting.get(word)
    if (waiting === undefined) return
    this.#waiting.delete(word)
    if (message.headers?.code === NO_RESPONDERS) waiting.reject(new Error('no server answers for the stream'))
    else waiting.resolve(message)
  }

  /** Q1 */
  #lookSoon(): void {
    this.#isLooking = true
    this.#cancelLook = this.#parts.after(LOOK_MS, () => {
      this.#failUntil(this.#parts.nowMs())
      if (this.#waiting.size > 0) this.#lookSoon()
      else this.#isLooking = false
    })
  }

  #failUntil(nowMs: number): void {
    for (const [word, { untilMs, reject }] of this.#waiting) {
      if (untilMs > nowMs) return
      this.#waiting.delete(word)
      reject(new Error('the server does not answer'))
    }
  }
}
