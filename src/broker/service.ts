/**
 * The broker as a service: what `headless.ts` opens, and the HTTP front before it.
 *
 * The front closes first, so that what was admitted is answered.
 */
import type { BrokerAuth, BrokerConfig } from '../config/broker.ts'
import { readBrokerKeys } from '../config/broker-credentials.ts'
import { readQuotas } from '../config/quotas.ts'
import { messageOf } from '../errors.ts'
import type { AcceptGate } from '../http/accept-gate.ts'
import { hostPort } from '../http/host-port.ts'
import { listen } from '../http/server.ts'
import type { HttpClock } from '../http/server.ts'
import { TrustedProxies } from '../http/trusted-proxies.ts'
import { WebGuard } from '../http/web-guard.ts'
import { Lifecycle } from '../lifecycle.ts'
import { incidentIdOf } from '../log/quarantine.ts'
import type { QuarantineIncident } from '../log/quarantine.ts'
import { Health } from '../observability/health.ts'
import { damage, logProblem, lostReplicas } from '../observability/log-state.ts'
import type { Logger } from '../observability/logger.ts'
import { clockProblem } from './engine/clock-watch.ts'
import { Connections } from './connection/connections.ts'
import type { ConnectionsParts } from './connection/connections.ts'
import type { Core } from './engine/core.ts'
import { LOCAL_CALLER, openHeadlessBroker } from './headless.ts'
import type { HeadlessBroker, HeadlessDependencies } from './headless.ts'
import { KeyAccess, ProxyAccess, openAccess } from './api/access.ts'
import type { Access } from './api/access.ts'
import type { ClockHealth, StorageHealth } from './api/parts.ts'
import { brokerService } from './api/routes.ts'
import { BrokerMetrics } from './metrics.ts'
import { AccessAudit } from './operations/access-audit.ts'
import type { TenantQuotas } from './quotas.ts'

export interface BrokerDependencies extends HeadlessDependencies {
  readonly clock: HeadlessDependencies['clock'] & HttpClock
  readonly version: string
  /** Of the process. */
  readonly acceptGate: AcceptGate
}

export interface BrokerServer {
  /** host:port of the listener. */
  readonly http: string
  /** Reads the files of quotas and keys again. */
  reload(): void
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
  return openFront(context, await openHeadlessBroker(context, tenantsOf(config.auth)))
}

async function openFront(
  context: Context,
  { core, broker, quotas, readErrors, defer }: HeadlessBroker,
): Promise<BrokerServer> {
  const { config, running, logger, clock, random, version, acceptGate } = context
  const { log, counters } = core
  const health = new Health(() => clock.wallMs())
  health.add('log', () => logProblem(log))
  health.addDegradations(() => lostReplicas(log))
  health.addDegradations(() => damage(openIncidents(core), ACKNOWLEDGE))
  health.addDegradations(() => readErrors.degradations())
  const gauges = {
    get streams() {
      return core.state.streamCount
    },
    get groups() {
      return core.state.groupCount
    },
    get activeLeases() {
      return core.state.totals.leased
    },
    get delayedRetries() {
      return core.state.totals.delayed
    },
    get acceptPauses() {
      return acceptGate.pauses
    },
    get waitingClaims() {
      return broker.waitingClaims
    },
    get clockOffsetMs() {
      return core.time.offsetMs
    },
    get sleptMs() {
      return core.time.sleptMs
    },
    get framesInFlight() {
      return core.appender.inFlight
    },
    get degraded() {
      return health.degradations().length
    },
    get readErrors() {
      return readErrors.count
    },
    get connections() {
      return connections.count
    },
    get replication() {
      return broker.replicationGauges
    },
  }
  let http = ''
  const access = accessOf(config.auth)
  const audit = new AccessAudit(core, () => clock.nowMs())
  const onDenied: ConnectionsParts['onDenied'] = (who, refused, stream) => audit.refused(who, refused.message, stream)
  const connections = new Connections({
    operations: broker,
    onDenied,
    onFailure: (err) => logger.error({ err }, 'an operation of a streaming connection failed'),
    counters,
    bodyBytesMax: config.bodyBytesMax,
    defer,
  })
  const service = brokerService({
    operations: broker,
    connections,
    storage: () => storageHealth(core, health),
    health,
    clock: () => clockHealth(core),
    node: {
      nodeId: config.nodeId,
      httpBind: () => http,
      authMode: config.auth.mode,
      metricsExposure: config.metricsExposure,
      version,
    },
    metrics: config.metricsExposure === 'http' ? new BrokerMetrics({ counters, gauges, log }) : null,
    counters,
    maxBodyBytes: config.bodyBytesMax,
    access,
    onRefused: (identity, refused, stream) => {
      if (identity !== null) audit.refused(identity, refused.message, stream)
    },
    guard:
      config.auth.mode === 'insecure-local'
        ? new WebGuard({ bindHost: config.http.host, allowedHosts: config.allowedHosts })
        : null,
    turn: core.turn,
    logger,
  })
  const server = await running.open(() =>
    listen(service, { ...config.http, setting: config.names.MQ_HTTP_BIND }, { logger, clock, random, acceptGate }),
  )
  http = hostPort(server)
  return {
    http,
    reload() {
      reloadQuotas(config, quotas, logger)
      if (reloadKeys(config, access, audit, logger)) connections.identifyAgain()
    },
    close: (options) => {
      connections.stop()
      broker.close() // or claims that wait would hold the front open
      return running.close(options)
    },
  }
}

const ACKNOWLEDGE =
  'GET /streams/{stream}/quarantine shows those of a stream, of system.audit those of none; POST …/{incident}/acknowledge acknowledges one'

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
  return auth.mode === 'api-key' ? [...new Set(auth.keys.map(({ tenant }) => tenant))] : [LOCAL_CALLER.tenant]
}

function accessOf(auth: BrokerAuth): Access {
  if (auth.mode === 'insecure-local') return openAccess(LOCAL_CALLER)
  if (auth.mode === 'api-key') return new KeyAccess(auth.keys)
  return new ProxyAccess(auth.headers, new TrustedProxies(auth.trustedProxies))
}

/** @returns whether there are other keys now */
function reloadKeys({ auth, names }: BrokerConfig, access: Access, audit: AccessAudit, logger: Logger): boolean {
  if (auth.mode !== 'api-key' || !(access instanceof KeyAccess)) return false
  try {
    const keys = readBrokerKeys(auth.credentialsFile)
    access.replace(keys)
    audit.keysRead(new Set(keys.map(({ tenant }) => tenant)))
    logger.info({ keys: keys.length }, 'keys read again')
    return true
  } catch (error) {
    logger.error({ reason: `${names.MQ_CREDENTIALS_FILE} ${messageOf(error)}` }, 'the keys stay as they are')
    return false
  }
}

function reloadQuotas({ quotasFile, names }: BrokerConfig, quotas: TenantQuotas, logger: Logger): void {
  if (quotasFile === null) return
  try {
    quotas.replace(readQuotas(quotasFile))
    logger.info({}, 'quotas read again')
  } catch (error) {
    const reason = messageOf(error)
    logger.error({ reason: `${names.MQ_QUOTAS_FILE} ${reason}` }, 'the quotas stay as they are')
  }
}
