/**
 * Which segments there are and where a query finds each: the active one and those just sealed in their ActiveIndex, the others
 * in their bundle. Main thread.
 *
 * Every segment that has frames is either in the indexed set or in exactly one bundle of the catalog. So a query never misses one, and never sees one
 * twice.
 *
 * S2  an index is given back when its segment is a bundle (or its lane died) and no query holds a snapshot with it
 */
import assert from 'node:assert/strict'
import type { Position } from '../../log/log-writer.ts'
import type { ActiveIndexHandle } from './active-index.ts'
import type { SegmentIndexes } from './segment-indexes.ts'
import { encodeCatalog } from './catalog.ts'
import type { Bundle } from './manifest.ts'

interface Indexed {
  readonly base: Position
  readonly number: number
  queries: number
}

export interface SegmentSnapshot {
  /** Segments without a bundle, oldest first. */
  readonly indexed: readonly { readonly base: Position; readonly index: ActiveIndexHandle }[]
  readonly catalog: SharedArrayBuffer
  /** Called once, when the query is over. */
  release(): void
}

export class SegmentRegistry {
  readonly #indexes: SegmentIndexes
  readonly #indexed = new Map<Position, Indexed>()
  /** Not indexed any more, but held by queries. */
  readonly #retired = new Set<Indexed>()
  readonly #bundles = new Map<Position, Bundle>()
  /** Bases of compacted bundles whose file turned out to be damaged. */
  readonly #damaged = new Set<Position>()
  /** Numbers of the snapshots that queries hold, in the order in which they were taken. */
  readonly #held = new Set<number>()
  #snapshots = 0
  #waiting: { readonly before: number; readonly run: () => void }[] = []
  /** null: the bundles changed since it was encoded; the next snapshot needs a new one. */
  #catalog: SharedArrayBuffer | null = null

  constructor(indexes: SegmentIndexes) {
    this.#indexes = indexes
  }

  get bundles(): readonly Bundle[] {
    return [...this.#bundles.values()].sort((a, b) => a.base - b.base)
  }

  /** Sealed segments without a bundle: everything indexed but the newest. */
  sealing(activeBase: Position): { base: Position; number: number }[] {
    return [...this.#indexed.values()]
      .filter(({ base }) => base !== activeBase)
      .map(({ base, number }) => ({ base, number }))
  }

  /** The decode lane indexes the segment in this index. */
  open(base: Position, number: number): void {
    const before = this.#indexed.get(base)
    if (before) this.#retire(before) // its lane died; the new lane rebuilt the index
    this.#indexed.set(base, { base, number, queries: 0 })
  }

  /** The index of the segment that was opened last; null before the first. */
  newest(): ActiveIndexHandle | null {
    const base = Math.max(...this.#indexed.keys())
    return this.indexOf(base)
  }

  indexOf(base: Position): ActiveIndexHandle | null {
    const indexed = this.#indexed.get(base)
    return indexed ? this.#indexes.at(indexed.number).handle : null
  }

  /** Publishes a bundle in place of those that it covers. */
  publish(bundle: Bundle): void {
    for (const base of this.#bundles.keys()) if (base >= bundle.base && base < bundle.end) this.#bundles.delete(base)
    this.#bundles.set(bundle.base, bundle)
    this.#catalog = null
    const indexed = this.#indexed.get(bundle.base)
    if (!indexed) return
    this.#indexed.delete(bundle.base)
    this.#retire(indexed)
  }

  /** Whether the segment is in a bundle that is compacted, by itself or with others. */
  isCompacted(base: Position): boolean {
    const isOver = (bundle: Bundle): boolean => bundle.base <= base && base < bundle.end
    return [...this.#bundles.values()].some((bundle) => bundle.isCompacted === true && isOver(bundle))
  }

  /** Notes that a reader found the compacted bundle damaged. */
  noteDamaged(base: Position): void {
    this.#damaged.add(base)
  }

  /**
   * Takes one of the compacted bundles that were noted as damaged.
   *
   * @param isWanted false: the bundle stays noted
   * @returns null: there is none
   */
  takeDamaged(isWanted: (bundle: Bundle) => boolean): Bundle | null {
    for (const base of this.#damaged) {
      const bundle = this.#bundles.get(base)
      const isThere = bundle?.isCompacted === true
      if (isThere && !isWanted(bundle)) continue
      this.#damaged.delete(base)
      if (isThere) return bundle
    }
    return null
  }

  drop(base: Position): void {
    if (this.#bundles.delete(base)) this.#catalog = null
  }

  snapshot(): SegmentSnapshot {
    const catalog = (this.#catalog ??= encodeCatalog(this.bundles))
    const held = [...this.#indexed.values()].sort((a, b) => a.base - b.base)
    for (const indexed of held) indexed.queries++
    const number = this.#snapshots++
    this.#held.add(number)
    let released = false
    return {
      indexed: held.map(({ base, number }) => ({ base, index: this.#indexes.at(number).handle })),
      catalog,
      release: () => {
        assert(!released)
        released = true
        for (const indexed of held) {
          indexed.queries--
          this.#releaseUnused(indexed)
        }
        this.#held.delete(number)
        this.#runUnheld()
      },
    }
  }

  /** Resolves when no query holds a snapshot that is older than this call. */
  olderReleased(): Promise<void> {
    return new Promise((run) => {
      this.#waiting.push({ before: this.#snapshots, run })
      this.#runUnheld()
    })
  }

  #runUnheld(): void {
    if (this.#waiting.length === 0) return
    const [oldest = Infinity] = this.#held
    const over = this.#waiting.filter(({ before }) => before <= oldest)
    this.#waiting = this.#waiting.filter(({ before }) => before > oldest)
    for (const { run } of over) run()
  }

  /** After a decode lane died: frees the indexes that it took and never announced. */
  reclaimIndexes(): void {
    const known = [...this.#indexed.values(), ...this.#retired].map(({ number }) => number)
    this.#indexes.freeAllBut(new Set(known))
  }

  /**
   * Called between two decode lanes, when the second one continues at `tail`. Forgets segments that begin there or later: the first lane announced them
   * and put records into their indexes, but published none of their frames.
   */
  retireFrom(tail: Position): void {
    for (const indexed of this.#indexed.values()) {
      if (indexed.base < tail) continue
      this.#indexed.delete(indexed.base)
      this.#retire(indexed)
    }
  }

  #retire(indexed: Indexed): void {
    this.#retired.add(indexed)
    this.#releaseUnused(indexed)
  }

  /** S2 */
  #releaseUnused(indexed: Indexed): void {
    if (indexed.queries > 0 || !this.#retired.delete(indexed)) return
    this.#indexes.release(indexed.number)
  }
}
