/**
 * A group's state as bytes, little-endian. Tables are stored column by column.
 *
 *   offset  bytes  field
 *        0      1  version         CHECKPOINT_VERSION
 *        1      1  flags           bit 0: there are reasons
 *        2      6  unused          0
 *        8      8  floor           u64
 *       16      8  deliveries      u64, D: offsets that are leased, delayed or returned
 *       24      8  intervals       u64, F: of finished offsets with equal tags
 *       32      8  expiries        u64, E: finished offsets with attempts that expired
 *       40      8  unavailable     u64, U: intervals of unavailable offsets
 *       48    8·D  offset          f64, each once, in no order
 *        …    8·D  claimNumber     f64, NaN when released
 *        …    8·D  leasedAtMs      f64
 *        …    8·D  dueMs           f64, when the lease expires or expired, or the delay ends
 *        …   24·F  intervals       f64: from, to, tag of each, ascending; tags as in finished-offsets.ts
 *        …   16·E  expiries        f64: offset, expiredAttempts of each, in the order of finishing
 *        …   16·U  unavailable     f64: from, to of each, ascending
 *        …    4·D  attempt         u32
 *        …    4·D  expiredAttempts u32
 *        …      D  status          u8: 1 returned, 2 delayed, 3 leased
 *        …      …  reasons         with their flag only: JSON in UTF-8, [offset, reason] of each, in the order they were given
 *
 * K1  a lease that was reported as expired is written as leased: the reader of the checkpoint reports it again
 * K2  only version and length are checked here: the file around the bytes has a checksum
 * K3  the bytes are written and read in slices of SLICE_ROWS deliveries or intervals
 * K4  only the copy is made at once. It copies memory as it is, which takes some 20 ms for a million deliveries
 */
import { readU64, writeU64 } from '../../../native-free-codecs/frame.ts'
import { StoreError } from '../../errors.ts'
import { DELAYED, DeliveryTable, FREE, LEASED, REPORTED } from './delivery-table.ts'
import { FinishedOffsets } from './finished-offsets.ts'
import { IntervalSet } from '../interval-set.ts'
import { Reasons } from './reasons.ts'
import { TaggedIntervals } from './tagged-intervals.ts'

const CHECKPOINT_VERSION = 1
const HEADER_BYTES = 48
const DELIVERY_BYTES = 41
const FLAGS_AT = 1
const FLAG_REASONS = 1
/** K3. A slice takes some milliseconds. */
const SLICE_ROWS = 16 * 1024

export interface GroupParts {
  readonly floor: number
  readonly table: DeliveryTable
  readonly finished: FinishedOffsets
  readonly unavailable: IntervalSet
  readonly reasons: Reasons
}

/** A group at one moment, as copies of its columns: free slots are still among the rows. */
export interface GroupCopy {
  readonly floor: number
  /** How many rows are not free. */
  readonly deliveries: number
  readonly offset: Float64Array<ArrayBuffer>
  readonly claimNumber: Float64Array<ArrayBuffer>
  readonly leasedAtMs: Float64Array<ArrayBuffer>
  readonly dueMs: Float64Array<ArrayBuffer>
  readonly attempt: Uint32Array<ArrayBuffer>
  readonly expiredAttempts: Uint32Array<ArrayBuffer>
  readonly status: Uint8Array<ArrayBuffer>
  readonly intervals: Float64Array<ArrayBuffer>
  readonly expiries: Float64Array<ArrayBuffer>
  readonly unavailable: Float64Array<ArrayBuffer>
  /** JSON; null: there are no reasons. */
  readonly reasons: Buffer | null
}

/** K4 */
export function copyGroup({ floor, table, finished, unavailable, reasons }: GroupParts): GroupCopy {
  const { intervals, expiredAttempts: expiries } = finished
  const rows = table.size === 0 ? 0 : table.slotsUsed
  return {
    floor,
    deliveries: table.size,
    offset: table.offset.slice(0, rows),
    claimNumber: table.claimNumber.slice(0, rows),
    leasedAtMs: table.leasedAtMs.slice(0, rows),
    dueMs: table.due.dueMs.slice(0, rows),
    attempt: table.attempt.slice(0, rows),
    expiredAttempts: table.expiredAttempts.slice(0, rows),
    status: table.statuses(rows),
    intervals: intervals.encode(),
    expiries: flattened(expiries, 2 * expiries.size),
    unavailable: unavailable.encode(),
    reasons: reasons.entries.size === 0 ? null : Buffer.from(JSON.stringify([...reasons.entries])),
  }
}

export const encodedBytes = (copy: GroupCopy): number =>
  HEADER_BYTES +
  DELIVERY_BYTES * copy.deliveries +
  copy.intervals.byteLength +
  copy.expiries.byteLength +
  copy.unavailable.byteLength +
  (copy.reasons?.byteLength ?? 0)

/** Yields now and then (K3). To be called once, as it changes the copy. @returns consecutive parts */
export function* encodeGroup(copy: GroupCopy): Generator<void, Uint8Array[], undefined> {
  const header = new Uint8Array(HEADER_BYTES)
  header[0] = CHECKPOINT_VERSION
  if (copy.reasons !== null) header[FLAGS_AT] = FLAG_REASONS
  const counts = [copy.deliveries, copy.intervals.length / 3, copy.expiries.length / 2, copy.unavailable.length / 2]
  for (const [i, value] of [copy.floor, ...counts].entries()) writeU64(header, 8 + 8 * i, value)

  const { status } = copy
  const slots = status.length === copy.deliveries ? null : yield* slotsOf(copy)
  for (let row = 0; row < status.length; row++) {
    if (status[row] === REPORTED) status[row] = LEASED // K1
    if (row % SLICE_ROWS === SLICE_ROWS - 1) yield
  }
  const columns = [
    yield* taken(copy.offset, slots),
    yield* taken(copy.claimNumber, slots),
    yield* taken(copy.leasedAtMs, slots),
    yield* taken(copy.dueMs, slots),
    copy.intervals,
    copy.expiries,
    copy.unavailable,
    yield* taken(copy.attempt, slots),
    yield* taken(copy.expiredAttempts, slots),
    yield* taken(status, slots),
  ]
  const parts = [header, ...columns.map(({ buffer }) => new Uint8Array(buffer))]
  return copy.reasons === null ? parts : [...parts, copy.reasons]
}

/**
 * Yields now and then how many of the bytes are done (K3). Columns are read in place, because new memory for a copy would cost as much as all else.
 *
 * @throws StoreError `corrupt` when the bytes do not have a version and a length that `encodeGroup` writes (K2)
 */
export function* decodeGroup(bytes: Uint8Array): Generator<number, GroupParts, undefined> {
  const version = bytes[0]
  if (version !== CHECKPOINT_VERSION || bytes.byteLength < HEADER_BYTES) throw unreadable(`version ${version}`)
  const [floor, deliveries, intervalCount, expiryCount, unavailableCount] = [
    readU64(bytes, 8),
    readU64(bytes, 16),
    readU64(bytes, 24),
    readU64(bytes, 32),
    readU64(bytes, 40),
  ]
  const expectedBytes =
    HEADER_BYTES + DELIVERY_BYTES * deliveries + 24 * intervalCount + 16 * (expiryCount + unavailableCount)
  const hasReasons = (bytes[FLAGS_AT]! & FLAG_REASONS) !== 0
  if (hasReasons ? bytes.byteLength < expectedBytes : bytes.byteLength !== expectedBytes)
    throw unreadable(`${bytes.byteLength} bytes instead of ${expectedBytes}`)

  const isAligned = bytes.byteOffset % 8 === 0 // a column begins at a multiple of the size of its elements
  const { buffer, byteOffset } = isAligned ? bytes : new Uint8Array(bytes)
  let at = byteOffset + HEADER_BYTES
  const floats = (length: number): Float64Array => {
    at += 8 * length
    return new Float64Array(buffer, at - 8 * length, length)
  }
  const integers = (length: number): Uint32Array => {
    at += 4 * length
    return new Uint32Array(buffer, at - 4 * length, length)
  }
  const offset = floats(deliveries)
  const claimNumber = floats(deliveries)
  const leasedAtMs = floats(deliveries)
  const dueMs = floats(deliveries)
  const intervals = floats(3 * intervalCount)
  const expiries = floats(2 * expiryCount)
  const covered = floats(2 * unavailableCount)
  const attempt = integers(deliveries)
  const expiredAttempts = integers(deliveries)
  const status = new Uint8Array(buffer, at, deliveries)

  const table = new DeliveryTable(deliveries)
  for (let row = 0; row < deliveries; row++) {
    const slot = table.insert(offset[row]!)
    table.claimNumber[slot] = claimNumber[row]!
    table.leasedAtMs[slot] = leasedAtMs[row]!
    table.attempt[slot] = attempt[row]!
    table.expiredAttempts[slot] = expiredAttempts[row]!
    table.due.dueMs[slot] = dueMs[row]!
    if (row % SLICE_ROWS === SLICE_ROWS - 1) yield HEADER_BYTES + DELIVERY_BYTES * row
    if (status[row] === LEASED) table.makeLeased(slot, dueMs[row]!)
    else if (status[row] === DELAYED) table.makeDelayed(slot, dueMs[row]!)
  }
  const finished = new TaggedIntervals()
  const finishedAt = HEADER_BYTES + DELIVERY_BYTES * deliveries
  for (let i = 0; i < intervals.length; i += 3) {
    if (i % (3 * SLICE_ROWS) === 0) yield finishedAt + 8 * i
    finished.set(intervals[i]!, intervals[i + 1]!, intervals[i + 2]!)
  }
  const expired = new Map<number, number>()
  for (let i = 0; i < expiries.length; i += 2) expired.set(expiries[i]!, expiries[i + 1]!)
  const unavailable = new IntervalSet()
  const unavailableAt = finishedAt + 24 * intervalCount + 16 * expiryCount
  for (let i = 0; i < covered.length; i += 2) {
    if (i % (2 * SLICE_ROWS) === 0) yield unavailableAt + 8 * i
    unavailable.add(covered[i]!, covered[i + 1]!)
  }
  return {
    floor,
    table,
    finished: new FinishedOffsets(floor, finished, expired),
    unavailable,
    reasons: hasReasons ? decodeReasons(bytes.subarray(expectedBytes)) : new Reasons(),
  }
}

function decodeReasons(json: Uint8Array): Reasons {
  try {
    return new Reasons(JSON.parse(Buffer.from(json).toString()) as [number, string][]) // K2
  } catch (error) {
    throw unreadable('reasons that do not read', error)
  }
}

function* slotsOf({ status, deliveries }: GroupCopy): Generator<void, Uint32Array, undefined> {
  const slots = new Uint32Array(deliveries)
  let row = 0
  for (let slot = 0; slot < status.length; slot++) {
    if (status[slot] !== FREE) slots[row++] = slot
    if (slot % SLICE_ROWS === SLICE_ROWS - 1) yield
  }
  return slots
}

/** @param slots rows to copy, ascending; null: all */
function* taken<Column extends Float64Array<ArrayBuffer> | Uint32Array<ArrayBuffer> | Uint8Array<ArrayBuffer>>(
  column: Column,
  slots: Uint32Array | null,
): Generator<void, Column, undefined> {
  if (slots === null) return column
  for (let row = 0; row < slots.length; row++) {
    column[row] = column[slots[row]!]!
    if (row % SLICE_ROWS === SLICE_ROWS - 1) yield
  }
  return column.slice(0, slots.length) as Column // `slice` returns the same kind of array
}

function flattened(rows: Iterable<readonly number[]>, length: number): Float64Array<ArrayBuffer> {
  const flat = new Float64Array(length)
  let at = 0
  for (const row of rows) for (const value of row) flat[at++] = value
  return flat
}

const unreadable = (what: string, cause?: unknown): StoreError =>
  new StoreError('corrupt', 'group_checkpoint_unreadable', `the checkpoint of a consumer group has ${what}`, { cause })
