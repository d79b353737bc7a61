/**
 * The broker as a service: what `headless.ts` opens, and the HTTP front before it.
 *
 * The front closes first, so that what was admitted is answered.
 */
import type { BrokerConfig } from '../config/broker.ts'
import { readQuotas } from '../config/quotas.ts'
import { messageOf } from '../errors.ts'
import type { AcceptGate } from '../http/accept-gate.ts'
import { hostPort } from '../http/host-port.ts'
import { listen } from '../http/server.ts'
import type { HttpClock } from '../http/server.ts'
import { WebGuard } from '../http/web-guard.ts'
import { Lifecycle } from '../lifecycle.ts'
import { incidentIdOf } from '../log/quarantine.ts'
import type { QuarantineIncident } from '../log/quarantine.ts'
import { Health } from '../observability/health.ts'
import { damage, logProblem, lostReplicas } from '../observability/log-state.ts'
import type { Logger } from '../observability/logger.ts'
import { clockProblem } from './engine/clock-watch.ts'
import type { Core } from './engine/core.ts'
import { LOCAL_CALLER, openHeadlessBroker } from './headless.ts'
import type { HeadlessBroker, HeadlessDependencies } from './headless.ts'
import type { ClockHealth, StorageHealth } from './api/parts.ts'
import { brokerService } from './api/routes.ts'
import { BrokerMetrics } from './metrics.ts'
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
  return openFront(context, await openHeadlessBroker(context))
}

async function openFront(
  context: Context,
  { core, broker, quotas, readErrors }: HeadlessBroker,
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
  }
  let http = ''
  const service = brokerService({
    operations: broker,
    storage: () => storageHealth(core, health),
    health,
    clock: () => clockHealth(core),
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
    guard: new WebGuard({ bindHost: config.http.host, allowedHosts: config.allowedHosts }),
    turn: core.turn,
    logger,
  })
  const server = await running.open(() =>
    listen(service, { ...config.http, setting: config.names.MQ_HTTP_BIND }, { logger, clock, random, acceptGate }),
  )
  http = hostPort(server)
  return {
    http,
    reloadQuotas: () => reloadQuotas(config, quotas, logger),
    close: (options) => {
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
