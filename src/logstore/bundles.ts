/**
 * Opens the sealed segments of a log as bundles, after building the sidecars that are missing. Later `repair` mends the damage that queries find.
 */
import type { Lifecycle } from '../lifecycle.ts'
import type { SegmentIndexes } from './index/segment-indexes.ts'
import type { QueryIncident } from './query/task.ts'
import { SegmentRegistry } from './index/segment-registry.ts'
import { Sidecars } from './index/sidecars.ts'
import type { SidecarParts } from './index/sidecars.ts'

export interface BundlesOptions extends Omit<SidecarParts, 'registry'> {
  /** Indexes of the segments that are not bundles yet. */
  readonly indexes: SegmentIndexes
  readonly onStandInDamaged: (base: number) => void
}

export interface Bundles {
  readonly registry: SegmentRegistry
  readonly sidecars: Sidecars
  /** Rebuilds a sidecar, has a compacted bundle mended (compact/mender.ts) or quarantines a frame. */
  readonly repair: (incident: QueryIncident) => void
}

/** @throws what the log, or the job that builds a missing sidecar, throws; then everything in `running` is closed */
export async function openBundles(
  running: Lifecycle,
  { indexes, onStandInDamaged, ...parts }: BundlesOptions,
): Promise<Bundles> {
  const { log } = parts
  const registry = new SegmentRegistry(indexes)
  const sidecars = await running.open(async () => {
    const opened = new Sidecars({ ...parts, registry })
    await opened.recover()
    return opened
  })
  return {
    registry,
    sidecars,
    repair(incident) {
      if (incident.kind === 'index') return sidecars.rebuild(incident.base)
      if (incident.kind === 'stand-in') {
        registry.noteDamaged(incident.base)
        return onStandInDamaged(incident.base)
      }
      const { base, position } = incident
      const segment = log.segments.find((each) => each.base === base)
      if (segment) log.reportDamage(segment, { from: position, to: position + 8, reason: 'found by a query' })
    },
  }
}
