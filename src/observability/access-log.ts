/**
 * The access log: one line for each request, or for a share of them. It says who asked for what, and how that ended; queries, which may hold signatures,
 * bodies and headers are never in it.
 */
import type { Logger } from './logger.ts'

/** Longest part of a path that is logged: no key of an object is longer. */
const PATH_CHARACTERS_MAX = 1024

interface Begun {
  readonly id: string
  readonly method: string
  readonly path: string
  readonly remoteAddress: string
}

interface Ended {
  readonly route: string
  readonly status: number
  readonly seconds: number
  readonly receivedBytes: number
  readonly sentBytes: number
  readonly tenant: string | null
  readonly principal: string | null
}

export interface AccessLogParts {
  /** Share of requests that are logged, up to 1. */
  readonly share: number
  /** From 0 to below 1. */
  readonly random: () => number
  readonly logger: Pick<Logger, 'info'>
}

export class AccessLog {
  readonly #parts: AccessLogParts

  constructor(parts: AccessLogParts) {
    this.#parts = parts
  }

  watch({ id, method, path, remoteAddress }: Begun) {
    const { share, random, logger } = this.#parts
    if (share < 1 && random() >= share) return null
    return {
      runWithin: (run: () => void): void => run(),
      ended: ({ route, status, seconds, receivedBytes, sentBytes, tenant, principal }: Ended): void =>
        logger.info(
          {
            request_id: id,
            client: remoteAddress,
            ...(tenant !== null && { tenant }),
            ...(principal !== null && { principal }),
            operation: route,
            method,
            target: path.slice(0, PATH_CHARACTERS_MAX),
            status,
            received_bytes: receivedBytes,
            sent_bytes: sentBytes,
            ms: Math.round(seconds * 1e6) / 1000,
          },
          'access',
        ),
    }
  }
}
