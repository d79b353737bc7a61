/**
 * The object store's contract in memory: what tests of the gateway's handlers stand on. Simple rather than fast; digests and checksums are
 * real. Every change is one turn of the event loop, so nothing comes between a precondition and its change (O3).
 */
import type { Answer } from '../../src/engine/decision.ts'
import { answerWith } from './answer-with.ts'
import assert from 'node:assert/strict'
import type { DigestPlan } from '../../src/objectstore/bodies/body-digests.ts'
import type { PartChecksum } from '../../src/objectstore/bodies/checksums.ts'
import type { Tag } from '../../src/objectstore/operations.ts'
import type {
  BodyTarget,
  BodyWriter,
  Bucket,
  CompletedUpload,
  Completion,
  DeletedObject,
  ListedObject,
  ListOptions,
  NewObject,
  NewUpload,
  ObjectAttributes,
  ObjectPage,
  ObjectPart,
  ObjectStore,
  ObjectSummary,
  Precondition,
  ReceivedBody,
  StoredObject,
  Upload,
  UploadedPart,
} from '../../src/objectstore/operations.ts'
import { notLeading, refuse } from '../../src/objectstore/refusals.ts'
import type { S3Error } from '../../src/objectstore/refusals.ts'
import { MemoryBody, MemorySource, MemoryWriter, OpenBodies } from './memory-bodies.ts'

/** An object with its bytes, but without the method that reads them. */
type MemoryObject = Omit<StoredObject, 'read'> & { readonly bucket: number; readonly bytes: Buffer }

interface MemoryUpload {
  readonly attributes: ObjectAttributes
  readonly upload: Omit<Upload, 'parts'>
  readonly parts: Map<number, { readonly part: UploadedPart; readonly bytes: Buffer }>
}

export class MemoryStore implements ObjectStore {
  readonly open = new OpenBodies()
  /** Time of changes, Unix epoch; tests set it. */
  nowMs = Date.UTC(2026, 10, 20, 9, 30, 5, 250)
  readonly #buckets = new Map<string, Bucket>()
  readonly #objects = new Map<string, MemoryObject>()
  readonly #uploads = new Map<string, MemoryUpload>()
  readonly #completed = new Map<string, CompletedUpload>()
  #bucketsEver = 0
  #uploadsEver = 0
  #commitSequence = 0

  /** The term in which the node leads; null: it does not lead. */
  termNow: number | null = 0

  term(): number | S3Error {
    return this.termNow ?? notLeading('http://10.0.0.2:9000')
  }

  buckets(owner: string, from: string): readonly Bucket[] {
    return [...this.#buckets.values()]
      .filter((bucket) => bucket.owner === owner && bucket.name >= from)
      .toSorted((a, b) => (a.name < b.name ? -1 : 1))
  }

  bucket(name: string): Bucket | null {
    return this.#buckets.get(name) ?? null
  }

  async settled(): Promise<void> {}

  async createBucket(name: string, owner: string): Promise<Bucket> {
    const existing = this.#buckets.get(name)
    const fields = { BucketName: name }
    if (existing !== undefined) {
      throw refuse(existing.owner === owner ? 'BucketAlreadyOwnedByYou' : 'BucketAlreadyExists', undefined, { fields })
    }
    const bucket = {
      number: ++this.#bucketsEver,
      name,
      owner,
      createdMs: this.nowMs,
      cors: null,
      policy: null,
    }
    this.#buckets.set(name, bucket)
    return bucket
  }

  async deleteBucket({ name, number }: Bucket): Promise<void> {
    if ([...this.#objects.values()].some((object) => object.bucket === number)) {
      throw refuse('BucketNotEmpty', undefined, { fields: { BucketName: name } })
    }
    this.#buckets.delete(name)
    for (const { upload } of this.#uploads.values()) {
      if (upload.bucket.number === number) this.#uploads.delete(upload.uploadId)
    }
  }

  async setBucketDocument(bucket: Bucket, kind: 'cors' | 'policy', document: Buffer | null): Promise<void> {
    this.#buckets.set(bucket.name, { ...this.#existing(bucket), [kind]: document })
  }

  peek(bucket: Bucket, key: string): ObjectSummary | null {
    const object = this.#objects.get(nameOf(bucket, key))
    return object === undefined ? null : summaryOf(object)
  }

  async object(bucket: Bucket, key: string): Promise<StoredObject | null> {
    assert(Buffer.byteLength(key) <= 1024, 'a key has 1024 bytes at most')
    const object = this.#objects.get(nameOf(bucket, key))
    if (object === undefined) return null
    const read = (from: number, to: number) => {
      assert(0 <= from && from <= to && to <= object.size, `[${from}, ${to}) of ${object.size} bytes`)
      return new MemorySource(object.bytes.subarray(from, to), this.open)
    }
    return { ...object, read }
  }

  async list(bucket: Bucket, options: ListOptions): Promise<ObjectPage> {
    const { prefix, delimiter, from, after, max } = options
    const objects: ListedObject[] = []
    const commonPrefixes: Buffer[] = []
    if (max === 0) return { objects, commonPrefixes, next: null }
    for (const { key, object } of this.#sorted(bucket)) {
      const isListed = from.compare(key) <= 0 && (after.length === 0 || after.compare(key) < 0)
      if (!isListed || !key.subarray(0, prefix.length).equals(prefix)) continue
      const at = delimiter.length === 0 ? -1 : key.indexOf(delimiter, prefix.length)
      const common = at < 0 ? null : key.subarray(0, at + delimiter.length)
      if (common !== null && commonPrefixes.at(-1)?.equals(common)) continue
      if (objects.length + commonPrefixes.length === max) return { objects, commonPrefixes, next: key }
      if (common === null) objects.push(listedOf(key, object))
      else commonPrefixes.push(common)
    }
    return { objects, commonPrefixes, next: null }
  }

  receive(_lengthBytes: number | null, digests: DigestPlan, _target: BodyTarget): BodyWriter {
    return new MemoryWriter(digests, this.open)
  }

  putObject(answer: Answer<ObjectSummary>, object: NewObject): void {
    answerWith(answer, this.#put(object))
  }

  async #put({ bucket, key, attributes, checksums, body, precondition }: NewObject): Promise<ObjectSummary> {
    const { digest } = body
    const bytes = bodyOf(body).take() // also if the change is refused
    this.#judge(bucket, key, precondition)
    return this.#keep(bucket, key, { ...attributes, etag: digest.md5, checksums, parts: null, bytes })
  }

  async deleteObject(bucket: Bucket, key: string, precondition: Precondition): Promise<DeletedObject> {
    this.#judge(bucket, key, precondition)
    this.#objects.delete(nameOf(bucket, key))
    return { commitSequence: ++this.#commitSequence }
  }

  async setTags(bucket: Bucket, key: string, tags: readonly Tag[]): Promise<ObjectSummary> {
    const object = this.#objects.get(nameOf(bucket, key))
    if (object === undefined) throw refuse('NoSuchKey', undefined, { fields: { Key: key } })
    this.#objects.set(nameOf(bucket, key), { ...object, tags })
    this.#commitSequence++
    return summaryOf(object)
  }

  async createUpload({ bucket, key, attributes, checksum, initiator }: NewUpload): Promise<Upload> {
    const uploadId = `upload-${++this.#uploadsEver}`
    const { encryption, storageClass } = attributes
    const upload = {
      uploadId,
      bucket: this.#existing(bucket),
      key,
      initiator,
      initiatedMs: this.nowMs,
      checksum,
      storageClass,
      encryption,
    }
    this.#uploads.set(uploadId, { attributes, upload, parts: new Map() })
    return { ...upload, parts: [] }
  }

  upload(bucket: Bucket, key: string, uploadId: string): Upload | null {
    const found = this.#uploads.get(uploadId)
    return found?.upload.bucket.number === bucket.number && found.upload.key === key ? snapshotOf(found) : null
  }

  async completedUpload(bucket: Bucket, key: string, uploadId: string): Promise<CompletedUpload | null> {
    const found = this.#completed.get(uploadId)
    return found?.bucketNumber === bucket.number && found.key === key ? found : null
  }

  uploads(bucket: Bucket, from: Buffer, behind: string | null): readonly Upload[] {
    const sorted = [...this.#uploads.values()]
      .filter(({ upload }) => upload.bucket.number === bucket.number)
      .toSorted((a, b) => Buffer.from(a.upload.key).compare(Buffer.from(b.upload.key)))
      .map(snapshotOf)
    const at = sorted.findIndex(({ key, uploadId }) => key === from.toString() && uploadId === behind)
    return sorted.filter(({ key }, i) => (at < 0 ? from.compare(Buffer.from(key)) <= 0 : i > at))
  }

  async putPart(upload: Upload, partNumber: number, body: ReceivedBody, checksum: PartChecksum): Promise<UploadedPart> {
    const { digest } = body
    const bytes = bodyOf(body).take()
    const { parts } = this.#underWay(upload)
    const part = { partNumber, size: digest.bytes, etag: digest.md5, lastModifiedMs: this.nowMs, checksum }
    parts.set(partNumber, { part, bytes })
    return part
  }

  async completeUpload({ upload, parts, etag, checksums, precondition }: Completion): Promise<ObjectSummary> {
    const { uploadId, bucket, key, checksum } = upload
    const { attributes, parts: kept } = this.#underWay(upload)
    for (const { partNumber, etag: partEtag } of parts) {
      if (kept.get(partNumber)?.part.etag !== partEtag) throw refuse('InvalidPart')
    }
    this.#judge(bucket, key, precondition)
    const objectEtag = `${etag}-${parts.length}`
    const summary = this.#keep(bucket, key, {
      ...attributes,
      etag: objectEtag,
      checksums,
      parts: parts.map((part): ObjectPart => ({
        partNumber: part.partNumber,
        size: part.size,
        checksum: checksum.isChosen ? part.checksum.value : null,
      })),
      bytes: Buffer.concat(parts.map(({ partNumber }) => kept.get(partNumber)!.bytes)),
    })
    this.#uploads.delete(uploadId)
    const { commitSequence } = summary
    this.#completed.set(uploadId, {
      uploadId,
      bucketNumber: bucket.number,
      key,
      etag: objectEtag,
      checksums,
      commitSequence,
      encryption: attributes.encryption,
    })
    return summary
  }

  async abortUpload(upload: Upload): Promise<void> {
    this.#underWay(upload)
    this.#uploads.delete(upload.uploadId)
  }

  #existing({ name, number }: Bucket): Bucket {
    const bucket = this.#buckets.get(name)
    if (bucket?.number === number) return bucket
    throw refuse('NoSuchBucket', undefined, { fields: { BucketName: name } })
  }

  #underWay({ uploadId }: Upload): MemoryUpload {
    const found = this.#uploads.get(uploadId)
    if (found !== undefined) return found
    throw refuse('NoSuchUpload', undefined, { fields: { UploadId: uploadId } })
  }

  #judge(bucket: Bucket, key: string, precondition: Precondition): void {
    this.#existing(bucket)
    const refused = precondition(this.peek(bucket, key))
    if (refused !== null) throw refused
  }

  #keep(
    bucket: Bucket,
    key: string,
    object: Omit<MemoryObject, 'bucket' | 'key' | 'size' | 'lastModifiedMs' | 'commitSequence'>,
  ): ObjectSummary {
    const kept = {
      ...object,
      bucket: bucket.number,
      key,
      size: object.bytes.length,
      lastModifiedMs: this.nowMs,
      commitSequence: ++this.#commitSequence,
    }
    this.#objects.set(nameOf(bucket, key), kept)
    return summaryOf(kept)
  }

  #sorted(bucket: Bucket): { key: Buffer; object: MemoryObject }[] {
    return [...this.#objects.values()]
      .filter((object) => object.bucket === bucket.number)
      .map((object) => ({ key: Buffer.from(object.key), object }))
      .toSorted((a, b) => a.key.compare(b.key))
  }
}

const nameOf = (bucket: Bucket, key: string): string => `${bucket.number}/${key}`

const summaryOf = ({ size, lastModifiedMs, etag, commitSequence }: MemoryObject): ObjectSummary => ({
  size,
  lastModifiedMs,
  etag,
  commitSequence,
})

const listedOf = (key: Buffer, object: MemoryObject): ListedObject => ({
  ...summaryOf(object),
  key,
  checksumAlgorithms: object.checksums.map(({ algorithm }) => algorithm),
  checksumType: object.checksums[0]?.type ?? null,
  storageClass: object.storageClass,
})

const snapshotOf = ({ upload, parts }: MemoryUpload): Upload => ({
  ...upload,
  parts: [...parts.values()].map(({ part }) => part).toSorted((a, b) => a.partNumber - b.partNumber),
})

function bodyOf(body: ReceivedBody): MemoryBody {
  assert(body instanceof MemoryBody, 'a body comes from the store that it goes to')
  return body
}
