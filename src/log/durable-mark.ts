/**
 * The durable mark of a log directory: where its log begins, and a position before which everything was durable there. Written when the
 * log is idle, at close, and before segments are dropped. It closes two gaps that frames leave. They name the durable position before
 * them, so only the mark can tell that the frames of the last group, damaged later, are not the torn tail of a crash. And only the mark
 * can tell that the oldest segment was lost, and not dropped.
 *
 *   two slots of 64 bytes at 0 and 512, written in turn, so that a torn write leaves the other
 *   offset  bytes  field
 *        0      8  magic     'TLDURABL'
 *        8      4  epoch     u32, the highest epoch the log was opened with
 *       12      4  logId     u32
 *       16      8  position  u64
 *       24      8  begin     u64, base of the oldest segment
 *       32      4  hasBegin  u32, 1; 0 in marks of versions that did not write `begin`
 *       36     24  unused    0
 *       60      4  crc       u32, CRC-32 of bytes [0, 60)
 *
 * The mark is written after the sync that made its position durable. So it may be old, but it is never wrong.
 *
 * M2  a mark with a later beginning is durable before earlier segments are removed. So they may still be there, but are never missing
 */
import { crc32, readU32, readU64, writeU32, writeU64 } from '../../native-free-codecs/frame.ts'
import { readWhole } from './files.ts'
import type { Files, OpenFile } from './files.ts'

export const MARK_NAME = 'DURABLE'

const SLOT_BYTES = 64
const SLOT_DISTANCE = 512
const MAGIC = Buffer.from('TLDURABL')

export interface Mark {
  readonly epoch: number
  readonly position: number
  /** Null: not known, as the mark is of an older version, or there is none. */
  readonly begin: number | null
}

/** What the mark of a directory says; zeros when there is none, or none that is whole. */
export function readMark(files: Files, directory: string, logId: number): Mark {
  return latestSlot(readWhole(files, `${directory}/${MARK_NAME}`) ?? Buffer.alloc(0), logId)
}

export class DurableMark {
  readonly #file: OpenFile
  readonly #logId: number
  #turn = 0
  position = 0
  begin: number | null = null

  static open(files: Files, directory: string, logId: number): DurableMark {
    const path = `${directory}/${MARK_NAME}`
    if (files.exists(path)) return new DurableMark(files.open(path, 'write'), logId)
    const file = files.create(path)
    file.writev([Buffer.alloc(2 * SLOT_DISTANCE)], 0)
    file.fdatasync()
    files.syncDirectory(directory)
    return new DurableMark(file, logId)
  }

  /** Writes the mark of a log that no lane writes to. It is durable when this returns. */
  static set(files: Files, directory: string, logId: number, to: Mark): void {
    const mark = DurableMark.open(files, directory, logId)
    mark.write(to)
    mark.sync()
    mark.close()
  }

  /** As `set`, for a mark with a later beginning (M2). */
  static setBegin(files: Files, directory: string, logId: number, to: Mark): void {
    const mark = DurableMark.open(files, directory, logId)
    mark.moveBegin(to)
    mark.close()
  }

  private constructor(file: OpenFile, logId: number) {
    this.#file = file
    this.#logId = logId
    const bytes = Buffer.alloc(2 * SLOT_DISTANCE)
    file.read(bytes, 0)
    const latest = latestSlot(bytes, logId)
    this.position = latest.position
    this.begin = latest.begin
    this.#turn = 1 - latest.slot
  }

  write(mark: Mark): void {
    const bytes = Buffer.alloc(SLOT_BYTES)
    MAGIC.copy(bytes)
    writeU32(bytes, 8, mark.epoch)
    writeU32(bytes, 12, this.#logId)
    writeU64(bytes, 16, mark.position)
    writeU64(bytes, 24, mark.begin ?? 0)
    writeU32(bytes, 32, mark.begin === null ? 0 : 1)
    writeU32(bytes, 60, crc32(bytes, 0, 60))
    this.#file.writev([bytes], this.#turn * SLOT_DISTANCE)
    this.#turn = 1 - this.#turn
    this.position = mark.position
    this.begin = mark.begin
  }

  /** M2. Writes both slots, so that neither names a segment that is to be removed. */
  moveBegin(mark: Mark): void {
    this.write(mark)
    this.write(mark)
    this.sync()
  }

  sync(): void {
    this.#file.fdatasync()
  }

  close(): void {
    this.#file.close()
  }
}

function latestSlot(bytes: Buffer, logId: number): Mark & { readonly slot: number } {
  let latest: Mark & { readonly slot: number } = { epoch: 0, position: 0, begin: null, slot: 1 }
  for (let slot = 0; slot < 2; slot += 1) {
    const at = bytes.subarray(slot * SLOT_DISTANCE, slot * SLOT_DISTANCE + SLOT_BYTES)
    if (at.byteLength < SLOT_BYTES || !MAGIC.equals(at.subarray(0, 8))) continue
    if (crc32(at, 0, 60) !== readU32(at, 60) || readU32(at, 12) !== logId) continue
    const epoch = readU32(at, 8)
    const position = readU64(at, 16)
    const isLater = epoch > latest.epoch || (epoch === latest.epoch && position >= latest.position)
    const begin = readU32(at, 32) === 1 ? readU64(at, 24) : null
    if (isLater) latest = { epoch, position, begin, slot }
  }
  return latest
}
