/** Writes the hash indexes of bundles of version 3 and before, which src/logstore/compact/block-hash-index.ts must read for ever. */
import { ByteWriter } from '../../src/logstore/compact/byte-writer.ts'
import { pieceOf, uncompressed, writePiece } from '../../src/logstore/compact/pieces.ts'
import type { WrittenPiece } from '../../src/logstore/compact/pieces.ts'

const PAIRS_PER_PIECE = 2048
const BITS_OVER = 10

/** @returns the pieces; writes their directory into `directory` */
export function writeBlockHashes(
  directory: ByteWriter,
  all: readonly (readonly [hash: number, block: number])[],
  blockCount: number,
): WrittenPiece[] {
  const bits = Math.min(32, Math.ceil(Math.log2(all.length + 1)) + BITS_OVER)
  const pairs = all.map(([hash, block]) => [hash >>> (32 - bits), block] as const)
  pairs.sort(([a, blockA], [b, blockB]) => a - b || blockA - blockB)
  directory.byte(bits)
  directory.varint(Math.ceil(pairs.length / PAIRS_PER_PIECE))
  const pieces: WrittenPiece[] = []
  for (let from = 0; from < pairs.length; from += PAIRS_PER_PIECE) {
    const some = pairs.slice(from, from + PAIRS_PER_PIECE)
    const into = new ByteWriter()
    for (const [i, [hash]] of some.entries()) into.varint(hash - some[Math.max(0, i - 1)]![0])
    for (const [, block] of some) {
      into.byte(block & 0xff)
      if (blockCount > 256) into.byte(block >>> 8)
    }
    const piece = uncompressed(into.written())
    directory.varint(some.length)
    directory.u32(some[0]![0])
    writePiece(directory, pieceOf(piece))
    pieces.push(piece)
  }
  return pieces
}
