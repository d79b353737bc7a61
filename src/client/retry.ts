/**
 * Retries.
 *
 * T1  an error is retried if `isWorthIt` says so, by default if it is retryable. After `attemptsMax` attempts in all the last error is thrown
 * T2  the n-th wait is a random part of a bound that doubles up to `delayMsMax` (full jitter), so that clients that failed together
 *     do not come together; the time that the broker says in Retry-After is added
 */
import { isObject } from '../plain-objects.ts'
import type { Pause } from './pause.ts'
import { HttpBrokerError, SdkError, invalidConfig } from './sdk-error.ts'

export interface RetryPolicy {
  /** Attempts, the first one included. */
  readonly attemptsMax: number
  /** Bound of the first wait. */
  readonly delayMs: number
  readonly delayMsMax: number
}

export const DEFAULT_RETRY_POLICY: RetryPolicy = Object.freeze({ attemptsMax: 5, delayMs: 50, delayMsMax: 2000 })
/** For subscriptions, so that they outlast a restart of the broker. */
export const SUBSCRIPTION_RETRY_POLICY: RetryPolicy = Object.freeze({
  attemptsMax: 60,
  delayMs: 50,
  delayMsMax: 2000,
})
const DELAY_MS_CEILING = 3_600_000

export interface Waiting {
  readonly pause: Pause
  /** At least 0, below 1. */
  readonly random: () => number
}

export async function withRetry<T>(
  attempt: () => Promise<T>,
  policy: RetryPolicy,
  { pause, random }: Waiting,
  stop: AbortSignal,
  isWorthIt: (error: SdkError) => boolean = ({ retryable }) => retryable,
): Promise<T> {
  checkPolicy(policy)
  for (let failures = 1; ; failures += 1) {
    try {
      return await attempt()
    } catch (error) {
      const again = error instanceof SdkError && isWorthIt(error) && failures < policy.attemptsMax // T1
      if (!again) throw error
      await pause(delayMsOf(error, failures, policy, random), stop)
      if (stop.aborted) throw error
    }
  }
}

/** T2 */
function delayMsOf(
  error: SdkError,
  failures: number,
  { delayMs, delayMsMax }: RetryPolicy,
  random: () => number,
): number {
  const askedMs = error instanceof HttpBrokerError ? (error.retryAfterSeconds ?? 0) * 1000 : 0
  const boundMs = Math.min(delayMsMax, delayMs * 2 ** (failures - 1))
  return Math.min(askedMs + random() * boundMs, DELAY_MS_CEILING)
}

/** @throws SdkError InvalidConfig */
export function checkPolicy(policy: RetryPolicy): void {
  if (!isObject(policy)) throw invalidConfig('the retry policy must be an object')
  const { attemptsMax, delayMs, delayMsMax } = policy
  if (!Number.isSafeInteger(attemptsMax) || attemptsMax < 1) throw invalidConfig('attemptsMax must be at least 1')
  for (const [name, value] of Object.entries({ delayMs, delayMsMax })) {
    if (value >= 0 && value <= DELAY_MS_CEILING) continue
    throw invalidConfig(`${name} must be from 0 to ${DELAY_MS_CEILING}`)
  }
}
