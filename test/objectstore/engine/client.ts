/** What tests ask of a store whose world they move: each call goes on until it is answered. */
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
    return new StoreClient(world, await settled(world, world.store.createBucket('photos', 'ann')))
  }

  constructor(world: StoreWorld, bucket: Bucket) {
    this.world = world
    this.bucket = bucket
  }

  target(key: string): BodyTarget {
    return { bucket: this.bucket, key, upload: null }
  }

  /** In extents, however small. */
  large(key: string): BodyWriter {
    return this.world.store.receive(1 << 20, PLAN, this.target(key))
  }

  put(key: string, bytes: Buffer): Promise<ObjectSummary> {
    return this.#settled(this.putting(key, bytes))
  }

  putLarge(key: string, bytes: Buffer): Promise<ObjectSummary> {
    return this.#settled(this.putting(key, bytes, 1 << 20))
  }

  /** Under way: the caller moves the world. */
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
    return this.#settled(this.world.store.deleteObject(this.bucket, key, () => null))
  }

  begin(key: string): Promise<Upload> {
    const checksum = { algorithm: 'CRC32', type: 'FULL_OBJECT', isChosen: false } as const
    const about = { bucket: this.bucket, key, attributes: PLAIN, checksum, initiator: 'ann' }
    return this.#settled(this.world.store.createUpload(about))
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
    return this.#settled(sending())
  }

  completing(upload: Upload, parts: readonly UploadedPart[]): Promise<ObjectSummary> {
    const etag = '0123456789abcdef0123456789abcdef'
    return this.world.store.completeUpload({ upload, parts, etag, checksums: [], precondition: UNCONDITIONAL })
  }

  async found(key: string): Promise<StoredObject> {
    const object = await this.#settled(Promise.resolve(this.world.store.object(this.bucket, key)))
    if (object === null) throw new Error(`no object ${key}`)
    return object
  }

  /** The whole body. */
  async get(key: string): Promise<Buffer> {
    const object = await this.found(key)
    const source = object.read(0, object.size)
    const pieces: Uint8Array[] = []
    for (let piece = await this.#settled(source.next()); piece !== null; piece = await this.#settled(source.next())) {
      pieces.push(Buffer.from(piece)) // its memory is used again
    }
    return Buffer.concat(pieces)
  }

  #settled<T>(promise: Promise<T>): Promise<T> {
    return settled(this.world, promise)
  }
}

/** All that is known of an object, without the way to its bytes and what is made of it. */
export const factsOf = (object: StoredObject): object =>
  Object.fromEntries(Object.entries(object).filter(([name]) => name !== 'read' && name !== 'headers'))

/** What a promise comes to while the world goes on. */
export async function settled<T>(world: StoreWorld, promise: Promise<T>): Promise<T> {
  promise.catch(() => {}) // heard below
  await world.flush()
  return promise
}
