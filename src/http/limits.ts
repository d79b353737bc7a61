/** Bounds of the HTTP front that hold for every service. Body limits belong to the services. */
import assert from 'node:assert/strict'

/** Request line and headers together. */
export const HEADER_SECTION_BYTES_MAX = 48 * 1024
assert(32 * 1024 + 8 * 1024 < HEADER_SECTION_BYTES_MAX) // what the specifications allow for headers and request target

/** A client's own request id is kept up to this length. */
export const REQUEST_ID_BYTES_MAX = 128

/** A body that brings nothing for this long has stalled, and a reader that takes nothing of an answer is gone. */
export const STALLED_CLIENT_MS = 30_000

/** How often slow clients are checked: half of the 8 s without a sign of life after which the library closes. */
export const STALLED_CLIENT_SWEEP_MS = 4000
assert(STALLED_CLIENT_SWEEP_MS * 2 <= 8000)

/** Less than this is slow, when others wait for the place of the client (slow-clients.ts). */
export const SLOW_BYTES_PER_SECOND = 16 * 1024
/** Time constant of the average: bytes moved that long ago weigh a third. */
export const AVERAGE_MS = 4000
/** A client that has moved bytes a few times is known to be slow after this time. */
export const SLOW_GRACE_MS = 2000
export const STEADY_MOVES_MIN = 2
/** One that has not may be about to. */
export const SILENT_GRACE_MS = 8000
export const SERVED_TIME_TICK_MS = 500

/** Clients of one server that are waited for at once: one more, and the slowest is given up. */
export const WAITED_CLIENTS_MAX = 1024
/** Memory of bodies on their way that are gathered as a whole, and of answers that are made or wait for their readers: beyond it, the slowest is given up. */
export const HELD_BODY_BYTES_MAX = 256 * 1024 * 1024

/**
 * So many sweeps nothing is read behind a chunked body whose answer is awaited: trailers that are on their way arrive meanwhile. Longer,
 * and a client that left would wait for its answer.
 */
export const TAIL_UNREAD_SWEEPS = 2

/**
 * So much of a body is read and dropped before a refusal that waits for its end is given all the same. Twice what the services take by
 * default: a body somewhat too large still comes to its end, and the client sees why; one without end costs no more than this.
 */
export const DROPPED_BYTES_MAX = 32 * 1024 * 1024

/** Answers above this are handed over piece by piece as the client reads, not copied into the library's buffer. */
export const ANSWER_BYTES_BUFFERED_MAX = 64 * 1024

/** A source that has its pieces at once and a reader that takes them at once do not hold the main thread for more than this. */
export const ANSWER_BYTES_PER_TURN = 1 << 20
