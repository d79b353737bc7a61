/**
 * Reads frames: what a reader thread does. Keeps files open between tasks.
 *
 * F1  what does not hold is read once more, from a file opened anew, before it is called damaged: a file may live on as that of another
 *     segment
 */
import { errorCode } from '../../log/files.ts'
import type { Files, OpenFile } from '../../log/files.ts'
import { readFrame } from '../../log/read.ts'
import { RECORDS_NAME, segmentName } from '../../log/segment-format.ts'
import type { FrameToRead, ReadOutcome, ReadResult, ReadTask, ReaderData } from './read-protocol.ts'

const OPEN_FILES_MAX = 64
/** Bodies up to this length share memory: separate memory for each costs more than the copy. */
const SHARED_BYTES_MAX = 32 * 1024

export class FrameReader {
  readonly #files: Files
  readonly #data: ReaderData
  /** In order of use. */
  readonly #open = new Map<number, OpenFile>()

  constructor(files: Files, data: ReaderData) {
    this.#files = files
    this.#data = data
  }

  run({ oldestBase, frames }: ReadTask): ReadResult {
    for (const base of this.#open.keys()) if (base < oldestBase) this.#close(base)
    return packed(
      frames,
      frames.map((place) => this.#read(place)),
    )
  }

  #read(place: FrameToRead): ReadOutcome {
    try {
      const outcome = this.#readOnce(place)
      if (!('cause' in outcome) || outcome.cause !== 'damaged') return outcome
      this.#close(place.segmentBase) // F1
      return this.#readOnce(place)
    } catch (error) {
      const code = errorCode(error)
      if (code === 'unknown') throw error
      this.#close(place.segmentBase)
      return code === 'ENOENT' ? { cause: 'dropped' } : { cause: 'unavailable', reason: code }
    }
  }

  #readOnce({ segmentBase, place, expectBytes, target }: FrameToRead): ReadOutcome {
    const file = this.#file(segmentBase)
    const given = (bytes: number): Buffer =>
      target !== null && target.roomBytes >= bytes
        ? Buffer.from(target.memory, target.from, bytes)
        : Buffer.allocUnsafe(bytes)
    const read = readFrame(file, this.#data.logId, segmentBase, place, expectBytes, given)
    if (read.kind === 'none') return { cause: 'damaged', reason: 'the file ends before the frame' }
    if (read.kind === 'corrupt') return { cause: 'damaged', reason: read.reason }
    return { type: read.frame.type, payload: read.frame.payload as Uint8Array<ArrayBuffer> } // allocated by readFrame
  }

  #file(base: number): OpenFile {
    const open = this.#open.get(base)
    if (open !== undefined) {
      this.#open.delete(base)
      this.#open.set(base, open)
      return open
    }
    const file = this.#files.open(`${this.#data.segmentsDirectory}/${segmentName(base)}/${RECORDS_NAME}`, 'read')
    this.#open.set(base, file)
    for (const oldest of this.#open.keys()) {
      if (this.#open.size <= OPEN_FILES_MAX) break
      this.#close(oldest)
    }
    return file
  }

  #close(base: number): void {
    this.#open.get(base)?.close()
    this.#open.delete(base)
  }
}

/** Small payloads moved into one piece of memory. Those of a pool must not be handed over. */
function packed(frames: readonly FrameToRead[], outcomes: readonly ReadOutcome[]): ReadResult {
  const isSmall = (outcome: ReadOutcome, i: number): outcome is ReadOutcome & { payload: Uint8Array } =>
    'payload' in outcome && frames[i]!.target === null && outcome.payload.byteLength <= SHARED_BYTES_MAX
  const bytes = outcomes.reduce((sum, outcome, i) => sum + (isSmall(outcome, i) ? outcome.payload.byteLength : 0), 0)
  const shared = new Uint8Array(bytes)
  let at = 0
  return outcomes.map((outcome, i) => {
    if (!isSmall(outcome, i)) return outcome
    const payload = shared.subarray(at, at + outcome.payload.byteLength)
    payload.set(outcome.payload)
    at += payload.byteLength
    return { ...outcome, payload }
  })
}
