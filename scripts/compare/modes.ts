/**
 * What credentials, TLS and replication cost the broker: the same publishes, one after the other on each connection, to nodes of several modes in turn; and
 * a node that ships what is published in batches at a steady pace to a second one.
 *
 *   modes      publishes a second, and the processor time of the node for each, beside those of a node that asks for nothing
 *   replicate  how far the target is behind what the source has acknowledged
 *
 * Exits with 0, or 2 for bad usage.
 */
import { hash } from 'node:crypto'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { ParseArgsOptionsConfig } from 'node:util'
import { Authority, TlsFilesOnDisk } from '../../test/support/certificates.ts'
import { medianOf, medianRatio, round3 } from './medians.ts'
import { pipedHttp, startBroker } from './pipes/trilog.ts'
import type { HttpPiped } from './pipes/trilog.ts'
import type { Pipe } from './pipes/pipe.ts'
import { scratchDirectory } from './server.ts'

const PARTS = ['modes', 'replicate'] as const
const STREAM = 'load'
const KEY = 'key-of-the-load'
const LOOK_EVERY_MS = 10

const USAGE = `usage: node scripts/compare/modes.ts [options]

  --rounds 7             of each mode in turn
  --duration 2s          of each round
  --connections 64
  --payload-bytes 200
  --rate 20000           records a second that are published and shipped
  --batch 200            records of one publish of these
  --replicate 10s        how long
  --parts LIST           of ${PARTS.join(', ')}
  --dir DIR              on the disk to be measured (default: the temporary directory)
`

const options = {
  rounds: { type: 'string', default: '7' },
  duration: { type: 'string', default: '2s' },
  connections: { type: 'string', default: '64' },
  'payload-bytes': { type: 'string', default: '200' },
  rate: { type: 'string', default: '20000' },
  batch: { type: 'string', default: '200' },
  replicate: { type: 'string', default: '10s' },
  parts: { type: 'string', default: PARTS.join(',') },
  dir: { type: 'string', default: tmpdir() },
  help: { type: 'boolean', default: false },
} satisfies ParseArgsOptionsConfig

const asked = parse()
if (asked === null) {
  process.stderr.write(USAGE)
  process.exit(2)
}
const root = scratchDirectory(join(asked.dir, 'trilog-modes-'))
if (asked.parts.includes('modes')) console.table(await measureModes())
if (asked.parts.includes('replicate')) console.table(await measureReplication())
process.exit() // servers go with it

async function measureModes(): Promise<object[]> {
  const { rounds, seconds, connections, payloadBytes } = asked!
  const keys = join(root, 'keys.json')
  const grants = ['create_stream', 'stream.publish'].map((permission) => ({ permission }))
  const credential = { key_sha256: hash('sha256', KEY), tenant: 'local', principal: 'load', grants }
  writeFileSync(keys, JSON.stringify({ keys: [credential] }))
  const authority = new Authority('load')
  const files = new TlsFilesOnDisk()
  files.write(authority.certify([['CN', 'localhost']]))
  const tls = ['--tls-cert', files.cert, '--tls-key', files.key]
  const byKey = ['--auth-mode', 'api-key', '--credentials-file', keys]
  const nodes: HttpPiped[] = [
    await pipedHttp('insecure-local', { directory: directoryOf('local'), payloadBytes }),
    await pipedHttp('api-key', { directory: directoryOf('key'), payloadBytes, flags: byKey, apiKey: KEY }),
    await pipedHttp('TLS', {
      directory: directoryOf('tls'),
      payloadBytes,
      flags: tls,
      ca: Buffer.from(authority.cert),
    }),
  ]
  const pipes = await Promise.all(
    nodes.map((node) => Promise.all(Array.from({ length: connections }, () => node.open()))),
  )
  const perSecond = nodes.map((): number[] => [])
  const cpuMicros = nodes.map((): number[] => [])
  for (let round = 0; round <= rounds; round += 1) {
    for (const [i, { server }] of nodes.entries()) {
      const beganCpu = server.cpuSeconds()
      const beganMs = nowMs()
      const records = await publishFor(pipes[i]!, 1000 * seconds)
      if (round === 0) continue // both sides compile their code
      perSecond[i]!.push((1000 * records) / (nowMs() - beganMs))
      cpuMicros[i]!.push((1e6 * (server.cpuSeconds() - beganCpu)) / records)
    }
  }
  return nodes.map(({ name }, i) => ({
    node: name,
    'publishes/s': Math.round(medianOf(perSecond[i]!)),
    'rate to the first': medianRatio(perSecond[i]!, perSecond[0]!),
    'CPU µs': round3(medianOf(cpuMicros[i]!)),
    'CPU of the first to it': medianRatio(cpuMicros[0]!, cpuMicros[i]!),
  }))
}

async function publishFor(pipes: readonly Pipe[], ms: number): Promise<number> {
  const untilMs = nowMs() + ms
  let records = 0
  const loop = async (pipe: Pipe): Promise<void> => {
    while (nowMs() < untilMs) {
      await pipe.publish(1, 1)
      records += 1
    }
  }
  await Promise.all(pipes.map(loop))
  return records
}

async function measureReplication(): Promise<object[]> {
  const { rate, batch, replicateSeconds, payloadBytes } = asked!
  const target = await startBroker(directoryOf('target'))
  const binding = join(root, 'binding.json')
  const policy = { name: 'dr', streams: [STREAM], source_site: 'a', target_site: 'b', target_url: target.url }
  writeFileSync(binding, JSON.stringify({ policies: [policy] }))
  const source = await startBroker(directoryOf('source'), ['--replication-binding-file', binding])
  await fetch(`${source.url}/v1/streams/${STREAM}`, { method: 'PUT' })
  const records = Array.from({ length: batch }, (_, i) => ({ message_id: `m-${i}`, payload: 'x'.repeat(payloadBytes) }))
  const body = JSON.stringify({ records })
  /** When the source had acknowledged each batch. */
  const ackedAtMs: number[] = []
  const lagsMs: number[] = []
  const over = new AbortController()
  const looking = (async (): Promise<void> => {
    for (let arrived = 0; !over.signal.aborted || arrived < ackedAtMs.length; await sleep(LOOK_EVERY_MS)) {
      const reply = await fetch(`${target.url}/v1/streams/${STREAM}`)
      const { next_offset = 0 } = (await reply.json()) as { next_offset?: number } // as the route answers
      const whole = Math.floor(next_offset / batch)
      for (; arrived < Math.min(whole, ackedAtMs.length); arrived += 1)
        lagsMs.push(Math.max(0, nowMs() - ackedAtMs[arrived]!))
    }
  })()
  const beganMs = nowMs()
  const batches = Math.floor((rate * replicateSeconds) / batch)
  const beganCpu = [source, target].map(({ server }) => server.cpuSeconds())
  for (let sent = 0; sent < batches; sent += 1) {
    const waitMs = beganMs + (1000 * sent * batch) / rate - nowMs()
    if (waitMs > 0) await sleep(waitMs)
    const reply = await fetch(`${source.url}/v1/streams/${STREAM}/records/batch`, { method: 'POST', body })
    if (!reply.ok) throw new Error(await reply.text())
    ackedAtMs.push(nowMs())
  }
  const published = (1000 * batches * batch) / (nowMs() - beganMs)
  over.abort()
  await looking
  const [sourceCpu, targetCpu] = [source, target].map(({ server }, i) => server.cpuSeconds() - beganCpu[i]!)
  lagsMs.sort((a, b) => a - b)
  const row = {
    'wanted/s': rate,
    'published/s': Math.round(published),
    'lag p50 ms': round3(medianOf(lagsMs)),
    'lag p99 ms': round3(lagsMs[Math.floor(0.99 * lagsMs.length)]!),
    'lag max ms': round3(lagsMs.at(-1)!),
    'source CPU µs/record': round3((1e6 * sourceCpu!) / (batches * batch)),
    'target CPU µs/record': round3((1e6 * targetCpu!) / (batches * batch)),
  }
  await Promise.all([source.server.stop(), target.server.stop()])
  return [row]
}

function directoryOf(name: string): string {
  return mkdtempSync(join(root, `${name}-`))
}

function nowMs(): number {
  return performance.now()
}

function parse() {
  try {
    const { values } = parseArgs({ options })
    const secondsOf = (text: string): number => Number(/^(\d+)s$/.exec(text)?.[1])
    const parts = values.parts.split(',')
    const found = {
      rounds: Number(values.rounds),
      seconds: secondsOf(values.duration),
      connections: Number(values.connections),
      payloadBytes: Number(values['payload-bytes']),
      rate: Number(values.rate),
      batch: Number(values.batch),
      replicateSeconds: secondsOf(values.replicate),
    }
    const isUsable =
      Object.values(found).every((number) => Number.isInteger(number) && number >= 1) &&
      found.batch <= 1000 &&
      parts.every((part) => PARTS.some((known) => known === part))
    return isUsable && !values.help ? { ...found, parts, dir: values.dir } : null
  } catch {
    return null
  }
}
