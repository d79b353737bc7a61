/**
 * What do searches and other questions about a whole dataset take?
 *
 *   node bench/search.ts [--records 1000000] [--rounds 5] [--beside 0] [--gap 0] [--settled] [--only NAME] [--data-dir DIR]
 *
 * Starts the log store on a directory of its own, fills one dataset with logs as services write them (access lines, orders, cache, errors with
 * stack traces; eight services, trace ids on 60 %), seals nothing by hand, then asks each question in turn, one at a time, and prints the
 * median and the 99th percentile of the rounds, and the processor time of the whole server that a question took. With `--beside`, the load tool sends
 * so many records a second into the same dataset meanwhile, and the processor time has them in it. With `--settled`, what was stored is compacted before it
 * asks, as in a store that runs for long. With 20 rounds or more, it says which were the slowest. `--gap` are milliseconds between two questions, `--only` is a part of the names of those that are asked. Talks to
 * this machine only.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { LOG_BATCH, logBatch } from './support/log-batches.ts'
import { logLoad } from './support/log-load.ts'
import { Service, timed } from './support/service.ts'
import { servicePolicy } from './support/policy.ts'

const { values } = parseArgs({
  options: {
    records: { type: 'string', default: '1000000' },
    rounds: { type: 'string', default: '5' },
    beside: { type: 'string', default: '0' },
    gap: { type: 'string', default: '0' },
    settled: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
    'data-dir': { type: 'string', default: tmpdir() },
  },
})
const RECORDS = Number(values.records)
const ROUNDS = Number(values.rounds)
const BESIDE = Number(values.beside)
/** The load beside is ended long before its hour is over, unless something fails here. */
const besideArgs = ['--rate', values.beside, '--duration', '1h', '--connections', '4']
const WARM_UP_MS = 5000
/** Until segments are sealed and compacted while others come. */
const SETTLED_WARM_UP_MS = 30_000
/** From so many rounds on, the slowest ones are printed. */
const ROUNDS_TO_NAME = 20
const SLOWEST = 5
const TICKS_PER_MS = 100 / 1000 // Linux counts processor time in hundredths of a second
const headers = { 'x-logstore-tenant': 'local', authorization: 'Bearer local-dev-token' }
const directory = mkdtempSync(join(values['data-dir'], 'trilog-search-'))

const store = await Service.start('logstore', {
  LOGSTORE_BIND_ADDRESS: '127.0.0.1:0',
  LOGSTORE_DATA_DIR: join(directory, 'data'),
  ...servicePolicy(directory),
})

/** Processor time of the server with all its threads. */
function processorMs(): number {
  const fields = readFileSync(`/proc/${store.pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_MS
}

interface Answer {
  readonly matched_records?: number
}

/** @param body null: a GET */
async function measure(name: string, path: string, body: object | null): Promise<void> {
  if (!name.includes(values.only)) return
  const samples: number[] = []
  const text = JSON.stringify({ dataset: 'load', deadline_ms: 60_000, ...body })
  const ask = () =>
    timed(() =>
      body === null
        ? store.send<Answer>('GET', path, '', headers)
        : store.send<Answer>('POST', path, text, { ...headers, 'content-type': 'application/json' }),
    )
  let { result } = await ask()
  const before = processorMs()
  for (let round = 0; round < ROUNDS; round++) {
    await sleep(Number(values.gap))
    const sample = await ask()
    samples.push(sample.ms)
    result = sample.result
  }
  const processor = (processorMs() - before) / ROUNDS // with that of the gaps
  const sorted = samples.toSorted((a, b) => a - b)
  const [median, p99] = [0.5, 0.99].map((share) => sorted[Math.floor(share * ROUNDS)]!.toFixed(1).padStart(8))
  const matched = String(result.matched_records ?? '').padStart(9)
  console.log(
    `${name.padEnd(34)} ${matched} ${median} ms ${p99} ms at p99 ${processor.toFixed(0).padStart(7)} ms of processor`,
  )
  if (ROUNDS >= ROUNDS_TO_NAME) {
    const slowest = samples.map((ms, round) => ({ ms, round })).sort((a, b) => b.ms - a.ms)
    const named = slowest.slice(0, SLOWEST).map(({ ms, round }) => `${ms.toFixed(1)} ms in round ${round + 1}`)
    console.log(`  the slowest: ${named.join(', ')}`)
  }
}

try {
  const begun = processorMs()
  for (let first = 0; first < RECORDS; first += LOG_BATCH) {
    await store.sendForBytes('POST', '/v1/logs', logBatch(first, RECORDS), {
      ...headers,
      'content-type': 'application/x-protobuf',
    })
  }
  console.log(`${RECORDS} records stored; ${(processorMs() - begun).toFixed(0)} ms of processor`)
  if (values.settled) {
    await store.compacted()
    console.log(`compacted; ${(processorMs() - begun).toFixed(0)} ms of processor`)
  }
  const background = BESIDE > 0 ? logLoad(store.url, besideArgs) : null
  if (background !== null) await sleep(values.settled ? SETTLED_WARM_UP_MS : WARM_UP_MS)
  const search = (search: string | object) => ({ filter: { search } })
  await measure('newest page', '/v1/query', { order: 'desc' })
  await measure('rare word', '/v1/query', search('rarely'))
  await measure('word in 1 of 100', '/v1/query', search('checkout'))
  await measure('word in half', '/v1/query', search('request'))
  await measure('phrase in 1 of 100, newest first', '/v1/query', { ...search('"payment refused"'), order: 'desc' })
  await measure('severity:>=error', '/v1/query', search('severity:>=error'))
  await measure('attribute in an eighth', '/v1/query', search('k8s.pod.name:shop-3-7c9'))
  await measure('resource attribute in an eighth', '/v1/query', search('service.instance.id:i-3'))
  await measure('number above', '/v1/query', search('duration_ms:>300'))
  await measure('datasets', '/v1/datasets', null)
  await measure('histogram of all', '/v1/query/histogram', {})
  await measure('histogram of all by severity', '/v1/query/histogram', { split_by: 'severity' })
  await measure('histogram of all by pod', '/v1/query/histogram', { split_by: 'k8s.pod.name' })
  await measure('histogram of a word in half', '/v1/query/histogram', search('request'))
  await measure('fields', '/v1/query/fields', {})
  background?.end()
  if (background !== null) console.log((await background.output).trimEnd())
  console.log(`the store took ${Math.round(store.peakBytes / 1e6)} MB of memory at most`)
} finally {
  await store.stop()
  rmSync(directory, { recursive: true, force: true })
}
