/** The parts of the log store that compact bundles, and find compacted ones. */
import type { LogStoreConfig } from '../config/logstore.ts'
import { StoreError } from '../errors.ts'
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
import { THREAD_HEAP } from './limits.ts'
import { adoptMerged } from './compact/adopt-merged.ts'
import type { BackgroundJob, BackgroundResult } from './compact/background.ts'
import { Compactor } from './compact/compactor.ts'
import type { CompactorParts } from './compact/compactor.ts'
import type { DatasetRetention } from './compact/trimmer.ts'
import type { TenantPolicy } from './tenants/tenant-policy.ts'

/** Finds compacted bundles at a start, and reports damaged ones. */
export const compactedBundles = (
  log: Log,
  readErrors: ReadErrors,
  logger: Logger,
): Pick<BundlesOptions, 'compactedBundle' | 'mergedBundles' | 'onStandInDamaged'> => ({
  compactedBundle: (segment) => adoptCompacted(nodeFiles, log, segment),
  mergedBundles: (sealed) =>
    adoptMerged(nodeFiles, log, sealed, ({ base }) =>
      logger.warn(
        { segment: segmentName(base) },
        'the stand-in of a merged segment was damaged: it was made again, and nothing is missing',
      ),
    ),
  onStandInDamaged(base) {
    const problem = new StoreError('corrupt', 'bundle_block_corrupt', 'its compacted bundle is damaged')
    readErrors.noteFailed(`segment ${segmentName(base)}`, problem)
  },
})

interface CompactionContext extends Pick<CompactorParts, 'logger' | 'clock'> {
  readonly config: LogStoreConfig
  readonly running: Lifecycle
  readonly policies: { readonly policy: TenantPolicy }
  /** As retention has it. */
  readonly retentionNowNs: () => bigint
}

/** Null: the settings want none. @param lane of the moment, which hears of each bundle */
export async function openCompaction(
  context: CompactionContext,
  { log, registry, sidecars }: Pick<CompactorParts, 'log' | 'registry' | 'sidecars'>,
  segmentsName: string,
  lane: () => { publishBundle: CompactorParts['onCompacted'] } | null,
): Promise<Compactor | null> {
  const { config, running, policies, logger, clock, retentionNowNs } = context
  if (!config.compaction) return null
  const { durability, dataDirectory } = config
  const replicas = durability.mode === 'replicated-local' ? durability.replicaDirectories : []
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
        directories: [dataDirectory, ...replicas],
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
