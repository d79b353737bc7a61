/**
 * Backups in a bucket of an S3-compatible store, over the AWS SDK, which is loaded only here.
 *
 * The SDK repeats failed requests for a while, which it can, as everything that is sent is in memory.
 *
 * B1  a file that is longer than a part is a multipart upload: one that is not completed shows no object, and one that fails is aborted
 * B3  nothing locks a bucket. A snapshot is put only where none is, so of two backups that run at once one fails at its end
 */
import type * as Sdk from '@aws-sdk/client-s3'
import { StoreError, messageOf } from '../errors.ts'
import { MARKER_KEY, sequenceOf } from './snapshot.ts'
import { missingFile } from './target.ts'
import type { BackupTarget, ListedFile, TargetAccess } from './target.ts'

const PART_BYTES = 8 << 20
const ATTEMPTS = 5
const REMOVED_AT_ONCE = 1000

export interface S3Place {
  readonly bucket: string
  /** Empty, or it ends with a slash. */
  readonly prefix: string
}

/** `s3://bucket/prefix`; null: the text is no such place. */
export function s3PlaceOf(text: string): S3Place | null {
  const [, bucket, rest = ''] = /^s3:\/\/([^/]+)(?:\/(.*))?$/s.exec(text) ?? []
  if (bucket === undefined) return null
  const prefix = rest.replace(/\/+$/, '')
  return { bucket, prefix: prefix === '' ? '' : `${prefix}/` }
}

/**
 * Credentials and region are what the SDK finds: `AWS_…` variables, profiles, roles.
 *
 * @param endpoint of a store that is not Amazon's; its buckets are addressed by path
 * @throws StoreError backup_missing, backup_place_taken, backup_place_unusable
 */
export async function openS3Target(
  place: S3Place,
  endpoint: string | null,
  access: TargetAccess,
): Promise<BackupTarget> {
  const sdk = await import('@aws-sdk/client-s3')
  const client = new sdk.S3Client({
    maxAttempts: ATTEMPTS,
    ...(endpoint !== null && { endpoint, forcePathStyle: true }),
    requestChecksumCalculation: 'WHEN_REQUIRED', // what is read is compared with the checksum of the snapshot
    responseChecksumValidation: 'WHEN_REQUIRED',
  })
  const target = new S3Target(sdk, client, place)
  const holdsBackup = (await target.list(MARKER_KEY)).some(({ key }) => key === MARKER_KEY)
  if (holdsBackup) return target
  if (access === 'read') throw new StoreError('notFound', 'backup_missing', `${target.name} holds no backup`)
  const others = await target.list('')
  if (others.length === 0) return target
  const message = `${target.name} is not empty and holds no backup: choose another prefix`
  throw new StoreError('invalid', 'backup_place_taken', message)
}

class S3Target implements BackupTarget {
  readonly name: string
  readonly #sdk: typeof Sdk
  readonly #client: Sdk.S3Client
  readonly #place: S3Place

  constructor(sdk: typeof Sdk, client: Sdk.S3Client, place: S3Place) {
    this.name = `s3://${place.bucket}/${place.prefix}`
    this.#sdk = sdk
    this.#client = client
    this.#place = place
  }

  async list(prefix: string): Promise<readonly ListedFile[]> {
    const { bucket, prefix: own } = this.#place
    const found: ListedFile[] = []
    for (let from: string | undefined; ;) {
      const input = {
        Bucket: bucket,
        Prefix: `${own}${prefix}`,
        ...(from !== undefined && { ContinuationToken: from }),
      }
      const page = await this.#ask(() => this.#client.send(new this.#sdk.ListObjectsV2Command(input)))
      for (const { Key, Size } of page.Contents ?? []) {
        if (Key !== undefined) found.push({ key: Key.slice(own.length), bytes: Size ?? 0 })
      }
      from = page.IsTruncated === true ? page.NextContinuationToken : undefined
      if (from === undefined) return found
    }
  }

  async put(key: string, bytes: number, pieces: Iterable<Uint8Array>): Promise<void> {
    if (bytes > PART_BYTES) return this.#putParts(key, pieces)
    const Body = Buffer.concat(Array.from(pieces, (piece) => Buffer.from(piece)))
    const input = { ...this.#object(key), Body, ...(sequenceOf(key) !== null && { IfNoneMatch: '*' }) } // B3
    await this.#ask(
      () => this.#client.send(new this.#sdk.PutObjectCommand(input)),
      (error) => ((error as Error).name === 'PreconditionFailed' ? this.#beaten(error) : null),
    )
  }

  async *read(key: string): AsyncIterable<Uint8Array> {
    const { Body } = await this.#ask(
      () => this.#client.send(new this.#sdk.GetObjectCommand(this.#object(key))),
      (error) => ((error as Error).name === 'NoSuchKey' ? missingFile(this.name, key, error) : null),
    )
    if (Body === undefined) return
    try {
      for await (const piece of Body as AsyncIterable<Uint8Array>) yield piece // in Node a body is a stream
    } catch (error) {
      throw this.#failure(error)
    }
  }

  async remove(keys: readonly string[]): Promise<void> {
    for (let from = 0; from < keys.length; from += REMOVED_AT_ONCE) {
      const Objects = keys.slice(from, from + REMOVED_AT_ONCE).map((key) => ({ Key: this.#object(key).Key }))
      const input = { Bucket: this.#place.bucket, Delete: { Objects, Quiet: true } }
      await this.#ask(() => this.#client.send(new this.#sdk.DeleteObjectsCommand(input)))
    }
  }

  async close(): Promise<void> {
    this.#client.destroy()
  }

  /** B1 */
  async #putParts(key: string, pieces: Iterable<Uint8Array>): Promise<void> {
    const object = this.#object(key)
    const { UploadId } = await this.#ask(() => this.#client.send(new this.#sdk.CreateMultipartUploadCommand(object)))
    try {
      const parts: Sdk.CompletedPart[] = []
      for (const Body of partsOf(pieces)) {
        const PartNumber = parts.length + 1
        const input = { ...object, UploadId, PartNumber, Body }
        const { ETag } = await this.#ask(() => this.#client.send(new this.#sdk.UploadPartCommand(input)))
        parts.push({ ETag, PartNumber })
      }
      const input = { ...object, UploadId, MultipartUpload: { Parts: parts } }
      await this.#ask(() => this.#client.send(new this.#sdk.CompleteMultipartUploadCommand(input)))
    } catch (error) {
      const abort = new this.#sdk.AbortMultipartUploadCommand({ ...object, UploadId })
      await this.#client.send(abort).catch(() => {}) // the first error says what is wrong
      throw error
    }
  }

  #object = (key: string): { readonly Bucket: string; readonly Key: string } => ({
    Bucket: this.#place.bucket,
    Key: `${this.#place.prefix}${key}`,
  })

  async #ask<Result>(
    send: () => Promise<Result>,
    known: (error: unknown) => StoreError | null = () => null,
  ): Promise<Result> {
    try {
      return await send()
    } catch (error) {
      throw known(error) ?? this.#failure(error)
    }
  }

  /** B3 */
  #beaten(cause: unknown): StoreError {
    const message = `${this.name}: another backup to it has ended meanwhile: run this one again`
    return new StoreError('conflict', 'backup_beaten', message, { cause })
  }

  #failure(error: unknown): StoreError {
    const name = error instanceof Error ? error.name : 'Error'
    const message = `${this.name}: ${name}: ${messageOf(error).split('\n')[0]}`
    return new StoreError('unavailable', 'backup_place_unusable', message, { cause: error })
  }
}

/** Joins pieces into parts; each part has memory of its own. */
function* partsOf(pieces: Iterable<Uint8Array>): Generator<Buffer, void, undefined> {
  let part = Buffer.allocUnsafe(PART_BYTES)
  let filled = 0
  for (const piece of pieces) {
    for (let at = 0; at < piece.byteLength;) {
      const copied = Math.min(piece.byteLength - at, PART_BYTES - filled)
      part.set(piece.subarray(at, at + copied), filled)
      at += copied
      filled += copied
      if (filled < PART_BYTES) continue
      yield part
      part = Buffer.allocUnsafe(PART_BYTES)
      filled = 0
    }
  }
  if (filled > 0) yield part.subarray(0, filled)
}
