/**
 * Payload of CLAIM: the leases that one claim gave. Integers are little-endian.
 *
 *   offset  bytes  field
 *        0      1  version      CLAIM_VERSION, or CLAIM_WITH_ID
 *        1      1  unused       0
 *        2      2  idBytes      u16; 0 without an id
 *        4      4  groupNumber  u32
 *        8      8  claimNumber  u64, of the group
 *       16      8  atMs         u64
 *       24      8  expiresAtMs  u64
 *       32      …  runs         16 bytes each: offset u64, count u32, attempt u32
 *        …      …  id           chosen by the client, UTF-8
 */
import { readU32, readU64, writeU32, writeU64 } from '../../../native-free-codecs/frame.ts'
import { textBytes, writeText } from './text.ts'

const CLAIM_VERSION = 1
const CLAIM_WITH_ID = 2
const ID_BYTES_SHIFT = 16
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
  /** Id by which the client can repeat the claim. */
  readonly id?: string | undefined
}

export const claimBytes = ({ runs, id = '' }: Claim): number => HEAD_BYTES + RUN_BYTES * runs.length + textBytes(id)

/** @returns the end of the payload, `claimBytes` behind `at` */
export function encodeClaim(into: Buffer, at: number, claim: Claim): number {
  const { id = '' } = claim
  writeU32(into, at, (id === '' ? CLAIM_VERSION : CLAIM_WITH_ID) | (textBytes(id) << ID_BYTES_SHIFT))
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
  return writeText(into, to, id)
}

export function decodeClaim(payload: Buffer): Claim | null {
  if (payload.byteLength < HEAD_BYTES) return null
  const hasId = payload[0] === CLAIM_WITH_ID
  const idBytes = hasId ? readU32(payload, 0) >>> ID_BYTES_SHIFT : 0
  const runsEnd = payload.byteLength - idBytes
  const runBytes = runsEnd - HEAD_BYTES
  if (runBytes < 0 || runBytes % RUN_BYTES !== 0 || (hasId ? idBytes === 0 : payload[0] !== CLAIM_VERSION)) return null
  const runs: ClaimRun[] = []
  for (let at = HEAD_BYTES; at < runsEnd; at += RUN_BYTES) {
    runs.push({ offset: readU64(payload, at), count: readU32(payload, at + 8), attempt: readU32(payload, at + 12) })
  }
  return {
    groupNumber: readU32(payload, 4),
    claimNumber: readU64(payload, 8),
    atMs: readU64(payload, 16),
    expiresAtMs: readU64(payload, 24),
    runs,
    ...(hasId && { id: payload.toString('utf8', runsEnd) }),
  }
}
