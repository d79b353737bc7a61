/**
 * A network link that tests can break: a TCP proxy on loopback with a switch for each direction.
 *
 * L1  no byte is lost or changed on a connection that goes on: TCP sends lost packets again, so the other side only gets them later
 * L2  when much waits to pass, the side that sends is no longer read, as when the other side's window is closed
 */
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import { timePasses } from './waiting.ts'

/** Seen from the side that connects. */
export type Direction = 'there' | 'back'

/** Nothing listens there. */
const NOWHERE = { host: '127.0.0.1', port: 1 }
const DIRECTIONS: readonly Direction[] = ['there', 'back']
/** L2 */
const HELD_BYTES_MAX = 1 << 20

export class Link {
  readonly #server: Server
  #target = NOWHERE
  readonly #connections = new Set<Connection>()
  #isCut = false
  readonly #states: Record<Direction, PassState> = { there: new PassState(), back: new PassState() }

  /** @param target see `aim`; absent: connections are refused until it is known */
  static async to(target?: string): Promise<Link> {
    const link = new Link()
    link.#server.listen(0, '127.0.0.1')
    await once(link.#server, 'listening')
    if (target !== undefined) link.aim(target)
    return link
  }

  private constructor() {
    this.#server = createServer({ allowHalfOpen: true }, (socket) => this.#accept(socket))
    this.#server.unref()
  }

  /** Later connections go to this target. @param target `host:port`, with a scheme or without */
  aim(target: string): void {
    const { hostname, port } = new URL(target.includes('://') ? target : `tcp://${target}`)
    this.#target = { host: hostname, port: Number(port) }
  }

  /** `host:port` */
  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  get url(): string {
    return `nats://${this.address}`
  }

  /** Connections that are open now. */
  get connections(): number {
    return this.#connections.size
  }

  /** Bytes that have come through. */
  passedBytes(direction: Direction): number {
    return this.#states[direction].passedBytes
  }

  /** L1. Bytes in this direction wait until `heal`. New connections can still be made, but nothing passes on them. */
  hold(...directions: readonly Direction[]): void {
    for (const direction of directions) this.#states[direction].hold()
  }

  /** Bytes in this direction arrive this much later. */
  delay(direction: Direction, delayMs: number): void {
    this.#states[direction].delayMs = delayMs
  }

  /** Resets all connections, and each new one. */
  cut(): void {
    this.#isCut = true
    for (const connection of this.#connections) connection.reset()
  }

  /** Ends all faults. */
  heal(): void {
    this.#isCut = false
    for (const direction of DIRECTIONS) this.#states[direction].pass()
  }

  async close(): Promise<void> {
    this.cut()
    this.heal() // `pump` finds its connection gone when it goes on
    if (this.#server.listening) await once(this.#server.close(), 'close')
  }

  #accept(near: Socket): void {
    if (this.#isCut) {
      near.resetAndDestroy()
      return
    }
    const far = connect({ ...this.#target, allowHalfOpen: true })
    const connection = new Connection(near, far, this.#states)
    this.#connections.add(connection)
    connection.onClose(() => this.#connections.delete(connection))
  }
}

/** Whether bytes of one direction pass, and with which delay. */
class PassState {
  delayMs = 0
  passedBytes = 0
  #held: PromiseWithResolvers<void> | null = null

  hold(): void {
    this.#held ??= Promise.withResolvers()
  }

  pass(): void {
    this.delayMs = 0
    this.#held?.resolve()
    this.#held = null
  }

  async passes(): Promise<void> {
    while (this.#held !== null) await this.#held.promise
  }
}

class Connection {
  readonly #sockets: readonly [near: Socket, far: Socket]

  constructor(near: Socket, far: Socket, states: Readonly<Record<Direction, PassState>>) {
    this.#sockets = [near, far]
    for (const socket of this.#sockets) {
      socket.setNoDelay(true).unref()
      socket.on('error', () => {}) // 'close' follows
      socket.on('close', () => this.reset()) // one side is gone, so is the other
    }
    pump(near, far, states.there)
    pump(far, near, states.back)
  }

  onClose(run: () => void): void {
    this.#sockets[0].once('close', run)
  }

  reset(): void {
    for (const socket of this.#sockets) if (!socket.destroyed) socket.resetAndDestroy()
  }
}

interface Waiting {
  /** Null: the side that sends has ended. */
  readonly bytes: Buffer | null
  readonly dueMs: number
}

/** Passes on to `to` what `from` sends, in order. */
function pump(from: Socket, to: Socket, state: PassState): void {
  const waiting: Waiting[] = []
  let heldBytes = 0
  let isPassing = false
  const pass = async (): Promise<void> => {
    isPassing = true
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      await state.passes()
      const leftMs = next.dueMs - performance.now()
      if (leftMs > 0) await timePasses(leftMs)
      if (to.destroyed) break
      if (next.bytes === null) to.end()
      else to.write(next.bytes)
      state.passedBytes += next.bytes?.byteLength ?? 0
      heldBytes -= next.bytes?.byteLength ?? 0
      if (heldBytes < HELD_BYTES_MAX) from.resume()
    }
    isPassing = false
  }
  const take = (bytes: Buffer | null): void => {
    waiting.push({ bytes, dueMs: performance.now() + state.delayMs })
    heldBytes += bytes?.byteLength ?? 0
    if (heldBytes > HELD_BYTES_MAX) from.pause() // L2
    if (!isPassing) void pass()
  }
  from.on('data', take)
  from.on('end', () => take(null))
}
