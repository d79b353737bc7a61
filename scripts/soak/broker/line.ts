/**
 * One streaming connection to the broker, whichever process that is at the moment, in its JSON form.
 *
 * N1  an operation is sent once. Without an answer its outcome is unknown, and the caller gets null
 * N2  what is pushed may come at any time; it is told in the order in which it came, and answers likewise
 */
import assert from 'node:assert/strict'
import { CONNECTION_PATH, PROTOCOL } from '../../../src/broker/wire/connection-frames.ts'
import type { RefusalCode } from '../../../src/broker/refusals.ts'

interface Message {
  readonly id: number | null
  readonly ok?: object
  readonly error?: { readonly code: RefusalCode; readonly message: string }
  readonly deliveries?: object
  readonly ended?: true
}

export type LineAnswer =
  | { readonly kind: 'ok'; readonly body: object }
  | { readonly kind: 'refused'; readonly code: RefusalCode; readonly message: string }

export class Line {
  readonly #socket: WebSocket
  readonly #waiting = new Map<number, (answer: LineAnswer | null) => void>()
  readonly #ended: Promise<void>
  #nextId = 1
  #isOpen = true
  /** N2. Of the subscription with this id. */
  onDeliveries: (claim: object, subscription: number) => void = () => {}

  /** Null: no server is there. */
  static open(authority: string): Promise<Line | null> {
    const socket = new WebSocket(`ws://${authority}${CONNECTION_PATH}`, [PROTOCOL])
    return new Promise((resolve) => {
      socket.addEventListener('open', () => resolve(new Line(socket)))
      socket.addEventListener('error', () => resolve(null))
    })
  }

  private constructor(socket: WebSocket) {
    this.#socket = socket
    socket.addEventListener('message', ({ data }) => this.#take(JSON.parse(String(data)) as Message | Message[]))
    socket.addEventListener('error', () => socket.close())
    this.#ended = new Promise((resolve) => {
      socket.addEventListener('close', () => {
        this.#isOpen = false
        for (const answered of this.#waiting.values()) answered(null)
        this.#waiting.clear()
        resolve()
      })
    })
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  get isBusy(): boolean {
    return this.#waiting.size > 0
  }

  /** N1 */
  ask(op: string, fields: object): Promise<LineAnswer | null> {
    return this.askWithId(op, fields).answer
  }

  askWithId(op: string, fields: object): { readonly id: number; readonly answer: Promise<LineAnswer | null> } {
    const id = this.#nextId++
    const answer = new Promise<LineAnswer | null>((resolve) => {
      if (!this.#isOpen) return resolve(null)
      this.#waiting.set(id, resolve)
      this.#socket.send(JSON.stringify({ id, op, ...fields }))
    })
    return { id, answer }
  }

  /** Resolves when the connection is gone. */
  close(): Promise<void> {
    this.#socket.close()
    return this.#ended
  }

  #take(messages: Message | Message[]): void {
    for (const message of [messages].flat()) {
      const { id, ok, error, deliveries, ended } = message
      assert(id !== null && ended === undefined, JSON.stringify(message))
      if (deliveries !== undefined) {
        this.onDeliveries(deliveries, id)
        continue
      }
      const answered = this.#waiting.get(id)
      assert(answered, `an answer to no request: ${JSON.stringify(message)}`)
      this.#waiting.delete(id)
      if (ok !== undefined) answered({ kind: 'ok', body: ok })
      else answered({ kind: 'refused', code: error!.code, message: error!.message })
    }
  }
}
