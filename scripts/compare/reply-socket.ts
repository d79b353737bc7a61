/** A TCP connection that carries one request at a time, for protocols of a few lines. */
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Socket } from 'node:net'

/** Takes all bytes since the request; null when the reply is not complete. */
export type ReadReply<T> = (bytes: Buffer) => T | null

export class ReplySocket {
  readonly #socket: Socket
  #received = Buffer.alloc(0)
  #take: (() => void) | null = null
  #fail: ((error: Error) => void) | null = null

  static async open(port: number): Promise<ReplySocket> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    await once(socket, 'connect')
    return new ReplySocket(socket)
  }

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.on('data', (chunk) => {
      this.#received = this.#received.byteLength === 0 ? chunk : Buffer.concat([this.#received, chunk])
      this.#take?.()
    })
    socket.on('error', (error) => this.#fail?.(error))
    socket.on('close', () => this.#fail?.(new Error('the server closed the connection')))
  }

  /** @throws Error also what `read` throws */
  request<T>(request: Buffer | string, read: ReadReply<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#fail = reject
      this.#take = () => {
        try {
          const reply = read(this.#received)
          if (reply === null) return
          this.#take = null
          this.#fail = null
          this.#received = Buffer.alloc(0)
          resolve(reply)
        } catch (error) {
          reject(error instanceof Error ? error : new Error(String(error)))
        }
      }
      this.#socket.write(request)
    })
  }

  close(): void {
    this.#socket.destroy()
  }
}
