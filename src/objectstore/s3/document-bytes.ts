/** About the most memory that long documents take: it is reserved before a body is collected, or an answer made (`reserveRoom`). */
import { COMPLETE_BODY_BYTES_MAX, DELETE_BODY_BYTES_MAX, DELETE_KEYS_MAX } from './document-limits.ts'
import { KEY_BYTES_MAX } from './limits.ts'

/** The longest escape of a byte. */
const ESCAPED_BYTES = '&quot;'.length
/** Elements and their content beside keys. */
const ENTRY_BYTES = 1024

/** The text is made while it is sent, so only the key counts, not its escapes. */
export const LISTED_OBJECT_BYTES = KEY_BYTES_MAX + ENTRY_BYTES / 2
export const LISTED_UPLOAD_BYTES = ESCAPED_BYTES * KEY_BYTES_MAX + ENTRY_BYTES
export const LISTED_PART_BYTES = ENTRY_BYTES
export const LISTED_BUCKET_BYTES = 256

/** @param contentLength of the request; null: not declared */
export const completeBytes = (contentLength: number | null): number =>
  Math.min(contentLength ?? Infinity, COMPLETE_BODY_BYTES_MAX)

/** @param contentLength of the request; null: not declared */
export const deletedBytes = (contentLength: number | null): number =>
  ESCAPED_BYTES * Math.min(contentLength ?? Infinity, DELETE_BODY_BYTES_MAX) + DELETE_KEYS_MAX * ENTRY_BYTES
