/** How a thread gives way to others that want the same core. Linux has a niceness for each thread, and reads and writes of the disk go by it, too. */
import { getPriority, setPriority } from 'node:os'

/** By who waits: what has 0 gets ten times as much of a core as what runs in the background, when both want it, and three times as much as a question. */
const NICENESS = { question: 5, background: 10 }

/** Lowers the calling thread alone. A process that was begun below stays there, because going up needs a right. */
export function giveWay(as: keyof typeof NICENESS = 'background'): void {
  setPriority(Math.max(getPriority(), NICENESS[as]))
}
