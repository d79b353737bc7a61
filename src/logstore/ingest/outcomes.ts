/** What the decode lane writes into the ring of outcomes; see messages.ts. */
import type { SpscRing } from '../../pipeline/spsc-ring.ts'
import { SOURCE_OTLP_HTTP } from '../batch-frame.ts'
import { REFUSAL_KINDS } from '../refusals.ts'
import type { Refusal } from '../refusals.ts'
import { ACCEPTED, OUTCOME_HEAD_BYTES, REFUSED, SEGMENT_OPENED, writeOutcomeHead } from './messages.ts'
import type { IngestRequest } from './messages.ts'

/** What an accepted batch is answered with. */
export interface StoredBatchAnswer {
  /** Four words a record. */
  readonly ids: Uint32Array
  readonly records: number
  readonly bytes: number
  /** Records that were stored before. */
  readonly collapsed: number
  /** Malformed records that were dropped, and what was wrong with the first. */
  readonly rejected: number
  readonly rejectedBecause: string
}

/** @param position the batch is stored when the log is committed up to here, in this generation of the log */
export function writeAccepted(
  outcomes: SpscRing,
  request: IngestRequest,
  position: number,
  generation: number,
  stored: StoredBatchAnswer,
): void {
  const { ids, records, bytes, collapsed, rejected, rejectedBecause } = stored
  // Only the JSON routes answer with record ids.
  const idBytes = request.source === SOURCE_OTLP_HTTP ? 4 * ids.length : 0
  const reason = Buffer.from(rejectedBecause)
  const tailBytes = idBytes + reason.byteLength
  const at = reserveOutcome(outcomes, OUTCOME_HEAD_BYTES + tailBytes)
  const head = {
    request: request.request,
    kind: ACCEPTED,
    refusal: 0,
    retryAfterSeconds: 0,
    position,
    records,
    bytes,
    collapsed,
    tailBytes,
    generation,
    rejected,
  }
  writeOutcomeHead(outcomes.bytes, at, head)
  let to = at + OUTCOME_HEAD_BYTES
  for (let word = 0; word < idBytes / 4; word++, to += 4) outcomes.bytes.writeUInt32BE(ids[word]!, to)
  reason.copy(outcomes.bytes, to)
  outcomes.publish()
}

export function writeRefused(
  outcomes: SpscRing,
  request: IngestRequest,
  { kind, message, retryAfterSeconds }: Refusal,
): void {
  const tail = Buffer.from(message)
  const at = reserveOutcome(outcomes, OUTCOME_HEAD_BYTES + tail.byteLength)
  const refusalNumber = REFUSAL_KINDS.indexOf(kind)
  const head = {
    request: request.request,
    kind: REFUSED,
    refusal: refusalNumber,
    retryAfterSeconds,
    position: 0,
    records: 0,
    bytes: 0,
    collapsed: 0,
    tailBytes: tail.byteLength,
    generation: 0,
    rejected: 0,
  }
  writeOutcomeHead(outcomes.bytes, at, head)
  tail.copy(outcomes.bytes, at + OUTCOME_HEAD_BYTES)
  outcomes.publish()
}

/** Tells the main thread which index belongs to a segment, ahead of the outcome of the segment's first frame. */
export function announceSegment(outcomes: SpscRing, base: number, indexNumber: number): void {
  const at = reserveOutcome(outcomes, OUTCOME_HEAD_BYTES)
  const head = {
    request: 0,
    kind: SEGMENT_OPENED,
    refusal: 0,
    retryAfterSeconds: 0,
    position: base,
    records: 0,
    bytes: 0,
    collapsed: indexNumber,
    tailBytes: 0,
    generation: 0,
    rejected: 0,
  }
  writeOutcomeHead(outcomes.bytes, at, head)
  outcomes.publish()
}

/** The main thread drains this ring at every wake and never blocks, so room comes back by itself. */
function reserveOutcome(outcomes: SpscRing, bytes: number): number {
  for (;;) {
    const at = outcomes.tryReserve(bytes)
    if (at >= 0) return at
    outcomes.waitForSpace(bytes, 50)
  }
}
