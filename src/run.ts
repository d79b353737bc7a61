/**
 * Runs the chosen services in one process, and stops them on SIGTERM or SIGINT.
 * A service is loaded only when it is chosen: one that is not would make the start a tenth of a second longer.
 */
import { randomFillSync } from 'node:crypto'
import release from '../package.json' with { type: 'json' }
import { EXIT_BAD_CONFIGURATION } from './config/config.ts'
import type { ClusterSettings } from './config/cluster.ts'
import type { Config } from './config/config.ts'
import { StoreError } from './errors.ts'
import { AcceptGate } from './http/accept-gate.ts'
import { watchOf } from './http/request-watch.ts'
import { demandCodeGeneration } from './http/serializer.ts'
import { exitAtOnce } from './libc.ts'
import { Lifecycle } from './lifecycle.ts'
import { lowerHelperPriority, runSoonWhenWoken } from './pipeline/niceness.ts'
import { AccessLog } from './observability/access-log.ts'
import { NO_AUDIT_LOG } from './observability/audit-log.ts'
import { ProcessMetrics } from './observability/process-metrics.ts'
import { systemClock } from './observability/system-clock.ts'
import type { OpenService } from './service.ts'
import type { ServiceManager } from './service-manager.ts'
import type { Tracing } from './tracing.ts'
import { createLogger, loggerOf } from './observability/logger.ts'
import { printFailure } from './print-failure.ts'

/** A process must be gone 10 s after its signal. Stalled clients may take this much of that; the rest is left for the sync. */
const CLOSE_MS = 8000
/** A node of a cluster that stops hands over after this time at the latest. Slow clients may hold up its end, and new clients find no leader meanwhile. */
const HAND_OVER_MS = 1000

/** Never returns: it ends the process, also when it cannot start. It throws only errors that are no StoreError. */
export async function run(config: Config): Promise<void> {
  runSoonWhenWoken()
  lowerHelperPriority()
  process.stdout.on('error', () => {}) // the reader of the ready lines may be gone
  try {
    const logger = createLogger(config.logLevel)
    demandCodeGeneration()
    const running = new Lifecycle() // closes what was opened, also when a later open throws
    const stopped = running.untilSignal('SIGTERM', 'SIGINT') // from here on: a reader of the ready line may stop the process at once
    const opening: Opening = { config, logger, running, services: {}, reloadable: [] }
    const cluster = await startClusterNode(opening)
    const tracing = await tracingOf(opening)
    const manager = await serviceManager(logger)
    const reload = (): void => opening.reloadable.forEach((each) => each.reload())
    process.on('SIGHUP', () => (manager === null ? reload() : manager.reload(reload)))

    const starts = await startsOf(opening, worldsOf(opening, cluster, tracing))
    // The services start at the same time, so that all ports are open while one of them still reads what is stored.
    let hasStarted = false
    const started = Promise.all(starts.map((start) => start())).then(() => startConsole(opening))
    const noteStarted = (): void => {
      hasStarted = true
      manager?.ready()
    }
    void started.then(noteStarted).catch(() => {}) // a start that fails is handled below
    // A start that a signal stops ends as by a crash: nothing has been acknowledged yet.
    const signal = await Promise.race([stopped, started.then(() => stopped)])
    manager?.stopping()
    const { drainSeconds } = config
    if (signal === 'SIGTERM' && drainSeconds > 0) await drain(Object.values(opening.services), drainSeconds * 1000)
    systemClock.after(HAND_OVER_MS, () => handOver(opening))
    await running.close({ withinMs: CLOSE_MS })
    await tracing?.close()
    if (!hasStarted) exitAtOnce(0) // its threads may be loading
    process.exit(0)
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    printFailure(error)
    exitAtOnce(EXIT_BAD_CONFIGURATION) // threads of the other services may be loading, too
  }
}

type ServiceName = keyof Config['services']

interface Service extends OpenService {
  readonly grpc?: string | null
}

type Reloadable = Pick<Service, 'reload'>

/** What the parts of the start share. */
interface Opening {
  readonly config: Config
  readonly logger: ReturnType<typeof createLogger>
  readonly running: Lifecycle
  /** Services that have started. */
  readonly services: Partial<Record<ServiceName, Service>>
  /** What SIGHUP reloads. */
  readonly reloadable: Reloadable[]
}

/**
 * Starts the listener for other nodes, with what it asks of the services. It is loaded only in a cluster. SIGUSR2 hands the lead over.
 *
 * @returns null: the node is in no cluster
 */
async function startClusterNode(opening: Opening): Promise<ClusterSettings | null> {
  const { config, logger, running, services, reloadable } = opening
  const settings = config.cluster
  if (settings === null) return null
  const { openListener } = await import('./cluster/catch-up/open-listener.ts')
  const { NodeOfCluster } = await import('./cluster-node.ts')
  const node = new NodeOfCluster(services)
  const opened = await openListener(settings, config.services, node, loggerOf(logger, 'cluster'))
  await running.open(async () => opened.listener)
  loggerOf(logger, 'cluster').info({ address: opened.listener.address }, 'listening for other nodes')
  process.on('SIGUSR2', () => node.handOverAll(loggerOf(logger, 'cluster')))
  reloadable.push(opened)
  return opened.settings
}

type WorldOf = ReturnType<typeof worldsOf>

/** @returns the world of one service: what all have in common, and its own logger, audit log, access log and tracer */
function worldsOf({ config, logger }: Opening, cluster: ClusterSettings | null, tracing: Tracing | null) {
  const { version } = release
  const { metricsSeriesMax, hasAuditLog, accessLogShare: share } = config
  const common = {
    clock: systemClock,
    random: randomFillSync,
    version,
    acceptGate: new AcceptGate({ clock: systemClock, logger }),
    processMetrics: new ProcessMetrics({ version, clock: systemClock }),
    metricsSeriesMax,
    cluster,
  }
  return (service: ServiceName) => {
    const ownLogger = loggerOf(logger, service)
    const tracer = tracing?.tracerOf(service) ?? null
    const accessLog = share === 0 ? [] : [new AccessLog({ share, random: randomFraction, logger: ownLogger })]
    return {
      ...common,
      logger: ownLogger,
      audit: hasAuditLog ? loggerOf(logger, service, 'info') : NO_AUDIT_LOG,
      watch: watchOf([...accessLog, ...(tracer === null ? [] : [tracer])]),
      beginSpan: tracer?.beginSpan ?? null,
    }
  }
}

/** Loads the chosen services. @returns functions that start one each */
async function startsOf(opening: Opening, worldOf: WorldOf): Promise<readonly (() => Promise<void>)[]> {
  const { logstore, objectstore, broker } = opening.config.services
  const starts: (() => Promise<void>)[] = []
  if (logstore) {
    const { openLogStore } = await import('./logstore/logstore.ts')
    starts.push(() => startService(opening, 'logstore', () => openLogStore(logstore, worldOf('logstore'))))
  }
  if (objectstore) {
    const { openObjectStore } = await import('./objectstore/service.ts')
    starts.push(() => startService(opening, 'objectstore', () => openObjectStore(objectstore, worldOf('objectstore'))))
  }
  if (broker) {
    const { openBroker } = await import('./broker/service.ts')
    starts.push(() => startService(opening, 'broker', () => openBroker(broker, worldOf('broker'))))
  }
  return starts
}

async function startService(
  { running, services, reloadable }: Opening,
  name: ServiceName,
  open: () => Promise<Service>,
): Promise<void> {
  const service = await running.openBeside(open)
  services[name] = service
  reloadable.push(service)
  announce(name, service)
}

/** Starts the console last, as it asks the services at the addresses that they got. So it is closed first. */
async function startConsole({ config, logger, running, services, reloadable }: Opening): Promise<void> {
  const { console } = config
  if (console === null) return
  const { openConsole } = await import('./console/console.ts')
  const { placesOf } = await import('./console/places.ts')
  const { version } = release
  const dependencies = { version, logger: loggerOf(logger, 'console'), services: placesOf(config, services) }
  const opened = await running.open(() => openConsole(console, dependencies))
  const { http, isSecure } = opened
  reloadable.push(opened)
  if (http !== null) announce('console', { http, isSecure })
}

/** Loaded only when it is asked for. */
async function tracingOf({ config, logger }: Opening): Promise<Tracing | null> {
  if (config.tracing === null) return null
  const { Tracing } = await import('./tracing.ts')
  return new Tracing(config.tracing, { version: release.version, logger })
}

/** Null: no systemd asked to be told. */
async function serviceManager(logger: ReturnType<typeof createLogger>): Promise<ServiceManager | null> {
  const { NOTIFY_SOCKET: socket } = process.env
  if (!socket) return null
  const { ServiceManager } = await import('./service-manager.ts')
  return new ServiceManager(socket, {
    env: process.env,
    pid: process.pid,
    monotonicUs: systemClock.monotonicUs,
    every: (intervalMs, task) => systemClock.every(intervalMs, task),
    onFailure: (code) =>
      logger.warn({ code }, 'the state of the process cannot be reported to the service manager: NOTIFY_SOCKET'),
  })
}

const randomWord = new Uint32Array(1)
/** From 0 to below 1. */
const randomFraction = (): number => randomFillSync(randomWord)[0]! / 2 ** 32

/** Services that lead give the lead away. */
function handOver({ services }: Opening): void {
  for (const { cluster } of Object.values(services)) cluster?.handOver(null)
}

/** SIGINT ends the drain early: a person waits. */
async function drain(services: readonly Service[], forMs: number): Promise<void> {
  for (const service of services) service.drain()
  await new Promise<void>((resolve) => {
    systemClock.wait(forMs, resolve)
    process.once('SIGINT', () => resolve())
  })
}

/** The one line on stdout that scripts wait for. */
function announce(service: string, { http, grpc = null, isSecure }: Pick<Service, 'http' | 'grpc' | 'isSecure'>): void {
  const scheme = isSecure ? { scheme: 'https' } : {}
  process.stdout.write(`ready ${JSON.stringify({ service, http, grpc, ...scheme, pid: process.pid })}\n`)
}
