/** TLS listeners renew their certificates while connections go on, and refuse no client meanwhile. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { describe, it } from 'node:test'
import type { TLSSocket } from 'node:tls'
import { AcceptGate } from '../../src/http/accept-gate.ts'
import { Authority, TlsFilesOnDisk } from '../support/certificates.ts'
import type { Certified } from '../support/certificates.ts'
import { RawClient, answerBodyLength, withServer } from '../support/http-server.ts'
import type { Begin, ServeOptions, TestServer } from '../support/http-server.ts'

const authority = new Authority('servers')
const clients = new Authority('clients')
const localhost = (): Certified => authority.certify([['CN', 'localhost']])

const hello: Begin = (_head, exchange) =>
  exchange.answer(200, 'text/plain', `${exchange.isSecure} ${nameIn(exchange.clientCertificate)}`)
const nameIn = (pem: string): string => (pem === '' ? 'nobody' : new X509Certificate(pem).subject)

interface World extends TestServer {
  readonly files: TlsFilesOnDisk
}

async function withTls(
  test: (world: World) => Promise<void>,
  { asksClients = false, ...options }: ServeOptions & { readonly asksClients?: boolean } = {},
): Promise<void> {
  const files = new TlsFilesOnDisk()
  files.write(localhost(), clients)
  const tls = { ...files.settings, ...(!asksClients && { clientCaFile: null }) }
  const table = { 'GET /': hello, 'POST /': answerBodyLength(1 << 26) }
  await withServer(table, (server) => test({ ...server, files }), { tls, ...options })
}

const open = ({ server }: TestServer, certificate: Certified | null = null): Promise<RawClient> =>
  RawClient.connect(server, { ca: authority.cert, ...certificate })

const GET = 'GET / HTTP/1.1\r\nhost: localhost\r\n\r\n'

async function ask(client: RawClient, request: string | Uint8Array = GET): Promise<string> {
  await client.send(request)
  const reply = await client.reply()
  return reply === null ? 'closed' : `${reply.status} ${reply.body}`
}

/** The certificate that the server showed. */
const shownTo = (client: RawClient): string => (client.socket as TLSSocket).getPeerX509Certificate()!.toString() // `open` makes TLS sockets

describe('a listener of TLS', () => {
  it('answers whoever trusts its certificate, and closes on plain HTTP', () =>
    withTls(async (world) => {
      const client = await open(world)
      assert.equal(await ask(client), '200 true nobody')
      const plain = await RawClient.connect(world.server)
      assert.equal(await ask(plain), 'closed')
      client.destroy()
    }))

  it('takes bodies of many records, pauses included, and requests one after the other', () =>
    withTls(async (world) => {
      const client = await open(world)
      const bytes = 5_000_000
      const head = Buffer.from(`POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${bytes}\r\n\r\n`)
      for (let i = 0; i < 3; i++) {
        assert.equal(await ask(client, Buffer.concat([head, Buffer.alloc(bytes, 'x')])), `200 ${bytes} bytes`)
      }
      client.destroy()
    }))

  it('refuses what could be read in two ways, and serves nothing that hides behind it', () =>
    withTls(async (world) => {
      const smuggled = 'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\ncontent-length: 5\r\n\r\nabc'
      const alone = await open(world)
      assert.match(await ask(alone, smuggled), /^400 malformed/)
      assert.equal(await alone.reply(), null)
      const followed = await open(world)
      assert.equal(await ask(followed, smuggled + GET), 'closed')
    }))

  it('closes when it is told to, under connections that are open', () =>
    withTls(async (world) => {
      const client = await open(world)
      assert.equal(await ask(client), '200 true nobody')
      world.files.write(localhost(), clients)
      world.server.renewTls(NO_MATERIAL)
      const second = await open(world)
      await world.server.close({ withinMs: 1000 })
      await client.closed()
      await second.closed()
    }))
})

/** Unused material: the library reads the files itself. */
const NO_MATERIAL = { cert: '', key: '', clientCa: null, validTo: '' }

describe('certificates of clients', () => {
  const ci = clients.certify([
    ['O', 'acme'],
    ['CN', 'ci'],
  ])

  it('are seen by the service when an authority of the operator signed them', () =>
    withTls(
      async (world) => {
        const known = await open(world, ci)
        assert.equal(await ask(known), '200 true O=acme\nCN=ci')
        const nobody = await open(world)
        assert.equal(await ask(nobody), '200 true nobody')
        const foreign = await open(world, authority.certify([['CN', 'ci']]))
        assert.equal(await ask(foreign), 'closed')
        for (const each of [known, nobody, foreign]) each.destroy()
      },
      { asksClients: true },
    ))

  it('are asked for by a service that says what it answers without', () =>
    withTls(
      async (world) => {
        const nobody = await open(world)
        const known = await open(world, ci)
        assert.equal(await ask(nobody), '401 no certificate')
        assert.equal(await ask(nobody, GET.replace('/', '/nowhere')), '401 no certificate')
        assert.equal(await ask(known), '200 true O=acme\nCN=ci')
        for (const each of [known, nobody]) each.destroy()
      },
      { asksClients: true, asksForCertificate: true },
    ))
})

describe('renewal', () => {
  it('shows new connections the new certificate, and keeps those that there are', () =>
    withTls(async (world) => {
      const before = await open(world)
      assert.equal(await ask(before), '200 true nobody')
      const { port } = world.server
      for (let i = 0; i < 3; i++) {
        const renewed = localhost()
        world.files.write(renewed)
        world.server.renewTls(NO_MATERIAL)
        const after = await open(world)
        assert.equal(shownTo(after), renewed.cert)
        assert.equal(await ask(after), '200 true nobody')
        after.destroy()
      }
      assert.equal(world.server.port, port)
      assert.notEqual(shownTo(before), (await renewedOf(world)).cert)
      assert.equal(await ask(before), '200 true nobody')
      before.destroy()
    }))

  it('takes bad files for none: what there is goes on', () =>
    withTls(async (world) => {
      const first = await renewedOf(world)
      writeFileSync(world.files.key, 'no key')
      assert.throws(() => world.server.renewTls(NO_MATERIAL), { code: 'tls_files_refused' })
      const client = await open(world)
      assert.equal(shownTo(client), first.cert)
      client.destroy()
    }))

  it('turns no client away that connects at that very moment', () =>
    withTls(async (world) => {
      const served = async (): Promise<string> => {
        const client = await open(world)
        const reply = await ask(client)
        client.destroy()
        return reply
      }
      for (let i = 0; i < 50; i++) {
        const all = [served(), served()]
        world.server.renewTls(NO_MATERIAL)
        all.push(served())
        await new Promise((resolve) => setImmediate(resolve))
        all.push(served())
        world.server.renewTls(NO_MATERIAL)
        assert.deepEqual(await Promise.all(all), Array<string>(4).fill('200 true nobody'))
      }
    }))

  it('leaves the gate in charge of accepting', async () => {
    let hasRoom = true
    const clock = { nowMs: () => 0, every: (_ms: number, task: () => void) => ((look = task), () => {}) }
    let look = (): void => {}
    const gate = new AcceptGate(
      { clock, logger: { warn: () => {} } },
      { limit: () => 1000, hasOneBelow: () => hasRoom },
    )
    await withTls(
      async (world) => {
        await renewedOf(world)
        hasRoom = false
        const last = await open(world) // accepted before the gate closes
        const waiting = connect(world.server.port, '127.0.0.1')
        assert.equal(gate.pauses, 1)
        hasRoom = true
        look()
        const next = await open(world)
        assert.equal(await ask(next), '200 true nobody')
        for (const each of [last, next, waiting]) each.destroy()
      },
      { acceptGate: gate },
    )
  })
})

async function renewedOf(world: World): Promise<Certified> {
  const renewed = localhost()
  world.files.write(renewed)
  world.server.renewTls(NO_MATERIAL)
  const client = await open(world)
  assert.equal(shownTo(client), renewed.cert)
  client.destroy()
  return renewed
}
