/**
 * The broker, put together: one log, the state that its frames say, reader threads, the HTTP front.
 *
 * It opens in the order of dependence (log, state, readers, front) and closes in the reverse one: the front first, so that what was
 * admitted is answered, then the log, which syncs.
 */
import type { BrokerConfig } from '../config/broker.ts'
import { readQuotas } from '../config/quotas.ts'
import { StoreError } from '../errors.ts'
import { listen } from '../http/server.ts'
import type { HttpClock } from '../http/server.ts'
import { Lifecycle } from '../lifecycle.ts'
import { Log } from '../log/log.ts'
import { nodeFiles } from '../log/node-files.ts'
import type { QuarantineIncident } from '../log/quarantine.ts'
import type { Logger } from '../observability/logger.ts'
import { JobPool } from '../pipeline/jobs.ts'
import { createBroker } from './broker.ts'
import type { Broker } from './broker.ts'
import type { Checkpoints } from './engine/checkpoints.ts'
import type { Core } from './engine/core.ts'
import { openEngine } from './engine/engine.ts'
import type { Engine } from './engine/engine.ts'
import { incidentIdOf } from './engine/incidents.ts'
import { Retainer } from './engine/retainer.ts'
import { brokerService } from './http/routes.ts'
import { FRAME_OVERHEAD_BYTES, LOG_RING_BYTES_MIN, READS_WAITING_MAX, READ_THREADS, WRITE_QUEUE_MAX } from './limits.ts'
import { BrokerMetrics } from './metrics.ts'
import { TenantQuotas } from './quotas.ts'
import type { ReadResult, ReadTask } from './records/read-protocol.ts'
import { RecordReads } from './records/record-reads.ts'
import { memoryOf } from './records/write-task.ts'
import type { WriteTask } from './records/write-task.ts'

const SEGMENTS_NAME = 'segments'
const RETENTION_EVERY_MS = 5000
/** Everybody, in insecure-local. */
const LOCAL_CALLER = { tenant: 'local', principal: 'local' }

interface Clock extends HttpClock {
  /** Milliseconds since the Unix epoch. */
  wallMs(): number
}

export interface BrokerDependencies {
  readonly logger: Logger
  readonly clock: Clock
  readonly random: (bytes: Uint8Array) => void
  readonly version: string
}

export interface BrokerServer {
  /** host:port of the listener. */
  readonly http: string
  /** Reads the quotas file again. */
  reloadQuotas(): void
  close(options: { readonly withinMs: number }): Promise<void>
}

interface Context extends BrokerDependencies {
  readonly config: BrokerConfig
  readonly running: Lifecycle
}

/** @throws StoreError when a setting cannot work or the data directory cannot be used */
export async function openBroker(config: BrokerConfig, dependencies: BrokerDependencies): Promise<BrokerServer> {
  for (const name of config.unknownSettings) dependencies.logger.warn({ setting: name }, 'unknown setting')
  const context: Context = { config, running: new Lifecycle(), ...dependencies }
  const log = await openLog(context)
  const { core, checkpoints } = await openStorage(context, log)
  const quotas = new TenantQuotas(config.quotas, () => context.clock.nowMs())
  const broker = createBroker(core, quotas, config.nodeId)
  await context.running.open(() => ({ close: async () => broker.close() }))
  await startRetention(context, core, checkpoints)
  return openFront(context, core, broker, quotas)
}

async function openLog({ config, running, logger }: Context): Promise<Log> {
  const { dataDirectory, replicaDirectories, segmentBytes, writeQuorum, bodyBytesMax } = config
  try {
    return await running.open(() =>
      Log.open({
        directory: dataDirectory,
        segmentsName: SEGMENTS_NAME,
        segmentBytes,
        ringBytes: Math.max(LOG_RING_BYTES_MIN, powerOfTwoFrom(2 * (bodyBytesMax + FRAME_OVERHEAD_BYTES))),
        ...(replicaDirectories.length > 0 && { replicas: replicaDirectories, writeQuorum }),
        onIncident: ({ segmentBase, from, to, reason }) =>
          logger.error(
            { segment: segmentBase, from, to, reason },
            'quarantine incident: a range of the log is damaged',
          ),
      }),
    )
  } catch (error) {
    throw nameSetting(error, config)
  }
}

const powerOfTwoFrom = (bytes: number): number => 2 ** Math.ceil(Math.log2(bytes))

/** What keeps the log from opening is about its directories: the message names the settings. */
function nameSetting(error: unknown, { names: settings, replicaDirectories }: BrokerConfig): unknown {
  if (!(error instanceof Error)) return error
  const [kind, code] =
    error instanceof StoreError ? [error.kind, error.code] : (['unavailable', 'data_directory_unusable'] as const)
  const names = [settings.MQ_DATA_DIR, ...(replicaDirectories.length > 0 ? [settings.MQ_REPLICA_DIRS] : [])]
  return new StoreError(kind, code, `${names.join(', ')}: ${error.message}`, { cause: error })
}

async function openStorage({ config, running, logger, clock, random }: Context, log: Log): Promise<Engine> {
  const reading = await running.open(
    () =>
      new JobPool<ReadTask, ReadResult>({
        name: 'broker read',
        filename: new URL('../../workers/read-records.ts', import.meta.url),
        threads: READ_THREADS,
        queueMax: 0,
        workerData: { segmentsDirectory: `${config.dataDirectory}/${SEGMENTS_NAME}`, logId: log.id },
      }),
  )
  const writing = await running.open(
    () =>
      new JobPool<WriteTask, void>({
        name: 'broker checkpoint',
        filename: new URL('../../workers/write-sidecars.ts', import.meta.url),
        threads: 1,
        queueMax: WRITE_QUEUE_MAX,
      }),
  )
  const engine = await openEngine({
    log,
    directories: [config.dataDirectory, ...config.replicaDirectories],
    files: nodeFiles,
    reads: new RecordReads({
      jobs: reading,
      threads: READ_THREADS,
      waitingMax: READS_WAITING_MAX,
      readable: () => ({ from: log.segments[0]?.base ?? 0, end: log.written }),
      defer: setImmediate,
    }),
    write: (task) => writing.run(task, { transfer: memoryOf(task) }),
    clock,
    logger,
    random,
    localDisk: config.flushPolicy === 'group-sync' ? 'sync' : 'append',
    writeQuorum: config.writeQuorum,
    hasReplicas: config.replicaDirectories.length > 0,
    tenants: [LOCAL_CALLER.tenant],
  })
  await running.open(() => ({ close: () => engine.checkpoints.idle() }))
  return engine
}

async function startRetention(
  { config, running, clock }: Context,
  core: Core,
  checkpoints: Checkpoints,
): Promise<void> {
  const retainer = new Retainer(core, checkpoints, config.segmentBytes)
  const stop = clock.every(RETENTION_EVERY_MS, () => void retainer.enforce())
  await running.open(() => ({ close: async () => stop() }))
}

async function openFront(context: Context, core: Core, broker: Broker, quotas: TenantQuotas): Promise<BrokerServer> {
  const { config, running, logger, clock, random, version } = context
  const { log, counters } = core
  const gauges = {
    get streams() {
      return core.state.streams.length
    },
    get groups() {
      return core.state.groups.length
    },
    get activeLeases() {
      const nowMs = core.time.nowMs()
      return core.state.groups.reduce((sum, group) => sum + (group?.queue.inFlight(nowMs) ?? 0), 0)
    },
    get delayedRetries() {
      return core.state.groups.reduce((sum, group) => sum + (group?.queue.delayedCount ?? 0), 0)
    },
    get waitingClaims() {
      return broker.waitingClaims
    },
    get framesInFlight() {
      return core.appender.inFlight
    },
  }
  let http = ''
  const service = brokerService({
    operations: broker,
    storageStatus: () => storageStatus(core),
    node: {
      nodeId: config.nodeId,
      httpBind: () => http,
      authMode: config.authMode,
      metricsExposure: config.metricsExposure,
      version,
    },
    metrics: config.metricsExposure === 'http' ? new BrokerMetrics({ counters, gauges, log }) : null,
    counters,
    maxBodyBytes: config.bodyBytesMax,
    authenticate: () => LOCAL_CALLER,
    logger,
  })
  const server = await running.open(() =>
    listen(service, { ...config.http, setting: config.names.MQ_HTTP_BIND }, { logger, clock, random }),
  )
  http = server.host.includes(':') ? `[${server.host}]:${server.port}` : `${server.host}:${server.port}`
  return {
    http,
    reloadQuotas: () => reloadQuotas(config, quotas, logger),
    close: (options) => {
      broker.close() // or claims that wait would hold the front open
      return running.close(options)
    },
  }
}

function storageStatus({ log, state }: Core): 'ok' | 'read-only' | 'degraded' {
  const { kind } = log.state
  if (kind === 'read-only' || kind === 'closed') return 'read-only'
  const isOpen = (incident: QuarantineIncident): boolean => !state.acknowledgedIncidents.has(incidentIdOf(incident))
  return kind === 'ok' && !log.incidents.some(isOpen) ? 'ok' : 'degraded'
}

function reloadQuotas({ quotasFile, names }: BrokerConfig, quotas: TenantQuotas, logger: Logger): void {
  if (quotasFile === null) return
  try {
    quotas.replace(readQuotas(quotasFile))
    logger.info({}, 'quotas read again')
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    logger.error({ reason: `${names.MQ_QUOTAS_FILE} ${reason}` }, 'the quotas stay as they are')
  }
}
