/**
 * The same objects put to and read from trilog and other servers, in turn, on this machine's loopback, each connection with one request
 * in flight. MinIO and VersityGW are object stores and check signatures, as trilog does here. nginx only reads: it sends files with sendfile and
 * checks nothing, and is the line to reach for small objects.
 *
 * Beside what is answered in a second stands what the server needed of the processor: on a machine that does other things meanwhile it says more.
 *
 * Servers are taken from PATH; one that is missing is named and left out. Exits with 0 when all that were there were measured, 1 when one failed,
 * 2 for bad usage.
 */
import assert from 'node:assert/strict'
import { chmodSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { ParseArgsOptionsConfig } from 'node:util'
import { CountingConnection } from './counting-connection.ts'
import { OBJECT_PEERS } from './object-servers.ts'
import type { ObjectPeer, ObjectServer } from './object-servers.ts'
import { MissingError } from './peer.ts'
import { scratchDirectory } from './server.ts'

const METHODS = ['PUT', 'GET', 'HEAD'] as const
type Method = (typeof METHODS)[number]

const USAGE = `usage: node scripts/compare/object-peers.ts [options]

  --duration 5s         of each method, for each server and round
  --connections 64      to each server
  --objects 1000        that are read and overwritten
  --object-bytes 4096   of each
  --rounds 2            every server is measured once in each
  --methods PUT,GET,HEAD
  --only NAME,…         some of: ${OBJECT_PEERS.map((peer) => peer.name).join(', ')}
  --dir DIR             on the disk to be measured (default: the temporary directory)

Large objects: --object-bytes 16777216 --objects 16 --connections 8 --methods PUT,GET
Debian has nginx (apt-get install nginx-light). Go builds the others:
  go install github.com/minio/minio@latest
  go install github.com/versity/versitygw/cmd/versitygw@latest
`

const options = {
  duration: { type: 'string', default: '5s' },
  connections: { type: 'string', default: '64' },
  objects: { type: 'string', default: '1000' },
  'object-bytes': { type: 'string', default: '4096' },
  rounds: { type: 'string', default: '2' },
  methods: { type: 'string', default: METHODS.join(',') },
  only: { type: 'string' },
  dir: { type: 'string', default: tmpdir() },
  help: { type: 'boolean', default: false },
} satisfies ParseArgsOptionsConfig

interface Asked {
  readonly durationMs: number
  readonly connections: number
  readonly objects: number
  readonly body: Buffer
  readonly rounds: number
  readonly methods: readonly Method[]
  readonly peers: readonly ObjectPeer[]
  readonly dir: string
}

function parse(): Asked | null {
  try {
    const { values } = parseArgs({ options })
    const only = values.only?.split(',') ?? OBJECT_PEERS.map(({ name }) => name)
    const methods = values.methods.split(',')
    const numbers = ['connections', 'objects', 'object-bytes', 'rounds'] as const
    const [connections, objects, bytes, rounds] = numbers.map((name) => Number(values[name])) as number[] & {
      length: 4
    }
    const seconds = Number(/^(\d+)s$/.exec(values.duration)?.[1])
    const peers = OBJECT_PEERS.filter(({ name }) => only.includes(name))
    const isUsable =
      [seconds, connections, objects, rounds].every(
        (count) => Number.isInteger(count) && count! >= 1 && count! <= 100_000,
      ) &&
      Number.isInteger(bytes) &&
      bytes! >= 1 &&
      bytes! <= 1 << 30 &&
      peers.length === new Set(only).size &&
      methods.every((method) => METHODS.some((known) => known === method))
    if (!isUsable || values.help) return null
    return {
      durationMs: seconds * 1000,
      connections: connections!,
      objects: objects!,
      body: Buffer.alloc(bytes!, 'x'),
      rounds: rounds!,
      methods: METHODS.filter((method) => methods.includes(method)),
      peers,
      dir: values.dir,
    }
  } catch {
    return null
  }
}

interface Measured {
  readonly perSecond: number
  /** Processor time of the server, for one request. */
  readonly cpuSeconds: number
}

async function measure(to: ObjectServer, method: Method, asked: Asked): Promise<Measured> {
  const { port, name, server } = to
  const { connections, objects, body, durationMs } = asked
  const host = `127.0.0.1:${port}`
  const startMs = performance.now()
  const endMs = startMs + durationMs
  const cpuBefore = server.cpuSeconds()
  let answered = 0
  let lastMs = startMs
  const worker = async (first: number): Promise<void> => {
    const connection = await CountingConnection.open(port)
    for (let number = first; performance.now() < endMs; number++) {
      const answer = await connection.send(
        method,
        to.target(method, number % objects),
        host,
        method === 'PUT' ? body : null,
      )
      assert.equal(answer.status, 200, `${name}: ${method}`)
      assert.equal(answer.bodyBytes, method === 'GET' ? body.byteLength : 0)
      answered += 1
      lastMs = performance.now()
    }
    connection.close()
  }
  await Promise.all(Array.from({ length: connections }, (_, first) => worker(first)))
  return {
    perSecond: (answered * 1000) / (lastMs - startMs),
    cpuSeconds: (server.cpuSeconds() - cpuBefore) / answered,
  }
}

async function startAll({ peers, objects, body }: Asked, root: string): Promise<ObjectServer[]> {
  const servers: ObjectServer[] = []
  for (const peer of peers) {
    try {
      servers.push(await peer.start(join(root, peer.name), objects, body))
    } catch (error) {
      if (!(error instanceof MissingError)) throw error
      process.stderr.write(`${peer.name} is left out: ${error.message}\n`)
    }
  }
  return servers
}

async function compare(asked: Asked, root: string): Promise<void> {
  const { methods, rounds, body } = asked
  const servers = await startAll(asked, root)
  const head = ['server', 'synced first', ...methods.flatMap((method) => columnsOf(method))]
  console.log(`| ${head.join(' | ')} |\n|${'---|'.repeat(head.length)}`)
  for (let round = 0; round < rounds; round++) {
    for (const server of servers) {
      const cells = [server.name, server.syncs ?? '']
      for (const method of methods) {
        const isTaken = method !== 'PUT' || server.syncs !== null
        cells.push(...(isTaken ? cellsOf(await measure(server, method, asked), body.byteLength) : ['', '', '']))
      }
      console.log(`| ${cells.join(' | ')} |`)
    }
  }
}

const columnsOf = (method: Method): string[] => [`${method}/s`, 'MiB/s', 'CPU each']

const cellsOf = ({ perSecond, cpuSeconds }: Measured, bytes: number): string[] => [
  perSecond.toFixed(perSecond < 1000 ? 1 : 0),
  ((perSecond * bytes) / (1 << 20)).toFixed(0),
  cpuSeconds < 1e-3 ? `${(cpuSeconds * 1e6).toFixed(1)} us` : `${(cpuSeconds * 1e3).toFixed(2)} ms`,
]

const asked = parse()
if (asked === null) {
  process.stderr.write(USAGE)
  process.exit(2)
}
const root = scratchDirectory(join(asked.dir, 'trilog-compare-'))
chmodSync(root, 0o755) // nginx reads as another user
try {
  await compare(asked, root)
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
}
process.exit() // clients that still wait for an answer
