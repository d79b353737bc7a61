/**
 * How much of what the library gives is left when trilog has done its work: each request of trilog beside the same request to a bare server of the
 * same library (bare-server.ts), which answers the same bytes. Both are asked in turn, by wrk, on this machine's loopback.
 *
 *   publish    a record of 200 bytes; local-sync is answered when it is synced to the disk, volatile at once
 *   cycle      a claim of one record of 200 bytes and its acknowledgement; the bare server answers two requests, both with the claim's answer
 *   PUT        an object of 4 KiB, synced to the disk
 *   GET        an object of 4 KiB: of 1000, and of 20 000 in turn, which fit the cache on a machine of 5 GiB and more
 *
 * Beside the answers in a second, or cycles, stands what the server needed of the processor for one: all its threads, and main alone. The share is the
 * median of all rounds, with the lowest and the highest. On a machine that does other things meanwhile the times of main say more.
 *
 * Exits with 0 when all was measured, 1 when something failed, 2 for bad usage or without wrk.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs, promisify } from 'node:util'
import type { ParseArgsOptionsConfig } from 'node:util'
import { medianOf } from './medians.ts'
import type { BareAnswer } from './bare-server.ts'
import { trilogObjects } from './object-servers.ts'
import { MissingError } from './peer.ts'
import { scratchDirectory, startServer, until, versionOf } from './server.ts'
import type { Server } from './server.ts'

const HERE = fileURLToPath(new URL('../..', import.meta.url))
const BARE = fileURLToPath(new URL('bare-server.ts', import.meta.url))
const READY = /^ready (.*)$/m
const OBJECT = Buffer.alloc(4096, 'x')
const OBJECTS_CACHED = 1000
const OBJECTS = 20_000
const STREAM = '/v1/streams/front'
const GROUP = `${STREAM}/consumer-groups/front`

const record = (durability: string): string =>
  JSON.stringify({ message_id: 'message-000001', payload: 'x'.repeat(200), durability_mode: durability })

/** What wrk sends, in turn. */
interface Requests {
  readonly method: 'POST' | 'PUT' | 'GET'
  readonly targets: (server: TreeServers) => readonly string[]
  readonly body: string | null
}

interface Question extends Requests {
  readonly name: string
  readonly connections: number
  readonly of: 'broker' | 'objects'
  /** Runs in wrk's thread. Default: SCRIPT. */
  readonly script?: string
  /** Called before each time that trilog is asked. */
  readonly prepare?: (port: number) => Promise<void>
}

const objects = (method: 'PUT' | 'GET', count: number) => (servers: TreeServers) =>
  Array.from({ length: count }, (_, number) => servers.objectTarget(method, number))
const publish = (durability: string, connections: number): Question => ({
  name: `publish ${durability}`,
  connections,
  of: 'broker',
  method: 'POST',
  targets: () => [`${STREAM}/records`],
  body: record(durability),
})
const get = (name: string, count: number): Question => ({
  name,
  connections: 64,
  of: 'objects',
  method: 'GET',
  targets: objects('GET', count),
  body: null,
})

/** As SCRIPT: acknowledges what a claim brought before it claims again. */
const CYCLE_SCRIPT = `
local claim, acks, first, last, connected = nil, {}, 1, 0, false
acked = 0
local threads = {}
function setup(thread) threads[#threads + 1] = thread end
function init(args)
  wrk.method = args[1]
  wrk.headers["content-type"] = "application/json"
  for target in io.lines(args[2]) do claim = wrk.format(nil, target, nil, io.open(args[3]):read("*a")) end
end
function request()
  if first > last then return claim end
  local ack = acks[first]
  acks[first] = nil
  first = first + 1
  acked = acked + 1
  return ack
end
function response(status, headers, body)
  local subscription = body:match('"deliveries".*"subscription_id":"([^"]+)"')
  local delivery = body:match('"deliveries".*"delivery_id":"([^"]+)"')
  if delivery == nil then return end
  last = last + 1
  acks[last] = wrk.format(nil, "${STREAM}/subscriptions/" .. subscription .. "/deliveries/" .. delivery .. "/ack", nil, "{}")
end
function done(summary)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  local acked = 0
  for _, thread in ipairs(threads) do acked = acked + thread:get("acked") end
  local cycles = math.floor(summary.requests / 2)
  if acked < 0.95 * cycles then failed = failed + cycles - acked end
  print(string.format('{"answered":%d,"micros":%d,"failed":%d}', cycles, summary.duration, failed))
end
`

const BACKLOG = 60_000
const BATCH = 1000

/** Publishes more records than a run takes. */
async function fillBacklog(port: number): Promise<void> {
  const one = { message_id: 'message-000001', payload: 'x'.repeat(200), durability_mode: 'local-append' }
  const body = JSON.stringify({ records: Array.from({ length: BATCH }, () => one) })
  for (let records = 0; records < BACKLOG; records += BATCH) {
    const { ok } = await fetch(`http://127.0.0.1:${port}${STREAM}/records/batch`, { method: 'POST', body })
    assert(ok, 'a backlog')
  }
}

const QUESTIONS: readonly Question[] = [
  publish('local-sync', 64),
  publish('local-sync', 256),
  publish('volatile', 64),
  publish('volatile', 256),
  {
    name: 'cycle',
    connections: 64,
    of: 'broker',
    method: 'POST',
    targets: () => [`${GROUP}/claims`],
    body: '{"max_messages":1}',
    script: CYCLE_SCRIPT,
    prepare: fillBacklog,
  },
  {
    name: 'PUT',
    connections: 64,
    of: 'objects',
    method: 'PUT',
    targets: objects('PUT', OBJECTS_CACHED),
    body: OBJECT.toString(),
  },
  get('GET cached', OBJECTS_CACHED),
  get('GET of 20000', OBJECTS),
]

const NAMES = [...new Set(QUESTIONS.map(({ name }) => name))]

const USAGE = `usage: node scripts/compare/front.ts [options]

  --duration 3s      of each question, for each server and round
  --rounds 3         every server is asked once in each
  --only NAME,…      some of: ${NAMES.join(', ')}; or how they begin
  --tree DIR         a working tree to measure (default: this one). Given twice, both are asked in turn: a change, and what was before it
  --dir DIR          on the disk to be measured (default: the temporary directory)

Debian has wrk: apt-get install wrk
`

const options = {
  duration: { type: 'string', default: '3s' },
  rounds: { type: 'string', default: '3' },
  only: { type: 'string', default: '' },
  tree: { type: 'string', multiple: true, default: [HERE] },
  dir: { type: 'string', default: tmpdir() },
  help: { type: 'boolean', default: false },
} satisfies ParseArgsOptionsConfig

interface Asked {
  readonly seconds: number
  readonly rounds: number
  readonly questions: readonly Question[]
  readonly trees: readonly string[]
  readonly dir: string
}

function parse(): Asked | null {
  try {
    const { values } = parseArgs({ options })
    const seconds = Number(/^(\d+)s$/.exec(values.duration)?.[1])
    const rounds = Number(values.rounds)
    const beginnings = values.only.split(',')
    const questions = QUESTIONS.filter(({ name }) => beginnings.some((each) => name.startsWith(each)))
    const isUsable = seconds >= 1 && seconds <= 600 && rounds >= 1 && rounds <= 1000 && questions.length > 0
    if (!isUsable || values.help) return null
    return { seconds, rounds, questions, trees: values.tree.map((tree) => resolve(tree)), dir: values.dir }
  } catch {
    return null
  }
}

interface Endpoint {
  readonly port: number
  readonly server: Server
}

/** The services of one working tree; those that no question needs are not started. */
interface TreeServers {
  readonly name: string
  readonly broker: Endpoint | null
  readonly objects: Endpoint | null
  objectTarget(method: string, number: number): string
}

async function startTree(tree: string, directory: string, { questions }: Asked): Promise<TreeServers> {
  const main = join(tree, 'src/start.js')
  const needs = (of: Question['of']): boolean => questions.some((question) => question.of === of)
  const count = questions.some(({ name }) => name === 'GET of 20000') ? OBJECTS : OBJECTS_CACHED
  const objects = needs('objects') ? await trilogObjects(main).start(join(directory, 'objects'), count, OBJECT) : null
  const broker = needs('broker') ? await startBroker(main, join(directory, 'broker')) : null
  return { name: tree, broker, objects, objectTarget: (method, number) => objects!.target(method, number) }
}

async function startBroker(main: string, directory: string): Promise<Endpoint> {
  const server = startServer(process.execPath, ['--v8-pool-size=0', main, '--services', 'broker'], {
    env: { MQ_HTTP_BIND: '127.0.0.1:0', MQ_DATA_DIR: directory, TRILOG_LOG_LEVEL: 'warn' },
  })
  await until(server, () => READY.test(server.stdout()))
  const { http } = JSON.parse(READY.exec(server.stdout())![1]!) as { http: string } // as the contract says
  const { ok } = await fetch(`http://${http}${STREAM}`, { method: 'PUT', body: '{}' })
  assert(ok, 'the stream')
  return { port: Number(http.split(':')[1]), server }
}

/** The answer of the bare server: what the first tree answered to the same request. */
async function answerOf(question: Question, servers: TreeServers): Promise<BareAnswer> {
  const { port } = servers[question.of]!
  const { method, body } = question
  const response = await fetch(`http://127.0.0.1:${port}${question.targets(servers)[0]}`, { method, body })
  assert(response.ok, `${question.name}: ${response.status}`)
  const own = new Set(['content-length', 'connection', 'keep-alive', 'date']) // the library writes those itself
  const headers = [...response.headers].filter(([name]) => !own.has(name))
  return { status: `${response.status} ${response.statusText}`, headers, body: await response.text() }
}

async function startBare(question: Question, servers: TreeServers): Promise<Endpoint> {
  const answers = { [question.method]: await answerOf(question, servers) }
  const server = startServer(process.execPath, ['--v8-pool-size=0', BARE, JSON.stringify(answers)])
  await until(server, () => READY.test(server.stdout()))
  return { port: Number(READY.exec(server.stdout())![1]), server }
}

interface Measured {
  readonly perSecond: number
  readonly cpuMicros: number
  readonly mainMicros: number
}

/** Runs in wrk's thread: the requests as bytes, made before the first is sent. */
const SCRIPT = `
local requests, at = {}, 0
function init(args)
  wrk.method = args[1]
  wrk.headers["content-type"] = "application/json"
  if args[3] then wrk.body = io.open(args[3]):read("*a") end
  for target in io.lines(args[2]) do requests[#requests + 1] = wrk.format(nil, target) end
end
function request()
  at = at % #requests + 1
  return requests[at]
end
function done(summary)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  print(string.format('{"answered":%d,"micros":%d,"failed":%d}', summary.requests, summary.duration, failed))
end
`

const run = promisify(execFile)

async function measure(
  { port, server }: Endpoint,
  { name, connections, method, body, script: source = SCRIPT }: Question,
  targets: readonly string[],
  seconds: number,
  root: string,
): Promise<Measured> {
  const script = join(root, 'requests.lua')
  writeFileSync(script, source)
  writeFileSync(join(root, 'targets'), targets.map((target) => `${target}\n`).join(''))
  if (body !== null) writeFileSync(join(root, 'body'), body)
  const requests = [method, join(root, 'targets'), ...(body === null ? [] : [join(root, 'body')])]
  const shape = ['-t', '1', '-c', String(connections), '-d', `${seconds}s`, '-s', script]
  const [cpuBefore, mainBefore] = [server.cpuSeconds(), server.mainCpuSeconds()]
  const { stdout } = await run('wrk', [...shape, `http://127.0.0.1:${port}`, '--', ...requests])
  const [cpuSeconds, mainSeconds] = [server.cpuSeconds() - cpuBefore, server.mainCpuSeconds() - mainBefore]
  const summary = JSON.parse(stdout.trim().split('\n').at(-1)!) as Record<'answered' | 'micros' | 'failed', number>
  assert.equal(summary.failed, 0, `${name}: requests failed`)
  const { answered } = summary
  return {
    perSecond: (answered * 1e6) / summary.micros,
    cpuMicros: (cpuSeconds * 1e6) / answered,
    mainMicros: (mainSeconds * 1e6) / answered,
  }
}

async function compare(asked: Asked, root: string): Promise<void> {
  const { questions, rounds, seconds } = asked
  const trees: TreeServers[] = []
  for (const [number, tree] of asked.trees.entries()) {
    trees.push(await startTree(tree, join(root, String(number)), asked))
  }
  const head = ['request', 'connections', 'tree', 'bare/s', 'main', 'trilog/s', 'all threads', 'main', 'share']
  console.log(`| ${head.join(' | ')} |\n|${'---|'.repeat(head.length)}`)
  for (const question of questions) {
    const bareRuns: Measured[] = []
    const runs: Measured[][] = trees.map(() => [])
    const ask = async (tree: TreeServers, seconds: number): Promise<Measured> => {
      const endpoint = tree[question.of]!
      await question.prepare?.(endpoint.port)
      return measure(endpoint, question, question.targets(tree), seconds, root)
    }
    for (const tree of trees) await ask(tree, 1) // warms
    await question.prepare?.(trees[0]![question.of]!.port)
    const bare = await startBare(question, trees[0]!)
    for (let round = 0; round < rounds; round++) {
      bareRuns.push(await measure(bare, question, question.targets(trees[0]!), seconds, root))
      for (const [number, tree] of trees.entries()) {
        runs[number]!.push(await ask(tree, seconds))
      }
    }
    await bare.server.stop()
    for (const [number, tree] of trees.entries()) console.log(rowOf(question, tree, bareRuns, runs[number]!))
  }
}

function rowOf(
  { name, connections }: Question,
  tree: TreeServers,
  bare: readonly Measured[],
  own: readonly Measured[],
): string {
  const shares = own.map(({ perSecond }, round) => perSecond / bare[round]!.perSecond)
  const rate = (runs: readonly Measured[]): string => medianOf(runs.map(({ perSecond }) => perSecond)).toFixed(0)
  const micros = (runs: readonly Measured[], of: 'cpuMicros' | 'mainMicros'): string =>
    `${medianOf(runs.map((each) => each[of])).toFixed(1)} us`
  const spread = `${Math.min(...shares).toFixed(2)} to ${Math.max(...shares).toFixed(2)}`
  const cells = [
    name,
    connections,
    tree.name,
    rate(bare),
    micros(bare, 'mainMicros'),
    rate(own),
    micros(own, 'cpuMicros'),
    micros(own, 'mainMicros'),
    `${medianOf(shares).toFixed(2)} (${spread})`,
  ]
  return `| ${cells.join(' | ')} |`
}

const asked = parse()
if (asked === null) {
  process.stderr.write(USAGE)
  process.exit(2)
}
const root = scratchDirectory(join(asked.dir, 'trilog-compare-'))

try {
  versionOf('wrk', '--version', /wrk (\S+)/)
  await compare(asked, root)
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = error instanceof MissingError ? 2 : 1
}
process.exit() // with the servers
