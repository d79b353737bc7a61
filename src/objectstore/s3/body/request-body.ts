/**
 * The body of a request, from the connection to its taker.
 *
 * B1  bytes that arrive before the body has a taker, or while the taker wants to wait, are held, and the client is kept from sending more. So no more is
 *     held than was on its way
 * B2  pieces come to the taker in their order, one after the other, never while it waits
 * B3  a body ends for its taker when its last piece was taken, or with a refusal. What comes after a refusal is dropped
 */
import assert from 'node:assert/strict'
import type { Answer } from '../../../engine/decision.ts'
import type { BodySink, Exchange, TimeOut } from '../../../http/exchange.ts'
import { AwsChunkedDecoder } from './aws-chunked.ts'
import type { AwsChunkedFraming } from './aws-chunked.ts'
import type { BodyWriter } from '../../operations.ts'
import { refuse } from '../../refusals.ts'
import type { S3Error } from '../../refusals.ts'
import type { BodyChunks, CollectedBody, PipedBody, RequestBody } from '../handler.ts'

type BodyExchange = Pick<Exchange, 'readBody' | 'pauseBody' | 'resumeBody' | 'onEnd'>

interface Taker extends BodyChunks {
  /** The last piece was taken. @throws S3Error when something is missing */
  whole(): void
  refused(error: unknown): void
}

export class ExchangeBody implements RequestBody, BodySink {
  readonly contentLength: number | null
  /** Whether the request has a body at all. */
  readonly isPresent: boolean
  readonly #exchange: BodyExchange
  /** Pieces that have arrived, and are not taken. */
  readonly #held: Uint8Array[] = []
  #state: 'arriving' | 'whole' | 'refused' = 'arriving'
  #refusal: unknown = null
  #taker: Taker | null = null
  #wasTaken = false
  #isWaiting = false

  /** To be made while the request begins. @param contentLength -1: not declared */
  constructor(exchange: BodyExchange, contentLength: number, headers: ReadonlyMap<string, string>) {
    this.#exchange = exchange
    this.contentLength = contentLength < 0 ? null : contentLength
    this.isPresent = contentLength > 0 || headers.has('transfer-encoding')
    if (!this.isPresent) {
      this.#state = 'whole'
      return
    }
    exchange.readBody(Infinity, this)
    exchange.onEnd(() => this.#end('IncompleteBody'))
  }

  /** True when the body was taken, or its taking began. */
  get wasTaken(): boolean {
    return this.#wasTaken
  }

  async collect(limitBytes: number, framing: AwsChunkedFraming | null): Promise<CollectedBody> {
    const pieces: Buffer[] = []
    const payload = this.#payload(limitBytes, framing, (bytes) => void pieces.push(Buffer.from(bytes)))
    await this.read({
      chunk(bytes) {
        payload.push(bytes)
        return null
      },
    })
    const trailer = payload.finish()
    return { bytes: pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces), trailer }
  }

  pipe(limitBytes: number, framing: AwsChunkedFraming | null, writer: BodyWriter, answer: Answer<PipedBody>): void {
    const piping = new Piping(writer, answer)
    try {
      piping.payload = this.#payload(limitBytes, framing, (bytes) => piping.write(bytes))
      this.#take(piping)
    } catch (error) {
      piping.refused(error)
    }
  }

  read(sink: BodyChunks): Promise<void> {
    return new Promise((whole, refused) => this.#take({ chunk: (bytes) => sink.chunk(bytes), whole, refused }))
  }

  #take(taker: Taker): void {
    assert(!this.#wasTaken, 'a body is taken once')
    this.#wasTaken = true
    this.#taker = taker
    this.#pump()
  }

  /** Takes bytes of the wire, hands on those of the payload. */
  #payload(limitBytes: number, framing: AwsChunkedFraming | null, sink: (bytes: Uint8Array) => void): Payload {
    const declaredBytes = framing?.decodedBytes ?? this.contentLength
    if (declaredBytes !== null && declaredBytes > limitBytes) throw tooLarge(limitBytes, declaredBytes)
    if (framing !== null) return new AwsChunkedDecoder(framing, sink)
    let payloadBytes = 0
    return {
      push(bytes) {
        payloadBytes += bytes.byteLength
        if (payloadBytes > limitBytes) throw tooLarge(limitBytes)
        sink(bytes)
      },
      finish: () => null,
    }
  }

  // For the exchange

  chunk(bytes: Uint8Array, isLast: boolean): void {
    if (this.#state !== 'arriving') return // B3
    if (isLast) this.#state = 'whole'
    if (this.#taker !== null && !this.#isWaiting && this.#held.length === 0) {
      this.#give(this.#taker, bytes)
    } else if (bytes.byteLength > 0) {
      this.#held.push(Buffer.from(bytes))
    }
    if (!isLast && (this.#taker === null || this.#isWaiting)) this.#exchange.pauseBody() // B1
    this.#pump()
  }

  tooLarge(): never {
    assert.fail('there is no limit: the one of the payload is judged here')
  }

  timedOut(why: TimeOut): void {
    this.#end(why === 'stalled' ? 'RequestTimeout' : 'SlowDown')
  }

  /** The body ends short. */
  #end(code: 'RequestTimeout' | 'SlowDown' | 'IncompleteBody'): void {
    if (this.#state === 'arriving') this.#refuse(refuse(code))
  }

  #refuse(refusal: unknown): void {
    this.#state = 'refused'
    this.#refusal = refusal
    this.#held.length = 0
    const taker = this.#taker
    this.#taker = null
    taker?.refused(refusal)
  }

  /** Gives what is held, until the taker waits; then asks the client for more, or tells that this was all. */
  #pump(): void {
    const taker = this.#taker
    if (taker === null || this.#isWaiting) return
    if (this.#state === 'refused') return taker.refused(this.#refusal)
    while (this.#held.length > 0) {
      this.#give(taker, this.#held.shift()!) // there is one
      if (this.#taker === null || this.#isWaiting) return
    }
    if (this.#state === 'arriving') return this.#exchange.resumeBody()
    this.#taker = null
    try {
      taker.whole()
    } catch (error) {
      taker.refused(error)
    }
  }

  #give(taker: Taker, bytes: Uint8Array): void {
    if (bytes.byteLength === 0) return
    let waiting: Promise<void> | null
    try {
      waiting = taker.chunk(bytes)
    } catch (error) {
      return this.#refuse(error)
    }
    if (waiting === null) return
    this.#isWaiting = true // B2
    void this.#wait(waiting)
  }

  async #wait(waiting: Promise<void>): Promise<void> {
    try {
      await waiting
    } catch (error) {
      this.#isWaiting = false
      return this.#refuse(error)
    }
    this.#isWaiting = false
    this.#pump()
  }
}

interface Payload {
  push(bytes: Uint8Array): void
  finish(): string | null
}

/** A body that goes into a writer, which is abandoned here and nowhere else. */
class Piping implements Taker {
  /** Set before it takes anything: it hands on to `write`. */
  payload: Payload | null = null
  readonly #writer: BodyWriter
  readonly #answer: Answer<PipedBody>
  #hasRoom = true

  constructor(writer: BodyWriter, answer: Answer<PipedBody>) {
    this.#writer = writer
    this.#answer = answer
  }

  write(bytes: Uint8Array): void {
    if (!this.#writer.write(bytes)) this.#hasRoom = false
  }

  chunk(bytes: Uint8Array): Promise<void> | null {
    this.payload!.push(bytes)
    if (this.#hasRoom) return null
    return new Promise((resolve) => {
      this.#writer.onDrain(() => {
        this.#hasRoom = true
        resolve()
      })
    })
  }

  whole(): void {
    const trailer = this.payload!.finish()
    this.#writer.finish(
      (received) => this.#answer.answered({ received, trailer }),
      (error) => this.refused(error),
    )
  }

  refused(error: unknown): void {
    this.#writer.abandon()
    this.#answer.refused(error)
  }
}

function tooLarge(limitBytes: number, proposedBytes?: number): S3Error {
  const proposed = proposedBytes === undefined ? {} : { ProposedSize: proposedBytes }
  return refuse('EntityTooLarge', undefined, { fields: { ...proposed, MaxSizeAllowed: limitBytes } })
}

/** A body that is collected once, and then given to every later collector. */
export class RepeatableBody implements RequestBody {
  readonly contentLength: number | null
  readonly #body: RequestBody
  #collected: Promise<CollectedBody> | null = null

  constructor(body: RequestBody) {
    this.contentLength = body.contentLength
    this.#body = body
  }

  collect(limitBytes: number, framing: AwsChunkedFraming | null): Promise<CollectedBody> {
    this.#collected ??= this.#body.collect(limitBytes, framing)
    return this.#collected
  }

  pipe(limitBytes: number, framing: AwsChunkedFraming | null, writer: BodyWriter, answer: Answer<PipedBody>): void {
    this.#body.pipe(limitBytes, framing, writer, answer)
  }

  read(sink: BodyChunks): Promise<void> {
    return this.#body.read(sink)
  }
}
