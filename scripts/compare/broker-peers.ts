/**
 * The same work on trilog's broker and on other brokers, one after the other in one run, on this machine's loopback:
 *
 *   publish  every connection sends one message and waits until the server says that it is stored
 *   cycle    every connection takes one message and waits until the server says that it is done with, until none of those published is left
 *
 * Servers are taken from PATH, with data directories of their own under one that is removed at the end; one that is missing is named and
 * left out. Before and after each, the disk is asked how many small writes a second it syncs: what a server without group
 * commit can reach at best. Exits with 0 when all that were there were measured, 1 when one failed, 2 for bad usage.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { ParseArgsOptionsConfig } from 'node:util'
import { measureSyncs } from '../../bench/load/disk-rate.ts'
import { beanstalkd } from './beanstalkd.ts'
import { nats, natsSyncingAlways } from './nats.ts'
import { MissingError } from './peer.ts'
import type { Peer, Setup } from './peer.ts'
import { redis } from './redis.ts'
import { scratchDirectory } from './server.ts'
import { formatTable } from './table.ts'
import type { Row } from './table.ts'
import { trilog } from './trilog.ts'

const PEERS: readonly Peer[] = [trilog, nats, natsSyncingAlways, redis, beanstalkd]
const SYNC_MS = 1000
const DURATION_SECONDS_MAX = 600

const USAGE = `usage: node scripts/compare/broker-peers.ts [options]

  --duration 10s        of each of the two parts, for each server
  --connections 64      to each server
  --payload-bytes 200   of each message
  --only NAME,…         some of: ${PEERS.map((peer) => peer.name).join(', ')}
  --trilog-url URL      a broker that runs already, instead of one started here; its streams load-0000 gets the messages
  --nats-client DIR     where NATS's own client is installed, which is no dependency of this repository:
                        mkdir DIR && cd DIR && npm init -y && npm install @nats-io/transport-node@3.4.0 @nats-io/jetstream@3.4.0
  --dir DIR             on the disk to be measured (default: the temporary directory)

Debian has the servers: apt-get install nats-server redis-server beanstalkd
`

const options = {
  duration: { type: 'string', default: '10s' },
  connections: { type: 'string', default: '64' },
  'payload-bytes': { type: 'string', default: '200' },
  only: { type: 'string' },
  'trilog-url': { type: 'string' },
  'nats-client': { type: 'string' },
  dir: { type: 'string', default: tmpdir() },
  help: { type: 'boolean', default: false },
} satisfies ParseArgsOptionsConfig

const asked = parse()
if (asked === null) {
  process.stderr.write(USAGE)
  process.exit(2)
}

const root = scratchDirectory(join(asked.dir, 'trilog-compare-'))

const rows: Row[] = []
for (const peer of asked.peers) {
  const directory = mkdtempSync(join(root, `${peer.name}-`))
  process.stderr.write(`${peer.name} …\n`)
  try {
    const before = measureSyncs(root, SYNC_MS, nowMs)
    const measured = await peer.measure({ ...asked.setup, directory })
    const after = measureSyncs(root, SYNC_MS, nowMs)
    rows.push({ ...measured, syncsPerSecond: (before.syncsPerSecond + after.syncsPerSecond) / 2 })
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    process.stderr.write(`${peer.name} ${error instanceof MissingError ? 'is left out' : 'FAILED'}: ${reason}\n`)
    if (!(error instanceof MissingError)) process.exitCode = 1
  }
  rmSync(directory, { recursive: true, force: true })
}
const { connections, payloadBytes, durationMs } = asked.setup
console.log(`${connections} connections, ${payloadBytes}-byte messages, ${durationMs / 1000} s each`)
console.log(formatTable(rows))
process.exit() // whatever a client's library keeps open

function nowMs(): number {
  return performance.now()
}

function parse(): { peers: readonly Peer[]; dir: string; setup: Omit<Setup, 'directory'> } | null {
  try {
    const { values } = parseArgs({ options })
    const only = values.only?.split(',') ?? PEERS.map((peer) => peer.name)
    const peers = PEERS.filter((peer) => only.includes(peer.name))
    const seconds = Number(/^(\d+)s$/.exec(values.duration)?.[1])
    const connections = Number(values.connections)
    const payloadBytes = Number(values['payload-bytes'])
    const isUsable =
      peers.length === new Set(only).size &&
      seconds >= 1 &&
      seconds <= DURATION_SECONDS_MAX &&
      Number.isInteger(connections) &&
      connections >= 1 &&
      connections <= 1000 &&
      Number.isInteger(payloadBytes) &&
      payloadBytes >= 1 &&
      payloadBytes <= 60_000 // what beanstalkd takes
    if (!isUsable || values.help) return null
    const setup = {
      connections,
      payloadBytes,
      durationMs: seconds * 1000,
      trilogUrl: values['trilog-url'] ?? null,
      natsClientDirectory: values['nats-client'] ?? null,
      nowMs,
    }
    return { peers, dir: values.dir, setup }
  } catch {
    return null
  }
}
