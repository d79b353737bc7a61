/** NATS JetStream with file storage, its protocol written by hand: publishes that ask for an answer, synced each or by its default. */
import { writeFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { freePort, startServer, untilListening, versionOf } from '../server.ts'
import { Pipe, Repeated, Unread } from './pipe.ts'
import type { Piped, Protocol } from './pipe.ts'

const SERVER = 'nats-server'
const STREAM = 'load'

export async function pipedNats(directory: string, payloadBytes: number, syncs: 'always' | 'default'): Promise<Piped> {
  const version = versionOf(SERVER, '--version', / v(\S+)/)
  const port = await freePort()
  const configuration = join(directory, 'nats.conf')
  const sync = syncs === 'always' ? ', sync_interval: always' : ''
  writeFileSync(
    configuration,
    `listen: "127.0.0.1:${port}"\njetstream { store_dir: ${JSON.stringify(directory)}${sync} }\n`,
  )
  const server = startServer(SERVER, ['-c', configuration])
  await untilListening(server, port)
  let connections = 0
  return {
    name: syncs === 'always' ? 'nats, sync_interval always' : 'nats, which syncs every 2 min',
    version,
    server,
    open: () => Pipe.open(port, protocolOf(`_INBOX.load${connections++}`, payloadBytes)),
  }
}

/** @param inbox of this connection alone, where its answers come */
function protocolOf(inbox: string, payloadBytes: number): Protocol {
  const messages = new Repeated(
    Buffer.from(`PUB ${STREAM} ${inbox} ${payloadBytes}\r\n${'x'.repeat(payloadBytes)}\r\n`),
  )
  const unread = new Unread()
  let write: (text: string) => void = () => {}
  const count = (chunk: Buffer): number => countAnswers(unread, chunk, () => write('PONG\r\n'))
  return {
    encode: (records) => messages.times(records),
    count,
    async greet(socket: Socket) {
      write = (text) => void socket.write(text)
      const config = JSON.stringify({ name: STREAM, subjects: [STREAM], storage: 'file' })
      socket.write(`CONNECT {"verbose":false,"pedantic":false}\r\nSUB ${inbox} 1\r\n`)
      socket.write(`PUB $JS.API.STREAM.CREATE.${STREAM} ${inbox} ${config.length}\r\n${config}\r\n`)
      await new Promise<void>((resolve, reject) => {
        const take = (chunk: Buffer): void => {
          try {
            if (count(chunk) === 0) return
            socket.off('data', take)
            resolve()
          } catch (error) {
            reject(error instanceof Error ? error : new Error(String(error)))
          }
        }
        socket.on('data', take)
      })
    },
  }
}

/** `MSG subject sid bytes`, and the answer in JSON; other lines are the server's greeting and its pings. */
function countAnswers(unread: Unread, chunk: Buffer, pinged: () => void): number {
  const bytes = unread.add(chunk)
  let answers = 0
  let at = 0
  for (;;) {
    const lineEnd = bytes.indexOf('\r\n', at)
    if (lineEnd < 0) break
    const line = bytes.toString('latin1', at, lineEnd)
    if (line.startsWith('-ERR')) throw new Error(`nats answered ${line}`)
    if (line === 'PING') pinged()
    if (!line.startsWith('MSG ')) {
      at = lineEnd + 2
      continue
    }
    const end = lineEnd + 2 + Number(line.slice(line.lastIndexOf(' ') + 1))
    if (end + 2 > bytes.byteLength) break
    if (bytes.includes('"error"', lineEnd) && bytes.toString('utf8', lineEnd + 2, end).includes('"error"')) {
      throw new Error(`nats answered ${bytes.toString('utf8', lineEnd + 2, end)}`)
    }
    answers += 1
    at = end + 2
  }
  unread.keepFrom(at)
  return answers
}
