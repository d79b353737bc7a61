/** Bounds of requests. Sources: specification "Limits", Amazon S3 for the key. */
import assert from 'node:assert/strict'
import { HEADER_SECTION_BYTES_MAX } from '../../http/limits.ts'

export const TARGET_BYTES_MAX = 8192
/** Names and values together. */
export const HEADERS_BYTES_MAX = 32_768
export const QUERY_PARAMETERS_MAX = 64
export const KEY_BYTES_MAX = 1024
export const CONCURRENT_REQUESTS_MAX = 1024

assert(TARGET_BYTES_MAX + HEADERS_BYTES_MAX < HEADER_SECTION_BYTES_MAX)
// a key at its longest, every byte percent-encoded, with a bucket before it, leaves room for parameters
assert(3 * KEY_BYTES_MAX + 63 + 2 < TARGET_BYTES_MAX)
