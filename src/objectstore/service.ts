/**
 * The object store, put together: one log, the state that its frames make, digest lanes, reader threads, the HTTP front.
 *
 * Its port opens first, and reports how far the start is. The rest opens in the order of dependence (log, threads, state, front) and closes in the
 * reverse one: the front first, so that admitted requests are answered, then the log, which syncs.
 */
import assert from 'node:assert/strict'
import { release } from 'node:os'
import { ClusterStatus, followingInSlices, openMemberLog } from '../cluster-membership.ts'
import type { ClusterMember } from '../cluster/member/member.ts'
import { OBJSTORE_TLS_NAMES } from '../config/objectstore.ts'
import type { ObjectStoreConfig } from '../config/objectstore.ts'
import { readTls } from '../config/tls.ts'
import { memoryOf } from '../engine/checkpoint-thread.ts'
import type { CheckpointTask } from '../engine/checkpoint-thread.ts'
import { keepUp } from '../engine/upkeep.ts'
import { EndpointHelper } from '../endpoint-helper/endpoint-helper.ts'
import { listen } from '../http/server.ts'
import type { HttpClock, HttpServer } from '../http/server.ts'
import type { RequestHead } from '../http/exchange.ts'
import type { Route } from '../http/routes.ts'
import { nextTurn } from '../http/turns.ts'
import { renewTls } from '../http/tls.ts'
import { hostPort } from '../http/host-port.ts'
import { LISTENING, documentEndpoint, metricsEndpoint, serviceBeingOpened } from '../http/standing-endpoints.ts'
import { TrustedProxies } from '../http/trusted-proxies.ts'
import { WebGuard, guardRoutes } from '../http/web-guard.ts'
import { Lifecycle } from '../lifecycle.ts'
import { ReadMemory } from '../libc.ts'
import { CachedFrames } from '../log/cached-frames.ts'
import type { ClusterOptions } from '../log/cluster-part.ts'
import type { Log } from '../log/log.ts'
import { RESERVE_BYTES_DEFAULT } from '../log/log-options.ts'
import { openFailure, openServiceLog } from '../log/service-log.ts'
import { nodeFiles, openCachedFile } from '../log/node-files.ts'
import { SEGMENTS_NAME_OF, segmentName } from '../log/segment-format.ts'
import { NO_AUDIT_LOG } from '../observability/audit-log.ts'
import { Health } from '../observability/health.ts'
import { logDegradations, logProblem, reportLogState, rereadAcknowledged } from '../observability/log-state.ts'
import type { Logger } from '../observability/logger.ts'
import { ReadErrors } from '../observability/read-errors.ts'
import { RequestMetrics } from '../observability/request-metrics.ts'
import { Startup } from '../observability/startup.ts'
import type { OpenService, ServiceDependencies } from '../service.ts'
import { withSpans } from '../spans.ts'
import type { Pace } from '../steps.ts'
import { Arena } from '../pipeline/arena.ts'
import { JobPool } from '../pipeline/jobs.ts'
import { Lane } from '../pipeline/lane.ts'
import { workerFile } from '../pipeline/worker-file.ts'
import { Authentication } from './authentication.ts'
import { StoreCounters } from './counters.ts'
import { EXTENT_BYTES } from './engine/frames.ts'
import { DigestLanes } from './bodies/digest-lanes.ts'
import { openEngine, recoverEngine } from './engine/engine.ts'
import type { StoreEngine, EngineParts } from './engine/engine.ts'
import { FrameReads, LONG_FRAME_BYTES } from './engine/frame-reads.ts'
import type { ReadResult, ReadTask } from './engine/read-protocol.ts'
import type { ScanTask, ScannedPart } from './engine/scan-segment.ts'
import { objectStoreFront, objectStoreGateway, refuseUnopened } from './s3/gateway.ts'
import { handlers } from './s3/handlers.ts'
import { managementRoutes, objectStoreStandingRoutes } from './s3/management.ts'
import { openApiOf } from './s3/openapi.ts'
import {
  ARENA_BYTES,
  CACHED_READS_SPARE,
  CLEAN_EVERY_MS,
  DIGEST_LANES,
  DISK_SHARE_OF_SEGMENT,
  LOG_RING_BYTES,
  READ_THREADS,
  RESERVED_SEGMENTS,
  SMALL_SEGMENT_BYTES,
  objectCacheBytes,
  readCacheBytes,
} from './limits.ts'
import { bucketUsage, storeMetrics } from './metrics.ts'
import { notLeading } from './refusals.ts'
import { diskBytes, memoryBytes, probeDisk } from './platform.ts'

const SEGMENTS_NAME = SEGMENTS_NAME_OF.objectstore
const HOUR_MS = 3600 * 1000

interface Clock extends HttpClock {
  /** Milliseconds since the Unix epoch. */
  wallMs(): number
  /** Monotonic, the same in all threads. */
  sharedMs(): number
  /** Calls `task` once. */
  after(delayMs: number, task: () => void): void
}

interface ObjectStoreDependencies extends ServiceDependencies {
  readonly clock: Clock
}

interface Context extends ObjectStoreDependencies {
  readonly config: ObjectStoreConfig
  readonly running: Lifecycle
  readonly counters: StoreCounters
  readonly segmentBytes: number
  readonly readErrors: ReadErrors
  readonly startup: Startup
}

/** @throws StoreError when a setting cannot work or the data directory cannot be used */
export async function openObjectStore(
  config: ObjectStoreConfig,
  dependencies: ObjectStoreDependencies,
): Promise<OpenService> {
  for (const name of config.unknownSettings) dependencies.logger.warn({ setting: name }, 'unknown setting')
  const authentication = new Authentication(config, dependencies.logger, dependencies.audit)
  const segmentBytes = segmentBytesOf(config)
  const context: Context = {
    config,
    running: new Lifecycle(),
    counters: new StoreCounters(),
    segmentBytes,
    readErrors: new ReadErrors(() => dependencies.clock.nowMs(), dependencies.logger),
    startup: new Startup({ turn: nextTurn, nowMs: () => dependencies.clock.nowMs(), ...dependencies }),
    ...dependencies,
  }
  const front = await openPort(context, authentication)
  const arena = Arena.create(ARENA_BYTES, EXTENT_BYTES)
  const { running, clock, logger } = context
  const where = { directory: config.dataDirectory, segmentsName: SEGMENTS_NAME, arena: arena.shared }
  const settings = context.cluster
  const { log, member } = await openMemberLog(
    { settings, service: 'objectstore', ...where, running, logger, clock },
    (cluster) => openLog(context, arena, cluster),
  )
  reportLogState(log, logger)
  const engine = await openStorage(context, log, arena)
  await keepUp(engine.cleaner, {
    running,
    clock,
    log,
    written: () => engine.checkpoints.idle(),
    everyMs: CLEAN_EVERY_MS,
  })
  const server = await openFront(context, engine, authentication, front)
  if (front.clusterStatus !== null) front.clusterStatus.member = member
  member?.join(memberOf(engine, clock))
  return server
}

/** How the membership acts on the engine. */
const memberOf = ({ core, store }: StoreEngine, clock: Clock): Parameters<ClusterMember['join']>[0] => ({
  follow: followingInSlices((frames, at) => core.engine.applyCopy(frames, at), clock),
  readAgain: () => core.appender.readAgain(),
  beganToLead: () => Promise.resolve(),
  steppedDown: () => store.bodies.endAll(notLeading(null)),
})

function segmentBytesOf({ segmentBytes, dataDirectory }: ObjectStoreConfig): number {
  const shareBytes = Math.floor(diskBytes(dataDirectory) * DISK_SHARE_OF_SEGMENT)
  return Math.min(segmentBytes, Math.max(SMALL_SEGMENT_BYTES, shareBytes))
}

function openLog(
  { config, running, logger, segmentBytes, startup }: Context,
  arena: Arena,
  cluster: ClusterOptions | null,
): Promise<Log> {
  const options = {
    directory: config.dataDirectory,
    segmentsName: SEGMENTS_NAME,
    segmentBytes,
    reserveBytes: Math.max(RESERVE_BYTES_DEFAULT, RESERVED_SEGMENTS * segmentBytes),
    ringBytes: LOG_RING_BYTES,
    arena: arena.shared,
    pace: startup.pace,
    pageCache: 'medium',
    ...(cluster !== null && { cluster }),
  } as const
  return running.open(() => openServiceLog(options, { settings: ['OBJSTORE_DATA_DIR'], logger }))
}

interface Front {
  readonly health: Health
  readonly requests: RequestMetrics
  readonly standing: readonly Route[]
  /** Null: the node is in no cluster. */
  readonly clusterStatus: ClusterStatus | null
  readonly server: HttpServer
}

/** Opens the port. Until the store is open, the port reports how far the start is. */
async function openPort(context: Context, authentication: Authentication): Promise<Front> {
  const { config, running, logger, clock, random, acceptGate, startup, counters, watch = null } = context
  const health = new Health(() => clock.wallMs())
  health.add('start', () => startup.problem)
  const requests = new RequestMetrics()
  const isKnown = (head: RequestHead): boolean => {
    const { method, path, query } = head
    return authentication.isKnown({ method, path, query, headers: head.headers(), bucketInHost: null }, clock.wallMs())
  }
  const clusterStatus = ClusterStatus.of(context.cluster)
  const standing = objectStoreStandingRoutes({ health, startup, isKnown, cluster: clusterStatus?.view ?? null })
  const server = await running.open(() =>
    listen(
      serviceBeingOpened(objectStoreFront({ counters }), standing, refuseUnopened),
      { ...config.http, setting: 'OBJSTORE_BIND_ADDRESS', tls: config.tls },
      { logger, clock, random, acceptGate, requests, watch },
    ),
  )
  logger.debug({ http: hostPort(server) }, LISTENING)
  return { health, requests, standing, clusterStatus, server }
}

async function openStorage(context: Context, log: Log, arena: Arena): Promise<StoreEngine> {
  const { config, running, logger, clock, random, counters, segmentBytes, readErrors, beginSpan = null } = context
  const readerData = { segmentsDirectory: `${config.dataDirectory}/${SEGMENTS_NAME}`, logId: log.id }
  const reading = await running.open(
    () =>
      new JobPool<ReadTask, ReadResult>({
        name: 'objectstore read',
        filename: workerFile('read-frames'),
        threads: READ_THREADS,
        queueMax: 0,
        workerData: readerData,
        resourceLimits: SMALL_HEAP,
      }),
  )
  const cached = await running.open(() => cachedFramesOf(log))
  const background = await running.open(() => startBackground())
  const digests = await running.open(() => startDigests(arena, logger))
  const parts: EngineParts = {
    log,
    directory: config.dataDirectory,
    files: nodeFiles,
    reads: new FrameReads({
      log,
      cached,
      jobs: withSpans(reading, beginSpan, 'read'),
      threads: READ_THREADS,
      defer: setImmediate,
      counters,
      readErrors,
    }),
    async write(task) {
      await background.run(task, { transfer: memoryOf(task) })
    },
    async scan(task) {
      try {
        const scanned = await background.run(task)
        assert(scanned !== null)
        return scanned
      } catch (error) {
        readErrors.noteFailed(`segment ${segmentName(task.base)}`, error)
        throw error
      }
    },
    digests,
    arena,
    clock,
    logger,
    counters,
    random,
    defer: setImmediate,
    segmentBytes,
    readCacheBytes: config.readCacheBytes ?? readCacheBytes(memoryBytes()),
    objectCacheBytes: config.objectCacheBytes ?? objectCacheBytes(memoryBytes()),
    uploadTtlMs: config.multipartTtlHours * HOUR_MS,
    beginSpan,
  }
  const engine = await openOrSayWhere(parts, context.startup.pace)
  await running.open(() => ({ close: () => engine.checkpoints.idle() }))
  return engine
}

async function openOrSayWhere(parts: EngineParts, pace: Pace): Promise<StoreEngine> {
  try {
    return openEngine(parts, await pace(recoverEngine(parts)))
  } catch (error) {
    throw openFailure(`OBJSTORE_DATA_DIR: ${parts.directory}`, error)
  }
}

const cachedFramesOf = (log: Log): CachedFrames =>
  new CachedFrames({
    log,
    open: openCachedFile,
    memory: (byteLength) => new ReadMemory(byteLength),
    frameBytesMax: LONG_FRAME_BYTES,
    spareMax: CACHED_READS_SPARE,
  })

/** For threads that keep little in memory: by default their garbage would take 5 MiB more in each before it is collected. */
const SMALL_HEAP = { maxYoungGenerationSizeMb: 3 }

/** One thread for all that is done now and then, as each takes 11 MiB. It starts with its first task. */
const startBackground = (): JobPool<CheckpointTask | ScanTask, ScannedPart | null> =>
  new JobPool({
    name: 'objectstore background',
    filename: workerFile('objectstore-background'),
    threads: 1,
    threadsAtStart: 0,
    queueMax: 8,
  })

const startDigests = (arena: Arena, logger: Logger): DigestLanes =>
  new DigestLanes(
    {
      count: DIGEST_LANES,
      arena: arena.shared,
      onDeath: (error) => logger.error({ err: error }, 'a digest lane died: the bodies it was receiving were refused'),
    },
    (data, heard) =>
      Lane.start({
        name: 'objectstore digest',
        filename: workerFile('digest'),
        workerData: data,
        resourceLimits: SMALL_HEAP,
        ...heard,
      }),
  )

async function openFront(
  context: Context,
  engine: StoreEngine,
  authentication: Authentication,
  { health, requests, standing, clusterStatus, server }: Front,
): Promise<OpenService> {
  const { config, running, logger, clock, counters, readErrors, startup, version } = context
  const { acceptGate, processMetrics, metricsSeriesMax } = context
  const { core, store } = engine
  const { log, arena } = core
  const helper = await running.open(() =>
    EndpointHelper.open({ directory: `${config.dataDirectory}/endpoint`, logger }),
  )
  health.add('log', () => logProblem(log))
  if (clusterStatus !== null) {
    health.add('cluster', () => clusterStatus.problem)
    health.addDegradations(() => clusterStatus.degradations())
  }
  health.add('endpoint log', () => helper.problem)
  health.addDegradations(() => logDegradations(log))
  health.addDegradations(() => helper.degradations())
  health.addDegradations(() => readErrors.degradations())
  const disk = probeDisk(config.dataDirectory)
  const metrics = storeMetrics({
    counters,
    gauges: {
      buckets: () => core.state.bucketCount,
      uploads: () => core.state.uploads.size,
      liveBytes: () => core.state.liveBytes,
      indexBytes: () => core.state.index.bytes,
      arenaBytes: () => arena.usedBytes,
      readCacheBytes: () => engine.store.objects.runs.keptBytes,
      objectCacheBytes: () => engine.store.objects.keptBytes,
      acceptPauses: () => acceptGate.pauses,
      degraded: () => health.degradations().length,
      readErrors: () => readErrors.count,
    },
    log,
    buckets: () => bucketUsage(core.state, metricsSeriesMax),
    requests,
    processMetrics,
  })
  clusterStatus?.registerMetrics(metrics, 'objectstore')
  const guard = new WebGuard({
    bindHost: config.http.host,
    allowedHosts: config.allowedHosts,
    baseDomain: config.baseDomain,
  })
  const management = managementRoutes({
    guard,
    capabilities: () => ({
      runtime: `trilog ${version}, Node ${process.versions.node}, Linux ${release()}`,
      dataDirectory: config.dataDirectory,
      freeSpace: nodeFiles.freeBytes(config.dataDirectory),
      ...disk,
    }),
    helper,
    standing,
    cluster: clusterStatus?.view ?? null,
    logger,
  })
  const service = objectStoreGateway({
    store,
    counters,
    authenticator: authentication,
    handlers,
    guard: config.auth.mode === 'local' ? guard : null,
    proxies: new TrustedProxies(config.trustedProxies),
    baseDomain: config.baseDomain,
    region: config.region,
    extensions: config.extensions,
    putBytesMax: config.putBytesMax,
    management: [
      ...management,
      // Under names that no bucket can have.
      ...guardRoutes(guard, [
        { method: 'GET', path: '/v1/metrics', endpoint: metricsEndpoint(metrics) },
        {
          method: 'GET',
          path: '/v1/openapi.json',
          endpoint: documentEndpoint(() => openApiOf(version, management, config.extensions)),
        },
      ]),
    ],
    nowMs: () => clock.wallMs(),
    nextTurn: setImmediate,
    logger,
    audit: context.audit ?? NO_AUDIT_LOG,
  })
  await running.open(() => server) // closes before the parts that it uses
  server.serve(service)
  startup.opened()
  return {
    http: hostPort(server),
    isSecure: server.isSecure,
    reload() {
      authentication.reload()
      const { tls } = config
      if (tls !== null) renewTls(() => readTls(tls, OBJSTORE_TLS_NAMES), [server], logger)
      rereadAcknowledged(log, logger)
      helper.rereadAcknowledged()
    },
    drain: () => startup.drain(),
    cluster: clusterStatus,
    close: (options) => running.close(options),
  }
}
