/** Bounds of documents, each with its unit in its name. Sources: specification "Limits", contract "Object store", Amazon S3; the rest is ours. */
import assert from 'node:assert/strict'

export const DELETE_BODY_BYTES_MAX = 1 << 20
export const DELETE_KEYS_MAX = 1000

export const PARTS_MAX = 10_000
/** Room for every part with the longest checksum, indented. */
export const COMPLETE_BODY_BYTES_MAX = 4 << 20

/** Lists that have arrived and are read, of all requests together: enough for dozens of lists of a few thousand parts. */
export const DOCUMENTS_IN_WORK_BYTES_MAX = 32 << 20
/** Lists that wait to be read. */
export const DOCUMENTS_WAITING_BYTES_MAX = 128 << 20

export const CREATE_BUCKET_BODY_BYTES_MAX = 16 << 10

export const CORS_BODY_BYTES_MAX = 64 << 10
export const CORS_RULES_MAX = 100
export const CORS_RULE_ID_LENGTH_MAX = 255
/** More headers than this no request can have, so no browser asks for them. */
export const CORS_REQUESTED_HEADERS_MAX = 100

export const POLICY_BODY_BYTES_MAX = 20 << 10

export const TAGS_MAX = 10
export const TAG_KEY_BYTES_MAX = 128
export const TAG_VALUE_BYTES_MAX = 256
export const TAGS_BYTES_MAX = 2 << 10
/** Tags at their longest with every character escaped, and what stands around them. */
export const TAGGING_BODY_BYTES_MAX = 32 << 10

export const METADATA_KEY_BYTES_MAX = 128
export const METADATA_VALUE_BYTES_MAX = 2 << 10
export const METADATA_BYTES_MAX = 2 << 10

/** For a browser's form: everything that is not the file, boundaries and part headers included. */
export const FORM_BYTES_MAX = 20 << 10

assert(COMPLETE_BODY_BYTES_MAX <= DOCUMENTS_IN_WORK_BYTES_MAX)
assert(PARTS_MAX * 300 <= COMPLETE_BODY_BYTES_MAX)
assert(TAGS_BYTES_MAX * '&quot;'.length <= TAGGING_BODY_BYTES_MAX)
