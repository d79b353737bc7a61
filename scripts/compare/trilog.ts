/** trilog's broker, through the workloads of the load tool. */
import { fileURLToPath } from 'node:url'
import { load } from './load.ts'
import type { Figures, Measured, Peer, Setup } from './peer.ts'
import { startServer, until } from './server.ts'

const MAIN = fileURLToPath(new URL('../../src/start.js', import.meta.url))
const READY = /^ready (\{.*\})$/m

export const trilog: Peer = {
  name: 'trilog',
  async measure(setup: Setup): Promise<Measured> {
    if (setup.trilogUrl !== null) return measureAt(setup.trilogUrl, setup)
    const server = startServer(process.execPath, [MAIN, '--services', 'broker'], {
      env: { MQ_HTTP_BIND: '127.0.0.1:0', MQ_DATA_DIR: `${setup.directory}/data` },
    })
    try {
      await until(server, () => READY.test(server.stdout()))
      const { http } = JSON.parse(READY.exec(server.stdout())![1]!) as { http: string } // as the contract says
      return await measureAt(`http://${http}`, setup)
    } finally {
      await server.stop()
    }
  },
}

async function measureAt(url: string, setup: Setup): Promise<Measured> {
  const publish = await figuresOf(setup, ['--workload', 'publish', '--url', url])
  const cycle = await figuresOf(setup, ['--workload', 'cycle', '--url', url, '--preload', '0'])
  return { server: 'trilog broker, local-sync', syncs: 'yes', publish, cycle }
}

async function figuresOf(
  { connections, durationMs, payloadBytes, nowMs }: Setup,
  args: readonly string[],
): Promise<Figures> {
  const shape = ['--connections', String(connections), '--payload-bytes', String(payloadBytes)]
  const { throughput, latencyMs } = await load(['broker', ...shape, '--duration', `${durationMs}ms`, ...args], nowMs)
  return { perSecond: throughput.unitsPerSecond, p50Ms: latencyMs.p50, p99Ms: latencyMs.p99 }
}
