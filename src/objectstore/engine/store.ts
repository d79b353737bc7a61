/**
 * The object store on its log.
 *
 * Every change is a decision of the engine (src/engine): it is made when there is room for its frame, and between decision and frame nothing else
 * happens. So a precondition holds at the moment of its change.
 */
import assert from 'node:assert/strict'
import { replied } from '../../engine/decision.ts'
import type { Answer, Decision, NewFrame } from '../../engine/decision.ts'
import type { DigestPlan } from '../bodies/body-digests.ts'
import type { PartChecksum } from '../bodies/checksums.ts'
import { UNCONDITIONAL } from '../operations.ts'
import type { Tag } from '../operations.ts'
import type {
  BodyTarget,
  BodyWriter,
  Bucket,
  CompletedUpload,
  Completion,
  DeletedObject,
  ListOptions,
  NewObject,
  NewUpload,
  ObjectPage,
  ObjectStore,
  ObjectSummary,
  Precondition,
  ReceivedBody,
  StoredObject,
  Upload,
  UploadedPart,
} from '../operations.ts'
import { notLeading, refuse } from '../refusals.ts'
import type { S3Error } from '../refusals.ts'
import { Bodies } from './bodies.ts'
import type { Core } from './core.ts'
import { ExtentList } from './extent-list.ts'
import { FrameDropped } from './frame-reads.ts'
import {
  FRAME_DELETED,
  FRAME_OBJECT,
  FRAME_PART,
  commitFrameBytes,
  deletedFrameBytes,
  encodeCommit,
  encodeDeleted,
  encodeDetails,
  encodeNewDetails,
} from './frames.ts'
import type { Change, CommitFrame, Content, NewDetails, ObjectDetails } from './frames.ts'
import type { LoadedObject, Objects } from './objects.ts'
import { Received } from './received.ts'
import { UploadView } from './upload-view.ts'
import { checksumsOf, flagsOf, storageClassOf, summaryOf, valueOf } from './summary.ts'

export class Store implements ObjectStore {
  readonly bodies: Bodies
  readonly objects: Objects
  readonly #core: Core

  constructor(core: Core, objects: Objects) {
    this.#core = core
    this.objects = objects
    this.bodies = new Bodies(core, objects.runs)
  }

  term(): number | S3Error {
    const { cluster } = this.#core.log
    return cluster === null ? 0 : (cluster.term ?? notLeading(cluster.leader))
  }

  settled(): Promise<void> {
    return this.#core.settled()
  }

  // Buckets

  buckets(owner: string, from: string): Iterable<Bucket> {
    return this.#core.state.bucketsOf(owner, from)
  }

  bucket(name: string): Bucket | null {
    return this.#core.state.bucket(name)
  }

  createBucket(name: string, owner: string): Promise<Bucket> {
    const core = this.#core
    return core.ask(() => {
      const existing = core.state.bucket(name)
      if (existing !== null) {
        const code = existing.owner === owner ? 'BucketAlreadyOwnedByYou' : 'BucketAlreadyExists'
        return refuse(code, undefined, { fields: { BucketName: name } })
      }
      const number = core.state.nextBucketNumber
      const createdMs = core.wallMs()
      const created = { kind: 'bucket_created', number, name, owner, at_ms: createdMs } as const
      const bucket = { number, name, owner, createdMs, cors: null, policy: null } // when it is answered, the bucket may be gone
      return { kind: 'change', frame: core.changeFrame(created, 'admit'), reply: () => bucket }
    })
  }

  deleteBucket(bucket: Bucket): Promise<void> {
    const core = this.#core
    return core.ask(() => {
      if (this.#isGone(bucket)) return noSuchBucket(bucket)
      if (core.state.index.size(bucket.number) > 0) {
        return refuse('BucketNotEmpty', undefined, { fields: { BucketName: bucket.name } })
      }
      const deleted = { kind: 'bucket_deleted', number: bucket.number, at_ms: core.wallMs() } as const
      return { kind: 'change', frame: core.changeFrame(deleted, 'finish'), reply: () => {} }
    })
  }

  setBucketDocument(bucket: Bucket, document: 'cors' | 'policy', content: Buffer | null): Promise<void> {
    const core = this.#core
    const { number } = bucket
    return core.ask(() => {
      if (this.#isGone(bucket)) return noSuchBucket(bucket)
      const encoded = content === null ? null : content.toString('base64')
      const purpose = content === null ? 'finish' : 'admit'
      const set = { kind: 'bucket_document', number, document, content: encoded, at_ms: core.wallMs() } as const
      return { kind: 'change', frame: core.changeFrame(set, purpose), reply: () => {} }
    })
  }

  // Objects

  peek(bucket: Bucket, key: string): ObjectSummary | null {
    const value = this.#core.state.index.get(bucket.number, Buffer.from(key))
    return value === null ? null : summaryOf(value)
  }

  object(bucket: Bucket, key: string): StoredObject | Promise<StoredObject | null> {
    const loaded = this.#load(bucket, Buffer.from(key))
    return loaded instanceof Promise ? loaded.then((later) => later?.view ?? null) : loaded.view
  }

  list(bucket: Bucket, options: ListOptions): Promise<ObjectPage> {
    return this.#core.ask(() => {
      const { keys, commonPrefixes, next } = this.#core.state.index.scan(bucket.number, options)
      const objects = keys.map(({ key, value }) => ({
        key,
        ...summaryOf(value),
        ...checksumsOf(value),
        storageClass: storageClassOf(value),
      }))
      return replied({ objects, commonPrefixes, next })
    })
  }

  receive(lengthBytes: number | null, digests: DigestPlan, target: BodyTarget): BodyWriter {
    return this.bodies.receive(lengthBytes, digests, target)
  }

  putObject(answer: Answer<ObjectSummary>, object: NewObject): void {
    const { bucket, key, attributes, checksums, precondition } = object
    const body = asReceived(object.body)
    const details = { attributes, checksums, parts: null }
    const onTaken = (): void => body.taken()
    const onStored = body.isLarge ? (position: number): void => body.stored(position) : null
    const decide = this.#committing(bucket, key, () => {
      const refused = precondition === UNCONDITIONAL ? null : precondition(this.peek(bucket, key))
      const failure = refused ?? body.failure
      if (failure !== null) return failure
      const { md5: etag, bytes: size } = body.digest
      return { details, content: body.content, etag, size, parts: 0, uploadId: null, onTaken, onStored }
    })
    this.#core.run(decide, body.abandonAfter(answer))
  }

  deleteObject(bucket: Bucket, key: string, precondition: Precondition): Promise<DeletedObject> {
    const core = this.#core
    const keyBytes = Buffer.from(key)
    return core.ask(() => {
      if (this.#isGone(bucket)) return noSuchBucket(bucket)
      const current = this.peek(bucket, key)
      const refused = precondition(current)
      if (refused !== null) return refused
      const commitSequence = core.state.commitSequence + 1
      const deleted = { bucket: bucket.number, key: keyBytes, atMs: core.wallMs(), commitSequence }
      const frame: NewFrame<Change> = {
        type: FRAME_DELETED,
        payloadBytes: deletedFrameBytes(keyBytes),
        encode: (target, at) => encodeDeleted(deleted, target, at),
        purpose: 'finish',
        durability: 'sync',
        onStored: () => void (core.counters.objectsDeleted += current === null ? 0 : 1),
      }
      return { kind: 'change', frame, reply: () => ({ commitSequence }) }
    })
  }

  /** A small object is written anew as a whole; of a large one, only the list of its extents is. */
  async setTags(bucket: Bucket, key: string, tags: readonly Tag[]): Promise<ObjectSummary> {
    for (;;) {
      const loaded = await this.#load(bucket, Buffer.from(key))
      if (loaded === null) throw refuse('NoSuchKey', undefined, { fields: { Key: key } })
      const details = { ...loaded.details, tags }
      const written = await this.rewrite(loaded, details, loaded.frame.content, 'admit')
      if (written !== null) return written
    }
  }

  /**
   * Writes an object again, with these details and this content. Null: it was replaced meanwhile.
   *
   * @param purpose 'finish' to free space
   */
  rewrite(
    loaded: LoadedObject,
    details: ObjectDetails,
    content: Content,
    purpose: 'admit' | 'finish',
  ): Promise<ObjectSummary | null> {
    const core = this.#core
    const before = loaded.frame
    const frame = {
      ...before,
      flags: flagsOf(details, details.checksums),
      uploadId: null,
      details: encodeDetails(details),
      content,
    }
    return core.ask(() => {
      if (core.state.index.get(before.bucket, before.key)?.position !== loaded.position) return replied(null)
      return { kind: 'change', frame: objectFrame(frame, purpose), reply: () => summaryOf(valueOf(frame, 0)) }
    })
  }

  // Uploads

  createUpload({ bucket, key, attributes, checksum, initiator }: NewUpload): Promise<Upload> {
    const core = this.#core
    const uploadId = core.newUploadId()
    return core.ask(() => {
      if (this.#isGone(bucket)) return noSuchBucket(bucket)
      const encodedKey = Buffer.from(key).toString('base64')
      const about = { upload_id: uploadId, bucket: bucket.number, key: encodedKey, initiator, attributes, checksum }
      const created = { kind: 'upload_created', ...about, at_ms: core.wallMs() } as const
      let upload: Upload | null = null
      const onTaken = (): void => void (upload = this.upload(bucket, key, uploadId))
      const reply = (): Upload => {
        assert(upload !== null, 'what was taken has its effect')
        return upload
      }
      return { kind: 'change', frame: { ...core.changeFrame(created, 'admit'), onTaken }, reply }
    })
  }

  upload(bucket: Bucket, key: string, uploadId: string): Upload | null {
    const upload = this.#core.state.uploads.get(uploadId)
    if (upload?.bucketNumber !== bucket.number || upload.key.toString() !== key) return null
    return new UploadView(bucket, upload)
  }

  completedUpload(bucket: Bucket, key: string, uploadId: string): Promise<CompletedUpload | null> {
    const core = this.#core
    return core.ask(() => {
      const completed = core.state.completed.get(uploadId)
      return replied(completed?.bucketNumber === bucket.number && completed.key === key ? completed : null)
    })
  }

  *uploads(bucket: Bucket, from: Buffer, behind: string | null): Generator<Upload, void, undefined> {
    for (const upload of this.#core.state.uploads.from(bucket.number, from, behind))
      yield new UploadView(bucket, upload)
  }

  putPart(upload: Upload, partNumber: number, body: ReceivedBody, checksum: PartChecksum): Promise<UploadedPart> {
    const received = asReceived(body)
    return new Promise((answered, refused) => {
      const decide = (): Decision<UploadedPart, Change> => this.#putPart(upload, partNumber, received, checksum)
      this.#core.run(decide, received.abandonAfter({ answered, refused }))
    })
  }

  #putPart(upload: Upload, partNumber: number, body: Received, checksum: PartChecksum): Decision<UploadedPart, Change> {
    const core = this.#core
    const { uploadId, bucket } = upload
    if (!core.state.uploads.has(uploadId)) return noSuchUpload(uploadId)
    if (body.failure !== null) return body.failure
    const target = { bucket, key: upload.key, upload: { uploadId, partNumber } }
    const { before, content } = this.bodies.inExtents(body, target)
    const { bytes: size, md5: etag } = body.digest
    const lastModifiedMs = core.wallMs()
    const part: CommitFrame = {
      bucket: bucket.number,
      key: Buffer.from(upload.key),
      partNumber,
      size,
      lastModifiedMs,
      commitSequence: 0,
      flags: 0,
      etag,
      uploadId,
      details: Buffer.from(JSON.stringify({ checksum: checksum.value })),
      content,
    }
    const onStored = (): void => {
      core.counters.partsWritten += 1
      core.counters.bodyBytesWritten += size
    }
    const reply = (): UploadedPart => ({ partNumber, size, etag, lastModifiedMs, checksum })
    const onTaken = (): void => body.taken()
    return { kind: 'change', before, frame: partFrame(part, 'admit', { onStored, onTaken }), reply }
  }

  completeUpload({ upload, parts, etag, checksums, precondition }: Completion): Promise<ObjectSummary> {
    const { uploadId, bucket, key } = upload
    const decide = this.#committing(bucket, key, () => {
      const state = this.#core.state.uploads.get(uploadId)
      if (state === undefined) return noSuchUpload(uploadId)
      const replaced = parts.find(({ partNumber, etag }) => state.parts.get(partNumber)?.etag !== etag)
      if (replaced !== undefined) return invalidPart(uploadId, replaced)
      const refused = precondition(this.peek(bucket, key))
      if (refused !== null) return refused
      const present = parts.map(({ partNumber }) => state.parts.get(partNumber)!)
      const lists = present.map(({ extents }) => extents)
      const listBytes = lists.reduce((sum, { packed }) => sum + packed.byteLength, 0)
      if (listBytes > this.#core.appender.payloadBytesMax) return tooManyPieces() // before that much is copied
      const isShown = upload.checksum.isChosen
      return {
        details: {
          attributes: state.attributes,
          checksums,
          parts: present.map(({ partNumber, size, checksum }) => ({
            partNumber,
            size,
            checksum: isShown ? checksum.value : null,
          })),
        },
        content: { extents: ExtentList.joined(lists) },
        etag,
        size: present.reduce((sum, { size }) => sum + size, 0),
        parts: present.length,
        uploadId,
        onTaken: () => {},
        onStored: null,
      }
    })
    return this.#core.ask(decide)
  }

  abortUpload({ uploadId }: Pick<Upload, 'uploadId'>): Promise<void> {
    const core = this.#core
    return core.ask(() => {
      if (!core.state.uploads.has(uploadId)) return noSuchUpload(uploadId)
      const aborted = { kind: 'upload_aborted', upload_id: uploadId, at_ms: core.wallMs() } as const
      return { kind: 'change', frame: core.changeFrame(aborted, 'finish'), reply: () => {} }
    })
  }

  // Shared by the operations

  /** @param judge called just before the frame is appended: nothing comes between */
  #committing(bucket: Bucket, key: string, judge: () => Committed | Error): () => Decision<ObjectSummary, Change> {
    const core = this.#core
    const keyBytes = Buffer.from(key)
    return () => {
      if (this.#isGone(bucket)) return noSuchBucket(bucket)
      const judged = judge()
      if (judged instanceof Error) return judged
      const { details, content, etag, size, parts, uploadId, ...callbacks } = judged
      const object: CommitFrame = {
        bucket: bucket.number,
        key: keyBytes,
        partNumber: parts,
        size,
        lastModifiedMs: core.wallMs(),
        commitSequence: core.state.commitSequence + 1,
        flags: flagsOf(details.attributes, details.checksums),
        etag,
        uploadId,
        details: encodeNewDetails(details),
        content,
      }
      let position = 0
      const onTaken = (at: number): void => {
        position = at
        callbacks.onTaken()
      }
      const onStored = (): void => {
        core.counters.objectsWritten += 1
        if (parts === 0) core.counters.bodyBytesWritten += size
        if (callbacks.onStored === null) return
        if (core.state.index.get(bucket.number, keyBytes)?.position === position) callbacks.onStored(position)
      }
      const frame = objectFrame(object, 'admit', { onStored, onTaken })
      if (frame.payloadBytes > core.appender.payloadBytesMax) return tooManyPieces()
      return { kind: 'change', frame, reply: () => summaryOf(valueOf(object, 0)) }
    }
  }

  /** What it finds is durable; null: there is no object. Without a promise when it need not wait. */
  #load(bucket: Bucket, key: Buffer): LoadedObject | Promise<LoadedObject | null> {
    const core = this.#core
    const value = core.state.index.get(bucket.number, key)
    const isDurable = value !== null && value.position < core.log.committed
    return (isDurable ? this.objects.loadNow(value, key.byteLength) : null) ?? this.#loadFromLog(bucket, key)
  }

  async #loadFromLog(bucket: Bucket, key: Buffer): Promise<LoadedObject | null> {
    const core = this.#core
    for (;;) {
      const value = core.state.index.get(bucket.number, key)
      if (value === null ? core.appender.inFlight > 0 : value.position >= core.log.committed) {
        await core.appender.settled().catch(() => {})
        const now = core.state.index.get(bucket.number, key)
        if (now?.position !== value?.position) continue
      }
      if (value === null) return null
      try {
        return await this.objects.load(value, key.byteLength)
      } catch (error) {
        const now = core.state.index.get(bucket.number, key)
        if (!(error instanceof FrameDropped)) throw error
        if (now?.position === value.position)
          throw refuse('InternalError', 'What is stored of this object is gone.', { cause: error })
      }
    }
  }

  #isGone({ number }: Bucket): boolean {
    return this.#core.state.bucketOf(number) === null
  }
}

/** What is to become visible under a key. */
interface Committed {
  readonly details: NewDetails
  readonly content: Content
  readonly etag: string
  readonly size: number
  readonly parts: number
  readonly uploadId: string | null
  readonly onTaken: () => void
  /** Called when the object is stored, unless it was replaced by then. */
  readonly onStored: ((position: number) => void) | null
}

type Purpose = NewFrame<Change>['purpose']
type Callbacks = Pick<NewFrame<Change>, 'onStored' | 'onTaken'>

const commitFrame = (
  type: number,
  frame: CommitFrame,
  purpose: Purpose,
  callbacks: Callbacks = {},
): NewFrame<Change> => ({
  type,
  payloadBytes: commitFrameBytes(frame),
  encode: (target, at) => encodeCommit(frame, target, at),
  purpose,
  durability: 'sync',
  ...callbacks,
})

const objectFrame = (frame: CommitFrame, purpose: Purpose, callbacks?: Callbacks): NewFrame<Change> =>
  commitFrame(FRAME_OBJECT, frame, purpose, callbacks)

export const partFrame = (frame: CommitFrame, purpose: Purpose, callbacks?: Callbacks): NewFrame<Change> =>
  commitFrame(FRAME_PART, frame, purpose, callbacks)

const tooManyPieces = (): Error => refuse('EntityTooLarge', 'The object has too many pieces to be listed.')
const noSuchBucket = ({ name }: Bucket): Error => refuse('NoSuchBucket', undefined, { fields: { BucketName: name } })
const invalidPart = (uploadId: string, { partNumber, etag }: UploadedPart): Error =>
  refuse('InvalidPart', undefined, { fields: { UploadId: uploadId, PartNumber: partNumber, ETag: etag } })
const noSuchUpload = (uploadId: string): Error => refuse('NoSuchUpload', undefined, { fields: { UploadId: uploadId } })

/** The gateway passes in only bodies that `receive` gave it. */
function asReceived(body: ReceivedBody): Received {
  assert(body instanceof Received, 'a body of this store')
  return body
}
