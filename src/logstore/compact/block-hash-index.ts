/**
 * Says which blocks of a bundle may hold a record id or a trace id, for bundles of version 3 and before. Newer ones have the index of hash-index.ts.
 *
 *   directory   bits of the hashes u8, pieces varint; each: pairs varint, first hash u32, then as `writePiece`
 *   piece       pairs of a hash and the number of a block, in the order of hashes: steps from hash to hash, varints; then the blocks, one byte each, or two
 *               when the bundle has more than 256
 */
import type { ByteReader } from './byte-reader.ts'
import { PiecesByHash } from './hash-index.ts'
import type { LoadPiece } from './hash-index.ts'

export class BlockHashIndex {
  readonly #shift: number
  readonly #pieces: PiecesByHash
  readonly #blockBytes: number
  readonly end: number

  /** @param at where the pieces begin in the file */
  constructor(directory: ByteReader, at: number, blockCount: number) {
    this.#shift = 32 - directory.byte()
    this.#blockBytes = blockCount > 256 ? 2 : 1
    this.#pieces = new PiecesByHash(directory, at)
    this.end = this.#pieces.end
  }

  /** As HashIndex.placesOf, where a place is the number of a block. */
  placesOf(hash: number, load: LoadPiece): number[] {
    const wanted = hash >>> this.#shift
    const found: number[] = []
    this.#pieces.forEachCandidate(wanted, load, (bytes, pairs, first) => this.#find(bytes, pairs, first, wanted, found))
    return found
  }

  /** Reads the steps in place: to decode a piece into arrays takes many times longer, and look-ups seldom read the same piece twice. */
  #find(bytes: Buffer, pairs: number, first: number, wanted: number, found: number[]): void {
    const blocksAt = bytes.byteLength - pairs * this.#blockBytes
    let hash = first
    let at = 0
    for (let pair = 0; pair < pairs; pair++) {
      let byte = bytes[at++]!
      let step = byte & 127
      for (let scale = 128; byte >= 128; scale *= 128) {
        byte = bytes[at++]!
        step += (byte & 127) * scale
      }
      hash += step
      if (hash < wanted) continue
      if (hash > wanted) return
      const block = this.#blockBytes === 1 ? bytes[blocksAt + pair]! : bytes.readUInt16LE(blocksAt + 2 * pair)
      if (found.at(-1) !== block) found.push(block)
    }
  }
}
