/**
 * Calls of the C library that Node does not make by itself. They return at once: none of them waits.
 *
 * @see man 2 flock, man 2 getsockname, man 2 setsockopt
 */
import koffi from 'koffi'

const LOCK_EX = 2
const LOCK_NB = 4
const SOL_SOCKET = 1
const SO_RCVBUF = 8
/** struct sockaddr_in6, the longest there is of TCP. */
const ADDRESS_BYTES_MAX = 28
const PORT_AT = 2

const libc = koffi.load('libc.so.6')
const flock = libc.func('int flock(int, int)')
const getsockname = libc.func('int getsockname(int, _Out_ uint8_t *, _Inout_ uint32_t *)')
const setsockopt = libc.func('int setsockopt(int, int, int, const int *, uint32_t)')

/** Null, or the code of the failure: EAGAIN when another open file of the same has the lock. It ends when the descriptor is closed. */
export function tryLock(descriptor: number): string | null {
  return flock(descriptor, LOCK_EX | LOCK_NB) === 0 ? null : failure()
}

/** Of a TCP socket; null when the descriptor is none. */
export function localPort(descriptor: number): number | null {
  const address = Buffer.alloc(ADDRESS_BYTES_MAX)
  return getsockname(descriptor, address, [ADDRESS_BYTES_MAX]) === 0 ? address.readUInt16BE(PORT_AT) : null
}

/** What a socket receives before somebody reads it; the kernel doubles it. Null, or the code of the failure. */
export function setReceiveBuffer(descriptor: number, bytes: number): string | null {
  return setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, [bytes], 4) === 0 ? null : failure()
}

function failure(): string {
  const number = koffi.errno()
  const known = Object.entries(koffi.os.errno).find(([, value]) => value === number)
  return known?.[0] ?? `errno ${number}`
}
