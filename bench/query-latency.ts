/**
 * How long do look-ups take in a large dataset while ingest goes on, and how long does a restart take?
 *
 *   node bench/query-latency.ts [--records 10000000] [--queries 1000] [--rate 50000] [--settled] [--data-dir DIR | --keep DIR]
 *
 * Starts the log store on a directory of its own, fills one dataset, then asks for what is not there, by record id, by trace id
 * and for pages of 100 by time range, one query at a time with pauses between, while the load tool sends `--rate` records/s: so the queries
 * meet whatever goes on beside them, segments that are closed and indexed among it. The first ones of each kind are shown apart: V8 compiles
 * then what a store that has been asked before has compiled. With `--settled`, what was stored is compacted first, as in a store that runs for long. With
 * `--keep`, DIR is filled the first time only, and stays. Last, it restarts the store twice: after SIGTERM and after SIGKILL. Talks to this machine only.
 */
import { randomInt } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { logLoad } from './support/log-load.ts'
import { servicePolicy } from './support/policy.ts'
import { Service, row, timed } from './support/service.ts'

const { values } = parseArgs({
  options: {
    records: { type: 'string', default: '10000000' },
    queries: { type: 'string', default: '1000' },
    rate: { type: 'string', default: '50000' },
    settled: { type: 'boolean', default: false },
    'data-dir': { type: 'string', default: tmpdir() },
    keep: { type: 'string' },
  },
})
const BATCH = 512
/** Both sides of the load compile their code before. */
const WARM_UP_MS = 5000
const PAUSE_MS_MAX = 10
/** Rounds until V8 has compiled what answers queries. */
const FIRST_ROUNDS = 400
const NO_TRACE = 'f'.repeat(32)
const TOKEN = 'local-dev-token'
const { keep } = values
if (keep !== undefined) mkdirSync(keep, { recursive: true })
const directory = keep ?? mkdtempSync(join(values['data-dir'], 'trilog-query-latency-'))
const ackedFile = join(directory, 'acked.tsv')
const policy = servicePolicy(directory)

const start = (): Promise<Service> =>
  Service.start('logstore', {
    LOGSTORE_BIND_ADDRESS: '127.0.0.1:0',
    LOGSTORE_DATA_DIR: join(directory, 'data'),
    ...policy,
  })

interface QueryReply {
  readonly matched_records: number
  readonly results: readonly { readonly record: { readonly record_id: string } }[]
}

const headers = { 'x-logstore-tenant': 'local', authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' }

const query = (store: Service, filter: object, limit = 100) =>
  timed(() =>
    store.send<QueryReply>('POST', '/v1/query', JSON.stringify({ dataset: 'load', filter, page: { limit } }), headers),
  )

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as NodeJS.GCFunction // what the flag defines, in contexts made after it

try {
  const batches = Math.ceil(Number(values.records) / BATCH)
  let store = await start()
  if (!existsSync(ackedFile)) {
    const filling = logLoad(store.url, ['--batches', String(batches), '--seed', '7', '--acked-file', ackedFile])
    console.log((await filling.output).trimEnd())
  }
  if (values.settled) await store.compacted()

  const acked = readFileSync(ackedFile, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => line.split('\t'))
  const pick = (): readonly string[] => acked[randomInt(acked.length)]!
  const queries = Number(values.queries)
  const ids: string[] = []
  for (let i = 0; i < FIRST_ROUNDS + queries; i++) {
    const { result } = await query(store, { trace_id: pick()[1] }, 1)
    ids.push(result.results[0]!.record.record_id)
  }

  const longest = `${queries + 60}s` // it is ended before, unless something fails here
  const background = logLoad(store.url, [
    '--rate',
    values.rate,
    '--duration',
    longest,
    '--seed',
    '8',
    '--connections',
    '4',
  ])
  await sleep(WARM_UP_MS)
  const timings: Record<'nothing found' | 'record id' | 'trace id' | 'page of 100 by time range', number[]> = {
    'nothing found': [], // what a request and its way to a query thread take, whatever is asked
    'record id': [],
    'trace id': [],
    'page of 100 by time range': [],
  }
  const measure = async (name: keyof typeof timings, filter: object): Promise<QueryReply> => {
    await sleep(randomInt(PAUSE_MS_MAX))
    const { result, ms } = await query(store, filter)
    timings[name].push(ms)
    return result
  }
  for (let i = 0; i < FIRST_ROUNDS + queries; i++) {
    collect({ type: 'minor' }) // else its pauses would be taken for the store's
    const byId = await measure('record id', { record_id: ids[i]! })
    if (byId.matched_records !== 1) throw new Error(`record id: ${byId.matched_records} records`)
    await measure('nothing found', { trace_id: NO_TRACE })
    await measure('trace id', { trace_id: pick()[1] })
    const [, , , , first] = pick()
    const to = String(BigInt(first!) + 60_000_000_000n)
    await measure('page of 100 by time range', { start_time_unix_nano: first!, end_time_unix_nano: to })
  }
  background.end()
  console.log(`the first ${FIRST_ROUNDS}`)
  for (const [name, samples] of Object.entries(timings)) console.log(row(name, samples.slice(0, FIRST_ROUNDS)))
  console.log(`the ${queries} after them`)
  for (const [name, samples] of Object.entries(timings)) console.log(row(name, samples.slice(FIRST_ROUNDS)))
  console.log((await background.output).trimEnd())
  console.log(`the store took ${Math.round(store.peakBytes / 1e6)} MB of memory at most`)

  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    await store.stop(signal)
    store = await start()
    console.log(`restart after ${signal} to ready: ${store.readyMs.toFixed(0)} ms`)
  }
  await store.stop()
} finally {
  if (keep === undefined) rmSync(directory, { recursive: true, force: true })
}
