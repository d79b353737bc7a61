/**
 * An exchange over uWebSockets.js: E1 to E5 of exchange.ts, and
 *
 * E6  a client that asked for the connection to be closed is answered when its body is over. A connection that is closed with unread bytes is
 *     reset, and the client would see that instead of the answer. A body that stalls meanwhile, or is much too long, is not awaited
 * E7  if the server waits for a client, to send a body or to take an answer, it gives the client up stalledClientMs after its last progress,
 *     however small. Every sweep puts off the library's own time-out, which is shorter and answers nothing
 * E8  before that only `giveUp` gives a client up, and only while the server waits for it and it is slow (slow-clients.ts)
 * E9  a chunked body is handed over as whole only after the library has parsed everything it read with the last chunk, and nothing more is
 *     read until the answer, or for TAIL_UNREAD_SWEEPS: the library takes trailers for a bad request and closes the connection. So a request
 *     with trailers ends as aborted before its body is whole, or is answered before they are read
 */
import assert from 'node:assert/strict'
import type { Link } from '../linked-list.ts'
import { textOfHeaders } from './exchange.ts'
import type { AnswerHost } from './answer-host.ts'
import type { AnswerSource, BodySink, Exchange, HeaderLines, TimeOut } from './exchange.ts'
import { ANSWER_BYTES_BUFFERED_MAX, DROPPED_BYTES_MAX, TAIL_UNREAD_SWEEPS } from './limits.ts'
import type { ExchangeHost } from './exchange-host.ts'
import { HeldMemory } from './held-memory.ts'
import type { UwsRequestHead } from './request-head.ts'
import type { WatchedRequest } from './request-watch.ts'
import { sendAsRead, sendFrom } from './sized-answer.ts'
import { Pace } from './slow-clients.ts'
import { sendStream } from './stream-answer.ts'
import { statusLine } from './status.ts'
import type { UwsResponse } from './uws.ts'

const NO_BYTES = new Uint8Array(0)

export class UwsExchange implements Exchange {
  readonly id: string
  route: string
  readonly startedMs: number
  /** Status of the answer, and bytes of its body; 0 until there is one, and when the client left before it had all of it. */
  status = 0
  sentBytes = 0
  tenant: string | null = null
  principal: string | null = null
  watched: WatchedRequest | null = null

  readonly #host: ExchangeHost<UwsExchange>
  readonly #response: UwsResponse
  readonly #isHead: boolean
  readonly #declaredBytes: number
  readonly #isChunked: boolean
  #state: 'open' | 'answering' | 'answered' | 'aborted' = 'open'
  #endListener: ((how: 'answered' | 'aborted') => void) | null = null
  #moreEndListeners: ((how: 'answered' | 'aborted') => void)[] | null = null

  /** True inside a callback of the library, which gathers what is written and sends it at its end. */
  #isCorked = true
  #progressDueMs = 0
  /** Set while the host watches the exchange. */
  #link: Link<UwsExchange> | null = null
  #sink: BodySink | null = null // null: not asked for, complete, or dropped
  #paused = false
  #offerRest: (() => void) | null = null // null: nothing waits for the reader
  #limitBytes = 0
  #receivedBytes = 0
  /** The answer closes the connection at once, even if part of the request is unread. */
  #endsConnection = false
  /** E9: sweeps since the last chunk; -1: that has not come yet, or the answer has begun. */
  #tailSweeps = -1
  /** E6 */
  #mustReadOn = false
  /** Called when the exchange ends, so that a sender or source learns that its client is gone. */
  #abandonAnswer: (() => void) | null = null
  /** E8: pace of the present wait; null until it is first needed. */
  #pace: Pace | null = null
  #waitsSinceMs = 0
  /** True when the body is held in memory until it is complete. */
  #isHeld = false
  /** Null: nothing was held yet. */
  #memory: HeldMemory | null = null

  constructor(host: ExchangeHost<UwsExchange>, response: UwsResponse, head: UwsRequestHead, route: string) {
    const { framing } = head
    this.route = route
    this.startedMs = host.nowMs()
    this.#host = host
    this.#response = response
    this.#isHead = head.method === 'HEAD'
    this.#declaredBytes = framing.declaredBytes
    this.#isChunked = framing.isChunked
    this.#endsConnection = framing.problem !== null
    let ownId = head.header(host.requestIdHeader)
    if (ownId === '' && host.requestIdAlias !== null) ownId = head.header(host.requestIdAlias)
    this.id = host.requestIdOf(ownId)
    this.#mustReadOn = (this.#declaredBytes > 0 || this.#isChunked) && asksToClose(head) && !this.#endsConnection
    if (this.#mustReadOn) response.onData((chunk, isLast) => this.#receive(chunk, isLast))
  }

  /** To be called when the library's callback for the headers ends. An exchange that is answered by then cannot abort any more. */
  headersEnded(): void {
    this.#isCorked = false
    if (this.#state === 'answered' || this.#state === 'aborted') return
    this.#response.onAborted(() => this.#end('aborted'))
  }

  get remoteAddress(): string {
    return this.ended ? '' : Buffer.from(this.#response.getRemoteAddressAsText()).toString('latin1')
  }

  get isSecure(): boolean {
    return this.#host.isSecure
  }

  get clientCertificate(): string {
    return this.#host.isSecure && !this.ended ? this.#response.getX509Certificate() : ''
  }

  get receivedBytes(): number {
    return this.#receivedBytes
  }

  get ended(): boolean {
    return this.#state !== 'open'
  }

  onEnd(listener: (how: 'answered' | 'aborted') => void): void {
    if (this.#state === 'answered' || this.#state === 'aborted') return listener(this.#state)
    if (this.#endListener === null) this.#endListener = listener
    else (this.#moreEndListeners ??= []).push(listener)
  }

  readBody(limitBytes: number, sink: BodySink): void {
    if (this.#state !== 'open') return
    assert(this.#sink === null && this.#receivedBytes === 0, 'a body is read once')
    if (this.#declaredBytes > limitBytes) return sink.tooLarge()
    this.#isHeld = Number.isFinite(limitBytes)
    this.#awaitBody(limitBytes, sink, this.startedMs)
    if (this.#mustReadOn) return
    const { watched } = this
    const receive = (chunk: ArrayBuffer, isLast: boolean): void => this.#receive(chunk, isLast)
    if (watched === null) this.#response.onData(receive)
    else this.#response.onData((chunk, isLast) => watched.runWithin(() => receive(chunk, isLast)))
  }

  answer(
    status: number,
    contentType: string | null,
    body: Uint8Array | string | null,
    headers: HeaderLines = '',
  ): void {
    if (this.#state !== 'open') return // E2
    this.#begunAnswer()
    if (this.#mustReadOn) this.#whenRead(() => this.#give(status, contentType, body, headers))
    else this.#give(status, contentType, body, headers)
  }

  #give(status: number, contentType: string | null, body: Uint8Array | string | null, headers: HeaderLines): void {
    let handedOver = false
    const write = (): void => {
      this.#writeHead(status, contentType, headers)
      handedOver = this.#writeBody(body)
    }
    if (this.#isCorked) write()
    else this.#response.cork(write)
    if (handedOver) this.#end('answered')
    else this.#memory?.unreserve()
  }

  answerFrom(
    status: number,
    contentType: string | null,
    lengthBytes: number,
    source: AnswerSource,
    headers: HeaderLines = '',
  ): void {
    if (this.#state !== 'open' || this.#isHead || lengthBytes === 0) {
      source.close()
      if (!this.#isHead) return this.answer(status, contentType, '', headers)
      return this.answer(status, contentType, null, `${textOfHeaders(headers)}\r\ncontent-length: ${lengthBytes}`)
    }
    this.#begunAnswer()
    this.sentBytes = lengthBytes
    const writeHead = (): void => this.#writeHead(status, contentType, headers)
    this.#whenRead(
      () => void sendFrom(this.#sending(writeHead), source, lengthBytes),
      () => source.close(),
    )
  }

  answerStream(status: number, contentType: string, source: AnswerSource, headers: HeaderLines = ''): void {
    if (this.#state !== 'open' || this.#isHead) {
      source.close()
      return this.answer(status, contentType, null, headers)
    }
    this.#begunAnswer()
    const writeHead = (): void => this.#writeHead(status, contentType, headers)
    this.#whenRead(
      () => void sendStream(this.#sending(writeHead), source, (bytes) => (this.sentBytes += bytes)),
      () => source.close(),
    )
  }

  fail(error: unknown): void {
    this.#host.failed(this, error)
  }

  /** The connection is a WebSocket's from here on. */
  handOver(): void {
    this.status = 101
    this.#end('answered')
  }

  /** E6: the rest of the body is read like one that is wanted, by a sink that drops it. */
  #whenRead(give: () => void, abandon: () => void = () => {}): void {
    if (!this.#mustReadOn || this.#endsConnection) return give()
    const over = (): void => {
      this.#mustReadOn = false
      this.#abandonAnswer = null
      give()
    }
    this.#abandonAnswer = abandon
    this.#awaitBody(
      this.#receivedBytes + DROPPED_BYTES_MAX,
      {
        chunk(_bytes, isLast) {
          if (isLast) over()
        },
        tooLarge: over,
        timedOut: over,
      },
      this.#host.nowMs(),
    )
  }

  pauseBody(): void {
    if (this.#sink === null || this.#paused || this.ended) return
    this.#paused = true
    this.#response.pause()
  }

  resumeBody(): void {
    if (this.#sink === null || !this.#paused) return
    this.#progressed()
    this.#beginWait()
    this.#resume()
  }

  reserve(bytes: number, granted: () => void): void {
    if (!this.ended) this.#ownMemory.reserve(bytes, granted)
  }

  get heldBytes(): number {
    return this.#memory?.bytes ?? 0
  }

  get #ownMemory(): HeldMemory {
    return (this.#memory ??= new HeldMemory(this.#host))
  }

  slowRate(): number | null {
    if (!this.#isWaiting || this.#paused || this.#tailSweeps >= 0) return null
    return this.#paceOfWait.slowRate(this.#host.servedMs)
  }

  giveUp(): void {
    this.#giveUp('displaced')
  }

  #resume(): void {
    if (!this.#paused || this.#tailSweeps >= 0) return
    this.#paused = false
    this.#response.resume()
  }

  /**
   * To be called at every sweep (E7).
   *
   * @param stoppedMs part of the time since the last sweep, during which the server itself did nothing
   */
  sweep(nowMs: number, stoppedMs: number): void {
    this.#progressDueMs += stoppedMs
    if (this.#tailSweeps >= 0) return this.#sweepTail()
    if (this.#paused) return
    this.#offerRest?.()
    if (nowMs < this.#progressDueMs) {
      // Re-arms the time-out of the library, which is shorter than ours. Without the pause, resume() ends the reading in 20.51.
      this.#response.pause()
      this.#response.resume()
      return
    }
    this.#giveUp('stalled')
  }

  #giveUp(why: TimeOut): void {
    assert(this.#isWaiting)
    const sink = this.#sink
    if (sink === null) return this.#response.close() // the client reads an answer: the exchange ends as aborted
    this.#unwatch()
    this.#endsConnection = !this.ended // behind an answer that waits (E6) the library closes anyway
    try {
      sink.timedOut(why) // E4
    } catch (error) {
      this.#host.failed(this, error)
    }
  }

  /** E9: after some sweeps the connection is read again, so that a client that is gone is noticed. */
  #sweepTail(): void {
    this.#tailSweeps += 1
    if (this.#tailSweeps < TAIL_UNREAD_SWEEPS) return
    this.#response.pause() // as in every sweep (E7)
    this.#response.resume()
    this.#paused = false
  }

  #receive(chunk: ArrayBuffer, isLast: boolean): void {
    this.#isCorked = true
    this.#receiveCorked(chunk, isLast)
    this.#isCorked = false
  }

  #receiveCorked(chunk: ArrayBuffer, isLast: boolean): void {
    const isTail = isLast && this.#isChunked && this.#sink !== null && this.#state === 'open'
    if (!isTail) return this.#take(Buffer.from(chunk), isLast)
    if (chunk.byteLength > 0) this.#take(Buffer.from(chunk), false)
    if (!this.#paused) this.#response.pause()
    this.#paused = true
    this.#tailSweeps = 0
    this.#host.later(() => {
      if (this.#sink === null) return // E5, or the library met trailers
      this.#take(NO_BYTES, true)
      if (this.#tailSweeps >= 0 && this.#state === 'open') this.#link ??= this.#host.watch(this)
    })
  }

  #take(bytes: Uint8Array, isLast: boolean): void {
    const sink = this.#sink
    if (isLast) this.#mustReadOn = false
    if (sink === null) return // E5
    this.#receivedBytes += bytes.byteLength
    const isTooLarge = this.#receivedBytes > this.#limitBytes
    if (isTooLarge || isLast) {
      // A pause at the end of a body lasts until the answer: resuming would begin the library's time-out, as if the client were to act (E7).
      if (!isLast) this.#resume() // the rest is read and dropped
      this.#unwatch()
    } else if (bytes.byteLength > 0) this.#moved(bytes.byteLength)
    try {
      if (isTooLarge) sink.tooLarge() // E4
      else if (isLast || bytes.byteLength > 0) sink.chunk(bytes, isLast)
    } catch (error) {
      this.#host.failed(this, error)
    }
    if (this.#sink !== sink || !this.#isHeld || this.ended) return
    this.#ownMemory.holdBody(this.#receivedBytes)
  }

  #awaitBody(limitBytes: number, sink: BodySink, nowMs: number): void {
    this.#sink = sink
    this.#limitBytes = limitBytes
    this.#watch(nowMs)
  }

  #watch(nowMs: number): void {
    this.#progressed(nowMs)
    this.#beginWait()
    this.#link ??= this.#host.watch(this)
  }

  #beginWait(): void {
    this.#pace = null
    this.#waitsSinceMs = this.#host.servedMs
  }

  get #paceOfWait(): Pace {
    return (this.#pace ??= new Pace(this.#waitsSinceMs))
  }

  #unwatch(): void {
    this.#sink = null
    this.#offerRest = null
    if (this.#link !== null) this.#host.unwatch(this.#link)
    this.#link = null
    this.#memory?.release()
  }

  /** E7 */
  get #isWaiting(): boolean {
    return this.#sink !== null || this.#offerRest !== null || this.#tailSweeps >= 0
  }

  #progressed(nowMs = this.#host.nowMs()): void {
    this.#progressDueMs = nowMs + this.#host.stalledClientMs
  }

  #moved(bytes: number): void {
    this.#progressed()
    this.#paceOfWait.moved(bytes, this.#host.servedMs)
  }

  get #isGone(): boolean {
    return this.#state === 'aborted'
  }

  #begunAnswer(): void {
    if (this.#isWaiting) this.#unwatch()
    this.#tailSweeps = -1
    this.#resume() // E5, and the next request is to be read
    this.#state = 'answering'
  }

  #writeHead(status: number, contentType: string | null, headers: HeaderLines): void {
    this.status = status
    // All lines in one call into the library, which writes the status as it is.
    let lines = statusLine(status) + this.#host.requestIdLine + this.id
    if (contentType !== null) lines += `\r\ncontent-type: ${contentType}`
    lines += textOfHeaders(headers)
    // The library writes the header itself where it closes the connection.
    if (this.#host.closing && !this.#endsConnection) lines += '\r\nconnection: close'
    this.#response.writeStatus(lines)
  }

  /** @returns whether everything was handed over */
  #writeBody(body: Uint8Array | string | null): boolean {
    const response = this.#response
    if (body !== null && !this.#isHead) this.sentBytes = Buffer.byteLength(body)
    if (this.#endsConnection) {
      response.end(body ?? '', true)
      return true
    }
    if (body === null || this.#isHead) {
      // Not endWithoutBody(length): in 20.51 it leaves the response open, and the next request on the connection would fail.
      if (body !== null) response.writeHeader('content-length', String(Buffer.byteLength(body)))
      response.endWithoutBody()
      return true
    }
    if (body.length <= ANSWER_BYTES_BUFFERED_MAX) {
      response.end(body)
      return true
    }
    return sendAsRead(this.#sending(), typeof body === 'string' ? Buffer.from(body) : body)
  }

  #sending(writeHead: () => void = () => {}): AnswerHost {
    const isGone = (): boolean => this.#isGone
    return {
      response: this.#response,
      get isGone() {
        return isGone()
      },
      writeHead,
      wait: (offer) => {
        this.#offerRest = offer
        this.#watch(this.#host.nowMs())
      },
      moved: (bytes) => this.#moved(bytes),
      hold: (bytes) => this.#ownMemory.holdAnswer(bytes),
      waitOver: () => this.#unwatch(),
      later: (task) => this.#host.later(task),
      whenGone: (abandon) => (this.#abandonAnswer = abandon),
      failed: (error) => {
        this.#state = 'open'
        this.#host.failed(this, error)
      },
      finished: () => this.#end('answered'),
    }
  }

  #end(how: 'answered' | 'aborted'): void {
    if (this.#state === 'answered' || this.#state === 'aborted') return
    this.#state = how
    if (this.#isWaiting) this.#unwatch()
    this.#memory?.unreserve()
    this.#abandonAnswer?.()
    const first = this.#endListener
    const more = this.#moreEndListeners
    this.#endListener = this.#moreEndListeners = null
    if (how === 'aborted') this.status = this.sentBytes = 0
    first?.(how)
    if (more) for (const listener of more) listener(how)
    this.#host.ended(this)
  }
}

/** True: the library closes the connection behind the answer. */
const asksToClose = (head: UwsRequestHead): boolean => head.header('connection').toLowerCase() === 'close'
