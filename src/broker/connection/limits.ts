/** Bounds of the streaming connection, each with its unit in its name, besides those that operators set (`ConnectionLimits`). */

/** Subscriptions of one connection. */
export const SUBSCRIPTIONS_MAX = 100
/** A client that has not taken so much of what it was sent is given no more deliveries. */
export const HELD_BACK_BYTES = 1 << 20
/** Payload of what is pushed at once, shared by the subscriptions of a connection; one record at least. */
export const PUSH_BYTES_MAX = 1 << 20
export const PUSH_BYTES_MIN = 16 << 10
/** A client that asks on and does not take its answers is cut off. */
export const ANSWERS_UNREAD_BYTES_MAX = 16 << 20
/** What the operations of one connection cost at most in one turn of the event loop, about in microseconds. */
export const SLICE_COST = 5000
/** What a message that waits takes besides its bytes. */
export const WAITING_MESSAGE_BYTES = 128
