/**
 * Calls of the C library that Node does not make by itself, and of the zstd that is part of Node. They return at once: none of them waits.
 *
 * @see man 2 flock, man 2 getsockname, man 2 setsockopt, man 2 preadv2, man 2 madvise, man 3 mallopt, man 3 malloc_trim, man 2 cachestat,
 *   man 2 getrlimit, man 2 dup, man 2 epoll_ctl, man 2 sendto, man 2 _exit, man 7 unix, zstd.h
 */
import assert from 'node:assert/strict'
import type Koffi from 'koffi'
import { requirePackage } from './require-package.ts'

const koffi = requirePackage('koffi') as typeof Koffi

const LOCK_SH = 1
const LOCK_EX = 2
const LOCK_NB = 4
const SOL_SOCKET = 1
const SO_RCVBUF = 8
const SO_ACCEPTCONN = 30
/** Size of struct sockaddr_in6, the longest address of a TCP socket. */
const ADDRESS_BYTES_MAX = 28
const PORT_AT = 2
const RWF_NOWAIT = 8
const SYS_CACHESTAT = 451
const SYS_SCHED_SETATTR = 314
/** Size of the first version of struct sched_attr. */
const SCHED_ATTR_BYTES = 48
const SCHED_FLAG_KEEP_POLICY = 8n
const PAGE_BYTES = 4096
const MADV_DONTNEED = 4
const M_MMAP_THRESHOLD = -3
const ENOSYS = 38
const EOPNOTSUPP = 95
const RLIMIT_NOFILE = 7
const F_DUPFD_CLOEXEC = 1030
const O_CLOEXEC = 0o2000000
const AF_UNIX = 1
const SOCK_DGRAM_NONBLOCK_CLOEXEC = 2 | 0o4000 | O_CLOEXEC
const MSG_NOSIGNAL = 0x4000
/** Longest name in the address of a Unix socket, with its final zero. */
const UNIX_NAME_BYTES_MAX = 108
const SOCK_STREAM_NONBLOCK_CLOEXEC = 1 | 0o4000 | O_CLOEXEC
/** An address of the family alone: the kernel finds a name. */
const UNIX_ADDRESS_NAMELESS = Buffer.from([AF_UNIX, 0])
const EPOLL_CTL_ADD = 1
const EPOLL_CTL_DEL = 2

const libc = koffi.load('libc.so.6')
const flock = libc.func('int flock(int, int)')
const getsockname = libc.func('int getsockname(int, _Out_ uint8_t *, _Inout_ uint32_t *)')
const getsockopt = libc.func('int getsockopt(int, int, int, _Out_ int *, _Inout_ uint32_t *)')
const setsockopt = libc.func('int setsockopt(int, int, int, const int *, uint32_t)')
const preadv2 = libc.func('int64_t preadv2(int, void *, int, int64_t, int)')
const syscall = libc.func('int64_t syscall(int64_t, int, const uint64_t *, _Out_ uint64_t *, uint32_t)')
/** struct cachestat_range: offset and length. */
const cachestatRange = new BigUint64Array(2)
/** struct cachestat: pages in the cache, and four other counts. */
const cachestat = new BigUint64Array(5)
const madvise = libc.func('int madvise(uint64_t, size_t, int)')
const mallopt = libc.func('int mallopt(int, int)')
const mallocTrim = libc.func('int malloc_trim(size_t)')
const memcpyToAddress = libc.func('uint64_t memcpy(void *, void *, size_t)')
const getrlimit = libc.func('int getrlimit(int, _Out_ uint64_t *)')
const fcntl = libc.func('int fcntl(int, int, int)')
const dup3 = libc.func('int dup3(int, int, int)')
const close = libc.func('int close(int)')
const socket = libc.func('int socket(int, int, int)')
const bind = libc.func('int bind(int, const uint8_t *, uint32_t)')
const listen = libc.func('int listen(int, int)')
const sendto = libc.func('int64_t sendto(int, const uint8_t *, size_t, int, const uint8_t *, uint32_t)')
const epollCtl = libc.func('int epoll_ctl(int, int, int, const uint8_t *)')
const exit = libc.func('void _exit(int)')
const syscallOfAttributes = libc.func('syscall', 'int64_t', ['int64_t', 'int', 'const uint8_t *', 'uint32_t'])
const zstd = zstdOfNode()

/**
 * Locks a file until the descriptor is closed. A shared lock excludes only exclusive ones.
 *
 * @returns null, or the code of the failure: EAGAIN when a lock through another open of the same file excludes this one
 */
export function tryLock(descriptor: number, kind: 'exclusive' | 'shared' = 'exclusive'): string | null {
  return flock(descriptor, (kind === 'shared' ? LOCK_SH : LOCK_EX) | LOCK_NB) === 0 ? null : failure()
}

/** Port of a TCP socket; null when the descriptor is no socket. */
export function localPort(descriptor: number): number | null {
  const address = Buffer.alloc(ADDRESS_BYTES_MAX)
  return getsockname(descriptor, address, [ADDRESS_BYTES_MAX]) === 0 ? address.readUInt16BE(PORT_AT) : null
}

/** True when the descriptor is a socket that accepts connections. */
export function isListening(descriptor: number): boolean {
  const value = [0]
  return getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, value, [4]) === 0 && value[0] === 1
}

/** How many bytes a socket receives before the process reads them; the kernel doubles the number. @returns null, or the code of the failure */
export function setReceiveBuffer(descriptor: number, bytes: number): string | null {
  return setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, [bytes], 4) === 0 ? null : failure()
}

/** Memory that begins at a multiple of `alignment`, as the system needs it for direct I/O, past the page cache. Its address does not change. */
export function alignedMemory(byteLength: number, alignment: number): Buffer<ArrayBuffer> {
  const memory = Buffer.from(new ArrayBuffer(byteLength + alignment))
  const address = addressOf(memory)
  const from = Number((BigInt(alignment) - (address % BigInt(alignment))) % BigInt(alignment))
  return memory.subarray(from, from + byteLength)
}

/** Fills memory, which may be shared, with zeros. The system takes its whole pages back, and gives new ones when they are written to again. */
export function clearMemory(memory: Buffer): void {
  const address = addressOf(memory)
  const pageBytes = BigInt(PAGE_BYTES)
  const from = Math.min(memory.byteLength, Number((pageBytes - (address % pageBytes)) % pageBytes))
  const to = from + Math.floor((memory.byteLength - from) / PAGE_BYTES) * PAGE_BYTES
  const isTakenBack = to > from && madvise(address + BigInt(from), to - from, MADV_DONTNEED) === 0
  if (!isTakenBack) return void memory.fill(0)
  memory.fill(0, 0, from)
  memory.fill(0, to)
}

/**
 * From now on the C library returns an allocation of so many bytes or more to the system as soon as it is freed, in all threads. By default it raises
 * this bound to the largest allocation that was freed, up to 32 MiB, and then keeps the free memory of each thread.
 */
export function setMmapThreshold(bytes: number): void {
  assert(mallopt(M_MMAP_THRESHOLD, bytes) === 1)
}

/** Returns to the system the pages of freed memory that the C library keeps, of all threads. The system gives new pages when they are used again. */
export function trimMalloc(): void {
  mallocTrim(0)
}

/** memcpy returns the first pointer. */
const addressOf = (memory: Buffer): bigint => BigInt(memcpyToAddress(memory, memory, 0) as number | bigint)

/** Memory that `readCached` fills. Its address does not change, so the same iovec serves every read. */
export class ReadMemory {
  readonly bytes: Buffer<ArrayBuffer>
  /** struct iovec: address and length, 64 bits each. */
  readonly vector = new BigUint64Array(2)
  /** The range that the next read fills. */
  from = 0
  byteLength = 0
  readonly #address: bigint

  constructor(byteLength: number) {
    this.bytes = Buffer.from(new ArrayBuffer(byteLength))
    this.#address = addressOf(this.bytes)
  }

  /** Sets the range that the next read fills. */
  point(from: number, byteLength: number): void {
    assert(from + byteLength <= this.bytes.byteLength)
    this.from = from
    this.byteLength = byteLength
    this.vector[0] = this.#address + BigInt(from)
    this.vector[1] = BigInt(byteLength)
  }
}

/**
 * Reads the bytes of a file that are in the page cache, into the range that `memory` points at; never waits for the disk.
 *
 * @returns the number of bytes read; fewer than asked when the others are not in memory. Null: the file system, or the kernel, cannot tell what is
 */
export function readCached(descriptor: number, memory: ReadMemory, at: number): number | null {
  const count = Number(preadv2(descriptor, memory.vector, 1, at, RWF_NOWAIT))
  if (count >= 0) return count
  const error = koffi.errno()
  return error === EOPNOTSUPP || error === ENOSYS ? null : 0
}

/** Whether the page cache has all of these bytes of a file. Asking reads nothing. Null: the kernel cannot tell (before Linux 6.5). */
export function isCached(descriptor: number, at: number, byteLength: number): boolean | null {
  const begin = at - (at % PAGE_BYTES)
  const bytes = at + byteLength - begin
  cachestatRange[0] = BigInt(begin)
  cachestatRange[1] = BigInt(bytes)
  if (Number(syscall(SYS_CACHESTAT, descriptor, cachestatRange, cachestat, 0)) < 0) return null
  return Number(cachestat[0]) >= Math.ceil(bytes / PAGE_BYTES)
}

/** How many descriptors this process may have. The limit may change while the process runs. */
export function descriptorLimit(): number {
  const limits = new BigUint64Array(2)
  done(getrlimit(RLIMIT_NOFILE, limits))
  return Number(limits[0])
}

/** True when a descriptor below that number is free: the kernel gives out the lowest. */
export function hasDescriptorBelow(mark: number): boolean {
  const lowest: number = fcntl(1, F_DUPFD_CLOEXEC, 0)
  if (lowest < 0) return false
  close(lowest)
  return lowest < mark
}

/** Another descriptor of the same open file. */
export function duplicate(descriptor: number): number {
  return done(fcntl(descriptor, F_DUPFD_CLOEXEC, 0))
}

/** Makes `descriptor` another descriptor of what `by` has open. */
export function replaceDescriptor(descriptor: number, by: number): void {
  done(dup3(by, descriptor, O_CLOEXEC))
}

export function closeDescriptor(descriptor: number): void {
  done(close(descriptor))
}

/** A socket that listens at an address to which no client connects. */
export function deafListener(): number {
  const descriptor = done(socket(AF_UNIX, SOCK_STREAM_NONBLOCK_CLOEXEC, 0))
  done(bind(descriptor, UNIX_ADDRESS_NAMELESS, UNIX_ADDRESS_NAMELESS.byteLength))
  done(listen(descriptor, 1))
  return descriptor
}

/** An epoll registration of a descriptor. */
export interface Watch {
  /** Descriptor of its epoll. */
  readonly loop: number
  readonly descriptor: number
  readonly events: number
  readonly data: bigint
}

export function unwatchDescriptor({ loop, descriptor }: Watch): void {
  done(epollCtl(loop, EPOLL_CTL_DEL, descriptor, null))
}

export function watchDescriptor({ loop, descriptor, events, data }: Watch): void {
  const event = Buffer.alloc(12)
  event.writeUInt32LE(events, 0)
  event.writeBigUInt64LE(data, 4)
  done(epollCtl(loop, EPOLL_CTL_ADD, descriptor, event))
}

/**
 * Sends one datagram to a Unix socket: a path, or an abstract name behind an `@`.
 *
 * @returns null, or the code of the failure
 */
export function sendDatagram(name: string, text: string): string | null {
  const isAbstract = name.startsWith('@')
  const path = Buffer.from(isAbstract ? `\0${name.slice(1)}` : `${name}\0`)
  if (path.byteLength > UNIX_NAME_BYTES_MAX) return 'ENAMETOOLONG'
  const address = Buffer.concat([Buffer.from([AF_UNIX, 0]), path])
  const bytes = Buffer.from(text)
  const descriptor = socket(AF_UNIX, SOCK_DGRAM_NONBLOCK_CLOEXEC, 0)
  if (descriptor < 0) return failure()
  const sent = Number(sendto(descriptor, bytes, bytes.byteLength, MSG_NOSIGNAL, address, address.byteLength))
  const code = sent < 0 ? failure() : null
  close(descriptor)
  return code
}

/**
 * Sets how long the calling thread, and each thread that it starts later, runs before others have their turn. With a shorter slice a woken thread gets a
 * core sooner. The call needs no privilege.
 *
 * @param microseconds 0: the system's default
 * @param niceness     the thread's present one, which does not change
 * @returns null, or the code of the failure. Kernels before Linux 6.12 do nothing and say nothing; a thread with a real-time priority is left as it is
 */
export function setTimeSlice(microseconds: number, niceness: number): string | null {
  const attributes = Buffer.alloc(SCHED_ATTR_BYTES)
  attributes.writeUInt32LE(SCHED_ATTR_BYTES, 0)
  attributes.writeBigUInt64LE(SCHED_FLAG_KEEP_POLICY, 8)
  attributes.writeInt32LE(niceness, 16)
  attributes.writeBigUInt64LE(BigInt(microseconds * 1000), 24)
  return Number(syscallOfAttributes(SYS_SCHED_SETATTR, 0, attributes, 0)) === 0 ? null : failure()
}

/**
 * Ends the process at once, with all its threads. `process.exit` ends the threads first, and Node 22 aborts when one of them is loading its modules.
 * Handlers of 'exit' are not called.
 */
export function exitAtOnce(code: number): never {
  exit(code)
  assert.fail('the process has ended')
}

/**
 * Decompresses one whole zstd frame after the other into memory of the caller. node:zlib makes an object, a context and new memory for each call.
 *
 * @returns the bytes written. Null: it cannot be done here, as the frames are damaged, longer than the memory, or Node does not show its zstd
 */
export function decompressZstd(frames: Uint8Array, into: Uint8Array): number | null {
  if (zstd === null) return null
  const result = zstd.decompress(zstd.context, into, into.byteLength, frames, frames.byteLength)
  return result <= into.byteLength ? Number(result) : null // zstd returns an error as a number greater than any length
}

interface Zstd {
  /** Decompression context of this thread. */
  readonly context: unknown
  readonly decompress: (
    context: unknown,
    into: Uint8Array,
    intoBytes: number,
    from: Uint8Array,
    fromBytes: number,
  ) => number | bigint
}

function zstdOfNode(): Zstd | null {
  try {
    const node = koffi.load(null)
    const decompress = node.func('size_t ZSTD_decompressDCtx(void *, void *, size_t, const void *, size_t)')
    const context: unknown = node.func('void *ZSTD_createDCtx(void)')()
    return context === null ? null : { context, decompress }
  } catch {
    return null // this build of Node does not export zstd
  }
}

/** Asserts that a call succeeded: only a bug of ours can make it fail. */
function done(result: number): number {
  assert(result >= 0, result < 0 ? failure() : '')
  return result
}

function failure(): string {
  const number = koffi.errno()
  const known = Object.entries(koffi.os.errno).find(([, value]) => value === number)
  return known?.[0] ?? `errno ${number}`
}
