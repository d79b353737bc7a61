/**
 * Calls of the C library that Node does not make by itself. They return at once: none of them waits.
 *
 * @see man 2 flock, man 2 getsockname, man 2 setsockopt, man 2 preadv2
 */
import assert from 'node:assert/strict'
import koffi from 'koffi'

const LOCK_EX = 2
const LOCK_NB = 4
const SOL_SOCKET = 1
const SO_RCVBUF = 8
/** struct sockaddr_in6, the longest there is of TCP. */
const ADDRESS_BYTES_MAX = 28
const PORT_AT = 2
const RWF_NOWAIT = 8

const libc = koffi.load('libc.so.6')
const flock = libc.func('int flock(int, int)')
const getsockname = libc.func('int getsockname(int, _Out_ uint8_t *, _Inout_ uint32_t *)')
const setsockopt = libc.func('int setsockopt(int, int, int, const int *, uint32_t)')
const preadv2 = libc.func('int64_t preadv2(int, void *, int, int64_t, int)')
const memcpyToAddress = libc.func('uint64_t memcpy(void *, void *, size_t)')

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

/** Memory that `readCached` fills. It stays where it is, so the system is told of it by the same words again and again. */
export class ReadMemory {
  readonly bytes: Buffer<ArrayBuffer>
  /** struct iovec: address and length, 64 bits each. */
  readonly vector = new BigUint64Array(2)
  /** What is filled next. */
  from = 0
  byteLength = 0
  readonly #address: bigint

  constructor(byteLength: number) {
    this.bytes = Buffer.from(new ArrayBuffer(byteLength))
    this.#address = BigInt(memcpyToAddress(this.bytes, this.bytes, 0) as number | bigint) // it returns the first pointer
  }

  /** Sets what is filled next. */
  point(from: number, byteLength: number): void {
    assert(from + byteLength <= this.bytes.byteLength)
    this.from = from
    this.byteLength = byteLength
    this.vector[0] = this.#address + BigInt(from)
    this.vector[1] = BigInt(byteLength)
  }
}

/**
 * Reads what the page cache has of a file, where `memory` points; never waits for the disk.
 *
 * @returns the bytes read; fewer than asked when the others are not in memory, 0 also where the file system cannot tell
 */
export function readCached(descriptor: number, memory: ReadMemory, at: number): number {
  return Math.max(0, Number(preadv2(descriptor, memory.vector, 1, at, RWF_NOWAIT)))
}

function failure(): string {
  const number = koffi.errno()
  const known = Object.entries(koffi.os.errno).find(([, value]) => value === number)
  return known?.[0] ?? `errno ${number}`
}
