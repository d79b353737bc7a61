/** Names of what the tool makes on the broker. Their numbers have a fixed width, so that they can be overwritten in place. */

const STREAM_PREFIX = 'load-'
const STREAM_DIGITS = 4
export const RECORD_DIGITS = 12

export function streamName(stream: number): string {
  return STREAM_PREFIX + String(stream).padStart(STREAM_DIGITS, '0')
}

export function streamPath(stream: number): string {
  return `/v1/streams/${streamName(stream)}`
}

export function groupPath(stream: number, group: string): string {
  return `${streamPath(stream)}/consumer-groups/${group}`
}

/** Where the digits of the stream are in a request for `streamPath`. */
export function streamDigitsAt(method: string): number {
  return `${method} ${streamPath(0)}`.length - STREAM_DIGITS
}

/** What the message ids of a run have in common; the number of the record follows. */
export function messageIdPrefix(seed: number): string {
  return `load-${seed.toString(16).padStart(8, '0')}-`
}

export function messageId(prefix: string, record: number): string {
  return prefix + String(record).padStart(RECORD_DIGITS, '0')
}

/** The number of the record with this message id; null when the id is of another run. */
export function recordOfMessageId(prefix: string, id: string): number | null {
  const digits = id.slice(prefix.length)
  return id.startsWith(prefix) && digits.length === RECORD_DIGITS && /^\d+$/.test(digits) ? Number(digits) : null
}
