/** Bodies, and what must be true of them: windows into one block of random bytes, so that any two differ nearly everywhere. */
import { createHash } from 'node:crypto'
import { Random } from '../../../bench/load/random.ts'

const BLOCK_BYTES = 8 << 20

export class Body {
  /** More than one if it came in parts. */
  readonly pieces: readonly Buffer[]
  readonly size: number
  #md5: string | null = null

  constructor(pieces: readonly Buffer[]) {
    this.pieces = pieces
    this.size = pieces.reduce((sum, { byteLength }) => sum + byteLength, 0)
  }

  /** MD5 of all bytes, in hexadecimal digits: the ETag of an object that is put in one piece. */
  get md5(): string {
    return (this.#md5 ??= hexOf(this.pieces))
  }

  /** The ETag that S3 gives a multipart upload. */
  get partsEtag(): string {
    const digests = this.pieces.map((piece) => createHash('md5').update(piece).digest())
    return `${hexOf(digests)}-${digests.length}`
  }

  /** The bytes [from, to). */
  slice(from: number, to: number): Buffer {
    let begin = 0
    const parts = this.pieces.map((piece) => {
      const part = piece.subarray(Math.max(0, from - begin), Math.max(0, to - begin))
      begin += piece.byteLength
      return part
    })
    return parts.length === 1 ? parts[0]! : Buffer.concat(parts)
  }

  get bytes(): Buffer {
    return this.slice(0, this.size)
  }
}

export const hexOf = (pieces: readonly Uint8Array[]): string => {
  const md5 = createHash('md5')
  for (const piece of pieces) md5.update(piece)
  return md5.digest('hex')
}

export class Bodies {
  readonly #block: Buffer

  constructor(seed: number) {
    const random = new Random(seed)
    this.#block = Buffer.from(Uint32Array.from({ length: BLOCK_BYTES / 4 }, () => random.uint32()).buffer)
  }

  /** Random bytes, so many of them. */
  piece(random: Random, bytes: number): Buffer {
    const from = random.between(0, BLOCK_BYTES - bytes)
    return this.#block.subarray(from, from + bytes)
  }

  body(random: Random, bytes: number): Body {
    return new Body([this.piece(random, bytes)])
  }
}
