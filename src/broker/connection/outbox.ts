/**
 * Sends messages to one client: the binary answers of one turn of the event loop become one message, and one write.
 *
 * O1  messages go out in the order in which they were put in; texts and frames of one flush may pass each other
 */
import type { MessageSocket } from '../../http/web-socket.ts'
import { FrameWriter } from '../wire/connection-frames.ts'

/** Longer frames are sent without another copy. */
const COPIED_BYTES_MAX = 64 << 10

export class Outbox {
  readonly #defer: (run: () => void) => void
  readonly #frames = new FrameWriter()
  #texts: (string | Uint8Array)[] = []
  #textsLength = 0
  #socket: MessageSocket | null = null
  #isDeferred = false

  constructor(defer: (run: () => void) => void) {
    this.#defer = defer
  }

  open(socket: MessageSocket): void {
    this.#socket = socket
  }

  /** Sends nothing from now on. */
  close(): void {
    this.#socket = null
  }

  get bufferedBytes(): number {
    return this.#socket?.bufferedBytes ?? 0
  }

  /** Bytes that the client has not read, and bytes that the next flush sends. */
  get unreadBytes(): number {
    return this.bufferedBytes + this.#textsLength + this.#frames.length
  }

  /** The writer for a frame that the caller writes at once. */
  frames(): FrameWriter {
    this.#flushLater()
    return this.#frames
  }

  /** Sends a whole frame. */
  frame(bytes: Uint8Array): void {
    if (bytes.byteLength <= COPIED_BYTES_MAX) return this.frames().raw(bytes)
    this.flush()
    this.#socket?.send(bytes, true)
  }

  text(text: string | Uint8Array): void {
    this.#texts.push(text)
    this.#textsLength += text.length
    this.#flushLater()
  }

  flush(): void {
    const socket = this.#socket
    const frames = this.#frames
    const texts = this.#texts
    if (texts.length > 0) this.#texts = []
    this.#textsLength = 0
    if (socket === null) return frames.clear()
    if (texts.length === 0 && frames.length === 0) return
    socket.sendTogether(() => {
      for (const text of texts) socket.send(text, false)
      if (frames.length > 0) socket.send(frames.written, true)
    })
    frames.clear()
  }

  #flushLater(): void {
    if (this.#isDeferred) return
    this.#isDeferred = true
    this.#defer(() => {
      this.#isDeferred = false
      this.flush()
    })
  }
}
