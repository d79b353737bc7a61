/**
 * Payload of RESOLVE: what became of deliveries. Integers are little-endian.
 *
 *   offset  bytes  field
 *        0      1  version  RESOLVE_VERSION
 *        1      7  unused   0
 *        8      …  entries  32 bytes each:
 *
 *        0      4  groupNumber  u32
 *        4      4  attempt      u32
 *        8      6  offset       u48
 *       14      1  verb         place in RESOLVE_VERBS + 1
 *       15      1  unused       0
 *       16      8  atMs         u64
 *       24      8  valueMs      u64: of `release` when the record is available again, 0 at once; of `renew` when the lease expires
 */
import { readU32, readU64, writeU32, writeU64 } from '../../../native-free-codecs/frame.ts'

const RESOLVE_VERSION = 1
const HEAD_BYTES = 8
const ENTRY_BYTES = 32
const VERB_AT = 14

/** `ack` and `nack` end a delivery for good, `release` gives the record back, `renew` prolongs the lease. */
export const RESOLVE_VERBS = ['ack', 'nack', 'release', 'renew'] as const
type ResolveVerb = (typeof RESOLVE_VERBS)[number]

export interface Resolution {
  readonly verb: ResolveVerb
  readonly offset: number
  readonly attempt: number
  readonly atMs: number
  readonly valueMs: number
}

export interface ResolveEntry extends Resolution {
  readonly groupNumber: number
}

export const resolveBytes = (entries: readonly ResolveEntry[]): number => HEAD_BYTES + ENTRY_BYTES * entries.length

/** @returns the position behind the payload, `resolveBytes` further */
export function encodeResolve(into: Uint8Array, at: number, entries: readonly ResolveEntry[]): number {
  writeU32(into, at, RESOLVE_VERSION)
  writeU32(into, at + 4, 0)
  let to = at + HEAD_BYTES
  for (const { groupNumber, verb, offset, attempt, atMs, valueMs } of entries) {
    writeU32(into, to, groupNumber)
    writeU32(into, to + 4, attempt)
    writeU64(into, to + 8, offset)
    into[to + VERB_AT] = RESOLVE_VERBS.indexOf(verb) + 1
    writeU64(into, to + 16, atMs)
    writeU64(into, to + 24, valueMs)
    to += ENTRY_BYTES
  }
  return to
}

export function decodeResolve(payload: Uint8Array): ResolveEntry[] | null {
  const entryBytes = payload.byteLength - HEAD_BYTES
  if (entryBytes < 0 || entryBytes % ENTRY_BYTES !== 0 || payload[0] !== RESOLVE_VERSION) return null
  const entries: ResolveEntry[] = []
  for (let at = HEAD_BYTES; at < payload.byteLength; at += ENTRY_BYTES) {
    const verb = RESOLVE_VERBS[payload[at + VERB_AT]! - 1]
    if (verb === undefined) return null
    entries.push({
      groupNumber: readU32(payload, at),
      verb,
      offset: readU32(payload, at + 8) + 2 ** 32 * (payload[at + 12]! | (payload[at + 13]! << 8)),
      attempt: readU32(payload, at + 4),
      atMs: readU64(payload, at + 16),
      valueMs: readU64(payload, at + 24),
    })
  }
  return entries
}
