/** Every listener over TLS, in one process: real requests, clients with certificates of an authority, and certificates that SIGHUP renews. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { connect } from 'node:tls'
import { after, describe, it } from 'node:test'
import { Client, Metadata, credentials, status } from '@grpc/grpc-js'
import type { ServiceError } from '@grpc/grpc-js'
import { EXPORT_METHODS } from '../src/logstore/grpc/export-methods.ts'
import { Authority, TlsFilesOnDisk } from './support/certificates.ts'
import type { Certified } from './support/certificates.ts'
import { temporaryDirectory } from './support/directories.ts'
import { DEVELOPMENT_CREDENTIALS } from './support/logstore.ts'
import { RunningService, launch } from './support/process.ts'
import type { Command, ReadyLine } from './support/process.ts'
import { LIMIT_MS, eventually } from './support/waiting.ts'

const servers = new Authority('servers')
const clients = new Authority('clients')
const files = new TlsFilesOnDisk()
const renew = (): Certified => {
  const certified = servers.certify([['CN', 'localhost']])
  files.write(certified, clients)
  return certified
}
renew()
const ci = clients.certify([['CN', 'ci']])

const directory = temporaryDirectory()
const BINDS = {
  LOGSTORE: ['LOGSTORE_BIND_ADDRESS', 'LOGSTORE_OTLP_GRPC_BIND_ADDRESS'],
  OBJSTORE: ['OBJSTORE_BIND_ADDRESS'],
  MQ: ['MQ_HTTP_BIND'],
  TRILOG_CONSOLE: ['TRILOG_CONSOLE_BIND'],
} as const
const environment = Object.entries(BINDS).flatMap(([prefix, binds]) => [
  ...binds.map((name) => [name, '127.0.0.1:0']),
  ...(prefix === 'TRILOG_CONSOLE' ? [] : [[`${prefix}_DATA_DIR`, `${directory}/${prefix}`]]),
  [`${prefix}_TLS_CERT_FILE`, files.cert],
  [`${prefix}_TLS_KEY_FILE`, files.key],
  [`${prefix}_TLS_CLIENT_CA_FILE`, files.clientCa],
])

/** All three services and the console in one process. */
class Trilog extends RunningService {
  static async start(): Promise<Trilog> {
    const command: Command = { entry: 'src/start.js', args: [], env: Object.fromEntries(environment) }
    const launched = await launch(command)
    const trilog = new Trilog(command, launched)
    await eventually(() => trilog.ready.length === 4)
    return trilog
  }

  get ready(): readonly ReadyLine[] {
    return Array.from(this.stdout.matchAll(/^ready (\{.*\})$/gm), ([, line]) => JSON.parse(line!) as ReadyLine)
  }
}

const trilog = await Trilog.start()
after(() => trilog.kill())
const ofService = (service: string): ReadyLine => trilog.ready.find((each) => each.service === service)!

interface Answer {
  /** Local port of the connection: answers with the same port came over the same connection. */
  readonly port: number | undefined
  readonly status: number
  readonly text: string
}

interface Asked {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly agent?: Agent
}

const agentOf = (certificate: Certified | null): Agent =>
  new Agent({ keepAlive: true, maxSockets: 1, ca: servers.cert, ...certificate })

function ask(
  service: string,
  path: string,
  { method = 'GET', headers = {}, body = '', agent }: Asked,
): Promise<Answer> {
  const all = { ...headers, 'content-length': String(Buffer.byteLength(body)) }
  return new Promise((resolve, reject) => {
    const url = `https://${ofService(service).http}${path}`
    const asking = request(url, { method, headers: all, agent }, (reply) => {
      const chunks: Buffer[] = []
      const port = reply.socket.localPort
      reply.on('data', (chunk: Buffer) => chunks.push(chunk))
      reply.on('error', reject)
      reply.on('end', () => resolve({ port, status: reply.statusCode!, text: Buffer.concat(chunks).toString() }))
    })
    asking.on('error', reject)
    asking.end(body)
  })
}

const { tenant, token } = DEVELOPMENT_CREDENTIALS
const LOG_HEADERS = { 'x-logstore-tenant': tenant, authorization: `Bearer ${token}` }
const JSON_HEADERS = { 'content-type': 'application/json' }
const RESOURCE = { attributes: [{ key: 'tenant_id', value: { stringValue: tenant } }] }
const EXPORT = JSON.stringify({
  resourceLogs: [
    { resource: RESOURCE, scopeLogs: [{ logRecords: [{ timeUnixNano: '1', body: { stringValue: 'hello' } }] }] },
  ],
})
const OPEN_POLICY = JSON.stringify({
  Version: '2012-10-17',
  Statement: [
    {
      Effect: 'Deny',
      Principal: '*',
      Action: 's3:PutObject',
      Resource: 'arn:aws:s3:::secured/*',
      Condition: { Bool: { 'aws:SecureTransport': 'false' } },
    },
  ],
})

/** Requests to each service that change something and, except for the log store, read it. */
const ROUNDS: Readonly<Record<string, (agent: Agent) => Promise<readonly Answer[]>>> = {
  logstore: async (agent) => [
    await ask('logstore', '/v1/otlp/logs', {
      method: 'POST',
      headers: { ...LOG_HEADERS, ...JSON_HEADERS },
      body: EXPORT,
      agent,
    }),
    await ask('logstore', '/health', { agent }),
  ],
  objectstore: async (agent) => {
    const owner = { 'x-obj-principal': 'owner' }
    return [
      await ask('objectstore', '/secured', { method: 'PUT', headers: owner, agent }),
      await ask('objectstore', '/secured?policy', { method: 'PUT', headers: owner, body: OPEN_POLICY, agent }),
      await ask('objectstore', '/secured/a', { method: 'PUT', headers: owner, body: 'content', agent }),
      await ask('objectstore', '/secured/a', { headers: owner, agent }),
    ]
  },
  broker: async (agent) => [
    await ask('broker', '/v1/streams/orders', { method: 'PUT', agent }),
    await ask('broker', '/v1/streams/orders/records', {
      method: 'POST',
      headers: JSON_HEADERS,
      body: JSON.stringify({ message_id: 'm', payload: 'p' }),
      agent,
    }),
    await ask('broker', '/v1/streams/orders/records', { agent }),
  ],
}

/** The status code of an export call over gRPC. */
function exportOver(certificate: Certified | null): Promise<number> {
  const pem = (text: string): Buffer => Buffer.from(text)
  const channel = credentials.createSsl(
    pem(servers.cert),
    certificate && pem(certificate.key),
    certificate && pem(certificate.cert),
  )
  const client = new Client(ofService('logstore').grpc!, channel)
  const metadata = new Metadata()
  for (const [name, value] of Object.entries(LOG_HEADERS)) metadata.set(name, value)
  const { path } = EXPORT_METHODS[0]!
  return new Promise((resolve) => {
    const same = (bytes: Buffer): Buffer => bytes
    const done = (error: ServiceError | null): void => {
      client.close()
      resolve(error?.code ?? status.OK)
    }
    const deadline = Date.now() + LIMIT_MS
    client.makeUnaryRequest(path, same, same, Buffer.alloc(0), metadata, { deadline }, done)
  })
}

/** The certificate that the listener at an address shows now. */
function shownAt(address: string): Promise<string> {
  const [host, port] = address.split(':')
  return new Promise((resolve, reject) => {
    const socket = connect(
      { host, port: Number(port), ca: servers.cert, ...ci, ALPNProtocols: ['h2', 'http/1.1'] },
      () => {
        resolve(socket.getPeerX509Certificate()!.toString())
        socket.destroy()
      },
    )
    socket.on('error', reject)
  })
}

describe('over TLS', () => {
  it('the ready lines say so', () => {
    for (const line of trilog.ready) assert.equal(line.scheme, 'https')
  })

  for (const [service, round] of Object.entries(ROUNDS)) {
    it(`the ${service} serves clients with a certificate, and refuses those without one`, async () => {
      const known = agentOf(ci)
      for (const { status: code, text } of await round(known)) assert(code < 300, `${code} ${text}`)
      const nobody = agentOf(null)
      for (const { status: code, text } of (await round(nobody)).slice(0, 1)) assert([401, 403].includes(code), text)
      for (const each of [known, nobody]) each.destroy()
    })
  }

  it('the console serves browsers with a certificate, and refuses those without one in the handshake', async () => {
    const known = agentOf(ci)
    const page = await ask('console', '/', { agent: known })
    assert.equal(page.status, 200)
    const { services } = JSON.parse((await ask('console', '/console.json', { agent: known })).text) as {
      services: Record<string, { url: string }>
    }
    assert.equal(services['broker']!.url, `https://${ofService('broker').http}`)
    const agents = [agentOf(null), agentOf(servers.certify([['CN', 'ci']]))]
    for (const agent of agents) await assert.rejects(ask('console', '/', { agent }), /alert|ECONNRESET|socket hang up/)
    for (const each of [known, ...agents]) each.destroy()
  })

  it('the console takes changes from its page over https alone', async () => {
    const agent = agentOf(ci)
    const { http: host } = ofService('console')
    const statusOf = async (origin: string): Promise<number> =>
      (await ask('console', '/broker/v1/streams/a', { method: 'PUT', headers: { origin, host }, agent })).status
    assert.equal(await statusOf(`https://${host}`), 401, 'it reaches the broker, which asks for a certificate')
    assert.equal(await statusOf(`http://${host}`), 403)
    agent.destroy()
  })

  it('gRPC serves clients with a certificate, and refuses those without one in the handshake', async () => {
    assert.equal(await exportOver(ci), status.INVALID_ARGUMENT, 'an empty batch is refused by the service itself')
    assert.equal(await exportOver(null), status.UNAVAILABLE)
    assert.equal(await exportOver(servers.certify([['CN', 'ci']])), status.UNAVAILABLE)
  })
})

describe('SIGHUP', () => {
  const addresses = (): readonly string[] =>
    trilog.ready.flatMap(({ http, grpc }) => (grpc === null ? [http] : [http, grpc]))

  it('renews the certificate of every listener under connections that go on', async () => {
    const agents = [...Object.keys(ROUNDS), 'console'].map((service) => [service, agentOf(ci)] as const)
    const ports = (): Promise<readonly (number | undefined)[]> =>
      Promise.all(agents.map(async ([service, agent]) => (await ask(service, '/health', { agent })).port))
    const before = await ports()
    const renewed = renew()
    trilog.signal('SIGHUP')
    await eventually(() => (trilog.stderr.match(/certificates read again/g) ?? []).length === 4)
    for (const address of addresses()) assert.equal(await shownAt(address), renewed.cert, address)
    assert.deepEqual(await ports(), before, 'they are the same connections')
    const agent = agentOf(ci)
    const audited = await ask('broker', '/v1/audit/events', { agent })
    assert.match(audited.text, /certificates_reloaded/)
    for (const each of [agent, ...agents.map(([, one]) => one)]) each.destroy()
  })

  it('keeps the certificates that there are when the new ones are bad, and says why', async () => {
    const [address] = addresses()
    const before = await shownAt(address!)
    writeFileSync(files.key, 'no key')
    trilog.signal('SIGHUP')
    await eventually(() => (trilog.stderr.match(/the certificates were not replaced/g) ?? []).length === 4)
    for (const prefix of Object.keys(BINDS)) {
      assert(trilog.stderr.includes(`${prefix}_TLS_KEY_FILE names a file without a private key in PEM`))
    }
    for (const each of addresses()) assert.equal(await shownAt(each), before)
  })
})
