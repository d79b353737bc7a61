/**
 * Which offset every record of the run got, and on request a file of it.
 *
 * A1  the lines of an answer are handed to the kernel before its connection sends again, so they survive the death of this process
 *     (not of the machine)
 *
 * Line of the file, tab-separated: stream, offset, message id
 */
import { closeSync, openSync, writeSync } from 'node:fs'
import { messageId, streamName } from './names.ts'

const CHUNK_RECORDS = 65_536
const NOT_ACKNOWLEDGED = -1

export class AcknowledgedRecords {
  /** Acknowledged so far. */
  count = 0
  /** The lowest offset of each stream that was acknowledged. */
  readonly firstOffsets = new Map<number, number>()
  readonly #messageIdPrefix: string
  readonly #file: number | null
  readonly #chunks: Float64Array[] = [] // offsets, by number of the record

  /** @throws the file system's error when `path` cannot be opened for appending */
  constructor(messageIdPrefix: string, path: string | null) {
    this.#messageIdPrefix = messageIdPrefix
    this.#file = path === null ? null : openSync(path, 'a')
  }

  /** @param offsets of the records from `firstRecord` on; null for one that was refused */
  acknowledged(stream: number, firstRecord: number, offsets: readonly (number | null)[]): void {
    let lines = ''
    let first = this.firstOffsets.get(stream) ?? Infinity
    for (const [index, offset] of offsets.entries()) {
      if (offset === null) continue
      const record = firstRecord + index
      this.#chunkOf(record)[record % CHUNK_RECORDS] = offset
      this.count++
      first = Math.min(first, offset)
      if (this.#file !== null) {
        lines += `${streamName(stream)}\t${offset}\t${messageId(this.#messageIdPrefix, record)}\n`
      }
    }
    if (first < Infinity) this.firstOffsets.set(stream, first)
    if (this.#file !== null) writeSync(this.#file, lines) // A1
  }

  /** Null when the record was not acknowledged. */
  offsetOf(record: number): number | null {
    const offset = this.#chunks[Math.floor(record / CHUNK_RECORDS)]?.[record % CHUNK_RECORDS] ?? NOT_ACKNOWLEDGED
    return offset === NOT_ACKNOWLEDGED ? null : offset
  }

  close(): void {
    if (this.#file !== null) closeSync(this.#file)
  }

  #chunkOf(record: number): Float64Array {
    const index = Math.floor(record / CHUNK_RECORDS)
    while (this.#chunks.length <= index) this.#chunks.push(new Float64Array(CHUNK_RECORDS).fill(NOT_ACKNOWLEDGED))
    return this.#chunks[index]!
  }
}
