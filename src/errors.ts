/**
 * The one error type for what the world can do to us: bad requests, full disks, dead workers, damaged files.
 * Our own bugs are `assert`. Code branches on `kind`, operators search for `code`, people read `message`.
 */

export type ErrorKind =
  | 'invalid' // fix the request or the setting
  | 'notFound' // nothing there; do not retry
  | 'conflict' // state moved on: re-read, then decide
  | 'fenced' // a newer writer owns this: stop
  | 'overloaded' // retry later
  | 'unavailable' // disk or worker failed; retry, perhaps elsewhere
  | 'corrupt' // checksum or format mismatch: refuse, call an operator

/**
 * An error without a stack: most are answers to requests, its code or type says where it comes from, and nothing prints a stack. V8 takes up to 8 us
 * to capture one, which was a quarter of what main needed for a refused request.
 */
export class BareError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = 0
    super(message, options)
    Error.stackTraceLimit = stackTraceLimit
  }
}

export class StoreError extends BareError {
  readonly kind: ErrorKind
  readonly code: string // stable, greppable: 'lease_expired', 'wal_crc_mismatch'

  constructor(kind: ErrorKind, code: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'StoreError'
    this.kind = kind
    this.code = code
  }
}

/** The message of any thrown value. */
export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** Any thrown value as an error. */
export const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)))
