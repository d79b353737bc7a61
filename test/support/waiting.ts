/**
 * Time in tests: a passing test does not depend on how fast the machine is, nor on a stall of many seconds.
 *
 * W1  Code that takes a clock gets one from the test, which moves it.
 * W2  Where a real process or thread is tested, the test waits for a condition (an answer, a line of the log, a metric) with
 *     `eventually`. `LIMIT_MS` bounds it, as it bounds all else that a test waits for: only a failing test waits it out. It grows with the load of
 *     the machine.
 * W3  A test may rely on time that has passed (`timePasses`), never on time that has not. A lease that must expire is short, and no
 *     step before the wait for its end depends on it. A lease that must hold lasts an hour.
 * W4  No test holds an upper bound on how long something took. What a process computed may be bounded (`cpuMs`).
 *
 * `test/time.test.ts` keeps other timers out of tests.
 */
import { availableParallelism, loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

/** Longer than any machine that works takes, as long as no more than PROGRAMS_A_CORE programs want a core. */
const LIMIT_OF_QUIET_MACHINE_MS = 180_000
const PROGRAMS_A_CORE = 4
/** Nothing can be expected of a machine that gives a test a hundredth of a core. */
const STRETCH_MAX = 10

/** The limit by the present load. */
export function limitMs(): number {
  const stretch = loadavg()[0]! / availableParallelism() / PROGRAMS_A_CORE
  return Math.round(LIMIT_OF_QUIET_MACHINE_MS * Math.min(STRETCH_MAX, Math.max(1, stretch)))
}

/** The limit by the load at the start of the test's process. */
export const LIMIT_MS = limitMs()

/** How often a condition is looked at: less often the longer it is waited for, as most conditions are requests, which cost the machine that does the work. */
const POLL_MS = { min: 5, max: 50 }
const POLLS_A_WAIT = 20

/** W3: real time that has to pass for what is tested. More of it does no harm. */
export const timePasses = (ms: number): Promise<void> => sleep(ms)

/** For a client that asks another node when one does not answer: a process that is stopped never answers. */
export const abortAfter = (ms: number): AbortSignal => AbortSignal.timeout(ms)

/** Keeps the process alive while a test on one thread waits for a ring, which by itself does not. Returns what ends this. */
export function keepProcessAlive(): () => void {
  const timer = setInterval(() => {}, 1000)
  return () => clearInterval(timer)
}

/** Polls until the condition holds; fails when it does not in time. */
export async function eventually(condition: () => boolean | Promise<boolean>): Promise<void> {
  const startMs = performance.now()
  while (!(await condition())) {
    const waitedMs = performance.now() - startMs
    if (waitedMs > LIMIT_MS) throw new Error(`not within ${LIMIT_MS} ms: ${String(condition)}`)
    await sleep(Math.min(POLL_MS.max, Math.max(POLL_MS.min, waitedMs / POLLS_A_WAIT)))
  }
}
