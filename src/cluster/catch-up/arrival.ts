/**
 * Checks a file of a copy while its pieces arrive (C1 of copy.ts), so that the file need not be read again from the disk it was just written to.
 */
import { frameBytes } from '../../../native-free-codecs/frame.ts'
import { crcOf } from '../../log/crc-of.ts'
import { readHeader, scanInSteps } from '../../log/read.ts'
import { SEGMENT_FOOTER_BYTES, SEGMENT_HEADER_BYTES } from '../../log/segment-format.ts'
import { STAND_IN_HEADER_BYTES, readStandIn } from '../../log/stand-in.ts'
import type { StandIn } from '../../log/stand-in.ts'
import type { LogSource } from '../../maintenance/source.ts'
import type { ListedSegment } from './listing.ts'

export interface Arrival {
  /** Takes the next piece of the file; pieces come in order, from the file's first byte. The piece is not kept. */
  add(piece: Buffer): void
  /** Whether the file is what it has to be. Called once all pieces are durable in the copy. */
  isWhole(): boolean
}

/** The file with the frames of a segment. */
export class ArrivingSegment implements Arrival {
  readonly #copy: LogSource
  readonly #segment: ListedSegment
  readonly #scan: Generator<number, void, undefined>
  /** Bytes of the last piece that the scan has not read yet. */
  #unread: Buffer = EMPTY
  /** Bytes of the file that have arrived. */
  #at = 0
  #isScanned = false
  #frameCount = 0
  #framesEnd: number
  #chain = 0
  #isDamaged = false

  constructor(copy: LogSource, segment: ListedSegment) {
    this.#copy = copy
    this.#segment = segment
    const { base, end } = segment
    this.#framesEnd = base + SEGMENT_HEADER_BYTES
    const arrived = { read: (into: Uint8Array) => this.#read(into) }
    this.#scan = scanInSteps(arrived, copy.logId, base, SEGMENT_HEADER_BYTES, end - base, {
      frame: ({ position, payloadBytes, headerCrc }) => {
        this.#frameCount += 1
        this.#framesEnd = position + frameBytes(payloadBytes)
        this.#chain = headerCrc
      },
      bad: () => {
        this.#isDamaged = true
      },
    })
  }

  add(piece: Buffer): void {
    this.#unread = piece.subarray(Math.max(0, SEGMENT_HEADER_BYTES - this.#at))
    this.#at += piece.byteLength
    while (this.#unread.byteLength > 0 && !this.#isScanned) this.#step()
  }

  isWhole(): boolean {
    while (!this.#isScanned) this.#step()
    const { base, end, chain, file } = this.#segment
    if (this.#isDamaged || this.#framesEnd !== end || this.#chain !== chain) return false
    const header = this.#copy.withRecords(base, readHeader)
    if (header === null || header.base !== base || header.logId !== this.#copy.logId) return false
    const footer = this.#copy.identityOf(base)?.footer ?? null
    const isSealed = file.bytes === end + SEGMENT_FOOTER_BYTES - base
    return isSealed ? footer?.end === end && footer.frameCount === this.#frameCount : footer === null
  }

  #step(): void {
    this.#isScanned = this.#scan.next().done === true
  }

  #read(into: Uint8Array): number {
    const piece = this.#unread.subarray(0, into.byteLength)
    into.set(piece)
    this.#unread = this.#unread.subarray(piece.byteLength)
    return piece.byteLength
  }
}

/** A stand-in, or a merged file, which has the same format. */
export class ArrivingStandIn implements Arrival {
  readonly #copy: LogSource
  readonly #base: number
  readonly #name: string
  readonly #fits: (standIn: StandIn) => boolean
  #at = 0
  #contentCrc = 0

  /** @param fits whether its header is what the listing says */
  constructor(copy: LogSource, base: number, name: string, fits: (standIn: StandIn) => boolean) {
    this.#copy = copy
    this.#base = base
    this.#name = name
    this.#fits = fits
  }

  add(piece: Buffer): void {
    const content = piece.subarray(Math.max(0, STAND_IN_HEADER_BYTES - this.#at))
    this.#contentCrc = crcOf([content], this.#contentCrc)
    this.#at += piece.byteLength
  }

  isWhole(): boolean {
    const { files, logId } = this.#copy
    const standIn = readStandIn(files, this.#copy.pathOf(this.#base), logId, this.#base, this.#name)
    return standIn !== null && standIn.contentCrc === this.#contentCrc && this.#fits(standIn)
  }
}

const EMPTY = Buffer.alloc(0)
