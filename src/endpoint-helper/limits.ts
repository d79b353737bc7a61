/** Bounds of the endpoint helper, and how they depend on each other. */
import assert from 'node:assert/strict'

/** Bytes of one object as it is sent. */
export const BODY_BYTES_MAX = 64 * 1024

/** As the name of the route `recent_100` says. */
export const RECORDS_PER_ACTIVATION = 100

/** Kept in memory and on disk; beyond either bound the activations written longest ago are forgotten. */
export const ACTIVATIONS_MAX = 10_000
/** Counted as frames in the log, which is a little more than the text takes in memory. */
export const RECENT_BYTES_MAX = 64 * 1024 * 1024

/** Appends on their way to the disk, or waiting for a compaction; more are refused. */
export const APPENDS_IN_FLIGHT_MAX = 1024

/** Sizes of the log; tests make it small. */
export interface ObjectLogSizes {
  readonly segmentBytes: number
  readonly ringBytes: number
  /** The log is compacted when it is longer than both: this, and COMPACT_LOG_TO_LIVE times what of it is live. */
  readonly compactLogBytesMin: number
}

const SEGMENT_BYTES = 8 * 1024 * 1024
export const SIZES: ObjectLogSizes = {
  segmentBytes: SEGMENT_BYTES,
  ringBytes: 1024 * 1024,
  compactLogBytesMin: 4 * SEGMENT_BYTES,
}
export const COMPACT_LOG_TO_LIVE = 4

/** A body is stored in canonical form, which can be slightly longer than what was sent. */
assert(2 * (BODY_BYTES_MAX + 4096) <= SIZES.ringBytes / 2)

/** Free disk space that appends leave alone, so that a compaction, which gives space back, always has room. */
export const RESERVE_BYTES = RECENT_BYTES_MAX + 2 * SEGMENT_BYTES
