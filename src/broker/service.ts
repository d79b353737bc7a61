/**
 * The broker as a service: what `headless.ts` opens, and the HTTP front before it.
 *
 * The port opens first, and reports how far the rest is. The front closes first, so that admitted requests are still answered.
 */
import type { BrokerAuth, BrokerConfig } from '../config/broker.ts'
import { brokerTlsNames } from '../config/broker.ts'
import { readBrokerCredentials } from '../config/broker-credentials.ts'
import { readQuotas } from '../config/quotas.ts'
import { readTls } from '../config/tls.ts'
import { StoreError, messageOf } from '../errors.ts'
import { hostPort } from '../http/host-port.ts'
import { listen } from '../http/server.ts'
import type { Route } from '../http/routes.ts'
import type { HttpClock, HttpServer } from '../http/server.ts'
import { LISTENING, serviceBeingOpened, standingRoutes } from '../http/standing-endpoints.ts'
import { nextTurn } from '../http/turns.ts'
import { renewTls } from '../http/tls.ts'
import { TrustedProxies } from '../http/trusted-proxies.ts'
import { WebGuard } from '../http/web-guard.ts'
import { ClusterStatus } from '../cluster-membership.ts'
import { Lifecycle } from '../lifecycle.ts'
import { incidentIdOf } from '../log/quarantine.ts'
import type { QuarantineIncident } from '../log/quarantine.ts'
import { Health } from '../observability/health.ts'
import { damage, logProblem, lostReplicas } from '../observability/log-state.ts'
import type { Logger } from '../observability/logger.ts'
import { RequestMetrics } from '../observability/request-metrics.ts'
import { Startup } from '../observability/startup.ts'
import type { OpenService, ServiceDependencies } from '../service.ts'
import type { Pace } from '../steps.ts'
import { clockProblem } from './engine/clock-watch.ts'
import { Connections } from './connection/connections.ts'
import type { ConnectionsParts } from './connection/connections.ts'
import type { Core } from './engine/core.ts'
import { LOCAL_CALLER, openHeadlessBroker } from './headless.ts'
import type { HeadlessBroker, HeadlessDependencies } from './headless.ts'
import { CertificateAccess, CertifiedAccess, KeyAccess, ProxyAccess, openAccess } from './api/access.ts'
import type { Access, FileAccess } from './api/access.ts'
import type { ClockHealth, StorageHealth } from './api/parts.ts'
import { isKnown } from './api/node.ts'
import { brokerFront, brokerService, refuseUnopened } from './api/routes.ts'
import { BrokerCounters } from './counters.ts'
import { BrokerMetrics } from './metrics.ts'
import { AccessAudit } from './operations/access-audit.ts'
import { GroupSeries } from './operations/group-series.ts'
import type { TenantQuotas } from './quotas.ts'

interface BrokerDependencies extends ServiceDependencies, HeadlessDependencies {
  readonly clock: HeadlessDependencies['clock'] & HttpClock
}

interface Context extends BrokerDependencies {
  readonly config: BrokerConfig
  readonly running: Lifecycle
  readonly startup: Startup
  readonly pace: Pace
}

/** @throws StoreError when a setting cannot work or the data directory cannot be used */
export async function openBroker(config: BrokerConfig, dependencies: BrokerDependencies): Promise<OpenService> {
  for (const name of config.unknownSettings) dependencies.logger.warn({ setting: name }, 'unknown setting')
  const startup = new Startup({ turn: nextTurn, nowMs: () => dependencies.clock.nowMs(), ...dependencies })
  const context: Context = { config, running: new Lifecycle(), startup, pace: startup.pace, ...dependencies }
  const front = await openPort(context)
  return openFront(context, await openHeadlessBroker(context, tenantsOf(config.auth)), front)
}

interface Front {
  readonly access: Access
  /** Access by the credentials file; null: there is none. */
  readonly fromFile: FileAccess | null
  readonly health: Health
  readonly requests: RequestMetrics
  readonly standing: readonly Route[]
  /** Null: the node is in no cluster. */
  readonly clusterStatus: ClusterStatus | null
  readonly server: HttpServer
}

/** Opens the port. Until the broker is open, the port answers how far the start is. */
async function openPort(context: Context): Promise<Front> {
  const { config, running, logger, clock, random, acceptGate, startup, watch = null } = context
  const health = new Health(() => clock.wallMs())
  health.add('start', () => startup.problem)
  const requests = new RequestMetrics()
  const { access, fromFile } = accessOf(config)
  const clusterStatus = ClusterStatus.of(context.cluster)
  const standing = standingRoutes({
    health,
    startup,
    isKnown: (head, exchange) => isKnown(access, head, exchange),
    cluster: clusterStatus?.view ?? null,
  })
  const uncounted = { counters: new BrokerCounters() } // the broker's own counters come with its state
  const server = await running.open(() =>
    listen(
      serviceBeingOpened(brokerFront(uncounted), standing, refuseUnopened(uncounted)),
      { ...config.http, setting: config.names.MQ_HTTP_BIND, tls: config.tls },
      { logger, clock, random, acceptGate, requests, watch },
    ),
  )
  logger.debug({ http: hostPort(server) }, LISTENING)
  return { access, fromFile, health, requests, standing, clusterStatus, server }
}

async function openFront(
  context: Context,
  { core, broker, quotas, readErrors, member, join, defer, replacePolicies }: HeadlessBroker,
  { access, fromFile, health, requests, standing, clusterStatus, server }: Front,
): Promise<OpenService> {
  const { config, running, logger, clock, startup, version, acceptGate, processMetrics, metricsSeriesMax } = context
  const { log, counters } = core
  health.add('log', () => logProblem(log))
  if (clusterStatus !== null) {
    clusterStatus.member = member
    health.add('cluster', () => clusterStatus.problem)
    health.addDegradations(() => clusterStatus.degradations())
  }
  health.addDegradations(() => lostReplicas(log))
  health.addDegradations(() => damage(openIncidents(core), ACKNOWLEDGE))
  health.addDegradations(() => readErrors.degradations())
  const gauges = {
    streams: () => core.state.streamCount,
    groups: () => core.state.groupCount,
    activeLeases: () => core.state.totals.leased,
    delayedRetries: () => core.state.totals.delayed,
    acceptPauses: () => acceptGate.pauses,
    waitingClaims: () => broker.waitingClaims,
    clockOffsetMs: () => core.time.offsetMs,
    sleptMs: () => core.time.sleptMs,
    framesInFlight: () => core.appender.inFlight,
    degraded: () => health.degradations().length,
    readErrors: () => readErrors.count,
    connections: () => connections.count,
    replication: () => broker.replicationGauges,
  }
  const groups = new GroupSeries(core, broker.groupAges, metricsSeriesMax)
  const metrics = new BrokerMetrics({
    counters,
    gauges,
    log,
    groups,
    requests,
    process: processMetrics,
    cluster: clusterStatus,
  })
  const http = hostPort(server)
  const audit = new AccessAudit(core, () => clock.nowMs(), LOCAL_CALLER.tenant)
  const onDenied: ConnectionsParts['onDenied'] = (who, refused, stream) => audit.refused(who, refused.message, stream)
  const connections = new Connections({
    operations: broker.operations,
    onDenied,
    onFailure: (err) => logger.error({ err }, 'an operation of a streaming connection failed'),
    counters,
    bodyBytesMax: config.bodyBytesMax,
    limits: config.connection,
    defer,
    turn: nextTurn,
  })
  const service = brokerService({
    operations: broker.operations,
    connections,
    storage: () => storageHealth(core, health),
    health,
    standing,
    clock: () => clockHealth(core),
    cluster: clusterStatus?.view ?? null,
    node: {
      nodeId: config.nodeId,
      httpBind: () => http,
      authMode: config.auth.mode,
      metricsExposure: config.metricsExposure,
      version,
    },
    metrics: config.metricsExposure === 'http' ? metrics : null,
    counters,
    unread: core.reads.unread,
    maxBodyBytes: config.bodyBytesMax,
    access,
    onRefused: (identity, refused, stream) => audit.refused(identity, refused.message, stream),
    onUnidentified(refused, remoteAddress) {
      if (refused.code === 'authentication_failed') audit.unidentified(refused.message, remoteAddress)
    },
    guard:
      config.auth.mode === 'insecure-local'
        ? new WebGuard({ bindHost: config.http.host, allowedHosts: config.allowedHosts })
        : null,
    turn: core.turn,
    logger,
  })
  await running.open(() => ({ close: () => connections.idle() }))
  await running.open(() => server) // closes before everything that it uses
  server.serve(service)
  startup.opened()
  join(() => connections.stop())
  let tenants = tenantsOf(config.auth)
  return {
    http,
    isSecure: server.isSecure,
    reload() {
      const readAgain = reloadCredentials(config, fromFile, logger)
      if (readAgain !== null) {
        tenants = readAgain
        audit.reloaded('credentials_reloaded', tenants)
        connections.identifyAgain()
      }
      if (reloadQuotas(config, quotas, logger)) audit.reloaded('quotas_reloaded', tenants)
      if (reloadReplication(config, replacePolicies, logger)) audit.reloaded('replication_binding_reloaded', tenants)
      const { tls } = config
      if (tls !== null && renewTls(() => readTls(tls, brokerTlsNames(config.names)), [server], logger)) {
        audit.reloaded('certificates_reloaded', tenants)
      }
    },
    drain: () => startup.drain(),
    cluster: clusterStatus,
    close: (options) => {
      connections.stop()
      broker.close() // otherwise waiting claims would hold the front open
      return running.close(options)
    },
  }
}

const ACKNOWLEDGE =
  'list the incidents with GET /streams/{stream}/quarantine, those outside any stream under system.audit; acknowledge each with POST …/{incident}/acknowledge'

const openIncidents = ({ log, state }: Core): readonly QuarantineIncident[] =>
  log.incidents.filter((incident) => !state.acknowledgedIncidents.has(incidentIdOf(incident)))

function clockHealth({ time: { offsetMs } }: Core): ClockHealth {
  const message = clockProblem(offsetMs)
  return { offset_ms: offsetMs, ...(message !== null && { message }) }
}

function storageHealth({ log }: Core, health: Health): StorageHealth {
  const { kind } = log.state
  if (kind === 'closed') return { status: 'read-only' }
  if (kind === 'read-only' || kind === 'restarting') {
    return { status: kind === 'read-only' ? kind : 'degraded', message: log.state.message }
  }
  const degradations = health.degradations()
  if (degradations.length === 0) return { status: 'ok' }
  return { status: 'degraded', message: degradations.map(({ reason, action }) => `${reason}: ${action}`).join('; ') }
}

const tenantsOf = (auth: BrokerAuth): readonly string[] => {
  const isByFile = auth.mode === 'api-key' || auth.mode === 'mtls'
  return isByFile ? distinctTenants(auth.credentials) : [LOCAL_CALLER.tenant]
}

const distinctTenants = (credentials: readonly { readonly tenant: string }[]): readonly string[] => [
  ...new Set(credentials.map(({ tenant }) => tenant)),
]

/** `fromFile`: access by the credentials file; null: there is none. */
function accessOf({ auth, tls }: BrokerConfig): { readonly access: Access; readonly fromFile: FileAccess | null } {
  if (auth.mode === 'mtls') {
    const access = new CertificateAccess(auth.credentials)
    return { access, fromFile: access }
  }
  const fromFile = auth.mode === 'api-key' ? new KeyAccess(auth.credentials) : null
  const access = fromFile ?? accessWithoutFile(auth)
  return { access: (tls?.clientCaFile ?? null) === null ? access : new CertifiedAccess(access), fromFile }
}

function accessWithoutFile(auth: BrokerAuth): Access {
  return auth.mode === 'external'
    ? new ProxyAccess(auth.headers, new TrustedProxies(auth.trustedProxies))
    : openAccess(LOCAL_CALLER)
}

/** @returns the tenants of the new credentials; null: the old ones stay */
function reloadCredentials(
  { auth, names }: BrokerConfig,
  access: FileAccess | null,
  logger: Logger,
): readonly string[] | null {
  if (access === null || !('credentialsFile' in auth)) return null
  try {
    const credentials = readBrokerCredentials(auth.credentialsFile, auth.mode)
    access.replace(credentials)
    logger.info({ keys: credentials.length }, 'keys read again')
    return distinctTenants(credentials)
  } catch (error) {
    logger.error(
      { reason: `${names.MQ_CREDENTIALS_FILE} ${messageOf(error)}` },
      'the credentials file was refused: the keys before stay in force',
    )
    return null
  }
}

/** @returns true when the policies were replaced */
function reloadReplication(
  { readReplication, names }: BrokerConfig,
  replace: HeadlessBroker['replacePolicies'],
  logger: Logger,
): boolean {
  if (readReplication === null) return false
  try {
    const policies = readReplication()
    replace(policies)
    logger.info({ policies: policies.length }, 'replication binding read again')
    return true
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    logger.error(
      { reason: `${names.MQ_REPLICATION_BINDING_FILE} ${error.message}` },
      'the replication binding was refused: the policies before stay in force',
    )
    return false
  }
}

/** @returns true when the quotas were replaced */
function reloadQuotas({ quotasFile, names }: BrokerConfig, quotas: TenantQuotas, logger: Logger): boolean {
  if (quotasFile === null) return false
  try {
    quotas.replace(readQuotas(quotasFile))
    logger.info({}, 'quotas read again')
    return true
  } catch (error) {
    const reason = messageOf(error)
    logger.error(
      { reason: `${names.MQ_QUOTAS_FILE} ${reason}` },
      'the quotas file was refused: the quotas before stay in force',
    )
    return false
  }
}
