/** More connections than the process may have open files (`ulimit -n`). */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { describe, it } from 'node:test'
import { eventually, timePasses } from '../../support/waiting.ts'
import { temporaryDirectory } from '../../support/directories.ts'
import { launch } from '../../support/process.ts'

const OPEN_FILES_MAX = 256
const CONNECTIONS = 600
const GET = 'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n'

class Client {
  received = ''
  isClosed = false
  readonly #socket: Socket

  /** A gRPC server speaks first, an HTTP server when it is asked. */
  constructor(address: string, asks: boolean) {
    const [host, port] = address.split(':')
    this.#socket = connect(Number(port), host)
    this.#socket.on('data', (bytes) => (this.received += bytes.toString('latin1')))
    this.#socket.on('error', (error) => assert.fail(error))
    this.#socket.on('close', () => (this.isClosed = true))
    if (asks) this.ask()
  }

  ask(): void {
    this.#socket.write(GET)
  }

  get isServed(): boolean {
    return this.received !== ''
  }

  close(): void {
    this.#socket.destroy()
  }
}

describe('with more connections than open files', () => {
  it('those that are there are served, the others wait without taking time, and are served when there is room', async () => {
    const [child, ready] = await launch({
      entry: 'src/start.js',
      args: ['--services', 'logstore'],
      env: {
        LOGSTORE_BIND_ADDRESS: '127.0.0.1:0',
        LOGSTORE_OTLP_GRPC_BIND_ADDRESS: '127.0.0.1:0',
        LOGSTORE_DATA_DIR: temporaryDirectory(),
      },
      openFilesMax: OPEN_FILES_MAX,
    })
    const clients = Array.from({ length: CONNECTIONS }, (_, i) =>
      i % 3 === 0 ? new Client(ready.grpc!, false) : new Client(ready.http, true),
    )
    const served = (): Client[] => clients.filter(({ isServed }) => isServed)
    await eventually(() => child.stderr.includes('ulimit -n'))
    assert.ok(served().length < OPEN_FILES_MAX)

    const cpuBeforeMs = child.cpuMs
    await timePasses(2000) // processor time is measured over this time
    const takenMs = child.cpuMs - cpuBeforeMs
    assert.ok(takenMs < 300, `it took ${takenMs} ms in 2 s`)

    const there = new Client(ready.http, true) // waits, too
    const first = served().find(({ received, isClosed }) => received.startsWith('HTTP') && !isClosed)!
    first.received = ''
    first.ask()
    await eventually(() => /logstore_accept_pauses_total [1-9]/.test(first.received))

    const due = [...clients, there]
    await eventually(() => {
      for (const client of due) if (client.isServed) client.close()
      return due.every(({ isServed }) => isServed)
    })
    assert.equal(child.stderr.match(/ulimit -n/g)!.length, 1)
    child.signal('SIGTERM')
    assert.equal(await child.end(), 0)
  })
})
