/**
 * Payload of CLAIM: the leases that one claim gave. Integers are little-endian.
 *
 *   offset  bytes  field
 *        0      1  version      CLAIM_VERSION
 *        1      3  unused       0
 *        4      4  groupNumber  u32
 *        8      8  claimNumber  u64, of the group
 *       16      8  atMs         u64
 *       24      8  expiresAtMs  u64
 *       32      …  runs         16 bytes each: offset u64, count u32, attempt u32
 */
import { readU32, readU64, writeU32, writeU64 } from '../../../native-free-codecs/frame.ts'

const CLAIM_VERSION = 1
const HEAD_BYTES = 32
const RUN_BYTES = 16

/** Consecutive offsets given out as the same attempt. */
interface ClaimRun {
  readonly offset: number
  readonly count: number
  readonly attempt: number
}

export interface Claim {
  readonly groupNumber: number
  readonly claimNumber: number
  readonly atMs: number
  readonly expiresAtMs: number
  readonly runs: readonly ClaimRun[]
}

export const claimBytes = ({ runs }: Claim): number => HEAD_BYTES + RUN_BYTES * runs.length

/** @returns the position behind the payload, `claimBytes` further */
export function encodeClaim(into: Uint8Array, at: number, claim: Claim): number {
  writeU32(into, at, CLAIM_VERSION)
  writeU32(into, at + 4, claim.groupNumber)
  writeU64(into, at + 8, claim.claimNumber)
  writeU64(into, at + 16, claim.atMs)
  writeU64(into, at + 24, claim.expiresAtMs)
  let to = at + HEAD_BYTES
  for (const { offset, count, attempt } of claim.runs) {
    writeU64(into, to, offset)
    writeU32(into, to + 8, count)
    writeU32(into, to + 12, attempt)
    to += RUN_BYTES
  }
  return to
}

export function decodeClaim(payload: Uint8Array): Claim | null {
  const runBytes = payload.byteLength - HEAD_BYTES
  if (runBytes < 0 || runBytes % RUN_BYTES !== 0 || payload[0] !== CLAIM_VERSION) return null
  const runs: ClaimRun[] = []
  for (let at = HEAD_BYTES; at < payload.byteLength; at += RUN_BYTES) {
    runs.push({ offset: readU64(payload, at), count: readU32(payload, at + 8), attempt: readU32(payload, at + 12) })
  }
  return {
    groupNumber: readU32(payload, 4),
    claimNumber: readU64(payload, 8),
    atMs: readU64(payload, 16),
    expiresAtMs: readU64(payload, 24),
    runs,
  }
}
