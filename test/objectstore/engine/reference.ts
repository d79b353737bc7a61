/** The content of an object store by its frames, in plain maps, without anything to make it fast. */
import {
  FRAME_CHANGE,
  FRAME_DELETED,
  FRAME_OBJECT,
  FRAME_PART,
  decodeChange,
  decodeCommit,
  decodeDeleted,
  decodeDetails,
} from '../../../src/objectstore/engine/frames.ts'
import type { Extent } from '../../../src/objectstore/engine/extent-list.ts'
import type { Change, CommitFrame, ObjectDetails } from '../../../src/objectstore/engine/frames.ts'
import type { ObjectSummary } from '../../../src/objectstore/operations.ts'

export interface Frame {
  readonly type: number
  readonly position: number
  readonly payload: Buffer
}

export interface RefObject extends ObjectSummary {
  readonly position: number
  readonly extents: readonly Extent[]
  readonly details: ObjectDetails
}

export interface RefPart {
  readonly partNumber: number
  readonly size: number
  readonly etag: string
  readonly lastModifiedMs: number
  readonly checksum: { readonly value: string; readonly bytes: number }
  readonly extents: readonly Extent[]
}

type Created = Change & { readonly kind: 'upload_created' }

export interface RefUpload {
  readonly created: Created
  readonly key: string
  readonly parts: Map<number, RefPart>
}

export interface RefBucket {
  readonly number: number
  readonly name: string
  readonly owner: string
  readonly createdMs: number
  cors: Buffer | null
  policy: Buffer | null
  readonly objects: Map<string, RefObject>
}

export class Reference {
  readonly buckets = new Map<number, RefBucket>()
  readonly uploads = new Map<string, RefUpload>()
  /** By upload: the object that it became, with its bucket and key. */
  readonly completed = new Map<string, { readonly object: RefObject; readonly bucket: number; readonly key: string }>()
  commitSequence = 0

  bucket(name: string): RefBucket | undefined {
    return [...this.buckets.values()].find((bucket) => bucket.name === name)
  }

  /** Bytes that `StoreState` counts as needed: an object counts 400 for its frame. */
  get liveBytes(): number {
    const objects = [...this.buckets.values()].flatMap((bucket) => [...bucket.objects.values()])
    const parts = [...this.uploads.values()].flatMap((upload) => [...upload.parts.values()])
    return objects.reduce((sum, { size }) => sum + size + 400, 0) + parts.reduce((sum, { size }) => sum + size, 0)
  }

  apply({ type, position, payload }: Frame): void {
    if (type === FRAME_CHANGE) this.#change(decodeChange(payload))
    else if (type === FRAME_OBJECT) this.#object(decodeCommit(payload), position)
    else if (type === FRAME_PART) this.#part(decodeCommit(payload))
    else if (type === FRAME_DELETED) {
      const { bucket, key, commitSequence } = decodeDeleted(payload)
      this.commitSequence = commitSequence
      this.buckets.get(bucket)!.objects.delete(key.toString())
    }
  }

  #change(change: Change): void {
    switch (change.kind) {
      case 'bucket_created': {
        const { number, name, owner, at_ms: createdMs } = change
        this.buckets.set(number, { number, name, owner, createdMs, cors: null, policy: null, objects: new Map() })
        return
      }
      case 'bucket_deleted':
        this.buckets.delete(change.number)
        for (const [id, { created }] of this.uploads) if (created.bucket === change.number) this.uploads.delete(id)
        for (const [id, { bucket }] of this.completed) if (bucket === change.number) this.completed.delete(id)
        return
      case 'bucket_document': {
        const bucket = this.buckets.get(change.number)!
        bucket[change.document] = change.content === null ? null : Buffer.from(change.content, 'base64')
        return
      }
      case 'upload_created': {
        const key = Buffer.from(change.key, 'base64').toString()
        this.uploads.set(change.upload_id, { created: change, key, parts: new Map() })
        return
      }
      case 'upload_aborted':
        this.uploads.delete(change.upload_id)
    }
  }

  #object(frame: CommitFrame, position: number): void {
    const object = objectOf(frame, position)
    const key = frame.key.toString()
    this.commitSequence = Math.max(this.commitSequence, frame.commitSequence)
    if (frame.uploadId !== null) {
      this.uploads.delete(frame.uploadId)
      this.completed.set(frame.uploadId, { object, bucket: frame.bucket, key })
    }
    this.buckets.get(frame.bucket)!.objects.set(key, object)
  }

  #part(frame: CommitFrame): void {
    this.uploads.get(frame.uploadId!)!.parts.set(frame.partNumber, partOf(frame))
  }
}

export function objectOf(frame: CommitFrame, position: number): RefObject {
  const { size, lastModifiedMs, commitSequence, content, partNumber: parts } = frame
  const etag = parts > 0 ? `${frame.etag}-${parts}` : frame.etag
  const extents = 'extents' in content ? [...content.extents] : []
  return { position, size, lastModifiedMs, etag, commitSequence, extents, details: decodeDetails(frame.details) }
}

export function partOf(frame: CommitFrame): RefPart {
  const { partNumber, size, etag, lastModifiedMs, content } = frame
  const { checksum } = JSON.parse(frame.details.toString()) as { checksum: string } // the store writes it so
  const extents = 'extents' in content ? [...content.extents] : []
  return { partNumber, size, etag, lastModifiedMs, checksum: { value: checksum, bytes: size }, extents }
}

export const summaryOf = ({ size, lastModifiedMs, etag, commitSequence }: ObjectSummary): ObjectSummary => ({
  size,
  lastModifiedMs,
  etag,
  commitSequence,
})

/** A listing of the bucket. Keys are ASCII here, so characters have the order of bytes. */
export function listed(
  bucket: RefBucket | undefined,
  {
    prefix,
    delimiter,
    from,
    after,
    max,
  }: { prefix: string; delimiter: string; from: string; after: string; max: number },
): { keys: string[]; commonPrefixes: string[]; isWhole: boolean } {
  const keys: string[] = []
  const commonPrefixes: string[] = []
  for (const key of [...(bucket?.objects.keys() ?? [])].sort()) {
    if (!key.startsWith(prefix) || key < from || (after !== '' && key <= after)) continue
    const end = delimiter === '' ? -1 : key.indexOf(delimiter, prefix.length)
    const common = end < 0 ? null : key.slice(0, end + delimiter.length)
    if (common !== null && commonPrefixes.at(-1) === common) continue
    if (keys.length + commonPrefixes.length === max) return { keys, commonPrefixes, isWhole: false }
    if (common === null) keys.push(key)
    else commonPrefixes.push(common)
  }
  return { keys, commonPrefixes, isWhole: true }
}
