/**
 * The same logs sent to trilog and VictoriaLogs over OTLP/HTTP, and the same questions asked of both in turn, on this machine's loopback.
 *
 * trilog answers when a batch is synced; VictoriaLogs answers before it has written it. Beside each time stands the processor time that the server
 * needed: on a machine that does other things meanwhile it says more.
 *
 * VictoriaLogs is taken from PATH. Exits with 0 when both were measured, 1 when one failed, 2 when it is missing or for bad usage.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { Agent, request } from 'node:http'
import type { OutgoingHttpHeaders } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { LOG_BATCH, LOG_FIRST_TIME, logBatch } from '../../bench/support/log-batches.ts'
import { servicePolicy } from '../../bench/support/policy.ts'
import { timed } from '../../bench/support/service.ts'
import { bytesBelow } from './disk.ts'
import { medianOf } from './medians.ts'
import { MissingError } from './peer.ts'
import { freePort, scratchDirectory, startServer, until, untilListening } from './server.ts'
import type { Server } from './server.ts'

const USAGE = `usage: node scripts/compare/log-peers.ts [options]

  --records 1000000     sent to each
  --connections 8       that send
  --rounds 5            every question is asked of each server once in each
  --dir DIR             on the disk to be measured (default: the temporary directory)

Go builds VictoriaLogs: go install github.com/VictoriaMetrics/VictoriaLogs/app/victoria-logs@latest
`
const VICTORIA_LOGS = 'victoria-logs'
/** Records whose batches are made before they are sent: making them is no work of a server. */
const MADE_AHEAD = 200 * LOG_BATCH
const HOUR_NS = 3_600_000_000_000n
const PAGE = 100
const TO_DISK_MS = 8000
/** Lines of the metrics of trilog when what was sent is indexed, and compacted but for the segment that is being written. */
const AT_REST = [/^logstore_sidecars_pending 0$/m, /^logstore_compaction_debt_bytes 0$/m]

interface Store {
  readonly name: string
  readonly server: Server
  readonly dataDirectory: string
  readonly ingest: { readonly path: string; readonly headers: OutgoingHttpHeaders }
  /** Resolves when what was sent is on disk, can be found, and has the form in which it stays. */
  settle(): Promise<void>
  /** @returns the number in the answer, or the number of its lines */
  ask(question: Question): Promise<number>
  send(method: string, path: string, body: string | Buffer, headers: OutgoingHttpHeaders): Promise<Buffer>
}

interface Question {
  readonly name: string
  readonly kind: 'count and page' | 'newest page' | 'histogram'
  readonly word: string | null
}

const QUESTIONS: readonly Question[] = [
  { name: 'newest page', kind: 'newest page', word: null },
  { name: 'rare word, count and page', kind: 'count and page', word: 'rarely' },
  { name: 'word in 1 %, count and page', kind: 'count and page', word: 'checkout' },
  { name: 'word in half, count and page', kind: 'count and page', word: 'request' },
  { name: 'histogram of all', kind: 'histogram', word: null },
  { name: 'histogram of a word in half', kind: 'histogram', word: 'request' },
]

function sending(origin: string, agent: Agent): Store['send'] {
  return (method, path, body, headers) =>
    new Promise((resolve, reject) => {
      const sent = request(`${origin}${path}`, { method, agent, headers }, (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('end', () => {
          const answer = Buffer.concat(chunks)
          if (response.statusCode! < 300) resolve(answer)
          else reject(new Error(`${path}: ${response.statusCode} ${answer.toString().slice(0, 200)}`))
        })
      })
      sent.on('error', reject)
      sent.end(body)
    })
}

async function startTrilog(directory: string, agent: Agent): Promise<Store> {
  const dataDirectory = join(directory, 'trilog')
  const server = startServer(
    process.execPath,
    [fileURLToPath(new URL('../../src/start.js', import.meta.url)), '--services', 'logstore'],
    {
      env: {
        LOGSTORE_BIND_ADDRESS: '127.0.0.1:0',
        LOGSTORE_DATA_DIR: dataDirectory,
        TRILOG_LOG_LEVEL: 'warn',
        ...servicePolicy(directory),
      },
    },
  )
  const ready = /^ready (\{.*\})$/m
  await until(server, () => ready.test(server.stdout()))
  const { http } = JSON.parse(ready.exec(server.stdout())![1]!) as { http: string } // as the contract says
  const send = sending(`http://${http}`, agent)
  const credentials = { 'x-logstore-tenant': 'local', authorization: 'Bearer local-dev-token' }
  const post = async (path: string, body: object): Promise<{ matched_records: number }> => {
    const text = JSON.stringify({ dataset: 'load', deadline_ms: 60_000, ...body })
    const answer = await send('POST', path, text, { ...credentials, 'content-type': 'application/json' })
    return JSON.parse(answer.toString()) as { matched_records: number }
  }
  return {
    name: 'trilog, synced first',
    server,
    dataDirectory,
    ingest: { path: '/v1/logs', headers: { ...credentials, 'content-type': 'application/x-protobuf' } },
    send,
    async settle() {
      await until(server, async () => {
        const metrics = (await send('GET', '/metrics', '', {})).toString()
        return AT_REST.every((line) => line.test(metrics))
      })
    },
    async ask({ kind, word }) {
      const filter = word === null ? {} : { filter: { search: word } }
      if (kind === 'histogram')
        return (await post('/v1/query/histogram', { ...filter, interval_nano: String(HOUR_NS) })).matched_records
      const order = kind === 'newest page' ? { order: 'desc' } : {}
      return (await post('/v1/query', { ...filter, ...order, page: { limit: PAGE } })).matched_records
    },
  }
}

async function startVictoriaLogs(directory: string, agent: Agent): Promise<Store> {
  const dataDirectory = join(directory, 'victoria-logs')
  mkdirSync(dataDirectory)
  const { error } = spawnSync(VICTORIA_LOGS, ['--help'])
  if (error !== undefined) throw new MissingError(`there is no ${VICTORIA_LOGS} in PATH`)
  const port = await freePort()
  const server = startServer(VICTORIA_LOGS, [
    `-storageDataPath=${dataDirectory}`,
    `-httpListenAddr=127.0.0.1:${port}`,
    '-retentionPeriod=100y',
    '-loggerLevel=ERROR',
  ])
  await untilListening(server, port)
  const send = sending(`http://127.0.0.1:${port}`, agent)
  const end = String(LOG_FIRST_TIME + 1000n * HOUR_NS)
  const ask = async (path: string, query: Readonly<Record<string, string>>): Promise<string> => {
    const body = new URLSearchParams({ start: String(LOG_FIRST_TIME), end, ...query }).toString()
    const answer = await send('POST', `/select/logsql/${path}`, body, {
      'content-type': 'application/x-www-form-urlencoded',
    })
    return answer.toString()
  }
  return {
    name: 'VictoriaLogs, not synced',
    server,
    dataDirectory,
    ingest: {
      path: '/insert/opentelemetry/v1/logs',
      headers: { 'content-type': 'application/x-protobuf', 'VL-Stream-Fields': 'service.name,service.instance.id' },
    },
    send,
    async settle() {
      await send('GET', '/internal/force_flush', '', {}) // found; on disk some seconds later
      await sleep(TO_DISK_MS)
    },
    async ask({ kind, word }) {
      const query = word ?? '*'
      if (kind === 'newest page') {
        const lines = await ask('query', { query: `${query} | sort by (_time) desc limit ${PAGE}` })
        return lines.trimEnd().split('\n').length
      }
      if (kind === 'histogram') {
        const { hits } = JSON.parse(await ask('hits', { query, step: '1h' })) as { hits: readonly { total: number }[] }
        return hits.reduce((sum, { total }) => sum + total, 0)
      }
      const [count] = await Promise.all([
        ask('query', { query: `${query} | stats count() matched` }),
        ask('query', { query: `${query} | sort by (_time) limit ${PAGE}` }),
      ])
      return Number((JSON.parse(count) as { matched: string }).matched)
    },
  }
}

async function fill(store: Store, records: number, connections: number): Promise<void> {
  const { path, headers } = store.ingest
  const { server } = store
  const send = async (batches: readonly Buffer[]): Promise<void> => {
    const left = batches.values()
    const sender = async (): Promise<void> => {
      for (const batch of left) await store.send('POST', path, batch, headers)
    }
    await Promise.all(Array.from({ length: connections }, sender))
  }
  const before = server.cpuSeconds()
  let sending = 0
  for (let first = 0; first < records; first += MADE_AHEAD) {
    const batches: Buffer[] = []
    for (let at = first; at < Math.min(first + MADE_AHEAD, records); at += LOG_BATCH)
      batches.push(logBatch(at, records))
    sending += (await timed(() => send(batches))).ms
  }
  const busy = server.cpuSeconds() - before
  await store.settle()
  const settled = server.cpuSeconds() - before
  const bytes = bytesBelow(store.dataDirectory)
  console.log(
    `${store.name}: ${Math.round((records / sending) * 1000)} records/s; ` +
      `${((busy / records) * 1e6).toFixed(2)} µs of processor a record until the answer, ${((settled / records) * 1e6).toFixed(2)} in all; ` +
      `${(bytes / records).toFixed(1)} bytes a record on disk`,
  )
}

async function compare(stores: readonly Store[], rounds: number): Promise<void> {
  for (const question of QUESTIONS) {
    const taken = new Map(stores.map((store) => [store, { ms: [] as number[], cpu: 0, matched: 0 }]))
    for (let round = 0; round <= rounds; round++) {
      for (const [store, figures] of taken) {
        const before = store.server.cpuSeconds()
        const { result, ms } = await timed(() => store.ask(question))
        if (round === 0) continue // it reads what the others find in memory
        figures.ms.push(ms)
        figures.cpu += (store.server.cpuSeconds() - before) * 1000
        figures.matched = result
      }
    }
    for (const [{ name }, { ms, cpu, matched }] of taken) {
      const median = medianOf(ms)
      console.log(
        `${question.name.padEnd(30)} ${name.padEnd(28)} ${String(matched).padStart(9)} ${median.toFixed(1).padStart(8)} ms ${(cpu / ms.length).toFixed(1).padStart(8)} ms of processor`,
      )
    }
  }
}

const positive = (text: string): number => {
  const number = Number(text)
  assert.ok(Number.isSafeInteger(number) && number > 0, `${text} is no positive number`)
  return number
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      records: { type: 'string', default: '1000000' },
      connections: { type: 'string', default: '8' },
      rounds: { type: 'string', default: '5' },
      dir: { type: 'string', default: tmpdir() },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) return void process.stdout.write(USAGE)
  const [records, connections, rounds] = [values.records, values.connections, values.rounds].map(positive)
  const agent = new Agent({ keepAlive: true })
  const directory = scratchDirectory(join(values.dir, 'trilog-log-peers-'))
  const stores: Store[] = []
  try {
    for (const start of [startVictoriaLogs, startTrilog]) stores.push(await start(directory, agent))
    for (const store of stores) await fill(store, records!, connections!)
    await compare(stores, rounds!)
  } finally {
    agent.destroy()
    for (const { server } of stores) await server.stop()
  }
}

try {
  await main()
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`)
  process.exitCode =
    error instanceof MissingError || error instanceof TypeError || error instanceof assert.AssertionError ? 2 : 1
}
