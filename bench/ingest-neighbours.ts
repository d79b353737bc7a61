/**
 * What do others do to the ingest of one tenant? Five kinds of neighbours, and compaction.
 *
 *   node bench/ingest-neighbours.ts [--rounds 3] [--seconds 9] [--rate 20000] [--only neighbours|own] [--data-dir DIR]
 *
 * A tenant sends `--rate` records/s at even times, 50 in a request. Its p99 is measured alone, beside a neighbour that sends as fast as the store answers, beside
 * one that does so with times of the last day at random, beside both again when the neighbour is over its quota and does not wait, and beside ten searches
 * that read all records of a dataset all the time. Then one tenant sends as fast as it can, with ordered and with random times, to a store that compacts and
 * to one that does not. All in turn in each round; what is printed is the median of the rounds and its ratio. Talks to this machine only.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { constants, setPriority, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { servicePolicy } from './support/policy.ts'
import { Service } from './support/service.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '9' },
    rate: { type: 'string', default: '20000' },
    only: { type: 'string', default: '' },
    'data-dir': { type: 'string', default: tmpdir() },
  },
})
const ROUNDS = Number(values.rounds)
const SCANS = 10
const SCANNED_BATCHES = 400
/** For stores whose own ingest is measured: small enough that a bundle ends, and is compacted, some times in each run. */
const SEGMENT_BYTES = 16 * 1024 * 1024
const TICKS_PER_MS = 100 / 1000 // Linux counts processor time in hundredths of a second
const root = fileURLToPath(new URL('..', import.meta.url))
const directory = mkdtempSync(join(values['data-dir'], 'trilog-neighbours-'))

interface LoadResult {
  readonly acknowledged: { readonly tasks: number }
  readonly throughput: { readonly unitsPerSecond: number }
  readonly latencyMs: { readonly p50: number; readonly p99: number }
  readonly errors: Readonly<Record<string, number>>
}

const start = (name: string, more: Readonly<Record<string, string>>): Promise<Service> =>
  Service.start('logstore', {
    LOGSTORE_BIND_ADDRESS: '127.0.0.1:0',
    LOGSTORE_DATA_DIR: join(directory, name),
    LOGSTORE_SEGMENT_BYTES: String(SEGMENT_BYTES),
    LOGSTORE_RETENTION_MAX_BYTES: String(64 * SEGMENT_BYTES),
    TRILOG_CONSOLE_BIND: 'off',
    ...servicePolicy(directory, ['local', 'neighbour'], ['limited']),
    ...more,
  })

/** Runs the load tool to its end. */
const load = (store: Service, ...args: readonly string[]): Promise<LoadResult> => loadAs(store, () => {}, args)

/** @param begun is given the process id of the tool */
async function loadAs(store: Service, begun: (pid: number) => void, args: readonly string[]): Promise<LoadResult> {
  const command = [
    '--v8-pool-size=0',
    'bench/load/main.ts',
    'logstore',
    '--url',
    store.url,
    '--disk-time',
    '0s',
    '--json',
  ]
  const child = spawn(process.execPath, [...command, ...args], { cwd: root, stdio: ['ignore', 'pipe', 'ignore'] })
  begun(child.pid!) // a process that cannot be started ends this one
  const chunks: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
  await once(child, 'close')
  const result = JSON.parse(Buffer.concat(chunks).toString()) as LoadResult // the tool's documented result
  if (Object.keys(result.errors).length > 0) console.error(JSON.stringify(result.errors))
  return result
}

function goFirst(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_HIGHEST)
  } catch (error) {
    console.error(`the load tool waits for a core as others do: ${String(error)}`)
  }
}

const SECONDS = `${values.seconds}s`
const measured = (store: Service): Promise<LoadResult> =>
  loadAs(store, goFirst, [
    '--connections',
    '32',
    '--batch',
    '50',
    '--rate',
    values.rate,
    '--duration',
    SECONDS,
    '--warm-up',
    '3s',
  ])
const flood = (store: Service, ...args: readonly string[]): Promise<LoadResult> =>
  load(store, '--tenant', 'neighbour', '--dataset', 'flood', '--connections', '16', '--duration', SECONDS, ...args)

async function scan(store: Service, until: Promise<unknown>): Promise<number> {
  // No filter and no note tells which records have such a number: all are read.
  const search = 'http.response.status_code:>999'
  const body = { dataset: 'scanned', filter: { search }, deadline_ms: 60_000 }
  const headers = {
    'x-logstore-tenant': 'neighbour',
    authorization: 'Bearer local-dev-token',
    'content-type': 'application/json',
  }
  const over = new AbortController()
  void until.finally(() => over.abort())
  let asked = 0
  const ask = async (): Promise<void> => {
    for (; !over.signal.aborted; asked++) await store.send('POST', '/v1/query', JSON.stringify(body), headers)
  }
  await Promise.all(Array.from({ length: SCANS }, ask))
  return asked
}

/** Measures the processor time of the server, with all its threads, per request. */
async function costMs(store: Service, run: () => Promise<LoadResult>): Promise<LoadResult & { readonly cost: number }> {
  const processorMs = (): number => {
    const fields = readFileSync(`/proc/${store.pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
    return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_MS
  }
  const before = processorMs()
  const result = await run()
  return { ...result, cost: (processorMs() - before) / result.acknowledged.tasks }
}

const median = (samples: readonly number[]): number => samples.toSorted((a, b) => a - b)[samples.length >> 1]!
const samples = new Map<string, number[]>()
const add = (name: string, value: number): void => void samples.set(name, [...(samples.get(name) ?? []), value])

/** What a tenant's ingest takes alone, and beside others. */
async function besideNeighbours(): Promise<void> {
  add('p99 alone', (await measured(shared)).latencyMs.p99)
  const kinds = [
    ['flood', []],
    ['random times', ['--times', 'random']],
    ['a flood that is refused', ['--tenant', 'limited', '--no-obey-retry-after']],
    ['random times that are refused', ['--tenant', 'limited', '--no-obey-retry-after', '--times', 'random']],
  ] as const
  for (const [name, args] of kinds) {
    const [own] = await Promise.all([measured(shared), flood(shared, ...args)])
    add(`p99 beside ${name}`, own.latencyMs.p99)
  }
  // Retention may have dropped those of the round before.
  await load(shared, '--tenant', 'neighbour', '--dataset', 'scanned', '--batches', String(SCANNED_BATCHES))
  const running = measured(shared)
  const [own, scans] = await Promise.all([running, scan(shared, running)])
  add(`p99 beside ${SCANS} scans`, own.latencyMs.p99)
  add('scans in the time', scans)
}

/** How much one tenant can send: beside compaction and without, with random times. */
async function ofOneTenant(): Promise<void> {
  for (const [name, store] of [
    ['off', plain],
    ['on', compacting],
  ] as const) {
    const { throughput, cost } = await costMs(store, () => flood(store))
    add(`records/s, compaction ${name}`, throughput.unitsPerSecond)
    add(`processor ms a request, compaction ${name}`, cost)
  }
  add('records/s, random times', (await flood(plain, '--times', 'random')).throughput.unitsPerSecond)
}

/** With segments of the default size, as most stores have them. */
const shared = await start('shared', { LOGSTORE_COMPACTION: 'off', LOGSTORE_SEGMENT_BYTES: String(128 * 1024 * 1024) })
const plain = await start('plain', { LOGSTORE_COMPACTION: 'off' })
const compacting = await start('compacting', { LOGSTORE_COMPACTION: 'on' })
try {
  for (const store of [shared, plain, compacting]) await load(store, '--duration', '3s') // V8 compiles meanwhile
  for (let round = 0; round < ROUNDS; round++) {
    if (values.only !== 'own') await besideNeighbours()
    if (values.only !== 'neighbours') await ofOneTenant()
  }
} finally {
  await shared.stop()
  await plain.stop()
  await compacting.stop()
  rmSync(directory, { recursive: true })
}

const of = (name: string): number => median(samples.get(name)!)
const line = (name: string, base: string): void => {
  const all = samples
    .get(name)!
    .map((value) => value.toFixed(2))
    .join(', ')
  console.log(
    `${name.padEnd(40)} ${of(name).toFixed(2).padStart(12)}  ${(of(name) / of(base)).toFixed(2)} of ${base}  (${all})`,
  )
}
for (const name of samples.keys()) {
  line(
    name,
    name.startsWith('p99')
      ? 'p99 alone'
      : name.startsWith('records')
        ? 'records/s, compaction off'
        : name.replace(' on', ' off'),
  )
}
