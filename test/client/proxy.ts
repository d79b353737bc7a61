/** A proxy between client and broker: its address stays when the broker restarts, and its connections fail as the test says. */
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'

export class Proxy {
  /** Bytes of answers so far. */
  answeredBytes = 0
  /** Connections that clients have opened. */
  connections = 0
  /** Called with each chunk from the broker: true lets it pass, false cuts the connection. */
  passes: (answer: Buffer) => boolean = () => true
  /** After this many bytes of answers in all, the connection with the next byte is cut, once. */
  cutAfterBytes = Infinity
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  readonly #targetOf: () => string

  /** @param targetOf host:port of the present broker process */
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
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}` // a TCP server has no other kind
  }

  /** Cuts all connections. Not by resets: Node 22 would then never exit, as it waits for handles that it has closed. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  /** Refuses connections from now on. May be called more than once. */
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
