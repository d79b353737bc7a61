/**
 * The same small files read from trilog's object store and from nginx, one after the other in one run, on this machine's loopback: GET and
 * HEAD, each connection with one request in flight. nginx sends files with sendfile and checks nothing: it is the line to reach.
 *
 *   node scripts/compare/object-peers.ts [--duration 5s] [--connections 64] [--objects 1000] [--object-bytes 4096] [--rounds 2]
 *
 * nginx is taken from PATH (Debian: apt-get install nginx-light), with one worker, as trilog has one thread for its sockets. Exits with 0 when
 * both were measured, 1 when one failed.
 */
import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { HttpConnection } from '../../bench/load/http-connection.ts'
import { freePort, killAll, startServer, until, untilListening } from './server.ts'
import type { Server } from './server.ts'

const { values } = parseArgs({
  options: {
    duration: { type: 'string', default: '5s' },
    connections: { type: 'string', default: '64' },
    objects: { type: 'string', default: '1000' },
    'object-bytes': { type: 'string', default: '4096' },
    rounds: { type: 'string', default: '2' },
  },
})
const durationMs = Number(values.duration.replace(/s$/, '')) * 1000
const connections = Number(values.connections)
const objects = Number(values.objects)
const body = Buffer.alloc(Number(values['object-bytes']), 'x')
const MAIN = fileURLToPath(new URL('../../src/start.js', import.meta.url))
const READY = /^ready (\{.*\})$/m
const MINUTE_MS = 60_000
const NONE = Buffer.alloc(0)

interface Peer {
  readonly name: string
  readonly port: number
  readonly server: Server
}

const pathOf = (number: number): string => `/files/${String(number % objects).padStart(6, '0')}`

const requestOf = (method: string, port: number, number: number, headers = ''): Buffer =>
  Buffer.from(`${method} ${pathOf(number)} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n${headers}\r\n`)

async function connectionTo(port: number): Promise<HttpConnection> {
  const connection = new HttpConnection({
    target: { host: '127.0.0.1', port },
    timeoutMs: MINUTE_MS,
    nowMs: () => performance.now(),
  })
  await connection.open()
  return connection
}

async function startNginx(directory: string): Promise<Peer> {
  const port = await freePort()
  mkdirSync(join(directory, 'files'), { recursive: true })
  for (let number = 0; number < objects; number++) writeFileSync(join(directory, pathOf(number)), body)
  const configuration = `
    worker_processes 1; daemon off; pid ${directory}/pid; error_log ${directory}/errors.log;
    events { worker_connections 4096; }
    http {
      access_log off; sendfile on; tcp_nodelay on; keepalive_requests 1000000000; open_file_cache max=100000;
      client_body_temp_path ${directory}/body; proxy_temp_path ${directory}/proxy; fastcgi_temp_path ${directory}/fastcgi;
      uwsgi_temp_path ${directory}/uwsgi; scgi_temp_path ${directory}/scgi;
      server { listen 127.0.0.1:${port}; root ${directory}; }
    }`
  writeFileSync(join(directory, 'nginx.conf'), configuration)
  const server = startServer('nginx', ['-c', join(directory, 'nginx.conf')])
  await untilListening(server, port)
  return { name: 'nginx', port, server }
}

async function startTrilog(directory: string): Promise<Peer> {
  const server = startServer(process.execPath, [MAIN, '--services', 'objectstore'], {
    env: { OBJSTORE_BIND_ADDRESS: '127.0.0.1:0', OBJSTORE_DATA_DIR: directory, TRILOG_LOG_LEVEL: 'warn' },
  })
  await until(server, () => READY.test(server.stdout()))
  const { http } = JSON.parse(READY.exec(server.stdout())![1]!) as { http: string } // as the contract says
  const port = Number(http.split(':')[1])
  const connection = await connectionTo(port)
  const created = await connection.send(
    Buffer.from(`PUT /files HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\ncontent-length: 0\r\n\r\n`),
    NONE,
  )
  assert.equal(created.status, 200)
  for (let number = 0; number < objects; number++) {
    const head = requestOf('PUT', port, number, `content-length: ${body.byteLength}\r\n`)
    assert.equal((await connection.send(head, body)).status, 200)
  }
  connection.destroy()
  return { name: 'trilog', port, server }
}

/** Requests a second. */
async function measure({ port }: Peer, method: 'GET' | 'HEAD'): Promise<number> {
  const requests = Array.from({ length: objects }, (_, number) => requestOf(method, port, number))
  const endMs = performance.now() + durationMs
  let answered = 0
  const worker = async (_: unknown, first: number): Promise<void> => {
    const connection = await connectionTo(port)
    for (let number = first; performance.now() < endMs; number++) {
      const { status } = await connection.send(requests[number % objects]!, NONE)
      assert.equal(status, 200)
      answered += 1
    }
    connection.destroy()
  }
  await Promise.all(Array.from({ length: connections }, worker))
  return answered / (durationMs / 1000)
}

const directory = mkdtempSync(join(tmpdir(), 'trilog-object-peers-'))
chmodSync(directory, 0o755) // nginx reads as another user
const peers: Peer[] = []
try {
  peers.push(await startNginx(join(directory, 'nginx')), await startTrilog(join(directory, 'trilog')))
  console.log('| server | GET/s | HEAD/s |\n|---|---|---|')
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const peer of peers) {
      const [get, head] = [await measure(peer, 'GET'), await measure(peer, 'HEAD')]
      console.log(`| ${peer.name} | ${Math.round(get)} | ${Math.round(head)} |`)
    }
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
} finally {
  for (const { server } of peers) await server.stop()
  killAll()
  rmSync(directory, { recursive: true, force: true })
}
