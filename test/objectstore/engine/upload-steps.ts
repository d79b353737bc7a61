/** Steps on uploads in parts. */
import { finishBody } from '../../../src/objectstore/finish-body.ts'
import assert from 'node:assert/strict'
import { objectChecksum } from '../../../src/objectstore/s3/multipart/multipart-checksums.ts'
import { atOnce } from '../../../src/steps.ts'
import { FRAME_PART, decodeCommit } from '../../../src/objectstore/engine/frames.ts'
import type { Bucket, Upload } from '../../../src/objectstore/operations.ts'
import { Steps, changesOf, objectWrittenBy } from './asking.ts'
import { partOf, summaryOf } from './reference.ts'
import { attributesOf, md5Of, writeAll } from './sent.ts'
import type { Condition } from './sent.ts'

export class UploadSteps extends Steps {
  readonly #uploads: Upload[] = []

  createUpload(bucket: Bucket | null, key: string, choice: number): void {
    if (bucket === null) return
    const attributes = attributesOf(choice)
    const checksum = {
      algorithm: 'CRC32',
      type: choice % 2 === 0 ? 'FULL_OBJECT' : 'COMPOSITE',
      isChosen: true,
    } as const
    this.ask({
      name: `create upload ${bucket.name}/${key}`,
      run: () => this.world.store.createUpload({ bucket, key, attributes, checksum, initiator: 'ann' }),
      expected: () => (this.reference.buckets.has(bucket.number) ? 'effect' : 'NoSuchBucket'),
      check: (upload, frames) => {
        this.#uploads.push(upload)
        const [change] = changesOf(frames)
        assert.ok(change?.kind === 'upload_created' && change.upload_id === upload.uploadId)
        assert.deepEqual([upload.key, upload.checksum, upload.parts], [key, checksum, []])
      },
    })
  }

  putPart(choice: number, partNumber: number, bytes: Buffer, isSmall: boolean): void {
    const upload = this.#upload(choice)
    if (upload === undefined) return
    const { bucket, key, uploadId } = upload
    const etag = md5Of(bytes)
    this.ask({
      name: `part ${partNumber} of ${key}`,
      cause: 'part',
      run: async () => {
        const target = { bucket, key, upload: { uploadId, partNumber } }
        const plan = { checksums: ['CRC32'] as const, sha256: true }
        const writer = this.world.store.receive(isSmall ? bytes.byteLength : 1 << 20, plan, target)
        await writeAll(writer, bytes)
        const body = await finishBody(writer)
        const checksum = { value: body.digest.checksums[0]!.value, bytes: bytes.byteLength }
        return this.world.store.putPart(upload, partNumber, body, checksum)
      },
      expected: () => (this.reference.uploads.has(uploadId) ? 'effect' : 'NoSuchUpload'),
      check: (part, frames) => {
        const frame = frames.find(({ type }) => type === FRAME_PART)!
        const { extents: _, ...written } = partOf(decodeCommit(frame.payload))
        assert.deepEqual(part, written)
        assert.deepEqual([part.etag, part.size, part.partNumber], [etag, bytes.byteLength, partNumber])
      },
    })
  }

  /** Completes an upload with its present parts, or with those of an earlier look. */
  complete(choice: number, selection: number, isFresh: boolean, condition: Condition): void {
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
    this.bodies.add(shown, Buffer.concat(parts.map((part) => this.bodies.of(part.etag))))
    const checksums = [
      atOnce(
        objectChecksum(
          checksum,
          parts.map((part) => part.checksum),
        ),
      ),
    ]
    const precondition = this.precondition(bucket, key, condition)
    this.ask({
      name: `complete ${bucket.name}/${key}`,
      cause: 'complete',
      run: () => this.world.store.completeUpload({ upload, parts, etag, checksums, precondition }),
      expected: () => {
        if (!this.reference.buckets.has(bucket.number)) return 'NoSuchBucket'
        const known = this.reference.uploads.get(uploadId)
        if (known === undefined) return 'NoSuchUpload'
        if (parts.some((part) => known.parts.get(part.partNumber)?.etag !== part.etag)) return 'InvalidPart'
        return this.expectedOfChange(bucket, key, condition)
      },
      check: (summary, frames) => {
        const object = objectWrittenBy(frames, bucket, key)
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

  abort(choice: number): void {
    const upload = this.#upload(choice)
    if (upload === undefined) return
    this.ask({
      name: `abort ${upload.key}`,
      run: () => this.world.store.abortUpload(upload),
      expected: () => (this.reference.uploads.has(upload.uploadId) ? 'effect' : 'NoSuchUpload'),
      check: (_, frames) => assert.equal(changesOf(frames)[0]?.kind, 'upload_aborted'),
    })
  }

  /** One of the last uploads. */
  #upload(choice: number): Upload | undefined {
    return this.#uploads.at(-1 - (choice % 4))
  }
}
