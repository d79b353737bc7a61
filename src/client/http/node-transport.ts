/**
 * Requests by `node:http` and `node:https`, over connections that are kept.
 *
 * K1  a connection that is idle for `IDLE_MS` is closed by this side: the broker closes idle ones after 8 s, and a request that is sent at that
 *     moment would be lost
 * K2  the number of requests at a time bounds the number of connections: see Slots
 */
import { Agent, request as httpRequest } from 'node:http'
import type { ClientRequest, IncomingMessage } from 'node:http'
import { Agent as TlsAgent, request as httpsRequest } from 'node:https'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { NotSent } from './transport.ts'
import type { HttpAnswer, HttpTransport } from './transport.ts'

export interface TlsSettings {
  /** Authorities that sign for the broker, in PEM; default: those that Node knows. */
  readonly ca?: string | Uint8Array | readonly (string | Uint8Array)[]
  /** Certificate and key of this client in PEM, for a broker in the mode `mtls`. */
  readonly cert?: string | Uint8Array
  readonly key?: string | Uint8Array
}

const IDLE_MS = 4000
/** More free connections than there ever are, so that all are kept. */
const FREE_MAX = 1_000_000
/** Several pages of the largest size: a longer answer is not a broker's. */
const ANSWER_BYTES_MAX = 256 << 20

export function nodeTransport(tls: TlsSettings = {}): HttpTransport {
  const kept = { keepAlive: true, timeout: IDLE_MS, maxFreeSockets: FREE_MAX, scheduling: 'lifo' as const } // K1, K2
  const plain = new Agent(kept)
  let secure: TlsAgent | null = null
  const secureAgent = (): TlsAgent => (secure ??= new TlsAgent({ ...kept, ...tlsOptionsOf(tls) }))
  return {
    send: (request) =>
      new Promise((resolve, reject) => {
        const { origin, method, path, headers, body } = request
        const isSecure = origin.startsWith('https:')
        const { hostname, port } = addressOf(origin)
        const sent = (isSecure ? httpsRequest : httpRequest)({
          agent: isSecure ? secureAgent() : plain,
          hostname,
          port,
          method,
          path,
          headers: body === null ? headers : { ...headers, 'content-length': Buffer.byteLength(body) },
        })
        let isAnswered = false // the connection may serve another request then
        const stop = (): void => {
          if (!isAnswered) sent.destroy()
        }
        if (request.onAbandoned) request.onAbandoned(stop)
        else request.signal.addEventListener('abort', stop, { once: true })
        const fail = (error: unknown): void =>
          reject(isUnsent(sent, error) ? new NotSent('there was no connection', { cause: error }) : error)
        sent.on('error', fail)
        const succeed = (answer: HttpAnswer): void => {
          isAnswered = true
          resolve(answer)
        }
        sent.on('response', (response) => gather(response, succeed, fail))
        sent.end(body ?? undefined)
      }),
    close() {
      plain.destroy()
      secure?.destroy()
    },
  }
}

const addresses = new Map<string, { readonly hostname: string; readonly port: string | undefined }>()

/** Takes an origin apart. There are few of them, so the results are kept. */
function addressOf(origin: string): { readonly hostname: string; readonly port: string | undefined } {
  const known = addresses.get(origin)
  if (known !== undefined) return known
  const { hostname, port } = new URL(origin)
  const address = { hostname: hostname.replace(/^\[|\]$/g, ''), port: port === '' ? undefined : port }
  addresses.set(origin, address)
  return address
}

function gather(
  response: IncomingMessage,
  succeed: (answer: HttpAnswer) => void,
  fail: (error: unknown) => void,
): void {
  const chunks: Buffer[] = []
  let byteLength = 0
  response.on('data', (chunk: Buffer) => {
    chunks.push(chunk)
    byteLength += chunk.byteLength
    if (byteLength > ANSWER_BYTES_MAX) response.destroy(new Error('the answer is too long'))
  })
  response.on('end', () => {
    const { statusCode = 0, headers } = response
    const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, byteLength)
    const { 'x-trilog-leader': leader } = headers
    succeed({
      status: statusCode,
      retryAfter: headers['retry-after'] ?? null,
      leader: typeof leader === 'string' ? leader : null,
      text: bytes.toString(),
    })
  })
  response.on('error', fail)
  response.on('close', () => {
    if (!response.complete) fail(new Error('the answer ended early'))
  })
}

/** True when the connection was never established: Node keeps what is written until it is. */
function isUnsent(sent: ClientRequest, error: unknown): boolean {
  const { syscall } = error as NodeJS.ErrnoException // read with care: it may be anything
  if (syscall === 'connect' || syscall === 'getaddrinfo') return true
  const socket: Socket | null = sent.socket
  return (
    socket === null ||
    socket.connecting ||
    (socket as Partial<TLSSocket> & { secureConnecting?: boolean }).secureConnecting === true
  )
}

/** The settings as `node:https` takes them. */
export const tlsOptionsOf = ({ ca, cert, key }: TlsSettings) => ({
  ...(ca !== undefined && { ca: pemOf(ca) }),
  ...(cert !== undefined && { cert: pemOf(cert) }),
  ...(key !== undefined && { key: pemOf(key) }),
})

/** Node's types want lists that can be changed, of buffers. */
function pemOf(pem: string | Uint8Array | readonly (string | Uint8Array)[]): (string | Buffer)[] {
  const list = typeof pem === 'string' || pem instanceof Uint8Array ? [pem] : pem
  return list.map((each) => (typeof each === 'string' ? each : Buffer.from(each)))
}
