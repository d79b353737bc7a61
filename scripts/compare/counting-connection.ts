/**
 * An HTTP connection that carries one request at a time and counts the bytes of an answer's body instead of keeping them: with large
 * objects, a client on the same cores must take as little of them as it can.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Socket } from 'node:net'

const READ_BYTES = 512 * 1024
const HEAD_END = Buffer.from('\r\n\r\n')
const NONE = Buffer.alloc(0)

export interface CountedAnswer {
  readonly status: number
  readonly bodyBytes: number
}

export class CountingConnection {
  readonly #socket: Socket
  /** What has come of a head that is not complete. */
  #head: Buffer = NONE
  #status = 0
  /** Null: the head is not complete. */
  #missingBytes: number | null = null
  #bodyBytes = 0
  #hasBody = true
  #settle: { resolve(answer: CountedAnswer): void; reject(error: Error): void } | null = null

  static async open(port: number): Promise<CountingConnection> {
    const buffer = Buffer.alloc(READ_BYTES)
    let connection: CountingConnection | null = null
    const socket = connect({
      port,
      host: '127.0.0.1',
      noDelay: true,
      onread: {
        buffer,
        callback: (bytes) => {
          connection?.received(buffer.subarray(0, bytes))
          return true
        },
      },
    })
    await once(socket, 'connect')
    return (connection = new CountingConnection(socket))
  }

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.on('error', (error) => this.#settle?.reject(error))
    socket.on('close', () => this.#settle?.reject(new Error('the server closed the connection')))
  }

  /** @param body null: there is none. @throws Error when the connection ends, or the answer has no length */
  send(method: string, target: string, host: string, body: Buffer | null): Promise<CountedAnswer> {
    this.#head = NONE
    this.#missingBytes = null
    this.#bodyBytes = 0
    this.#hasBody = method !== 'HEAD'
    return new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
      this.#socket.cork()
      const length = body === null ? '' : `content-length: ${body.byteLength}\r\n`
      this.#socket.write(`${method} ${target} HTTP/1.1\r\nhost: ${host}\r\n${length}\r\n`)
      if (body !== null) this.#socket.write(body)
      this.#socket.uncork()
    })
  }

  /** Called for what the socket receives. */
  received(chunk: Buffer): void {
    const bodyBytes = this.#missingBytes === null ? this.#takeHead(chunk) : chunk.byteLength
    if (this.#missingBytes === null) return
    this.#bodyBytes += bodyBytes
    this.#missingBytes -= bodyBytes
    if (this.#missingBytes > 0) return
    this.#settle?.resolve({ status: this.#status, bodyBytes: this.#bodyBytes })
  }

  close(): void {
    this.#settle = null
    this.#socket.destroy()
  }

  /** @returns how many bytes of the body came with it */
  #takeHead(chunk: Buffer): number {
    this.#head = this.#head.byteLength === 0 ? Buffer.from(chunk) : Buffer.concat([this.#head, chunk])
    const end = this.#head.indexOf(HEAD_END)
    if (end < 0) return 0
    const text = this.#head.toString('latin1', 0, end + 2)
    this.#status = Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1])
    const length = /\r\ncontent-length: *(\d+)\r\n/i.exec(text)?.[1]
    if (length === undefined && this.#hasBody && this.#status !== 204) {
      this.#settle?.reject(new Error('an answer without a length'))
    }
    this.#missingBytes = this.#hasBody ? Number(length ?? 0) : 0
    return this.#head.byteLength - end - HEAD_END.byteLength
  }
}
