/** Bounds of the HTTP front that hold for every service. Body limits belong to the services. */
import assert from 'node:assert/strict'

/** Request line and headers together. */
export const HEADER_SECTION_BYTES_MAX = 48 * 1024
assert(32 * 1024 + 8 * 1024 < HEADER_SECTION_BYTES_MAX) // what the specifications allow for headers and request target

/** A client's own request id of up to this many visible ASCII characters is kept. */
export const REQUEST_ID_CHARACTERS_MAX = 128

/** A body that brings less than SLOW_CLIENT_BYTES_MIN in this time has stalled. */
export const SLOW_CLIENT_MS = 30_000
export const SLOW_CLIENT_BYTES_MIN = 4096

/** How often bodies still on their way are looked at. The library closes after 8 s without a sign of life, so half of it. */
export const BODY_SWEEP_MS = 4000
assert(BODY_SWEEP_MS * 2 <= 8000)

/** Answers above this are handed over piece by piece as the client reads, not copied into the library's buffer. */
export const ANSWER_BYTES_BUFFERED_MAX = 64 * 1024
