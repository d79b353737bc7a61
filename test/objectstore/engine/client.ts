/** A client of a simulated store: most calls step the world until they are answered. */
import { finishBody } from '../../../src/objectstore/finish-body.ts'
import type {
  BodyTarget,
  BodyWriter,
  Bucket,
  ObjectSummary,
  ReceivedBody,
  StoredObject,
  Upload,
  UploadedPart,
} from '../../../src/objectstore/operations.ts'
import { UNCONDITIONAL } from '../../../src/objectstore/operations.ts'
import type { StoreWorld } from './world.ts'
import { PLAIN } from '../../support/object-attributes.ts'
import { storeObject } from '../../../src/objectstore/s3/objects/incoming-object.ts'

export const PLAN = { checksums: ['CRC64NVME'], sha256: false } as const

export class StoreClient {
  readonly world: StoreWorld
  readonly bucket: Bucket

  static async open(world: StoreWorld): Promise<StoreClient> {
    return new StoreClient(world, await resultAfterFlush(world, world.store.createBucket('photos', 'ann')))
  }

  constructor(world: StoreWorld, bucket: Bucket) {
    this.world = world
    this.bucket = bucket
  }

  target(key: string): BodyTarget {
    return { bucket: this.bucket, key, upload: null }
  }

  /** A body that goes to the log in extents, even if it is small. */
  large(key: string): BodyWriter {
    return this.world.store.receive(1 << 20, PLAN, this.target(key))
  }

  put(key: string, bytes: Buffer): Promise<ObjectSummary> {
    return this.#resultAfterFlush(this.putting(key, bytes))
  }

  putLarge(key: string, bytes: Buffer): Promise<ObjectSummary> {
    return this.#resultAfterFlush(this.putting(key, bytes, 1 << 20))
  }

  /** Starts a put. The caller has to step the world. */
  async putting(key: string, bytes: Buffer, declared = bytes.byteLength): Promise<ObjectSummary> {
    const writer = this.world.store.receive(declared, PLAN, this.target(key))
    writer.write(bytes)
    return this.commit(key, await finishBody(writer))
  }

  commit(key: string, body: ReceivedBody): Promise<ObjectSummary> {
    const { bucket } = this
    const object = { bucket, key, attributes: PLAIN, checksums: [], body, precondition: UNCONDITIONAL }
    return storeObject(this.world.store, object)
  }

  delete(key: string): Promise<unknown> {
    return this.#resultAfterFlush(this.world.store.deleteObject(this.bucket, key, () => null))
  }

  begin(key: string): Promise<Upload> {
    const checksum = { algorithm: 'CRC32', type: 'FULL_OBJECT', isChosen: false } as const
    const about = { bucket: this.bucket, key, attributes: PLAIN, checksum, initiator: 'ann' }
    return this.#resultAfterFlush(this.world.store.createUpload(about))
  }

  part(upload: Upload, partNumber: number, bytes: Buffer, declared = 1 << 20): Promise<UploadedPart> {
    const sending = async (): Promise<UploadedPart> => {
      const { bucket, key, uploadId } = upload
      const plan = { checksums: ['CRC32'] as const, sha256: false }
      const writer = this.world.store.receive(declared, plan, { bucket, key, upload: { uploadId, partNumber } })
      writer.write(bytes)
      const body = await finishBody(writer)
      const checksum = { value: body.digest.checksums[0]!.value, bytes: bytes.byteLength }
      return this.world.store.putPart(upload, partNumber, body, checksum)
    }
    return this.#resultAfterFlush(sending())
  }

  completing(upload: Upload, parts: readonly UploadedPart[]): Promise<ObjectSummary> {
    const etag = '0123456789abcdef0123456789abcdef'
    return this.world.store.completeUpload({ upload, parts, etag, checksums: [], precondition: UNCONDITIONAL })
  }

  async found(key: string): Promise<StoredObject> {
    const object = await this.#resultAfterFlush(Promise.resolve(this.world.store.object(this.bucket, key)))
    if (object === null) throw new Error(`no object ${key}`)
    return object
  }

  /** Reads the whole body. */
  async get(key: string): Promise<Buffer> {
    const object = await this.found(key)
    const source = object.read(0, object.size)
    const pieces: Uint8Array[] = []
    for (
      let piece = await this.#resultAfterFlush(source.next());
      piece !== null;
      piece = await this.#resultAfterFlush(source.next())
    ) {
      pieces.push(Buffer.from(piece)) // the source uses this memory again
    }
    return Buffer.concat(pieces)
  }

  #resultAfterFlush<T>(promise: Promise<T>): Promise<T> {
    return resultAfterFlush(this.world, promise)
  }
}

/** The members of an object, except the method that reads it and the headers made from it. */
export const factsOf = (object: StoredObject): object =>
  Object.fromEntries(Object.entries(object).filter(([name]) => name !== 'read' && name !== 'headers'))

/** Steps the world until it is idle, then awaits the promise. */
export async function resultAfterFlush<T>(world: StoreWorld, promise: Promise<T>): Promise<T> {
  promise.catch(() => {}) // awaited below
  await world.flush()
  return promise
}
