/**
 * Publishes that do not wait for each other, on trilog's broker, Redis streams and NATS JetStream: the same number of records in flight on the
 * same number of connections, answered when they are stored. All servers run at the same time and are loaded in turn, round by round, so that
 * whatever else the machine does meets them all; trust the ratios, and the processor time of the server for one record.
 *
 *   piped  `--connections` with `--in-flight` records each
 *   alone  one publisher, and nothing else under way
 *   paced  at a steady pace: how long after it was sent a record is stored, beside a sync of the same disk; medians of the rounds
 *
 * Exits with 0 when all that were there were measured, 1 when one failed, 2 for bad usage.
 */
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import type { ParseArgsOptionsConfig } from 'node:util'
import { pathToFileURL } from 'node:url'
import { measureSyncs } from '../../bench/load/disk-rate.ts'
import { Histogram } from '../../bench/load/histogram.ts'
import { medianOf, medianRatio, round3 } from './medians.ts'
import { MissingError } from './peer.ts'
import { pipedNats } from './pipes/nats.ts'
import type { Piped } from './pipes/pipe.ts'
import { pipedRedis } from './pipes/redis.ts'
import { pipedTrilog } from './pipes/trilog.ts'
import { scratchDirectory } from './server.ts'

const PARTS = ['piped', 'alone', 'paced'] as const
const SYNC_MS = 300
const PACED_MS = 3000
/** Both sides compile their code meanwhile. */
const WARM_UP_ROUNDS = 2
/** A server that syncs each record by itself gets only one of so many records. */
const SLOW_SHARE = 50
const SLOW = /^nats, sync/

const USAGE = `usage: node scripts/compare/pipelines.ts [options]

  --rounds 5            of each server in turn
  --records 100000      of each round of piped; a fiftieth of them for a server that syncs every record by itself
  --connections 4
  --in-flight 500       on each of them
  --alone 500           records of each round of one publisher alone
  --rate 20000          records a second of paced
  --payload-bytes 200
  --parts LIST          of ${PARTS.join(', ')}
  --tree DIR            another working tree of trilog, measured beside this one; may be repeated
  --dir DIR             on the disk to be measured (default: the temporary directory)

Debian has redis-server; nats-server: go install github.com/nats-io/nats-server/v2@latest. A server that is missing is named and left out.
`

const options = {
  rounds: { type: 'string', default: '5' },
  records: { type: 'string', default: '100000' },
  connections: { type: 'string', default: '4' },
  'in-flight': { type: 'string', default: '500' },
  alone: { type: 'string', default: '500' },
  rate: { type: 'string', default: '20000' },
  'payload-bytes': { type: 'string', default: '200' },
  parts: { type: 'string', default: PARTS.join(',') },
  tree: { type: 'string', multiple: true, default: [] },
  dir: { type: 'string', default: tmpdir() },
  help: { type: 'boolean', default: false },
} satisfies ParseArgsOptionsConfig

const asked = parse()
if (asked === null) {
  process.stderr.write(USAGE)
  process.exit(2)
}

const root = scratchDirectory(join(asked.dir, 'trilog-pipelines-'))
const piped = await startAll()
if (asked.parts.includes('piped')) console.table(await measurePiped())
if (asked.parts.includes('alone')) console.table(await measureAlone())
if (asked.parts.includes('paced')) console.table(await measurePaced())
process.exit() // servers go with it

async function startAll(): Promise<Piped[]> {
  const { payloadBytes, trees } = asked!
  const own = new URL('../../', import.meta.url)
  const others = trees.map((tree) => pathToFileURL(`${resolve(tree)}/`))
  const ways = [
    async () => pipedTrilog(directoryOf('trilog'), payloadBytes, own),
    ...others.map((tree, i) => async () => {
      const there = await pipedTrilog(directoryOf('trilog'), payloadBytes, tree)
      return there.map((each) => ({ ...each, name: `${each.name}, ${trees[i]}` }))
    }),
    async () => [await pipedRedis(directoryOf('redis'), payloadBytes)],
    async () => [await pipedNats(directoryOf('nats'), payloadBytes, 'always')],
    async () => [await pipedNats(directoryOf('nats'), payloadBytes, 'default')],
  ]
  const found: Piped[] = []
  for (const start of ways) {
    try {
      found.push(...(await start()))
    } catch (error) {
      const isMissing = error instanceof MissingError
      process.stderr.write(`${isMissing ? 'left out' : 'FAILED'}: ${error instanceof Error ? error.message : ''}\n`)
      if (!isMissing) process.exitCode = 1
    }
  }
  return found
}

function directoryOf(name: string): string {
  return mkdtempSync(join(root, `${name}-`))
}

async function measurePiped(): Promise<object[]> {
  const { connections, inFlight, records, rounds } = asked!
  const peers = piped.filter(({ name }) => !name.startsWith('trilog, HTTP'))
  const pipes = await Promise.all(
    peers.map((peer) => Promise.all(Array.from({ length: connections }, () => peer.open()))),
  )
  const perSecond = peers.map((): number[] => [])
  const cpuMicros = peers.map((): number[] => [])
  for (let round = 0; round <= rounds; round += 1) {
    for (const [i, { server, name }] of peers.entries()) {
      const each = Math.ceil(records / connections / (SLOW.test(name) ? SLOW_SHARE : 1))
      const beganCpu = server.cpuSeconds()
      const beganMs = nowMs()
      await Promise.all(pipes[i]!.map((pipe) => pipe.publish(each, inFlight)))
      if (round === 0) continue // both sides compile their code
      perSecond[i]!.push((1000 * each * connections) / (nowMs() - beganMs))
      cpuMicros[i]!.push((1e6 * (server.cpuSeconds() - beganCpu)) / (each * connections))
    }
  }
  for (const pipe of pipes.flat()) pipe.close()
  return peers.map(({ name, version }, i) => ({
    server: `${name} (${version})`,
    'records/s': Math.round(medianOf(perSecond[i]!)),
    'trilog to it': medianRatio(perSecond[0]!, perSecond[i]!),
    'CPU µs/record': round3(medianOf(cpuMicros[i]!)),
  }))
}

async function measureAlone(): Promise<object[]> {
  const { alone, rounds } = asked!
  const pipes = await Promise.all(piped.map((peer) => peer.open()))
  const p50 = piped.map((): number[] => [])
  const fast = piped.map((): number[] => [])
  for (let round = 0; round <= rounds; round += 1) {
    for (const [i, pipe] of pipes.entries()) {
      const micros: number[] = []
      for (let n = 0; n < alone; n += 1) {
        const beganMs = nowMs()
        await pipe.publish(1, 1)
        micros.push(1000 * (nowMs() - beganMs))
      }
      if (round === 0) continue
      micros.sort((a, b) => a - b)
      p50[i]!.push(micros[alone >> 1]!)
      fast[i]!.push(micros[Math.floor(alone / 10)]!)
    }
  }
  for (const pipe of pipes) pipe.close()
  const redis = piped.findIndex(({ name }) => name.startsWith('redis'))
  return piped.map(({ name }, i) => ({
    server: name,
    'p50 µs': Math.round(medianOf(p50[i]!)),
    'p10 µs': Math.round(medianOf(fast[i]!)),
    'p50 to redis': redis < 0 ? null : medianRatio(p50[i]!, p50[redis]!),
    'p10 to redis': redis < 0 ? null : medianRatio(fast[i]!, fast[redis]!),
  }))
}

async function measurePaced(): Promise<object[]> {
  const { rounds } = asked!
  const streams = piped.filter(({ name }) => !name.startsWith('trilog, HTTP') && !SLOW.test(name))
  const found = streams.map((): PacedRound[] => [])
  for (let round = 0; round < WARM_UP_ROUNDS + rounds; round += 1) {
    for (const [i, stream] of streams.entries()) {
      const measured = await pacedRound(stream)
      if (round >= WARM_UP_ROUNDS) found[i]!.push(measured)
    }
  }
  return streams.map(({ name }, i) => {
    const [p50, p99, late, sync] = (['p50Ms', 'p99Ms', 'lateMs', 'syncMs'] as const).map((key) =>
      found[i]!.map((each) => each[key]),
    )
    return {
      server: name,
      'p50 ms': round3(medianOf(p50!)),
      'p99 ms': round3(medianOf(p99!)),
      'p99 of the best and the worst round': `${round3(Math.min(...p99!))}, ${round3(Math.max(...p99!))}`,
      'sent late, p99 ms': round3(medianOf(late!)),
      'sync ms': round3(medianOf(sync!)),
      'at most 3 syncs + 2 ms': medianOf(p99!) <= 3 * medianOf(sync!) + 2,
    }
  })
}

interface PacedRound {
  readonly p50Ms: number
  readonly p99Ms: number
  /** The load's own delay, 99 % of records. */
  readonly lateMs: number
  readonly syncMs: number
}

async function pacedRound(server: Piped): Promise<PacedRound> {
  const { connections, rate } = asked!
  const before = measureSyncs(root, SYNC_MS, nowMs)
  const latency = new Histogram()
  const lateness = new Histogram()
  const pipes = await Promise.all(Array.from({ length: connections }, () => server.open()))
  const told = { late: (ms: number) => lateness.add(Math.max(0, ms)), stored: (ms: number) => latency.add(ms) }
  await Promise.all(pipes.map((pipe) => pipe.pace(rate / connections, PACED_MS, nowMs, told)))
  for (const pipe of pipes) pipe.close()
  const after = measureSyncs(root, SYNC_MS, nowMs)
  return {
    p50Ms: latency.percentile(50),
    p99Ms: latency.percentile(99),
    lateMs: lateness.percentile(99),
    syncMs: 2000 / (before.syncsPerSecond + after.syncsPerSecond),
  }
}

function nowMs(): number {
  return performance.now()
}

function parse() {
  try {
    const { values } = parseArgs({ options })
    const numbers = [
      values.rounds,
      values.records,
      values.connections,
      values['in-flight'],
      values.alone,
      values.rate,
      values['payload-bytes'],
    ].map(Number)
    const parts = values.parts.split(',')
    const isUsable =
      numbers.every((number) => Number.isInteger(number) && number >= 1) &&
      parts.every((part) => PARTS.some((known) => known === part))
    if (!isUsable || values.help) return null
    const [rounds, records, connections, inFlight, alone, rate, payloadBytes] = numbers as [
      number,
      number,
      number,
      number,
      number,
      number,
      number,
    ]
    return {
      rounds,
      records,
      connections,
      inFlight,
      alone,
      rate,
      payloadBytes,
      parts,
      trees: values.tree,
      dir: values.dir,
    }
  } catch {
    return null
  }
}
