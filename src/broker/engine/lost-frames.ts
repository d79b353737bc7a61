/**
 * Works out what was lost with damaged frames, as far as possible: from their headers if these are whole, from the heads of their payloads,
 * which have checksums of their own, and from how many bytes they took.
 *
 * F1  an offset that was given is never given again. An unreadable range may have given each stream as many offsets as records fit into it;
 *     a later frame with an offset of the stream tells how many it really were. An audit stream whose creation is lost is created again
 *     behind all events that may have existed
 * F2  a delivery that was dead-lettered stays finished: the copy may be gone, and the quarantine incident says so
 */
import {
  DEAD_LETTER_HEAD_BYTES,
  FRAME_CHANGE,
  FRAME_DEAD_LETTER,
  FRAME_RECORDS,
  FRAME_RECORDS_REPLICATED,
  FRAME_REDRIVE,
  RECORDS_HEAD_BYTES,
  RECORD_BYTES_MIN,
  decodeDeadLetterHead,
  decodeRecordsHead,
} from '../frames.ts'
import { AUDIT_STREAM } from '../state/state.ts'
import type { BrokerState, StreamState } from '../state/state.ts'

/** Bytes at the start of a payload that are enough for `frame`. */
export const LOST_HEAD_BYTES = Math.max(RECORDS_HEAD_BYTES, DEAD_LETTER_HEAD_BYTES)

export class LostFrames {
  /** True when the creation of a stream or group may be lost. */
  mayHaveCreated = false
  readonly #state: BrokerState
  /** Offsets, from `nextOffset` on, that may have been given behind the stream's last frame. */
  readonly #possible = new Map<StreamState, { readonly nextOffset: number; count: number }>()
  /** Audit events that may have existed, also in streams that are not known. */
  #events = 0

  constructor(state: BrokerState) {
    this.#state = state
  }

  /** Notes a damaged frame with a whole header. To be called in the order of the log, as `range`. @param head start of the payload */
  frame(type: number, payloadBytes: number, head: Uint8Array): void {
    if (type === FRAME_RECORDS || type === FRAME_RECORDS_REPLICATED) this.#records(payloadBytes, head)
    else if (type === FRAME_REDRIVE) this.#redrive(payloadBytes, head)
    else if (type === FRAME_DEAD_LETTER) this.#deadLetter(head)
    else if (type === FRAME_CHANGE) this.#change()
  }

  /** Notes damaged bytes of which nothing can be read. */
  range(bytes: number): void {
    this.mayHaveCreated = true
    this.#mayHaveGiven(Math.floor(bytes / RECORD_BYTES_MIN), () => true)
  }

  /** To be called when everything else is applied (F1). */
  end(): void {
    this.#state.eventsLost += this.#events
    for (const stream of this.#state.streams) {
      if (stream?.name === AUDIT_STREAM && stream.nextOffset === 0) stream.advance(0, this.#state.eventsLost)
    }
    for (const [stream, { nextOffset, count }] of this.#possible) {
      if (stream.nextOffset === nextOffset) stream.advance(nextOffset, count)
    }
  }

  #records(payloadBytes: number, head: Uint8Array): void {
    const records = decodeRecordsHead(head)
    if (records === null) this.#mayHaveGiven(Math.floor(payloadBytes / RECORD_BYTES_MIN), () => true)
    else if (!records.relocated) {
      this.#state.streams[records.streamNumber]?.advance(records.firstOffset, records.count)
    }
  }

  /** The records are lost, so their dead letters do not count as redriven. */
  #redrive(payloadBytes: number, head: Uint8Array): void {
    this.#records(payloadBytes, head)
    this.#mayHaveGiven(1, ({ name }) => name === AUDIT_STREAM)
  }

  /** F2 */
  #deadLetter(head: Uint8Array): void {
    const state = this.#state
    const deadLetter = decodeDeadLetterHead(head)
    if (deadLetter === null) return this.#mayHaveGiven(1, () => true)
    const { groupNumber, offset, attempt, atMs, targetNumber, targetOffset, auditOffset } = deadLetter
    const group = state.groups[groupNumber]
    if (group) state.applyFinished(group, offset, attempt, 'dead_lettered', atMs, null)
    const target = state.streams[targetNumber]
    target?.advance(targetOffset, 1)
    if (target) state.stream(target.tenant, AUDIT_STREAM)?.advance(auditOffset, 1)
    this.#events = Math.max(this.#events, auditOffset + 1)
  }

  /** It is unknown whether the change was an audit event, and of which tenant. */
  #change(): void {
    this.mayHaveCreated = true
    this.#mayHaveGiven(1, ({ name }) => name === AUDIT_STREAM)
  }

  #mayHaveGiven(count: number, isOne: (stream: StreamState) => boolean): void {
    this.#events += count
    for (const stream of this.#state.streams) {
      if (stream === undefined || !isOne(stream)) continue
      const { nextOffset } = stream
      const known = this.#possible.get(stream)
      if (known?.nextOffset === nextOffset) known.count += count
      else this.#possible.set(stream, { nextOffset, count })
    }
  }
}
