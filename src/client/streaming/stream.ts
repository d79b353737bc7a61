/**
 * The streaming connection of a client to a broker: many operations are in flight at once, and those of a turn share a message.
 *
 * S1  every operation settles once: by its answer, by its signal, in time, or with the connection
 * S2  a connection is opened when an operation needs it. If it does not open, the next address is tried. After all have failed, or after a
 *     connection was lost, the next one is opened after a wait, which doubles each time. Operations that wait for it are sent when it opens
 * S3  operations that were sent and not answered when the connection is lost may have had their effect: their callers are told so, and
 *     nothing is sent twice
 * S4  after `close` no operation is sent
 * S5  a connection on which an operation was not answered in time is given up, and so is one that does not open in time. If no operation is pending, as while it waits for deliveries,
 *     a ping is sent
 */
import {
  ACKED,
  ANSWER,
  BEARER,
  CONNECTION_PATH,
  DELIVERIES,
  ENDED,
  FrameReader,
  PROTOCOL,
  PUBLISHED,
  REFUSED,
  REQUEST,
} from '../../broker/wire/connection-frames.ts'
import type { FrameWriter } from '../../broker/wire/connection-frames.ts'
import type { ClientTimers } from '../pause.ts'
import { aborted, transportFailed } from '../sdk-error.ts'
import type { SdkError } from '../sdk-error.ts'
import type { Delivery } from '../broker-client.ts'
import { deliveriesIn, refusalIn } from './decode.ts'
import { Lane, MESSAGE_BYTES_MAX } from './lane.ts'
import type { ClientSocket, OpenSocket } from './socket.ts'

export interface StreamParts {
  readonly origins: readonly string[]
  /** Null: there is no key. */
  readonly apiKey: string | null
  /** What becomes of unsettled deliveries when the connection is lost. */
  readonly leases: 'keep' | 'release'
  readonly requestTimeoutMs: number
  readonly maxQueuedCalls: number
  readonly openSocket: OpenSocket
  readonly timers: ClientTimers
  /** Calls `run` once, after this turn of the event loop. */
  readonly defer: (run: () => void) => void
  readonly random: () => number
}

/** Called at the end of one operation. */
export interface Pending {
  /** @param index of the operation among those that the frame answers */
  answered(frame: FrameReader, index: number): void
  failed(error: unknown): void
}

interface Waiting {
  readonly pending: Pending
  readonly dueMs: number
}

/** Receives what is pushed to a subscription. */
export interface PushTarget {
  readonly stream: string
  readonly group: string
  delivered(deliveries: readonly Delivery[]): void
  /** Called when the broker ended it, or the connection was lost. */
  ended(error: SdkError): void
}

/** Publishes have ids below this, all other operations from here on. */
const HALF_OF_IDS = 2 ** 31
const IDS_END = 2 ** 32
const BACKOFF_MS_FIRST = 50
const BACKOFF_MS_MAX = 2000
const LOOKS_PER_TIMEOUT = 4

export class Stream {
  readonly #parts: StreamParts
  readonly #protocols: readonly string[]
  readonly #publishes = new Lane(0, HALF_OF_IDS)
  readonly #others = new Lane(HALF_OF_IDS, IDS_END)
  /** By id, in the order they were asked, those that wait for a connection included. */
  readonly #pending = new Map<number, Waiting>()
  readonly #pushes = new Map<number, PushTarget>()
  #socket: ClientSocket | null = null
  #state: 'idle' | 'pausing' | 'opening' | 'open' = 'idle'
  #origin = 0
  /** Failed connections in a row since the last one that opened. */
  #failures = 0
  /** Addresses that were tried for the connection that is being opened. */
  #tried = 0
  #heardAtMs = 0
  #isFlushing = false
  #isClosed = false
  /** Called when nothing is pending any more. */
  #idle: () => void = () => {}
  #closed: Promise<void> | null = null
  #cancelPause: () => void = () => {}
  #cancelLook: (() => void) | null = null

  constructor(parts: StreamParts) {
    this.#parts = parts
    const { apiKey } = parts
    this.#protocols = apiKey === null ? [PROTOCOL] : [PROTOCOL, `${BEARER}${base64urlOf(apiKey)}`]
  }

  /** Sends an operation in a frame of its kind. @throws SdkError */
  add(
    type: number,
    flags: number,
    name: string,
    write: (writer: FrameWriter) => void,
    pending: Pending,
    isPublish: boolean,
  ): number {
    this.#admit()
    return this.#add(isPublish ? this.#publishes : this.#others, type, flags, name, false, write, pending)
  }

  /** Sends an operation of the client itself as JSON in a frame of its own, however many calls wait. @throws SdkError when it is closed */
  request(text: string, pending: Pending): number {
    return this.#add(this.#others, REQUEST, 0, '', true, (writer) => writer.text(text), pending)
  }

  /** The same; resolves with the answer. */
  ask<T>(text: string, signal: AbortSignal | undefined): Promise<T> {
    return this.promised(
      (pending) => {
        this.#admit()
        return this.request(text, pending)
      },
      (frame) => JSON.parse(frame.text()) as T, // the broker's own answer
      signal,
    )
  }

  /** S1 */
  promised<T>(
    add: (pending: Pending) => number,
    read: (frame: FrameReader, index: number) => T,
    signal: AbortSignal | undefined,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) throw aborted()
      const id = add({
        answered(frame, index) {
          signal?.removeEventListener('abort', abort)
          resolve(read(frame, index))
        },
        failed(error) {
          signal?.removeEventListener('abort', abort)
          // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- an SdkError, wherever it comes from
          reject(error)
        },
      })
      const abort = (): void => {
        if (!this.#pending.delete(id)) return
        reject(aborted())
        if (this.#pending.size === 0) this.#idle()
      }
      signal?.addEventListener('abort', abort, { once: true })
    })
  }

  /** Passes deliveries of the subscription of this id to `target`. */
  listen(id: number, target: PushTarget): void {
    this.#pushes.set(id, target)
  }

  unlisten(id: number): void {
    this.#pushes.delete(id)
  }

  /** S4. Earlier operations are waited for. */
  close({ withinMs }: { readonly withinMs: number }): Promise<void> {
    this.#closed ??= this.#close(withinMs)
    return this.#closed
  }

  async #close(withinMs: number): Promise<void> {
    if (this.#pending.size > 0) {
      await new Promise<void>((resolve) => {
        const cancel = this.#parts.timers.wait(withinMs, resolve)
        this.#idle = () => {
          cancel()
          resolve()
        }
      })
    }
    this.#isClosed = true
    this.#cancelPause()
    this.#socket?.close()
    const closed = (): SdkError => transportFailed('client_closed', 'the client was closed before the answer')
    this.#failAll(closed, closed)
  }

  /** @throws SdkError when too many calls wait */
  #admit(): void {
    if (this.#pending.size < this.#parts.maxQueuedCalls) return
    throw transportFailed('too_many_calls', 'too many calls wait for their answers', { retryable: true })
  }

  #add(
    lane: Lane,
    type: number,
    flags: number,
    name: string,
    isAlone: boolean,
    write: (writer: FrameWriter) => void,
    pending: Pending,
  ): number {
    if (this.#isClosed) throw transportFailed('client_closed', 'the client is closed')
    const isIdle = this.#pending.size === 0
    const id = lane.add(type, flags, name, isAlone, write)
    this.#pending.set(id, { pending, dueMs: this.#parts.timers.nowMs() + this.#parts.requestTimeoutMs })
    this.#lookLater()
    if (this.#state !== 'open') this.#open()
    else if (lane.bytes >= MESSAGE_BYTES_MAX) this.#flush()
    else this.#flushLater(isIdle)
    return id
  }

  /** If others are in flight, their answers bring more operations in this turn, so the flush waits for its end. */
  #flushLater(isIdle: boolean): void {
    if (this.#isFlushing) return
    this.#isFlushing = true
    const flush = (): void => {
      this.#isFlushing = false
      this.#flush()
    }
    if (isIdle) queueMicrotask(flush)
    else this.#parts.defer(flush)
  }

  #flush(): void {
    const socket = this.#socket
    if (socket === null || this.#state !== 'open') return
    this.#publishes.flush((message) => socket.send(message))
    this.#others.flush((message) => socket.send(message))
  }

  // The connection

  /** S2 */
  #open(): void {
    if (this.#state !== 'idle') return
    const { timers, random } = this.#parts
    if (this.#failures === 0) return this.#connect()
    this.#state = 'pausing'
    const boundMs = Math.min(BACKOFF_MS_MAX, BACKOFF_MS_FIRST * 2 ** (this.#failures - 1))
    this.#cancelPause = timers.wait((boundMs * (1 + random())) / 2, () => this.#connect())
  }

  #connect(): void {
    const { origins, openSocket, leases } = this.#parts
    const origin = origins[this.#origin % origins.length]!
    const url = `${origin.replace(/^http/, 'ws')}${CONNECTION_PATH}?leases=${leases}`
    this.#state = 'opening'
    let hasOpened = false
    const socket: ClientSocket = openSocket(url, this.#protocols, {
      opened: () => {
        if (this.#socket !== socket) return
        hasOpened = true
        this.#failures = 0
        this.#tried = 0
        this.#state = 'open'
        this.#heardAtMs = this.#parts.timers.nowMs()
        this.#flush()
      },
      message: (bytes) => this.#take(bytes),
      closed: (code, reason) => {
        if (this.#socket === socket) this.#lost(origin, hasOpened, code, reason)
      },
    })
    this.#socket = socket
  }

  /** S3. If the connection never opened, nothing was sent; if it had opened, operations may have been. */
  #lost(origin: string, hasOpened: boolean, code: number, reason: string): void {
    this.#socket = null
    this.#state = 'idle'
    this.#origin += 1
    this.#tried += 1
    if (!hasOpened && this.#tried < this.#parts.origins.length) return this.#connect()
    this.#tried = 0
    this.#failures += 1
    this.#publishes.clear()
    this.#others.clear()
    const said = reason === '' ? '' : `: ${reason}${code === 0 ? '' : ` (${code})`}`
    const failed = (): SdkError =>
      transportFailed('connection_failed', `there is no streaming connection to ${origin}`, { retryable: true })
    const lost = (retryable: boolean): SdkError =>
      transportFailed('connection_lost', `the connection to ${origin} was lost before the answer${said}`, { retryable })
    if (hasOpened)
      this.#failAll(
        () => lost(false),
        () => lost(true),
      )
    else this.#failAll(failed, failed)
  }

  #failAll(errorOf: () => SdkError, pushErrorOf: () => SdkError): void {
    this.#cancelLook?.()
    this.#cancelLook = null
    const pending = [...this.#pending.values()]
    const pushes = [...this.#pushes.values()]
    this.#pending.clear()
    this.#pushes.clear()
    for (const each of pending) each.pending.failed(errorOf())
    for (const each of pushes) each.ended(pushErrorOf())
    this.#idle()
  }

  // Answers

  #take(bytes: Uint8Array): void {
    this.#heardAtMs = this.#parts.timers.nowMs()
    const frame = new FrameReader(bytes)
    try {
      while (frame.next()) this.#frame(frame)
      if (this.#pending.size === 0) this.#idle()
    } catch {
      this.#socket?.close() // no broker sends such frames
      return
    }
    if (!frame.isAtEnd) this.#socket?.close()
  }

  #frame(frame: FrameReader): void {
    const { type, id, count } = frame
    if (type === PUBLISHED || type === ACKED || type === ANSWER) {
      for (let i = 0; i < count; i++) {
        const waiting = this.#pending.get(id + i)
        if (waiting === undefined) continue // the caller no longer waits
        this.#pending.delete(id + i)
        waiting.pending.answered(frame, i)
      }
    } else if (type === REFUSED) {
      const error = refusalIn(frame.text())
      for (let i = 0; i < count; i++) {
        const waiting = this.#pending.get(id + i)
        this.#pending.delete(id + i)
        waiting?.pending.failed(error)
      }
    } else if (type === DELIVERIES) {
      const target = this.#pushes.get(id)
      target?.delivered(deliveriesIn(frame, target.stream, target.group))
    } else if (type === ENDED) {
      const target = this.#pushes.get(id)
      this.#pushes.delete(id)
      target?.ended(refusalIn(frame.text()))
    }
  }

  // Time

  #lookLater(): void {
    const { timers, requestTimeoutMs } = this.#parts
    this.#cancelLook ??= timers.wait(Math.ceil(requestTimeoutMs / LOOKS_PER_TIMEOUT), () => this.#look())
  }

  /** S1, S5. All operations have the same timeout, so those that came first are due first. */
  #look(): void {
    this.#cancelLook = null
    const { timers, requestTimeoutMs } = this.#parts
    const nowMs = timers.nowMs()
    let isLate = false
    for (const [id, { pending, dueMs }] of this.#pending) {
      if (dueMs > nowMs) break
      isLate = true
      if (this.#state === 'opening') break // nothing was sent
      this.#pending.delete(id)
      pending.failed(transportFailed('timeout', 'the broker did not answer in time'))
    }
    if (isLate) this.#giveUp()
    else if (this.#pushes.size > 0 && this.#pending.size === 0 && nowMs - this.#heardAtMs > requestTimeoutMs) {
      this.request('{"op":"ping"}', { answered: () => {}, failed: () => {} })
    }
    if (this.#pending.size > 0 || this.#pushes.size > 0) this.#lookLater()
  }

  /** S5. The socket may never say that it is closed, so its end is not waited for. */
  #giveUp(): void {
    const socket = this.#socket
    if (socket === null) return
    const { origins } = this.#parts
    this.#tried = origins.length // what waits for a connection has waited long enough
    this.#lost(origins[this.#origin % origins.length]!, this.#state === 'open', 0, 'it does not answer')
    socket.close()
  }
}

/** A key is visible ASCII. */
const base64urlOf = (key: string): string => btoa(key).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
