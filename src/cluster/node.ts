/**
 * One node of a cluster, for one log: follows the stream, or leads and writes to it. Pure: events come in with their time, actions go out through
 * `act`. Time is the node's own monotonic clock; no two clocks are ever compared.
 *
 *   following ──► standing ──► leading ──► following
 *                 its epoch     its epoch    the lease ran out, another one leads,
 *                 message is    message is   or it resigned
 *                 on its way    confirmed
 *
 * N1  a confirmed message renews the lease until `leaseMs` after it was sent. The node may answer only within the lease (`mayAnswer`)
 * N2  a node stands only when it has heard of no message that counts for `followMs`, which is longer than the lease. Its epoch message expects the last
 *     sequence, so it is stored only if the node knows the stream to its end. The lease of the previous leader is over by then: every message that
 *     renewed it was sent before this node heard of it
 * N3  a leader that resigns stops answering before it sends the message, so other nodes need not wait for its lease
 * N4  a leader that steps down goes back to what is confirmed. Messages in flight may still reach the stream, and come back from there
 * N5  the log of a node that begins to lead ends where the history ends: frames behind it were never confirmed
 */
import assert from 'node:assert/strict'
import { StreamHistory } from './history.ts'
import type { Anchor, Verdict } from './history.ts'
import { isSameMessage, nodeOf } from './message.ts'
import type { Authorship, ClusterMessage, LogPlace } from './message.ts'
import { Publisher } from './publisher.ts'
import type { PublishMeasures, PublisherAction, PublisherTimes, Settled } from './publisher.ts'

export interface ClusterTimes extends PublisherTimes {
  readonly leaseMs: number
  readonly followMs: number
  /** A follower waits up to so much longer, so that not all stand at once. */
  readonly spreadMs: number
  /** How often a leader that has nothing to write publishes a beat. */
  readonly beatMs: number
}

export type ClusterAction<Body> =
  | PublisherAction<Body>
  /** Deliver the messages from this sequence on. */
  | { readonly kind: 'follow'; readonly from: number }
  /** Frames of another leader: they are confirmed. */
  | { readonly kind: 'apply'; readonly bodies: readonly Body[]; readonly begin: LogPlace; readonly end: LogPlace }
  /** N5 */
  | { readonly kind: 'lead'; readonly epoch: number; readonly end: LogPlace }
  /** Frames of this leader up to here are confirmed. */
  | { readonly kind: 'confirmed'; readonly end: LogPlace }
  /** N4 */
  | { readonly kind: 'step down'; readonly end: LogPlace; readonly reason: string }
  /** The stream no longer has what comes next: another node has to be asked. */
  | { readonly kind: 'catch up' }
  /** History H5, or the stream lost messages: this node goes on only after an operator has acted. */
  | { readonly kind: 'stop'; readonly reason: string }

export type ClusterRole = 'following' | 'standing' | 'leading' | 'catching up' | 'stopped'

export interface ClusterNodeParts<Body> {
  readonly writer: string
  readonly times: ClusterTimes
  readonly anchor: Anchor
  readonly nowMs: number
  /** From 0 to below 1. */
  readonly random: () => number
  readonly act: (action: ClusterAction<Body>) => void
  /** Absent: nothing is measured. */
  readonly measures?: PublishMeasures
}

/** Frames to write, or a part of one. */
export interface Offered<Body> {
  readonly begin: LogPlace
  readonly end: LogPlace
  readonly part: ClusterMessage<Body>['part']
  readonly body: Body
  readonly bytes: number
}

export class ClusterNode<Body> {
  readonly #parts: ClusterNodeParts<Body>
  readonly #times: ClusterTimes
  readonly #act: (action: ClusterAction<Body>) => void
  #role: ClusterRole = 'following'
  #history: StreamHistory<Body>
  #publisher: Publisher<Body> | null = null
  #epoch = 0
  #ordinal = 0
  /** N1 */
  #leaseUntilMs = -Infinity
  /** When a leader that could not renew its lease steps down. */
  #leadUntilMs = -Infinity
  #sentMs = -Infinity
  /** The time that the current call was given. */
  #nowMs: number
  #ids = 0
  /** End of the log with all frames that were offered. */
  #offeredEnd: LogPlace
  #handingOver: { readonly successor: string | null; isSaid: boolean } | null = null
  /** When this node, as a follower, stands for election. */
  #standMs: number

  constructor(parts: ClusterNodeParts<Body>) {
    this.#parts = parts
    this.#times = parts.times
    this.#act = parts.act
    this.#history = new StreamHistory(parts.anchor)
    this.#offeredEnd = parts.anchor.end
    this.#nowMs = parts.nowMs
    this.#standMs = 0
    this.#waitAgain()
  }

  get role(): ClusterRole {
    return this.#role
  }

  /** The highest epoch that is known. */
  get epoch(): number {
    return this.#role === 'leading' ? this.#epoch : this.#history.epoch
  }

  /** The writer that leads, as far as is known; empty: none has led yet. */
  get leader(): string {
    return this.#history.writer
  }

  get sequence(): number {
    return this.#history.sequence
  }

  /** End of the confirmed log. */
  get confirmed(): LogPlace {
    return this.#history.end
  }

  /** The node can go on from it after a crash, once the log is synced up to the anchor's end. */
  get anchor(): Anchor {
    return this.#history.anchor
  }

  get inFlightBytes(): number {
    return this.#publisher?.inFlightBytes ?? 0
  }

  get inFlight(): number {
    return this.#publisher?.inFlight ?? 0
  }

  /** Frames may be offered. */
  get takesFrames(): boolean {
    return this.#role === 'leading' && this.#handingOver === null
  }

  /** N1. Whether confirmed content of the log may be told now. */
  mayAnswer(nowMs: number): boolean {
    return this.#role === 'leading' && nowMs < this.#leaseUntilMs && this.#handingOver?.isSaid !== true
  }

  /** N1. For the threads that compare it with their own clock. */
  get leaseUntilMs(): number {
    return this.#role === 'leading' && this.#handingOver?.isSaid !== true ? this.#leaseUntilMs : -Infinity
  }

  /** When `tick` has something to do at the latest. */
  get dueMs(): number {
    switch (this.#role) {
      case 'following':
        return this.#standMs
      case 'standing':
        return this.#publisher!.dueMs
      case 'leading':
        return Math.min(this.#publisher!.dueMs, this.#beatDueMs, this.#leadUntilMs)
      default:
        return Infinity
    }
  }

  get #beatDueMs(): number {
    return this.#handingOver === null ? this.#sentMs + this.#times.beatMs : Infinity
  }

  tick(nowMs: number): void {
    this.#nowMs = nowMs
    if (this.#role === 'following' && nowMs >= this.#standMs) return this.#stand(nowMs)
    if (this.#role === 'leading') {
      if (nowMs >= this.#leadUntilMs)
        return this.#stepDown('the lease expired: the stream has confirmed nothing in that time')
      if (nowMs >= this.#beatDueMs) this.#say('beat', nowMs)
    }
    this.#publisher?.tick(nowMs)
  }

  /** Frames that follow those offered before. The caller looks at `takesFrames` first. */
  offer({ begin, end, part, body, bytes }: Offered<Body>, nowMs: number): void {
    assert(this.takesFrames, 'frames were offered to a node that does not lead')
    this.#nowMs = nowMs
    const kind = part === null ? 'frames' : 'part'
    if (part === null || part.index === part.count - 1) this.#offeredEnd = end
    this.#publish({ ...this.#next(), kind, begin, end, part, successor: null, body }, bytes, nowMs)
  }

  /** N3. Takes no more frames, and resigns when all are confirmed. @param successor a node; null: the first node that stands */
  handOver(successor: string | null, nowMs: number): void {
    if (!this.takesFrames) return
    this.#nowMs = nowMs
    this.#handingOver = { successor, isSaid: false }
    this.#resignWhenIdle()
  }

  /** Something else keeps this node from leading, such as its own disk. */
  stepDown(reason: string, nowMs: number): void {
    this.#nowMs = nowMs
    if (this.#role === 'leading') this.#stepDown(reason)
    else if (this.#role === 'standing') this.#follow()
  }

  acknowledged(attempt: number, sequence: number, nowMs: number): void {
    this.#nowMs = nowMs
    this.#publisher?.acknowledged(attempt, sequence, nowMs)
  }

  refused(attempt: number, nowMs: number): void {
    this.#nowMs = nowMs
    this.#publisher?.refused(attempt, nowMs)
  }

  lookedUp(look: number, found: ClusterMessage<Body> | null, nowMs: number): void {
    this.#nowMs = nowMs
    this.#publisher?.lookedUp(look, found, nowMs)
  }

  /** Takes a message that the stream delivered. */
  delivered(sequence: number, message: ClusterMessage<Body>, nowMs: number): void {
    this.#nowMs = nowMs
    if (this.#role !== 'following' && this.#role !== 'standing') return
    const verdict = this.#history.apply(sequence, message)
    if (verdict.kind === 'repeated') return
    if (verdict.kind === 'gap') return this.#act({ kind: 'follow', from: this.#history.sequence + 1 })
    if (this.#role === 'standing') this.#heardWhileStanding(message, verdict)
    this.#hear(verdict)
  }

  /** The stream begins later than what this node needs next. */
  trimmed(nowMs: number): void {
    this.#nowMs = nowMs
    if (this.#role !== 'following' && this.#role !== 'standing') return
    this.#follow()
    this.#role = 'catching up'
    this.#act({ kind: 'catch up' })
  }

  /** The log holds what the anchor says. */
  caughtUp(anchor: Anchor, nowMs: number): void {
    this.#nowMs = nowMs
    if (this.#role !== 'catching up') return
    this.#history = new StreamHistory(anchor)
    this.#follow()
    this.#act({ kind: 'follow', from: anchor.sequence + 1 })
  }

  #hear(verdict: Verdict<Body>): void {
    switch (verdict.kind) {
      case 'mismatch':
        return this.#stop(verdict.reason)
      case 'void':
        return // says nothing about the leader
      case 'resigned':
        return this.#onResigned()
      case 'frames':
        this.#act({ kind: 'apply', bodies: verdict.bodies, begin: verdict.begin, end: verdict.end })
    }
    this.#waitAgain()
  }

  /** N3 */
  #onResigned(): void {
    const { writer, random } = this.#parts
    const { successor } = this.#history.resigned!
    this.#waitAgain()
    if (successor === nodeOf(writer)) this.#standMs = this.#nowMs
    else if (successor === null && this.#history.writer !== writer)
      this.#standMs = this.#nowMs + random() * this.#times.beatMs
  }

  /** N2 */
  #waitAgain(): void {
    const { followMs, spreadMs } = this.#times
    this.#standMs = this.#nowMs + followMs + this.#parts.random() * spreadMs
  }

  /** N2 */
  #stand(nowMs: number): void {
    this.#role = 'standing'
    this.#epoch = this.#history.epoch + 1
    this.#ordinal = -1
    this.#offeredEnd = this.#history.end
    this.#publisher = new Publisher<Body>({
      lastSequence: this.#history.sequence,
      times: this.#times,
      newId: () => (this.#ids += 1),
      act: this.#act,
      measures: this.#parts.measures ?? null,
      settled: (settled) => this.#onSettled(settled),
    })
    this.#say('epoch', nowMs)
  }

  /** The next message of the stream arrived while this node stands. */
  #heardWhileStanding(message: ClusterMessage<Body>, verdict: Verdict<Body>): void {
    const isOwn = isSameMessage(message, this.#ownEpoch)
    const isElected = this.#history.epoch === this.#epoch && this.#history.writer === this.#parts.writer
    if (isOwn || (isElected && verdict.kind === 'void')) return // the publisher learns of it from the server
    this.#follow()
  }

  /** Called in the order of the stream. */
  #onSettled(settled: Settled<Body>): void {
    const { sequence, message } = settled
    if (this.#role === 'standing') {
      if (settled.kind === 'foreign') return this.#followAgain() // the stream delivers the message again
      this.#history.apply(sequence, message) // unless the stream delivered it before
      return this.#lead(settled.sentMs)
    }
    const verdict = this.#history.apply(sequence, message)
    if (verdict.kind === 'mismatch') return this.#stop(verdict.reason)
    if (settled.kind === 'foreign') {
      if (verdict.kind === 'epoch') this.#stepDown(`${message.writer} leads since epoch ${message.epoch}`)
      return
    }
    this.#renewLease(settled.sentMs)
    if (verdict.kind === 'frames') this.#act({ kind: 'confirmed', end: verdict.end })
    if (verdict.kind === 'resigned') this.#stepDown('the lead was handed over')
    else if (this.#handingOver !== null) this.#resignWhenIdle()
  }

  #lead(sentMs: number): void {
    this.#role = 'leading'
    this.#handingOver = null
    this.#leadUntilMs = this.#nowMs + this.#times.leaseMs
    this.#leaseUntilMs = -Infinity
    this.#renewLease(sentMs)
    this.#act({ kind: 'lead', epoch: this.#epoch, end: this.#history.end })
  }

  /** N1 */
  #renewLease(sentMs: number): void {
    this.#leaseUntilMs = Math.max(this.#leaseUntilMs, sentMs + this.#times.leaseMs)
    this.#leadUntilMs = Math.max(this.#leadUntilMs, this.#leaseUntilMs)
  }

  /** N3 */
  #resignWhenIdle(): void {
    if (this.#handingOver === null || this.#handingOver.isSaid || this.#publisher!.inFlight > 0) return
    this.#handingOver = { ...this.#handingOver, isSaid: true }
    this.#say('resign', this.#nowMs)
  }

  /** N4 */
  #stepDown(reason: string): void {
    this.#follow()
    this.#history = new StreamHistory(this.#history.anchor)
    this.#act({ kind: 'step down', end: this.#history.end, reason })
    this.#act({ kind: 'follow', from: this.#history.sequence + 1 })
  }

  #followAgain(): void {
    this.#follow()
    this.#act({ kind: 'follow', from: this.#history.sequence + 1 })
  }

  #follow(): void {
    this.#publisher?.close()
    this.#publisher = null
    this.#handingOver = null
    this.#role = 'following'
    this.#waitAgain()
  }

  #stop(reason: string): void {
    this.#publisher?.close()
    this.#publisher = null
    this.#role = 'stopped'
    this.#act({ kind: 'stop', reason })
  }

  get #ownEpoch(): Authorship {
    return { epoch: this.#epoch, writer: this.#parts.writer, ordinal: 0 }
  }

  #next(): Authorship {
    this.#ordinal += 1
    return { epoch: this.#epoch, writer: this.#parts.writer, ordinal: this.#ordinal }
  }

  #say(kind: 'epoch' | 'beat' | 'resign', nowMs: number): void {
    const end = this.#offeredEnd
    const successor = kind === 'resign' ? this.#handingOver!.successor : null
    this.#publish({ ...this.#next(), kind, begin: end, end, part: null, successor, body: null }, 0, nowMs)
  }

  #publish(message: ClusterMessage<Body>, bytes: number, nowMs: number): void {
    this.#sentMs = nowMs
    this.#publisher!.publish(message, bytes, nowMs)
  }
}
