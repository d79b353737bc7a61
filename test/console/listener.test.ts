/** Issue "The console", 1: the clients that the listener serves, and the requests that it hands on. The services are servers of the test. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, request } from 'node:http'
import type { IncomingMessage, OutgoingHttpHeaders, RequestListener, Server } from 'node:http'
import { connect, createServer as createSocketServer } from 'node:net'
import type { AddressInfo, Server as SocketServer } from 'node:net'
import { buffer, text } from 'node:stream/consumers'
import { describe, it } from 'node:test'
import { promisify } from 'node:util'
import { openConsole } from '../../src/console/console.ts'
import type { ServicePlace } from '../../src/console/console.ts'
import { eventually } from '../support/waiting.ts'

const URLS = { logstore: null, objectstore: null, broker: null }

interface Heard {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage['headers']
}

interface World {
  readonly console: string
  readonly service: Server
  readonly heard: Heard[]
  readonly warnings: string[]
}

const addressOf = (server: Server | SocketServer): string => `127.0.0.1:${(server.address() as AddressInfo).port}`

/** Runs a console whose only service is a broker. */
async function withConsole(
  serve: RequestListener,
  run: (world: World) => Promise<void>,
  place: Partial<ServicePlace> = {},
): Promise<void> {
  const heard: Heard[] = []
  const service = createServer((asked, answer) => {
    heard.push({ method: asked.method!, url: asked.url!, headers: asked.headers })
    serve(asked, answer)
  })
  await once(service.listen(0, '127.0.0.1'), 'listening')
  const warnings: string[] = []
  const logger = {
    info: assert.fail,
    warn: (_details: object, message: string) => void warnings.push(message),
    error: assert.fail,
  }
  const target = { url: `http://${addressOf(service)}`, isLocal: true, headers: ['x-obj-', 'range'] }
  const broker = { target, access: 'none' as const, region: null, ...place }
  const services = { logstore: null, objectstore: null, broker }
  const config = {
    bind: { host: '127.0.0.1', port: 0 },
    tls: null,
    isAsked: true,
    allowedHosts: [],
    urls: URLS,
    unknownSettings: [],
  }
  const console = await openConsole(config, { version: '1.2.3', logger, services })
  try {
    await run({ console: console.http!, service, heard, warnings })
  } finally {
    await console.close({ withinMs: 0 })
    service.closeAllConnections()
    service.close()
  }
}

interface Answer {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly text: string
}

/** A request as a browser sends it: also sets headers that a page cannot set. */
async function ask(
  address: string,
  path: string,
  { method = 'GET', headers = {}, body = '' }: { method?: string; headers?: OutgoingHttpHeaders; body?: string } = {},
): Promise<Answer> {
  const [host, port] = address.split(':')
  const asked = request({
    host,
    port,
    path,
    method,
    headers: { ...(body && { 'content-length': body.length }), ...headers },
  })
  asked.end(body)
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  return { status: answer.statusCode!, headers: answer.headers, text: await text(answer) }
}

const hello: RequestListener = (_asked, answer) => answer.end('hello')

describe('the listener of the console', () => {
  it('serves its page under every path of it, and forbids that anything else runs or frames it', () =>
    withConsole(hello, async ({ console }) => {
      for (const path of ['/', '/streams/orders?tab=groups', '/nothing']) {
        const page = await ask(console, path)
        assert.equal(page.status, 200)
        assert.match(page.text, /<script type="module" src="\/assets\/[0-9a-f]{16}\/page\/main\.[tj]s">/)
        assert.equal(page.headers['x-frame-options'], 'DENY')
        const policy = String(page.headers['content-security-policy'])
        assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self'/)
        assert.doesNotMatch(policy, /unsafe|https?:/)
        assert.equal(page.headers['cache-control'], 'no-cache')
      }
    }))

  it('serves the files that the page names, compressed, and keeps nobody waiting for what they have', () =>
    withConsole(hello, async ({ console }) => {
      const { text: index, headers } = await ask(console, '/')
      const files = [...index.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path!)
      assert.ok(files.length > 5)
      for (const path of files) {
        const file = await ask(console, path, { headers: { 'accept-encoding': 'gzip, br' } })
        assert.equal(file.status, 200, path)
        assert.equal(file.headers['content-encoding'], 'br')
        assert.match(file.headers['cache-control']!, /immutable/)
        assert.equal((await ask(console, path, { headers: { 'if-none-match': file.headers.etag } })).status, 304)
      }
      assert.equal((await ask(console, '/', { headers: { 'if-none-match': headers.etag } })).status, 304)
      assert.equal((await ask(console, '/assets/0/page/main.ts')).status, 404)
    }))

  it('loads any page for the first time with less than 110 KiB, and all of them with less than 150', () =>
    withConsole(hello, async ({ console }) => {
      const sizes = new Map<string, number>()
      for (const page of ['/', '/logs', '/traces/0a', '/objects/photos', '/streams/orders', '/audit']) {
        const { text: index } = await ask(console, page)
        let bytes = 0
        for (const path of new Set(Array.from(index.matchAll(/(?:src|href)="([^"]+)"/g), ([, each]) => each!))) {
          const asked = { method: 'HEAD', headers: { 'accept-encoding': 'br' } }
          const size = sizes.get(path) ?? Number((await ask(console, path, asked)).headers['content-length'])
          sizes.set(path, size)
          bytes += size
        }
        assert.ok(bytes < 110 * 1024, `${page}: ${bytes} bytes`)
      }
      const all = [...sizes.values()].reduce((sum, size) => sum + size, 0)
      assert.ok(all > 100_000 && all < 150 * 1024, `${all} bytes`)
    }))

  it('refuses methods that pages do not take, and names those that they take', () =>
    withConsole(hello, async ({ console }) => {
      for (const path of ['/', '/streams/orders', '/console.json']) {
        const { status, headers } = await ask(console, path, { method: 'DELETE' })
        assert.deepEqual([status, headers.allow], [405, 'GET, HEAD'], path)
      }
    }))

  it('says which services there are, and what each asks of a visitor', () =>
    withConsole(hello, async ({ console, service }) => {
      assert.deepEqual(JSON.parse((await ask(console, '/console.json')).text), {
        version: '1.2.3',
        services: {
          logstore: null,
          objectstore: null,
          broker: { url: `http://${addressOf(service)}`, access: 'none', region: null },
        },
      })
      const absent = await ask(console, '/logstore/health')
      assert.equal(absent.status, 404)
      assert.match(absent.text, /the console has no logstore/)
    }))

  it('answers no name but its own', () =>
    withConsole(hello, async ({ console, heard }) => {
      const port = console.split(':')[1]!
      for (const path of ['/', '/console.json', '/broker/v1/streams']) {
        for (const host of ['evil.example', `evil.example:${port}`, '10.0.0.1']) {
          const refused = await ask(console, path, { headers: { host } })
          assert.ok([400, 403].includes(refused.status), host)
        }
        for (const host of [`localhost:${port}`, '127.0.0.1', '[::1]']) {
          assert.equal((await ask(console, path, { headers: { host } })).status, 200, host)
        }
      }
      assert.equal(heard.length, 3)
    }))

  it('lets no other page read or change anything, one of this machine included', () =>
    withConsole(hello, async ({ console, heard }) => {
      const foreign: OutgoingHttpHeaders[] = [
        { origin: 'http://evil.example' },
        { origin: 'http://localhost:3000' },
        { origin: 'null' },
        { 'sec-fetch-site': 'cross-site' },
        { 'sec-fetch-site': 'same-site' },
        { 'sec-fetch-site': 'same-origin', origin: `http://${console}0` },
      ]
      for (const method of ['GET', 'POST', 'PUT', 'DELETE']) {
        for (const headers of foreign) {
          const refused = await ask(console, '/broker/v1/streams', { method, headers })
          assert.equal(refused.status, 403, `${method} ${JSON.stringify(headers)}`)
        }
        const own = { 'sec-fetch-site': 'same-origin', origin: `http://${console}`, host: console }
        assert.equal((await ask(console, '/broker/v1/streams', { method, headers: own })).status, 200)
      }
      assert.equal(
        (await ask(console, '/broker/x', { method: 'POST', headers: { 'sec-fetch-site': 'none' } })).status,
        403,
      )
      assert.equal(heard.length, 4)
    }))

  it('gives data to nobody who would run them, and has what is opened by its address saved', () =>
    withConsole(
      (_asked, answer) => {
        answer.writeHead(200, {
          'content-type': 'text/html',
          'set-cookie': 'a=b',
          'access-control-allow-origin': '*',
          'content-security-policy': 'script-src *',
        })
        answer.end('<script>alert(1)</script>')
      },
      async ({ console }) => {
        for (const dest of ['script', 'style', 'iframe', 'worker', 'object', 'image']) {
          const refused = await ask(console, '/broker/b/x.js', { headers: { 'sec-fetch-dest': dest } })
          assert.equal(refused.status, 403, dest)
        }
        const { headers } = await ask(console, '/broker/b/x.html', { headers: { 'sec-fetch-dest': 'document' } })
        assert.equal(headers['content-disposition'], 'attachment')
        assert.equal(headers['content-security-policy'], "default-src 'none'; sandbox")
        assert.equal(headers['x-content-type-options'], 'nosniff')
        assert.deepEqual([headers['set-cookie'], headers['access-control-allow-origin']], [undefined, undefined])
      },
    ))

  it('hands on path and query as they are, and of the headers those that the service reads', () =>
    withConsole(hello, async ({ console, heard, service }) => {
      const path = '/b/a%2F..%2Fb%20c+d//e?x=%2f&list-type=2'
      const headers = {
        authorization: 'Bearer k',
        'x-obj-meta-a': '1',
        range: 'bytes=0-1',
        cookie: 'a=b',
        referer: `http://${console}/`,
        'x-forwarded-for': '10.0.0.1',
        'x-auth-tenant': 'admin',
        connection: 'close',
      }
      assert.equal((await ask(console, `/broker${path}`, { method: 'PUT', headers, body: 'body' })).text, 'hello')
      assert.equal(heard[0]!.url, path)
      assert.deepEqual(heard[0]!.headers, {
        authorization: 'Bearer k',
        connection: 'keep-alive',
        'content-length': '4',
        host: addressOf(service),
        range: 'bytes=0-1',
        'x-obj-meta-a': '1',
      })
      const kept = promisify(service.getConnections.bind(service))
      await eventually(async () => (await kept()) === 0)
    }))

  const mebibytes = 64
  const piece = Buffer.alloc(1024 * 1024, 'x')
  /** Waits until the count no longer grows: all buffers are full. */
  const standsStill = async (count: () => number): Promise<void> =>
    eventually(async () => {
      const before = count()
      for (let turns = 0; turns < 20; turns++) await new Promise((resolve) => setImmediate(resolve))
      return before > 0 && count() === before
    })

  it('takes no more of an answer than its reader does', async () => {
    let sent = 0
    await withConsole(
      (_asked, answer) => {
        const send = async (): Promise<void> => {
          for (; sent < mebibytes; sent++) if (!answer.write(piece)) await once(answer, 'drain')
          answer.end()
        }
        void send()
      },
      async ({ console }) => {
        const [host, port] = console.split(':')
        const socket = connect(Number(port), host) // not read yet
        socket.write(`GET /broker/x HTTP/1.1\r\nhost: ${console}\r\nconnection: close\r\n\r\n`)
        await standsStill(() => sent)
        assert.ok(sent < mebibytes / 2, `${sent} MiB were taken although nobody read them`)
        assert.ok((await buffer(socket)).byteLength > mebibytes * piece.byteLength)
      },
    )
  })

  it('brings a refusal before the service has read the body', async () => {
    await withConsole(
      (asked, answer) => {
        if (asked.headers.connection === 'close') return // like the services, which would lose the answer by closing the connection
        answer.writeHead(413)
        answer.end('too large')
        asked.pause()
      },
      async ({ console }) => {
        const [host, port] = console.split(':')
        const socket = connect(Number(port), host).on('error', () => {})
        const length = mebibytes * piece.byteLength
        socket.write(
          `PUT /broker/x HTTP/1.1\r\nhost: ${console}\r\nconnection: close\r\ncontent-length: ${length}\r\n\r\n`,
        )
        for (let i = 0; i < mebibytes; i++) socket.write(piece)
        let heard = ''
        socket.on('data', (bytes: Buffer) => (heard += bytes.toString('latin1')))
        await eventually(() => heard.includes('too large'))
        assert.match(heard, /^HTTP\/1.1 413 /)
        socket.destroy()
      },
    )
  })

  it('takes no more of a body than the service does', async () => {
    let reading = (): void => {}
    const mayRead = new Promise<void>((resolve) => (reading = resolve))
    await withConsole(
      (asked, answer) => {
        const echo = async (): Promise<void> => {
          await mayRead
          const { byteLength } = await buffer(asked)
          answer.writeHead(200, { 'x-taken': String(byteLength) })
          for (let sent = 0; sent < mebibytes; sent++) if (!answer.write(piece)) await once(answer, 'drain')
          answer.end()
        }
        void echo()
      },
      async ({ console }) => {
        const [host, port] = console.split(':')
        const socket = connect(Number(port), host)
        const length = mebibytes * piece.byteLength
        socket.write(
          `POST /broker/x HTTP/1.1\r\nhost: ${console}\r\nconnection: close\r\ncontent-length: ${length}\r\n\r\n`,
        )
        let taken = 0
        for (let i = 0; i < mebibytes; i++) socket.write(piece, () => (taken += 1))
        await standsStill(() => socket.bytesWritten - socket.writableLength)
        assert.ok(taken < mebibytes / 2, `${taken} MiB were taken although nobody read them`)
        reading()
        const all = await buffer(socket)
        assert.match(all.toString('latin1', 0, 200), new RegExp(`x-taken: ${length}`))
        assert.ok(all.byteLength > length)
      },
    )
  })

  it('ends a request of the service when the visitor leaves', () => {
    let left = false
    return withConsole(
      (asked) => asked.once('close', () => (left = true)),
      async ({ console, heard }) => {
        const [host, port] = console.split(':')
        const asked = request({ host, port, path: '/broker/v1/streams' }).on('error', () => {})
        asked.end()
        await eventually(() => heard.length === 1)
        asked.destroy()
        await eventually(() => left)
      },
    )
  })

  it('says that a service does not answer', () =>
    withConsole(hello, async ({ console, service }) => {
      service.closeAllConnections()
      await new Promise((resolve) => service.close(resolve))
      const away = await ask(console, '/broker/health', { method: 'PUT', body: 'x' })
      assert.equal(away.status, 502)
      assert.match(away.text, /^\{"console":\{"message":"http:.+ does not answer: ECONNREFUSED"\}\}\n$/)
    }))

  it('gives every visitor an answer, whatever the service sends', async () => {
    const answers = [
      ['HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n', 502],
      ['HTTP/1.1 099 Odd\r\ncontent-length: 2\r\n\r\nok', 502],
      ['hello\r\n\r\n', 502],
      ['HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n', 204],
      ['HTTP/1.1 200 OK\r\nupgrade: x\r\nconnection: upgrade\r\ncontent-length: 2\r\n\r\nok', 200],
      ['HTTP/1.1 999 Odd\r\ncontent-length: 2\r\n\r\nok', 999],
    ] as const
    for (const [sent, status] of answers) {
      const service = createSocketServer((socket) => {
        socket.on('error', () => {}) // the console may reset it
        socket.once('data', () => socket.write(sent))
      })
      await once(service.listen(0, '127.0.0.1'), 'listening')
      const target = { url: `http://${addressOf(service)}`, isLocal: false, headers: [] }
      await withConsole(hello, async ({ console }) => assert.equal((await ask(console, '/broker/x')).status, status), {
        target,
      })
      service.close()
    }
  })

  it('goes without an address that is taken, unless somebody asked for it', () =>
    withConsole(hello, async ({ console }) => {
      const warnings: string[] = []
      const dependencies = {
        version: '',
        logger: {
          info: assert.fail,
          warn: (_details: object, message: string) => void warnings.push(message),
          error: assert.fail,
        },
        services: URLS,
      }
      const port = Number(console.split(':')[1])
      const config = { bind: { host: '127.0.0.1', port }, tls: null, allowedHosts: [], urls: URLS, unknownSettings: [] }
      assert.equal((await openConsole({ ...config, isAsked: false }, dependencies)).http, null)
      assert.match(
        warnings.join(),
        /^TRILOG_CONSOLE_BIND: cannot listen on 127.0.0.1:\d+, the port is taken: this process has no/,
      )
      await assert.rejects(openConsole({ ...config, isAsked: true }, dependencies), {
        code: 'http_bind_failed',
        message: `TRILOG_CONSOLE_BIND: cannot listen on ${console}, the port is taken`,
      })
    }))
})
