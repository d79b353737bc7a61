/**
 * What was made of verified pieces, least recently used first out, bounded in bytes. One per thread, shared by all files it reads. What was handed
 * out stays valid after it left the cache.
 */
import type { Piece } from './pieces.ts'

interface Kept {
  readonly owner: number
  readonly made: object
  readonly bytes: number
}

export class PieceCache {
  readonly #bytesMax: number
  /** In order of use: a Map iterates in order of insertion, and a hit inserts again. */
  readonly #kept = new Map<string, Kept>()
  #bytes = 0
  #owners = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** A number for a file that was opened, never used before. */
  newOwner(): number {
    return this.#owners++
  }

  get<Made extends object>(owner: number, piece: Piece, make: () => Made): Made {
    const key = `${owner} ${piece.at}`
    const known = this.#kept.get(key)
    if (known !== undefined) {
      this.#kept.delete(key)
      this.#kept.set(key, known)
      return known.made as Made // each place of a file is made into one kind of thing
    }
    const made = make()
    const bytes = bytesOf(made, piece)
    this.#kept.set(key, { owner, made, bytes })
    this.#bytes += bytes
    for (const [oldest, { bytes: freed }] of this.#kept) {
      if (this.#bytes <= this.#bytesMax) break
      this.#kept.delete(oldest)
      this.#bytes -= freed
    }
    return made
  }

  /** Gives up what was made of a file that was closed. */
  drop(owner: number): void {
    for (const [key, kept] of this.#kept) {
      if (kept.owner !== owner) continue
      this.#kept.delete(key)
      this.#bytes -= kept.bytes
    }
  }
}

/** For the key, the entry, and what stands around the bytes. */
const ENTRY_BYTES = 256

/** A view takes its memory, however it was stored. Of anything else about: what it says that it takes, and what it was made of. */
function bytesOf(made: object, { bytes, rawBytes }: Piece): number {
  if (ArrayBuffer.isView(made)) return made.buffer.byteLength + ENTRY_BYTES
  const held = 'heldBytes' in made && typeof made.heldBytes === 'number' ? made.heldBytes : 0
  return held + 2 * Math.max(bytes, rawBytes) + ENTRY_BYTES
}
