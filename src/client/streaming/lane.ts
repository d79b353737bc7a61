/**
 * Writes operations into frames for the broker. Consecutive operations of a turn with the same type, flags and name share a frame, and the
 * operations of a frame have consecutive ids.
 */
import { FrameWriter } from '../../broker/wire/connection-frames.ts'

/** Operations of one frame: the broker takes no more, and a longer frame saves nothing. */
const OPERATIONS_MAX = 1000
const FRAME_BYTES_MAX = 256 << 10

export class Lane {
  readonly #writer = new FrameWriter()
  readonly #firstId: number
  readonly #endId: number
  #nextId: number
  // The frame that is open.
  #type = 0
  #flags = 0
  #name = ''
  #count = 0
  #frameAt = 0

  /** @param firstId ids go from here to `endId`, and begin anew */
  constructor(firstId: number, endId: number) {
    this.#firstId = firstId
    this.#endId = endId
    this.#nextId = firstId
  }

  get bytes(): number {
    return this.#writer.length
  }

  /** @returns its id @param write the operation's part of the frame's body */
  add(type: number, flags: number, name: string, isAlone: boolean, write: (writer: FrameWriter) => void): number {
    const writer = this.#writer
    const isAlike = type === this.#type && flags === this.#flags && name === this.#name
    const isFull = this.#count >= OPERATIONS_MAX || writer.length - this.#frameAt >= FRAME_BYTES_MAX
    if (this.#nextId >= this.#endId) {
      this.#endFrame()
      this.#nextId = this.#firstId
    } else if (isAlone || !isAlike || isFull) this.#endFrame()
    const id = this.#nextId
    this.#nextId += 1
    if (this.#count === 0) {
      this.#type = type
      this.#flags = flags
      this.#name = name
      this.#frameAt = writer.length
      writer.begin(type, flags, id, name)
    }
    write(writer)
    this.#count += 1
    return id
  }

  /** @param send called with what was written; the bytes are valid only during the call */
  flush(send: (message: Uint8Array<ArrayBuffer>) => void): void {
    this.#endFrame()
    if (this.#writer.length === 0) return
    send(this.#writer.written)
    this.#writer.clear()
  }

  /** Drops what was not sent. */
  clear(): void {
    this.#count = 0
    this.#writer.clear()
  }

  #endFrame(): void {
    if (this.#count > 0) this.#writer.end(this.#count)
    this.#count = 0
  }
}
