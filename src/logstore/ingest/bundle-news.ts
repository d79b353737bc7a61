/** What a decode lane must be told when it is at work: which bundles were published, compacted or dropped while it started. */
import type { BundlePlace } from '../index/catalog.ts'

export interface BundleNews {
  readonly published: readonly BundlePlace[]
  /** Bases of the bundles that were dropped and not replaced by others. */
  readonly dropped: readonly number[]
}

/**
 * @param told the bundles that the lane started with
 * @param now  the bundles that it would start with now
 */
export function newsOfBundles(told: readonly BundlePlace[], now: readonly BundlePlace[]): BundleNews {
  const toldAt = new Map(told.map((place) => [place.base, place]))
  return {
    published: now.filter((place) => !isSame(toldAt.get(place.base), place)),
    dropped: told
      .map(({ base }) => base)
      .filter((base) => !now.some((place) => place.base <= base && base < place.end)),
  }
}

const isSame = (told: BundlePlace | undefined, place: BundlePlace): boolean =>
  told?.identity === place.identity && told.isCompacted === place.isCompacted && told.isMerged === place.isMerged
