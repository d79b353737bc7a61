/**
 * Assembles the log store: one log, a decode lane in front of it, bundles behind it, and the HTTP and gRPC fronts.
 *
 * The port opens first and reports how far the start is. The rest opens in order of dependence (log, bundles, lane, fronts) and closes in reverse: the
 * fronts first, so that admitted requests are answered; then the lane, which has nothing left to write; then the log, which syncs.
 */
import { availableParallelism } from 'node:os'
import { RECORDS_PER_BATCH_MAX } from '../../native-free-codecs/otlp-batch.ts'
import { LOGSTORE_TLS_NAMES } from '../config/logstore.ts'
import type { LogStoreConfig } from '../config/logstore.ts'
import { readTls } from '../config/tls.ts'
import { ClusterStatus } from '../cluster-membership.ts'
import { EndpointHelper } from '../endpoint-helper/endpoint-helper.ts'
import { endpointHelperRoutes } from '../endpoint-helper/routes.ts'
import { StoreError } from '../errors.ts'
import { setMmapThreshold } from '../libc.ts'
import { Lifecycle } from '../lifecycle.ts'
import { hostPort } from '../http/host-port.ts'
import { listen } from '../http/server.ts'
import type { HttpClock, HttpServer } from '../http/server.ts'
import type { RequestHead } from '../http/exchange.ts'
import type { Route } from '../http/routes.ts'
import { LISTENING, serviceBeingOpened } from '../http/standing-endpoints.ts'
import { nextTurn } from '../http/turns.ts'
import { renewTls } from '../http/tls.ts'
import { WebGuard } from '../http/web-guard.ts'
import { segmentName } from '../log/segment-format.ts'
import { hasSegment } from '../log/segment-list.ts'
import { nodeFiles } from '../log/node-files.ts'
import { Health } from '../observability/health.ts'
import { logDegradations, logProblem, rereadAcknowledged } from '../observability/log-state.ts'
import { ReadErrors } from '../observability/read-errors.ts'
import { RequestMetrics } from '../observability/request-metrics.ts'
import { Startup } from '../observability/startup.ts'
import type { OpenService, ServiceDependencies } from '../service.ts'
import { withSpans } from '../spans.ts'
import { JobPool } from '../pipeline/jobs.ts'
import { workerFile } from '../pipeline/worker-file.ts'
import type { Compactor } from './compact/compactor.ts'
import { openCompaction } from './compaction.ts'
import { BucketStore } from './bucket/bucket-store.ts'
import { IngestCounters, QueryCounters } from './counters.ts'
import { DatasetCounts } from './ingest/dataset-counts.ts'
import { expiredOf } from './expired.ts'
import type { Expired } from './expired.ts'
import type { GrpcFront } from './grpc/grpc-front.ts'
import { Follower } from './ingest/follower.ts'
import { GatewayBudget } from './ingest/gateway-budget.ts'
import { Ingest } from './ingest/ingest.ts'
import { windowLength } from './ingest/seen-records.ts'
import { DecodeSupervisor } from './ingest/supervisor.ts'
import {
  GIVE_BACK_BYTES,
  QUERY_QUEUE_MAX,
  QUERY_THREADS,
  REMOTE_QUERY_THREADS,
  THREAD_HEAP,
  FRAME_GRAMS_BYTES,
} from './limits.ts'
import { Lead } from './lead.ts'
import { memberOf, retentionClock } from './membership.ts'
import { logStoreMetrics } from './metrics.ts'
import { TENANT_HEADER, identifyCaller, isRefusal } from './tenants/caller.ts'
import { PolicyHolder } from './tenants/policy-holder.ts'
import { createFrameGrams } from './query/frame-grams.ts'
import { NoteAhead, noteStep } from './query/note-ahead.ts'
import { QueryFront } from './query/query-front.ts'
import { TURNS_OF_TENANTS, isNote, processNowMs } from './query/task.ts'
import type { QueryAnswer, QueryTask, QueryWorkerData, Question } from './query/task.ts'
import { openReads } from './reads/open-reads.ts'
import type { ReadFronts } from './reads/read-routes.ts'
import { endpointService } from './endpoint-service.ts'
import { enforceRetention } from './retention.ts'
import { LOG_STORE_FRONT, logStoreService, logStoreStandingRoutes, refuseUnopened } from './routes.ts'
import { placeOf } from './index/sidecars.ts'
import { Senders } from './senders.ts'
import { SEGMENTS_NAME, openStorage } from './storage.ts'
import type { Storage } from './storage.ts'
import type { TenantPolicy } from './tenants/tenant-policy.ts'

const RETENTION_EVERY_MS = 5000
/** For main and the journal. */
const CORES_BESIDE_LANES = 2

interface Clock extends HttpClock {
  /** Nanoseconds since the Unix epoch. */
  nowNs(): bigint
  /** Monotonic, the same in all threads. */
  sharedMs(): number
  /** Calls once; does not keep the process alive. */
  after(delayMs: number, run: () => void): void
}

export interface LogStoreDependencies extends ServiceDependencies {
  readonly clock: Clock
}

export interface LogStore extends OpenService {
  /** host:port of the listener; null: there is none. */
  readonly grpc: string | null
}

/** @throws StoreError when a setting cannot work or the data directory cannot be used */
export async function openLogStore(config: LogStoreConfig, dependencies: LogStoreDependencies): Promise<LogStore> {
  setMmapThreshold(GIVE_BACK_BYTES)
  for (const name of config.unknownSettings) dependencies.logger.warn({ setting: name }, 'unknown setting')
  const policies = PolicyHolder.load(nodeFiles, config.tenantPolicyFile, dependencies.logger, dependencies.audit)
  const running = new Lifecycle()
  const readErrors = new ReadErrors(() => dependencies.clock.nowMs(), dependencies.logger)
  const startup = new Startup({ turn: nextTurn, nowMs: () => dependencies.clock.nowMs(), ...dependencies })
  const senders = new Senders(processNowMs)
  const context: Context = { config, running, policies, readErrors, senders, startup, ...dependencies }
  const front = await openPort(context)
  const storage = await openStorage(context)
  const { member, log } = storage
  const lead = member === null ? {} : { lead: new Lead(log, () => member.view) }
  const ingest = await openIngest(context, storage)
  const queries = await openQueries(context, storage, lead)
  const store = await openFronts(context, storage, ingest, queries, front, lead)
  member?.join(memberOf(ingest))
  return store
}

interface Front {
  readonly health: Health
  readonly requests: RequestMetrics
  readonly standing: readonly Route[]
  /** Null: the node is in no cluster. */
  readonly clusterStatus: ClusterStatus | null
  readonly server: HttpServer
  /** Null: there is no such listener. */
  readonly grpc: GrpcFront | null
}

/** Opens the ports. Until the store is open, HTTP answers how far the start is. */
async function openPort(context: Context): Promise<Front> {
  const { config, running, policies, logger, clock, random, acceptGate, startup, watch = null } = context
  const health = new Health(() => Number(clock.nowNs() / 1_000_000n))
  health.add('start', () => startup.problem)
  const requests = new RequestMetrics()
  // Without a policy file the only token is the development token, which is public.
  const isKnown = (head: RequestHead): boolean =>
    config.tenantPolicyFile === null ||
    !isRefusal(identifyCaller(policies.policy, head.header(TENANT_HEADER), head.header('authorization')))
  const clusterStatus = ClusterStatus.of(context.cluster)
  const standing = logStoreStandingRoutes({ health, startup, isKnown, cluster: clusterStatus?.view ?? null })
  const server = await running.open(() =>
    listen(
      serviceBeingOpened(LOG_STORE_FRONT, standing, refuseUnopened),
      { ...config.http, setting: 'LOGSTORE_BIND_ADDRESS', tls: config.tls },
      { logger, clock, random, acceptGate, requests, watch },
    ),
  )
  const { grpc: grpcBind, tls } = config
  const material = tls === null ? null : readTls(tls, LOGSTORE_TLS_NAMES)
  // The gRPC front is loaded only when the settings ask for it.
  const grpc = grpcBind
    ? await running.openBeside(async () => {
        const { GrpcFront } = await import('./grpc/grpc-front.ts')
        const bind = { ...grpcBind, setting: 'LOGSTORE_OTLP_GRPC_BIND_ADDRESS' }
        return GrpcFront.listen(bind, { acceptGate, clock, random }, material)
      })
    : null
  logger.debug({ http: hostPort(server), grpc: grpc ? hostPort(grpc) : null }, LISTENING)
  return { health, requests, standing, clusterStatus, server, grpc }
}

/** Empty: there is no cluster. */
type ClusterLead = { readonly lead?: Lead }

interface Context extends LogStoreDependencies {
  readonly config: LogStoreConfig
  readonly running: Lifecycle
  readonly policies: PolicyHolder
  readonly readErrors: ReadErrors
  readonly senders: Senders
  readonly startup: Startup
}

interface IngestSide {
  readonly ingest: Ingest
  readonly supervisor: DecodeSupervisor
  readonly follower: Follower
  readonly retain: () => void
  readonly gateway: GatewayBudget
  readonly datasets: DatasetCounts
  readonly counters: IngestCounters
  readonly compactor: Compactor | null
}

async function openIngest(context: Context, storage: Storage): Promise<IngestSide> {
  const { config, running, policies, senders, logger, clock } = context
  const { log, arena, indexes, registry, sidecars } = storage
  const gateway = GatewayBudget.create()
  const datasets = DatasetCounts.create(context.metricsSeriesMax)
  const counters = new IngestCounters()
  const policy = (): TenantPolicy => policies.policy
  const ingest: Ingest = new Ingest({
    log,
    arena,
    gateway,
    maxGatewayRequests: config.gateway.requestsMax,
    maxBodyBytes: config.bodyBytesMax,
    counters,
    policy,
    senders,
    lane: () => supervisor.lane,
    nowMs: () => clock.nowMs(),
    nowNs: () => clock.nowNs(),
    beginSpan: context.beginSpan ?? null,
  })
  const progress = (): void => {
    supervisor.lane?.drain()
    ingest.progress()
  }
  const follower = new Follower(() => supervisor.lane)
  const supervisor: DecodeSupervisor = new DecodeSupervisor({
    log,
    registry,
    logger,
    policy,
    bundlePlaces: () => {
      const { bundles } = registry
      return bundles.slice(bundles.length - windowLength(bundles)).map((bundle) => placeOf(log, bundle))
    },
    common: {
      arena: arena.shared,
      indexes: indexes.handle,
      gateway: gateway.shared,
      datasets: datasets.shared,
      gatewayRecords: finiteOrNull(config.gateway.recordsMax),
      gatewayBytes: finiteOrNull(config.gateway.bytesMax),
      maxBodyBytes: config.bodyBytesMax,
      lanes: config.decodeLanes ?? Math.max(1, availableParallelism() - CORES_BESIDE_LANES),
    },
    listener: {
      onOutcome: (outcome, tail) => ingest.onOutcome(outcome, tail),
      onSegmentOpened: (base, index) => registry.open(base, index),
      onWake: progress,
      onBundleUnreadable: (base, code) => onBundleUnreadable(context, storage, base, code),
      onFollowed: (number) => follower.followed(number),
      onFollowFailed: (reason) => follower.failed(reason),
    },
    onLaneDeath: () => ingest.onLaneDeath(),
    onTail: (tail) => {
      ingest.failAcceptedFrom(tail)
      registry.retireFrom(tail)
    },
    onStarted: (lane) => follower.laneStarted(lane),
    onGivenUp(failure) {
      // This node gives up so that another one leads.
      if (log.cluster !== null) log.giveUp(new StoreError('unavailable', 'decode_lane_failed', failure))
    },
    nowMs: () => clock.nowMs(),
    after: (delayMs, run) => clock.after(delayMs, run),
  })
  log.onProgress(progress)
  log.onStateChange(() => ingest.progress())
  policies.onChange((changed) => supervisor.lane?.applyPolicy(changed))
  sidecars.onPublished((bundle) => supervisor.lane?.publishBundle(bundle))
  const retentionNowNs = retentionClock(log, registry, () => clock.nowNs())
  const retain = (): void =>
    enforceRetention({
      log,
      registry,
      limits: config.retention,
      logger,
      nowNs: retentionNowNs,
      onDropped: (base) => supervisor.lane?.dropBundle(base),
    })
  const stopRetaining = clock.every(RETENTION_EVERY_MS, retain)
  await running.open(() => ({ close: async () => stopRetaining() }))
  const compactor = await openCompaction({ ...context, retentionNowNs }, storage, SEGMENTS_NAME, () => supervisor.lane)
  const active = log.segments.at(-1)
  const total = active === undefined || active.sealed ? 0 : log.written - active.base
  context.startup.at({ phase: 'indexing the newest segment', done: 0, total, unit: 'bytes' })
  await running.open(async () => {
    await supervisor.start()
    return supervisor
  })
  return { ingest, supervisor, follower, retain, gateway, datasets, counters, compactor }
}

/** A decode lane could not read the bundle at `base`: repairs what is damaged, and counts failed reads. */
function onBundleUnreadable({ logger, readErrors }: Context, storage: Storage, base: number, code: string): void {
  const { log, registry, sidecars, repair } = storage
  if (!hasSegment(log.segments, base)) return // it was dropped, and the lane had not heard of it yet
  if (registry.isCompacted(base)) {
    // Any other code: compaction removed the sidecar before the lane heard of it.
    if (code === 'bundle_block_corrupt') repair({ kind: 'stand-in', base })
    if (code === 'bundle_read_failed') readErrors.note(`bundle ${segmentName(base)}`)
    return
  }
  logger.error({ segment: segmentName(base), code }, 'the sidecar of a bundle is damaged: building it again')
  if (code === 'bundle_read_failed') readErrors.note(`the sidecar of bundle ${segmentName(base)}`)
  sidecars.rebuild(base)
}

interface QuerySide {
  readonly queries: QueryFront
  readonly reads: ReadFronts
  readonly bucket: BucketStore | null
  readonly counters: QueryCounters
}

async function openQueries(context: Context, storage: Storage, lead: ClusterLead): Promise<QuerySide> {
  const { config, running, policies, senders, logger, clock, readErrors } = context
  const { log, registry, repair } = storage
  const { queryStore } = config
  const bucket =
    queryStore.kind === 's3'
      ? await running.open(() => BucketStore.open({ settings: queryStore, logger, clock }))
      : null
  const workerData: QueryWorkerData = {
    segmentsDirectory: bucket === null ? `${config.dataDirectory}/${SEGMENTS_NAME}` : null,
    grams: bucket === null ? createFrameGrams(FRAME_GRAMS_BYTES) : null,
    senders: senders.shared,
  }
  const jobs = await running.open(
    () =>
      new JobPool<QueryTask<Question>, QueryAnswer>({
        name: 'logstore query',
        filename: workerFile('query'),
        threads: bucket === null ? QUERY_THREADS : REMOTE_QUERY_THREADS,
        queueMax: QUERY_QUEUE_MAX,
        workerData,
        resourceLimits: THREAD_HEAP,
        turns: TURNS_OF_TENANTS,
        wantsNewestThread: isNote,
      }),
  )
  const counters = new QueryCounters()
  const expired = (tenant: string): Expired => expiredOf(policies.policy, tenant, clock.nowNs())
  const ask = { log, registry, logger, readErrors, expired, onIncident: repair, bucket, ...lead }
  const notes =
    workerData.grams === null
      ? null
      : await running.open(() => new NoteAhead(clock, log, () => noteStep({ ...ask, jobs })))
  const reads = await openReads(running, {
    ask,
    policy: () => policies.policy,
    maxConcurrentReads: config.concurrentQueriesMax,
    counters,
    clock,
    workerData,
    logger,
  })
  const queries = new QueryFront({
    log,
    registry,
    jobs: withSpans(jobs, context.beginSpan ?? null, 'read'),
    maxConcurrentQueries: config.concurrentQueriesMax,
    counters,
    logger,
    readErrors,
    policy: () => policies.policy,
    expired,
    onIncident: repair,
    onSearched: () => notes?.searched(),
    bucket,
    ...lead,
  })
  return { queries, reads, bucket, counters }
}

async function openFronts(
  context: Context,
  storage: Storage,
  ingestSide: IngestSide,
  querySide: QuerySide,
  { health, requests, standing, clusterStatus, server, grpc }: Front,
  lead: ClusterLead,
): Promise<LogStore> {
  const { config, running, policies, readErrors, startup, logger, clock } = context
  const { version, acceptGate, processMetrics, watch = null } = context
  const { tls } = config
  const { log } = storage
  const { ingest, supervisor, counters } = ingestSide
  const helper = await running.open(() =>
    EndpointHelper.open({ directory: `${config.dataDirectory}/endpoint`, logger }),
  )
  health.add('log', () => logProblem(log))
  if (clusterStatus !== null) {
    clusterStatus.member = storage.member
    health.add('cluster', () => clusterStatus.problem)
    health.addDegradations(() => clusterStatus.degradations())
  }
  health.add('decode lane', () => supervisor.problem)
  health.add('endpoint log', () => helper.problem)
  health.addDegradations(() => logDegradations(log))
  health.addDegradations(() => helper.degradations())
  health.addDegradations(() => readErrors.degradations())
  const { bucket } = querySide
  health.addDegradations(() => bucket?.degradations() ?? [])
  const metrics = logStoreMetrics({
    ...storage,
    ...ingestSide,
    queryCounters: querySide.counters,
    bucket,
    acceptGate,
    health,
    readErrors,
    requests,
    processMetrics,
  })
  clusterStatus?.registerMetrics(metrics, 'logstore')
  const helperRoutes = endpointHelperRoutes({
    helper,
    recentPath: '/v1/endpoint/:activation_id',
    service: endpointService(logger),
  })
  const guard = new WebGuard({ bindHost: config.http.host, allowedHosts: config.allowedHosts })
  const service = logStoreService({
    guard,
    ingest,
    queries: querySide.queries,
    reads: querySide.reads,
    endpointHelper: helperRoutes,
    standing,
    metrics,
    version,
    ...lead,
  })
  await running.open(() => server) // closes before what it stands on
  await running.openBeside(() => querySide.reads.tails) // before the server waits for what is under way
  if (grpc !== null) await running.openBeside(() => grpc) // likewise
  grpc?.serve({
    ingest,
    policy: () => policies.policy,
    maxBodyBytes: config.bodyBytesMax,
    counters,
    clock,
    logger,
    requests,
    watch,
    ...lead,
  })
  server.serve(service)
  startup.opened()
  logger.info({ tenants: policies.policy.tenants.length }, WHAT_EXPORTERS_SEND)
  return {
    http: hostPort(server),
    grpc: grpc ? hostPort(grpc) : null,
    isSecure: server.isSecure,
    reload() {
      policies.reload()
      if (tls !== null) {
        renewTls(() => readTls(tls, LOGSTORE_TLS_NAMES), grpc === null ? [server] : [server, grpc], logger)
      }
      rereadAcknowledged(log, logger)
      helper.rereadAcknowledged()
    },
    drain: () => startup.drain(),
    cluster: clusterStatus,
    close: (options) => running.close(options),
  }
}

const WHAT_EXPORTERS_SEND = `an exporter sends the header ${TENANT_HEADER} with its tenant, authorization: Bearer <token>, the resource attribute tenant_id with the same tenant, and at most ${RECORDS_PER_BATCH_MAX} records a batch; the tenant's policy may allow more, see docs/collector.md`

const finiteOrNull = (limit: number): number | null => (Number.isFinite(limit) ? limit : null)
