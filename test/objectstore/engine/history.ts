/**
 * One life after the other of an object store, step by step, beside the reference: what each operation is answered, whether it may be
 * answered so, and whether the store is what its frames say.
 *
 * H1  an operation is answered when everything that was on its way to the disk when it was asked, and what it wrote, is stored
 * H2  what was refused has left nothing behind; what was answered is there, whole, until it is replaced or deleted, and then never again
 * H3  bytes of a body are what a client sent, however the object is overwritten and moved meanwhile
 * H4  nothing that is needed is in a segment that was dropped; what nobody needs goes
 */
import assert from 'node:assert/strict'
import { finished } from '../../../src/objectstore/documents/slices.ts'
import { createHash } from 'node:crypto'
import { objectChecksum } from '../../../src/objectstore/body/multipart-checksums.ts'
import {
  FRAME_CHANGE,
  FRAME_DELETED,
  FRAME_EXTENT,
  FRAME_OBJECT,
  FRAME_PART,
  decodeChange,
  decodeCommit,
} from '../../../src/objectstore/engine/frames.ts'
import { STORAGE_CLASSES } from '../../../src/objectstore/documents/storage-class.ts'
import type {
  BodyTarget,
  BodyWriter,
  Bucket,
  ByteSource,
  ListOptions,
  ObjectAttributes,
  ObjectPage,
  ObjectSummary,
  ReceivedBody,
  StoredObject,
  Upload,
} from '../../../src/objectstore/operations.ts'
import { refuse } from '../../../src/objectstore/refusals.ts'
import { payloadOf } from '../../support/log-harness.ts'
import { factsOf } from './client.ts'
import { listed, objectOf, partOf, summaryOf } from './reference.ts'
import type { RefBucket, RefObject, Reference } from './reference.ts'
import { Trace } from './trace.ts'
import type { Cause, TracedFrame } from './trace.ts'
import { EXTENT_BYTES, SEGMENT_BYTES, StoreWorld, UPLOAD_TTL_MS, turn } from './world.ts'

export const STEP_KINDS = [
  ['createBucket', 2],
  ['deleteBucket', 1],
  ['document', 1],
  ['put', 14],
  ['putLarge', 8],
  ['churn', 10],
  ['beginBody', 3],
  ['feedBody', 6],
  ['endBody', 3],
  ['delete', 6],
  ['setTags', 3],
  ['list', 4],
  ['read', 6],
  ['readOn', 10],
  ['createUpload', 4],
  ['putPart', 12],
  ['complete', 6],
  ['abort', 1],
  ['clean', 10],
  ['step', 30],
  ['stepUnheard', 2],
  ['hold', 3],
  ['serve', 4],
  ['digestLaneDies', 1],
  ['journalDies', 2],
  ['failSync', 1],
  ['fillDisk', 1],
  ['freeDisk', 1],
  ['time', 2],
  ['wallClock', 1],
  ['reopen', 3],
  ['quiesce', 1],
] as const

export type StepKind = (typeof STEP_KINDS)[number][0]

/** `a`, `b` and `c` choose; what they mean is the kind's. */
export interface Step {
  readonly kind: StepKind
  readonly a: number
  readonly b: number
  readonly c: number
  readonly yes: boolean
}

const OWNERS = ['ann', 'bob'] as const
/** Most happens in one. */
const BUCKETS = ['photos', 'photos', 'photos', 'photos', 'photos', 'logs', 'logs', 'spare'] as const
const KEYS = ['a', 'a/1', 'a/2/x', 'b', 'b/2', 'c', 'c/d/e'] as const
const HOUR_MS = 3_600_000
const COMPLETED_KEPT_MS = 24 * HOUR_MS

/** What an operation may be refused with when the disk, the journal or a lane fails. */
const FAILURES: ReadonlySet<string> = new Set(['InternalError', 'ServiceUnavailable'])

interface Operation<T> {
  readonly name: string
  readonly run: () => Promise<T>
  /** As the reference is now: 'effect', or the code of the refusal. */
  readonly expected: () => string
  /** Of an answer. */
  readonly check?: (value: T, frames: readonly TracedFrame[]) => void
  /** A question: only true of what was known when it was asked, if nothing was lost. */
  readonly judged?: boolean
  /** About one object, which may be stored when others are not. */
  readonly single?: boolean
  /** What went wrong since then excuses a failure: see `#troubles`. */
  readonly since?: number
  readonly cause?: string
}

interface Asked {
  readonly name: string
  readonly expected: () => string
  readonly possible: Set<string>
}

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
  /** What is still to come. */
  rest: Buffer
  isBusy: boolean
}

export class History {
  readonly world: StoreWorld
  readonly trace: Trace
  readonly #asked = new Set<Asked>()
  /** By ETag: every body that a client sent, or made of parts. */
  readonly #bodies = new Map<string, Buffer>()
  readonly #buckets = new Map<string, Bucket>()
  #uploads: Upload[] = []
  #slow: SlowBody[] = []
  #readers: Reader[] = []
  #bodiesEver = 0
  /** What went wrong so far, counted. */
  #troubles = 0
  #diskIsLimited = false
  /** Of uploads completed before, the store may know nothing more. */
  #forgottenBeforeMs = 0

  constructor(seed: number) {
    this.world = new StoreWorld({
      seed,
      extents: 4 + (Math.abs(seed) % 9),
      readThreads: 1 + (Math.abs(seed) % 2),
      inPageCache: [null, 0.3, 0.9][Math.abs(seed) % 3] ?? null,
    })
    this.trace = new Trace(this.world)
    this.trace.judge = (frame) => this.#judge(frame)
    this.trace.changed = () => {
      for (const { possible, expected } of this.#asked) possible.add(expected())
    }
  }

  get #reference(): Reference {
    return this.trace.reference
  }

  async begin(): Promise<void> {
    await this.world.open()
    this.trace.attach()
    this.#createBucket('photos', 'ann')
    this.#createBucket('logs', 'bob')
    await this.world.flush()
    const bucket = this.#bucket('photos')
    this.#createUpload(bucket, 'a', 0)
    for (const [i, key] of KEYS.entries()) {
      this.#put(bucket, key, this.#newBody(200 * i), 'any', 1 + 150 * i)
      await this.world.flush()
      this.#putPart(0, 1 + (i % 3), this.#newBody(250 * i), i % 2 === 0)
    }
    await this.world.flush()
  }

  async run(step: Step): Promise<void> {
    try {
      await this.#run(step)
      await turn()
      this.check()
    } catch (error) {
      if (error instanceof Error) error.message = `in step ${JSON.stringify(step)}: ${error.message}`
      throw error
    }
  }

  /** Of the state as it is, with frames on their way. */
  check(): void {
    if (this.trace.failures.length > 0) throw this.trace.failures[0]
    const { core, store, log } = this.world
    const { state } = core
    const reference = this.#reference
    assert.deepEqual(new Set(Array.from(state.buckets, ({ number }) => number)), new Set(reference.buckets.keys()))
    const oldest = log.segments[0]?.base ?? 0
    for (const { objects, ...bucket } of reference.buckets.values()) {
      assert.deepEqual(store.bucket(bucket.name), bucket)
      const { keys } = state.index.scan(bucket.number, { max: Infinity })
      const found = new Map(keys.map(({ key, value }) => [key.toString(), value.position]))
      assert.deepEqual(found, new Map(Array.from(objects, ([key, { position }]) => [key, position])))
      for (const [key, object] of objects) {
        assert.deepEqual(store.peek(bucket, key), summaryOf(object))
        assert.ok(Math.min(object.position, ...positions(object)) >= oldest, `H4: ${key} is in what was dropped`)
      }
    }
    assert.deepEqual([...state.uploads.keys()].sort(), [...reference.uploads.keys()].sort())
    for (const [id, { parts }] of reference.uploads) {
      assert.deepEqual(state.uploads.get(id)!.parts, parts)
      for (const part of parts.values()) assert.ok(Math.min(...positions(part)) >= oldest, 'H4: of a part')
    }
    for (const [id, { object, bucket, key }] of reference.completed) {
      const known = state.completed.get(id)
      if (known === undefined && object.lastModifiedMs < this.#forgottenBeforeMs) continue
      const { etag, commitSequence } = object
      assert.deepEqual([known?.etag, known?.commitSequence, known?.key], [etag, commitSequence, key])
      assert.deepEqual([known?.bucketNumber, known?.checksums], [bucket, object.details.checksums])
    }
    assert.equal(state.commitSequence, reference.commitSequence)
    assert.equal(state.liveBytes, reference.liveBytes)
  }

  /** Everything that is under way comes to its end, and then all that is there is read. */
  async quiesce(): Promise<void> {
    const { world } = this
    for (const reader of this.#readers) this.#readOn(reader)
    await world.flush()
    this.check()
    const stuck = [...this.#asked].map(({ name }) => name)
    const slow = this.#slow.length > 0
    if (!slow || !stuck.some((name) => name.startsWith('put')))
      assert.deepEqual(stuck, [], 'every operation is answered')
    if (!slow) assert.equal(world.arena.usedBytes, 0, 'no space in memory is left behind')
    for (const bucket of this.#reference.buckets.values()) await this.#readAll(bucket)
    assert.deepEqual(world.log.incidents, [])
    assert.equal(world.counters.damagedReads, 0)
  }

  /** In the end: what nobody needs goes, and then there is nothing more to clean. */
  async drain(): Promise<void> {
    await this.#abandonAll()
    await this.reopen('close')
    const { world } = this
    const { store } = world
    const bucket = store.bucket('photos') ?? (await this.#settled(store.createBucket('photos', 'ann')))
    const bound = (): number => 2 * world.core.state.liveBytes + 8 * SEGMENT_BYTES
    for (let round = 0; round < 14 && world.logBytes > bound(); round += 1) {
      this.#put(bucket, 'filler', this.#newBody(2 * SEGMENT_BYTES), 'any', 3000)
      await world.flush()
      this.#clean()
      await world.flush()
    }
    this.check()
    assert.ok(world.logBytes <= bound(), `H4: the log has ${world.logBytes} bytes, ${bound()} would do`)
    let written = -1
    for (let round = 0; round < 8 && world.log.written !== written; round += 1) {
      written = world.log.written
      this.#clean()
      await world.flush()
    }
    assert.equal(world.log.written, written, 'H4: cleaning comes to an end')
    await this.quiesce()
  }

  async reopen(how: 'close' | 'kill' | 'crash'): Promise<void> {
    const { world } = this
    if (how === 'close') await world.close()
    const { committed } = world.log
    if (how !== 'close') world.end(how)
    world.files.faults = {}
    world.files.capacityBytes = 2 ** 40
    this.#diskIsLimited = false
    this.#asked.clear()
    this.#slow = []
    this.#readers = []
    await world.open()
    this.trace.attach(committed)
    this.check()
  }

  async #run({ kind, a, b, c, yes }: Step): Promise<void> {
    const { world } = this
    switch (kind) {
      case 'createBucket':
        return this.#createBucket(pick(BUCKETS, a), pick(OWNERS, b))
      case 'deleteBucket':
        return this.#deleteBucket(this.#bucket(pick(BUCKETS, a + b)))
      case 'document':
        return this.#setDocument(this.#bucket(pick(BUCKETS, a)), yes ? 'cors' : 'policy', b % 3 === 0 ? null : c)
      case 'put':
        return this.#put(this.#bucket(pick(BUCKETS, a)), pick(KEYS, b), this.#newBody(c), pick(CONDITIONS, b >> 3))
      case 'putLarge': {
        const bytes = pick([c, 2 * EXTENT_BYTES, EXTENT_BYTES + c, 3 * EXTENT_BYTES + c], a + b)
        const condition = pick(CONDITIONS, b >> 3)
        return this.#put(this.#bucket(pick(BUCKETS, a)), pick(KEYS, b), this.#newBody(bytes), condition, 100 + 3 * c)
      }
      case 'churn':
        for (let i = 0; i < 4; i += 1) this.#put(this.#bucket('photos'), pick(KEYS, b), this.#newBody(900), 'any')
        return world.step()
      case 'beginBody':
        return this.#beginBody(this.#bucket(pick(BUCKETS, a)), pick(KEYS, b), this.#newBody(1500 + 3 * c))
      case 'feedBody':
        return this.#feedBody(a, b * 3)
      case 'endBody':
        return this.#endBody(a, yes || b % 2 === 0)
      case 'delete':
        return this.#delete(this.#bucket(pick(BUCKETS, a)), pick(KEYS, b), pick(CONDITIONS, c))
      case 'setTags':
        return this.#setTags(this.#bucket(pick(BUCKETS, a)), pick(KEYS, b), c)
      case 'list':
        return this.#list(this.#bucket(pick(BUCKETS, a)), b, c)
      case 'read':
        return this.#read(this.#bucket(pick(BUCKETS, a)), pick(KEYS, b), c, yes)
      case 'readOn':
        if (this.#readers.length > 0) this.#readOn(pick(this.#readers, a), b % 8 === 0)
        return
      case 'createUpload':
        return this.#createUpload(this.#bucket(pick(BUCKETS, a)), pick(KEYS, b), c)
      case 'putPart':
        return this.#putPart(a, 1 + (b % 4), this.#newBody(yes ? c : 3 * c), yes)
      case 'complete':
        return this.#complete(a, b, yes, pick(CONDITIONS, c))
      case 'abort':
        return this.#abort(a)
      case 'clean':
        return this.#clean()
      case 'step':
        if (world.log.state.kind === 'read-only' && a % 4 === 0) return this.reopen('crash') // somebody saw to the disk
        if (yes) await world.step()
        return world.step()
      case 'stepUnheard':
        return world.stepUnheard()
      case 'hold':
        if (a % 4 === 0) world.holdsReads = true
        else if (a % 4 === 1) world.holdsWrites = true
        else if (a % 4 === 2) world.holdsScans = true
        else world.holdsDigests = true
        return
      case 'serve':
        world.holdsReads = world.holdsWrites = world.holdsScans = world.holdsDigests = false
        return
      case 'digestLaneDies':
        this.#troubles += 1
        return world.digestLaneDies(a)
      case 'journalDies':
        return this.#journalDies(yes)
      case 'failSync':
        this.#troubles += 1
        world.files.faults = { sync: (path) => (path.endsWith('.log') ? 'EIO' : null) }
        return
      case 'fillDisk':
        this.#troubles += 1
        this.#diskIsLimited = true
        return world.limitDisk(a * 20)
      case 'freeDisk':
        this.#diskIsLimited = false
        return world.limitDisk(Infinity)
      case 'time':
        return world.advance(pick([1, 100, 5000, UPLOAD_TTL_MS, 3 * HOUR_MS], a))
      case 'wallClock':
        world.wallSkewMs += pick([HOUR_MS, -HOUR_MS, 1000, -1000, 25 * HOUR_MS], a)
        return
      case 'reopen':
        return this.reopen(pick(['close', 'kill', 'crash', 'crash'], a))
      case 'quiesce':
        await this.quiesce()
    }
  }

  // Buckets

  #createBucket(name: string, owner: string): void {
    this.#ask({
      name: `create bucket ${name}`,
      run: () => this.world.store.createBucket(name, owner),
      expected: () => {
        const existing = this.#reference.bucket(name)
        if (existing === undefined) return 'effect'
        return existing.owner === owner ? 'BucketAlreadyOwnedByYou' : 'BucketAlreadyExists'
      },
      check: (bucket, frames) => {
        this.#buckets.set(name, bucket)
        const [change] = changesOf(frames)
        assert.ok(change?.kind === 'bucket_created' && change.number === bucket.number)
        const { name: created, owner: by, cors, policy } = bucket
        assert.deepEqual([created, by, cors, policy], [name, owner, null, null])
      },
    })
  }

  #deleteBucket(bucket: Bucket | null): void {
    if (bucket === null) return
    this.#ask({
      name: `delete bucket ${bucket.name}`,
      run: () => this.world.store.deleteBucket(bucket),
      expected: () => {
        const known = this.#reference.buckets.get(bucket.number)
        if (known === undefined) return 'NoSuchBucket'
        return known.objects.size > 0 ? 'BucketNotEmpty' : 'effect'
      },
      check: (_, frames) => assert.equal(changesOf(frames)[0]?.kind, 'bucket_deleted'),
    })
  }

  #setDocument(bucket: Bucket | null, kind: 'cors' | 'policy', content: number | null): void {
    if (bucket === null) return
    const document = content === null ? null : payloadOf(content, content)
    this.#ask({
      name: `${kind} of ${bucket.name}`,
      run: () => this.world.store.setBucketDocument(bucket, kind, document),
      expected: () => (this.#reference.buckets.has(bucket.number) ? 'effect' : 'NoSuchBucket'),
    })
  }

  // Objects

  /** @param declared what is said of the length before: more than it is makes it go to the log in extents */
  #put(bucket: Bucket | null, key: string, bytes: Buffer, condition: Condition, declared = bytes.byteLength): void {
    if (bucket === null) return
    const isLarge = declared !== bytes.byteLength
    const target = { bucket, key, upload: null }
    const since = this.#troubles
    const received = async (): Promise<ReceivedBody> => {
      const writer = this.world.store.receive(isLarge ? 1 << 20 : declared, PLAN, target)
      for (let at = 0; at < bytes.byteLength; at += declared) await writeAll(writer, bytes.subarray(at, at + declared))
      return writer.finish()
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
    this.#ask({
      name: `put ${bucket.name}/${key}`,
      cause: 'put',
      since,
      run: async () => {
        const body = await receive()
        assert.deepEqual([body.digest.bytes, body.digest.md5], [bytes.byteLength, etag])
        const checksums = body.digest.checksums.map((checksum) => ({ ...checksum, type: 'FULL_OBJECT' as const }))
        const precondition = this.#precondition(bucket, key, condition)
        return this.world.store.putObject({ bucket, key, attributes, checksums, body, precondition })
      },
      expected: () => this.#expectedOfChange(bucket, key, condition),
      check: (summary, frames) => {
        const object = committed(frames, bucket, key)
        assert.deepEqual(summaryOf(object), summary)
        assert.deepEqual([object.etag, object.size], [etag, bytes.byteLength])
        const { checksums, parts, ...kept } = object.details
        assert.deepEqual([kept, parts, checksums.length], [attributes, null, 1])
      },
    })
  }

  #expectedOfChange(bucket: Bucket, key: string, condition: Condition): string {
    const known = this.#reference.buckets.get(bucket.number)
    if (known === undefined) return 'NoSuchBucket'
    return holds(condition, known.objects.get(key) ?? null) ? 'effect' : 'PreconditionFailed'
  }

  #precondition(bucket: Bucket, key: string, condition: Condition) {
    return (current: ObjectSummary | null): void => {
      const known = this.#reference.buckets.get(bucket.number)?.objects.get(key)
      this.trace.attempt(() => assert.deepEqual(current, known === undefined ? null : summaryOf(known)))
      if (!holds(condition, current)) throw refuse('PreconditionFailed')
    }
  }

  #beginBody(bucket: Bucket | null, key: string, bytes: Buffer): void {
    if (bucket === null || this.#slow.length >= 8) return
    const target = { bucket, key, upload: null }
    const writer = this.world.store.receive(1 << 20, PLAN, target)
    this.#slow.push({ target, bytes, writer, since: this.#troubles, at: 0, isFull: false })
  }

  #feedBody(choice: number, bytes: number): void {
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

  /** The rest of it, at once, or nothing more. */
  #endBody(choice: number, isKept: boolean): void {
    if (this.#slow.length === 0) return
    const body = pick(this.#slow, choice)
    this.#slow.splice(this.#slow.indexOf(body), 1)
    const { target, writer, since, bytes, at } = body
    if (!isKept) return writer.abandon()
    writer.write(bytes.subarray(at))
    this.#commit(target, bytes, 'any', since, () => writer.finish())
  }

  #delete(bucket: Bucket | null, key: string, condition: Condition): void {
    if (bucket === null) return
    this.#ask({
      name: `delete ${bucket.name}/${key}`,
      run: () => this.world.store.deleteObject(bucket, key, this.#precondition(bucket, key, condition)),
      expected: () => this.#expectedOfChange(bucket, key, condition),
      check: (_, frames) =>
        assert.deepEqual(
          frames.map(({ type }) => type),
          [FRAME_DELETED],
        ),
    })
  }

  #setTags(bucket: Bucket | null, key: string, choice: number): void {
    if (bucket === null) return
    const tags = Array.from({ length: choice % 4 }, (_, i) => ({ key: `k${i}`, value: String(choice) }))
    this.#ask({
      name: `tags of ${bucket.name}/${key}`,
      cause: 'tags',
      run: () => this.world.store.setTags(bucket, key, tags),
      expected: () => (this.#reference.buckets.get(bucket.number)?.objects.has(key) ? 'effect' : 'NoSuchKey'),
      check: (summary, frames) => {
        const object = committed(frames, bucket, key)
        assert.deepEqual([summaryOf(object), object.details.tags], [summary, tags])
      },
    })
  }

  #list(bucket: Bucket | null, b: number, c: number): void {
    if (bucket === null) return
    const options = {
      prefix: pick(['', '', 'a', 'a/', 'b/', 'x'], b),
      delimiter: pick(['', '/', '/2'], c),
      from: pick(['', '', '', 'a/2', 'b'], b >> 2),
      after: pick(['', '', 'a/1', 'c'], c >> 2),
      max: pick([1, 2, 3, 100], b + c),
    }
    const known = this.#reference.buckets.get(bucket.number)
    const objects = new Map(known?.objects)
    const expected = listed(known && { ...known, objects }, options)
    this.#ask({
      name: `list ${bucket.name}`,
      judged: true,
      run: () => this.world.store.list(bucket, optionsOf(options)),
      expected: () => 'effect',
      check: (page) => checkPage(page, expected, objects),
    })
  }

  #read(bucket: Bucket | null, key: string, choice: number, isAll: boolean): void {
    if (bucket === null) return
    const versions = new Map<number, RefObject | null>()
    const look = (): void => {
      const object = this.#reference.buckets.get(bucket.number)?.objects.get(key) ?? null
      versions.set(object?.position ?? -1, object)
    }
    this.#ask({
      name: `read ${bucket.name}/${key}`,
      single: true,
      run: () => this.world.store.object(bucket, key),
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
        const rest = this.#bodies.get(object.etag)!.subarray(from, to)
        assert.equal(this.#bodies.get(object.etag)!.byteLength, object.size)
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

  // Uploads

  #createUpload(bucket: Bucket | null, key: string, choice: number): void {
    if (bucket === null) return
    const attributes = attributesOf(choice)
    const checksum = {
      algorithm: 'CRC32',
      type: choice % 2 === 0 ? 'FULL_OBJECT' : 'COMPOSITE',
      isChosen: true,
    } as const
    this.#ask({
      name: `create upload ${bucket.name}/${key}`,
      run: () => this.world.store.createUpload({ bucket, key, attributes, checksum, initiator: 'ann' }),
      expected: () => (this.#reference.buckets.has(bucket.number) ? 'effect' : 'NoSuchBucket'),
      check: (upload, frames) => {
        this.#uploads.push(upload)
        const [change] = changesOf(frames)
        assert.ok(change?.kind === 'upload_created' && change.upload_id === upload.uploadId)
        assert.deepEqual([upload.key, upload.checksum, upload.parts], [key, checksum, []])
      },
    })
  }

  #putPart(choice: number, partNumber: number, bytes: Buffer, isSmall: boolean): void {
    const upload = this.#upload(choice)
    if (upload === undefined) return
    const { bucket, key, uploadId } = upload
    const etag = md5Of(bytes)
    this.#ask({
      name: `part ${partNumber} of ${key}`,
      cause: 'part',
      run: async () => {
        const target = { bucket, key, upload: { uploadId, partNumber } }
        const plan = { checksums: ['CRC32'] as const, sha256: true }
        const writer = this.world.store.receive(isSmall ? bytes.byteLength : 1 << 20, plan, target)
        await writeAll(writer, bytes)
        const body = await writer.finish()
        const checksum = { value: body.digest.checksums[0]!.value, bytes: bytes.byteLength }
        return this.world.store.putPart(upload, partNumber, body, checksum)
      },
      expected: () => (this.#reference.uploads.has(uploadId) ? 'effect' : 'NoSuchUpload'),
      check: (part, frames) => {
        const frame = frames.find(({ type }) => type === FRAME_PART)!
        const { extents: _, ...written } = partOf(decodeCommit(frame.payload))
        assert.deepEqual(part, written)
        assert.deepEqual([part.etag, part.size, part.partNumber], [etag, bytes.byteLength, partNumber])
      },
    })
  }

  /** As it is now, or as it was when somebody looked. */
  #complete(choice: number, selection: number, isFresh: boolean, condition: Condition): void {
    const seen = this.#upload(choice)
    if (seen === undefined) return
    const { bucket, key, uploadId, checksum } = seen
    const now = this.world.store.upload(bucket, key, uploadId)
    if (now !== null && selection % 3 === 0) this.#uploads[this.#uploads.indexOf(seen)] = now
    const upload = isFresh && now !== null ? now : seen
    const parts = upload.parts.filter(({ partNumber }) => selection % 5 === 0 || partNumber !== selection % 5)
    if (parts.length === 0) return
    const etag = md5Of(Buffer.concat(parts.map((part) => Buffer.from(part.etag, 'hex'))))
    const shown = `${etag}-${parts.length}`
    this.#bodies.set(shown, Buffer.concat(parts.map((part) => this.#bodies.get(part.etag)!)))
    const checksums = [
      finished(
        objectChecksum(
          checksum,
          parts.map((part) => part.checksum),
        ),
      ),
    ]
    const precondition = this.#precondition(bucket, key, condition)
    this.#ask({
      name: `complete ${bucket.name}/${key}`,
      cause: 'complete',
      run: () => this.world.store.completeUpload({ upload, parts, etag, checksums, precondition }),
      expected: () => {
        if (!this.#reference.buckets.has(bucket.number)) return 'NoSuchBucket'
        const known = this.#reference.uploads.get(uploadId)
        if (known === undefined) return 'NoSuchUpload'
        if (parts.some((part) => known.parts.get(part.partNumber)?.etag !== part.etag)) return 'InvalidPart'
        return this.#expectedOfChange(bucket, key, condition)
      },
      check: (summary, frames) => {
        const object = committed(frames, bucket, key)
        assert.deepEqual(summaryOf(object), summary)
        assert.deepEqual([object.etag, object.size], [shown, parts.reduce((sum, { size }) => sum + size, 0)])
        const listedParts = parts.map(({ partNumber, size, checksum: { value } }) => ({
          partNumber,
          size,
          checksum: value,
        }))
        assert.deepEqual([object.details.parts, object.details.checksums], [listedParts, checksums])
      },
    })
  }

  #abort(choice: number): void {
    const upload = this.#upload(choice)
    if (upload === undefined) return
    this.#ask({
      name: `abort ${upload.key}`,
      run: () => this.world.store.abortUpload(upload),
      expected: () => (this.#reference.uploads.has(upload.uploadId) ? 'effect' : 'NoSuchUpload'),
      check: (_, frames) => assert.equal(changesOf(frames)[0]?.kind, 'upload_aborted'),
    })
  }

  // What the world does

  #clean(): void {
    this.#forgottenBeforeMs = Math.max(this.#forgottenBeforeMs, this.world.wallMs - COMPLETED_KEPT_MS)
    this.#ask({
      name: 'clean',
      cause: 'clean',
      run: () => this.world.engine.cleaner.enforce(),
      expected: () => 'effect',
    })
  }

  async #journalDies(unheard: boolean): Promise<void> {
    const { world } = this
    if (world.log.state.kind === 'read-only') return
    this.#troubles += 1
    world.files.faults = {}
    world.limitDisk(Infinity)
    this.#diskIsLimited = false
    await world.journalDies(unheard ? 'unheard' : 'heard')
  }

  async #abandonAll(): Promise<void> {
    for (const { writer } of this.#slow.splice(0)) writer.abandon()
    for (const { source } of this.#readers.splice(0)) source.close()
    await this.world.flush()
  }

  /** Before a frame is applied: what moves an object or a part changes nothing else, and who tags one changes the tags. */
  #judge({ type, position, payload, cause }: TracedFrame): void {
    if (type === FRAME_OBJECT && (cause?.kind === 'clean' || cause?.kind === 'tags')) {
      const frame = decodeCommit(payload)
      const current = this.#reference.buckets.get(frame.bucket)?.objects.get(frame.key.toString())
      assert.ok(current !== undefined, 'what is written again is there')
      const written = objectOf(frame, position)
      const kept = ({ details, ...object }: RefObject) => ({
        ...summaryOf(object),
        ...details,
        tags: cause.kind === 'clean' ? details.tags : [],
      })
      assert.deepEqual(kept(written), kept(current))
    } else if (type === FRAME_PART && cause?.kind === 'clean') {
      const frame = decodeCommit(payload)
      const current = this.#reference.uploads.get(frame.uploadId!)?.parts.get(frame.partNumber)
      assert.ok(current !== undefined, 'the part that is moved is there')
      const written = partOf(frame)
      assert.deepEqual({ ...written, extents: [] }, { ...current, extents: [] })
    } else if (type === FRAME_CHANGE && cause?.kind === 'clean') {
      const change = decodeChange(payload)
      assert.ok(change.kind === 'upload_aborted', 'cleaning only gives up uploads')
      const { created } = this.#reference.uploads.get(change.upload_id)!
      assert.ok(created.at_ms <= this.world.wallMs - UPLOAD_TTL_MS, 'an upload is given up when its time is over')
    }
  }

  // How they are asked

  /** H1, H2 */
  #ask<T>({
    name,
    run,
    expected,
    check,
    judged = false,
    single = false,
    since = this.#troubles,
    cause = 'other',
  }: Operation<T>): void {
    const { trace } = this
    const frames: TracedFrame[] = []
    const before = trace.waiting
    const { losses } = trace
    const asked: Asked = { name, expected, possible: new Set([expected()]) }
    this.#asked.add(asked)
    const about: Cause = { kind: cause, frames }
    const settle = (judge: () => void): void => {
      if (!this.#asked.delete(asked)) return // of an earlier life
      trace.attempt(() => {
        try {
          judge()
        } catch (error) {
          if (error instanceof Error) error.message = `${name}: ${error.message}`
          throw error
        }
      })
    }
    const isTroubled = (): boolean =>
      this.#troubles > since || this.#diskIsLimited || this.world.log.state.kind !== 'ok'
    trace.causedBy(about, run).then(
      (value) =>
        settle(() => {
          assert.ok(asked.possible.has('effect'), `answered, but is ${[...asked.possible].join()}`)
          if (cause === 'clean') return
          const waiting = (single ? frames : [...before, ...frames]).filter(({ state }) => state === 'waiting')
          assert.equal(waiting.length, 0, 'H1: answered before the disk')
          assert.ok(
            frames.every(({ state }) => state === 'stored'),
            'H1: answered, and lost',
          )
          if (!judged || losses === trace.losses) check?.(value, frames)
        }),
      (error: unknown) =>
        settle(() => {
          const code = error instanceof Error && 'code' in error ? String(error.code) : String(error)
          const left = frames.filter(({ type, state }) => state !== 'lost' && type !== FRAME_EXTENT)
          assert.equal(left.length, 0, `H2: refused with ${code}, and left something behind`)
          if (asked.possible.has(code)) {
            assert.ok(
              before.every(({ state }) => state !== 'waiting'),
              'H1: refused for what is not stored',
            )
            return
          }
          const isExcused = FAILURES.has(code) && isTroubled()
          assert.ok(isExcused, `failed for no reason: ${error instanceof Error ? error.stack : String(error)}`)
        }),
    )
  }

  /** Of a promise that needs the world to move. */
  async #settled<T>(promise: Promise<T>): Promise<T> {
    await this.world.flush()
    return promise
  }

  async #readAll(known: RefBucket): Promise<void> {
    const { store } = this.world
    const bucket = store.bucket(known.name)!
    const keys: string[] = []
    for (let from: Buffer | null = Buffer.alloc(0); from !== null;) {
      const options = { prefix: Buffer.alloc(0), delimiter: Buffer.alloc(0), after: Buffer.alloc(0), from, max: 3 }
      const page: ObjectPage = await this.#settled(store.list(bucket, options))
      keys.push(...page.objects.map(({ key }) => key.toString()))
      from = page.next
    }
    assert.deepEqual(keys, [...known.objects.keys()].sort())
    for (const [key, object] of known.objects) {
      const found = await this.#settled(store.object(bucket, key))
      assert.ok(found !== null && isVersion(object, found), `${key} is what its last change made it`)
      assert.ok((await this.#wholeOf(found)).equals(this.#bodies.get(object.etag)!), `${key} has its bytes`)
    }
  }

  async #wholeOf(object: StoredObject): Promise<Buffer> {
    const source = object.read(0, object.size)
    const pieces: Uint8Array[] = []
    for (let piece = await this.#settled(source.next()); piece !== null;) {
      pieces.push(Buffer.from(piece)) // its memory is used for the next one
      piece = await this.#settled(source.next())
    }
    return Buffer.concat(pieces)
  }

  // What there is to choose from

  /** As it is, or as it was when it was there; null: there never was one. */
  #bucket(name: string): Bucket | null {
    return this.world.store.bucket(name) ?? this.#buckets.get(name) ?? null
  }

  /** One of the last. */
  #upload(choice: number): Upload | undefined {
    return this.#uploads.at(-1 - (choice % 4))
  }

  /** One that nobody has sent yet. */
  #newBody(bytes: number): Buffer {
    this.#bodiesEver += 1
    const body = payloadOf(this.#bodiesEver, bytes)
    this.#bodies.set(md5Of(body), body)
    return body
  }
}

const CONDITIONS = ['any', 'any', 'any', 'absent', 'present', 'odd'] as const
type Condition = (typeof CONDITIONS)[number]

/** 'odd': of an object whose number is. */
function holds(condition: Condition, current: ObjectSummary | null): boolean {
  if (condition === 'absent') return current === null
  if (condition === 'present') return current !== null
  return condition === 'any' || (current !== null && current.commitSequence % 2 === 1)
}

const PLAN = { checksums: ['CRC64NVME'], sha256: false } as const

async function writeAll(writer: BodyWriter, bytes: Buffer): Promise<void> {
  if (writer.write(bytes)) return
  await new Promise<void>((resolve) => writer.onDrain(resolve))
}

const attributesOf = (choice: number): ObjectAttributes => ({
  contentType: 'text/plain',
  cacheControl: null,
  contentDisposition: null,
  contentEncoding: null,
  contentLanguage: choice % 2 === 0 ? 'de' : null,
  expires: null,
  metadata: choice % 3 === 0 ? { choice: String(choice) } : {},
  tags: choice % 5 === 0 ? [{ key: 'k', value: String(choice) }] : [],
  storageClass: pick(STORAGE_CLASSES, choice),
  encryption: choice % 7 === 0 ? { kind: 'AES256' } : null,
})

/** The one frame that made an object what it is. */
function committed(frames: readonly TracedFrame[], bucket: Bucket, key: string): RefObject {
  const commits = frames.filter(({ type }) => type === FRAME_OBJECT)
  assert.equal(commits.length, 1, 'one change')
  const frame = decodeCommit(commits[0]!.payload)
  assert.deepEqual([frame.bucket, frame.key.toString()], [bucket.number, key])
  return objectOf(frame, commits[0]!.position)
}

const changesOf = (frames: readonly TracedFrame[]) =>
  frames.filter(({ type }) => type === FRAME_CHANGE).map(({ payload }) => decodeChange(payload))

function isVersion(version: RefObject | null, object: StoredObject | null): boolean {
  if (version === null || object === null) return version === object
  try {
    assert.deepEqual(factsOf(object), { ...summaryOf(version), ...version.details, key: object.key })
    return true
  } catch {
    return false
  }
}

type TextOptions = Parameters<typeof listed>[1]

const optionsOf = ({ prefix, delimiter, from, after, max }: TextOptions): ListOptions => ({
  prefix: Buffer.from(prefix),
  delimiter: Buffer.from(delimiter),
  from: Buffer.from(from),
  after: Buffer.from(after),
  max,
})

function checkPage(
  page: ObjectPage,
  expected: ReturnType<typeof listed>,
  objects: ReadonlyMap<string, RefObject>,
): void {
  const keys = page.objects.map(({ key }) => key.toString())
  assert.deepEqual(keys, expected.keys)
  assert.deepEqual(page.commonPrefixes.map(String), expected.commonPrefixes)
  assert.equal(page.next === null, expected.isWhole)
  for (const entry of page.objects) {
    const object = objects.get(entry.key.toString())!
    const { checksums } = object.details
    const algorithms = checksums.map(({ algorithm }) => algorithm)
    const about = {
      ...summaryOf(object),
      key: entry.key,
      checksumAlgorithms: algorithms,
      checksumType: checksums[0]?.type,
      storageClass: object.details.storageClass,
    }
    assert.deepEqual(entry, about)
  }
}

const positions = ({ extents }: Pick<RefObject, 'extents'>): number[] => extents.map(({ position }) => position)
const md5Of = (bytes: Buffer): string => createHash('md5').update(bytes).digest('hex')
const pick = <T>(from: readonly T[], choice: number): T => from[choice % from.length]!
