/**
 * The bundles that one thread has open: indexes and record files. The least recently used are evicted. They are keyed by position and by the
 * identity of the index file, so that a rebuilt index is opened anew, and so is a bundle that was compacted.
 *
 * The snapshot says which form of a bundle is opened, so a whole query sees one form.
 *
 * O2  a restart of the log in place may cut a segment and write it again: record files are opened anew in each generation of the log
 */
import { RECORDS_NAME } from '../../log/segment-format.ts'
import { STAND_IN_NAME } from '../../log/stand-in.ts'
import type { BlockCache } from '../index/block-cache.ts'
import { INDEX_NAME } from '../index/index-file.ts'
import type { PieceCache } from '../compact/piece-cache.ts'
import { openBundle } from '../compact/open-bundle.ts'
import type { BundleSearch, ExpectedIndex } from '../index/reader.ts'
import type { BundleFile, SegmentFiles } from '../index/segment-files.ts'
import type { Catalog } from '../index/catalog.ts'

/**
 * A look-up goes through all bundles: if there are more than this, each is evicted before the look-up comes to it again. An open bundle holds a file
 * descriptor, and 125 KB if it is compacted; otherwise its index may hold up to 11 blocks beyond the cache's bound (see BlockTable).
 */
const OPEN_MAX = 512

interface ExpectedSegment {
  readonly kind: 'bundle' | 'active'
  readonly base: number
  readonly expected?: ExpectedIndex
}

export class OpenBundles {
  readonly #files: SegmentFiles
  readonly #blocks: BlockCache
  readonly #pieces: PieceCache
  readonly #indexes = new Map<number, BundleSearch>()
  readonly #records = new Map<number, BundleFile>()
  /** O2 */
  #generation = 0

  constructor(files: SegmentFiles, blocks: BlockCache, pieces: PieceCache) {
    this.#files = files
    this.#blocks = blocks
    this.#pieces = pieces
  }

  /** The kind of refusal that a client gets for a failed read. */
  get failure(): SegmentFiles['failure'] {
    return this.#files.failure
  }

  index(expected: ExpectedIndex): BundleSearch {
    const { base } = expected
    const open = this.#indexes.get(base)
    if (open !== undefined && open.header.identity === expected.identity) return touch(this.#indexes, base, open)
    this.forget(base)
    return admit(this.#indexes, base, openBundle(this.#files, this.#blocks, this.#pieces, expected))
  }

  records(base: number): BundleFile {
    const open = this.#records.get(base)
    if (open !== undefined) return touch(this.#records, base, open)
    return admit(this.#records, base, this.#files.open(base, RECORDS_NAME))
  }

  /** Hint: the indexes of the bundles among these segments are asked for next, in this order. */
  expectIndexes(segments: readonly ExpectedSegment[]): void {
    if (!this.#files.readsAhead) return
    const closed = segments.filter(({ kind, base }) => kind === 'bundle' && !this.#indexes.has(base))
    const isCompacted = (segment: ExpectedSegment): boolean => segment.expected?.isCompacted === true
    // Only one kind of file can be expected at a time: that of compacted bundles, if there are any, as most are compacted in the end.
    const compacted = closed.filter(isCompacted)
    const [name, first] = compacted.length > 0 ? [STAND_IN_NAME, compacted] : [INDEX_NAME, closed]
    this.#files.expect(
      name,
      first.map(({ base }) => ({ base, at: 0 })),
    )
  }

  /** Whether it helps to say what is read next. */
  get readsAhead(): boolean {
    return this.#files.readsAhead
  }

  /** Hint: these frames are read next, in this order. */
  expectFrames(frames: readonly { readonly base: number; readonly frameOffset: number }[]): void {
    if (!this.#files.readsAhead) return
    this.#files.expect(
      RECORDS_NAME,
      frames.map(({ base, frameOffset }) => ({ base, at: frameOffset })),
    )
  }

  /** After a failed read: the file may be replaced by a rebuilt one of the same identity. */
  forget(base: number): void {
    this.#indexes.get(base)?.close()
    this.#indexes.delete(base)
  }

  /** A question begins. Closes what neither the catalog nor `others`, the segments without a sidecar, have any more. */
  keepOnly(catalog: Catalog, others: readonly { readonly base: number }[], generation: number): void {
    this.#pieces.beginQuestion()
    for (const [base, { header }] of this.#indexes) {
      const row = catalog.find(base)
      if (row < 0 || catalog.identity(row) !== header.identity) this.forget(base)
    }
    const isRead = (base: number): boolean => {
      const row = catalog.find(base)
      return row >= 0 ? !catalog.isCompacted(row) : others.some((other) => other.base === base)
    }
    for (const [base, file] of this.#records) {
      if (isRead(base) && generation === this.#generation) continue
      file.close()
      this.#records.delete(base)
    }
    this.#generation = generation
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
