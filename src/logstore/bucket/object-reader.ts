/**
 * Reads a bucket for all query threads: the catalog of its bundles, and pieces of their files. The one thread with the AWS SDK.
 *
 * One read opens a bundle: it gets everything that says where to look in the file. A bundle of an older version, or with a larger head, needs two or more.
 * Requests of a query are answered in their order. When the channel of the query closes, reads that no other query waits for are aborted.
 *
 * B3  if an object is not the one that was listed, the bucket is listed again
 * B4  the head of a bundle is read as soon as the bundle is listed, newest first, up to half of the cache. So an id is looked for in all these bundles
 *     without a request
 */
import assert from 'node:assert/strict'
import type { MessagePort } from 'node:worker_threads'
import { BucketCatalog } from './bucket-catalog.ts'
import type { BundleObjects } from './bucket-catalog.ts'
import { ObjectReadError } from './object-client.ts'
import type { ListedObject, ObjectClient } from './object-client.ts'
import { RangeCache } from './range-cache.ts'
import type { Piece } from './range-cache.ts'
import { BYTES_COUNTER, FAILURES_COUNTER, REPLIES_WORD, REQUESTS_COUNTER } from './remote-protocol.ts'
import type {
  ExpectedPlace,
  ObjectReaderData,
  ObjectReaderMessage,
  RemoteAccess,
  RemoteFileKind,
  RemoteReply,
  RemoteRequest,
} from './remote-protocol.ts'

const KIB = 1024
/** First read of an index file whose manifest does not say how long its opening part is. */
const UNKNOWN_HEAD_BYTES = 64 * KIB
const HEAD_BYTES_MAX = 4096 * KIB
const PIECE_BYTES: Readonly<Record<RemoteFileKind, number>> = {
  index: 64 * KIB,
  records: 256 * KIB,
  compact: 256 * KIB,
}
/** A longer read is not joined with others, and is cut only at this length. */
const LONG_READ_BYTES = 8192 * KIB
const READS_AT_ONCE = 24
/** Expected places of one query that are read before it asks for them. */
const PLACES_AHEAD = 16
/** Heads that are read at the same time before a query asks for them (B4). */
const WARMING_AT_ONCE = 4
/** Pieces that are read ahead while a query reads an index file in sequence. */
const SEQUENTIAL_AHEAD = 4

export class ObjectReader {
  readonly #client: ObjectClient
  readonly #catalog: BucketCatalog
  readonly #ranges: RangeCache
  readonly #counters: Float64Array
  readonly #post: (message: ObjectReaderMessage) => void
  readonly #closing = new AbortController()
  readonly #warmBytesMax: number
  #listing: Promise<void> | null = null
  #warming: Promise<void> = Promise.resolve()

  constructor(client: ObjectClient, data: ObjectReaderData, post: (message: ObjectReaderMessage) => void) {
    this.#client = client
    this.#catalog = new BucketCatalog(client, data.prefix)
    this.#ranges = new RangeCache(client, { bytesMax: data.cacheBytes, readsMax: READS_AT_ONCE })
    this.#warmBytesMax = data.cacheBytes / 2
    this.#counters = new Float64Array(data.counters)
    this.#post = post
  }

  /** Lists the bucket, or waits for the listing that is under way. */
  refresh(): Promise<void> {
    this.#listing ??= this.#list().finally(() => (this.#listing = null))
    return this.#listing
  }

  /** A reader found the bundle damaged: drops it from the cache, and lists the bucket again. */
  async dropDamaged(base: number): Promise<void> {
    const objects = this.#catalog.objectsOf(base)
    if (objects !== null) {
      const { index, records, compact } = objects
      this.#ranges.forget([index, records, compact].flatMap((object) => object?.key ?? []))
    }
    await this.refresh()
  }

  connect(access: RemoteAccess): void {
    const query = new QueryReads(access, {
      objectsOf: (base) => this.#catalog.objectsOf(base),
      get: (piece, signal) => this.#get(piece, signal),
    })
    access.port.on('message', (request: RemoteRequest) => query.take(request))
    access.port.on('close', () => query.end())
  }

  close(): void {
    this.#closing.abort()
    this.#client.close()
  }

  async #list(): Promise<void> {
    try {
      const state = await this.#catalog.refresh(this.#closing.signal)
      this.#post({ kind: 'catalog', state })
      this.#warming = this.#warming.then(() => this.#warm(state.bundles.map(({ base }) => base)))
    } catch (error) {
      if (!(error instanceof ObjectReadError)) throw error
      this.#post({ kind: 'unreachable', reason: error.message })
    } finally {
      this.#count()
    }
  }

  /** B4. Ignores errors: the read fails again when a query asks for it. */
  async #warm(bases: number[]): Promise<void> {
    let bytes = 0
    const warmNext = async (): Promise<void> => {
      for (let base = bases.pop(); base !== undefined && bytes < this.#warmBytesMax; base = bases.pop()) {
        const objects = this.#catalog.objectsOf(base)
        if (objects === null || this.#closing.signal.aborted) continue
        const file = objects.compact === null ? 'index' : 'compact'
        if (objects[file] === null) continue
        const [head] = piecesOf(objects, file, 0, 1)
        bytes += head!.to - head!.from
        await this.#get(head!, this.#closing.signal).catch(() => {})
      }
    }
    await Promise.all(Array.from({ length: WARMING_AT_ONCE }, warmNext))
  }

  async #get(piece: Piece, signal: AbortSignal): Promise<Uint8Array> {
    try {
      return await this.#ranges.get(piece, signal)
    } catch (error) {
      if (error instanceof ObjectReadError && error.kind === 'stale') void this.refresh() // B3
      throw error
    } finally {
      this.#count()
    }
  }

  #count(): void {
    const { requests, bytes, failures } = this.#client.counts
    this.#counters[REQUESTS_COUNTER] = requests
    this.#counters[BYTES_COUNTER] = bytes
    this.#counters[FAILURES_COUNTER] = failures
  }
}

interface QueryReadParts {
  objectsOf(base: number): BundleObjects | null
  get(piece: Piece, signal: AbortSignal): Promise<Uint8Array>
}

/** The reads of one query, and those that it is about to make. */
class QueryReads {
  readonly #port: MessagePort
  readonly #words: Int32Array
  readonly #parts: QueryReadParts
  readonly #over = new AbortController()
  /** Answers are given one after the other. */
  #answering: Promise<void> = Promise.resolve()
  /** The places that the query said it reads next: how many are behind it, and how many are read or under way. */
  #expected: {
    readonly file: RemoteFileKind
    readonly places: readonly ExpectedPlace[]
    passed: number
    begun: number
  } = { file: 'index', places: [], passed: 0, begun: 0 }
  #lastIndexRead = { base: -1, to: -1 }

  constructor({ port, words }: RemoteAccess, parts: QueryReadParts) {
    this.#port = port
    this.#words = new Int32Array(words)
    this.#parts = parts
  }

  take(request: RemoteRequest): void {
    if (request.kind === 'expect') {
      this.#expected = { file: request.file, places: request.reads, passed: 0, begun: 0 }
      return this.#readAhead()
    }
    const reply = this.#replyTo(request)
    this.#answering = this.#answering.then(async () => this.#answer(await reply))
  }

  end(): void {
    this.#over.abort(new Error('the query is over'))
  }

  #answer(reply: RemoteReply): void {
    if (this.#over.signal.aborted) return
    this.#port.postMessage(reply)
    Atomics.add(this.#words, REPLIES_WORD, 1)
    Atomics.notify(this.#words, REPLIES_WORD)
  }

  async #replyTo(request: Exclude<RemoteRequest, { kind: 'expect' }>): Promise<RemoteReply> {
    const { base, file } = request
    const objects = this.#parts.objectsOf(base)
    const object = objects?.[file] ?? null
    if (objects === null || object === null)
      return {
        kind: 'failed',
        reason: objects?.problem ?? 'the bundle is no longer in the bucket, or was replaced by another form',
      }
    if (request.kind === 'size') return { kind: 'size', bytes: object.bytes }
    try {
      return { kind: 'bytes', bytes: await this.#read(objects, request) }
    } catch (error) {
      if (this.#over.signal.aborted) return { kind: 'failed', reason: 'the query is over' }
      if (!(error instanceof ObjectReadError)) throw error
      return { kind: 'failed', reason: error.message }
    }
  }

  async #read(
    objects: BundleObjects,
    { base, file, at, bytes }: Extract<RemoteRequest, { kind: 'read' }>,
  ): Promise<Uint8Array> {
    this.#passExpected(file, base, at)
    const pieces = piecesOf(objects, file, at, bytes)
    const reading = Promise.all(pieces.map((piece) => this.#parts.get(piece, this.#over.signal)))
    this.#readSequentially(objects, base, file, pieces)
    return cut(pieces, await reading, at, bytes)
  }

  /** Reads ahead while the query reads an index file block after block. */
  #readSequentially(objects: BundleObjects, base: number, file: RemoteFileKind, pieces: readonly Piece[]): void {
    const { to } = pieces.at(-1)!
    const isNext =
      file === 'index' &&
      objects.index !== null &&
      base === this.#lastIndexRead.base &&
      pieces[0]!.from === this.#lastIndexRead.to
    if (isNext) {
      const end = Math.min(objects.index.bytes, to + SEQUENTIAL_AHEAD * PIECE_BYTES.index)
      if (end > to) for (const piece of piecesOf(objects, file, to, end - to)) this.#readPieceAhead(piece)
    }
    if (file === 'index') this.#lastIndexRead = { base, to }
  }

  /** The query is at this bundle, or at this frame of it: the places that it expected before are behind it. */
  #passExpected(file: RemoteFileKind, base: number, at: number): void {
    const expected = this.#expected
    if (file !== expected.file) return
    const isHere = (place: ExpectedPlace): boolean => place.base === base && (file !== 'records' || place.at === at)
    const here = expected.places.findIndex((place, number) => number >= expected.passed && isHere(place))
    if (here < 0) return
    expected.passed = here + 1
    this.#readAhead()
  }

  #readAhead(): void {
    const expected = this.#expected
    const { file, places } = expected
    expected.begun = Math.max(expected.begun, expected.passed)
    for (; expected.begun < places.length && expected.begun - expected.passed < PLACES_AHEAD; expected.begun++) {
      const { base, at } = places[expected.begun]!
      const objects = this.#parts.objectsOf(base)
      if (objects === null || at >= (objects[file]?.bytes ?? 0)) continue
      for (const piece of piecesOf(objects, file, at, 1)) this.#readPieceAhead(piece)
    }
  }

  /** Reads ahead. Ignores errors: the read fails again when the query asks for it. */
  #readPieceAhead(piece: Piece): void {
    this.#parts.get(piece, this.#over.signal).catch(() => {})
  }
}

/** The pieces that hold bytes [at, at + bytes) of a file, which are all in it. */
function piecesOf(objects: BundleObjects, file: RemoteFileKind, at: number, bytes: number): readonly Piece[] {
  const object = objects[file]!
  const pieceBytes = PIECE_BYTES[file]
  const head = file !== 'records' ? Math.min(objects.indexHeadBytes ?? UNKNOWN_HEAD_BYTES, HEAD_BYTES_MAX) : 0
  if (bytes > pieceBytes && at >= head) return split(object, at, at + bytes, LONG_READ_BYTES)
  const from = at < head ? 0 : head + Math.floor((at - head) / pieceBytes) * pieceBytes
  const first = { object, from, to: Math.min(object.bytes, at < head ? head : from + pieceBytes) }
  return [first, ...split(object, first.to, at + bytes, pieceBytes)]
}

/** Pieces of this length from `from` on, until one holds the byte before `until`. */
function split(object: ListedObject, from: number, until: number, pieceBytes: number): readonly Piece[] {
  const pieces: Piece[] = []
  for (let begin = from; begin < until; begin += pieceBytes) {
    pieces.push({ object, from: begin, to: Math.min(object.bytes, begin + pieceBytes) })
  }
  return pieces
}

/** Bytes [at, at + bytes) of pieces that lie one behind the other. */
function cut(pieces: readonly Piece[], contents: readonly Uint8Array[], at: number, bytes: number): Uint8Array {
  const result = new Uint8Array(bytes)
  for (const [number, { from, to }] of pieces.entries()) {
    const begin = Math.max(at, from)
    const end = Math.min(at + bytes, to)
    const content = contents[number]
    assert(content?.byteLength === to - from)
    if (begin < end) result.set(content.subarray(begin - from, end - from), begin - at)
  }
  return result
}
