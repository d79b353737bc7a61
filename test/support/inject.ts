/**
 * Preloaded into every thread of a process under test (`NODE_OPTIONS=--import …/inject.ts`): breaks calls of node:fs and kills
 * threads while trigger files stand in FAULT_DIRECTORY. The program itself knows nothing of it. `faults.ts` writes the triggers.
 *
 *   trigger            content      while it is there
 *   fdatasync-eio      part of path fdatasync of such a file fails
 *   fdatasync-slow     milliseconds every fdatasync takes this much longer
 *   write-enospc       part of path writes that make such a file longer fail, whatever room the file system reports
 *   read-eio           part of path reads of such a file fail
 *   disk-full          bytes        the file system reports this many free bytes; empty: none
 *   exit-decode        count, part  the decode lane's thread ends at its count-th atomic operation from now; with a part of a
 *                                   stack, the count begins with the next operation that is called from there
 *   exit-prepare       count        likewise, that of a further decode lane
 *   exit-journal       count        likewise, a journal lane's
 *   exit-digest        count        likewise, a digest lane's
 *   exit-read          part of stack the next thread that reads a file in a call from there ends
 *   exit-write         part of path the next thread that writes such a file ends
 *   wall-shift         milliseconds the wall clock shows this much more
 *
 * Main finds nothing in the page cache. So threads read all that is not in main's own memory, from a disk that can fail.
 *
 * An exit trigger works once: the thread that removes its file is the one that ends.
 */
import fs from 'node:fs'
import fsPromises from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import workerThreads from 'node:worker_threads'
import type { MessagePort } from 'node:worker_threads'

/** Most frames of a stack that are searched. */
const FRAMES_MAX = 50

const directory = process.env['FAULT_DIRECTORY'] ?? ''
/** The functions as they are, for this file's own use. */
const { existsSync, readFileSync, readlinkSync, unlinkSync } = fs

/** Content of a trigger; null: it is not set. This has to cost little, because every call that can be broken asks. */
function trigger(name: string): string | null {
  if (!existsSync(`${directory}/${name}`)) return null
  try {
    return readFileSync(`${directory}/${name}`, 'utf8')
  } catch {
    return null
  }
}

/** Removes a trigger; true for one thread only. */
function take(name: string): boolean {
  try {
    unlinkSync(`${directory}/${name}`)
    return true
  } catch {
    return false
  }
}

const isAbout = (descriptor: number, part: string | null): boolean =>
  part !== null && readlinkSync(`/proc/self/fd/${descriptor}`).includes(part)

/** Searches the stack. The build keeps the names of functions and classes, but not those of files, except the files of threads. */
function calledFrom(part: string): boolean {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = FRAMES_MAX
  const { stack } = new Error('for its stack')
  Error.stackTraceLimit = stackTraceLimit
  return stack!.includes(part)
}

function failWith(code: string, call: string): never {
  throw Object.assign(new Error(`${code}: injected, ${call}`), { code, syscall: call })
}

function sleep(durationMs: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, durationMs)
}

/** Ends the thread, not the process: nothing of it runs after this. */
const endThread = (): never => process.exit(1)

// node:fs

const { fdatasyncSync, fstatSync, writeSync, writevSync, readSync, statfsSync } = fs

fs.fdatasyncSync = (descriptor) => {
  const slowMs = trigger('fdatasync-slow')
  if (slowMs !== null) sleep(Number(slowMs))
  if (isAbout(descriptor, trigger('fdatasync-eio'))) failWith('EIO', 'fdatasync')
  fdatasyncSync(descriptor)
}

function beforeWrite(descriptor: number, end: number): void {
  if (isAbout(descriptor, trigger('write-enospc')) && end > fstatSync(descriptor).size) failWith('ENOSPC', 'write')
  if (isAbout(descriptor, trigger('exit-write')) && take('exit-write')) endThread()
}

// Each function passes its arguments on as they came, whatever the overload.
fs.writeSync = ((descriptor: number, ...rest: [NodeJS.ArrayBufferView, number?, number?, number?]) => {
  const [bytes, , length = bytes.byteLength, at = Infinity] = rest
  beforeWrite(descriptor, at + length)
  return writeSync(descriptor, ...rest)
}) as typeof fs.writeSync

fs.writevSync = (descriptor, parts, at) => {
  const length = parts.reduce((sum, { byteLength }) => sum + byteLength, 0)
  beforeWrite(descriptor, (at ?? Infinity) + length)
  return writevSync(descriptor, parts, at)
}

/** Only main opens files like this, to read what the page cache has of them: here it has nothing. */
fs.open = ((...args: [path: string, flags: string, opened: (error: Error) => void]) => {
  const error = Object.assign(new Error('EAGAIN: injected, open'), { code: 'EAGAIN', syscall: 'open' })
  process.nextTick(() => args[2](error))
}) as typeof fs.open

/** Segments are written in advance through this. */
const { open } = fsPromises
fsPromises.open = async (...args) => {
  const file = await open(...args)
  const write = file.write.bind(file)
  file.write = (async (bytes: NodeJS.ArrayBufferView, offset: number, length: number, at: number) => {
    beforeWrite(file.fd, at + length)
    return write(bytes, offset, length, at)
  }) as typeof file.write
  return file
}

fs.readSync = (descriptor: number, ...rest: [NodeJS.ArrayBufferView]) => {
  if (isAbout(descriptor, trigger('read-eio'))) failWith('EIO', 'read')
  const reader = trigger('exit-read')
  if (reader !== null && calledFrom(reader) && take('exit-read')) endThread()
  return readSync(descriptor, ...rest)
}

fs.statfsSync = ((path: string) => {
  const stats = statfsSync(path)
  const freeBytes = trigger('disk-full')
  if (freeBytes === null) return stats
  const free = Math.floor(Number(freeBytes) / stats.bsize)
  return Object.assign(stats, { bavail: free, bfree: free })
}) as typeof fs.statfsSync

const { now } = Date
Date.now = () => now() + Number(trigger('wall-shift') ?? 0)

// Lanes look at their port between two pieces of work; there the countdown is armed.

const LANES = [
  ['exit-decode', 'DecodeLoop.'],
  ['exit-prepare', 'runPrepareLane'],
  ['exit-journal', '/workers/journal.'],
  ['exit-digest', 'runDigestLane'],
] as const
let operationsLeft = Infinity
/** The countdown begins when this is on the stack; '' when it has begun. */
let beginsIn = ''

const { receiveMessageOnPort } = workerThreads
workerThreads.receiveMessageOnPort = (port: MessagePort) => {
  for (const [name, caller] of LANES) {
    const content = trigger(name)
    if (content === null || !calledFrom(caller) || !take(name)) continue
    const [count = '', from = ''] = content.split(' ')
    operationsLeft = Number(count)
    beginsIn = from
  }
  return receiveMessageOnPort(port)
}
syncBuiltinESMExports()

function countdown(): void {
  if (operationsLeft === Infinity) return
  if (beginsIn !== '' && !calledFrom(beginsIn)) return
  beginsIn = ''
  operationsLeft--
  if (operationsLeft <= 0) endThread()
}

const { store, exchange, load } = Atomics
Atomics.store = ((...args: Parameters<typeof store>) => {
  countdown()
  return store(...args)
}) as typeof store
Atomics.exchange = ((...args: Parameters<typeof exchange>) => {
  countdown()
  return exchange(...args)
}) as typeof exchange
Atomics.load = ((...args: Parameters<typeof load>) => {
  countdown()
  return load(...args)
}) as typeof load
