/** Bounds of the broker that the tool keeps to, and of the tool itself. */

/** Records in a batch, a claim or a page. */
export const BATCH_MAX = 1000
/** The broker's default. */
export const BODY_BYTES_MAX = 16 * 1024 * 1024
/** Names of streams have four digits. */
export const STREAMS_MAX = 10_000
