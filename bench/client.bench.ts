/**
 * What does the client library cost over a raw loop of the same requests: publishes of 200 bytes and empty claims, 16 in flight, by `node:http`
 * and by `fetch`? Raw and library take turns on one broker, each in a process of its own, as a program has one or the other: in one process V8
 * would optimise `node:http` for the callers of both. Shown are the medians of requests per second and of the process' own time for a request, and
 * their ratios. `--smoke` runs each once, all in one process, so that CI catches rot.
 */
import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { HttpNativeClient, fetchTransport, nodeTransport } from '../src/client/index.ts'
import type { HttpTransport } from '../src/client/index.ts'
import { Service } from './support/service.ts'

const smoke = process.argv.includes('--smoke')
const IN_FLIGHT = 16
const REQUESTS = smoke ? IN_FLIGHT : 8000
/** Before the measured ones: the code is compiled, connections are open. */
const WARM_UP = smoke ? 0 : 8000
const ROUNDS = smoke ? 1 : 5
const STREAM = 'bench'
const PAYLOAD = 'payload '.repeat(25)
const RECORDS = `/v1/streams/${STREAM}/records`
const CLAIMS = `/v1/streams/${STREAM}/consumer-groups/g/claims`
const HEADERS = { 'content-type': 'application/json' }

type Ask = (i: number) => Promise<unknown>

/** The broker's URL, which is given to the processes that ask. */
const asked = process.argv.indexOf('--ask')
const url = asked < 0 ? '' : process.argv[asked + 1]!

const agent = new Agent({ keepAlive: true })
const rawHttp = (path: string, body: object): Promise<unknown> =>
  new Promise((resolve, reject) => {
    const text = JSON.stringify(body)
    const headers = { ...HEADERS, 'content-length': Buffer.byteLength(text) }
    const sent = request(`${url}${path}`, { method: 'POST', agent, headers }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('end', () => resolve(JSON.parse(Buffer.concat(chunks).toString())))
      response.on('error', reject)
    })
    sent.on('error', reject)
    sent.end(text)
  })
const rawFetch = async (path: string, body: object): Promise<unknown> => {
  const response = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: HEADERS,
    body: JSON.stringify(body),
  })
  return JSON.parse(await response.text())
}

const recordOf = (i: number) => ({ message_id: `m-${i}`, payload: PAYLOAD })
const rawRecordOf = (i: number) => ({ ...recordOf(i), headers: { 'x-producer-id': 'bench' }, durability_mode: null })
const NOTHING = { start_offset: 0, max_messages: 1 }

/** Both sides of a case, made where they are asked. */
const SIDES = {
  raw: {
    'publish, node:http': async () => (i: number) => rawHttp(RECORDS, rawRecordOf(i)),
    'publish, fetch': async () => (i: number) => rawFetch(RECORDS, rawRecordOf(i)),
    'claim, node:http': async () => () => rawHttp(CLAIMS, NOTHING),
    'claim, fetch': async () => () => rawFetch(CLAIMS, NOTHING),
  },
  library: {
    'publish, node:http': async () => publishing(await connect(nodeTransport())),
    'publish, fetch': async () => publishing(await connect(fetchTransport())),
    'claim, node:http': async () => claiming(await connect(nodeTransport())),
    'claim, fetch': async () => claiming(await connect(fetchTransport())),
  },
} satisfies Record<string, Record<string, () => Promise<Ask>>>

type Side = keyof typeof SIDES
type Case = keyof (typeof SIDES)['raw']

const connect = (transport: HttpTransport): Promise<HttpNativeClient> =>
  HttpNativeClient.connect(url, { producerId: 'bench', transport })
const publishing =
  (client: HttpNativeClient): Ask =>
  (i) =>
    client.publish(STREAM, recordOf(i))
const claiming =
  (client: HttpNativeClient): Ask =>
  () =>
    client.claimQueue(STREAM, 'g', NOTHING)

interface Run {
  readonly perSecond: number
  readonly cpuMicros: number
}

async function repeat(ask: Ask, requests: number): Promise<void> {
  let next = 0
  const loop = async (): Promise<void> => {
    while (next < requests) await ask(next++)
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, loop))
}

async function measure(ask: Ask): Promise<Run> {
  await repeat(ask, WARM_UP)
  const begunMs = performance.now()
  const begun = process.cpuUsage()
  await repeat(ask, REQUESTS)
  const { user, system } = process.cpuUsage(begun)
  return { perSecond: (1000 * REQUESTS) / (performance.now() - begunMs), cpuMicros: (user + system) / REQUESTS }
}

/** What a process is asked to measure. */
interface Task {
  readonly what: Case
  readonly side: Side
}

/** Processes that may measure once more. */
const idle: ChildProcess[] = []

async function run(what: Case, side: Side, address: string): Promise<Run> {
  const child = idle.pop() ?? fork(import.meta.filename, [...process.argv.slice(2), '--ask', address])
  child.send({ what, side } satisfies Task)
  const [measured] = (await once(child, 'message')) as [Run]
  if (smoke) idle.push(child)
  else await end(child)
  return measured
}

async function answer({ what, side }: Task): Promise<void> {
  process.send!(await measure(await SIDES[side][what]()))
}

async function end(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit')
  child.disconnect()
  await ended
}

const medianOf = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!
const rounded = (value: number): number => Number(value.toPrecision(3))

async function compare(what: Case, address: string): Promise<object> {
  const pairs: (readonly [raw: Run, ours: Run])[] = []
  for (let round = 0; round < ROUNDS; round += 1) {
    const first = round % 2 === 0 ? await run(what, 'raw', address) : null
    const ours = await run(what, 'library', address)
    pairs.push([first ?? (await run(what, 'raw', address)), ours])
  }
  return {
    what,
    'raw/s': Math.round(medianOf(pairs.map(([each]) => each.perSecond))),
    'library/s': Math.round(medianOf(pairs.map(([, each]) => each.perSecond))),
    'time ratio': rounded(medianOf(pairs.map(([a, b]) => a.perSecond / b.perSecond))),
    'raw CPU µs': rounded(medianOf(pairs.map(([each]) => each.cpuMicros))),
    'library CPU µs': rounded(medianOf(pairs.map(([, each]) => each.cpuMicros))),
    'CPU ratio': rounded(medianOf(pairs.map(([a, b]) => b.cpuMicros / a.cpuMicros))),
  }
}

if (asked < 0) {
  const dataDirectory = mkdtempSync(`${tmpdir()}/trilog-bench-client-`)
  const service = await Service.start('broker', { MQ_DATA_DIR: dataDirectory, MQ_HTTP_BIND: '127.0.0.1:0' })
  await service.send('PUT', `/v1/streams/${STREAM}`, JSON.stringify({ default_durability: 'memory' }))
  const rows: object[] = []
  for (const what of Object.keys(SIDES.raw) as Case[]) rows.push(await compare(what, service.url))
  console.table(rows)
  console.log({ node: process.version })
  for (const child of idle) await end(child)
  await service.stop()
  rmSync(dataDirectory, { recursive: true })
} else {
  process.on('disconnect', () => process.exit())
  process.on('message', (task: Task) => void answer(task))
}
