/** Tells operators when broker time and the wall clock differ, and when the machine slept. */
import type { Logger } from '../../observability/logger.ts'
import type { BrokerTime } from '../state/broker-time.ts'
import type { Timers } from './core.ts'

/** Larger differences are reported. */
export const CLOCK_OFFSET_MS_MAX = 1000
const WATCH_EVERY_MS = 1000

/** Null: broker time is close to the wall clock. */
export function clockProblem(offsetMs: number): string | null {
  if (Math.abs(offsetMs) <= CLOCK_OFFSET_MS_MAX) return null
  const side = offsetMs > 0 ? 'ahead of' : 'behind'
  return `broker time, by which leases expire, is ${Math.abs(offsetMs)} ms ${side} the wall clock and approaches it by 43 s a day: start with --clock reset or MQ_CLOCK=reset to set it at once`
}

/** Logs each new finding. A difference is logged again when it has changed by half. @returns a function that stops this */
export function watchClock(parts: {
  readonly time: BrokerTime
  readonly timers: Timers
  readonly logger: Pick<Logger, 'info' | 'warn'>
}): () => void {
  const { time, timers, logger } = parts
  let toldMs = 0
  let sleptMs = 0
  const watch = (): void => {
    const { offsetMs } = time
    if (time.sleptMs > sleptMs) {
      logger.warn(
        { slept_ms: Math.round(time.sleptMs - sleptMs) },
        'the machine slept: the time counted for leases and delays',
      )
      sleptMs = time.sleptMs
    }
    const problem = clockProblem(offsetMs)
    if (problem === null && toldMs !== 0) {
      toldMs = 0
      logger.info({ offset_ms: offsetMs }, 'broker time is near the wall clock again')
    } else if (problem !== null && Math.abs(offsetMs - toldMs) > Math.max(CLOCK_OFFSET_MS_MAX, Math.abs(toldMs) / 2)) {
      toldMs = offsetMs
      logger.warn({ offset_ms: offsetMs }, problem)
    }
  }
  watch()
  return timers.every(WATCH_EVERY_MS, watch)
}
