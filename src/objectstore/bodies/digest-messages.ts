/**
 * Messages between main and a digest lane. A request is a message of REQUEST_BYTES in the ring; its integers are little-endian:
 *
 *   offset  bytes  field
 *        0      4  kind      u32, BEGIN, UPDATE, FINISH or DROP
 *        4      4  body      u32, main's number of the body
 *        8      4  first     u32, BEGIN: a bit for each checksum algorithm, in their order; UPDATE: where the bytes begin in the arena
 *       12      4  second    u32, BEGIN: 1 with SHA-256; UPDATE: how many bytes
 *       16      4  crc       u32, UPDATE: CRC-32 of what comes before the bytes in their frame
 *
 * There is one answer for each UPDATE and FINISH, and those of one body come in their order.
 */
import type { BodyDigest, DigestPlan } from './body-digests.ts'
import { CHECKSUM_ALGORITHMS } from './checksums.ts'

export const REQUEST_BYTES = 24

export type DigestRequest =
  | { readonly kind: 'begin'; readonly body: number; readonly plan: DigestPlan }
  | {
      readonly kind: 'update'
      readonly body: number
      readonly offset: number
      readonly bytes: number
      readonly crc: number
    }
  | { readonly kind: 'finish'; readonly body: number }
  | { readonly kind: 'drop'; readonly body: number }

export type DigestAnswer =
  /** CRC-32 of the frame's payload. */
  | { readonly kind: 'updated'; readonly body: number; readonly payloadCrc: number }
  | { readonly kind: 'finished'; readonly body: number; readonly digest: BodyDigest }

export interface DigestLaneData {
  readonly ring: SharedArrayBuffer
  readonly arena: SharedArrayBuffer
}

const BEGIN = 1
const UPDATE = 2
const FINISH = 3
const DROP = 4

export function writeRequest(request: DigestRequest, into: Buffer, at: number): void {
  into.writeUInt32LE(request.body, at + 4)
  switch (request.kind) {
    case 'begin':
      into.writeUInt32LE(BEGIN, at)
      into.writeUInt32LE(bitsOf(request.plan), at + 8)
      into.writeUInt32LE(request.plan.sha256 ? 1 : 0, at + 12)
      return
    case 'update':
      into.writeUInt32LE(UPDATE, at)
      into.writeUInt32LE(request.offset, at + 8)
      into.writeUInt32LE(request.bytes, at + 12)
      into.writeUInt32LE(request.crc, at + 16)
      return
    case 'finish':
      into.writeUInt32LE(FINISH, at)
      return
    case 'drop':
      into.writeUInt32LE(DROP, at)
  }
}

export function readRequest(from: Buffer, at: number): DigestRequest {
  const body = from.readUInt32LE(at + 4)
  const first = from.readUInt32LE(at + 8)
  const second = from.readUInt32LE(at + 12)
  switch (from.readUInt32LE(at)) {
    case BEGIN:
      return { kind: 'begin', body, plan: { checksums: algorithmsOf(first), sha256: second === 1 } }
    case UPDATE:
      return { kind: 'update', body, offset: first, bytes: second, crc: from.readUInt32LE(at + 16) }
    case FINISH:
      return { kind: 'finish', body }
    default:
      return { kind: 'drop', body }
  }
}

/** One bit for each algorithm, in the order of the table. A plan's own order is lost: it names each once, and results say which they are of. */
const bitsOf = ({ checksums }: DigestPlan): number =>
  CHECKSUM_ALGORITHMS.reduce((bits, algorithm, i) => (checksums.includes(algorithm) ? bits | (1 << i) : bits), 0)

const algorithmsOf = (bits: number): DigestPlan['checksums'] =>
  CHECKSUM_ALGORITHMS.filter((_, i) => ((bits >>> i) & 1) === 1)
