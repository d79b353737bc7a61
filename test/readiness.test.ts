/** Every service answers on its port while it still reads what is stored. The tests hold the reading. */
import assert from 'node:assert/strict'
import { createHash, randomFillSync } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { Client, Metadata, credentials, status } from '@grpc/grpc-js'
import type { ServiceError } from '@grpc/grpc-js'
import { openBroker } from '../src/broker/service.ts'
import { loadConfig } from '../src/config/config.ts'
import type { Config } from '../src/config/config.ts'
import { AcceptGate } from '../src/http/accept-gate.ts'
import { LISTENING } from '../src/http/standing-endpoints.ts'
import { openLogStore } from '../src/logstore/logstore.ts'
import { openObjectStore } from '../src/objectstore/service.ts'
import { ProcessMetrics } from '../src/observability/process-metrics.ts'
import { systemClock } from '../src/observability/system-clock.ts'
import { temporaryDirectory } from './support/directories.ts'
import { Connection, HttpReply, send } from './support/http.ts'
import { KEY_ID, SECRET, signHeader } from './support/signer.ts'
import { eventually } from './support/waiting.ts'

type World = Parameters<typeof openLogStore>[1] &
  Parameters<typeof openObjectStore>[1] &
  Parameters<typeof openBroker>[1]
interface Opened {
  readonly http: string
  drain(): void
  close(options: { readonly withinMs: number }): Promise<void>
}
type Opener = (services: Config['services'], world: World) => Promise<Opened>

/** A start whose recovery waits until the test lets it go on. */
class HeldStart {
  http = ''
  grpc = ''
  #mayGoOn = false
  #waiting: (() => void)[] = []
  readonly opened: Promise<Opened>

  constructor(opener: Opener, services: Config['services']) {
    const debug = (details: object, message: string): void => {
      if (message !== LISTENING) return
      if ('http' in details) this.http = String(details.http)
      if ('grpc' in details) this.grpc = String(details.grpc)
    }
    const logger = { debug, info() {}, warn() {}, error: assert.fail }
    this.opened = opener(services, {
      clock: systemClock,
      random: randomFillSync,
      version: 'test',
      logger,
      acceptGate: new AcceptGate({ clock: systemClock, logger }),
      processMetrics: new ProcessMetrics({ version: 'test', clock: systemClock }),
      metricsSeriesMax: 10,
      turn: () => this.#turn(),
    })
  }

  #turn(): Promise<void> {
    if (this.#mayGoOn) return new Promise((resolve) => setImmediate(resolve))
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.push(resolve)
    return promise
  }

  async untilHeld(): Promise<void> {
    await eventually(() => this.#waiting.length > 0)
  }

  goOn(): Promise<Opened> {
    this.#mayGoOn = true
    for (const resolve of this.#waiting.splice(0)) resolve()
    return this.opened
  }

  ask(method: string, path: string, headers: Record<string, string> = {}): Promise<HttpReply> {
    return send(HttpReply, method, `http://${this.http}${path}`, null, new Headers(headers))
  }
}

interface Case {
  readonly name: string
  readonly service: 'logstore' | 'objectstore' | 'broker'
  readonly environment: (directory: string) => Record<string, string>
  readonly open: Opener
  /** A request that is refused until the service is open. */
  readonly request: readonly [method: string, path: string]
  readonly refusal: RegExp
  /** Settings with which requests need credentials. */
  readonly asking: () => Record<string, string>
  /** Headers with credentials of these settings, for GET of a path. */
  readonly known: (path: string, host: string) => Record<string, string>
}

const TOKEN = 'a-token-of-the-test'
const TOKEN_SHA256 = createHash('sha256').update(TOKEN).digest('hex')

function fileWith(content: object): string {
  const path = `${temporaryDirectory()}/credentials.json`
  writeFileSync(path, JSON.stringify(content))
  return path
}

const CASES: readonly Case[] = [
  {
    name: 'the log store',
    service: 'logstore',
    environment: (directory) => ({ LOGSTORE_BIND_ADDRESS: '127.0.0.1:0', LOGSTORE_DATA_DIR: directory }),
    open: ({ logstore }, world) => openLogStore(logstore!, world),
    request: ['POST', '/v1/query'],
    refusal: /^\{"status":"rejected","retryable":true,"error":\{"kind":"wal_unavailable"/,
    asking: () => {
      const credentials = [{ token_sha256: TOKEN_SHA256, datasets: ['*'] }]
      return { LOGSTORE_TENANT_POLICY_FILE: fileWith({ tenants: [{ id: 'acme', credentials }] }) }
    },
    known: () => ({ 'x-logstore-tenant': 'acme', authorization: `Bearer ${TOKEN}` }),
  },
  {
    name: 'the object store',
    service: 'objectstore',
    environment: (directory) => ({ OBJSTORE_BIND_ADDRESS: '127.0.0.1:0', OBJSTORE_DATA_DIR: directory }),
    open: ({ objectstore }, world) => openObjectStore(objectstore!, world),
    request: ['GET', '/bucket/key'],
    refusal: /<Code>ServiceUnavailable<\/Code>/,
    asking: () => {
      const key = { access_key_id: KEY_ID, secret_access_key: SECRET, principal: 'ci', permissions: ['read'] }
      return { OBJSTORE_AUTH_MODE: 'sigv4', OBJSTORE_CREDENTIALS_FILE: fileWith({ keys: [key] }) }
    },
    known: (path, host) => {
      const timestamp = new Date(systemClock.wallMs()).toISOString().replaceAll(/[-:]|\.\d+/g, '')
      return Object.fromEntries(signHeader({ path, timestamp, headers: { host } }).headers)
    },
  },
  {
    name: 'the broker',
    service: 'broker',
    environment: (directory) => ({ MQ_HTTP_BIND: '127.0.0.1:0', MQ_DATA_DIR: directory }),
    open: ({ broker }, world) => openBroker(broker!, world),
    request: ['GET', '/v1/streams'],
    refusal: /"code":"node_recovering".*"retryable":true/,
    asking: () => {
      const key = { key_sha256: TOKEN_SHA256, tenant: 'acme', principal: 'ci', grants: [] }
      return { MQ_AUTH_MODE: 'api-key', MQ_CREDENTIALS_FILE: fileWith({ keys: [key] }) }
    },
    known: () => ({ authorization: `Bearer ${TOKEN}` }),
  },
]

function startHeld(each: Case, settings: Record<string, string> = {}): HeldStart {
  const environment = { ...each.environment(`${temporaryDirectory()}/data`), ...settings }
  return new HeldStart(each.open, loadConfig({ ...environment, TRILOG_SERVICES: each.service }).services)
}

const END = { withinMs: 5000 }

it('the log store refuses while it reads what is stored in the form that the client reads', async () => {
  const start = startHeld(CASES[0]!)
  await start.untilHeld()
  for (const [contentType, accept, shape] of [
    ['application/x-protobuf', '*/*', 'application/x-protobuf'],
    ['Application/X-Protobuf; a=b', '*/*', 'application/x-protobuf'],
    ['application/x-protobuf', 'application/json', 'application/json'],
    ['application/json', '*/*', 'application/json'],
  ] as const) {
    const refused = await start.ask('POST', '/v1/logs', { 'content-type': contentType, accept })
    assert.deepEqual([refused.status, refused.headers.get('content-type')], [503, shape])
  }
  const opened = await start.goOn()
  await opened.close(END)
})

describe('gRPC of the log store while it reads what is stored', () => {
  it('refuses calls with UNAVAILABLE, and takes them on the same connection when it has read', async () => {
    const start = startHeld(CASES[0]!, { LOGSTORE_OTLP_GRPC_BIND_ADDRESS: '127.0.0.1:0' })
    await start.untilHeld()
    const client = new Client(start.grpc, credentials.createInsecure())
    const metadata = new Metadata()
    metadata.set('x-request-id', 'r-1')
    const call = (): Promise<ServiceError> =>
      new Promise((resolve) => {
        const path = '/opentelemetry.proto.collector.logs.v1.LogsService/Export'
        const asIs = (bytes: Buffer): Buffer => bytes
        client.makeUnaryRequest(path, asIs, asIs, Buffer.alloc(0), metadata, (error) => resolve(error!)) // always an error: the call has no credentials
      })
    const refused = await call()
    assert.equal(refused.code, status.UNAVAILABLE)
    assert.match(refused.details, /^wal_unavailable: the service still reads stored data/)
    const [details] = refused.metadata.get('grpc-status-details-bin')
    assert.ok(details instanceof Buffer && details.includes('google.rpc.RetryInfo'))
    assert.deepEqual(refused.metadata.get('x-request-id'), ['r-1'])

    const opened = await start.goOn()
    assert.equal((await call()).code, status.UNAUTHENTICATED)
    client.close()
    await opened.close(END)
  })
})

for (const each of CASES) {
  describe(`${each.name} while it reads what is stored`, () => {
    it('lives, is not ready and says how far it is, and refuses the rest with a 503 that is worth a retry', async () => {
      const start = startHeld(each)
      await start.untilHeld()
      assert.equal((await start.ask('GET', '/livez')).status, 200)
      const first = await start.ask('GET', '/readyz')
      assert.equal(first.status, 503)
      assert.match(
        first.text,
        /^\{"status":"recovering","reasons":\[\{"kind":"recovering","reason":"opening"\}\],"progress":/,
      )
      const refused = await start.ask(...each.request)
      assert.equal(refused.status, 503)
      assert.match(refused.text, each.refusal)
      assert.equal(refused.headers.get('retry-after'), '1')
      assert.ok(refused.headers.get('x-request-id') ?? refused.headers.get('x-obj-request-id'))
      assert.equal((await start.ask('GET', '/health')).status, 503)

      const opened = await start.goOn()
      assert.equal(opened.http, start.http)
      const ready = await start.ask('GET', '/readyz')
      assert.deepEqual([ready.status, ready.text], [200, '{"status":"ok","reasons":[]}\n'])
      assert.notEqual((await start.ask(...each.request)).status, 503)
      assert.equal((await start.ask('GET', '/health')).status, 200)
      await opened.close(END)
    })

    it('serves connections that were opened before it was ready', async () => {
      const start = startHeld(each)
      await start.untilHeld()
      const connection = await Connection.open(start.http, HttpReply)
      const ask = async (): Promise<number> => {
        connection.write(`${each.request.join(' ')} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n`)
        return (await connection.reply()).status
      }
      assert.equal(await ask(), 503)
      const opened = await start.goOn()
      assert.notEqual(await ask(), 503)
      connection.close()
      await opened.close(END)
    })

    it('tells strangers its status alone where it asks for credentials', async () => {
      const start = startHeld(each, each.asking())
      await start.untilHeld()
      const headers = each.known('/readyz', start.http)
      const stranger = await start.ask('GET', '/readyz')
      assert.deepEqual([stranger.status, stranger.text], [503, '{"status":"recovering","reasons":[]}\n'])
      assert.match((await start.ask('GET', '/readyz', headers)).text, /"progress":\{"phase":"opening"/)
      const opened = await start.goOn()
      opened.drain()
      const draining = await start.ask('GET', '/readyz')
      assert.deepEqual([draining.status, draining.text], [503, '{"status":"draining","reasons":[]}\n'])
      assert.match((await start.ask('GET', '/readyz', headers)).text, /"kind":"draining"/)
      assert.equal((await start.ask('GET', '/livez')).status, 200)
      await opened.close(END)
    })
  })
}
