/**
 * Reads batches from the segments, and verifies each as a whole. The last ones read are kept, bounded in bytes. Each thread has its own reader.
 *
 * Kept batches share one ring of memory: with memory of its own for each batch, every hundredth look-up would cause a garbage collection of several
 * milliseconds.
 *
 * A batch is valid until the next one is read.
 *
 * R1  kept batches lie in the memory in the order in which they were read, the oldest behind `#head`. The next batch is put there, and those that it
 *     overwrites are forgotten
 */
import { errorCode } from '../../log/files.ts'
import { readFrame } from '../../log/read.ts'
import { segmentName } from '../../log/segment-format.ts'
import { StoreError } from '../../errors.ts'
import { StoredBatch } from '../batch-frame.ts'
import type { OpenBundles } from './open-bundles.ts'

/** A frame is not what was acknowledged: carries the position to report, and the error for the client. */
export class DamagedFrameError extends StoreError {
  readonly position: number

  constructor(position: number, bundle: string, reason: string) {
    super(
      'corrupt',
      'bundle_frame_corrupt',
      `bundle ${bundle}: the frame at position ${position} is damaged (${reason})`,
    )
    this.position = position
  }
}

interface KeptBatch {
  readonly batch: StoredBatch
  /** [start, end) in the memory. */
  readonly start: number
  readonly end: number
}

export class FrameReader {
  readonly #bundles: OpenBundles
  readonly #memory: Buffer
  /** By position, in the order of reading. */
  readonly #kept = new Map<number, KeptBatch>()
  #head = 0

  /** @param bytesMax  for kept batches; a larger one is read and not kept */
  constructor(bundles: OpenBundles, bytesMax: number) {
    this.#bundles = bundles
    this.#memory = Buffer.allocUnsafeSlow(bytesMax)
  }

  /** @throws DamagedFrameError; StoreError bundle_read_failed when the file cannot be read */
  read(logId: number, base: number, frameOffset: number): StoredBatch {
    const position = base + frameOffset
    const known = this.#kept.get(position)
    if (known !== undefined) return known.batch
    const payload = this.#readPayload(logId, base, frameOffset)
    const batch = new StoredBatch(payload)
    if (payload.buffer === this.#memory.buffer) {
      this.#head = payload.byteOffset - this.#memory.byteOffset + payload.byteLength
      this.#kept.set(position, { batch, start: this.#head - payload.byteLength, end: this.#head })
    }
    return batch
  }

  #readPayload(logId: number, base: number, frameOffset: number): Buffer {
    const file = this.#bundles.records(base)
    const bundle = segmentName(base)
    try {
      const read = readFrame(file, logId, base, frameOffset, undefined, (bytes) => this.#place(bytes))
      if (read.kind === 'frame') return read.frame.payload
      throw new DamagedFrameError(
        base + frameOffset,
        bundle,
        read.kind === 'corrupt' ? read.reason : 'nothing is there',
      )
    } catch (error) {
      if (error instanceof StoreError) throw error
      const problem = `bundle ${bundle}: records.log cannot be read (${errorCode(error)})`
      throw new StoreError('unavailable', 'bundle_read_failed', problem, { cause: error })
    }
  }

  /** Memory for the next batch. `readFrame` asks again for a longer frame: that memory begins where the shorter one did, or is elsewhere. */
  #place(bytes: number): Buffer {
    const { byteLength } = this.#memory
    if (bytes > byteLength) return Buffer.allocUnsafe(bytes)
    if (this.#head + bytes > byteLength) {
      this.#forget(this.#head, byteLength)
      this.#head = 0
    }
    this.#forget(this.#head, this.#head + bytes)
    return this.#memory.subarray(this.#head, this.#head + bytes)
  }

  /** Forgets the batches that lie in [from, to). They are the oldest ones, so the first that lies elsewhere ends the search (R1). */
  #forget(from: number, to: number): void {
    for (const [position, { start, end }] of this.#kept) {
      if (end <= from || start >= to) return
      this.#kept.delete(position)
    }
  }
}
