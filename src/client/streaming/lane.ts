/**
 * Writes operations into frames for the broker. Consecutive operations of a turn with the same type, flags and name share a frame, and the
 * operations of a frame have consecutive ids. Many operations may gather before the connection is open, and the broker closes a connection
 * for a message that is too long, so they are sent in messages of at most about MESSAGE_BYTES_MAX.
 */
import { FrameWriter } from '../../broker/wire/connection-frames.ts'

/** Operations of one frame: the broker takes no more, and a longer frame saves nothing. */
const OPERATIONS_MAX = 1000
const FRAME_BYTES_MAX = 256 << 10
/** Messages have one operation more at most. No broker takes less than 1 MiB. */
export const MESSAGE_BYTES_MAX = 512 << 10

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
  /** Where messages begin, the first one apart. */
  #messagesAt: number[] = []

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
      if (writer.length - (this.#messagesAt.at(-1) ?? 0) > MESSAGE_BYTES_MAX - FRAME_BYTES_MAX) {
        this.#messagesAt.push(writer.length)
      }
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

  /** @param send called with each message that was written; its bytes are valid only during the call */
  flush(send: (message: Uint8Array<ArrayBuffer>) => void): void {
    this.#endFrame()
    const { written } = this.#writer
    if (written.byteLength === 0) return
    let from = 0
    for (const to of [...this.#messagesAt, written.byteLength]) {
      send(written.subarray(from, to))
      from = to
    }
    this.#clear()
  }

  /** Drops what was not sent. */
  clear(): void {
    this.#count = 0
    this.#clear()
  }

  #clear(): void {
    this.#writer.clear()
    this.#messagesAt = []
  }

  #endFrame(): void {
    if (this.#count > 0) this.#writer.end(this.#count)
    this.#count = 0
  }
}
