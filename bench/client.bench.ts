/**
 * What does the client library cost over a raw loop of the same requests: publishes of 200 bytes and empty claims, 16 in flight, by `node:http`
 * and by `fetch`? Raw and library take turns on one broker; shown are the medians of requests per second and of this process' processor time
 * for a request, and their ratios. `--smoke` runs each once, so that CI catches rot.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { HttpNativeClient, fetchTransport } from '../src/client/index.ts'
import { Service } from './support/service.ts'

const smoke = process.argv.includes('--smoke')
const IN_FLIGHT = 16
const REQUESTS = smoke ? IN_FLIGHT : 8000
const ROUNDS = smoke ? 1 : 7
const STREAM = 'bench'
const PAYLOAD = 'payload '.repeat(25)
const RECORDS = `/v1/streams/${STREAM}/records`
const CLAIMS = `/v1/streams/${STREAM}/consumer-groups/g/claims`
const HEADERS = { 'content-type': 'application/json' }

type Ask = (i: number) => Promise<unknown>

const dataDirectory = mkdtempSync(`${tmpdir()}/trilog-bench-client-`)
const service = await Service.start('broker', { MQ_DATA_DIR: dataDirectory, MQ_HTTP_BIND: '127.0.0.1:0' })
const library = await HttpNativeClient.connect(service.url, { producerId: 'bench' })
const overFetch = await HttpNativeClient.connect(service.url, { producerId: 'bench', transport: fetchTransport() })
await library.createStream(STREAM, { default_durability: 'memory' })

const agent = new Agent({ keepAlive: true })
const rawHttp = (path: string, body: object): Promise<unknown> =>
  new Promise((resolve, reject) => {
    const text = JSON.stringify(body)
    const headers = { ...HEADERS, 'content-length': Buffer.byteLength(text) }
    const sent = request(`${service.url}${path}`, { method: 'POST', agent, headers }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('end', () => resolve(JSON.parse(Buffer.concat(chunks).toString())))
      response.on('error', reject)
    })
    sent.on('error', reject)
    sent.end(text)
  })
const rawFetch = async (path: string, body: object): Promise<unknown> => {
  const response = await fetch(`${service.url}${path}`, {
    method: 'POST',
    headers: HEADERS,
    body: JSON.stringify(body),
  })
  return JSON.parse(await response.text())
}

const recordOf = (i: number) => ({ message_id: `m-${i}`, payload: PAYLOAD })
const rawRecordOf = (i: number) => ({ ...recordOf(i), headers: { 'x-producer-id': 'bench' }, durability_mode: null })
const NOTHING = { start_offset: 0, max_messages: 1 }

const CASES: readonly (readonly [what: string, raw: Ask, library: Ask])[] = [
  ['publish, node:http', (i) => rawHttp(RECORDS, rawRecordOf(i)), (i) => library.publish(STREAM, recordOf(i))],
  ['publish, fetch', (i) => rawFetch(RECORDS, rawRecordOf(i)), (i) => overFetch.publish(STREAM, recordOf(i))],
  ['claim, node:http', () => rawHttp(CLAIMS, NOTHING), () => library.claimQueue(STREAM, 'g', NOTHING)],
  ['claim, fetch', () => rawFetch(CLAIMS, NOTHING), () => overFetch.claimQueue(STREAM, 'g', NOTHING)],
]

interface Run {
  readonly perSecond: number
  readonly cpuMicros: number
}

async function run(ask: Ask): Promise<Run> {
  const begunMs = performance.now()
  const begun = process.cpuUsage()
  let next = 0
  const loop = async (): Promise<void> => {
    while (next < REQUESTS) await ask(next++)
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, loop))
  const { user, system } = process.cpuUsage(begun)
  return { perSecond: (1000 * REQUESTS) / (performance.now() - begunMs), cpuMicros: (user + system) / REQUESTS }
}

const medianOf = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!
const rounded = (value: number): number => Number(value.toPrecision(3))

const rows: object[] = []
for (const [what, raw, ours] of CASES) {
  const pairs: (readonly [raw: Run, ours: Run])[] = []
  for (let round = 0; round < ROUNDS; round += 1) {
    if (round % 2 === 0) pairs.push([await run(raw), await run(ours)])
    else {
      const second = await run(ours)
      pairs.push([await run(raw), second])
    }
  }
  rows.push({
    what,
    'raw/s': Math.round(medianOf(pairs.map(([each]) => each.perSecond))),
    'library/s': Math.round(medianOf(pairs.map(([, each]) => each.perSecond))),
    'time ratio': rounded(medianOf(pairs.map(([a, b]) => a.perSecond / b.perSecond))),
    'raw CPU µs': rounded(medianOf(pairs.map(([each]) => each.cpuMicros))),
    'library CPU µs': rounded(medianOf(pairs.map(([, each]) => each.cpuMicros))),
    'CPU ratio': rounded(medianOf(pairs.map(([a, b]) => b.cpuMicros / a.cpuMicros))),
  })
}
console.table(rows)
console.log({ node: process.version })
await library.close()
await overFetch.close()
agent.destroy()
await service.stop()
rmSync(dataDirectory, { recursive: true })
