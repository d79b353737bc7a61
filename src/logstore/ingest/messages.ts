/**
 * What the main thread and the decode lane say to each other over their two rings. Integers are in the machine's order
 * (both ends are threads of one process).
 *
 * Main to lane, one admitted request (44 bytes):
 *
 *   offset  bytes  field
 *        0      4  request           number of the request in flight
 *        4      4  policyGeneration  of the policy the tenant and credential were found in
 *        8      4  tenant            index in that policy
 *       12      4  credential        index in that tenant
 *       16      1  signal
 *       17      1  format
 *       18      1  source
 *       19      1  encoding          ENCODINGS index
 *       20      4  bodyOffset        in the arena
 *       24      4  bodyBytes
 *       28      8  receivedAt        ns since the Unix epoch: low word, high word
 *       36      4  preparedSlot      of prepared-batches.ts; NOT_PREPARED: no lane prepares it
 *       40      4  ticket            in that slot
 *
 * Lane to main, the outcome (44 bytes and a tail):
 *
 *        0      4  request
 *        4      1  kind              ACCEPTED, REFUSED, SEGMENT_OPENED
 *        5      1  refusal           REFUSAL_KINDS index
 *        6      2                    unused
 *        8      8  position          accepted: answer once the log is committed up to here; segment opened: its base
 *       16      4  records           booked in the gateway budget, to be given back with the answer
 *       20      4  bytes             likewise
 *       24      4  collapsed         records whose id was stored before; segment opened: number of its index
 *       28      4  tailBytes
 *       32      4  generation        of the log, in which `position` was given
 *       36      4  rejected          accepted: malformed records that were dropped
 *       40      4  retryAfterSeconds 0: not retryable
 *       44      …  tail              accepted: 16 bytes a record id (JSON routes), then what was wrong with the first that was dropped;
 *                                    refused: the message
 */

export const REQUEST_BYTES = 44
export const OUTCOME_HEAD_BYTES = 44

export const NOT_PREPARED = -1

export const ACCEPTED = 1
export const REFUSED = 2
export const SEGMENT_OPENED = 3

export const ENCODINGS = ['identity', 'gzip', 'deflate', 'zstd', 'snappy', 'x-snappy-framed'] as const
export type Encoding = (typeof ENCODINGS)[number]

export interface IngestRequest {
  request: number
  policyGeneration: number
  tenant: number
  credential: number
  signal: number
  format: number
  source: number
  encoding: number
  bodyOffset: number
  bodyBytes: number
  receivedAtLow: number
  receivedAtHigh: number
  preparedSlot: number
  ticket: number
}

export function writeRequest(into: Buffer, at: number, request: Readonly<IngestRequest>): void {
  into.writeUInt32LE(request.request, at)
  into.writeUInt32LE(request.policyGeneration, at + 4)
  into.writeUInt32LE(request.tenant, at + 8)
  into.writeUInt32LE(request.credential, at + 12)
  into[at + 16] = request.signal
  into[at + 17] = request.format
  into[at + 18] = request.source
  into[at + 19] = request.encoding
  into.writeUInt32LE(request.bodyOffset, at + 20)
  into.writeUInt32LE(request.bodyBytes, at + 24)
  into.writeUInt32LE(request.receivedAtLow, at + 28)
  into.writeUInt32LE(request.receivedAtHigh, at + 32)
  into.writeInt32LE(request.preparedSlot, at + 36)
  into.writeInt32LE(request.ticket, at + 40)
}

export const readRequest = (from: Buffer, at: number): IngestRequest => ({
  request: from.readUInt32LE(at),
  policyGeneration: from.readUInt32LE(at + 4),
  tenant: from.readUInt32LE(at + 8),
  credential: from.readUInt32LE(at + 12),
  signal: from[at + 16]!,
  format: from[at + 17]!,
  source: from[at + 18]!,
  encoding: from[at + 19]!,
  bodyOffset: from.readUInt32LE(at + 20),
  bodyBytes: from.readUInt32LE(at + 24),
  receivedAtLow: from.readUInt32LE(at + 28),
  receivedAtHigh: from.readUInt32LE(at + 32),
  preparedSlot: from.readInt32LE(at + 36),
  ticket: from.readInt32LE(at + 40),
})

export interface OutcomeHead {
  readonly request: number
  readonly kind: number
  readonly refusal: number
  readonly retryAfterSeconds: number
  readonly position: number
  readonly records: number
  readonly bytes: number
  readonly collapsed: number
  readonly tailBytes: number
  readonly generation: number
  readonly rejected: number
}

export function writeOutcomeHead(into: Buffer, at: number, outcome: OutcomeHead): void {
  into.writeUInt32LE(outcome.request, at)
  into[at + 4] = outcome.kind
  into[at + 5] = outcome.refusal
  into.writeDoubleLE(outcome.position, at + 8)
  into.writeUInt32LE(outcome.records, at + 16)
  into.writeUInt32LE(outcome.bytes, at + 20)
  into.writeUInt32LE(outcome.collapsed, at + 24)
  into.writeUInt32LE(outcome.tailBytes, at + 28)
  into.writeUInt32LE(outcome.generation, at + 32)
  into.writeUInt32LE(outcome.rejected, at + 36)
  into.writeUInt32LE(outcome.retryAfterSeconds, at + 40)
}

export const readOutcomeHead = (from: Buffer, at: number): OutcomeHead => ({
  request: from.readUInt32LE(at),
  kind: from[at + 4]!,
  refusal: from[at + 5]!,
  retryAfterSeconds: from.readUInt32LE(at + 40),
  position: from.readDoubleLE(at + 8),
  records: from.readUInt32LE(at + 16),
  bytes: from.readUInt32LE(at + 20),
  collapsed: from.readUInt32LE(at + 24),
  tailBytes: from.readUInt32LE(at + 28),
  generation: from.readUInt32LE(at + 32),
  rejected: from.readUInt32LE(at + 36),
})
