/** A connection on which another node gives pieces of files (piece-line.ts). It is made when it is needed, and made anew when it has broken. */
import { request as requestHttp } from 'node:http'
import { connect, isIP } from 'node:net'
import type { OnReadOpts, Socket } from 'node:net'
import { connect as connectSecurely } from 'node:tls'
import { urlToHttpOptions } from 'node:url'
import { asError } from '../../errors.ts'
import { PIECE_PROTOCOL, PieceAnswers } from './piece-line.ts'
import type { PieceAnswer } from './piece-line.ts'
import { Refused, replyTo } from './reply.ts'

export interface PieceAccess {
  readonly url: string
  readonly secret: string
  /** Authorities in PEM; null: those that Node knows. */
  readonly ca: string | null
  /** A connection on which nothing moves for so long is closed. */
  readonly idleMs: number
}

interface Line {
  readonly socket: Socket
  readonly answers: PieceAnswers
}

/** Memory for what is read before the connection is upgraded. */
const GREETING_BYTES = 4096

export class PieceConnection {
  readonly #access: PieceAccess
  #line: Promise<Line> | null = null

  constructor(access: PieceAccess) {
    this.#access = access
  }

  /** @param into memory for the piece, in use until the answer. Rejects with `Refused`, or with the error that broke the connection */
  async ask(question: string, into: Buffer): Promise<PieceAnswer> {
    const { socket, answers } = await (this.#line ??= this.#open())
    const answer = answers.next(into)
    socket.write(`${question}\n`)
    return answer
  }

  close(): void {
    void this.#line?.then(
      ({ socket }) => socket.destroy(),
      () => {}, // `ask` has rejected
    )
  }

  async #open(): Promise<Line> {
    const { secret, idleMs } = this.#access
    const target = urlToHttpOptions(new URL(this.#access.url))
    const answers = new PieceAnswers()
    const greeting = Buffer.alloc(GREETING_BYTES)
    let isUpgraded = false
    const socket = connectTo(target, this.#access, {
      buffer: () => (isUpgraded ? answers.memory : greeting),
      callback(count, memory) {
        if (!isUpgraded) socket.push(Buffer.from(memory.subarray(0, count)))
        else if (memory === greeting) arrive(greeting.subarray(0, count))
        else came(count)
        return true
      },
    })
    const came = (count: number): void => {
      try {
        answers.received(count)
      } catch (error) {
        socket.destroy(asError(error))
      }
    }
    /** Takes bytes of the new protocol that were read into `greeting`, as the upgrade was not known yet. */
    const arrive = (bytes: Buffer): void => {
      for (let from = 0; from < bytes.byteLength && !socket.destroyed;) {
        const count = bytes.copy(answers.memory, 0, from)
        from += count
        came(count)
      }
    }
    let problem = new Error('the connection has ended')
    socket.on('error', (error) => (problem = error))
    socket.on('close', () => {
      this.#line = null
      answers.fail(problem)
    })
    socket.on('timeout', () => socket.destroy(new Error(`no answer for ${idleMs / 1000} s`)))
    const { hostname, port, path } = target
    const headers = { authorization: `Bearer ${secret}`, connection: 'Upgrade', upgrade: PIECE_PROTOCOL }
    const request = requestHttp({ hostname, port, path, headers, createConnection: () => socket })
    const upgraded = new Promise<void>((resolve) => {
      request.on('upgrade', () => {
        isUpgraded = true
        resolve()
      })
    })
    request.end()
    const reply = await Promise.race([upgraded, replyTo(request)])
    if (reply === undefined) return { socket, answers }
    socket.destroy()
    throw new Refused(reply)
  }
}

/** @param onread gives the memory to read into: with buffers of the socket, bytes would be copied once more, and the buffers collected */
function connectTo(
  { protocol, hostname, port }: ReturnType<typeof urlToHttpOptions>,
  { ca, idleMs }: PieceAccess,
  onread: OnReadOpts,
): Socket {
  const host = hostname ?? ''
  if (protocol !== 'https:') return connect({ host, port: Number(port ?? 80), onread, timeout: idleMs })
  const names = isIP(host) === 0 ? { servername: host } : {}
  const options = { host, port: Number(port ?? 443), onread, timeout: idleMs, ...names, ...(ca !== null && { ca }) }
  return connectSecurely(options)
}
