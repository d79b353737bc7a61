/**
 * Keeps the receive buffers of a listening socket's connections below what the library reads at a time.
 *
 * uWebSockets.js reads 512 KiB at a time. If it got exactly that, it reads again at once, even if it was told to pause
 * meanwhile. So a client on the same machine that sends as fast as the library reads is never paused: 200 MB at a stretch were seen, and
 * bodies that wait for room are held in memory. If a buffer holds less than 512 KiB, every read is the last of its turn, and a pause takes effect. Neither
 * the library nor Node sets this option of a TCP socket, so a call of libc does. Connections inherit it.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { localPort, setReceiveBuffer } from '../libc.ts'

/** The kernel doubles it, for its own bookkeeping, and overshoots by one segment of up to 64 KiB. */
const RECEIVE_BUFFER_BYTES = 192 * 1024

/**
 * @param port where this process began to listen just now
 * @param openFiles where the kernel shows the open files of this process; where it does not, nothing is limited
 */
export function limitReceiveBuffer(port: number, openFiles = '/proc/self/fd'): void {
  if (!existsSync(openFiles)) return
  const descriptors = readdirSync(openFiles).map(Number)
  const listening = descriptors.filter((descriptor) => localPort(descriptor) === port)
  assert(listening.length > 0, 'the listening socket is not among the open files')
  for (const descriptor of listening) assert.equal(setReceiveBuffer(descriptor, RECEIVE_BUFFER_BYTES), null)
}
