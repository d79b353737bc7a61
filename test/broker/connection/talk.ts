/** A session without a socket, on a broker without threads or disk; and what its client is sent, as JSON or in frames. */
import { ALL_GRANTS } from '../../../src/broker/grants.ts'
import { Session } from '../../../src/broker/connection/session.ts'
import type { SessionParts } from '../../../src/broker/connection/session.ts'
import type { MessageSocket } from '../../../src/http/web-socket.ts'
import {
  ACK,
  ACKED,
  ANSWER,
  DELIVERIES,
  ENDED,
  FrameReader,
  FrameWriter,
  PUBLISH,
  PUBLISHED,
  REFUSED,
  REQUEST,
  u64At,
} from '../../../src/broker/wire/connection-frames.ts'
import { deliveriesIn } from '../../../src/client/streaming/decode.ts'
import { putId } from '../../../src/client/streaming/ids.ts'
import { CALLER } from '../../support/broker-world.ts'
import { CONNECTION_LIMITS } from '../../support/connections.ts'
import { nextTurn } from '../../support/next-turn.ts'
import type { BrokerWorld } from '../../support/broker-world.ts'

export type Said = Readonly<Record<string, unknown>>

export interface Given {
  readonly offset: number
  readonly attempt: number
  readonly subscription_id: string
  readonly delivery_id: string
  readonly message_id: string
  readonly payload_hex: string
}

export class Talk implements MessageSocket {
  readonly session: Session
  /** Messages that came, as parsed JSON. The answer to a publish in frames is shown with the fields of its frame. */
  readonly said: Said[] = []
  readonly given: Given[] = []
  readonly denied: string[] = []
  bufferedBytes = 0
  /** The socket sends nothing: every message stays in the buffer. */
  takesNothing = false
  /** Code and reason with which the session ended the connection. */
  ended: readonly [number, string] | null = null
  closedCount = 0

  constructor(world: BrokerWorld, overrides: Partial<SessionParts> = {}) {
    this.session = new Session({
      operations: world.operations,
      who: { ...CALLER, grants: ALL_GRANTS },
      onDenied: (_who, refused, stream) => void this.denied.push(`${stream}: ${refused.message}`),
      onFailure: (error) => {
        throw error
      },
      counters: { refused() {} },
      releasesLeasesOnClose: true,
      releaseClaims: (claims) => world.operations.releaseClaims({ answered() {}, refused() {} }, claims),
      bodyBytesMax: 1 << 16,
      limits: CONNECTION_LIMITS,
      defer: (run) => queueMicrotask(run),
      turn: nextTurn,
      onClosed: () => void (this.closedCount += 1),
      ...overrides,
    })
    this.session.opened(this)
  }

  sendTogether(send: () => void): void {
    send()
  }

  send(message: Uint8Array | string, isBinary: boolean): void {
    if (this.takesNothing) this.bufferedBytes += message.length
    if (isBinary) return this.#frames(Uint8Array.from(message as Uint8Array)) // the session uses these bytes again after the call
    const said = JSON.parse(Buffer.from(message as Uint8Array).toString()) as Said
    this.said.push(said)
    const claim = said['deliveries'] as
      | { deliveries: (Given & { record: Pick<Given, 'message_id' | 'payload_hex'> })[] }
      | undefined
    for (const { record, ...delivery } of claim?.deliveries ?? []) this.given.push({ ...delivery, ...record })
  }

  end(code: number, reason: string): void {
    this.ended = [code, reason]
    this.close()
  }

  close(): void {
    this.session.closed()
  }

  /** The newest answer to this id. */
  answer(id: number): Said | undefined {
    return this.said.findLast((each) => each['id'] === id)
  }

  text(value: unknown): void {
    this.session.message(new Uint8Array(Buffer.from(JSON.stringify(value))), false)
  }

  /** @returns the memory in which the message was handed over */
  frames(write: (writer: FrameWriter) => void): Uint8Array {
    const writer = new FrameWriter()
    write(writer)
    const message = writer.written.slice()
    this.session.message(message, true)
    return message
  }

  request(id: number, message: object): void {
    this.frames((writer) => {
      writer.begin(REQUEST, 0, id, '')
      writer.text(JSON.stringify(message))
      writer.end(1)
    })
  }

  publish(id: number, stream: string, ...messageIds: readonly string[]): void {
    this.frames((writer) => {
      writer.begin(PUBLISH, 0, id, stream)
      for (const messageId of messageIds) {
        writer.record({ messageId, payload: messageId, key: null, headers: {}, eventTimeMs: null })
      }
      writer.end(messageIds.length)
    })
  }

  ack(id: number, stream: string, ...deliveries: readonly Pick<Given, 'subscription_id' | 'delivery_id'>[]): void {
    const ids = new Uint8Array(32 * deliveries.length)
    deliveries.forEach(({ subscription_id, delivery_id }, i) => {
      putId('sub-', subscription_id, ids, 32 * i)
      putId('dlv-', delivery_id, ids, 32 * i + 16)
    })
    this.frames((writer) => {
      writer.begin(ACK, 0, id, stream)
      writer.raw(ids)
      writer.end(deliveries.length)
    })
  }

  #frames(bytes: Uint8Array): void {
    const frame = new FrameReader(bytes)
    while (frame.next()) this.#frame(frame)
  }

  #frame(frame: FrameReader): void {
    const { type, id, count, view, bodyAt } = frame
    for (let i = 0; i < count; i++) {
      if (type === PUBLISHED) this.said.push({ id: id + i, ok: { offset: u64At(view, bodyAt) + i } })
      if (type === ACKED) {
        this.said.push({ id: id + i, ok: { offset: u64At(view, bodyAt + 12 + 12 * i), consumer_group: frame.name() } })
      }
      if (type === REFUSED) this.said.push({ id: id + i, ...(JSON.parse(frame.text()) as object) })
    }
    if (type === ANSWER) this.said.push({ id, ok: JSON.parse(frame.text()) as object })
    if (type === ENDED) this.said.push({ id, ended: true, ...(JSON.parse(frame.text()) as object) })
    if (type !== DELIVERIES) return
    for (const { record, ...delivery } of deliveriesIn(frame, 's', 'g')) {
      const payload_hex = Buffer.from(record.payload).toString('hex')
      this.given.push({ ...delivery, message_id: record.message_id, payload_hex })
    }
  }
}
