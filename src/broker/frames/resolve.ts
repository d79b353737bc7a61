/**
 * Payload of RESOLVE: what became of deliveries. Integers are little-endian.
 *
 *   offset  bytes  field
 *        0      1  version      RESOLVE_VERSION, or RESOLVE_WITH_REASONS when an entry has a reason
 *        1      3  unused       0
 *        4      4  reasonBytes  u32; 0 without reasons
 *        8      …  entries      32 bytes each, see below
 *        …      …  reasons      of the entries that have one, in their order: u32 bytes and UTF-8 each
 *
 *        0      4  groupNumber  u32
 *        4      4  attempt      u32
 *        8      6  offset       u48
 *       14      1  verb         index in RESOLVE_VERBS + 1
 *       15      1  flags        bit 0: the entry has a reason
 *       16      8  atMs         u64
 *       24      8  valueMs      u64: for `release`, when the record is available again, 0: at once; for `renew`, when the lease expires
 */
import { readU32, readU64, writeU32, writeU64 } from '../../../native-free-codecs/frame.ts'
import { TextFields, textFieldBytes, writeTextField } from './text.ts'

const RESOLVE_VERSION = 1
const RESOLVE_WITH_REASONS = 2
const REASON_BYTES_AT = 4
const HEAD_BYTES = 8
const ENTRY_BYTES = 32
const VERB_AT = 14
const FLAGS_AT = 15
const FLAG_REASON = 1

/** `ack` and `nack` end a delivery for good, `release` gives the record back, `renew` prolongs the lease. */
export const RESOLVE_VERBS = ['ack', 'nack', 'release', 'renew'] as const
type ResolveVerb = (typeof RESOLVE_VERBS)[number]

export interface Resolution {
  readonly verb: ResolveVerb
  readonly offset: number
  readonly attempt: number
  readonly atMs: number
  readonly valueMs: number
  /** Why a delivery was given back or ended, as far as that is kept. */
  readonly reason?: string
}

export interface ResolveEntry extends Resolution {
  readonly groupNumber: number
}

export const resolveBytes = (entries: readonly ResolveEntry[]): number =>
  HEAD_BYTES + ENTRY_BYTES * entries.length + reasonBytesOf(entries)

function reasonBytesOf(entries: readonly ResolveEntry[]): number {
  let bytes = 0
  for (const { reason } of entries) if (reason !== undefined) bytes += textFieldBytes(reason)
  return bytes
}

/** @returns the end of the payload, `resolveBytes` behind `at` */
export function encodeResolve(into: Buffer, at: number, entries: readonly ResolveEntry[]): number {
  const reasonBytes = reasonBytesOf(entries)
  writeU32(into, at, reasonBytes === 0 ? RESOLVE_VERSION : RESOLVE_WITH_REASONS)
  writeU32(into, at + REASON_BYTES_AT, reasonBytes)
  let to = at + HEAD_BYTES
  for (const { groupNumber, verb, offset, attempt, atMs, valueMs, reason } of entries) {
    writeU32(into, to, groupNumber)
    writeU32(into, to + 4, attempt)
    writeU64(into, to + 8, offset)
    into[to + VERB_AT] = RESOLVE_VERBS.indexOf(verb) + 1
    into[to + FLAGS_AT] = reason === undefined ? 0 : FLAG_REASON
    writeU64(into, to + 16, atMs)
    writeU64(into, to + 24, valueMs)
    to += ENTRY_BYTES
  }
  for (const { reason } of entries) if (reason !== undefined) to = writeTextField(into, to, reason)
  return to
}

export function decodeResolve(payload: Buffer): ResolveEntry[] | null {
  if (payload.byteLength < HEAD_BYTES) return null
  const version = payload[0]
  if (version !== RESOLVE_VERSION && version !== RESOLVE_WITH_REASONS) return null
  const reasonBytes = version === RESOLVE_VERSION ? 0 : readU32(payload, REASON_BYTES_AT)
  const entriesEnd = payload.byteLength - reasonBytes
  if (entriesEnd < HEAD_BYTES || (entriesEnd - HEAD_BYTES) % ENTRY_BYTES !== 0) return null
  const reasons = new TextFields(payload, entriesEnd)
  const entries: ResolveEntry[] = []
  for (let at = HEAD_BYTES; at < entriesEnd; at += ENTRY_BYTES) {
    const verb = RESOLVE_VERBS[payload[at + VERB_AT]! - 1]
    if (verb === undefined) return null
    entries.push({
      groupNumber: readU32(payload, at),
      verb,
      offset: readU32(payload, at + 8) + 2 ** 32 * (payload[at + 12]! | (payload[at + 13]! << 8)),
      attempt: readU32(payload, at + 4),
      atMs: readU64(payload, at + 16),
      valueMs: readU64(payload, at + 24),
      ...((payload[at + FLAGS_AT]! & FLAG_REASON) !== 0 && { reason: reasons.next() }),
    })
  }
  return reasons.at === payload.byteLength ? entries : null
}
