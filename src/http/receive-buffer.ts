/**
 * Keeps the receive buffers of a listening socket's connections below what the library reads at a time.
 *
 * uWebSockets.js reads 512 KiB at a time, and when it got exactly that it reads again at once, whether or not it was told to pause
 * meanwhile. A client beside it that sends as fast as it reads is then never paused: 200 MB at a stretch were seen, and bodies that wait
 * for room must be held in memory. With less than 512 KiB to be had, every read is the last of its turn, and a pause is one. Neither
 * the library nor Node sets the option of a TCP socket, so it is set by a call of libc. Connections inherit it.
 */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import koffi from 'koffi'

/** The kernel doubles it, for its own bookkeeping, and overshoots by one segment of up to 64 KiB. */
const RECEIVE_BUFFER_BYTES = 192 * 1024

const SOL_SOCKET = 1
const SO_RCVBUF = 8
/** struct sockaddr_in6, the longest there is of TCP. */
const ADDRESS_BYTES_MAX = 28
const PORT_AT = 2

const libc = koffi.load('libc.so.6')
const getsockname = libc.func('int getsockname(int, _Out_ uint8_t *, _Inout_ uint32_t *)')
const setsockopt = libc.func('int setsockopt(int, int, int, const int *, uint32_t)')

/** @param port where this process began to listen just now */
export function limitReceiveBuffer(port: number): void {
  const address = Buffer.alloc(ADDRESS_BYTES_MAX)
  let limited = 0
  for (const name of readdirSync('/proc/self/fd')) {
    const descriptor = Number(name)
    if (getsockname(descriptor, address, [ADDRESS_BYTES_MAX]) !== 0 || address.readUInt16BE(PORT_AT) !== port) continue
    assert.equal(setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, [RECEIVE_BUFFER_BYTES], 4), 0)
    limited += 1
  }
  assert(limited > 0, 'the listening socket is not among the open files')
}
