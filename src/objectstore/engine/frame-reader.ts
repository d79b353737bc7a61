/**
 * Reads frames, in a reader thread. Keeps files open between tasks.
 *
 * F1  a frame that does not hold is read once more, from its file opened anew, before it is called damaged: an open file may live on as that of another
 *     segment
 * F2  long frames that the page cache does not have are read past it, all of a task at once, unless they are read again and again
 * F3  no file is read beyond a generation of the log (open-segments O1)
 */
import { copyBytes } from '../../../native-free-codecs/copy-bytes.ts'
import { FRAME_HEADER_BYTES } from '../../../native-free-codecs/frame.ts'
import { NOTHING_LOADED } from '../../log/direct-reads.ts'
import type { DirectReads, Loaded } from '../../log/direct-reads.ts'
import { errorCode } from '../../log/files.ts'
import type { Files, OpenFile } from '../../log/files.ts'
import { OpenSegments } from '../../log/open-segments.ts'
import { readFrame } from '../../log/read.ts'
import { RECORDS_NAME, segmentName } from '../../log/segment-format.ts'
import type { FrameToRead, ReadOutcome, ReadResult, ReadTask, ReaderData } from './read-protocol.ts'

/** Bodies up to this length share memory: separate memory for each costs more than the copy. */
const SHARED_BYTES_MAX = 32 * 1024
/** F2 */
const LONG_FRAME_BYTES_MIN = 64 * 1024

export class FrameReader {
  readonly #files: Files
  readonly #data: ReaderData
  readonly #direct: Pick<DirectReads, 'load' | 'close'> | null
  readonly #open = new OpenSegments<OpenFile>()
  #generation = 0

  /** @param direct null: nothing is read past the page cache (F2) */
  constructor(files: Files, data: ReaderData, direct: Pick<DirectReads, 'load' | 'close'> | null) {
    this.#files = files
    this.#data = data
    this.#direct = direct
  }

  /** @param loaded what `load` read for this task: valid until the next one is loaded */
  run({ oldestBase, generation, frames }: ReadTask, loaded: Loaded = NOTHING_LOADED): ReadResult {
    this.#generation = generation
    this.#open.begin(oldestBase, generation) // F3
    return packed(
      frames,
      frames.map((place) => this.#read(place, loaded)),
    )
  }

  /** F2 */
  async load({ oldestBase, generation, frames }: ReadTask): Promise<Loaded> {
    this.#direct?.close(generation === this.#generation ? oldestBase : Infinity) // F3
    const long = frames.filter(({ expectBytes, isAgain }) => !isAgain && expectBytes >= LONG_FRAME_BYTES_MIN)
    if (long.length === 0 || this.#direct === null) return NOTHING_LOADED
    return this.#direct.load(
      long.map(({ segmentBase, place, expectBytes }) => ({ base: segmentBase, at: place, bytes: expectBytes })),
    )
  }

  #read(place: FrameToRead, loaded: Loaded): ReadOutcome {
    try {
      const outcome = this.#readOnce(place, loaded)
      if (!('cause' in outcome) || outcome.cause !== 'damaged') return outcome
      this.#open.close(place.segmentBase) // F1
      return this.#readOnce(place, NOTHING_LOADED)
    } catch (error) {
      const code = errorCode(error)
      if (code === 'unknown') throw error
      this.#open.close(place.segmentBase)
      return code === 'ENOENT' ? { cause: 'dropped' } : { cause: 'unavailable', reason: code }
    }
  }

  #readOnce({ segmentBase, place, expectBytes, target }: FrameToRead, loaded: Loaded): ReadOutcome {
    const file = this.#file(segmentBase)
    const bytes = {
      read(into: Uint8Array, at: number): number {
        const there = loaded.at(segmentBase, at, into.byteLength)
        if (there === null) return file.read(into, at)
        return copyBytes(there, Buffer.from(into.buffer, into.byteOffset, into.byteLength), 0)
      },
    }
    const given = (byteLength: number): Buffer =>
      target !== null && target.roomBytes >= byteLength
        ? Buffer.from(target.memory, target.from, byteLength)
        : Buffer.allocUnsafe(byteLength)
    const read = readFrame(bytes, this.#data.logId, segmentBase, place, expectBytes, given)
    if (read.kind === 'none')
      return { cause: 'damaged', reason: 'the file ends before the frame', frameBytes: FRAME_HEADER_BYTES }
    if (read.kind === 'corrupt') return { cause: 'damaged', reason: read.reason, frameBytes: read.frameBytes }
    return { type: read.frame.type, payload: read.frame.payload }
  }

  #file(base: number): OpenFile {
    const path = `${this.#data.segmentsDirectory}/${segmentName(base)}/${RECORDS_NAME}`
    return this.#open.get(base) ?? this.#open.add(base, this.#files.open(path, 'read'))
  }
}

/** Moves small payloads into one piece of memory: memory of Node's pool must not be handed over. */
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
