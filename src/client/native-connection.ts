/**
 * The connection to a broker in this process, shared by all its clients.
 *
 * N1  every error of an operation becomes an SdkError of the shape that the broker's answer over HTTP has
 * N2  `close` ends waits that may take long, and subscriptions give back what they hold. From then on no call is made, and earlier calls are
 *     waited for
 */
import { asPromises } from '../engine/as-promises.ts'
import type { AskedBroker, BrokerOperations, Caller } from '../broker/operations.ts'
import { isFailure, refusalOf } from '../broker/refusals.ts'
import type { Logger } from '../observability/logger.ts'
import { pauseOn } from './pause.ts'
import type { ClientTimers, Pause } from './pause.ts'
import type { Waiting } from './retry.ts'
import { SdkError, brokerRefused } from './sdk-error.ts'

export interface NativeConnectionParts {
  readonly operations: BrokerOperations
  readonly caller: Caller
  readonly logger: Pick<Logger, 'error'>
  readonly timers: ClientTimers
  /** At least 0, below 1. */
  readonly random: () => number
}

export class NativeConnection implements Waiting {
  readonly pause: Pause
  readonly random: () => number
  readonly timers: ClientTimers
  readonly #parts: NativeConnectionParts
  readonly #broker: AskedBroker
  readonly #closing = new AbortController()
  #isClosed = false
  #inFlight = 0
  #idle: () => void = () => {}

  constructor(parts: NativeConnectionParts) {
    this.#parts = parts
    this.#broker = asPromises(parts.operations)
    this.timers = parts.timers
    this.pause = pauseOn(parts.timers)
    this.random = parts.random
  }

  /** Aborted when the connection closes. Waits and subscriptions end with it. */
  get closing(): AbortSignal {
    return this.#closing.signal
  }

  /** N1, N2. An error before the first `await` of the operation counts as well. */
  async call<T>(operation: (broker: AskedBroker, caller: Caller) => Promise<T>): Promise<T> {
    if (this.#isClosed) throw new SdkError('Transport', 'broker_closed', 'the broker of this process is closed')
    this.#inFlight += 1
    try {
      return await operation(this.#broker, this.#parts.caller)
    } catch (error) {
      throw this.#refusal(error)
    } finally {
      this.#inFlight -= 1
      if (this.#inFlight === 0) this.#idle()
    }
  }

  /** N1, for calls that need no broker. */
  check<T>(run: () => T): T {
    try {
      return run()
    } catch (error) {
      throw this.#refusal(error)
    }
  }

  /** N2. Resolves when all calls have ended, or the time is over. */
  async close({ withinMs }: { readonly withinMs: number }): Promise<void> {
    this.#closing.abort()
    this.#isClosed = true
    if (this.#inFlight === 0) return
    const ended = new AbortController()
    this.#idle = () => ended.abort()
    await this.pause(withinMs, ended.signal)
  }

  #refusal(error: unknown): SdkError {
    if (isFailure(error)) this.#parts.logger.error({ err: error }, 'request failed')
    return brokerRefused(refusalOf(error), error)
  }
}
