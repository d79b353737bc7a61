/**
 * The files of bundles in a bucket, for a query thread: the thread of the object reader fetches, and the query thread waits.
 *
 * F1  a read waits until the deadline of its query and no longer
 * F2  requests are answered in their order, so that one counter says whether the answer is there
 */
import assert from 'node:assert/strict'
import { receiveMessageOnPort } from 'node:worker_threads'
import { StoreError } from '../../errors.ts'
import { RECORDS_NAME, segmentName } from '../../log/segment-format.ts'
import { mergedEndOf } from '../../log/merged.ts'
import { STAND_IN_NAME } from '../../log/stand-in.ts'
import { INDEX_NAME } from '../index/index-file.ts'
import type { BundleFile, ExpectedRead, SegmentFiles } from '../index/segment-files.ts'
import { GONE_WORD, REPLIES_WORD } from './remote-protocol.ts'
import type { RemoteAccess, RemoteFileKind, RemoteReply, RemoteRequest } from './remote-protocol.ts'

export class RemoteFiles implements SegmentFiles {
  readonly failure = 'object_storage_read_failed'
  readonly readsAhead = true
  readonly #nowMs: () => number
  #access: RemoteAccess | null = null
  #deadlineAtMs = 0
  #asked = 0

  /** @param nowMs the clock of the deadlines */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  /** Runs one query; what it opens stays open for the next one. */
  during<Result>(access: RemoteAccess, deadlineAtMs: number, run: () => Result): Result {
    this.#access = access
    this.#deadlineAtMs = deadlineAtMs
    this.#asked = 0
    try {
      return run()
    } finally {
      this.#access = null
      access.port.close()
    }
  }

  open(base: number, name: string): BundleFile {
    const file = kindOf(name)
    const asked = this.#ask(`bundle ${segmentName(base)}: ${name}`, { kind: 'size', base, file })
    assert(asked.kind === 'size')
    return {
      size: () => asked.bytes,
      read: (into, at) => this.#read(base, name, into, at, asked.bytes),
      close: () => {},
    }
  }

  expect(name: string, reads: readonly ExpectedRead[]): void {
    assert(this.#access !== null)
    if (reads.length > 1) this.#post(this.#access, { kind: 'expect', file: kindOf(name), reads })
  }

  #read(base: number, name: string, into: Uint8Array, at: number, fileBytes: number): number {
    const bytes = Math.min(into.byteLength, fileBytes - at)
    if (bytes <= 0) return 0
    const file = kindOf(name)
    const read = this.#ask(`bundle ${segmentName(base)}: ${name}`, { kind: 'read', base, file, at, bytes })
    assert(read.kind === 'bytes' && read.bytes.byteLength === bytes)
    into.set(read.bytes)
    return bytes
  }

  /** @throws StoreError */
  #ask(what: string, request: RemoteRequest): Exclude<RemoteReply, { kind: 'failed' }> {
    const access = this.#access
    assert(access !== null)
    this.#post(access, request)
    this.#asked += 1
    const words = new Int32Array(access.words)
    for (let replies = Atomics.load(words, REPLIES_WORD); replies < this.#asked;) {
      if (Atomics.load(words, GONE_WORD) !== 0) throw this.#failed(what, 'the thread that reads it ended')
      const leftMs = this.#deadlineAtMs - this.#nowMs()
      if (leftMs <= 0) throw new StoreError('overloaded', 'deadline_exceeded', LATE) // F1
      Atomics.wait(words, REPLIES_WORD, replies, leftMs)
      replies = Atomics.load(words, REPLIES_WORD)
    }
    const received = receiveMessageOnPort(access.port)
    assert(received !== undefined, 'the reader posts a reply before it counts it')
    const reply = received.message as RemoteReply // the reader posts nothing else
    if (reply.kind === 'failed') throw this.#failed(what, reply.reason)
    return reply
  }

  #post({ port }: RemoteAccess, request: RemoteRequest): void {
    port.postMessage(request)
  }

  #failed(what: string, reason: string): StoreError {
    return new StoreError('unavailable', this.failure, `${what} cannot be read from object storage (${reason})`)
  }
}

const LATE =
  'the query did not finish before its deadline_ms: object storage answered too slowly; retry, narrow the time range or raise deadline_ms'

function kindOf(name: string): RemoteFileKind {
  if (name === STAND_IN_NAME || mergedEndOf(name) !== null) return 'compact'
  assert(name === INDEX_NAME || name === RECORDS_NAME)
  return name === INDEX_NAME ? 'index' : 'records'
}
