/** Starts the chosen services in one process, and stops them on SIGTERM or SIGINT. */
import { randomFillSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { EXIT_BAD_CONFIGURATION, loadConfig } from './config/config.ts'
import { StoreError } from './errors.ts'
import { Lifecycle } from './lifecycle.ts'
import { openLogStore } from './logstore/logstore.ts'
import { systemClock } from './observability/system-clock.ts'
import { createLogger, loggerOf } from './observability/logger.ts'

/** A process is gone 10 s after its signal: what a stalled client may take of them leaves time to sync. */
const CLOSE_MS = 8000

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }

try {
  const config = loadConfig(process.env, process.argv.slice(2))
  const logger = createLogger(config.logLevel)
  const world = { clock: systemClock, random: randomFillSync, version }
  const running = new Lifecycle() // closes what was opened, last first, also when a later open throws
  const stopped = running.untilSignal('SIGTERM', 'SIGINT') // from here on: whoever reads the ready line may stop at once

  const reloadOnHangUp: (() => void)[] = []
  process.on('SIGHUP', () => reloadOnHangUp.forEach((reload) => reload()))

  const { logstore } = config.services
  if (logstore) {
    const service = await running.open(() => openLogStore(logstore, { ...world, logger: loggerOf(logger, 'logstore') }))
    reloadOnHangUp.push(() => service.reloadPolicy())
    announce('logstore', service)
  }

  await stopped
  await running.close({ withinMs: CLOSE_MS })
  process.exit(0)
} catch (error) {
  if (!(error instanceof StoreError)) throw error
  process.stderr.write(`${error.message}\n`)
  process.exit(EXIT_BAD_CONFIGURATION)
}

/** The one line on stdout that scripts wait for. */
function announce(service: string, { http, grpc }: { http: string; grpc: string | null }): void {
  process.stdout.write(`ready ${JSON.stringify({ service, http, grpc, pid: process.pid })}\n`)
}
