/**
 * Which threads get a core first when more want one than there are. Linux has a niceness for each thread, which says how much of a core it gets, and reads and
 * writes of the disk go by it, too; and a slice of time, which says how soon.
 */
import { getPriority, setPriority } from 'node:os'
import { setTimeSlice } from '../libc.ts'

/** What has 0 gets `much`: ten times, `some`: three times as much of a core that both want. */
const GIVES_WAY = { much: 10, some: 5 }
/** A request goes through three threads or more, and each may have to wait until a thread that runs has had its slice. */
const SLICE_MICROSECONDS = 300

/** Lowers the calling thread alone. A process that was begun below stays there, because going up needs a right. */
export function giveWay(how: keyof typeof GIVES_WAY = 'much'): void {
  setPriority(Math.max(getPriority(), GIVES_WAY[how]))
  setTimeSlice(0, getPriority())
}

/** The calling thread, and all threads that it starts but those that give way, are woken soon. Where the system does not know of that, nothing changes. */
export function answerSoon(): void {
  setTimeSlice(SLICE_MICROSECONDS, getPriority())
}
