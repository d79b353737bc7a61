/** Bounds of the streaming connection, each with its unit in its name. */

/** Connections of the node, and of one tenant. */
export const CONNECTIONS_MAX = 10_000
export const TENANT_CONNECTIONS_MAX = 5000
/** Operations of one connection that are not answered yet, a frame of many records counting as one. */
export const IN_FLIGHT_MAX = 10_000
/** Of one connection. */
export const SUBSCRIPTIONS_MAX = 100
/** Deliveries that a client may be given at any time. */
export const CREDIT_MAX = 100_000
/** A client that has not taken so much of what it was sent is given no more deliveries. */
export const HELD_BACK_BYTES = 1 << 20
/** Payload of what is pushed at once, shared by the subscriptions of a connection; one record at least. */
export const PUSH_BYTES_MAX = 1 << 20
export const PUSH_BYTES_MIN = 16 << 10
/** Of many small records the node takes so much in one message, however short the longest body is. */
const MESSAGE_BYTES_MIN = 1 << 20
export const messageBytesMax = (bodyBytesMax: number): number => Math.max(MESSAGE_BYTES_MIN, bodyBytesMax)
/** A client that asks on and does not take its answers is cut off. */
export const ANSWERS_UNREAD_BYTES_MAX = 16 << 20
