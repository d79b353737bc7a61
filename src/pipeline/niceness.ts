/**
 * Sets which threads get a core first when there are too few cores. Linux has a niceness for each thread, which says how much of a core it gets, also for
 * reads and writes of the disk; and a time slice, which says how soon it gets a core.
 */
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { getPriority, setPriority } from 'node:os'
import { setFlagsFromString } from 'node:v8'
import { setTimeSlice } from '../libc.ts'

/** Niceness of a thread that gives way. On a core that both want, a thread of niceness 0 gets ten (`much`) or three times (`some`) as much as it. */
const LOWERED = { much: 10, some: 5 }
/** A request goes through three threads or more, and each may have to wait until a thread that runs has had its slice. */
const SLICE_MICROSECONDS = 300
/** Bytes that a thread which copies works on between two rests: to check, send or receive them takes 0.1 ms. */
export const STEP_BYTES = 128 << 10
/** The kernel makes 0.1 ms of it. */
const REST_MS = 0.05
const NEVER_NOTIFIED = new Int32Array(new SharedArrayBuffer(4))
const THREADS = '/proc/self/task'

/** Lowers the priority of the calling thread only. A process that was started with a lower one keeps it, because raising it needs a privilege. */
export function lowerPriority(how: keyof typeof LOWERED = 'much'): void {
  setPriority(Math.max(getPriority(), LOWERED[how]))
  setTimeSlice(0, getPriority())
}

/**
 * Yields the core in the middle of long work, for a moment or for `forMs`. A thread that is woken may have to wait until the next tick of the kernel, 4 ms,
 * for one that runs without a rest. On a core that is never free, such moments cost the caller a fifth of its time.
 */
export function yieldCore(forMs: number = REST_MS): void {
  Atomics.wait(NEVER_NOTIFIED, 0, 0, forMs)
}

/** Parts of the bytes, in their order, with a rest between each and the next. */
export function* restingSteps(bytes: Buffer): Generator<Buffer, void, undefined> {
  for (let from = 0; from < bytes.byteLength; from += STEP_BYTES) {
    if (from > 0) yieldCore()
    yield bytes.subarray(from, from + STEP_BYTES)
  }
}

/** Lets the calling thread, and all threads that it starts except those that give way, run soon when woken. Does nothing on a system that cannot do that. */
export function runSoonWhenWoken(): void {
  setTimeSlice(SLICE_MICROSECONDS, getPriority())
}

/**
 * Lowers the priority of V8's helper threads. They collect garbage for all threads, also for those that give way, and then take a core for 4 ms or more
 * from one that serves a request. Cheap collections are made without them from here on, so that a thread that answers never waits until a helper gets a
 * core.
 *
 * Called before the process starts threads of its own; those of libuv, which read files for requests, may be there.
 *
 * @param threads of this process, as they were just now
 */
export function lowerHelperPriority(threads: readonly string[] = readdirSync(THREADS)): void {
  setFlagsFromString('--no-parallel-scavenge')
  for (const name of threads) {
    const thread = Number(name)
    try {
      const isOfRequests = thread === process.pid || readFileSync(`${THREADS}/${name}/comm`, 'utf8').startsWith('libuv')
      if (!isOfRequests) setPriority(thread, Math.max(getPriority(thread), LOWERED.much))
    } catch (error) {
      if (existsSync(`${THREADS}/${name}`)) throw error // otherwise the thread has ended meanwhile
    }
  }
}
