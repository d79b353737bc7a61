/** Steps that write objects, at once or slowly, delete and tag them, and read them while they change. */
import { finishBody } from '../../../src/objectstore/finish-body.ts'
import assert from 'node:assert/strict'
import { FRAME_DELETED } from '../../../src/objectstore/engine/frames.ts'
import type {
  BodyTarget,
  BodyWriter,
  Bucket,
  ByteSource,
  ReceivedBody,
  StoredObject,
} from '../../../src/objectstore/operations.ts'
import { pick } from '../../support/random-history.ts'
import { Steps, objectWrittenBy } from './asking.ts'
import { factsOf, resultAfterFlush } from './client.ts'
import { summaryOf } from './reference.ts'
import type { RefBucket, RefObject } from './reference.ts'
import { PLAN, attributesOf, md5Of, writeAll } from './sent.ts'
import type { Condition } from './sent.ts'
import { storeObject } from '../../../src/objectstore/s3/objects/incoming-object.ts'

interface SlowBody {
  readonly target: BodyTarget & { readonly bucket: Bucket }
  readonly bytes: Buffer
  readonly writer: BodyWriter
  readonly since: number
  at: number
  isFull: boolean
}

interface Reader {
  readonly source: ByteSource
  /** The bytes that are still to come. */
  rest: Buffer
  isBusy: boolean
}

/** H3  a reader gets the bytes that a client sent, even if the object is overwritten and moved meanwhile */
export class ObjectSteps extends Steps {
  #slow: SlowBody[] = []
  #readers: Reader[] = []

  /** Whether bodies are still arriving. */
  get isReceiving(): boolean {
    return this.#slow.length > 0
  }

  /** The process has ended. */
  forget(): void {
    this.#slow = []
    this.#readers = []
  }

  /** All clients stop sending and reading. */
  abandonAll(): void {
    for (const { writer } of this.#slow.splice(0)) writer.abandon()
    for (const { source } of this.#readers.splice(0)) source.close()
  }

  /** Every reader asks for its next piece. */
  readAllOn(): void {
    for (const reader of this.#readers) this.#readOn(reader)
  }

  readOn(choice: number, isEnough: boolean): void {
    if (this.#readers.length > 0) this.#readOn(pick(this.#readers, choice), isEnough)
  }

  /** @param declared bytes of each write. If not the whole length, a larger body is announced, so it goes to the log in extents */
  put(bucket: Bucket | null, key: string, bytes: Buffer, condition: Condition, declared = bytes.byteLength): void {
    if (bucket === null) return
    const isLarge = declared !== bytes.byteLength
    const target = { bucket, key, upload: null }
    const since = this.troubles
    const received = async (): Promise<ReceivedBody> => {
      const writer = this.world.store.receive(isLarge ? 1 << 20 : declared, PLAN, target)
      for (let at = 0; at < bytes.byteLength; at += declared) await writeAll(writer, bytes.subarray(at, at + declared))
      return finishBody(writer)
    }
    this.#commit(target, bytes, condition, since, received)
  }

  #commit(
    { bucket, key }: BodyTarget,
    bytes: Buffer,
    condition: Condition,
    since: number,
    receive: () => Promise<ReceivedBody>,
  ): void {
    const etag = md5Of(bytes)
    const attributes = attributesOf(bytes.byteLength)
    this.ask({
      name: `put ${bucket.name}/${key}`,
      cause: 'put',
      since,
      run: async () => {
        const body = await receive()
        assert.deepEqual([body.digest.bytes, body.digest.md5], [bytes.byteLength, etag])
        const checksums = body.digest.checksums.map((checksum) => ({ ...checksum, type: 'FULL_OBJECT' as const }))
        const precondition = this.precondition(bucket, key, condition)
        return storeObject(this.world.store, { bucket, key, attributes, checksums, body, precondition })
      },
      expected: () => this.expectedOfChange(bucket, key, condition),
      check: (summary, frames) => {
        const object = objectWrittenBy(frames, bucket, key)
        assert.deepEqual(summaryOf(object), summary)
        assert.deepEqual([object.etag, object.size], [etag, bytes.byteLength])
        const { checksums, parts, ...kept } = object.details
        assert.deepEqual([kept, parts, checksums.length], [attributes, null, 1])
      },
    })
  }

  beginBody(bucket: Bucket | null, key: string, bytes: Buffer): void {
    if (bucket === null || this.#slow.length >= 8) return
    const target = { bucket, key, upload: null }
    const writer = this.world.store.receive(1 << 20, PLAN, target)
    this.#slow.push({ target, bytes, writer, since: this.troubles, at: 0, isFull: false })
  }

  feedBody(choice: number, bytes: number): void {
    if (this.#slow.length === 0) return
    const body = pick(this.#slow, choice)
    if (body.isFull) return
    const to = Math.min(body.bytes.byteLength, body.at + bytes)
    body.isFull = !body.writer.write(body.bytes.subarray(body.at, to))
    body.at = to
    body.writer.onDrain(() => {
      body.isFull = false
    })
  }

  /** Sends the rest of a body at once, or abandons it. */
  endBody(choice: number, isKept: boolean): void {
    if (this.#slow.length === 0) return
    const body = pick(this.#slow, choice)
    this.#slow.splice(this.#slow.indexOf(body), 1)
    const { target, writer, since, bytes, at } = body
    if (!isKept) return writer.abandon()
    writer.write(bytes.subarray(at))
    this.#commit(target, bytes, 'any', since, () => finishBody(writer))
  }

  delete(bucket: Bucket | null, key: string, condition: Condition): void {
    if (bucket === null) return
    this.ask({
      name: `delete ${bucket.name}/${key}`,
      run: () => this.world.store.deleteObject(bucket, key, this.precondition(bucket, key, condition)),
      expected: () => this.expectedOfChange(bucket, key, condition),
      check: (_, frames) =>
        assert.deepEqual(
          frames.map(({ type }) => type),
          [FRAME_DELETED],
        ),
    })
  }

  setTags(bucket: Bucket | null, key: string, choice: number): void {
    if (bucket === null) return
    const tags = Array.from({ length: choice % 4 }, (_, i) => ({ key: `k${i}`, value: String(choice) }))
    this.ask({
      name: `tags of ${bucket.name}/${key}`,
      cause: 'tags',
      run: () => this.world.store.setTags(bucket, key, tags),
      expected: () => (this.reference.buckets.get(bucket.number)?.objects.has(key) ? 'effect' : 'NoSuchKey'),
      check: (summary, frames) => {
        const object = objectWrittenBy(frames, bucket, key)
        assert.deepEqual([summaryOf(object), object.details.tags], [summary, tags])
      },
    })
  }

  read(bucket: Bucket | null, key: string, choice: number, isAll: boolean): void {
    if (bucket === null) return
    const versions = new Map<number, RefObject | null>()
    const look = (): void => {
      const object = this.reference.buckets.get(bucket.number)?.objects.get(key) ?? null
      versions.set(object?.position ?? -1, object)
    }
    this.ask({
      name: `read ${bucket.name}/${key}`,
      single: true,
      run: async () => this.world.store.object(bucket, key),
      expected: () => {
        look()
        return 'effect'
      },
      check: (object) => {
        const version = [...versions.values()].find((each) => isVersion(each, object))
        assert.ok(version !== undefined, 'what is read was there when it was asked, or came later')
        const frame = this.trace.frames.find(({ position }) => position === version?.position)
        assert.ok(frame === undefined || frame.state === 'stored', 'what is read is stored')
        if (object === null) return
        const from = isAll ? 0 : choice % (object.size + 1)
        const to = isAll ? object.size : from + ((choice * 7) % (object.size - from + 1))
        const rest = this.bodies.of(object.etag).subarray(from, to)
        assert.equal(this.bodies.of(object.etag).byteLength, object.size)
        this.#readers.push({ source: object.read(from, to), rest, isBusy: false })
      },
    })
  }

  /** H3 */
  #readOn(reader: Reader, isEnough = false): void {
    if (isEnough) {
      reader.source.close()
      this.#readers.splice(this.#readers.indexOf(reader), 1)
      return
    }
    if (reader.isBusy) return
    reader.isBusy = true
    void this.#takePiece(reader)
  }

  async #takePiece(reader: Reader): Promise<void> {
    try {
      const piece = await reader.source.next()
      if (!this.#readers.includes(reader)) return
      reader.isBusy = false
      const bytes = piece ?? reader.rest.subarray(0, 0)
      assert.ok(Buffer.from(bytes).equals(reader.rest.subarray(0, bytes.byteLength)), 'H3: other bytes')
      if (piece === null) assert.equal(reader.rest.byteLength, 0, 'H3: the body ends short')
      reader.rest = reader.rest.subarray(bytes.byteLength)
      if (piece === null) this.#readers.splice(this.#readers.indexOf(reader), 1)
    } catch (error) {
      if (this.#readers.includes(reader)) this.trace.failures.push(error)
    }
  }

  /** H2, H3: each object of the bucket has what its last change wrote. */
  async checkAll({ name, objects }: RefBucket): Promise<void> {
    const { store } = this.world
    const bucket = store.bucket(name)!
    for (const [key, object] of objects) {
      const found = await resultAfterFlush(this.world, Promise.resolve(store.object(bucket, key)))
      assert.ok(found !== null && isVersion(object, found), `${key} is what its last change made it`)
      assert.ok((await this.#wholeOf(found)).equals(this.bodies.of(object.etag)), `${key} has its bytes`)
    }
  }

  async #wholeOf(object: StoredObject): Promise<Buffer> {
    const source = object.read(0, object.size)
    const pieces: Uint8Array[] = []
    for (let piece = await resultAfterFlush(this.world, source.next()); piece !== null;) {
      pieces.push(Buffer.from(piece)) // the source uses this memory again
      piece = await resultAfterFlush(this.world, source.next())
    }
    return Buffer.concat(pieces)
  }
}

function isVersion(version: RefObject | null, object: StoredObject | null): boolean {
  if (version === null || object === null) return version === object
  try {
    assert.deepEqual(factsOf(object), { ...summaryOf(version), ...version.details, key: object.key })
    return true
  } catch {
    return false
  }
}
