/** The parts of the log store that compact bundles, and find compacted ones. */
import type { LogStoreConfig } from '../config/logstore.ts'
import { StoreError, messageOf } from '../errors.ts'
import type { Lifecycle } from '../lifecycle.ts'
import type { Log } from '../log/log.ts'
import { nodeFiles } from '../log/node-files.ts'
import { segmentName } from '../log/segment-format.ts'
import type { Logger } from '../observability/logger.ts'
import type { ReadErrors } from '../observability/read-errors.ts'
import { JobPool } from '../pipeline/jobs.ts'
import { workerFile } from '../pipeline/worker-file.ts'
import type { BundlesOptions } from './bundles.ts'
import { adoptCompacted } from './compact/adopt.ts'
import type { MendAtStart } from './compact/adopt.ts'
import { THREAD_HEAP } from './limits.ts'
import { adoptMerged } from './compact/adopt-merged.ts'
import type { BackgroundJob, BackgroundResult } from './compact/background.ts'
import { Compactor, segmentsInUse } from './compact/compactor.ts'
import type { CompactorParts } from './compact/compactor.ts'
import { mendBundle } from './compact/mend-bundle.ts'
import type { DatasetRetention } from './compact/trimmer.ts'
import type { TenantPolicy } from './tenants/tenant-policy.ts'

interface AdoptionContext {
  readonly config: LogStoreConfig
  readonly log: Log
  readonly segmentsName: string
  readonly readErrors: ReadErrors
  readonly logger: Logger
}

/** Finds compacted bundles at a start, mends damaged ones from replica directories, and reports the others. */
export function compactedBundles(
  context: AdoptionContext,
): Pick<BundlesOptions, 'compactedBundle' | 'mergedBundles' | 'onStandInDamaged'> {
  const { log, readErrors, logger } = context
  const mend = mendAtStart(context)
  const onMadeAgain = ({ base }: { readonly base: number }): void =>
    logger.warn(
      { segment: segmentName(base) },
      'the stand-in of a merged segment was damaged: it was written again, and no record is missing',
    )
  return {
    compactedBundle: (segment) => adoptCompacted(nodeFiles, log, segment, mend),
    mergedBundles: (sealed) => adoptMerged(nodeFiles, log, sealed, onMadeAgain, mend),
    onStandInDamaged(base) {
      const problem = new StoreError('corrupt', 'bundle_block_corrupt', 'its compacted bundle is damaged')
      readErrors.noteFailed(`segment ${segmentName(base)}`, problem)
    },
  }
}

function mendAtStart({ config, log, segmentsName, logger }: AdoptionContext): MendAtStart {
  return ({ base, end, isMerged }) => {
    const segment = segmentName(base)
    const inUse = segmentsInUse({ directories: directoriesOf(config), segmentsName, log })
    const directories = inUse.map((each) => `${each}/${segment}`)
    try {
      const mended = mendBundle(
        nodeFiles,
        { logId: log.id, base, end, isMerged, identity: null, directories },
        () => {},
      )
      if (mended.kind !== 'mended') return false
      const { from, to } = mended
      logger.warn({ segment, from, to }, 'a compacted bundle was damaged: it was copied from another directory')
      return to.includes(directories[0]!)
    } catch (error) {
      logger.error({ segment, reason: messageOf(error) }, 'a damaged bundle could not be mended')
      return false
    }
  }
}

/** The data directory first. */
const directoriesOf = ({ dataDirectory, durability }: LogStoreConfig): readonly string[] =>
  durability.mode === 'replicated-local' ? [dataDirectory, ...durability.replicaDirectories] : [dataDirectory]

interface CompactionContext extends Pick<CompactorParts, 'logger' | 'clock'> {
  readonly config: LogStoreConfig
  readonly running: Lifecycle
  readonly policies: { readonly policy: TenantPolicy }
  /** The current time for retention, in nanoseconds since the Unix epoch. */
  readonly retentionNowNs: () => bigint
}

/** @param lane the decode lane at work, which is told of each compacted bundle. @returns null when compaction is switched off */
export async function openCompaction(
  context: CompactionContext,
  { log, registry, sidecars }: Pick<CompactorParts, 'log' | 'registry' | 'sidecars'>,
  segmentsName: string,
  lane: () => { publishBundle: CompactorParts['onCompacted'] } | null,
): Promise<Compactor | null> {
  const { config, running, policies, logger, clock, retentionNowNs } = context
  if (!config.compaction) return null
  const startJobs = () =>
    new JobPool<BackgroundJob, BackgroundResult>({
      name: 'logstore compaction',
      filename: workerFile('compact-segment'),
      threads: 1,
      threadsAtStart: 0,
      queueMax: 1,
      resourceLimits: THREAD_HEAP,
    })
  return running.open(
    () =>
      new Compactor({
        log,
        registry,
        sidecars,
        directories: directoriesOf(config),
        segmentsName,
        startJobs,
        logger,
        clock,
        mergesWithin: config.merging ? config.retention : null,
        datasetRetention: () => retentionIn(policies.policy),
        retentionNowNs,
        onCompacted: (bundle) => lane()?.publishBundle(bundle),
      }),
  )
}

const retentionIn = ({ generation, tenants }: TenantPolicy): DatasetRetention => ({
  generation,
  byTenant: new Map(tenants.flatMap(({ id, retention }) => (retention.size > 0 ? [[id, retention] as const] : []))),
})
