/**
 * How long do look-ups take in a large dataset while ingest goes on, and how long does a restart take?
 *
 *   node bench/query-latency.ts [--records 10000000] [--queries 500] [--rate 50000] [--data-dir DIR]
 *
 * Starts the log store on a directory of its own, fills one dataset, then asks by record id, by trace id and for pages of 100 by
 * time range, one query at a time, while the load tool sends `--rate` records/s. Last, it restarts the store twice: after SIGTERM
 * and after SIGKILL. Talks to this machine only.
 */
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { createHash, randomInt } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const { values } = parseArgs({
  options: {
    records: { type: 'string', default: '10000000' },
    queries: { type: 'string', default: '500' },
    rate: { type: 'string', default: '50000' },
    'data-dir': { type: 'string', default: tmpdir() },
  },
})
const BATCH = 512
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

interface Started {
  readonly process: ChildProcess
  readonly url: string
  readonly readyMs: number
}

async function start(): Promise<Started> {
  const begunMs = performance.now()
  const child = spawn(process.execPath, ['src/main.ts', '--services', 'logstore'], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      ...process.env,
      LOGSTORE_BIND_ADDRESS: '127.0.0.1:0',
      LOGSTORE_DATA_DIR: join(directory, 'data'),
      LOGSTORE_TENANT_POLICY_FILE: policyFile,
      LOGSTORE_GATEWAY_MAX_REQUESTS: 'none',
      LOGSTORE_GATEWAY_MAX_RECORDS: 'none',
      LOGSTORE_GATEWAY_MAX_BYTES: 'none',
      TRILOG_LOG_LEVEL: 'warn',
    },
  })
  for await (const line of createInterface({ input: child.stdout })) {
    if (!line.startsWith('ready ')) continue
    const { http } = JSON.parse(line.slice('ready '.length)) as { http: string }
    return { process: child, url: `http://${http}`, readyMs: performance.now() - begunMs }
  }
  throw new Error('the log store did not start')
}

async function stop({ process: child }: Started, signal: NodeJS.Signals): Promise<void> {
  const exited = once(child, 'exit')
  child.kill(signal)
  await exited
}

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

async function query(url: string, filter: object, limit = 100): Promise<{ reply: QueryReply; ms: number }> {
  const begunMs = performance.now()
  const response = await fetch(`${url}/v1/query`, {
    method: 'POST',
    headers: { 'x-logstore-tenant': 'local', authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
    body: JSON.stringify({ dataset: 'load', filter, page: { limit } }),
  })
  const text = await response.text()
  const ms = performance.now() - begunMs
  if (response.status !== 200) throw new Error(`query: ${response.status} ${text}`)
  return { reply: JSON.parse(text) as QueryReply, ms }
}

function row(name: string, samplesMs: number[]): void {
  const sorted = samplesMs.toSorted((a, b) => a - b)
  const at = (share: number): string =>
    sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!.toFixed(2)
  console.log(`${name.padEnd(28)} p50 ${at(0.5)} ms  p90 ${at(0.9)} ms  p99 ${at(0.99)} ms  max ${at(1)} ms`)
}

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
    const { reply } = await query(store.url, { trace_id: pick()[1] }, 1)
    ids.push(reply.results[0]!.record.record_id)
  }

  const seconds = Math.ceil((queries * 3) / 25)
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
  const timings: Record<'record id' | 'trace id' | 'page of 100 by time range', number[]> = {
    'record id': [],
    'trace id': [],
    'page of 100 by time range': [],
  }
  for (let i = 0; i < queries; i++) {
    const byId = await query(store.url, { record_id: ids[i]! })
    if (byId.reply.matched_records !== 1) throw new Error(`record id: ${byId.reply.matched_records} records`)
    timings['record id'].push(byId.ms)
    timings['trace id'].push((await query(store.url, { trace_id: pick()[1] })).ms)
    const [, , , , first] = pick()
    const to = String(BigInt(first!) + 60_000_000_000n)
    timings['page of 100 by time range'].push(
      (await query(store.url, { start_time_unix_nano: first!, end_time_unix_nano: to })).ms,
    )
  }
  for (const [name, samples] of Object.entries(timings)) row(name, samples)
  console.log((await background).trimEnd())

  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    await stop(store, signal)
    store = await start()
    console.log(`restart after ${signal} to ready: ${store.readyMs.toFixed(0)} ms`)
  }
  await stop(store, 'SIGTERM')
} finally {
  rmSync(directory, { recursive: true, force: true })
}
