/**
 * The bundles one thread has open: indexes and record files, least recently used first out. Keyed by position and by the
 * identity of the index file, so that a rebuilt index is opened anew.
 */
import { bundleName } from '../index/bundle-name.ts'
import { errorCode } from '../../log/files.ts'
import type { Files, OpenFile } from '../../log/files.ts'
import { RECORDS_NAME, segmentName } from '../../log/segment-format.ts'
import { StoreError } from '../../errors.ts'
import type { BlockCache } from '../index/block-cache.ts'
import { openBundleIndex } from '../index/reader.ts'
import type { BundleIndex, ExpectedIndex } from '../index/reader.ts'
import type { Catalog } from '../index/catalog.ts'

/** Each holds a file descriptor, and an index up to 11 blocks beyond the cache's bound (see BlockTable). */
const OPEN_MAX = 256

export class OpenBundles {
  readonly #files: Files
  readonly #directory: string
  readonly #blocks: BlockCache
  readonly #indexes = new Map<number, BundleIndex>()
  readonly #records = new Map<number, OpenFile>()

  /** @param directory  of the log's segments */
  constructor(files: Files, directory: string, blocks: BlockCache) {
    this.#files = files
    this.#directory = directory
    this.#blocks = blocks
  }

  index(expected: ExpectedIndex): BundleIndex {
    const { base } = expected
    const open = this.#indexes.get(base)
    if (open !== undefined && open.header.identity === expected.identity) return touch(this.#indexes, base, open)
    this.forget(base)
    const index = openBundleIndex(this.#files, this.directoryOf(base), this.#blocks, expected)
    return admit(this.#indexes, base, index)
  }

  records(base: number): OpenFile {
    const open = this.#records.get(base)
    if (open !== undefined) return touch(this.#records, base, open)
    const directory = this.directoryOf(base)
    try {
      return admit(this.#records, base, this.#files.open(`${directory}/${RECORDS_NAME}`, 'read'))
    } catch (error) {
      throw new StoreError(
        'unavailable',
        'bundle_read_failed',
        `bundle ${bundleName(directory)}: records.log cannot be opened (${errorCode(error)})`,
        { cause: error },
      )
    }
  }

  /** After a failed read: the file may be replaced by a rebuilt one of the same identity. */
  forget(base: number): void {
    this.#indexes.get(base)?.close()
    this.#indexes.delete(base)
  }

  /** Gives up what neither the catalog nor the segments without a sidecar name any more. */
  keepOnly(catalog: Catalog, others: readonly { readonly base: number }[]): void {
    for (const base of this.#indexes.keys()) if (catalog.find(base) < 0) this.forget(base)
    for (const [base, file] of this.#records) {
      if (catalog.find(base) >= 0 || others.some((other) => other.base === base)) continue
      file.close()
      this.#records.delete(base)
    }
  }

  directoryOf(base: number): string {
    return `${this.#directory}/${segmentName(base)}`
  }

  close(): void {
    for (const index of this.#indexes.values()) index.close()
    for (const file of this.#records.values()) file.close()
    this.#indexes.clear()
    this.#records.clear()
  }
}

/** A Map iterates in order of insertion: what was used last is inserted again. */
function touch<Value>(open: Map<number, Value>, base: number, value: Value): Value {
  open.delete(base)
  open.set(base, value)
  return value
}

function admit<Value extends { close(): void }>(open: Map<number, Value>, base: number, value: Value): Value {
  open.set(base, value)
  if (open.size <= OPEN_MAX) return value
  for (const [oldest, eldest] of open) {
    eldest.close()
    open.delete(oldest)
    break
  }
  return value
}
