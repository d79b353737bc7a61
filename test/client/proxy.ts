/** Between a client and a broker: one address for all lives of the broker, and connections that fail as the test says. */
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'

export class Proxy {
  /** Bytes of answers that went by. */
  answeredBytes = 0
  /** Connections of clients there have been. */
  connections = 0
  /** What of the next answers' first bytes comes through: called with them, true lets them pass, false cuts the connection. */
  passes: (answer: Buffer) => boolean = () => true
  /** So many bytes of answers go by, from the first; the connection that brings the next one is cut right behind them. */
  cutAfterBytes = Infinity
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  readonly #targetOf: () => string

  /** @param targetOf host:port of the broker that lives now */
  static async open(targetOf: () => string): Promise<Proxy> {
    const server = createServer()
    const proxy = new Proxy(server, targetOf)
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return proxy
  }

  private constructor(server: Server, targetOf: () => string) {
    this.#server = server
    this.#targetOf = targetOf
    server.on('connection', (client) => this.#join(client))
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}` // it listens on a port
  }

  /** All connections that are there. Not with resets: Node 22 then never ends, as it waits for handles that it has closed. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  /** Nobody is there any more; once or more often. */
  close(): void {
    this.#server.close()
    this.cut()
  }

  #join(client: Socket): void {
    this.connections += 1
    const [host, port] = this.#targetOf().split(':')
    const broker = connect(Number(port), host)
    for (const [socket, other] of [
      [client, broker],
      [broker, client],
    ] as const) {
      this.#sockets.add(socket)
      socket.setNoDelay()
      socket.on('error', () => other.destroy())
      socket.on('close', () => {
        this.#sockets.delete(socket)
        other.destroy()
      })
    }
    client.pipe(broker)
    broker.on('data', (bytes) => {
      if (!this.passes(bytes)) return void client.destroy()
      const left = this.cutAfterBytes - this.answeredBytes
      this.answeredBytes += bytes.byteLength
      if (left < bytes.byteLength) {
        this.cutAfterBytes = Infinity
        broker.destroy()
        return void client.end(bytes.subarray(0, left))
      }
      if (!client.write(bytes)) {
        broker.pause()
        client.once('drain', () => broker.resume())
      }
    })
  }
}
