/** Opens the reads that take several steps: a pool of threads that walk, and the fronts that ask it. */
import type { Lifecycle } from '../../lifecycle.ts'
import type { Logger } from '../../observability/logger.ts'
import { JobPool } from '../../pipeline/jobs.ts'
import { workerFile } from '../../pipeline/worker-file.ts'
import { REMOTE_WALK_THREADS, THREAD_HEAP, WALK_QUEUE_MAX, WALK_THREADS } from '../limits.ts'
import { TURNS_OF_TENANTS } from '../query/task.ts'
import type { QueryWorkerData } from '../query/task.ts'
import { AdmissionSlots } from '../tenants/admission-slots.ts'
import type { WalkAnswer, WalkTask } from '../walk/tasks.ts'
import { ExportFront } from './export-front.ts'
import { JaegerFront } from './jaeger-front.ts'
import type { ReadFronts } from './read-routes.ts'
import { Readers } from './readers.ts'
import type { ReaderParts } from './readers.ts'
import { TailFront } from './tail-front.ts'
import type { TailLog } from './tail-front.ts'
import { TraceFront } from './trace-front.ts'

export interface ReadsOptions extends Omit<ReaderParts, 'ask'> {
  readonly ask: Omit<ReaderParts['ask'], 'jobs' | 'log'> & { readonly log: ReaderParts['ask']['log'] & TailLog }
  readonly workerData: QueryWorkerData
  readonly logger: Logger
}

const NO_TAIL = 'a store with LOGSTORE_QUERY_STORE=s3 has no tails: ask the store that takes the records in'

export async function openReads(running: Lifecycle, options: ReadsOptions): Promise<ReadFronts> {
  const { ask, workerData, logger } = options
  const isRemote = ask.bucket !== null
  const jobs = await running.open(
    () =>
      new JobPool<WalkTask, WalkAnswer>({
        name: 'logstore walk',
        filename: workerFile('walk'),
        threads: isRemote ? REMOTE_WALK_THREADS : WALK_THREADS,
        threadsAtStart: 0, // many stores are only queried
        queueMax: WALK_QUEUE_MAX,
        workerData,
        resourceLimits: THREAD_HEAP,
        turns: TURNS_OF_TENANTS,
      }),
  )
  const readers = new Readers({ ...options, ask: { ...ask, jobs } })
  const short = new AdmissionSlots(Infinity)
  return {
    exports: new ExportFront(readers, logger),
    tails: new TailFront(readers, ask.log, isRemote ? NO_TAIL : null),
    traces: new TraceFront(readers, short),
    jaeger: new JaegerFront(readers, short, logger),
  }
}
