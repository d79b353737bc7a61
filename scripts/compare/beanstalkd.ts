/** beanstalkd with its binlog, synced at every write: put, then reserve and delete. */
import { measureClients } from './peer.ts'
import type { Measured, Peer, PeerClient, Setup } from './peer.ts'
import { ReplySocket } from './reply-socket.ts'
import { freePort, startServer, untilListening, versionOf } from './server.ts'

const LEASE_SECONDS = 30

export const beanstalkd: Peer = {
  name: 'beanstalkd',
  async measure(setup: Setup): Promise<Measured> {
    const version = versionOf('beanstalkd', '-v', /beanstalkd (\S+)/)
    const port = await freePort()
    const server = startServer('beanstalkd', ['-l', '127.0.0.1', '-p', String(port), '-b', setup.directory, '-f0'])
    try {
      await untilListening(server, port)
      const figures = await measureClients(setup, () => openClient(port, setup.payloadBytes))
      return { server: `beanstalkd ${version} -f0`, syncs: 'yes', ...figures }
    } finally {
      await server.stop()
    }
  },
}

async function openClient(port: number, payloadBytes: number): Promise<PeerClient> {
  const socket = await ReplySocket.open(port)
  const put = `put 0 0 ${LEASE_SECONDS} ${payloadBytes}\r\n${'x'.repeat(payloadBytes)}\r\n`
  return {
    async publish() {
      expectWord(await socket.request(put, readLine), 'INSERTED')
    },
    async cycle() {
      const reserved = await socket.request('reserve-with-timeout 0\r\n', readReservation)
      if (reserved === 'TIMED_OUT') return false
      const [word = '', job] = reserved.split(' ')
      expectWord(word, 'RESERVED')
      expectWord(await socket.request(`delete ${job}\r\n`, readLine), 'DELETED')
      return true
    },
    close: () => socket.close(),
  }
}

function expectWord(reply: string, word: string): void {
  if (!reply.startsWith(word)) throw new Error(`beanstalkd answered '${reply}'`)
}

/** A reply of one line. */
function readLine(bytes: Buffer): string | null {
  const end = bytes.indexOf(LINE_END)
  return end < 0 ? null : bytes.toString('latin1', 0, end)
}

/** `RESERVED <id> <bytes>`, behind which the job follows as a line of its own; or any other line. */
export function readReservation(bytes: Buffer): string | null {
  const line = readLine(bytes)
  const jobBytes = line === null ? null : /^RESERVED \d+ (\d+)$/.exec(line)?.[1]
  if (line === null || jobBytes === null || jobBytes === undefined) return line
  const allBytes = line.length + LINE_END.length + Number(jobBytes) + LINE_END.length
  return bytes.byteLength < allBytes ? null : line
}

const LINE_END = '\r\n'
