/**
 * Pieces of a compacted bundle. Each is read, verified and kept as a whole. Its checksum, over the bytes in the file, is verified before they are used; a
 * compressed piece also has to decompress to the length that the directory says.
 *
 * P1  a piece that fails is an error, `bundle_block_corrupt`, never other contents
 */
import { constants, crc32, zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { StoreError } from '../../errors.ts'
import { CollectedMemory, freeMemory } from '../../free-memory.ts'
import { decompressZstd } from '../../libc.ts'
import { errorCode } from '../../log/files.ts'
import type { BundleFile } from '../index/segment-files.ts'
import type { ByteReader } from './byte-reader.ts'
import type { ByteWriter } from './byte-writer.ts'

/**
 * Measured on 80 000 logs of services, random ids on 60 %: level 1 takes half the time of 3 for 0.8 % more bytes, level 6 a tenth more time for 0.4 % less.
 */
const LEVEL = { params: { [constants.ZSTD_c_compressionLevel]: 3 } }

/** Shorter pieces are not compressed: zlib makes a new compressor for each, which takes longer than all else for a block of one record. */
const COMPRESSED_BYTES_MIN = 32

/** zlib's minimum. */
const CHUNK_BYTES_MIN = 64

export interface Piece {
  /** Where it begins in the file. */
  readonly at: number
  readonly bytes: number
  /** Its length when it is decompressed; 0: it is not compressed. */
  readonly rawBytes: number
  readonly crc: number
}

/** What a directory says of a piece. */
export type PieceFacts = Omit<Piece, 'at'>

export interface WrittenPiece {
  readonly bytes: Buffer<ArrayBuffer>
  readonly rawBytes: number
}

/**
 * A copy of the bytes, compressed if that makes them shorter. By default zlib returns chunks of 16 KiB, which only a collection frees. Here it returns one
 * chunk, which is freed at once, and the copy, which is kept until the bundle is written, takes no more than its bytes.
 */
export function compressed(raw: Buffer): WrittenPiece {
  if (raw.byteLength < COMPRESSED_BYTES_MIN) return uncompressed(raw)
  const written = zstdCompressSync(raw, { ...LEVEL, chunkSize: Math.max(raw.byteLength, CHUNK_BYTES_MIN) })
  const piece =
    written.byteLength < raw.byteLength ? { bytes: Buffer.from(written), rawBytes: raw.byteLength } : uncompressed(raw)
  freeMemory(written)
  return piece
}

/** A copy of the bytes. */
export const uncompressed = (raw: Buffer): WrittenPiece => ({ bytes: Buffer.from(raw), rawBytes: 0 })

export const pieceOf = ({ bytes, rawBytes }: WrittenPiece): PieceFacts => ({
  bytes: bytes.byteLength,
  rawBytes,
  crc: crc32(bytes),
})

export function writePiece(into: ByteWriter, { bytes, rawBytes, crc }: PieceFacts): void {
  into.varint(bytes)
  into.varint(rawBytes)
  into.u32(crc)
}

/** Reads what `writePiece` wrote. @param at where the piece begins in the file */
export const readPiece = (from: ByteReader, at: number): Piece => ({
  at,
  bytes: from.varint(),
  rawBytes: from.varint(),
  crc: from.u32(),
})

/** The memory of what `pieceOnce` and `pieceForNow` return, for pieces of usual length. */
const once = Buffer.allocUnsafeSlow(1024 * 1024)
const forNow = Buffer.allocUnsafeSlow(1024 * 1024)

/** A search reads many pieces and soon drops each. By itself V8 collects them at 32 MiB in a thread. */
const read = new CollectedMemory(8 * 1024 * 1024)

export class PieceFile {
  readonly #source: BundleFile
  readonly #bundle: string

  /** @param bundle its name, for messages */
  constructor(source: BundleFile, bundle: string) {
    this.#source = source
    this.#bundle = bundle
  }

  size(): number {
    return this.#source.size()
  }

  close(): void {
    this.#source.close()
  }

  /** The content of a piece, in memory of its own (P1). */
  piece(piece: Piece): Buffer<ArrayBuffer> {
    const { bytes, rawBytes } = piece
    if (rawBytes === 0) return this.#verified(Buffer.allocUnsafeSlow(bytes), piece)
    read.received(rawBytes)
    return this.#decompressed(Buffer.allocUnsafeSlow(rawBytes), piece)
  }

  /** As `piece`, for pieces that lie one behind the other. If none is compressed, they are read at once and are views of one buffer. */
  piecesInRow(pieces: readonly Piece[]): Buffer<ArrayBuffer>[] {
    if (pieces.some(({ rawBytes }) => rawBytes > 0)) return pieces.map((piece) => this.piece(piece))
    const start = pieces[0]!.at
    const bytes = pieces.reduce((sum, piece) => sum + piece.bytes, 0)
    const all = this.read(start, bytes)
    return pieces.map((piece) => {
      const from = piece.at - start
      return this.#intact(all.subarray(from, from + piece.bytes), piece)
    })
  }

  /** As `piece`, but valid only until the next call of this or of `pieceOnce`, for any file: for callers that decode it at once. */
  pieceForNow(piece: Piece): Buffer {
    const { rawBytes } = piece
    if (rawBytes === 0) return this.pieceOnce(piece)
    return rawBytes > forNow.byteLength ? this.piece(piece) : this.#decompressed(forNow.subarray(0, rawBytes), piece)
  }

  #decompressed(into: Buffer<ArrayBuffer>, piece: Piece): Buffer<ArrayBuffer> {
    const { at, rawBytes } = piece
    const stored = this.pieceOnce(piece)
    if (decompressZstd(stored, into) === rawBytes) return into
    // With room for one byte more, zlib returns everything in one chunk and sees the end. By default it joins chunks of 16 KiB.
    const chunkSize = Math.max(rawBytes + 1, CHUNK_BYTES_MIN)
    const raw = zstdDecompressSync(stored, { maxOutputLength: rawBytes, chunkSize })
    if (raw.byteLength !== rawBytes) throw this.corrupt(`the piece at byte ${at} is not as long as it says`)
    return raw
  }

  /**
   * The bytes of a piece in the file (P1); valid until the next call, for any file. To allocate memory for each piece takes longer than to read it, and V8
   * collects the whole heap for every few MB of such memory.
   */
  pieceOnce(piece: Piece): Buffer<ArrayBuffer> {
    const isLong = piece.bytes > once.byteLength
    return this.#verified(isLong ? Buffer.allocUnsafeSlow(piece.bytes) : once.subarray(0, piece.bytes), piece)
  }

  #verified(into: Buffer<ArrayBuffer>, piece: Piece): Buffer<ArrayBuffer> {
    return this.#intact(this.#fill(into, piece.at), piece)
  }

  #intact(stored: Buffer<ArrayBuffer>, { at, crc }: Piece): Buffer<ArrayBuffer> {
    if (crc32(stored) !== crc) throw this.corrupt(`the piece at byte ${at} is damaged: checksum mismatch`)
    return stored
  }

  read(at: number, bytes: number): Buffer<ArrayBuffer> {
    return this.#fill(Buffer.allocUnsafeSlow(bytes), at)
  }

  #fill(into: Buffer<ArrayBuffer>, at: number): Buffer<ArrayBuffer> {
    let filled: number
    try {
      filled = this.#source.read(into, at)
    } catch (error) {
      if (error instanceof StoreError) throw error
      const problem = `bundle ${this.#bundle}: compact.bin cannot be read (${errorCode(error)})`
      throw new StoreError('unavailable', 'bundle_read_failed', problem, { cause: error })
    }
    if (filled !== into.byteLength) throw this.corrupt(`it ends at byte ${at + filled}, inside a piece`)
    return into
  }

  corrupt(problem: string): StoreError {
    return new StoreError('corrupt', 'bundle_block_corrupt', `bundle ${this.#bundle}: compact.bin: ${problem}`)
  }

  /** Not damage: nothing may be dropped or built again because of it. */
  newer(problem: string): StoreError {
    return new StoreError('unavailable', 'bundle_format_newer', `bundle ${this.#bundle}: compact.bin: ${problem}`)
  }
}
