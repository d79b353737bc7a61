/** Redis streams: XADD, pipelined, with the append-only file synced before an answer. */
import { respCommand } from '../resp.ts'
import { freePort, startServer, untilListening, versionOf } from '../server.ts'
import { Pipe, Repeated, Unread } from './pipe.ts'
import type { Piped, Protocol } from './pipe.ts'

const STREAM = 'load'
const LINE_END = '\r\n'

export async function pipedRedis(directory: string, payloadBytes: number): Promise<Piped> {
  const version = versionOf('redis-server', '--version', /v=(\S+)/)
  const port = await freePort()
  const place = ['--port', String(port), '--bind', '127.0.0.1', '--dir', directory, '--daemonize', 'no']
  const server = startServer('redis-server', [...place, '--save', '', '--appendonly', 'yes', '--appendfsync', 'always'])
  await untilListening(server, port)
  const add = respCommand('XADD', STREAM, '*', 'payload', 'x'.repeat(payloadBytes))
  return {
    name: 'redis, appendfsync always',
    version,
    server,
    open: () => Pipe.open(port, protocolOf(add)),
  }
}

/** An answer is the length of an id on a line, and the id on the next. */
function protocolOf(add: Buffer): Protocol {
  const messages = new Repeated(add)
  const unread = new Unread()
  return {
    encode: (records) => messages.times(records),
    count(chunk) {
      const bytes = unread.add(chunk)
      let records = 0
      let at = 0
      for (;;) {
        const lengthEnd = bytes.indexOf(LINE_END, at)
        const idEnd = lengthEnd < 0 ? -1 : bytes.indexOf(LINE_END, lengthEnd + 2)
        if (idEnd < 0) break
        if (bytes[at] !== 0x24) throw new Error(`redis answered '${bytes.toString('latin1', at, lengthEnd)}'`)
        records += 1
        at = idEnd + 2
      }
      unread.keepFrom(at)
      return records
    },
  }
}
