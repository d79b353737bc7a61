/**
 * POSTs to other servers, over connections that are kept.
 *
 * P1  a connection that ended while it was idle is replaced, once: a POST may arrive twice
 * P2  an answer is read up to ANSWER_BYTES_MAX, and within the time of the request
 */
import { Agent as HttpAgent, request as httpRequest } from 'node:http'
import type { ClientRequest, IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'

const ANSWER_BYTES_MAX = 1 << 20
const CONNECTIONS_MAX = 64

/** TLS material for requests to a server, in PEM. */
export interface PostTls {
  /** Authorities that may sign the server's certificate; null: those that Node knows. */
  readonly ca: string | null
  /** Client certificate that the server is shown; null: none. */
  readonly certificate: { readonly cert: string; readonly key: string } | null
}

export interface PostRequest {
  readonly url: string
  readonly tls: PostTls
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  readonly timeoutMs: number
  /** Ends the request early. */
  readonly signal: AbortSignal
}

export interface PostReply {
  readonly status: number
  /** A header that is a number; null: there is none. */
  readonly numberIn: (header: string) => number | null
  readonly text: string
}

export class Poster {
  readonly #http = new HttpAgent({ keepAlive: true, maxSockets: CONNECTIONS_MAX })
  /** By their TLS material, of which there are few: policies name it. */
  readonly #https = new Map<string, HttpsAgent>()

  /** @throws what the connection fails with */
  async post(request: PostRequest): Promise<PostReply> {
    const signal = AbortSignal.any([request.signal, AbortSignal.timeout(request.timeoutMs)])
    const first = await this.#try(request, signal)
    if (!(first instanceof StaleConnection)) return first
    const second = await this.#try(request, signal)
    if (second instanceof StaleConnection) throw second.cause
    return second
  }

  close(): void {
    this.#http.destroy()
    for (const agent of this.#https.values()) agent.destroy()
  }

  /** Drops the idle connections with any other TLS material. Requests under way finish on the connections that they have. */
  keepOnlyTls(all: readonly PostTls[]): void {
    const kept = new Set(all.map(nameOf))
    for (const [name, agent] of this.#https) {
      if (kept.has(name)) continue
      this.#https.delete(name)
      for (const sockets of Object.values(agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy()
    }
  }

  #secureAgent(tls: PostTls): HttpsAgent {
    const name = nameOf(tls)
    const known = this.#https.get(name)
    if (known !== undefined) return known
    const { ca, certificate } = tls
    const agent = new HttpsAgent({
      keepAlive: true,
      maxSockets: CONNECTIONS_MAX,
      ...(ca !== null && { ca }),
      ...certificate,
    })
    this.#https.set(name, agent)
    return agent
  }

  #try({ url, tls, headers, body }: PostRequest, signal: AbortSignal): Promise<PostReply | StaleConnection> {
    const isSecure = url.startsWith('https:')
    const options = {
      method: 'POST',
      agent: isSecure ? this.#secureAgent(tls) : this.#http,
      headers: { ...headers, 'content-length': body.byteLength },
      signal,
    }
    return new Promise((resolve, reject) => {
      const sent: ClientRequest = isSecure ? httpsRequest(url, options) : httpRequest(url, options)
      sent.on('error', (error) => {
        const failure = signal.aborted ? reasonOf(signal) : error
        if (sent.reusedSocket && !signal.aborted) resolve(new StaleConnection(failure)) // P1
        else reject(failure)
      })
      sent.on('response', (response) => void readAnswer(response).then(resolve, reject))
      sent.end(body)
    })
  }
}

const nameOf = ({ ca, certificate }: PostTls): string => JSON.stringify([ca, certificate?.cert, certificate?.key])

class StaleConnection {
  readonly cause: Error

  constructor(cause: Error) {
    this.cause = cause
  }
}

const reasonOf = ({ reason }: AbortSignal): Error =>
  reason instanceof DOMException && reason.name === 'TimeoutError'
    ? new Error('there was no answer in time')
    : new Error('given up')

/** P2 */
async function readAnswer(response: IncomingMessage): Promise<PostReply> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.byteLength
    if (bytes > ANSWER_BYTES_MAX) throw new Error('the answer is too long')
    chunks.push(chunk)
  }
  return {
    status: response.statusCode ?? 0,
    numberIn(header) {
      const number = Number(response.headers[header] ?? Number.NaN)
      return Number.isFinite(number) ? number : null
    },
    text: Buffer.concat(chunks).toString(),
  }
}
