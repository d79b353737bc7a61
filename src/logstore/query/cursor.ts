/**
 * Cursor of a page: base64url of 40 or 48 bytes, opaque to clients. Integers are little-endian.
 *
 *   offset  bytes  field         meaning
 *        0      1  version       VERSION_OF_LOG or VERSION_OF_BUCKET
 *        1      1  unused        0
 *        2      2  recordNumber  of the last result, in its frame
 *        4      4  crc           u32, CRC32 of bytes [0, 4) and [8, 40), or [8, 48)
 *        8      8  time          u64, of the last result, ns since the Unix epoch
 *       16      8  position      u64, of the last result's frame
 *       24      8  snapshot      u64, position up to which the first page saw the log; later pages see no more
 *       32      8  scope         first bytes of a digest over tenant, dataset, filter and order
 *       40      8  bundles       only in VERSION_OF_BUCKET: which bundles there are below the snapshot (seen-bundles.ts)
 *
 * Positions outlive seal and restart, so a cursor does too: it names a place in the order of results, not a place in an index.
 */
import { hash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { Search } from '../search/expression.ts'

const VERSION_OF_LOG = 1
const VERSION_OF_BUCKET = 2
const BYTES_OF_LOG = 40
const BYTES_OF_BUCKET = 48

export interface Cursor {
  readonly time: bigint
  readonly position: number
  readonly recordNumber: number
  readonly snapshot: number
  /** Undefined: the cursor is of a log, not of a bucket. */
  readonly bundles?: bigint | undefined
}

/** What a query asks for, apart from the page. Ids as the client wrote them, trace id in lower case. */
export interface QueryFilter {
  readonly recordId: string | null
  readonly traceId: string | null
  /** Inclusive, ns since the Unix epoch. */
  readonly startTime: bigint | null
  /** Exclusive. */
  readonly endTime: bigint | null
  readonly search: Search | null
}

/** The order of results: by time, ties in the order in which they came; or the reverse. */
export type Order = 'asc' | 'desc'

/** What a cursor is bound to, 8 bytes. */
export function cursorScope(tenant: string, dataset: string | null, filter: QueryFilter, order: Order): Buffer {
  const { recordId, traceId, startTime, endTime, search } = filter
  const common = [tenant, dataset, recordId, traceId, startTime?.toString(), endTime?.toString()]
  // Without a search and in ascending order, the scope is the one of older versions, which knew neither: so their cursors stay valid.
  const more = search === null && order === 'asc' ? [] : [search, order]
  const text = JSON.stringify([...common, ...more], (_, value: unknown) =>
    typeof value === 'bigint' ? `${value}n` : value,
  )
  return hash('sha256', text, 'buffer').subarray(0, 8)
}

export function encodeCursor(cursor: Cursor, scope: Buffer): string {
  const isOfBucket = cursor.bundles !== undefined
  const bytes = Buffer.alloc(isOfBucket ? BYTES_OF_BUCKET : BYTES_OF_LOG)
  bytes[0] = isOfBucket ? VERSION_OF_BUCKET : VERSION_OF_LOG
  bytes.writeUInt16LE(cursor.recordNumber, 2)
  bytes.writeBigUInt64LE(cursor.time, 8)
  bytes.writeBigUInt64LE(BigInt(cursor.position), 16)
  bytes.writeBigUInt64LE(BigInt(cursor.snapshot), 24)
  scope.copy(bytes, 32)
  if (cursor.bundles !== undefined) bytes.writeBigUInt64LE(cursor.bundles, 40)
  bytes.writeUInt32LE(checksum(bytes), 4)
  return bytes.toString('base64url')
}

/** The cursor, or what is wrong with it, for the client. */
export function decodeCursor(text: string, scope: Buffer): Cursor | { readonly problem: string } {
  const bytes = Buffer.from(text, 'base64url')
  const isOfBucket = bytes[0] === VERSION_OF_BUCKET
  const wellFormed =
    (isOfBucket || bytes[0] === VERSION_OF_LOG) &&
    bytes.byteLength === (isOfBucket ? BYTES_OF_BUCKET : BYTES_OF_LOG) &&
    bytes.toString('base64url') === text && // a decoder that skips foreign characters would accept many spellings
    bytes.readUInt32LE(4) === checksum(bytes)
  if (!wellFormed)
    return { problem: 'page.cursor is not a cursor: pass the next_cursor of the previous page back exactly' }
  if (!bytes.subarray(32, 40).equals(scope)) {
    return {
      problem:
        'page.cursor belongs to another query: tenant, dataset, filter and order must be those of the previous page',
    }
  }
  return {
    recordNumber: bytes.readUInt16LE(2),
    time: bytes.readBigUInt64LE(8),
    position: Number(bytes.readBigUInt64LE(16)),
    snapshot: Number(bytes.readBigUInt64LE(24)),
    bundles: isOfBucket ? bytes.readBigUInt64LE(40) : undefined,
  }
}

const checksum = (bytes: Buffer): number => crc32(bytes.subarray(8), crc32(bytes.subarray(0, 4)))
