/** A relay between the log store and an object store. It counts requests, and makes answers fail as a network or the store may. */
import { once } from 'node:events'
import { Agent, createServer, request } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface RelayedRequest {
  /** With the bucket, without parameters. */
  readonly path: string
  /** Null for a listing. */
  readonly key: string | null
  readonly range: string | null
}

/**
 * `silence`: no answer ever. `cut`: the connection ends in the middle of the body. `short`: the body is shorter than asked for, and says so.
 * A number: a status with an error document.
 */
export type Fault = number | 'silence' | 'cut' | 'short'

export class Relay {
  readonly requests: RelayedRequest[] = []
  faultOf: (request: RelayedRequest) => Fault | null = () => null
  readonly #server: Server
  readonly #agent = new Agent({ keepAlive: true })
  readonly #target: string

  /** @param target URL of the object store */
  static async open(target: string): Promise<Relay> {
    const server = createServer()
    const relay = new Relay(server, target)
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return relay
  }

  private constructor(server: Server, target: string) {
    this.#server = server
    this.#target = target
    server.on('request', (incoming: IncomingMessage, answer: ServerResponse) => this.#relay(incoming, answer))
    server.unref()
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}` // it listens on a port
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
    this.#agent.destroy()
  }

  #relay(incoming: IncomingMessage, answer: ServerResponse): void {
    const { pathname } = new URL(incoming.url!, this.url)
    const [, , ...key] = pathname.split('/')
    const relayed = {
      path: pathname,
      key: key.join('/') === '' ? null : decodeURIComponent(key.join('/')),
      range: incoming.headers.range ?? null,
    }
    this.requests.push(relayed)
    const fault = this.faultOf(relayed)
    if (fault === 'silence') return
    if (typeof fault === 'number') {
      answer.writeHead(fault, { 'content-type': 'application/xml' })
      return void answer.end(`<?xml version="1.0"?><Error><Code>${CODES[fault]}</Code><Message>no</Message></Error>`)
    }
    const { hostname, port } = new URL(this.#target)
    const { url: path, method, headers } = incoming
    // The header `host` stays as the client signed it.
    const asking = request({ hostname, port, path, method, headers, agent: this.#agent })
    asking.once('error', () => answer.destroy())
    asking.once('response', (reply) => {
      const bytes: Buffer[] = []
      reply.on('data', (chunk: Buffer) => bytes.push(chunk))
      reply.once('end', () => respond(answer, reply, Buffer.concat(bytes), fault))
    })
    incoming.pipe(asking)
  }
}

const CODES: Readonly<Record<number, string>> = {
  403: 'AccessDenied',
  404: 'NoSuchKey',
  500: 'InternalError',
  503: 'SlowDown',
}

function respond(answer: ServerResponse, reply: IncomingMessage, body: Buffer, fault: Fault | null): void {
  const half = body.subarray(0, body.byteLength >> 1)
  if (fault === 'short') {
    answer.writeHead(reply.statusCode!, { ...reply.headers, 'content-length': half.byteLength })
    return void answer.end(half)
  }
  answer.writeHead(reply.statusCode!, reply.headers)
  if (fault !== 'cut') return void answer.end(body)
  answer.write(half, () => answer.destroy())
}
