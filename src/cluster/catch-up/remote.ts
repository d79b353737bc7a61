/** Another node, by its listener (server.ts). */
import { Agent, request as requestHttp } from 'node:http'
import { Agent as SecureAgent, request as requestHttps } from 'node:https'
import { StoreError, messageOf } from '../../errors.ts'
import { CollectedMemory, freeMemory } from '../../free-memory.ts'
import type { RemoteLog } from './copy.ts'
import { checksumOf } from './listing.ts'
import type { Listing } from './listing.ts'
import { CHECKSUM_HEADER } from './server.ts'

export interface RemoteAccess {
  /** Address of the listener, without a slash at the end. */
  readonly url: string
  readonly secret: string
  /** Authorities in PEM; null: those that Node knows. */
  readonly ca: string | null
}

interface Reply {
  readonly status: number
  readonly checksum: string
  /** In memory that was given for it, if it fits. */
  readonly body: Buffer
}

const GONE = 410
const SECONDS_MAX = 60
const TRIES = 3

export class RemoteNode {
  readonly #access: RemoteAccess
  readonly #agent: Agent

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
    return {
      list: async () => json(await this.#ask('GET', `/v1/logs/${service}`)) as Listing, // verified with what is copied by it
      read: (path, from, into) => this.#read(service, path, from, into),
    }
  }

  close(): void {
    this.#agent.destroy()
  }

  async #read(service: string, path: string, from: number, into: Buffer): Promise<Buffer | null> {
    const query = new URLSearchParams({ path, from: String(from), bytes: String(into.byteLength) })
    for (let attempt = 1; ; attempt += 1) {
      const { status, checksum, body } = await this.#ask('GET', `/v1/logs/${service}/piece?${query.toString()}`, into)
      if (status === GONE) return null
      if (checksum === checksumOf(body)) return body
      if (attempt === TRIES) throw unavailable(`${this.#access.url}: pieces arrive damaged`)
    }
  }

  async #ask(method: 'GET' | 'POST', path: string, into?: Buffer): Promise<Reply> {
    const { url, secret } = this.#access
    let reply: Reply
    try {
      reply = await this.#send(method, path, into)
    } catch (error) {
      throw unavailable(`${url}: ${messageOf(error)}`)
    }
    if (reply.status < 300 || reply.status === GONE) return reply
    if (reply.status === 401)
      throw new StoreError(
        'invalid',
        'cluster_secret_wrong',
        `${url} refuses the secret: TRILOG_CLUSTER_SECRET differs`,
      )
    throw unavailable(`${url}: ${problemIn(reply).replaceAll(secret, '…')}`)
  }

  #send(method: string, path: string, into: Buffer = NO_MEMORY): Promise<Reply> {
    const { url, secret } = this.#access
    return new Promise((resolve, reject) => {
      const send = url.startsWith('https:') ? requestHttps : requestHttp
      const request = send(
        url + path,
        { method, agent: this.#agent, headers: { authorization: `Bearer ${secret}` }, timeout: SECONDS_MAX * 1000 },
        (response) => {
          const body = new Body(into)
          response.on('data', (piece: Buffer<ArrayBuffer>) => body.add(piece))
          response.on('error', reject)
          response.on('end', () =>
            resolve({
              status: response.statusCode ?? 0,
              checksum: String(response.headers[CHECKSUM_HEADER] ?? ''),
              body: body.whole(),
            }),
          )
        },
      )
      request.on('timeout', () => request.destroy(new Error(`no answer for ${SECONDS_MAX} s`)))
      request.on('error', reject)
      request.end()
    })
  }
}

/**
 * Collects a body in memory that stays with the caller: new memory for each piece costs as much as all else that is done with it. What Node received it in
 * is freed at once, as in server.ts V3, and what it keeps of its socket by a cheap collection.
 */
class Body {
  readonly #memory: Buffer
  /** What the memory does not hold. */
  readonly #rest: Buffer[] = []
  #filled = 0

  constructor(memory: Buffer) {
    this.#memory = memory
  }

  /** @param piece has memory of its own */
  add(piece: Buffer<ArrayBuffer>): void {
    const fits = this.#rest.length === 0 && this.#filled + piece.byteLength <= this.#memory.byteLength
    if (!fits) return void this.#rest.push(piece)
    this.#filled += piece.copy(this.#memory, this.#filled)
    freeMemory(piece)
    received.received(piece.byteLength)
  }

  whole(): Buffer {
    const inMemory = this.#memory.subarray(0, this.#filled)
    return this.#rest.length === 0 ? inMemory : Buffer.concat([inMemory, ...this.#rest])
  }
}

const NO_MEMORY = Buffer.alloc(0)
/** V8 begins a full collection at some 32 MiB. */
const received = new CollectedMemory(16 << 20)

function json({ body }: Reply): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    throw unavailable('the other node answers no JSON: it is none of trilog')
  }
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
