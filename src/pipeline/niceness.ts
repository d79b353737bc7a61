/**
 * Which threads get a core first when more want one than there are. Linux has a niceness for each thread, which says how much of a core it gets, and reads and
 * writes of the disk go by it, too; and a slice of time, which says how soon.
 */
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { getPriority, setPriority } from 'node:os'
import { setFlagsFromString } from 'node:v8'
import { setTimeSlice } from '../libc.ts'

/** What has 0 gets `much`: ten times, `some`: three times as much of a core that both want. */
const GIVES_WAY = { much: 10, some: 5 }
/** A request goes through three threads or more, and each may have to wait until a thread that runs has had its slice. */
const SLICE_MICROSECONDS = 300
/** Bytes that a thread which copies works on between two rests: to check, send or receive them takes 0.1 ms. */
export const STEP_BYTES = 128 << 10
/** The kernel makes 0.1 ms of it. */
const REST_MS = 0.05
const nothing = new Int32Array(new SharedArrayBuffer(4))
const THREADS = '/proc/self/task'

/** Lowers the calling thread alone. A process that was begun below stays there, because going up needs a right. */
export function giveWay(how: keyof typeof GIVES_WAY = 'much'): void {
  setPriority(Math.max(getPriority(), GIVES_WAY[how]))
  setTimeSlice(0, getPriority())
}

/**
 * Leaves the core in the middle of long work, for a moment or for so long. A thread that is woken may have to wait until the next tick of the kernel, 4 ms, for
 * one that runs without a rest. On a core that is never free, moments cost the caller a fifth of what it gets.
 */
export function letOthersRun(forMs: number = REST_MS): void {
  Atomics.wait(nothing, 0, 0, forMs)
}

/** Parts of the bytes, in their order, with a rest between each and the next. */
export function* restingSteps(bytes: Buffer): Generator<Buffer, void, undefined> {
  for (let from = 0; from < bytes.byteLength; from += STEP_BYTES) {
    if (from > 0) letOthersRun()
    yield bytes.subarray(from, from + STEP_BYTES)
  }
}

/** The calling thread, and all threads that it starts but those that give way, are woken soon. Where the system does not know of that, nothing changes. */
export function answerSoon(): void {
  setTimeSlice(SLICE_MICROSECONDS, getPriority())
}

/**
 * Lowers V8's helper threads. They collect for all threads, those that give way among them, and then take a core from one that serves a request for 4 ms or
 * more. Cheap collections are made without them from here on, so that a thread that answers never waits for one of them to get a core.
 *
 * Called before the process starts threads of its own; those of libuv, which read files for requests, may be there.
 *
 * @param threads of this process, as they were just now
 */
export function helpersGiveWay(threads: readonly string[] = readdirSync(THREADS)): void {
  setFlagsFromString('--no-parallel-scavenge')
  for (const name of threads) {
    const thread = Number(name)
    try {
      const isOfRequests = thread === process.pid || readFileSync(`${THREADS}/${name}/comm`, 'utf8').startsWith('libuv')
      if (!isOfRequests) setPriority(thread, Math.max(getPriority(thread), GIVES_WAY.much))
    } catch (error) {
      if (existsSync(`${THREADS}/${name}`)) throw error // else it has ended meanwhile
    }
  }
}
