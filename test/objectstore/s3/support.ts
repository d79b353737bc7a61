/** The gateway over a listening server, on a store in memory, with a clock that stands still. */
import assert from 'node:assert/strict'
import { StoreCounters } from '../../../src/objectstore/counters.ts'
import { listen } from '../../../src/http/server.ts'
import type { HttpServer } from '../../../src/http/server.ts'
import { TrustedProxies } from '../../../src/http/trusted-proxies.ts'
import { WebGuard } from '../../../src/http/web-guard.ts'
import { localAuthenticator } from '../../../src/objectstore/s3/auth/authenticator.ts'
import { objectStoreGateway } from '../../../src/objectstore/s3/gateway.ts'
import type { GatewayParts } from '../../../src/objectstore/s3/gateway.ts'
import { handlers } from '../../../src/objectstore/s3/handlers.ts'
import { managementRoutes, objectStoreStandingRoutes } from '../../../src/objectstore/s3/management.ts'
import { OPEN } from '../../support/health.ts'
import type { ManagementParts } from '../../../src/objectstore/s3/management.ts'
import { RawClient, TestClock } from '../../support/http-server.ts'
import { MemoryStore } from '../../support/memory-store.ts'
import type { StandingDegradation } from '../../../src/observability/health.ts'

export interface Reply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

export interface Asked {
  readonly body?: string | Uint8Array
  readonly headers?: Readonly<Record<string, string>>
}

export const CAPABILITIES = {
  runtime: 'node v22',
  dataDirectory: '/data',
  freeSpace: 1000,
  device: '8:1',
  atomicRename: true,
  flushBehavior: 'fdatasync',
  directIo: false,
}

export class TestGateway {
  readonly store = new MemoryStore()
  readonly clock = new TestClock()
  readonly audited: object[] = []
  readonly logged: { readonly details: object; readonly message: string }[] = []
  /** Objects of the endpoint helper by activation, newest first. */
  readonly stored = new Map<string, string[]>()
  problems: readonly string[] = []
  degradations: readonly StandingDegradation[] = []
  #server: HttpServer | null = null
  #client: RawClient | null = null

  static async start(overrides: Partial<GatewayParts> = {}): Promise<TestGateway> {
    const gateway = new TestGateway()
    const logger = {
      error: (details: object, message: string): void => void gateway.logged.push({ details, message }),
    }
    const guard = new WebGuard({ bindHost: '127.0.0.1', allowedHosts: [], baseDomain: 's3.local' })
    const service = objectStoreGateway({
      guard,
      proxies: new TrustedProxies([]),
      store: gateway.store,
      authenticator: localAuthenticator,
      handlers,
      baseDomain: 's3.local',
      region: 'us-east-1',
      extensions: new Set(),
      putBytesMax: 16 << 20,
      management: managementRoutes({
        guard,
        capabilities: () => CAPABILITIES,
        helper: gateway.#helper(),
        standing: objectStoreStandingRoutes({
          ...OPEN,
          health: { problems: () => gateway.problems, degradations: () => gateway.degradations },
        }),
        logger,
      }),
      nowMs: () => gateway.store.nowMs,
      nextTurn: setImmediate,
      logger,
      counters: new StoreCounters(),
      audit: { info: (details) => void gateway.audited.push(details) },
      ...overrides,
    })
    gateway.#server = await listen(
      service,
      { host: '127.0.0.1', port: 0, setting: 'TEST_BIND' },
      { logger, clock: gateway.clock, random: (bytes) => void bytes.fill(7) },
    )
    return gateway
  }

  async stop(): Promise<void> {
    this.#client?.destroy()
    await this.#server!.close({ withinMs: 1000 })
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server!.port}`
  }

  get inFlight(): number {
    return this.#server!.inFlight
  }

  /** A connection of its own. */
  connect(): Promise<RawClient> {
    return RawClient.connect(this.#server!)
  }

  /** Sends the target and the headers unchanged. All requests use one connection, one after the other. */
  async ask(method: string, target: string, { body, headers = {} }: Asked = {}): Promise<Reply> {
    const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }
    const lines = Object.entries({ host: 'localhost:9000', ...length, ...headers })
    const head = `${method} ${target} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`
    this.#client ??= await this.connect()
    await this.#client.send(Buffer.concat([Buffer.from(head), Buffer.from(body ?? '')]))
    const reply = await this.#client.reply(method === 'HEAD')
    assert(reply, 'the connection was closed')
    return { status: reply.status, headers: reply.headers, text: reply.body }
  }

  /** Sends the request as another principal. */
  askAs(principal: string, method: string, target: string, asked: Asked = {}): Promise<Reply> {
    return this.ask(method, target, { ...asked, headers: { ...asked.headers, 'x-obj-principal': principal } })
  }

  #helper(): ManagementParts['helper'] {
    const { stored } = this
    return {
      async store({ activationId, object }) {
        stored.set(activationId, [object, ...(stored.get(activationId) ?? [])])
      },
      newest: (activationId) => stored.get(activationId)?.[0] ?? null,
      newestFirst: (activationId) => stored.get(activationId) ?? [],
    }
  }
}

/** Text of the first element of a name. */
export function textOf(document: string, element: string): string | null {
  return new RegExp(`<${element}>([^<]*)</${element}>`).exec(document)?.[1] ?? null
}

export function textsOf(document: string, element: string): readonly string[] {
  return Array.from(document.matchAll(new RegExp(`<${element}>([^<]*)</${element}>`, 'g')), ([, text]) => text!)
}

export function assertRefused(reply: Reply, status: number, code: string): void {
  assert.deepEqual([reply.status, reply.headers['x-obj-error-code']], [status, code], reply.text)
  if (reply.text !== '') assert.equal(textOf(reply.text, 'Code'), code)
}
