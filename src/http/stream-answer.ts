/**
 * An answer whose length is known only at its end, in chunks: at the pace of its reader, in bounded memory.
 *
 * The library buffers the part of a chunk that the connection does not take. It says so when a chunk is written, and calls when there is room
 * again. But while it has a listener for that call, it does not send its buffer by itself, and does not say how much it holds.
 *
 * The next piece is asked for while the library still buffers a part of the piece before.
 *
 * S1  the library buffers at most one piece and a few slices. After a piece that was not taken whole, the next goes in slices, one whenever
 *     there is room. The room is larger than a slice, so the buffer shrinks. If a slice is taken whole, nothing before it is buffered. But if
 *     the connection is full, the library buffers even a short one until there is room
 * S3  a source that fails before its first piece is answered in the service's words; later the connection is closed inside the body
 */
import type { AnswerHost } from './answer-host.ts'
import type { AnswerSource } from './exchange.ts'
import { ANSWER_BYTES_PER_TURN } from './limits.ts'

const SLICE_BYTES = 1024

/** @param sent gets the number of bytes of the body that were handed to the library */
export const sendStream = (host: AnswerHost, source: AnswerSource, sent: (bytes: number) => void): Promise<void> =>
  new StreamAnswer(host, source, sent).send()

class StreamAnswer {
  readonly #host: AnswerHost
  readonly #source: AnswerSource
  readonly #sent: (bytes: number) => void
  #isBegun = false
  /** The library buffers something, as far as known. */
  #isHeld = false
  #rest: Uint8Array | null = null
  #restTaken: () => void = () => {}

  constructor(host: AnswerHost, source: AnswerSource, sent: (bytes: number) => void) {
    this.#host = host
    this.#source = source
    this.#sent = sent
  }

  async send(): Promise<void> {
    const host = this.#host
    host.whenGone(() => {
      this.#source.close()
      this.#rest = null
      host.later(this.#restTaken)
    })
    try {
      let turnBytes = 0
      for (let piece = await this.#next(); piece !== null; piece = await this.#next()) {
        await this.#write(piece)
        turnBytes += piece.byteLength
        if (turnBytes < ANSWER_BYTES_PER_TURN) continue
        turnBytes = 0
        await new Promise<void>((resolve) => host.later(resolve))
      }
      if (!host.isGone) this.#end()
    } catch (error) {
      if (host.isGone) return
      host.whenGone(() => {}) // the source has rejected: nothing is left to close
      if (this.#isBegun) host.response.close() // S3
      else host.failed(error)
    }
  }

  /** Null: the end, or the client is gone. */
  async #next(): Promise<Uint8Array | null> {
    if (this.#host.isGone) return null
    const piece = await this.#source.next()
    return this.#host.isGone ? null : piece
  }

  #end(): void {
    const { response } = this.#host
    this.#host.whenGone(() => {})
    response.cork(() => {
      if (!this.#isBegun) this.#host.writeHead()
      response.end('')
    })
    this.#host.finished()
  }

  /** Resolves when the piece was taken, or the library buffers it. */
  #write(piece: Uint8Array): Promise<void> | void {
    if (piece.byteLength === 0) return
    const { response } = this.#host
    this.#sent(piece.byteLength)
    if (!this.#isBegun) {
      this.#isBegun = true
      response.onWritable(() => this.#hasRoom())
      return this.#took(this.#writeChunk(piece, () => this.#host.writeHead()))
    }
    if (!this.#isHeld) return this.#took(this.#writeChunk(piece))
    this.#rest = piece
    this.#writeSlice()
    if (this.#rest === null) return
    return new Promise((resolve) => {
      this.#restTaken = resolve
    })
  }

  #took(isTaken: boolean): void {
    if (isTaken === !this.#isHeld) return
    this.#isHeld = !isTaken
    if (isTaken) this.#host.waitOver()
    else this.#host.wait(() => this.#drain())
  }

  /** False: the library buffers some of the chunk, or of what came before it. */
  #writeChunk(chunk: Uint8Array, before: () => void = () => {}): boolean {
    const { response } = this.#host
    let isTaken = true
    response.cork(() => {
      before()
      isTaken = response.write(chunk)
    })
    return isTaken
  }

  #drain(): void {
    this.#host.response.cork(() => {})
  }

  #hasRoom(): boolean {
    this.#host.moved(SLICE_BYTES)
    if (this.#rest === null) this.#drain()
    else this.#writeSlice()
    return true
  }

  /** S1 */
  #writeSlice(): void {
    const rest = this.#rest!
    this.#took(this.#writeChunk(rest.subarray(0, SLICE_BYTES)))
    const left = rest.subarray(SLICE_BYTES)
    if (left.byteLength > 0 && this.#isHeld) {
      this.#rest = left
      return
    }
    if (left.byteLength > 0) this.#took(this.#writeChunk(left))
    this.#rest = null
    this.#host.later(this.#restTaken) // after callbacks of the library, waiting microtasks may not run
    this.#restTaken = () => {}
  }
}
