/** Client of another node's listener (server.ts). */
import { Agent, request as requestHttp } from 'node:http'
import { Agent as SecureAgent, request as requestHttps } from 'node:https'
import { StoreError, messageOf } from '../../errors.ts'
import type { RemoteLog } from './copy.ts'
import type { Listing } from './listing.ts'
import { PieceConnection } from './piece-connection.ts'
import { Refused, replyTo } from './reply.ts'
import type { Reply } from './reply.ts'

export interface RemoteAccess {
  /** Address of the listener, without a slash at the end. */
  readonly url: string
  readonly secret: string
  /** Authorities in PEM; null: those that Node knows. */
  readonly ca: string | null
}

const SECONDS_MAX = 60
const TRIES = 3

export class RemoteNode {
  readonly #access: RemoteAccess
  readonly #agent: Agent
  readonly #lines: PieceConnection[] = []

  constructor(access: RemoteAccess) {
    this.#access = access
    const { url, ca } = access
    const options = { keepAlive: true, maxSockets: 2 }
    this.#agent = url.startsWith('https:')
      ? new SecureAgent({ ...options, ...(ca !== null && { ca }) })
      : new Agent(options)
  }

  /** What it knows of its clusters, by service. @throws StoreError */
  async nodes(): Promise<unknown> {
    return json(await this.#ask('GET', '/v1/nodes'))
  }

  /** @throws StoreError */
  async handOver(service: string | null, to: string | null): Promise<unknown> {
    const query = new URLSearchParams({ ...(service !== null && { service }), ...(to !== null && { to }) })
    return json(await this.#ask('POST', `/v1/hand-over?${query.toString()}`))
  }

  logOf(service: string): RemoteLog {
    const { url, secret, ca } = this.#access
    const line = new PieceConnection({
      url: `${url}/v1/logs/${service}/pieces`,
      secret,
      ca,
      idleMs: SECONDS_MAX * 1000,
    })
    this.#lines.push(line)
    return {
      list: async () => json(await this.#ask('GET', `/v1/logs/${service}`)) as Listing, // not checked here, but by the files that are copied by it
      read: (path, from, into) => this.#read(line, path, from, into),
    }
  }

  close(): void {
    this.#agent.destroy()
    for (const line of this.#lines) line.close()
  }

  async #read(line: PieceConnection, path: string, from: number, into: Buffer): Promise<Buffer | null> {
    const question = new URLSearchParams({ path, from: String(from), bytes: String(into.byteLength) }).toString()
    for (let attempt = 1; ; attempt += 1) {
      const { kind, bytes, isWhole } = await this.#reached(() => line.ask(question, into))
      if (isWhole && kind === 'gone') return null
      if (isWhole && kind === 'piece') return bytes
      const { url } = this.#access
      if (isWhole) throw unavailable(`${url}: ${bytes.toString()}`)
      if (attempt === TRIES) throw unavailable(`${url}: pieces arrive damaged`)
    }
  }

  async #ask(method: 'GET' | 'POST', path: string): Promise<Reply> {
    const reply = await this.#reached(() => this.#send(method, path))
    if (reply.status >= 300) throw refusal(this.#access, reply)
    return reply
  }

  async #reached<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
    try {
      return await ask()
    } catch (error) {
      if (error instanceof Refused) throw refusal(this.#access, error.reply)
      throw unavailable(`${this.#access.url}: ${messageOf(error)}`)
    }
  }

  #send(method: string, path: string): Promise<Reply> {
    const { url, secret } = this.#access
    const send = url.startsWith('https:') ? requestHttps : requestHttp
    const request = send(url + path, {
      method,
      agent: this.#agent,
      headers: { authorization: `Bearer ${secret}` },
      timeout: SECONDS_MAX * 1000,
    })
    request.on('timeout', () => request.destroy(new Error(`no answer for ${SECONDS_MAX} s`)))
    request.end()
    return replyTo(request)
  }
}

function json({ body }: Reply): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    throw unavailable('the other node does not answer in JSON: its address is not that of a trilog node')
  }
}

function refusal({ url, secret }: RemoteAccess, reply: Reply): StoreError {
  if (reply.status !== 401) return unavailable(`${url}: ${problemIn(reply).replaceAll(secret, '…')}`)
  const message = `${url} refuses the secret: TRILOG_CLUSTER_SECRET differs`
  return new StoreError('invalid', 'cluster_secret_wrong', message)
}

function problemIn({ status, body }: Reply): string {
  try {
    const { error } = JSON.parse(body.toString('utf8')) as { readonly error?: unknown }
    if (typeof error === 'string') return error
  } catch {
    // said below
  }
  return `HTTP ${status}`
}

const unavailable = (message: string): StoreError => new StoreError('unavailable', 'cluster_node_unavailable', message)
