/** What an operator should know of the clocks: that broker time and the wall clock differ, and that the machine slept. */
import type { Logger } from '../../observability/logger.ts'
import type { BrokerTime } from '../state/broker-time.ts'
import type { Timers } from './core.ts'

/** A difference of this size is worth being told. */
export const CLOCK_OFFSET_MS_MAX = 1000
const WATCH_EVERY_MS = 1000

/** Null: broker time is what the wall clock shows, about. */
export function clockProblem(offsetMs: number): string | null {
  if (Math.abs(offsetMs) <= CLOCK_OFFSET_MS_MAX) return null
  const side = offsetMs > 0 ? 'ahead of' : 'behind'
  return `broker time, which leases are told in, is ${Math.abs(offsetMs)} ms ${side} the wall clock and draws near by 43 s a day: a start with --clock reset or MQ_CLOCK=reset sets it`
}

/** A line for what is new: a difference that was told is told again when it is half as much more or less. @returns stops it */
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
      logger.warn({ slept_ms: Math.round(time.sleptMs - sleptMs) }, 'the machine slept: leases and delays went on')
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
