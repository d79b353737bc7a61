/**
 * The broker without its HTTP front: one log, the state that its frames describe, reader threads, retention. `service.ts` adds the front;
 * the client library calls the broker in its own process.
 *
 * It opens in the order of dependence (log, readers, state) and closes in the reverse one: the log last, which syncs.
 */
import type { BrokerConfig } from '../config/broker.ts'
import type { ReplicationPolicy } from '../config/replication-binding.ts'
import { memoryOf } from '../engine/checkpoint-thread.ts'
import type { CheckpointTask } from '../engine/checkpoint-thread.ts'
import { keepUp } from '../engine/upkeep.ts'
import type { Poster, PostTls } from '../http/poster.ts'
import { nextTurn } from '../http/turns.ts'
import { followingInSlices, openMemberLog } from '../cluster-membership.ts'
import type { ClusterMember } from '../cluster/member/member.ts'
import type { ClusterSettings } from '../config/cluster.ts'
import type { Lifecycle } from '../lifecycle.ts'
import { ReadMemory } from '../libc.ts'
import { CachedFrames } from '../log/cached-frames.ts'
import type { ClusterOptions } from '../log/cluster-part.ts'
import type { Log } from '../log/log.ts'
import { openFailure, openServiceLog } from '../log/service-log.ts'
import { nodeFiles, openCachedFile } from '../log/node-files.ts'
import { SEGMENTS_NAME_OF } from '../log/segment-format.ts'
import { reportLogState } from '../observability/log-state.ts'
import type { Logger } from '../observability/logger.ts'
import { ReadErrors } from '../observability/read-errors.ts'
import { JobPool } from '../pipeline/jobs.ts'
import { workerFile } from '../pipeline/worker-file.ts'
import { createBroker } from './broker.ts'
import type { Broker } from './broker.ts'
import type { Core } from './engine/core.ts'
import { watchClock } from './engine/clock-watch.ts'
import { openEngine } from './engine/engine.ts'
import type { BrokerEngine } from './engine/engine.ts'
import { Retainer } from './engine/retainer.ts'
import {
  FRAME_OVERHEAD_BYTES,
  LOG_RING_BYTES_MIN,
  READS_WAITING_MAX,
  READ_THREADS,
  REPLICATION_REQUEST_MS_MAX,
  WRITE_QUEUE_MAX,
} from './limits.ts'
import type { ReplicationOptions } from './operations/replication-workers.ts'
import type { Caller } from './operations.ts'
import { TenantQuotas } from './quotas.ts'
import type { ReadResult, ReadTask } from './records/read-protocol.ts'
import { RecordReads } from './records/record-reads.ts'
import type { SidecarTask } from './records/segment-index.ts'
import { withSpans } from '../spans.ts'
import type { BeginSpan } from '../spans.ts'
import { withoutPauses } from '../steps.ts'
import type { Pace } from '../steps.ts'

export const SEGMENTS_NAME = SEGMENTS_NAME_OF.broker
const RETENTION_EVERY_MS = 5000
const DAY_MS = 86_400_000
/** A thread reads longer frames. */
const CACHED_FRAME_BYTES_MAX = 1 << 20
/** Bytes of zeros that are written ahead of the end of a log, if its segments have the usual size. */
const WRITE_AHEAD_BYTES = 256 << 10
/** The caller of every request in insecure-local mode and of every call in the broker's own process. */
export const LOCAL_CALLER: Caller = { tenant: 'local', principal: 'local' }

export interface HeadlessDependencies {
  readonly logger: Logger
  readonly clock: {
    /** Monotonic. */
    nowMs(): number
    /** Milliseconds since the Unix epoch. */
    wallMs(): number
    /** Milliseconds since the machine was started, including the time that it slept. */
    uptimeMs(): number
    /** Calls `task` at this interval until the returned function is called. */
    every(intervalMs: number, task: () => void): () => void
    /** Monotonic, the same in all threads. */
    sharedMs(): number
    /** Calls `task` once. */
    after(delayMs: number, task: () => void): void
  }
  readonly random: (bytes: Uint8Array) => void
  /** Absent or null: the log is in no cluster. */
  readonly cluster?: ClusterSettings | null
}

interface Context extends HeadlessDependencies {
  /** Paces the reading of the log while the broker opens. Default: without pauses. */
  readonly pace?: Pace
  /** Shows how long work for a request takes. Absent or null: tracing is off. */
  readonly beginSpan?: BeginSpan | null
  readonly config: BrokerConfig
  readonly running: Lifecycle
}

export interface HeadlessBroker {
  readonly core: Core
  readonly broker: Broker
  readonly quotas: TenantQuotas
  readonly readErrors: ReadErrors
  /** Null: the log is in no cluster. */
  readonly member: ClusterMember | null
  /** Joins the cluster, if there is one. The node answers requests only while it leads; `onSteppedDown` is called when its lead ends. */
  readonly join: (onSteppedDown: () => void) => void
  /** Replication follows these policies from now on. A connection on which a request is under way stays open. */
  readonly replacePolicies: (policies: readonly ReplicationPolicy[]) => void
  /** Calls `run` once, after this turn of the event loop. */
  readonly defer: (run: () => void) => void
}

/**
 * @param context its `running` closes what is opened here
 * @param tenants their audit streams exist from the start
 * @throws StoreError when the data directory cannot be used
 */
export async function openHeadlessBroker(
  context: Context,
  tenants: readonly string[] = [LOCAL_CALLER.tenant],
): Promise<HeadlessBroker> {
  const { config, running, logger, clock } = context
  const where = { directory: config.dataDirectory, segmentsName: SEGMENTS_NAME, arena: null }
  const settings = context.cluster
  const { log, member } = await openMemberLog(
    { settings, service: 'broker', ...where, running, logger, clock },
    (cluster) => openLog(context, cluster),
  )
  reportLogState(log, logger)
  const readErrors = new ReadErrors(() => clock.nowMs(), logger)
  const engine = await openStorage(context, log, readErrors, tenants)
  const { core, checkpoints } = engine
  const quotas = new TenantQuotas(config.quotas, () => clock.nowMs())
  const poster = await openPoster(context)
  const broker = createBroker(core, quotas, config.nodeId, poster && shippingBy(poster, context))
  const stopWatching = watchClock(core)
  await running.open(() => ({ close: async () => stopWatching() }))
  await running.open(() => ({ close: async () => broker.close() }))
  const retainer = new Retainer(core, checkpoints, config.segmentBytes)
  await keepUp(retainer, { running, clock, log, written: () => engine.idle(), everyMs: RETENTION_EVERY_MS })
  return {
    core,
    broker,
    quotas,
    readErrors,
    member,
    join(onSteppedDown) {
      member?.join({
        follow: followingInSlices((frames, at) => core.engine.applyCopy(frames, at), clock),
        readAgain: () => core.appender.readAgain(),
        beganToLead: () => engine.beginToLead(),
        steppedDown() {
          onSteppedDown()
          core.engine.parked.endAll()
        },
      })
    },
    defer: setImmediate,
    replacePolicies(policies) {
      broker.replacePolicies(policies)
      poster?.keepOnlyTls(policies.map(tlsOf))
    },
  }
}

/** Null: the node has no replication binding. */
async function openPoster({ config, running }: Context): Promise<Poster | null> {
  if (config.replication === null) return null
  const { Poster } = await import('../http/poster.ts') // Node's client of HTTP takes 20 ms to load
  const poster = new Poster()
  await running.open(() => ({ close: async () => poster.close() }))
  return poster
}

const tlsOf = ({ targetCa: ca, targetCertificate: certificate }: ReplicationPolicy): PostTls => ({ ca, certificate })

function shippingBy(poster: Poster, { random }: Context): ReplicationOptions {
  const timeoutMs = REPLICATION_REQUEST_MS_MAX
  return {
    transport: (policy, body, signal) => {
      const { applyUrl: url, apiKey } = policy
      const headers = {
        'content-type': 'application/json',
        ...(apiKey !== null && { authorization: `Bearer ${apiKey}` }),
      }
      return poster.post({ url, tls: tlsOf(policy), headers, body, timeoutMs, signal })
    },
    random() {
      const word = new Uint32Array(1)
      random(new Uint8Array(word.buffer))
      return word[0]! / 2 ** 32
    },
  }
}

function openLog(
  { config, running, logger, pace = withoutPauses }: Context,
  cluster: ClusterOptions | null,
): Promise<Log> {
  const { dataDirectory, replicaDirectories, segmentBytes, writeQuorum, bodyBytesMax } = config
  const isReplicated = replicaDirectories.length > 0
  const options = {
    directory: dataDirectory,
    segmentsName: SEGMENTS_NAME,
    segmentBytes,
    pace,
    writeAheadBytes: Math.min(WRITE_AHEAD_BYTES, Math.floor(segmentBytes / 8)),
    ringBytes: Math.max(LOG_RING_BYTES_MIN, powerOfTwoFrom(2 * (bodyBytesMax + FRAME_OVERHEAD_BYTES))),
    ...(isReplicated && { replicas: replicaDirectories, writeQuorum }),
    ...(cluster !== null && { cluster }),
  }
  return running.open(() => openServiceLog(options, { settings: settingsOf(config), logger }))
}

/** The settings that name the directories. */
const settingsOf = ({ names, replicaDirectories }: BrokerConfig): readonly string[] => [
  names.MQ_DATA_DIR,
  ...(replicaDirectories.length > 0 ? [names.MQ_REPLICA_DIRS] : []),
]

const powerOfTwoFrom = (bytes: number): number => 2 ** Math.ceil(Math.log2(bytes))

async function openStorage(
  { config, running, logger, clock, random, pace = withoutPauses, beginSpan = null }: Context,
  log: Log,
  readErrors: ReadErrors,
  tenants: readonly string[],
): Promise<BrokerEngine> {
  const reading = await running.open(
    () =>
      new JobPool<ReadTask, ReadResult>({
        name: 'broker read',
        filename: workerFile('read-records'),
        threads: READ_THREADS,
        queueMax: 0,
        workerData: { segmentsDirectory: `${config.dataDirectory}/${SEGMENTS_NAME}`, logId: log.id },
      }),
  )
  const writing = await running.open(
    () =>
      new JobPool<SidecarTask | CheckpointTask, void>({
        name: 'broker checkpoint',
        filename: workerFile('write-sidecars'),
        threads: 1,
        threadsAtStart: 0, // most starts come long before a segment is full
        queueMax: WRITE_QUEUE_MAX,
      }),
  )
  const cached = await running.open(
    () =>
      new CachedFrames({
        log,
        open: openCachedFile,
        memory: (byteLength) => new ReadMemory(byteLength),
        frameBytesMax: CACHED_FRAME_BYTES_MAX,
        spareMax: 1,
      }),
  )
  const directories = [config.dataDirectory, ...config.replicaDirectories]
  const opening = openEngine({
    log,
    directories,
    files: nodeFiles,
    reads: new RecordReads({
      jobs: withSpans(reading, beginSpan, 'read'),
      threads: READ_THREADS,
      waitingMax: READS_WAITING_MAX,
      readable: () => ({ from: log.segments[0]?.base ?? 0, end: log.written, generation: log.generation }),
      defer: setImmediate,
      readErrors,
    }),
    write: (task) => writing.run(task, { transfer: task.kind === 'sidecar' ? [task.bytes.buffer] : memoryOf(task) }),
    pace,
    beginSpan,
    clock,
    logger,
    random,
    turn: nextTurn,
    defer: setImmediate,
    localDisk: config.flushPolicy === 'group-sync' ? 'sync' : 'append',
    writeQuorum: config.writeQuorum,
    hasReplicas: config.replicaDirectories.length > 0,
    auditMaxAgeMs: config.auditRetentionDays === null ? null : config.auditRetentionDays * DAY_MS,
    setsClock: config.clock === 'reset',
    inMemory: { cached },
    tenants,
    policies: config.replication ?? [],
  })
  const engine = await opening.catch((error: unknown) => {
    throw openFailure(`${settingsOf(config).join(', ')}: ${directories.join(', ')}`, error)
  })
  await running.open(() => ({ close: () => engine.idle() }))
  return engine
}
