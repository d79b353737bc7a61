/**
 * Moves an object store step by step beside the reference. Checks whether each answer is allowed (`asking.ts`), and whether the store has
 * what its frames say.
 *
 * H4  a dropped segment has nothing that is needed; garbage is removed in the end
 */
import assert from 'node:assert/strict'
import {
  FRAME_CHANGE,
  FRAME_OBJECT,
  FRAME_PART,
  decodeChange,
  decodeCommit,
} from '../../../src/objectstore/engine/frames.ts'
import { RandomHistory, pick } from '../../support/random-history.ts'
import type { Step, WorldKind } from '../../support/random-history.ts'
import { Asking } from './asking.ts'
import { BucketSteps } from './bucket-steps.ts'
import { resultAfterFlush } from './client.ts'
import { ObjectSteps } from './object-steps.ts'
import { objectOf, partOf, summaryOf } from './reference.ts'
import type { RefObject } from './reference.ts'
import { CONDITIONS, SentBodies } from './sent.ts'
import { Trace } from './trace.ts'
import type { TracedFrame } from './trace.ts'
import { UploadSteps } from './upload-steps.ts'
import { EXTENT_BYTES, SEGMENT_BYTES, StoreWorld, UPLOAD_TTL_MS } from './world.ts'

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
  ['stepWithoutNotice', 2],
  ['hold', 3],
  ['serve', 4],
  ['digestLaneDies', 1],
  ['journalDies', 2],
  ['failSync', 1],
  ['fillDisk', 1],
  ['freeDisk', 1],
  ['time', 4],
  ['wallClock', 1],
  ['reopen', 3],
  ['quiesce', 1],
] as const

export type StepKind = (typeof STEP_KINDS)[number][0]

const OWNERS = ['ann', 'bob'] as const
/** Buckets of the steps: most of them go to one. */
const BUCKETS = ['photos', 'photos', 'photos', 'photos', 'photos', 'logs', 'logs', 'spare'] as const
const KEYS = ['a', 'a/1', 'a/2/x', 'b', 'b/2', 'c', 'c/d/e'] as const
const HOUR_MS = 3_600_000
const COMPLETED_KEPT_MS = 24 * HOUR_MS

export class History extends RandomHistory<StepKind> {
  readonly world: StoreWorld
  readonly trace: Trace
  protected readonly timeSteps = [1, 100, 5000, 0.6 * UPLOAD_TTL_MS, UPLOAD_TTL_MS, 3 * HOUR_MS]
  protected override readonly wallSteps = [HOUR_MS, -HOUR_MS, 1000, -1000, 25 * HOUR_MS]
  readonly #bodies = new SentBodies()
  readonly #asking: Asking
  readonly #buckets: BucketSteps
  readonly #objects: ObjectSteps
  readonly #uploads: UploadSteps
  /** Latest wall clock time since the present cleaning began; without one, the present time. */
  #latestMs = 0
  /** The store may have forgotten uploads that were completed before this time. */
  #forgottenBeforeMs = 0

  constructor(seed: number) {
    super()
    this.world = new StoreWorld({
      seed,
      extents: 4 + (Math.abs(seed) % 9),
      readThreads: 1 + (Math.abs(seed) % 2),
      inPageCache: [null, 0.3, 0.9][Math.abs(seed) % 3] ?? null,
    })
    this.trace = new Trace(this.world)
    this.trace.judge = (frame) => this.#judge(frame)
    this.#asking = new Asking(this.world, this.trace)
    this.#buckets = new BucketSteps(this.#asking, this.#bodies)
    this.#objects = new ObjectSteps(this.#asking, this.#bodies)
    this.#uploads = new UploadSteps(this.#asking, this.#bodies)
  }

  async begin(): Promise<void> {
    await this.world.open()
    this.trace.attach()
    this.#buckets.createBucket('photos', 'ann')
    this.#buckets.createBucket('logs', 'bob')
    await this.world.flush()
    const bucket = this.#buckets.bucket('photos')
    this.#uploads.createUpload(bucket, 'a', 0)
    for (const [i, key] of KEYS.entries()) {
      this.#objects.put(bucket, key, this.#bodies.create(200 * i), 'any', 1 + 150 * i)
      await this.world.flush()
      this.#uploads.putPart(0, 1 + (i % 3), this.#bodies.create(250 * i), i % 2 === 0)
    }
    await this.world.flush()
  }

  /** Checks the state as it is, with frames on their way. */
  check(): void {
    this.trace.check()
    const isCleaning = this.#asking.pending.includes('clean')
    this.#latestMs = isCleaning ? Math.max(this.#latestMs, this.world.wallMs) : this.world.wallMs
    const { core, store, log } = this.world
    const { state } = core
    const reference = this.trace.reference
    assert.deepEqual(new Set(Array.from(state.buckets, ({ number }) => number)), new Set(reference.buckets.keys()))
    const oldest = log.segments[0]?.base ?? 0
    for (const { objects, ...bucket } of reference.buckets.values()) {
      assert.deepEqual(store.bucket(bucket.name), bucket)
      const { keys } = state.index.scan(bucket.number, { max: Infinity })
      const found = new Map(keys.map(({ key, value }) => [key.toString(), value.position]))
      assert.deepEqual(found, new Map(Array.from(objects, ([key, { position }]) => [key, position])))
      const bytes = [...objects.values()].reduce((sum, { size }) => sum + size, 0)
      assert.deepEqual([state.bytesOf(bucket), state.index.bytesIn(bucket.number)], [bytes, bytes], bucket.name)
      for (const [key, object] of objects) {
        assert.deepEqual(store.peek(bucket, key), summaryOf(object))
        assert.ok(Math.min(object.position, ...positions(object)) >= oldest, `H4: ${key} is in what was dropped`)
      }
    }
    assert.deepEqual([...state.uploads.keys()].sort(), [...reference.uploads.keys()].sort())
    for (const [id, { parts }] of reference.uploads) {
      const known = Array.from(state.uploads.get(id)!.parts, ([n, part]) => [
        n,
        { ...part, extents: [...part.extents] },
      ])
      assert.deepEqual(known, [...parts])
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
    const buckets = [...reference.buckets.values()]
    assert.equal(state.bucketCount, buckets.length)
    assert.equal(state.index.keyCount, buckets.flatMap(({ objects }) => [...objects]).length)
    const objects = buckets.flatMap(({ objects }) => [...objects.values()])
    assert.equal(
      state.objectBytes,
      objects.reduce((sum, { size }) => sum + size, 0),
    )
  }

  /** Brings everything that is under way to its end, then reads all buckets and objects. */
  async quiesce(): Promise<void> {
    const { world } = this
    this.#objects.readAllOn()
    await world.flush()
    this.check()
    const stuck = this.#asking.pending
    const slow = this.#objects.isReceiving
    if (!slow || !stuck.some((name) => name.startsWith('put')))
      assert.deepEqual(stuck, [], 'every operation is answered')
    if (!slow) assert.equal(world.arena.usedBytes, 0, 'no space in memory is left behind')
    for (const bucket of this.trace.reference.buckets.values()) {
      await this.#buckets.checkAll(bucket)
      await this.#objects.checkAll(bucket)
    }
    assert.deepEqual(world.log.incidents, [])
    assert.equal(world.counters.damagedReads, 0)
  }

  /** At the end of a history: cleaning removes garbage, and then comes to an end. */
  async drain(): Promise<void> {
    this.#objects.abandonAll()
    await this.world.flush()
    await this.reopen('close')
    const { world } = this
    const { store } = world
    const bucket = store.bucket('photos') ?? (await resultAfterFlush(world, store.createBucket('photos', 'ann')))
    const bound = (): number => 2 * world.core.state.liveBytes + 8 * SEGMENT_BYTES
    for (let round = 0; round < 14 && world.logBytes > bound(); round += 1) {
      this.#objects.put(bucket, 'filler', this.#bodies.create(2 * SEGMENT_BYTES), 'any', 3000)
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

  protected attach(certain: number): void {
    this.trace.attach(certain)
  }

  protected certainAt(): number {
    return this.world.log.committed
  }

  protected forgetClients(): void {
    this.#asking.forget()
    this.#objects.forget()
  }

  protected override mayBreak(kind: 'journalDies' | 'failSync' | 'fillDisk'): boolean {
    this.#asking.troubles += 1
    if (kind === 'fillDisk') this.#asking.diskIsLimited = true
    return true
  }

  protected override onRoom(): void {
    if (this.#asking.diskIsLimited) this.#asking.troubles += 1 // for operations that are refused already but have not heard yet
    this.#asking.diskIsLimited = false
  }

  protected async take({ kind, a, b, c, yes }: Step<Exclude<StepKind, WorldKind>>): Promise<void> {
    const { world } = this
    const buckets = this.#buckets
    const objects = this.#objects
    const uploads = this.#uploads
    const body = (bytes: number): Buffer => this.#bodies.create(bytes)
    const bucket = buckets.bucket(pick(BUCKETS, a))
    const key = pick(KEYS, b)
    switch (kind) {
      case 'createBucket':
        return buckets.createBucket(pick(BUCKETS, a), pick(OWNERS, b))
      case 'deleteBucket':
        return buckets.deleteBucket(buckets.bucket(pick(BUCKETS, a + b)))
      case 'document':
        return buckets.setDocument(bucket, yes ? 'cors' : 'policy', b % 3 === 0 ? null : c)
      case 'put':
        return objects.put(bucket, key, body(c), pick(CONDITIONS, b >> 3))
      case 'putLarge': {
        const bytes = pick([c, 2 * EXTENT_BYTES, EXTENT_BYTES + c, 3 * EXTENT_BYTES + c], a + b)
        return objects.put(bucket, key, body(bytes), pick(CONDITIONS, b >> 3), 100 + 3 * c)
      }
      case 'churn':
        for (let i = 0; i < 4; i += 1) objects.put(buckets.bucket('photos'), key, body(900), 'any')
        return world.step()
      case 'beginBody':
        return objects.beginBody(bucket, key, body(1500 + 3 * c))
      case 'feedBody':
        return objects.feedBody(a, b * 3)
      case 'endBody':
        return objects.endBody(a, yes || b % 2 === 0)
      case 'delete':
        return objects.delete(bucket, key, pick(CONDITIONS, c))
      case 'setTags':
        return objects.setTags(bucket, key, c)
      case 'list':
        return buckets.list(bucket, b, c)
      case 'read':
        return objects.read(bucket, key, c, yes)
      case 'readOn':
        return objects.readOn(a, b % 8 === 0)
      case 'createUpload':
        return uploads.createUpload(bucket, key, c)
      case 'putPart':
        return uploads.putPart(a, 1 + (b % 4), body(yes ? c : 3 * c), yes)
      case 'complete':
        return uploads.complete(a, b, yes, pick(CONDITIONS, c))
      case 'abort':
        return uploads.abort(a)
      case 'clean':
        return this.#clean()
      case 'step':
        if (world.log.state.kind === 'read-only' && a % 4 === 0) return this.reopen('crash') // an operator has repaired the disk
        if (yes) await world.step()
        return world.step()
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
        this.#asking.troubles += 1
        return world.digestLaneDies(a)
    }
  }

  #clean(): void {
    this.#forgottenBeforeMs = Math.max(this.#forgottenBeforeMs, this.world.wallMs - COMPLETED_KEPT_MS)
    this.#asking.ask({
      name: 'clean',
      cause: 'clean',
      run: () => this.world.engine.cleaner.enforce(),
      expected: () => 'effect',
    })
  }

  /** Called before a frame is applied. Moving an object or a part changes nothing else; tagging an object changes only its tags. */
  #judge({ type, position, payload, cause }: TracedFrame): void {
    if (type === FRAME_OBJECT && (cause?.kind === 'clean' || cause?.kind === 'tags')) {
      const frame = decodeCommit(payload)
      const current = this.trace.reference.buckets.get(frame.bucket)?.objects.get(frame.key.toString())
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
      const current = this.trace.reference.uploads.get(frame.uploadId!)?.parts.get(frame.partNumber)
      assert.ok(current !== undefined, 'the part that is moved is there')
      const written = partOf(frame)
      assert.deepEqual({ ...written, extents: [] }, { ...current, extents: [] })
    } else if (type === FRAME_CHANGE && cause?.kind === 'clean') {
      const change = decodeChange(payload)
      assert.ok(change.kind === 'upload_aborted', 'cleaning only gives up uploads')
      const { created } = this.trace.reference.uploads.get(change.upload_id)!
      const latestMs = Math.max(this.#latestMs, this.world.wallMs)
      assert.ok(created.at_ms <= latestMs - UPLOAD_TTL_MS, 'an upload is given up when its time is over')
    }
  }
}

const positions = ({ extents }: Pick<RefObject, 'extents'>): number[] => extents.map(({ position }) => position)
