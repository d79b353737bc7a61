/** The uploads under way: by id, and for each bucket in the order in which they are listed. */
import { SortedList } from '../../sorted-list.ts'

/** The fields by which uploads are ordered. */
interface Listed {
  readonly uploadId: string
  readonly bucketNumber: number
  readonly key: Buffer
  readonly initiatedMs: number
}

/** By bucket, by the bytes of the key, then by when they began. */
const inOrder = (a: Listed, b: Listed): number =>
  a.bucketNumber - b.bucketNumber ||
  Buffer.compare(a.key, b.key) ||
  a.initiatedMs - b.initiatedMs ||
  (a.uploadId < b.uploadId ? -1 : a.uploadId > b.uploadId ? 1 : 0)

export class Uploads<Upload extends Listed> {
  readonly #byId = new Map<string, Upload>()
  readonly #sorted = new SortedList<Upload>(inOrder)

  get size(): number {
    return this.#byId.size
  }

  has(uploadId: string): boolean {
    return this.#byId.has(uploadId)
  }

  get(uploadId: string): Upload | undefined {
    return this.#byId.get(uploadId)
  }

  keys(): IterableIterator<string> {
    return this.#byId.keys()
  }

  /** In the order in which they were added. */
  values(): IterableIterator<Upload> {
    return this.#byId.values()
  }

  /** Adds an upload, or replaces it. */
  set(uploadId: string, upload: Upload): void {
    const before = this.#byId.get(uploadId)
    if (before !== undefined) this.#sorted.remove(before)
    this.#byId.set(uploadId, upload)
    this.#sorted.add(upload)
  }

  delete(uploadId: string): void {
    const upload = this.#byId.get(uploadId)
    if (upload === undefined) return
    this.#byId.delete(uploadId)
    this.#sorted.remove(upload)
  }

  /**
   * Uploads of a bucket, from a key on, in their order.
   *
   * @param behind id of an upload: of the uploads of the key itself, only those behind it are given, unless it does not exist
   */
  *from(bucketNumber: number, key: Buffer, behind: string | null): Generator<Upload, void, undefined> {
    const marker = behind === null ? undefined : this.#byId.get(behind)
    const isOfKey = marker?.bucketNumber === bucketNumber && marker.key.equals(key)
    const isThere = (other: Upload): boolean =>
      isOfKey
        ? inOrder(other, marker) > 0
        : other.bucketNumber > bucketNumber ||
          (other.bucketNumber === bucketNumber && Buffer.compare(other.key, key) >= 0)
    for (const upload of this.#sorted.from(isThere)) {
      if (upload.bucketNumber !== bucketNumber) return
      yield upload
    }
  }
}
