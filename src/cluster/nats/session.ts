/**
 * Connects the state machine of a node to a real stream: performs its actions, and tells it their results.
 *
 * S1  the state machine gets one event at a time; events of a consumer that was replaced are ignored
 * S2  a request that the stream did not answer is not reported: the state machine has time limits of its own
 * S3  a stream that ends before a message that this node has taken has lost messages. The server may just be behind, so it is asked again for some time
 */
import type { Anchor } from '../history.ts'
import { ClusterNode } from '../node.ts'
import type { ClusterAction, ClusterTimes, Offered } from '../node.ts'
import type { PublishMeasures } from '../publisher.ts'
import type { NatsStream } from './nats-stream.ts'
import type { Delivered } from './stream-reader.ts'

interface SessionClock {
  /** Monotonic. */
  nowMs(): number
  /** Calls once; the returned function prevents it. */
  after(delayMs: number, run: () => void): () => void
}

/** The actions that concern the log. */
export type LogAction = Exclude<ClusterAction<Uint8Array>, { readonly kind: 'publish' | 'look up' | 'follow' }>

export interface SessionParts {
  readonly stream: Pick<NatsStream, 'publish' | 'lookUp' | 'follow' | 'ends'>
  readonly writer: string
  readonly times: ClusterTimes
  readonly anchor: Anchor
  readonly clock: SessionClock
  readonly random: () => number
  /** Called after each event, which may have changed what is confirmed, or who leads. */
  readonly onChange: () => void
  readonly act: (action: LogAction) => void
  /** Absent: nothing is measured. */
  readonly measures?: PublishMeasures
}

/** Until a consumer that could not be made, or is gone, is made again. */
const FOLLOW_AGAIN_MS = 300
/** S3 */
const SHORT_MS_MAX = 20_000

export class Session {
  readonly #parts: SessionParts
  readonly #node: ClusterNode<Uint8Array>
  #consumer = 0
  #stopFollowing = (): void => {}
  #cancelTimer = (): void => {}
  #cancelFollow = (): void => {}
  #isClosed = false
  #isPaused = false
  /** S3. When the stream was seen to be short first; null: it is not. */
  #shortSinceMs: number | null = null

  constructor(parts: SessionParts) {
    this.#parts = parts
    const { writer, times, anchor, clock, random, measures } = parts
    this.#node = new ClusterNode<Uint8Array>({
      writer,
      times,
      anchor,
      random,
      nowMs: clock.nowMs(),
      act: (action) => this.#act(action),
      ...(measures !== undefined && { measures }),
    })
    this.#follow(anchor.sequence + 1)
    this.#setTimer()
  }

  /** To be read only; changes go through the session. */
  get node(): Pick<
    ClusterNode<Uint8Array>,
    | 'role'
    | 'epoch'
    | 'leader'
    | 'confirmed'
    | 'anchor'
    | 'sequence'
    | 'takesFrames'
    | 'inFlight'
    | 'inFlightBytes'
    | 'leaseUntilMs'
  > {
    return this.#node
  }

  mayAnswer(): boolean {
    return this.#node.mayAnswer(this.#parts.clock.nowMs())
  }

  offer(offered: Offered<Uint8Array>): void {
    this.#do((nowMs) => this.#node.offer(offered, nowMs))
  }

  handOver(successor: string | null): void {
    this.#do((nowMs) => this.#node.handOver(successor, nowMs))
  }

  stepDown(reason: string): void {
    this.#do((nowMs) => this.#node.stepDown(reason, nowMs))
  }

  caughtUp(anchor: Anchor): void {
    this.#do((nowMs) => this.#node.caughtUp(anchor, nowMs))
  }

  /** Stops delivery, as main has enough frames for now. */
  pause(): void {
    this.#isPaused = true
    this.#endConsumer()
  }

  resume(): void {
    if (!this.#isPaused) return
    this.#isPaused = false
    if (this.#node.role === 'following' || this.#node.role === 'standing') this.#follow(this.#node.sequence + 1)
  }

  /** Nothing is published or followed any more. A leader has resigned before, or is replaced when its lease ends. */
  close(): void {
    this.#isClosed = true
    this.#cancelTimer()
    this.#endConsumer()
  }

  /** S1 */
  #do(run: (nowMs: number) => void): void {
    if (this.#isClosed) return
    run(this.#parts.clock.nowMs())
    this.#parts.onChange()
    this.#setTimer()
  }

  #setTimer(): void {
    const { clock } = this.#parts
    this.#cancelTimer()
    const { dueMs } = this.#node
    if (dueMs === Infinity || this.#isClosed) return
    this.#cancelTimer = clock.after(Math.max(1, Math.ceil(dueMs - clock.nowMs())), () =>
      this.#do((nowMs) => this.#node.tick(nowMs)),
    )
  }

  #act(action: ClusterAction<Uint8Array>): void {
    switch (action.kind) {
      case 'publish':
        return void this.#publish(action)
      case 'look up':
        return void this.#lookUp(action)
      case 'follow':
        return this.#follow(action.from)
      case 'lead':
        this.#endConsumer()
        return this.#parts.act(action)
      default:
        return this.#parts.act(action)
    }
  }

  async #publish({ attempt, expectedLast, message }: ClusterAction<Uint8Array> & { kind: 'publish' }): Promise<void> {
    const published = await this.#parts.stream.publish(expectedLast, message)
    if (published.kind === 'stored') {
      this.#do((nowMs) => this.#node.acknowledged(attempt, published.sequence, nowMs))
    } else if (published.kind === 'refused') {
      this.#do((nowMs) => this.#node.refused(attempt, nowMs))
    } // S2
  }

  async #lookUp({ look, sequence }: ClusterAction<Uint8Array> & { kind: 'look up' }): Promise<void> {
    const found = await this.#parts.stream.lookUp(sequence)
    if (found !== undefined) this.#do((nowMs) => this.#node.lookedUp(look, found, nowMs)) // S2
  }

  #follow(from: number): void {
    this.#endConsumer()
    if (this.#isPaused) return
    const consumer = this.#consumer
    void this.#openConsumer(consumer, from).catch(() => {
      if (consumer === this.#consumer && !this.#isClosed) this.#followSoon(from)
    })
  }

  #followSoon(from: number): void {
    this.#cancelFollow = this.#parts.clock.after(FOLLOW_AGAIN_MS, () => this.#follow(from))
  }

  /** S1 */
  #deliver(consumer: number, messages: readonly Delivered[], nowMs: number): void {
    for (const { sequence, message } of messages) {
      if (consumer !== this.#consumer) return
      this.#node.delivered(sequence, message, nowMs)
    }
  }

  async #openConsumer(consumer: number, from: number): Promise<void> {
    const { stream } = this.#parts
    const { first, last } = await stream.ends()
    if (consumer !== this.#consumer) return
    if (last < from - 1) return this.#isShort(last, from)
    this.#shortSinceMs = null
    if (first > from) return this.#do((nowMs) => this.#node.trimmed(nowMs))
    const stop = await stream.follow(from, {
      delivered: (messages) => {
        if (consumer === this.#consumer) this.#do((nowMs) => this.#deliver(consumer, messages, nowMs))
      },
      ended: () => {
        if (consumer === this.#consumer) this.#followSoon(this.#node.sequence + 1)
      },
    })
    if (consumer === this.#consumer) this.#stopFollowing = stop
    else stop()
  }

  /** S3 */
  #isShort(last: number, from: number): void {
    const { clock } = this.#parts
    this.#shortSinceMs ??= clock.nowMs()
    const reason = `the stream ends with message ${last}, but this node has taken message ${from - 1}: the stream lost messages`
    if (clock.nowMs() - this.#shortSinceMs < SHORT_MS_MAX) throw new Error(reason) // asked again
    this.close()
    this.#parts.act({ kind: 'stop', reason })
  }

  #endConsumer(): void {
    this.#consumer += 1
    this.#cancelFollow()
    this.#stopFollowing()
    this.#stopFollowing = () => {}
  }
}
