/**
 * The state that the frames of the log make: buckets, objects, uploads. The same functions apply a frame when it is written and when it is read again.
 *
 * S1  a frame about a bucket or an upload that is not there changes nothing: it was removed by a later frame, which a checkpoint has seen
 * S2  `liveBytes` is about how many bytes of the log are needed: bodies and the frames around them
 * S3  `bytesOf` a bucket is the size of its objects together
 * S4  in a cluster, `cleaned` says up to where the leader has cleaned the log: nothing in the state is in segments that end there or before
 */
import type { CompletedUpload, UploadedPart } from '../operations.ts'
import type { UploadChecksum } from '../bodies/checksums.ts'
import { KeyIndex } from '../index/key-index.ts'
import type { ObjectValue } from '../index/value.ts'
import type { Bucket, ObjectAttributes } from '../operations.ts'
import { ExtentList } from './extent-list.ts'
import { completeAttributes, decodeDetails } from './frames.ts'
import type { Change, CommitFrame, CommitHead, Content, DeletedFrame } from './frames.ts'
import { valueOf } from './summary.ts'
import { Uploads } from './uploads.ts'
import { SortedList } from '../../sorted-list.ts'

const FIRST_KEY = Buffer.alloc(0)
/** About what an object takes of the log beside its body. */
const OBJECT_OVERHEAD_BYTES = 400

export interface PartState extends UploadedPart {
  readonly extents: ExtentList
}

export interface UploadState {
  readonly uploadId: string
  readonly bucketNumber: number
  readonly key: Buffer
  readonly initiator: string
  readonly initiatedMs: number
  readonly attributes: ObjectAttributes
  readonly checksum: UploadChecksum
  readonly parts: Map<number, PartState>
}

export interface CompletedState extends CompletedUpload {
  readonly atMs: number
}

/** S4 */
export interface CleanedLog {
  readonly before: number
  /** Position of the frame that says so. */
  readonly saidAt: number
}

/** Everything of a part that its frame does not say in its head. */
export interface PartDetails {
  readonly checksum: string
}

export class StoreState {
  readonly index: KeyIndex
  readonly #byName = new Map<string, Bucket>()
  readonly #byNumber = new Map<number, Bucket>()
  /** S3, by the numbers of the buckets that exist. */
  readonly #bytes = new Map<number, number>()
  #objectBytes = 0
  /** By owner, then by name. */
  readonly #sorted = new SortedList<Bucket>(byOwnerAndName)
  readonly uploads = new Uploads<UploadState>()
  /** Oldest first. */
  readonly completed = new Map<string, CompletedState>()
  /** The newest time of a completion among the frames that were applied since the checkpoint; 0: there was none. */
  newestCompletedMs = 0
  nextBucketNumber = 1
  commitSequence = 0
  /** S2 */
  liveBytes = 0
  /** S4 */
  cleaned: CleanedLog = { before: 0, saidAt: 0 }
  /** Called with the position of the frame of an object that was replaced or deleted. */
  onReplaced: (position: number) => void = () => {}

  constructor(index: KeyIndex = KeyIndex.create()) {
    this.index = index
  }

  get buckets(): Iterable<Bucket> {
    return this.#byName.values()
  }

  get bucketCount(): number {
    return this.#byName.size
  }

  /** S3 */
  bytesOf({ number }: Bucket): number {
    return this.#bytes.get(number) ?? 0
  }

  /** Bytes of the objects in all buckets. */
  get objectBytes(): number {
    return this.#objectBytes
  }

  /** Adds to the bytes of a bucket that exists. */
  addBytes(number: number, bytes: number): void {
    this.#bytes.set(number, (this.#bytes.get(number) ?? 0) + bytes)
    this.#objectBytes += bytes
  }

  bucket(name: string): Bucket | null {
    return this.#byName.get(name) ?? null
  }

  bucketOf(number: number): Bucket | null {
    return this.#byNumber.get(number) ?? null
  }

  /** Buckets of an owner, from the name `from` on, in the order of their names. */
  *bucketsOf(owner: string, from: string): Generator<Bucket, void, undefined> {
    const isThere = (bucket: Bucket): boolean => bucket.owner > owner || (bucket.owner === owner && bucket.name >= from)
    for (const bucket of this.#sorted.from(isThere)) {
      if (bucket.owner !== owner) return
      yield bucket
    }
  }

  /** Adds a bucket, or replaces it. */
  addBucket(bucket: Bucket): void {
    const before = this.#byName.get(bucket.name)
    if (before !== undefined) this.#sorted.remove(before)
    this.#sorted.add(bucket)
    this.#byName.set(bucket.name, bucket)
    this.#byNumber.set(bucket.number, bucket)
    this.nextBucketNumber = Math.max(this.nextBucketNumber, bucket.number + 1)
  }

  applyChange(change: Change, position: number): void {
    switch (change.kind) {
      case 'bucket_created': {
        const { number, name, owner, at_ms: createdMs } = change
        return this.addBucket({ number, name, owner, createdMs, cors: null, policy: null })
      }
      case 'bucket_deleted':
        return this.#removeBucket(change.number)
      case 'bucket_document': {
        const bucket = this.#byNumber.get(change.number)
        const content = change.content === null ? null : Buffer.from(change.content, 'base64')
        if (bucket) this.addBucket({ ...bucket, [change.document]: content })
        return
      }
      case 'upload_created': {
        const { upload_id: uploadId, bucket: bucketNumber, initiator, checksum, at_ms: initiatedMs } = change
        if (!this.#byNumber.has(bucketNumber)) return
        const key = Buffer.from(change.key, 'base64')
        const attributes = completeAttributes(change.attributes)
        const parts = new Map<number, PartState>()
        this.uploads.set(uploadId, { uploadId, bucketNumber, key, initiator, initiatedMs, attributes, checksum, parts })
        return
      }
      case 'upload_aborted':
        return this.#removeUpload(change.upload_id)
      case 'log_cleaned':
        this.cleaned = { before: Math.max(this.cleaned.before, change.before), saidAt: position }
        return
    }
  }

  /** Applies an OBJECT frame at a position. `completed` is what to remember of the upload that the frame completes. */
  applyObject(frame: CommitHead, position: number, completed: CompletedState | null): void {
    const { bucket, key, size, commitSequence, uploadId } = frame
    this.commitSequence = Math.max(this.commitSequence, commitSequence)
    if (uploadId !== null) this.#removeUpload(uploadId)
    if (completed !== null) {
      this.completed.set(completed.uploadId, completed)
      this.newestCompletedMs = Math.max(this.newestCompletedMs, completed.atMs)
    }
    if (!this.#byNumber.has(bucket)) return
    this.#forgetBytes(bucket, this.index.put(bucket, key, valueOf(frame, position)))
    this.liveBytes += size + OBJECT_OVERHEAD_BYTES
    this.addBytes(bucket, size)
  }

  applyDeleted({ bucket, key, commitSequence }: DeletedFrame): void {
    this.commitSequence = Math.max(this.commitSequence, commitSequence)
    this.#forgetBytes(bucket, this.index.delete(bucket, key))
  }

  applyPart(frame: CommitFrame, { checksum }: PartDetails): void {
    const upload = frame.uploadId === null ? undefined : this.uploads.get(frame.uploadId)
    if (upload === undefined) return
    const { partNumber, size, etag, lastModifiedMs, content } = frame
    this.liveBytes += size - (upload.parts.get(partNumber)?.size ?? 0)
    const value = { value: checksum, bytes: size }
    upload.parts.set(partNumber, {
      partNumber,
      size,
      etag,
      lastModifiedMs,
      checksum: value,
      extents: extentsOf(content).copy(),
    })
  }

  /** Forgets the uploads that were completed before. */
  forgetCompleted(beforeMs: number): void {
    for (const [uploadId, { atMs }] of this.completed) {
      if (atMs >= beforeMs) return
      this.completed.delete(uploadId)
    }
  }

  #removeBucket(number: number): void {
    const bucket = this.#byNumber.get(number)
    if (bucket === undefined) return
    this.#byNumber.delete(number)
    this.#byName.delete(bucket.name)
    this.#sorted.remove(bucket)
    this.#objectBytes -= this.#bytes.get(number) ?? 0
    this.#bytes.delete(number)
    const uploadIds = Array.from(this.uploads.from(number, FIRST_KEY, null), ({ uploadId }) => uploadId)
    for (const uploadId of uploadIds) this.#removeUpload(uploadId)
    for (const { uploadId, bucketNumber } of this.completed.values())
      if (bucketNumber === number) this.completed.delete(uploadId)
  }

  #removeUpload(uploadId: string): void {
    const upload = this.uploads.get(uploadId)
    if (upload === undefined) return
    this.uploads.delete(uploadId)
    for (const { size } of upload.parts.values()) this.liveBytes -= size
  }

  #forgetBytes(bucket: number, before: ObjectValue | null): void {
    if (before === null) return
    this.onReplaced(before.position)
    this.liveBytes -= before.size + OBJECT_OVERHEAD_BYTES
    if (this.#byNumber.has(bucket)) this.addBytes(bucket, -before.size)
  }
}

const byOwnerAndName = (a: Bucket, b: Bucket): number => compare(a.owner, b.owner) || compare(a.name, b.name)
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

export const extentsOf = (content: Content): ExtentList => ('extents' in content ? content.extents : ExtentList.EMPTY)

/** What there is to remember of the upload that an OBJECT frame completes; null: it completes none. */
export function completedOf(frame: CommitFrame): CompletedState | null {
  const { uploadId, bucket: bucketNumber, key, etag, partNumber, commitSequence, lastModifiedMs: atMs, details } = frame
  if (uploadId === null) return null
  const { checksums, encryption } = decodeDetails(details)
  const about = { uploadId, bucketNumber, key: key.toString(), etag: `${etag}-${partNumber}` }
  return { ...about, checksums, commitSequence, encryption, atMs }
}
