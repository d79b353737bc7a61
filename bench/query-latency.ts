/**
 * How long do look-ups take in a large dataset while ingest goes on, and how long does a restart take?
 *
 *   node bench/query-latency.ts [--records 10000000] [--queries 500] [--rate 50000] [--data-dir DIR]
 *
 * Starts the log store on a directory of its own, fills one dataset, then asks for what is not there, by record id, by trace id
 * and for pages of 100 by time range, one query at a time, while the load tool sends `--rate` records/s. Last, it restarts the store
 * twice: after SIGTERM and after SIGKILL. Talks to this machine only.
 */
import { spawn } from 'node:child_process'
import { createHash, randomInt } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Service, row, timed } from './support/service.ts'

const { values } = parseArgs({
  options: {
    records: { type: 'string', default: '10000000' },
    queries: { type: 'string', default: '500' },
    rate: { type: 'string', default: '50000' },
    'data-dir': { type: 'string', default: tmpdir() },
  },
})
const BATCH = 512
const NO_TRACE = 'f'.repeat(32)
const TOKEN = 'local-dev-token'
const root = fileURLToPath(new URL('..', import.meta.url))
const directory = mkdtempSync(join(values['data-dir'], 'trilog-query-latency-'))
const ackedFile = join(directory, 'acked.tsv')
const policyFile = join(directory, 'policy.json')
const digest = createHash('sha256').update(TOKEN).digest('hex')
const limits = { records: null, bytes: null, concurrent_requests: null }
writeFileSync(
  policyFile,
  JSON.stringify({ tenants: [{ id: 'local', credentials: [{ token_sha256: digest, datasets: ['*'] }], limits }] }),
)

const start = (): Promise<Service> =>
  Service.start('logstore', {
    LOGSTORE_BIND_ADDRESS: '127.0.0.1:0',
    LOGSTORE_DATA_DIR: join(directory, 'data'),
    LOGSTORE_TENANT_POLICY_FILE: policyFile,
    LOGSTORE_GATEWAY_MAX_REQUESTS: 'none',
    LOGSTORE_GATEWAY_MAX_RECORDS: 'none',
    LOGSTORE_GATEWAY_MAX_BYTES: 'none',
  })

async function load(url: string, args: readonly string[]): Promise<string> {
  const child = spawn(
    process.execPath,
    ['bench/load/main.ts', 'logstore', '--url', url, '--disk-time', '0s', ...args],
    {
      cwd: root,
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  let text = ''
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()))
  await once(child, 'exit')
  return text
}

interface QueryReply {
  readonly matched_records: number
  readonly results: readonly { readonly record: { readonly record_id: string } }[]
}

const headers = { 'x-logstore-tenant': 'local', authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' }

const query = (store: Service, filter: object, limit = 100) =>
  timed(() =>
    store.send<QueryReply>('POST', '/v1/query', JSON.stringify({ dataset: 'load', filter, page: { limit } }), headers),
  )

try {
  const batches = Math.ceil(Number(values.records) / BATCH)
  let store = await start()
  console.log(
    (await load(store.url, ['--batches', String(batches), '--seed', '7', '--acked-file', ackedFile])).trimEnd(),
  )

  const acked = readFileSync(ackedFile, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => line.split('\t'))
  const pick = (): readonly string[] => acked[randomInt(acked.length)]!
  const queries = Number(values.queries)
  const ids: string[] = []
  for (let i = 0; i < queries; i++) {
    const { result } = await query(store, { trace_id: pick()[1] }, 1)
    ids.push(result.results[0]!.record.record_id)
  }

  const seconds = Math.ceil((queries * 4) / 25)
  const background = load(store.url, [
    '--rate',
    values.rate,
    '--duration',
    `${seconds}s`,
    '--seed',
    '8',
    '--connections',
    '4',
  ])
  const timings: Record<'nothing found' | 'record id' | 'trace id' | 'page of 100 by time range', number[]> = {
    'nothing found': [], // what a request and its way to a query thread take, whatever is asked
    'record id': [],
    'trace id': [],
    'page of 100 by time range': [],
  }
  for (let i = 0; i < queries; i++) {
    const byId = await query(store, { record_id: ids[i]! })
    if (byId.result.matched_records !== 1) throw new Error(`record id: ${byId.result.matched_records} records`)
    timings['record id'].push(byId.ms)
    timings['nothing found'].push((await query(store, { trace_id: NO_TRACE })).ms)
    timings['trace id'].push((await query(store, { trace_id: pick()[1] })).ms)
    const [, , , , first] = pick()
    const to = String(BigInt(first!) + 60_000_000_000n)
    timings['page of 100 by time range'].push(
      (await query(store, { start_time_unix_nano: first!, end_time_unix_nano: to })).ms,
    )
  }
  for (const [name, samples] of Object.entries(timings)) console.log(row(name, samples))
  console.log((await background).trimEnd())

  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    await store.stop(signal)
    store = await start()
    console.log(`restart after ${signal} to ready: ${store.readyMs.toFixed(0)} ms`)
  }
  await store.stop()
} finally {
  rmSync(directory, { recursive: true, force: true })
}
