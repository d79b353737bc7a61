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

/** A client that moves less is slow, and is given up when others wait for its place (slow-clients.ts). */
export const SLOW_BYTES_PER_SECOND = 16 * 1024
/** Time constant of the average: bytes moved that long ago weigh a third. */
export const AVERAGE_MS = 4000
/** A client that has moved bytes a few times is known to be slow after this time. */
export const SLOW_GRACE_MS = 2000
export const STEADY_MOVES_MIN = 2
/** A client that has not is known to be slow only after this time: it may be about to begin. */
export const SILENT_GRACE_MS = 8000
export const SERVED_TIME_TICK_MS = 500

/** How many clients one server waits for at once: when one more comes, the slowest is given up. */
export const WAITED_CLIENTS_MAX = 1024
/** Memory of bodies that are gathered as a whole, and of answers that are made or wait for their readers: beyond it, the slowest client is given up. */
export const HELD_BODY_BYTES_MAX = 256 * 1024 * 1024

/**
 * For so many sweeps, nothing is read behind a chunked body whose answer is awaited: trailers that are on their way arrive meanwhile. After that,
 * reading goes on, so that a client that left is noticed before its answer.
 */
export const TAIL_UNREAD_SWEEPS = 2

/**
 * A refusal that waits for the end of its body (uws-exchange.ts E6) is sent after so many bytes were read and dropped. This is twice what the services
 * take by default: a client whose body is somewhat too large still sends all of it, and sees why. A body without end costs no more than this.
 */
export const DROPPED_BYTES_MAX = 32 * 1024 * 1024

/** Answers above this are handed over piece by piece as the client reads, not copied into the library's buffer. */
export const ANSWER_BYTES_BUFFERED_MAX = 64 * 1024

/** After so many bytes of an answer other work has its turn, also if neither source nor reader makes the server wait. */
export const ANSWER_BYTES_PER_TURN = 1 << 20
