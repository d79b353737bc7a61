/** Timers and random numbers for a client over HTTP, from what every platform has. */
import type { ClientTimers } from '../pause.ts'

/** A longer delay, as of the longest timeout and a wait besides, would be over at once. */
const DELAY_MS_MAX = 2 ** 31 - 1

export const platformTimers: ClientTimers = {
  nowMs: () => performance.now(),

  wait(delayMs, run) {
    const timer = setTimeout(run, Math.min(delayMs, DELAY_MS_MAX))
    return () => clearTimeout(timer)
  },
}

/** Makes a function that calls `run` soon, after this turn of the event loop. */
export function platformDefer(): (run: () => void) => void {
  const { setImmediate } = globalThis as { readonly setImmediate?: (run: () => void) => void } // absent in a browser
  if (setImmediate !== undefined) return (run) => setImmediate(run)
  const { port1, port2 } = new MessageChannel() as unknown as BrowserChannel // the types are Node's
  let runs: (() => void)[] = []
  port1.addEventListener('message', () => {
    const due = runs
    runs = []
    for (const run of due) run()
  })
  port1.start()
  return (run) => {
    if (runs.push(run) === 1) port2.postMessage(null)
  }
}

interface BrowserChannel {
  readonly port1: { addEventListener(type: 'message', listener: () => void): void; start(): void }
  readonly port2: { postMessage(message: null): void }
}

const STEPS = 2 ** 32

export const platformRandom = (): number => crypto.getRandomValues(new Uint32Array(1))[0]! / STEPS
