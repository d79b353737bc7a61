/** Bounds of the object store's engine, each with its unit in its name. Those of the protocol are in `s3/document-limits.ts` and `s3/limits.ts`. */
import assert from 'node:assert/strict'
import { availableParallelism } from 'node:os'
import { EXTENT_BYTES } from './engine/frames.ts'

/**
 * Memory between main and the disk. The longest list of extents takes a little less than half of it: 160 GB in one object, a quarter of that if all
 * extents are as short as they may be.
 */
export const LOG_RING_BYTES = 16 << 20
/** Memory of bodies on their way to the disk. */
export const ARENA_BYTES = 24 << 20
/** Threads of one kind: one for two cores, two at most. Each takes 11 MiB, and the disk and the network are seldom faster than two. */
const THREADS = Math.max(1, Math.min(2, Math.floor(availableParallelism() / 2)))
/** Bodies that wait at one lane are digested together, which costs less than bodies at two lanes. */
export const DIGEST_LANES = THREADS
export const READ_THREADS = THREADS
/** Spare buffers of one extent each for the reads of main: about as many as clients are slow at a time. */
export const CACHED_READS_SPARE = 16
/** Size of the cache of small objects, which were read and verified, where no setting gives it. */
export const objectCacheBytes = (memoryBytes: number): number => Math.min(256 << 20, memoryBytes / 32)
/** Likewise for pieces of large objects, which the page cache does not have after they were written. */
export const readCacheBytes = (memoryBytes: number): number => Math.min(1 << 30, memoryBytes / 16)
export const CLEAN_EVERY_MS = 5000
/** A segment takes at most this share of the disk, but never less than SMALL_SEGMENT_BYTES: space comes back by whole segments. */
export const DISK_SHARE_OF_SEGMENT = 1 / 64
export const SMALL_SEGMENT_BYTES = 8 << 20
/** Segments that new work leaves free: room to move what lives in a segment, and for deletes meanwhile. */
export const RESERVED_SEGMENTS = 1.5

assert(ARENA_BYTES % EXTENT_BYTES === 0)
