/**
 * Keeps what is cut from the end of a log in a cluster, in `diverged/` beside its segments: `<position>.frames`, frames back to back; if that name is
 * taken, `<position>-2.frames` and so on.
 *
 * Most of what is cut comes back from the cluster. Only if `Aside` has not met all frames of a file again does a person have to look at it.
 *
 * A1  the file and its name are durable before anything is cut
 * A2  a file is replaced only by one that has all its frames: the log may be cut at one place again before they came back
 */
import { FRAME_HEADER_BYTES, frameBytes } from '../../native-free-codecs/frame.ts'
import { stepsOf, withoutPauses } from '../steps.ts'
import type { Pace, Steps } from '../steps.ts'
import { makeDurableDirectory, publishInSteps, readWhole } from './files.ts'
import type { Files } from './files.ts'
import { readFormat } from './format.ts'
import { readFooter, scanInSteps } from './read.ts'
import { RECORDS_NAME, SEGMENT_HEADER_BYTES, segmentBaseOf, segmentName } from './segment-format.ts'

const DIVERGED_NAME = 'diverged'
const PHASE = 'setting aside what the cluster has not confirmed'

interface SetAsideOptions {
  readonly files: Files
  readonly directory: string
  readonly segmentsName: string
  readonly logId: number
  /** Frames that end behind it are set aside. */
  readonly from: number
}

/** A file of frames that were cut, and which of them the cluster has after all. */
export class Aside {
  readonly path: string
  /** Where the first of its frames begins, and the last one ends. */
  readonly from: number
  readonly to: number
  readonly #files: Files
  /** Header checksum by position of the end. */
  readonly #chains: ReadonlyMap<number, number>

  constructor(files: Files, path: string, from: number, chains: ReadonlyMap<number, number>) {
    this.#files = files
    this.path = path
    this.from = from
    this.#chains = chains
    this.to = Math.max(...chains.keys())
  }

  /**
   * The log has a frame that ends at `end`. The checksum of its header stands for all frames before it, too.
   *
   * @returns `same`: all its frames came back, and the file is gone; `other`: the cluster has other frames in its place
   */
  compare(end: number, chain: number): 'waiting' | 'same' | 'other' {
    const own = this.#chains.get(end)
    if (own === undefined) return end > this.to ? 'other' : 'waiting'
    if (own !== chain) return 'other'
    if (end < this.to) return 'waiting'
    this.#files.removeFile(this.path)
    return 'same'
  }
}

interface LogInCluster {
  readonly directory: string
  readonly segmentsName?: string
  readonly cluster?: { onSetAside(aside: Aside): void }
  readonly pace?: Pace
}

/** Sets aside the frames that end behind the position. In a cluster, `onSetAside` is told of it. */
export async function setAsideBehind(
  from: number,
  { directory, segmentsName = 'segments', cluster, pace = withoutPauses }: LogInCluster,
  { files }: { readonly files: Files },
): Promise<void> {
  const logId = readFormat(files, directory, segmentsName)
  if (logId === null) return
  const aside = await pace(setAside({ files, directory, segmentsName, logId, from }))
  if (aside !== null) cluster?.onSetAside(aside)
}

/** @returns null when nothing whole stands behind the position */
function* setAside(options: SetAsideOptions): Steps<Aside | null> {
  const { files, directory, segmentsName, from } = options
  const segments = `${directory}/${segmentsName}`
  const bases = (files.list(segments) ?? []).map(segmentBaseOf).filter((base) => base !== null)
  bases.sort((a, b) => a - b)
  const first = bases.findLastIndex((base) => base <= from)
  const chains = new Map<number, number>()
  const pieces: Uint8Array[] = []
  let begin = -1
  for (const base of bases.slice(Math.max(0, first))) {
    for (const { position, bytes, chain } of yield* framesBehind(options, base)) {
      if (begin < 0) begin = position
      pieces.push(bytes)
      chains.set(position + bytes.byteLength, chain)
    }
  }
  if (chains.size === 0) return null
  makeDurableDirectory(files, `${directory}/${DIVERGED_NAME}`)
  const name = freeName(files, `${directory}/${DIVERGED_NAME}`, segmentName(begin), pieces)
  const write = function* (file: ReturnType<Files['open']>): Steps<void> {
    let at = 0
    for (const piece of pieces) {
      file.writev([piece], at)
      at += piece.byteLength
      yield { phase: PHASE, done: at, total: 0, unit: 'bytes' }
    }
  }
  yield* publishInSteps(files, `${directory}/${DIVERGED_NAME}`, name, write) // A1
  return new Aside(files, `${directory}/${DIVERGED_NAME}/${name}`, begin, chains)
}

/** A2 */
function freeName(files: Files, diverged: string, position: string, pieces: readonly Uint8Array[]): string {
  for (let n = 1; ; n += 1) {
    const name = n === 1 ? `${position}.frames` : `${position}-${n}.frames`
    const before = readWhole(files, `${diverged}/${name}`)
    if (before === null || before.equals(Buffer.concat(pieces).subarray(0, before.byteLength))) return name
  }
}

interface Cut {
  readonly position: number
  readonly bytes: Uint8Array
  readonly chain: number
}

/** The whole frames of a segment behind the position. */
function* framesBehind(options: SetAsideOptions, base: number): Steps<readonly Cut[]> {
  const { files, directory, segmentsName, logId, from } = options
  const path = `${directory}/${segmentsName}/${segmentName(base)}/${RECORDS_NAME}`
  if (!files.exists(path)) return []
  const file = files.open(path, 'read')
  const found: Cut[] = []
  try {
    const begin = Math.max(SEGMENT_HEADER_BYTES, from - base)
    const footer = readFooter(file)
    const to = footer !== null && footer.base === base ? footer.end - base : file.size()
    if (to <= begin) return []
    let isWhole = true
    const scanning = scanInSteps(file, logId, base, begin, to, {
      frame({ position, payloadBytes, headerCrc }, offset) {
        if (!isWhole) return
        const bytes = Buffer.alloc(frameBytes(payloadBytes))
        file.read(bytes, offset)
        if (bytes.byteLength > FRAME_HEADER_BYTES) found.push({ position, bytes, chain: headerCrc })
      },
      bad() {
        isWhole = false
      },
    })
    yield* stepsOf(scanning, { phase: PHASE, done: 0, total: to - begin })
    return found
  } finally {
    file.close()
  }
}
