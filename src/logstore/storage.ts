/** Opens the log of the log store, and the indexes and bundles of its segments. */
import { openMemberLog } from '../cluster-membership.ts'
import type { MemberLog } from '../cluster-membership.ts'
import type { ClusterSettings } from '../config/cluster.ts'
import type { LogStoreConfig } from '../config/logstore.ts'
import type { Lifecycle } from '../lifecycle.ts'
import type { ClusterOptions } from '../log/cluster-part.ts'
import type { Log } from '../log/log.ts'
import { nodeFiles } from '../log/node-files.ts'
import { SEGMENTS_NAME_OF } from '../log/segment-format.ts'
import { openServiceLog } from '../log/service-log.ts'
import { reportLogState } from '../observability/log-state.ts'
import type { Logger } from '../observability/logger.ts'
import type { ReadErrors } from '../observability/read-errors.ts'
import type { Startup } from '../observability/startup.ts'
import { Arena } from '../pipeline/arena.ts'
import { JobPool } from '../pipeline/jobs.ts'
import { workerFile } from '../pipeline/worker-file.ts'
import { openBundles } from './bundles.ts'
import type { Bundles } from './bundles.ts'
import { compactedBundles } from './compaction.ts'
import type { IndexSegmentTask, IndexedSegmentFacts } from './index/publish.ts'
import { SegmentIndexes } from './index/segment-indexes.ts'
import {
  ARENA_BYTES_MIN,
  ARENA_LARGEST_BODIES,
  BATCH_HEAD_BYTES_MAX,
  INDEX_QUEUE_MAX,
  LOG_RING_BYTES_MIN,
  SEGMENT_ENTRIES_MAX,
  THREAD_HEAP,
} from './limits.ts'

export const SEGMENTS_NAME = SEGMENTS_NAME_OF.logstore

interface StorageContext {
  readonly config: LogStoreConfig
  readonly running: Lifecycle
  readonly logger: Logger
  readonly clock: { sharedMs(): number; after(delayMs: number, run: () => void): void }
  readonly readErrors: ReadErrors
  readonly startup: Startup
  readonly cluster?: ClusterSettings | null
}

export interface Storage extends Bundles, MemberLog {
  readonly arena: Arena
  readonly indexes: SegmentIndexes
}

function openLog(
  { config, running, logger, startup }: StorageContext,
  arena: Arena,
  cluster: ClusterOptions | null,
): Promise<Log> {
  const { dataDirectory, durability, segmentBytes, bodyBytesMax } = config
  const options = {
    directory: dataDirectory,
    segmentsName: SEGMENTS_NAME,
    segmentBytes,
    arena: arena.shared,
    pace: startup.pace,
    pageCache: 'short' as const,
    ringBytes: Math.max(LOG_RING_BYTES_MIN, powerOfTwoFrom(2 * (bodyBytesMax + BATCH_HEAD_BYTES_MAX))),
    ...(durability.mode === 'replicated-local' && {
      replicas: durability.replicaDirectories,
      writeQuorum: durability.writeQuorum,
    }),
    ...(cluster !== null && { cluster }),
  }
  const settings = ['LOGSTORE_DATA_DIR', ...(durability.mode === 'local' ? [] : ['LOGSTORE_WAL_REPLICA_PATHS'])]
  return running.open(() => openServiceLog(options, { settings, logger }))
}

export async function openStorage(context: StorageContext): Promise<Storage> {
  const { config, running, logger, clock, readErrors, startup } = context
  const { dataDirectory, bodyBytesMax } = config
  const arena = Arena.create(Math.max(ARENA_BYTES_MIN, powerOfTwoFrom(ARENA_LARGEST_BODIES * bodyBytesMax)))
  const where = { directory: dataDirectory, segmentsName: SEGMENTS_NAME, arena: arena.shared }
  const settings = context.cluster
  const { log, member } = await openMemberLog(
    { settings, service: 'logstore', ...where, running, logger, clock },
    (cluster) => openLog(context, arena, cluster),
  )
  reportLogState(log, logger)
  const indexes = SegmentIndexes.create(SEGMENT_ENTRIES_MAX)
  const jobs = await running.open(
    () =>
      new JobPool<IndexSegmentTask, IndexedSegmentFacts>({
        name: 'logstore index',
        filename: workerFile('index-segment'),
        threads: 1,
        threadsAtStart: 0, // most starts come long before a segment is full
        queueMax: INDEX_QUEUE_MAX,
        resourceLimits: THREAD_HEAP,
      }),
  )
  const bundles = await openBundles(running, {
    log,
    files: nodeFiles,
    indexes,
    jobs,
    logger,
    readErrors,
    after: (delayMs, run) => clock.after(delayMs, run),
    ...compactedBundles({ config, log, segmentsName: SEGMENTS_NAME, readErrors, logger }),
    onStep: (step) => startup.at(step),
  })
  return { member, log, arena, indexes, ...bundles }
}

const powerOfTwoFrom = (bytes: number): number => 2 ** Math.ceil(Math.log2(bytes))
