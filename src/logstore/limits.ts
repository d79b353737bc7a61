/**
 * Bounds of the log store that are not settings: its memory and threads are sized for them. Bounds of the settings themselves are
 * in src/config/limits.ts, those of the formats beside the formats.
 */
import assert from 'node:assert/strict'
import { RECORDS_PER_BATCH_MAX } from '../../native-free-codecs/otlp-batch.ts'

const KIB = 1024
const MIB = 1024 * KIB

/** Longest tenant id or dataset name, in bytes of UTF-8. */
export const NAME_BYTES_MAX = 1024

/** Records of one segment that its index in memory has room for: a segment is closed when it is full. */
export const SEGMENT_ENTRIES_MAX = 1 << 19
/** (tenant, dataset) pairs of one segment. */
export const SEGMENT_PARTITIONS_MAX = 0xffff
export const PARTITION_NAMES_BYTES = 4 * MIB
/** Indexes in memory: one active, two being sealed, one held by a slow query. More than that, and ingest waits. */
export const SEGMENT_INDEXES = 4

/**
 * The idempotency window: what is not a bundle yet, the newest bundles, and further ones that were received in the last 15 minutes before the newest
 * (R3 in ingest/seen-records.ts). The maximum bounds what the decode lane keeps open.
 */
export const IDEMPOTENCY_BUNDLES = 64
export const IDEMPOTENCY_SECONDS = 900
export const IDEMPOTENCY_BUNDLES_MAX = 1024
/** Cache of the decode lane for the membership filters and id tables of those bundles. */
export const IDEMPOTENCY_CACHE_BYTES = 64 * MIB
/** Cache of the decode lane for compacted bundles: blocks that were read, and the tables that list them. */
export const IDEMPOTENCY_PIECES_BYTES = 32 * MIB

/** Freed memory of at least this size goes back to the system at once. Threads reuse smaller pieces; what is left of them goes back once per segment. */
export const GIVE_BACK_BYTES = 4 * MIB

/**
 * Heap limits of V8 in threads that make much garbage. The young generation is three times a semi-space, which has 4 MiB here. By default a
 * semi-space has 16 MiB, and each of these threads takes all of it in the end.
 */
export const THREAD_HEAP = { maxYoungGenerationSizeMb: 12 }

/** The arena holds bodies between their arrival and their answer: it has room for several of the largest size. */
export const ARENA_BYTES_MIN = 64 * MIB
export const ARENA_LARGEST_BODIES = 4
/** A body up to this size gets its arena slot with its first bytes and is copied once; a longer one is gathered first. */
export const DIRECT_BODY_BYTES_MAX = MIB

/** The longest inline part of a frame is a decompressed body with its tables; a ring takes messages up to half its size. */
export const LOG_RING_BYTES_MIN = 8 * MIB
export const BATCH_HEAD_BYTES_MAX = MIB

/** A query is a few hundred bytes; a cursor in it some more. */
export const QUERY_BODY_BYTES_MAX = 64 * KIB
export const QUERY_THREADS = 2
/** Threads for queries of a bucket: most of the time they wait for it. */
export const REMOTE_QUERY_THREADS = 8
/** Queries that wait for a thread. */
export const QUERY_QUEUE_MAX = 256
/** What searches remember of frames that are not compacted: enough for about 600 MB of frames. */
export const FRAME_GRAMS_BYTES = 24 * MIB
/** Exports, tails and traces are read in steps of some milliseconds. */
export const WALK_THREADS = 1
export const REMOTE_WALK_THREADS = 4
/** Steps that wait for a thread; each export, tail or trace has at most one. */
export const WALK_QUEUE_MAX = 1024
/** Sealed segments that wait for their sidecar. */
export const INDEX_QUEUE_MAX = 64

/** Defaults where a tenant's limits say nothing. Source: specification, "Limits". */
export const TENANT_WINDOW_SECONDS_DEFAULT = 60
export const TENANT_RECORDS_DEFAULT = 10_000
export const TENANT_BYTES_DEFAULT = 16 * MIB
export const TENANT_REQUESTS_DEFAULT = 16
/** Most records that a policy may allow in one batch: as many as OpenTelemetry's Collector sends by default. */
export const TENANT_BATCH_RECORDS_MAX = 8192

assert(2 * RECORDS_PER_BATCH_MAX <= SEGMENT_ENTRIES_MAX)
// One batch may bring as many new partitions as it has records.
assert(RECORDS_PER_BATCH_MAX * 2 * (2 + NAME_BYTES_MAX) <= PARTITION_NAMES_BYTES)
assert(RECORDS_PER_BATCH_MAX <= SEGMENT_PARTITIONS_MAX)
// Per record three rows of 12 bytes and two schema URLs of 8, and per distinct dataset its name.
assert(RECORDS_PER_BATCH_MAX * (3 * 12 + 2 * 8 + 2 + NAME_BYTES_MAX) + KIB <= BATCH_HEAD_BYTES_MAX)
assert(SEGMENT_INDEXES <= INDEX_QUEUE_MAX)

export interface RetentionLimits {
  /** Infinity: keep all. */
  readonly ageSecondsMax: number
  /** Bytes of all segments, the active one included; their sidecars come on top. Infinity: keep all. */
  readonly bytesMax: number
}
