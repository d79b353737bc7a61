/**
 * The operations of the object store, apart from their protocol. The gateway calls this interface; the engine implements it, and so does the store in
 * memory that tests use.
 *
 * The promise of a change settles when the change is durable. A refusal (S3Error) leaves no half-change. Conditions are judged at the moment of the
 * change, so that no other change comes between.
 *
 * O2  every answer is durable: an answer that reveals a change waits until the change is durable
 */
import type { Answer } from '../engine/decision.ts'
import type { BodyDigest, DigestPlan } from './bodies/body-digests.ts'
import type { PartChecksum, UploadChecksum } from './bodies/checksums.ts'
import type { Checksum } from './bodies/checksums.ts'
import type { S3Error } from './refusals.ts'
import type { StorageClass } from './storage-class.ts'

export interface Bucket {
  /** Never given to another bucket. */
  readonly number: number
  readonly name: string
  /** Id of a principal. */
  readonly owner: string
  readonly createdMs: number
  /** The documents as they were sent. */
  readonly cors: Buffer | null
  readonly policy: Buffer | null
}

export interface Tag {
  readonly key: string
  readonly value: string
}

/** What a client says of an object besides its body. */
export interface ObjectAttributes {
  readonly contentType: string
  readonly cacheControl: string | null
  readonly contentDisposition: string | null
  readonly contentEncoding: string | null
  readonly contentLanguage: string | null
  /** As sent. */
  readonly expires: string | null
  /** By lower-case name, without `x-amz-meta-`. */
  readonly metadata: Readonly<Record<string, string>>
  readonly tags: readonly Tag[]
  readonly storageClass: StorageClass
  readonly encryption: Encryption | null
}

/** The encryption that a client asked for. The store does not encrypt at rest: spec "What the service does", 6. */
export type Encryption =
  | { readonly kind: 'AES256' }
  | { readonly kind: 'aws:kms'; readonly keyId: string | null; readonly bucketKey: boolean }
  | { readonly kind: 'customer'; readonly keyMd5: string }

/** What conditions and listings need of an object. */
export interface ObjectSummary {
  readonly size: number
  readonly lastModifiedMs: number
  /** As clients see it, without quotes: hex digits, with `-N` behind them for a multipart object. */
  readonly etag: string
  readonly commitSequence: number
}

export interface ObjectPart {
  readonly partNumber: number
  readonly size: number
  /** Null when the upload did not choose an algorithm. */
  readonly checksum: string | null
}

/** Headers of an answer, under the names that its client knows. */
export interface ShownHeaders {
  readonly lines: readonly (readonly [name: string, value: string])[]
  textFor(speaksS3: boolean): string
}

export interface StoredObject extends ObjectSummary, ObjectAttributes {
  readonly key: string
  /** Checksums of the whole object. */
  readonly checksums: readonly Checksum[]
  /** Parts of a multipart upload, in their order; null: the object came in one piece. */
  readonly parts: readonly ObjectPart[] | null
  /** Headers that show the object. The gateway keeps them here, so that they go when the object leaves memory. */
  headers?: ShownHeaders | null
  /**
   * Reads the bytes [from, to) of the body. It gives only what was stored; damage ends in an error.
   * The source is to be read to its end or closed. The object may be overwritten meanwhile.
   */
  read(from: number, to: number): ByteSource
}

/** Bytes piece by piece. */
export interface ByteSource {
  /** All the bytes, when they are in memory: `next` gives them once. */
  readonly whole?: Uint8Array
  /**
   * Null: the end. A piece stays as it is until the next one is asked for, or the source is closed.
   *
   * @throws S3Error InternalError when what is stored is damaged
   */
  next(): Promise<Uint8Array | null>
  /** Gives up what was not read. */
  close(): void
}

/**
 * Takes the bytes of one body. Small bodies are held in memory, large ones go to the log as they come. Ends with `finish` or `abandon`; a finished body
 * is given to exactly one change, or abandoned.
 */
export interface BodyWriter {
  /** Copies the bytes. Returns false when the caller should wait for `onDrain` before it gives more; bytes that come nevertheless are held. */
  write(bytes: Uint8Array): boolean
  onDrain(listener: () => void): void
  /**
   * Calls one of the two, at once or later.
   *
   * @param failed gets an S3Error when the body could not be kept; nothing is left of it then
   */
  finish(received: (body: ReceivedBody) => void, failed: (error: unknown) => void): void
  /** May be called at any time, more than once, even after `finish` as long as no change took the body. */
  abandon(): void
}

export interface ReceivedBody {
  readonly digest: BodyDigest
  abandon(): void
}

/** @param current what is there now, null: nothing @returns why the change is refused, null: it is not */
export type Precondition = (current: ObjectSummary | null) => Error | null

/** Refuses nothing, so that the present object need not be looked up. */
export const UNCONDITIONAL: Precondition = () => null

export interface NewObject {
  readonly bucket: Bucket
  readonly key: string
  readonly attributes: ObjectAttributes
  readonly checksums: readonly Checksum[]
  readonly body: ReceivedBody
  readonly precondition: Precondition
}

export interface DeletedObject {
  readonly commitSequence: number
}

export interface NewUpload {
  readonly bucket: Bucket
  readonly key: string
  readonly attributes: ObjectAttributes
  readonly checksum: UploadChecksum
  /** Id of a principal. */
  readonly initiator: string
}

export interface Upload {
  readonly uploadId: string
  readonly bucket: Bucket
  readonly key: string
  readonly initiator: string
  readonly initiatedMs: number
  readonly checksum: UploadChecksum
  readonly storageClass: StorageClass
  readonly encryption: Encryption | null
  /** Ascending by number; as they are when this is first read. */
  readonly parts: readonly UploadedPart[]
}

export interface UploadedPart {
  readonly partNumber: number
  readonly size: number
  /** 32 hex digits. */
  readonly etag: string
  readonly lastModifiedMs: number
  /** Checksum of the part, by the upload's algorithm. */
  readonly checksum: PartChecksum
}

/** An upload that was completed not long ago: completing it again gives the same answer. */
export interface CompletedUpload {
  readonly uploadId: string
  readonly bucketNumber: number
  readonly key: string
  readonly etag: string
  readonly checksums: readonly Checksum[]
  readonly commitSequence: number
  readonly encryption: Encryption | null
}

export interface Completion {
  readonly upload: Upload
  /** Ascending; parts of the upload as they are now. */
  readonly parts: readonly UploadedPart[]
  /** 32 hex digits, without `-N`. */
  readonly etag: string
  readonly checksums: readonly Checksum[]
  readonly precondition: Precondition
}

export interface ListOptions {
  readonly prefix: Buffer
  /** Empty: none. */
  readonly delimiter: Buffer
  /** Lists only what is at or above it; empty: from the beginning. */
  readonly from: Buffer
  /** Lists only what is above it; empty: no bound. */
  readonly after: Buffer
  /** Keys and common prefixes together. */
  readonly max: number
}

export interface ObjectPage {
  readonly objects: readonly ListedObject[]
  readonly commonPrefixes: readonly Buffer[]
  /** `from` of the next page; null: there is none. */
  readonly next: Buffer | null
}

export interface ListedObject extends ObjectSummary {
  readonly key: Buffer
  /** Algorithms of the checksums, and whether these are of the whole object or of its parts. */
  readonly checksumAlgorithms: readonly Checksum['algorithm'][]
  readonly checksumType: Checksum['type'] | null
  readonly storageClass: StorageClass
}

export interface ObjectStore {
  /**
   * What the methods below say is true in the term in which this node leads its cluster. If the term is still the same when an answer is sent, it was
   * the same when the answer was decided.
   *
   * @returns the term; without a cluster always the same number. The refusal SlowDown when this node does not lead, or is not sure that it does
   */
  term(): number | S3Error

  /**
   * Resolves when everything that is visible now is durable (O2): for answers from methods below that return no promise.
   *
   * @throws S3Error InternalError when some of it was lost
   */
  settled(): Promise<void>

  /** Buckets of a principal, from the name `from` on, by name. To be read at once. */
  buckets(owner: string, from: string): Iterable<Bucket>
  bucket(name: string): Bucket | null
  /** @throws S3Error BucketAlreadyOwnedByYou, BucketAlreadyExists */
  createBucket(name: string, owner: string): Promise<Bucket>
  /** @throws S3Error BucketNotEmpty. Uploads that are under way are aborted. */
  deleteBucket(bucket: Bucket): Promise<void>
  /** Replaces a document; null removes it. */
  setBucketDocument(bucket: Bucket, kind: 'cors' | 'policy', document: Buffer | null): Promise<void>

  /** The object that is there now, durable or not: for `Precondition`s that are checked before a body is read. */
  peek(bucket: Bucket, key: string): ObjectSummary | null
  /** Null: there is no such object. Without a promise when it is in memory. */
  object(bucket: Bucket, key: string): StoredObject | Promise<StoredObject | null>
  list(bucket: Bucket, options: ListOptions): Promise<ObjectPage>
  /**
   * @param lengthBytes null: not known
   */
  receive(lengthBytes: number | null, digests: DigestPlan, target: BodyTarget): BodyWriter
  /** The store owns the body from then on, and abandons it when the change is refused. */
  putObject(answer: Answer<ObjectSummary>, object: NewObject): void
  /** Succeeds if there was no object as well. */
  deleteObject(bucket: Bucket, key: string, precondition: Precondition): Promise<DeletedObject>
  /** @throws S3Error NoSuchKey */
  setTags(bucket: Bucket, key: string, tags: readonly Tag[]): Promise<ObjectSummary>

  createUpload(upload: NewUpload): Promise<Upload>
  /** Null: this bucket and key have no such upload. */
  upload(bucket: Bucket, key: string, uploadId: string): Upload | null
  completedUpload(bucket: Bucket, key: string, uploadId: string): Promise<CompletedUpload | null>
  /**
   * Uploads of a bucket, from the key `from` on, by key (in the order of its bytes), then by when they began. To be read at once.
   *
   * @param behind id of an upload: of the uploads of the key `from` itself, only those behind it are given, unless it does not exist
   */
  uploads(bucket: Bucket, from: Buffer, behind: string | null): Iterable<Upload>
  /**
   * Replaces the part of this number. The store owns the body, as with `putObject`.
   *
   * @throws S3Error NoSuchUpload when the upload was completed or aborted meanwhile
   */
  putPart(upload: Upload, partNumber: number, body: ReceivedBody, checksum: PartChecksum): Promise<UploadedPart>
  /** @throws S3Error NoSuchUpload, and InvalidPart when a part was replaced meanwhile */
  completeUpload(completion: Completion): Promise<ObjectSummary>
  /** @throws S3Error NoSuchUpload */
  abortUpload(upload: Upload): Promise<void>
}

/** Where a body is meant to go. */
export interface BodyTarget {
  readonly bucket: Bucket
  readonly key: string
  /** The part that is written; null: an object. */
  readonly upload: { readonly uploadId: string; readonly partNumber: number } | null
}
