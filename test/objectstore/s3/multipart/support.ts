/** Handlers of uploads in parts, without HTTP, on a store in memory. */
import assert from 'node:assert/strict'
import type { Answer, GatewayContext, ObjectHandler } from '../../../../src/objectstore/s3/handler.ts'
import {
  abortMultipartUpload,
  createMultipartUpload,
} from '../../../../src/objectstore/s3/multipart/multipart-upload.ts'
import { completeMultipartUpload } from '../../../../src/objectstore/s3/multipart/complete-multipart-upload.ts'
import { listMultipartUploads, listParts } from '../../../../src/objectstore/s3/multipart/multipart-listings.ts'
import { uploadPart } from '../../../../src/objectstore/s3/multipart/upload-part.ts'
import { uploadPartCopy } from '../../../../src/objectstore/s3/multipart/upload-part-copy.ts'
import type { Bucket } from '../../../../src/objectstore/operations.ts'
import { FakeBody, headerOf, requestOf, TestGateway } from '../../../support/object-handlers.ts'
import type { RequestParts } from '../../../support/object-handlers.ts'
import type { MemoryStore } from '../../../support/memory-store.ts'

export const MIB = 1 << 20

/** A part in the list of a CompleteMultipartUpload. */
export interface Listed {
  readonly partNumber: number
  readonly etag: string
  /** More elements of the part, as XML. */
  readonly more?: string
}

/** A gateway with one bucket, and all requests about uploads in parts. */
export class TestUploads {
  readonly gateway: TestGateway
  readonly store: MemoryStore
  readonly bucket: Bucket
  readonly #context: GatewayContext

  private constructor(gateway: TestGateway) {
    this.gateway = gateway
    this.store = gateway.store
    this.bucket = gateway.bucket
    this.#context = { ...gateway.context, putBytesMax: 16 * MIB }
  }

  static async open(): Promise<TestUploads> {
    return new TestUploads(await TestGateway.open())
  }

  create(key: string, asked: RequestParts = {}): Promise<Answer> {
    return this.#ask(createMultipartUpload, key, {}, asked)
  }

  /** @returns the id of the upload */
  async begin(key: string, headers: RequestParts['headers'] = {}): Promise<string> {
    return elementOf(await this.create(key, { headers }), 'UploadId')
  }

  part(key: string, uploadId: string, partNumber: number | string, asked: RequestParts): Promise<Answer> {
    return this.#ask(uploadPart, key, { partNumber: String(partNumber), uploadId }, asked)
  }

  /** @returns the part for the list of a CompleteMultipartUpload */
  async send(key: string, uploadId: string, partNumber: number, body: Uint8Array | string): Promise<Listed> {
    const answer = await this.part(key, uploadId, partNumber, { body })
    return { partNumber, etag: headerOf(answer, 'etag') ?? '' }
  }

  partCopy(key: string, uploadId: string, source: string, headers: RequestParts['headers'] = {}): Promise<Answer> {
    const asked = { headers: { 'x-amz-copy-source': source, ...headers } }
    return this.#ask(uploadPartCopy, key, { partNumber: '1', uploadId }, asked)
  }

  complete(
    key: string,
    uploadId: string,
    parts: readonly Listed[] | string | FakeBody,
    headers: RequestParts['headers'] = {},
  ): Promise<Answer> {
    const body = typeof parts === 'string' || parts instanceof FakeBody ? parts : completeDocument(parts)
    const url = `http://127.0.0.1:9000/photos/${encodeURIComponent(key)}`
    return this.#ask(completeMultipartUpload, key, { uploadId }, { body, headers, url })
  }

  abort(key: string, uploadId: string): Promise<Answer> {
    return this.#ask(abortMultipartUpload, key, { uploadId }, {})
  }

  parts(key: string, uploadId: string, query: RequestParts['query'] = {}): Promise<Answer> {
    return this.#ask(listParts, key, { uploadId, ...query }, {})
  }

  async uploads(query: RequestParts['query'] = {}): Promise<Answer> {
    return listMultipartUploads(requestOf({ query }), this.bucket, this.#context)
  }

  /** The bytes of an object; null when there is none. */
  async read(key: string): Promise<Buffer | null> {
    const object = await this.store.object(this.bucket, key)
    if (object === null) return null
    const source = object.read(0, object.size)
    const pieces: Uint8Array[] = []
    for (let piece = await source.next(); piece !== null; piece = await source.next()) pieces.push(piece)
    return Buffer.concat(pieces)
  }

  async #ask(handler: ObjectHandler, key: string, query: RequestParts['query'], asked: RequestParts): Promise<Answer> {
    return handler(requestOf({ ...asked, query: query ?? {} }), this.bucket, key, this.#context)
  }
}

export function completeDocument(parts: readonly Listed[]): string {
  const elements = parts.map(
    ({ partNumber, etag, more = '' }) =>
      `<Part><PartNumber>${partNumber}</PartNumber><ETag>${etag}</ETag>${more}</Part>`,
  )
  return `<CompleteMultipartUpload>${elements.join('')}</CompleteMultipartUpload>`
}

export function textOf({ body }: Answer): string {
  assert(body !== null && body !== undefined && 'bytes' in body)
  assert.equal(body.contentType, 'application/xml')
  return String(body.bytes)
}

/** Texts of all elements of a name, in order. */
export const elementsOf = (answer: Answer, name: string): string[] =>
  [...textOf(answer).matchAll(new RegExp(`<${name}>([^<]*)</${name}>`, 'g'))].map(([, text]) => text!)

export function elementOf(answer: Answer, name: string): string {
  const [text] = elementsOf(answer, name)
  assert(text !== undefined, `${name} in ${textOf(answer)}`)
  return text
}
