/**
 * The index of all objects: bucket and key → where the object is and what conditions and listings need, in the order of keys. It lives on main, is derived
 * from the log, and serves all buckets. An empty bucket has nothing in it, so deleting one costs nothing.
 *
 * Takes about 70 to 100 bytes for a key of 40, outside the JavaScript heap (page.ts, tree.ts). A look-up or change costs a walk of three or
 * four pages.
 */
import { CheckpointReader, CheckpointWriter } from './checkpoint.ts'
import type { IndexContent } from './checkpoint.ts'
import { KEY_BYTES_MAX, objectKey, writeBound, writeKey } from './key.ts'
import { scan } from './scan.ts'
import type { Listing, ScanOptions } from './scan.ts'
import { KeyTree } from './tree.ts'
import { VALUE_BYTES, readValue, writeValue } from './value.ts'
import type { ObjectValue } from './value.ts'

export class KeyIndex {
  readonly #content: IndexContent
  readonly #tree: KeyTree
  readonly #sizes: Map<number, number>
  readonly #key = Buffer.alloc(KEY_BYTES_MAX)
  readonly #value = Buffer.alloc(VALUE_BYTES)
  #keyCount = 0

  static create(): KeyIndex {
    return new KeyIndex({ tree: KeyTree.create(), sizes: new Map() })
  }

  /** @throws StoreError `corrupt` when the parts are not what a checkpoint of this version gave */
  static decode(parts: Iterable<Uint8Array>): KeyIndex {
    const reader = new CheckpointReader()
    for (const part of parts) reader.push(part)
    return new KeyIndex(reader.finish())
  }

  constructor(content: IndexContent) {
    this.#content = content
    this.#tree = content.tree
    this.#sizes = content.sizes
    for (const size of content.sizes.values()) this.#keyCount += size
  }

  /** Keys in all buckets. */
  get keyCount(): number {
    return this.#keyCount
  }

  get pages(): number {
    return this.#tree.memory.count
  }

  /** Bytes of all keys and values, and of the room that is free between them. */
  get bytes(): number {
    return this.#tree.memory.bytes
  }

  /** Keys in a bucket. */
  size(bucket: number): number {
    return this.#sizes.get(bucket) ?? 0
  }

  get(bucket: number, key: Uint8Array): ObjectValue | null {
    return this.#tree.find(this.#key, writeKey(bucket, key, this.#key)) ? this.#found() : null
  }

  /** Returns what was there before. */
  put(bucket: number, key: Uint8Array, value: ObjectValue): ObjectValue | null {
    const keyBytes = writeKey(bucket, key, this.#key)
    writeValue(value, this.#value, 0)
    if (this.#tree.find(this.#key, keyBytes)) {
      const before = this.#found()
      this.#tree.setValue(this.#value)
      return before
    }
    this.#tree.insert(this.#key, keyBytes, this.#value)
    this.#sizes.set(bucket, this.size(bucket) + 1)
    this.#keyCount += 1
    return null
  }

  /** Returns what was there. */
  delete(bucket: number, key: Uint8Array): ObjectValue | null {
    const keyBytes = writeKey(bucket, key, this.#key)
    if (!this.#tree.find(this.#key, keyBytes)) return null
    const before = this.#found()
    this.#tree.remove(this.#key, keyBytes)
    const left = this.size(bucket) - 1
    if (left > 0) this.#sizes.set(bucket, left)
    else this.#sizes.delete(bucket)
    this.#keyCount -= 1
    return before
  }

  /** The lowest key of a bucket; null when it is empty. */
  firstKey(bucket: number): Buffer | null {
    if (this.size(bucket) === 0) return null
    this.#tree.seek(this.#key, writeBound(bucket, Buffer.alloc(0), this.#key))
    return objectKey(this.#key, this.#tree.leaf.copyKey(this.#tree.slot, this.#key))
  }

  /** Bytes of the objects of a bucket. Looks at every key. */
  bytesIn(bucket: number): number {
    let bytes = 0
    const keys = this.size(bucket)
    if (keys > 0) this.#tree.seek(this.#key, writeBound(bucket, Buffer.alloc(0), this.#key))
    for (let key = 0; key < keys; key++) {
      if (key > 0) this.#tree.next()
      bytes += this.#found().size
    }
    return bytes
  }

  scan(bucket: number, options: ScanOptions): Listing {
    return scan(this.#tree, bucket, options)
  }

  /** Copies the index as it is now, part by part, while it changes. One copy at a time: it ends when `next` gives null, or with `abandon`. */
  checkpoint(): CheckpointWriter {
    return new CheckpointWriter(this.#content)
  }

  /** All parts of a checkpoint at once. */
  encode(): Uint8Array<ArrayBuffer>[] {
    const writer = this.checkpoint()
    const parts: Uint8Array<ArrayBuffer>[] = []
    for (let part = writer.next(); part !== null; part = writer.next()) parts.push(part)
    return parts
  }

  /** The value that the tree has just found. */
  #found(): ObjectValue {
    return readValue(this.#tree.leaf.bytes, this.#tree.leaf.valueAt(this.#tree.slot))
  }
}
