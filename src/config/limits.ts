/**
 * Bounds that settings must respect, and how they relate to those of the formats. What a value costs is in the description of
 * its setting.
 */
import assert from 'node:assert/strict'
import { FRAME_PAYLOAD_BYTES_MAX } from '../../native-free-codecs/frame.ts'
import { RECORDS_PER_BATCH_MAX } from '../../native-free-codecs/otlp-batch.ts'
import { REPLICAS_MAX } from '../log/log-shared.ts'

const KIB = 1024
const MIB = 1024 * KIB

/** LOGSTORE_MAX_BODY_BYTES: a smaller body has hardly room for a record; arena and rings are sized for some of the largest. */
export const LOGSTORE_BODY_BYTES = { min: 1 * KIB, default: 16 * MIB, max: 64 * MIB }

export const LOGSTORE_GATEWAY_REQUESTS_DEFAULT = 64
export const LOGSTORE_GATEWAY_RECORDS_DEFAULT = 8192
export const LOGSTORE_GATEWAY_BYTES_DEFAULT = 32 * MIB

/** LOGSTORE_SEGMENT_BYTES: a segment has one index in memory, of a fixed size, while it is written; positions in it stay below 2 GiB. */
export const LOGSTORE_SEGMENT_BYTES = { min: 1 * MIB, default: 128 * MIB, max: 1024 * MIB }

/** MQ_MAX_BODY_BYTES: a publish body is one frame, as long as the body at most. */
export const BROKER_BODY_BYTES = { min: 1 * KIB, default: 16 * MIB, max: 64 * MIB }

/** MQ_MAX_CONNECTIONS, MQ_MAX_TENANT_CONNECTIONS: each takes a file descriptor and some 20 KiB. */
export const BROKER_CONNECTIONS = { min: 1, default: 10_000, max: 100_000 }
export const BROKER_TENANT_CONNECTIONS = { ...BROKER_CONNECTIONS, default: 5000 }
/** MQ_MAX_IN_FLIGHT, of one connection: each takes some 200 bytes until it is answered. */
export const BROKER_IN_FLIGHT = { min: 1, default: 10_000, max: 1_000_000 }
/** MQ_MAX_CREDIT, of one subscription: leases that a client may hold. */
export const BROKER_CREDIT = { min: 1, default: 100_000, max: 1_000_000 }
/** MQ_MAX_MESSAGE_BYTES: the client library's own messages are half as long. */
export const BROKER_MESSAGE_BYTES = { min: 1 * MIB, max: 64 * MIB }

/** MQ_NODE_ID is repeated in answers. */
export const NODE_ID_CHARACTERS_MAX = 128

/** LOGSTORE_DECODE_LANES: one lane takes what all of them prepare, so more do not help. */
export const LOGSTORE_DECODE_LANES_MAX = 16

/** MQ_SEGMENT_BYTES: positions in a segment stay below 2 GiB. */
export const BROKER_SEGMENT_BYTES = { min: 1 * MIB, default: 64 * MIB, max: 1024 * MIB }

/** OBJSTORE_MAX_PUT_BYTES: the ceiling is S3's own. */
export const OBJSTORE_PUT_BYTES = { min: 1 * KIB, default: 16 * MIB, max: 5 * 1024 * MIB }

/** OBJSTORE_SEGMENT_BYTES: positions in a segment stay below 2 GiB. */
export const OBJSTORE_SEGMENT_BYTES = { min: 1 * MIB, default: 128 * MIB, max: 1024 * MIB }

/** OBJSTORE_READ_CACHE_BYTES, OBJSTORE_OBJECT_CACHE_BYTES */
export const OBJSTORE_CACHE_BYTES = { min: 0, max: 1024 * 1024 * MIB }

/** OBJSTORE_MULTIPART_TTL_HOURS: a week; ten years. */
export const MULTIPART_TTL_HOURS = { min: 1, default: 168, max: 24 * 3650 }

/** Per tenant. */
export const LOGSTORE_CONCURRENT_QUERIES_DEFAULT = 16

/** Directories besides the data directory; each has a thread. */
export const REPLICA_DIRECTORIES_MAX = REPLICAS_MAX - 1

// Without a setting of its own, a message may be as long as a body, or as the floor.
assert(BROKER_BODY_BYTES.max <= BROKER_MESSAGE_BYTES.max)
// A batch is one frame: the body and its tables, which are never larger than the body and a page.
assert(2 * LOGSTORE_BODY_BYTES.max + 64 * KIB <= FRAME_PAYLOAD_BYTES_MAX)
// With the defaults, one of the largest batches never fills the gateway alone.
assert(2 * LOGSTORE_BODY_BYTES.default <= LOGSTORE_GATEWAY_BYTES_DEFAULT)
assert(2 * RECORDS_PER_BATCH_MAX <= LOGSTORE_GATEWAY_RECORDS_DEFAULT)

/** TRILOG_CLUSTER_KEEP_BYTES: a node takes from the stream what it has not synced, so the floor is above every log's ring and what is written in one more second. */
export const CLUSTER_KEEP_BYTES = { min: 1024 * MIB, default: 4 * 1024 * MIB, max: 1024 * 1024 * MIB }
/** TRILOG_CLUSTER_KEEP_HOURS: ten years. */
export const CLUSTER_KEEP_HOURS_MAX = 24 * 3650
/** TRILOG_CLUSTER_REPLICAS: JetStream keeps no more. */
export const CLUSTER_REPLICAS_MAX = 5
/** TRILOG_CLUSTER_LEASE_MS: a lease has to outlast a few acknowledgements, and ends before clients give up. */
export const CLUSTER_LEASE_MS = { min: 500, default: 2000, max: 60_000 }
/** TRILOG_CLUSTER_SECRET: 16 random letters and digits cannot be guessed. */
export const CLUSTER_SECRET_CHARACTERS_MIN = 16
/** TRILOG_CLUSTER_COPY_BYTES_PER_SECOND */
export const CLUSTER_COPY_RATE = { min: 1 * MIB, default: 200 * MIB, max: 100 * 1024 * MIB }

// The largest bodies make the largest rings: twice a body with its tables, rounded up to a power of two.
assert(4 * (2 * LOGSTORE_BODY_BYTES.max) <= CLUSTER_KEEP_BYTES.min)

/** A hundred years. */
export const AUDIT_RETENTION_DAYS_MAX = 36_525
