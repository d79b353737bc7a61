/** Batches read from the segments, each verified as a whole; the last ones used are kept, bounded in bytes. One per thread. */
import { bundleName } from '../bundle/bundle-name.ts'
import { readFrame } from '../../log/read.ts'
import { StoreError } from '../../errors.ts'
import { StoredBatch } from '../batch-frame.ts'
import type { OpenBundles } from './open-bundles.ts'

/** A frame that is not what was acknowledged: the place to report, and the error for the client. */
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
  readonly bytes: number
}

export class FrameReader {
  readonly #bundles: OpenBundles
  readonly #bytesMax: number
  /** By position, in order of use. */
  readonly #kept = new Map<number, KeptBatch>()
  #keptBytes = 0

  constructor(bundles: OpenBundles, bytesMax: number) {
    this.#bundles = bundles
    this.#bytesMax = bytesMax
  }

  /** @throws DamagedFrameError; StoreError bundle_read_failed when the file cannot be read */
  read(logId: number, base: number, frameOffset: number): StoredBatch {
    const position = base + frameOffset
    const known = this.#kept.get(position)
    if (known !== undefined) {
      this.#kept.delete(position)
      this.#kept.set(position, known)
      return known.batch
    }
    const payload = this.#readPayload(logId, base, frameOffset)
    const batch = new StoredBatch(payload)
    this.#keep(position, { batch, bytes: payload.byteLength })
    return batch
  }

  #readPayload(logId: number, base: number, frameOffset: number): Buffer {
    const file = this.#bundles.records(base)
    const bundle = bundleName(this.#bundles.directoryOf(base))
    try {
      const read = readFrame(file, logId, base, frameOffset)
      if (read.kind === 'frame') return read.frame.payload
      throw new DamagedFrameError(
        base + frameOffset,
        bundle,
        read.kind === 'corrupt' ? read.reason : 'nothing is there',
      )
    } catch (error) {
      if (error instanceof StoreError) throw error
      throw new StoreError('unavailable', 'bundle_read_failed', `bundle ${bundle}: records.log cannot be read`, {
        cause: error,
      })
    }
  }

  #keep(position: number, kept: KeptBatch): void {
    this.#kept.set(position, kept)
    this.#keptBytes += kept.bytes
    for (const [oldest, { bytes }] of this.#kept) {
      if (this.#keptBytes <= this.#bytesMax || oldest === position) break
      this.#kept.delete(oldest)
      this.#keptBytes -= bytes
    }
  }
}
