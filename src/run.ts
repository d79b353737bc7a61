/**
 * Runs the chosen services in one process, and stops them on SIGTERM or SIGINT.
 * A service is loaded only when it is chosen: one that is not would make the start a tenth of a second longer.
 */
import { randomFillSync } from 'node:crypto'
import release from '../package.json' with { type: 'json' }
import { EXIT_BAD_CONFIGURATION } from './config/config.ts'
import type { Config } from './config/config.ts'
import type { RunningServices } from './console/places.ts'
import { StoreError } from './errors.ts'
import { AcceptGate } from './http/accept-gate.ts'
import { demandSerializers } from './http/serializer.ts'
import { Lifecycle } from './lifecycle.ts'
import { ProcessMetrics } from './observability/process-metrics.ts'
import { systemClock } from './observability/system-clock.ts'
import { createLogger, loggerOf } from './observability/logger.ts'

/** A process is gone 10 s after its signal: what a stalled client may take of them leaves time to sync. */
const CLOSE_MS = 8000

/** Returns never: it ends the process, or throws what kept it from starting. */
export async function run(config: Config): Promise<void> {
  process.stdout.on('error', () => {}) // whoever waited for the ready lines may be gone
  try {
    const logger = createLogger(config.logLevel)
    demandSerializers()
    const acceptGate = new AcceptGate({ clock: systemClock, logger })
    const { version } = release
    const world = {
      clock: systemClock,
      random: randomFillSync,
      version,
      acceptGate,
      processMetrics: new ProcessMetrics({ version, clock: systemClock }),
      metricsSeriesMax: config.metricsSeriesMax,
    }
    const running = new Lifecycle() // closes what was opened, also when a later open throws
    const stopped = running.untilSignal('SIGTERM', 'SIGINT') // from here on: whoever reads the ready line may stop at once

    const reloadOnHangUp: (() => void)[] = []
    process.on('SIGHUP', () => reloadOnHangUp.forEach((reload) => reload()))

    const { logstore, objectstore, broker } = config.services
    const services: RunningServices = {}
    if (logstore) {
      const { openLogStore } = await import('./logstore/logstore.ts')
      const open = () => openLogStore(logstore, { ...world, logger: loggerOf(logger, 'logstore') })
      const service = await running.openBeside(open)
      reloadOnHangUp.push(() => service.reload())
      services.logstore = service
      announce('logstore', service)
    }
    if (objectstore) {
      const { openObjectStore } = await import('./objectstore/service.ts')
      const open = () => openObjectStore(objectstore, { ...world, logger: loggerOf(logger, 'objectstore') })
      const service = await running.openBeside(open)
      reloadOnHangUp.push(() => service.reload())
      services.objectstore = service
      announce('objectstore', { ...service, grpc: null })
    }
    if (broker) {
      const { openBroker } = await import('./broker/service.ts')
      const open = () => openBroker(broker, { ...world, logger: loggerOf(logger, 'broker') })
      const service = await running.openBeside(open)
      reloadOnHangUp.push(() => service.reload())
      services.broker = service
      announce('broker', { ...service, grpc: null })
    }

    const { console } = config
    if (console) {
      const { openConsole } = await import('./console/console.ts')
      const { placesOf } = await import('./console/places.ts')
      const places = placesOf(config, services)
      const dependencies = { version, logger: loggerOf(logger, 'console'), services: places }
      const { http } = await running.open(() => openConsole(console, dependencies))
      if (http !== null) announce('console', { http, grpc: null, isSecure: false })
    }

    await stopped
    await running.close({ withinMs: CLOSE_MS })
    process.exit(0)
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    process.stderr.write(`${error.message}\n`)
    process.exit(EXIT_BAD_CONFIGURATION)
  }
}

interface Announced {
  readonly http: string
  readonly grpc: string | null
  readonly isSecure: boolean
}

/** The one line on stdout that scripts wait for. */
function announce(service: string, { http, grpc, isSecure }: Announced): void {
  const scheme = isSecure ? { scheme: 'https' } : {}
  process.stdout.write(`ready ${JSON.stringify({ service, http, grpc, ...scheme, pid: process.pid })}\n`)
}
