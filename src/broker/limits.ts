/**
 * Bounds of the broker, each with its unit in its name. Sources: specification "Limits", contract "Broker"; the rest is ours.
 * Browsers load this file with the client library: it imports nothing.
 */

export const PAGE_RECORDS_DEFAULT = 100
export const PAGE_RECORDS_MAX = 1000
export const CLAIM_MESSAGES_DEFAULT = 1
export const CLAIM_MESSAGES_MAX = 1000
/** 32 MiB of payload, and what the frames of the records have around it. */
export const CLAIM_BYTES_MAX = 33 << 20
export const LEASE_TIMEOUT_MS_DEFAULT = 30_000
/** A hundred years: sums of times stay exact. */
export const DURATION_MS_MAX = 3_155_760_000_000
export const CLAIM_WAIT_MS_MAX = 30_000
export const REPLAY_WAIT_MS_MAX = 30_000
/** Dead letters that one request looks at. */
export const REDRIVE_RECORDS_DEFAULT = 100
export const REDRIVE_RECORDS_MAX = 1000
/** Bytes of the records that one request puts back; a single record may be longer. */
export const REDRIVE_BYTES_MAX = 8 << 20
export const BATCH_RECORDS_MAX = 1000
export const REPLICA_APPLY_RECORDS_MAX = 1000
export const REPLICA_APPLY_PAYLOAD_BYTES_MAX = 64 << 20
export const REPLICA_APPLY_BODY_BYTES_MAX = 160 << 20

/** The longest that a target lets a batch wait for the batches before it. */
export const REPLICA_APPLY_WAIT_MS_MAX = 10_000
/** How long a worker asks the target to hold a batch. */
export const REPLICATION_WAIT_MS = 5000
/** Sites that a record may pass through. */
export const REPLICATION_SITES_MAX = 16
/** Payload bytes in one batch of a worker; a single record may be longer. */
export const REPLICATION_BATCH_BYTES_MAX = 2 << 20
/** Batches of all workers that are under way at once. */
export const REPLICATION_BATCHES_MAX = 12
/** Batches under way of one worker. */
export const REPLICATION_WINDOW = 4
/** How long a worker waits for the answer of its target. */
export const REPLICATION_REQUEST_MS_MAX = 15_000
/** How long a publish waits for the target of its policy. */
export const REPLICATION_ACKNOWLEDGE_MS_MAX = 5000
/** How long a poll waits for workers that ship. */
export const REPLICATION_POLL_MS_MAX = 10_000
export const REPLICATION_BACKOFF_MS_MIN = 100
export const REPLICATION_BACKOFF_MS_MAX = 30_000

export const PATH_TOKEN_BYTES_MAX = 256
/** Longest message id, name of a header, site or policy, and reason, in bytes. */
export const NAME_BYTES_MAX = 65_535
/** Copies of one record from dead-letter stream to dead-letter stream; a cycle of them ends here. */
export const DEAD_LETTER_HOPS_MAX = 10
export const HEADERS_MAX = 128
/** Names and values of all headers of a record, in UTF-8. */
export const HEADERS_BYTES_MAX = 64 << 10
/** Headers that a dead-letter copy adds to those of its publisher, its reason included. */
export const DEAD_LETTER_HEADERS_MAX = 6
export const DEAD_LETTER_HEADERS_BYTES_MAX = NAME_BYTES_MAX + 1024
/** Offsets in delivery ids and typed columns are 48 bits wide. */
export const OFFSET_MAX = 2 ** 48 - 1

/** Bodies of everything but publishing: a page of text at most. */
export const CONTROL_BODY_BYTES_MAX = 256 << 10
/** Entries of lists without paging in the specification; a longer list says `truncated`. */
export const LIST_ENTRIES_MAX = 10_000
/** Entries of lists inside a group description, which counts all of them. */
export const DESCRIPTION_ENTRIES_MAX = 1000

/** List entries that the main thread makes at once, in a few milliseconds. Other work gets its turn between two such slices. */
export const SLICE_ENTRIES = 500

/** Most claims that wait for a record at once. */
export const WAITING_CLAIMS_MAX = 10_000

/** Threads that read records. While a job runs, the reads of the next one are gathered. */
export const READ_THREADS = 1
export const READS_WAITING_MAX = 20_000
export const WRITE_QUEUE_MAX = 64

/** Memory between the main thread and the disk, at least. The longest frame takes a little less than half of it. */
export const LOG_RING_BYTES_MIN = 64 << 20
/** Most bytes by which a frame exceeds the body of its request: the copy and the names of a dead letter. */
export const FRAME_OVERHEAD_BYTES = 1 << 20
/** Payload bytes in one frame of replicated records; a single record may be longer. */
export const REPLICA_FRAME_PAYLOAD_BYTES = 16 << 20

if (2 * (REPLICA_FRAME_PAYLOAD_BYTES + FRAME_OVERHEAD_BYTES) >= LOG_RING_BYTES_MIN) {
  throw new Error('a frame of replicated records must fit into half of the smallest ring')
}
