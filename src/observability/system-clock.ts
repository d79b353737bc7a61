/** Time as the services take it in: the one place that asks the system for it. */
import { uptime } from 'node:os'

export const systemClock = {
  /** Monotonic, milliseconds. */
  nowMs: (): number => performance.now(),

  /** Milliseconds since the Unix epoch. */
  wallMs: (): number => Date.now(),

  /** Milliseconds since the machine was started: unlike `nowMs` it continues while the machine sleeps. */
  uptimeMs: (): number => uptime() * 1000,

  /** Microseconds of the system's CLOCK_MONOTONIC, by which systemd orders what it is told. */
  monotonicUs: (): bigint => process.hrtime.bigint() / 1000n,

  /** Monotonic, in milliseconds, and unlike `nowMs` the same in all threads. */
  sharedMs: (): number => Number(process.hrtime.bigint()) / 1e6,

  /** Nanoseconds since the Unix epoch, to the precision of a millisecond. */
  nowNs: (): bigint => BigInt(Date.now()) * 1_000_000n,

  /** Calls again and again until the returned function is called; does not keep the process alive. */
  every(intervalMs: number, task: () => void): () => void {
    const timer = setInterval(task, intervalMs)
    timer.unref()
    return () => clearInterval(timer)
  },

  /** Calls once; does not keep the process alive. */
  after(delayMs: number, run: () => void): void {
    setTimeout(run, delayMs).unref()
  },

  /** Calls once, unless the returned function is called before; keeps the process alive meanwhile. */
  wait(delayMs: number, run: () => void): () => void {
    const timer = setTimeout(run, delayMs)
    return () => clearTimeout(timer)
  },
}
