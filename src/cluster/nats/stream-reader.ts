/**
 * Reads a stream for a node that follows it: waits for one message, then takes what has come since at once, again and again, with a pause between.
 *
 *   waiting ──a message came──► pausing ──PAUSE_MS──► taking ──no more is there──► pausing
 *      ▲                                                └──nothing was there──► waiting
 *
 * If a server sent each message at once, each would wake the server, the reader and main. A node that follows answers no client, so it may get a message
 * some milliseconds later, together with others.
 *
 * D1  one request is on its way at a time. It ends with the last message that it asked for, or with a status
 * D2  when the consumer or the server is gone, `ended` is called, once, and nothing is delivered any more. The reader does not notice a message that is
 *     lost on its way: the node that follows sees a gap between sequences (history H1)
 */
import type { JetStreamManager } from '@nats-io/jetstream'
import { createInbox } from '@nats-io/transport-node'
import type { Msg, NatsConnection, Subscription } from '@nats-io/transport-node'
import { readMessage } from '../headers.ts'
import type { StreamMessage } from '../headers.ts'

export interface Delivered {
  readonly sequence: number
  readonly message: StreamMessage
}

export interface Following {
  /** Takes the messages that arrived together, in the order of the stream. */
  delivered(messages: readonly Delivered[]): void
  /** D2 */
  ended(): void
}

export interface ReaderParts {
  readonly connection: Pick<NatsConnection, 'publish' | 'subscribe'>
  readonly consumers: Pick<JetStreamManager['consumers'], 'add' | 'delete'>
  readonly stream: string
  /** Calls once; the returned function prevents it. */
  readonly after: (delayMs: number, run: () => void) => () => void
}

/** Short compared with the lease, long compared with the time between two messages. */
const PAUSE_MS = 50
/** Until the server ends a request that waits. */
const WAIT_MS = 4000
const HEARTBEAT_MS = 1000
/** D2. Time without a heartbeat or anything else after which the server counts as gone. */
const SILENT_MS = 2.5 * HEARTBEAT_MS
/** A request takes so many messages at most. */
const MESSAGES_MAX = 50
/** Until the server removes the consumer of a reader that is gone. */
const INACTIVE_MS = 30_000
const NANOSECONDS_PER_MS = 1e6

const HEARTBEAT = 100
const NO_MESSAGES = 404
/** Server 2.10 also sends it when fewer messages are there than a request takes. */
const TIMED_OUT = 408

const WAITS = JSON.stringify({
  batch: 1,
  expires: WAIT_MS * NANOSECONDS_PER_MS,
  idle_heartbeat: HEARTBEAT_MS * NANOSECONDS_PER_MS,
})
const TAKES = JSON.stringify({ batch: MESSAGES_MAX, no_wait: true })

export class StreamReader {
  readonly #parts: ReaderParts
  readonly #consumer: string
  readonly #following: Following
  readonly #inbox = createInbox()
  readonly #subscription: Subscription
  #isOver = false
  /** D1 */
  #kind: 'waits' | 'takes' = 'waits'
  #count = 0
  #arrived: Delivered[] = []
  #cancelPause = (): void => {}
  #cancelSilence = (): void => {}

  /** Delivers from a sequence on; where the stream begins later, from there. @throws Error when no server answers */
  static async open(parts: ReaderParts, from: number, following: Following): Promise<StreamReader> {
    const { name } = await parts.consumers.add(parts.stream, {
      deliver_policy: 'by_start_sequence',
      opt_start_seq: from,
      ack_policy: 'none',
      inactive_threshold: INACTIVE_MS * NANOSECONDS_PER_MS,
      num_replicas: 1,
      mem_storage: true,
    })
    return new StreamReader(parts, name, following)
  }

  private constructor(parts: ReaderParts, consumer: string, following: Following) {
    this.#parts = parts
    this.#consumer = consumer
    this.#following = following
    this.#subscription = parts.connection.subscribe(this.#inbox, {
      callback: (error, message) => {
        if (error === null) this.#heard(message)
        else this.end()
      },
    })
    this.#ask('waits')
  }

  /** Nothing is delivered any more. */
  close(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#cancelPause()
    this.#cancelSilence()
    this.#subscription.unsubscribe()
    this.#parts.consumers.delete(this.#parts.stream, this.#consumer).catch(() => {}) // else the server removes it after INACTIVE_MS
  }

  /** D2 */
  end(): void {
    if (this.#isOver) return
    this.close()
    this.#following.ended()
  }

  #ask(kind: 'waits' | 'takes'): void {
    const { connection, stream } = this.#parts
    this.#kind = kind
    this.#count = 0
    this.#watch()
    connection.publish(`$JS.API.CONSUMER.MSG.NEXT.${stream}.${this.#consumer}`, kind === 'waits' ? WAITS : TAKES, {
      reply: this.#inbox,
    })
  }

  /** D2 */
  #watch(): void {
    this.#cancelSilence()
    this.#cancelSilence = this.#parts.after(SILENT_MS, () => this.end())
  }

  #heard({ reply, headers, data }: Msg): void {
    if (this.#isOver) return
    if (reply === undefined || reply === '') return this.#onStatus(headers?.code ?? 0)
    this.#arrived.push({ sequence: sequenceIn(reply), message: readMessage(headers, data) })
    if (this.#arrived.length === 1) queueMicrotask(() => this.#deliver()) // with all that came with it
    this.#count += 1
    if (this.#kind === 'waits') this.#pause()
    else if (this.#count === MESSAGES_MAX) this.#ask('takes')
  }

  #onStatus(code: number): void {
    if (code === HEARTBEAT) return this.#watch()
    if (code !== NO_MESSAGES && code !== TIMED_OUT) return this.end()
    if (this.#count > 0) this.#pause()
    else this.#ask('waits')
  }

  #pause(): void {
    this.#cancelSilence()
    this.#cancelPause = this.#parts.after(PAUSE_MS, () => this.#ask('takes'))
  }

  #deliver(): void {
    const arrived = this.#arrived
    this.#arrived = []
    if (!this.#isOver) this.#following.delivered(arrived)
  }
}

/**
 * `$JS.ACK.<stream>.<consumer>.<deliveries>.<sequence>.…`, of 9 words. Where it has more, the name of a domain and the hash of an account come before the
 * stream.
 */
function sequenceIn(reply: string): number {
  const words = reply.split('.')
  return Number(words[words.length === 9 ? 5 : 7])
}
