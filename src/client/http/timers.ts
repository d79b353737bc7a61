/** Time and chance as a client over HTTP takes them in, from what every platform has. */
import type { ClientTimers } from '../pause.ts'

export const platformTimers: ClientTimers = {
  nowMs: () => performance.now(),

  wait(delayMs, run) {
    const timer = setTimeout(run, delayMs)
    return () => clearTimeout(timer)
  },
}

const STEPS = 2 ** 32

export const platformRandom = (): number => crypto.getRandomValues(new Uint32Array(1))[0]! / STEPS
