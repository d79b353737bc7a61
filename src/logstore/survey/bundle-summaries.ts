/**
 * Caches for one thread what each bundle holds of each dataset, as the bundle's index says. Only this file knows how the index says it.
 *
 * A summary belongs to one index file and is kept under the identity of that file. So a bundle that was built again is read again. The cache is bounded by
 * the number of datasets in all summaries together. The bundles that were asked for longest ago are evicted.
 */
import type { BundleSource, SegmentReader } from '../query/segment-reader.ts'
import type { PartitionSummary } from '../index/reader.ts'

/** Summaries of datasets, of some 300 bytes each. */
const KEPT_MAX = 65_536

interface Kept {
  readonly identity: number
  readonly byTenant: ReadonlyMap<string, readonly PartitionSummary[]>
  readonly size: number
}

export class BundleSummaries {
  /** By position. A Map iterates in order of insertion: what was used last is inserted again. */
  readonly #kept = new Map<number, Kept>()
  readonly #keptMax: number
  #size = 0

  constructor(keptMax = KEPT_MAX) {
    this.#keptMax = keptMax
  }

  /** @throws what reading the index throws */
  of(reader: SegmentReader, source: BundleSource, tenant: string): readonly PartitionSummary[] {
    const { base, expected } = source
    const known = this.#kept.get(base)
    const kept = known?.identity === expected.identity ? known : read(reader, source)
    this.#forget(base)
    this.#kept.set(base, kept)
    this.#size += kept.size
    for (const oldest of this.#kept.keys()) {
      if (this.#size <= this.#keptMax) break
      this.#forget(oldest)
    }
    return kept.byTenant.get(tenant) ?? []
  }

  /** Drops bundles that are gone. */
  keepOnly(bases: ReadonlySet<number>): void {
    for (const base of this.#kept.keys()) if (!bases.has(base)) this.#forget(base)
  }

  #forget(base: number): void {
    this.#size -= this.#kept.get(base)?.size ?? 0
    this.#kept.delete(base)
  }
}

const read = (reader: SegmentReader, source: BundleSource): Kept =>
  reader.inBundle(source, (index) => {
    const summaries = [...index.partitions()]
    const byTenant = Map.groupBy(summaries, ({ tenant }) => tenant)
    return { identity: source.expected.identity, byTenant, size: summaries.length }
  })
