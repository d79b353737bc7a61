/** How a thread gives way to others that want the same core. Linux has a niceness for each thread, and reads and writes of the disk go by it, too. */
import { getPriority, setPriority } from 'node:os'

/** What has 0 gets `much`: ten times, `some`: three times as much of a core that both want. */
const GIVES_WAY = { much: 10, some: 5 }

/** Lowers the calling thread alone. A process that was begun below stays there, because going up needs a right. */
export function giveWay(how: keyof typeof GIVES_WAY = 'much'): void {
  setPriority(Math.max(getPriority(), GIVES_WAY[how]))
}
