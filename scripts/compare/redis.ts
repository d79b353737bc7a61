/** Redis with its append-only file synced at every write: streams, as a consumer group (XADD, XREADGROUP, XACK). */
import { measureClients } from './peer.ts'
import type { Measured, Peer, PeerClient, Setup } from './peer.ts'
import { ReplySocket } from './reply-socket.ts'
import { readResp, respCommand } from './resp.ts'
import { freePort, startServer, untilListening, versionOf } from './server.ts'

const STREAM = 'load'
const GROUP = 'workers'

export const redis: Peer = {
  name: 'redis',
  async measure(setup: Setup): Promise<Measured> {
    const version = versionOf('redis-server', '--version', /v=(\S+)/)
    const port = await freePort()
    const place = ['--port', String(port), '--bind', '127.0.0.1', '--dir', setup.directory, '--daemonize', 'no']
    const sync = ['--save', '', '--appendonly', 'yes', '--appendfsync', 'always']
    const server = startServer('redis-server', [...place, ...sync])
    try {
      await untilListening(server, port)
      await createGroup(port)
      const figures = await measureClients(setup, (connection) => openClient(port, connection, setup.payloadBytes))
      return { server: `redis-server ${version}, appendfsync always`, syncs: 'yes', ...figures }
    } finally {
      await server.stop()
    }
  },
}

async function createGroup(port: number): Promise<void> {
  const socket = await ReplySocket.open(port)
  await socket.request(respCommand('XGROUP', 'CREATE', STREAM, GROUP, '0', 'MKSTREAM'), readResp)
  socket.close()
}

async function openClient(port: number, connection: number, payloadBytes: number): Promise<PeerClient> {
  const socket = await ReplySocket.open(port)
  const add = respCommand('XADD', STREAM, '*', 'payload', 'x'.repeat(payloadBytes))
  const read = respCommand('XREADGROUP', 'GROUP', GROUP, `c${connection}`, 'COUNT', '1', 'STREAMS', STREAM, '>')
  return {
    async publish() {
      await socket.request(add, readResp)
    },
    async cycle() {
      const { value } = await socket.request(read, readResp)
      if (value === null) return false
      const acknowledged = await socket.request(respCommand('XACK', STREAM, GROUP, entryId(value)), readResp)
      if (acknowledged.value !== 1) throw new Error('an entry was not pending any more')
      return true
    },
    close: () => socket.close(),
  }
}

/** The id in `[[stream, [[id, [field, value]]]]]`. */
function entryId(value: unknown): string {
  const [[, [[id]]]] = value as [[string, [[string, unknown]]]] // as documented, for COUNT 1 of one stream
  return id
}
