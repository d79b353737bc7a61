/**
 * Publishes the messages of one writer to the stream in order: several are in flight, each with the sequence that it must get.
 *
 *   flowing ──► looking    the oldest message was refused, or its acknowledgement does not come
 *      ▲           │
 *      └───────────┘       the stream says what stands at that sequence
 *
 * A message is published with the sequence before its own as expected last sequence, so that each copy of it gets that sequence or none. Publishing
 * it again is therefore always safe.
 *
 * P2  a message is confirmed when it is acknowledged or found at its sequence, and all before it are confirmed. An acknowledgement alone is not enough:
 *     the messages before may be those of another leader
 * P3  a message that is not found may still arrive, as the server that answered may be behind: it is published again, and never counted as lost
 * P4  a foreign message at that sequence goes to `settled`, and the history says whether it counts (history H2, H3). If it does not, all
 *     unconfirmed messages move one sequence up. If it does, this writer is fenced: its publisher is closed
 * P5  an acknowledgement counts for the attempt it answers, and only as long as its message has that sequence
 */
import { isSameMessage } from './message.ts'
import type { ClusterMessage } from './message.ts'

export type PublisherAction<Body> =
  | {
      readonly kind: 'publish'
      /** Identifies the attempt in its answer. */
      readonly attempt: number
      readonly expectedLast: number
      readonly message: ClusterMessage<Body>
    }
  | { readonly kind: 'look up'; readonly look: number; readonly sequence: number }

/** The message that got the next sequence. */
export type Settled<Body> =
  | {
      readonly kind: 'confirmed'
      readonly sequence: number
      readonly message: ClusterMessage<Body>
      /** The message came into the stream after this time. */
      readonly sentMs: number
    }
  | { readonly kind: 'foreign'; readonly sequence: number; readonly message: ClusterMessage<Body> }

export interface PublisherTimes {
  /** Until a message that is not acknowledged is looked up. */
  readonly ackMs: number
  /** Until a look-up that is not answered is repeated. */
  readonly lookMs: number
  /** Between a look-up that found nothing and the next one. */
  readonly pauseMs: number
}

/** Receives what metrics show. */
export interface PublishMeasures {
  /** A message that was published so long ago is confirmed. */
  confirmed(tookMs: number, nowMs: number): void
  /** An acknowledgement does not come. */
  lost(): void
  /** The server stored nothing. */
  refused(): void
  lookedUp(): void
}

export interface PublisherParts<Body> {
  /** The last sequence of the stream that the writer knows. */
  readonly lastSequence: number
  readonly times: PublisherTimes
  /** Gives ids for attempts and look-ups: 1 or more, never the same again. */
  readonly newId: () => number
  readonly act: (action: PublisherAction<Body>) => void
  /** Null: nothing is measured. */
  readonly measures: PublishMeasures | null
  /** May close the publisher. */
  readonly settled: (settled: Settled<Body>) => void
}

interface Outgoing<Body> {
  readonly message: ClusterMessage<Body>
  readonly bytes: number
  sequence: number
  attempt: number
  firstSentMs: number
  sentMs: number
  isAcknowledged: boolean
}

export class Publisher<Body> {
  readonly #times: PublisherTimes
  readonly #act: (action: PublisherAction<Body>) => void
  readonly #settled: (settled: Settled<Body>) => void
  readonly #measures: PublishMeasures | null
  #waiting: Outgoing<Body>[] = []
  readonly #newId: () => number
  #nextSequence: number
  #bytes = 0
  #isClosed = false
  /** Null: flowing. `look` names the look-up under way, 0: it is yet to come. */
  #looking: { readonly look: number; readonly dueMs: number } | null = null
  #lookFromMs = -Infinity

  constructor({ lastSequence, times, newId, act, measures, settled }: PublisherParts<Body>) {
    this.#nextSequence = lastSequence + 1
    this.#times = times
    this.#newId = newId
    this.#act = act
    this.#measures = measures
    this.#settled = settled
  }

  /** Messages that are not confirmed. */
  get inFlight(): number {
    return this.#waiting.length
  }

  get inFlightBytes(): number {
    return this.#bytes
  }

  /** When `tick` has something to do at the latest. */
  get dueMs(): number {
    if (this.#isClosed) return Infinity
    if (this.#looking !== null) return this.#looking.dueMs
    return (this.#waiting[0]?.sentMs ?? Infinity) + this.#times.ackMs
  }

  /** Sends nothing any more, and ignores what comes back. */
  close(): void {
    this.#isClosed = true
    this.#waiting = []
    this.#bytes = 0
    this.#looking = null
  }

  publish(message: ClusterMessage<Body>, bytes: number, nowMs: number): void {
    const outgoing = {
      message,
      bytes,
      sequence: this.#nextSequence,
      attempt: 0,
      firstSentMs: nowMs,
      sentMs: nowMs,
      isAcknowledged: false,
    }
    this.#nextSequence += 1
    this.#bytes += bytes
    this.#waiting.push(outgoing)
    if (this.#looking === null) this.#send(outgoing, nowMs) // else it goes when its sequence is certain
  }

  /** P5 */
  acknowledged(attempt: number, sequence: number, nowMs: number): void {
    const outgoing = this.#ofAttempt(attempt)
    if (outgoing === undefined || sequence !== outgoing.sequence) return
    outgoing.isAcknowledged = true
    if (outgoing === this.#waiting[0]) this.#confirmAcknowledged(nowMs)
  }

  /** The server compared sequences, and stored nothing. */
  refused(attempt: number, nowMs: number): void {
    if (this.#ofAttempt(attempt) === undefined || this.#looking !== null) return
    this.#measures?.refused()
    this.#look(nowMs)
  }

  /** @param found null: nothing stands there, as far as the server that answered knows (P3) */
  lookedUp(look: number, found: ClusterMessage<Body> | null, nowMs: number): void {
    const head = this.#waiting[0]
    if (this.#looking?.look !== look || head === undefined) return
    if (found === null) {
      this.#lookFromMs = nowMs + this.#times.pauseMs
      return this.#sendAll(nowMs)
    }
    if (isSameMessage(found, head.message)) {
      head.sentMs = head.firstSentMs // any of its copies may be the one
      head.isAcknowledged = true
      return this.#confirmAcknowledged(nowMs)
    }
    this.#settled({ kind: 'foreign', sequence: head.sequence, message: found })
    if (this.#isClosed) return
    this.#moveUp()
    this.#look(nowMs)
  }

  tick(nowMs: number): void {
    if (nowMs < this.dueMs) return
    if (this.#looking === null) this.#measures?.lost()
    this.#look(nowMs)
  }

  /** P2 */
  #confirmAcknowledged(nowMs: number): void {
    let head = this.#waiting[0]
    while (head?.isAcknowledged === true) {
      this.#waiting.shift()
      this.#bytes -= head.bytes
      this.#measures?.confirmed(nowMs - head.firstSentMs, nowMs)
      this.#settled({ kind: 'confirmed', sequence: head.sequence, message: head.message, sentMs: head.sentMs })
      head = this.#waiting[0]
    }
    if (this.#looking === null) return
    this.#looking = null
    if (head !== undefined) this.#look(nowMs) // what troubled the one before may trouble this one
  }

  #look(nowMs: number): void {
    const head = this.#waiting[0]
    if (head === undefined) return
    if (nowMs < this.#lookFromMs) {
      this.#looking = { look: 0, dueMs: this.#lookFromMs }
      return
    }
    const look = this.#newId()
    this.#looking = { look, dueMs: nowMs + this.#times.lookMs }
    this.#measures?.lookedUp()
    this.#act({ kind: 'look up', look, sequence: head.sequence })
  }

  /** P3 */
  #sendAll(nowMs: number): void {
    this.#looking = null
    for (const outgoing of this.#waiting) if (!outgoing.isAcknowledged) this.#send(outgoing, nowMs)
  }

  /** P4 */
  #moveUp(): void {
    for (const outgoing of this.#waiting) {
      outgoing.sequence += 1
      outgoing.attempt = 0
      outgoing.isAcknowledged = false
    }
    this.#nextSequence += 1
  }

  #send(outgoing: Outgoing<Body>, nowMs: number): void {
    outgoing.attempt = this.#newId()
    outgoing.sentMs = nowMs
    this.#act({
      kind: 'publish',
      attempt: outgoing.attempt,
      expectedLast: outgoing.sequence - 1,
      message: outgoing.message,
    })
  }

  #ofAttempt(attempt: number): Outgoing<Body> | undefined {
    return this.#waiting.find((outgoing) => outgoing.attempt === attempt)
  }
}
