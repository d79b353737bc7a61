/**
 * A connection to any server on which many publishes are under way, with as little work for each as can be: messages are made once, and answers
 * are only counted. The load stands beside the servers on the same cores, so it has to cost the same for each of them.
 *
 * P1  at most `window` records are sent and not answered
 * P2  answers are counted in the order of the records, as all of these protocols answer in order
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { connect as connectSecurely } from 'node:tls'
import type { Server } from '../server.ts'

export interface Protocol {
  /** One message, or several back to back, that publish so many records. */
  encode(records: number): Buffer
  /** How many records these bytes say are stored. @throws Error a refusal. A rest that is no whole answer is kept by the protocol */
  count(bytes: Buffer): number
  /** What is sent and awaited before the first record. */
  greet?(socket: Socket): Promise<void>
}

/** A server that runs, and how one publishes to it. */
export interface Piped {
  readonly name: string
  readonly version: string
  readonly server: Server
  open(): Promise<Pipe>
}

export class Pipe {
  readonly #socket: Socket
  readonly #protocol: Protocol
  #waiting: { readonly answered: (records: number) => void; readonly failed: (error: Error) => void } | null = null

  /** @param ca of the authority of the server's certificate; null: no TLS */
  static async open(port: number, protocol: Protocol, ca: Buffer | null = null): Promise<Pipe> {
    const place = { port, host: '127.0.0.1' }
    const socket =
      ca === null ? connect({ ...place, noDelay: true }) : connectSecurely({ ...place, ca, servername: 'localhost' })
    await once(socket, ca === null ? 'connect' : 'secureConnect')
    socket.setNoDelay(true)
    await protocol.greet?.(socket)
    return new Pipe(socket, protocol)
  }

  private constructor(socket: Socket, protocol: Protocol) {
    this.#socket = socket
    this.#protocol = protocol
    socket.on('data', (chunk) => {
      try {
        const records = protocol.count(chunk)
        if (records > 0) this.#waiting?.answered(records)
      } catch (error) {
        this.#waiting?.failed(error instanceof Error ? error : new Error(String(error)))
      }
    })
    socket.on('error', (error) => this.#waiting?.failed(error))
    socket.on('close', () => this.#waiting?.failed(new Error('the server closed the connection')))
  }

  /** P1. Resolves when all records are stored. */
  publish(records: number, window: number): Promise<void> {
    let sent = 0
    let stored = 0
    const more = (): void => {
      const count = Math.min(window - (sent - stored), records - sent)
      if (count === 0) return
      this.#socket.write(this.#protocol.encode(count))
      sent += count
    }
    return new Promise((resolve, reject) => {
      this.#waiting = {
        answered(count) {
          stored += count
          if (stored === records) resolve()
          else more()
        },
        failed: reject,
      }
      more()
    })
  }

  /**
   * P2. Publishes at a steady pace, however fast it is answered. Timers of Node have steps of a millisecond, and are late when the machine stalls.
   *
   * @param told of each record how late it was sent, and how long it took from then on
   */
  pace(perSecond: number, durationMs: number, nowMs: () => number, told: PaceTold): Promise<void> {
    const sentMs: number[] = []
    let answered = 0
    let isOver = false
    return new Promise((resolve, reject) => {
      const beganMs = nowMs()
      const timer = setInterval(() => {
        const elapsedMs = Math.min(nowMs() - beganMs, durationMs)
        const due = Math.floor((perSecond * elapsedMs) / 1000)
        const count = due - sentMs.length
        for (let i = sentMs.length; i < due; i += 1) {
          sentMs.push(beganMs + elapsedMs)
          told.late(elapsedMs - (1000 * (i + 1)) / perSecond)
        }
        if (count > 0) this.#socket.write(this.#protocol.encode(count))
        isOver = elapsedMs === durationMs
        if (isOver) clearInterval(timer)
        if (isOver && answered === sentMs.length) resolve()
      }, 1)
      this.#waiting = {
        answered(count) {
          const atMs = nowMs()
          for (let i = 0; i < count; i += 1) told.stored(atMs - sentMs[answered + i]!)
          answered += count
          if (isOver && answered === sentMs.length) resolve()
        },
        failed(error) {
          clearInterval(timer)
          reject(error)
        },
      }
    })
  }

  close(): void {
    this.#waiting = null
    this.#socket.destroy()
  }
}

interface PaceTold {
  late(ms: number): void
  stored(ms: number): void
}

/** The same message again and again, in memory once. */
export class Repeated {
  readonly #one: Buffer
  #bytes: Buffer

  constructor(one: Buffer) {
    this.#one = one
    this.#bytes = one
  }

  times(count: number): Buffer {
    const length = this.#one.byteLength * count
    if (length > this.#bytes.byteLength) this.#bytes = Buffer.alloc(length, this.#one)
    return this.#bytes.subarray(0, length)
  }
}

/** Bytes that came, from the first that was not understood yet. */
export class Unread {
  bytes: Buffer = Buffer.alloc(0)

  add(chunk: Buffer): Buffer {
    this.bytes = this.bytes.byteLength === 0 ? chunk : Buffer.concat([this.bytes, chunk])
    return this.bytes
  }

  keepFrom(at: number): void {
    this.bytes = this.bytes.subarray(at)
  }
}
