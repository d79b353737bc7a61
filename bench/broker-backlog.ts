/**
 * What does a large backlog cost? Claims with millions of records waiting and a million leases out, expiry, and a restart.
 *
 *   node bench/broker-backlog.ts [--records 10000000] [--leases 1000000] [--claims 6000] [--data-dir DIR]
 *
 * Starts the broker on a directory of its own, publishes, leases, then claims and acknowledges records one at a time. Restarts it after
 * SIGKILL and after SIGTERM and measures until the first claim is answered. Talks to this machine only.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Service, row, timed } from './support/service.ts'

const { values } = parseArgs({
  options: {
    records: { type: 'string', default: '10000000' },
    leases: { type: 'string', default: '1000000' },
    claims: { type: 'string', default: '6000' },
    'data-dir': { type: 'string', default: tmpdir() },
  },
})
const BATCH = 1000
const PAYLOAD = 'x'.repeat(200)
const directory = mkdtempSync(join(values['data-dir'], 'trilog-broker-backlog-'))
const STREAM = '/v1/streams/backlog'
const CLAIMS = `${STREAM}/consumer-groups/workers/claims`

interface ClaimAnswer {
  readonly subscription_id: string
  readonly delivery_count: number
  readonly deliveries: readonly { readonly delivery_id: string; readonly offset: number }[]
}

const start = (): Promise<Service> =>
  Service.start('broker', { MQ_HTTP_BIND: '127.0.0.1:0', MQ_DATA_DIR: join(directory, 'data') })

const claim = (broker: Service, body: object): Promise<ClaimAnswer> => broker.send('POST', CLAIMS, JSON.stringify(body))

/** Calls with 0, 1, …, several at a time. */
async function many(count: number, call: (number: number) => Promise<unknown>): Promise<void> {
  let next = 0
  const lane = async (): Promise<void> => {
    while (next < count) await call(next++)
  }
  await Promise.all(Array.from({ length: 8 }, lane))
}

function residentMiB({ pid }: Service): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024
}

async function measureClaims(broker: Service, count: number): Promise<void> {
  const claimsMs: number[] = []
  const acksMs: number[] = []
  for (let i = 0; i < count; i++) {
    const claimed = await timed(() => claim(broker, {}))
    const { subscription_id, deliveries } = claimed.result
    const path = `${STREAM}/subscriptions/${subscription_id}/deliveries/${deliveries[0]!.delivery_id}/ack`
    claimsMs.push(claimed.ms)
    acksMs.push((await timed(() => broker.send('POST', path, ''))).ms)
  }
  console.log(row('claim of 1', claimsMs))
  console.log(row('ack', acksMs))
}

async function measureRestart(broker: Service, signal: NodeJS.Signals): Promise<Service> {
  await broker.stop(signal)
  const again = await start()
  const first = await timed(() => claim(again, {}))
  const readyMs = again.readyMs.toFixed(0)
  console.log(`after ${signal}: ready in ${readyMs} ms, first claim after ${(again.readyMs + first.ms).toFixed(0)} ms`)
  return again
}

const records = Number(values.records)
const leases = Number(values.leases)
let broker = await start()
try {
  await broker.send('PUT', STREAM, '')
  const body = JSON.stringify({
    records: Array.from({ length: BATCH }, (_, i) => ({ message_id: `m-${i}`, payload: PAYLOAD })),
  })
  const publish = (): Promise<unknown> => broker.send('POST', `${STREAM}/records/batch`, body)
  const published = await timed(() => many(Math.ceil(records / BATCH), publish))
  console.log(`published ${records} records in ${(published.ms / 1000).toFixed(1)} s`)
  console.log('without leases')
  await measureClaims(broker, Number(values.claims))

  const before = residentMiB(broker)
  const claimMany = (timeoutMs: number): Promise<unknown> =>
    claim(broker, { max_messages: BATCH, lease_timeout_millis: timeoutMs })
  const leased = await timed(() => many(Math.ceil(leases / BATCH), () => claimMany(3_600_000)))
  console.log(`leased ${leases} records in ${(leased.ms / 1000).toFixed(1)} s`)
  console.log(`resident memory ${before.toFixed(0)} MiB, with the leases ${residentMiB(broker).toFixed(0)} MiB`)
  console.log(`with ${leases} leases`)
  await measureClaims(broker, Number(values.claims))

  broker = await measureRestart(broker, 'SIGKILL')
  broker = await measureRestart(broker, 'SIGTERM')

  const expiring = Math.ceil(leases / 10 / BATCH)
  await many(expiring, () => claimMany(1000))
  console.log(`while ${expiring * BATCH} more leases expire`)
  await measureClaims(broker, Number(values.claims))
} finally {
  await broker.stop()
  rmSync(directory, { recursive: true, force: true })
}
