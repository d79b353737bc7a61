/** Bounds of the streaming connection, each with its unit in its name, besides those that operators set (`ConnectionLimits`). */

/** Subscriptions of one connection. */
export const SUBSCRIPTIONS_MAX = 100
/** A client with more unread bytes than this gets no more deliveries. */
export const HELD_BACK_BYTES = 1 << 20
/** Payload bytes that are pushed at once, shared by the subscriptions of a connection. Each push has at least one record. */
export const PUSH_BYTES_MAX = 1 << 20
export const PUSH_BYTES_MIN = 16 << 10
/** A client that goes on asking without reading its answers is disconnected. */
export const ANSWERS_UNREAD_BYTES_MAX = 16 << 20
/** What the operations of one connection cost at most in one turn of the event loop, about in microseconds. */
export const SLICE_COST = 5000
/** Memory that a waiting message takes besides its bytes. */
export const WAITING_MESSAGE_BYTES = 128
