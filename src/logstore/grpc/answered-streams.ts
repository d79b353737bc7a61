/**
 * Streams that have their answer while their client still sends. What arrives is dropped. Most clients stop by themselves; the others are stopped when
 * they send much, or after a while: a stream that stays open keeps its memory.
 */
import { constants } from 'node:http2'
import type { ServerHttp2Stream } from 'node:http2'

/** How much of a message is still read after its answer. */
const DROPPED_BYTES_MAX = 2 * 1024 * 1024

export class AnsweredStreams {
  /** Streams that were answered since the last look, and before it. */
  #newer = new Set<ServerHttp2Stream>()
  #older = new Set<ServerHttp2Stream>()

  /** @param stream has been answered */
  drop(stream: ServerHttp2Stream): void {
    let droppedBytes = 0
    stream.on('data', (bytes: Buffer) => {
      droppedBytes += bytes.byteLength
      if (droppedBytes > DROPPED_BYTES_MAX) stream.close(constants.NGHTTP2_NO_ERROR)
    })
    if (stream.readableEnded) return
    this.#newer.add(stream)
    stream.once('close', () => {
      this.#newer.delete(stream)
      this.#older.delete(stream)
    })
  }

  /** Stops the streams that were answered before the last look. */
  look(): void {
    for (const stream of this.#older) stream.close(constants.NGHTTP2_NO_ERROR)
    this.#older = this.#newer
    this.#newer = new Set()
  }
}
