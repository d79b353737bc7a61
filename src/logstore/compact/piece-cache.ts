/**
 * What was made of verified pieces, least recently used first out, bounded in bytes. One per thread, shared by all files it reads. What was handed
 * out stays valid after it left the cache.
 *
 * A search goes through all bundles, and the next one again. If each piece that it makes took the place of the one that was used longest ago, that would be the one it
 * comes to next, and of more pieces than have room it would find none. So when the cache is full most of what is made is not kept.
 *
 * Records and their places are kept while one question is answered, and the last of them for the next one: a look-up meets others than the one before. V8 promotes
 * what stays longer to where only a full collection frees it, and begins one for every 64 MB of such memory.
 */
import type { Piece } from './pieces.ts'

interface Kept {
  readonly owner: number
  readonly made: object
  readonly bytes: number
}

/** What looks at files, and keeps what it looked at last. */
interface Looker {
  /** Lets go of it. */
  forgetLast(): void
}

/** Those that look at the same time: as many as are merged. */
const LOOKERS = 16
/** The part of the cache that records and their places may take between questions, and during one. */
const RECORDS_SHARE = 1 / 6
const RECORDS_SHARE_MAX = 1 / 2

export class PieceCache {
  readonly #pieces: Shelf
  readonly #records: ShortShelf
  readonly #recordsKept: number
  /** The last ones first. */
  readonly #lookers: Looker[] = []
  #owners = 0

  constructor(bytesMax: number) {
    this.#records = new ShortShelf(bytesMax * RECORDS_SHARE_MAX)
    this.#recordsKept = bytesMax * RECORDS_SHARE
    this.#pieces = new Shelf(bytesMax * (1 - RECORDS_SHARE))
  }

  /** A number for a file that was opened, never used before. */
  newOwner(): number {
    return this.#owners++
  }

  get<Made extends object>(owner: number, piece: Piece, make: () => Made): Made {
    return this.#pieces.get(owner, piece, make)
  }

  /** As `get`, for records and their places. */
  getRecords<Made extends object>(owner: number, piece: Piece, make: () => Made): Made {
    return this.#records.get(owner, piece, make)
  }

  beginQuestion(): void {
    this.#records.shorten(this.#recordsKept)
  }

  /** Before it keeps what it looks at. Some hundred bundles would keep more than the cache does. */
  looks(looker: Looker): void {
    if (this.#lookers[0] === looker) return
    const known = this.#lookers.indexOf(looker)
    if (known >= 0) this.#lookers.splice(known, 1)
    this.#lookers.unshift(looker)
    if (this.#lookers.length > LOOKERS) this.#lookers.pop()!.forgetLast()
  }

  /** Gives up what was made of a file that was closed. */
  drop(owner: number, looker: Looker | null = null): void {
    this.#pieces.drop(owner)
    this.#records.drop(owner)
    const known = looker === null ? -1 : this.#lookers.indexOf(looker)
    if (known >= 0) this.#lookers.splice(known, 1)
  }
}

/** One of so many is kept when there is no room, and takes the place of what was used longest ago. So what is asked for again and again comes in. */
const KEPT_OF_FULL = 8

class Shelf {
  readonly #bytesMax: number
  #refused = 0
  /** In order of use: a Map iterates in order of insertion, and a hit inserts again. */
  readonly #kept = new Map<string, Kept>()
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
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
    if (this.#bytes + bytes > this.#bytesMax && ++this.#refused % KEPT_OF_FULL !== 0) return made
    this.#kept.set(key, { owner, made, bytes })
    this.#bytes += bytes
    for (const [oldest, { bytes: freed }] of this.#kept) {
      if (this.#bytes <= this.#bytesMax) break
      this.#kept.delete(oldest)
      this.#bytes -= freed
    }
    return made
  }

  drop(owner: number): void {
    for (const [key, kept] of this.#kept) {
      if (kept.owner !== owner) continue
      this.#kept.delete(key)
      this.#bytes -= kept.bytes
    }
  }
}

interface Placed extends Kept {
  readonly at: number
}

/** Entries are looked at one after the other. */
const SHORT = 128
/** Records, where they are by row, and by entry. */
const LAST = 3

/**
 * For few. It has no Map: each table of one that was replaced by a longer one, or by one without holes, names the next table and all that it had. When the oldest
 * table is promoted, the cheap collections free none of what any later table had.
 */
class ShortShelf {
  readonly #bytesMax: number
  /** What was used last comes last. */
  readonly #kept: Placed[] = []
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  get<Made extends object>(owner: number, piece: Piece, make: () => Made): Made {
    const kept = this.#kept
    let known = kept.length - 1
    while (known >= 0 && (kept[known]!.at !== piece.at || kept[known]!.owner !== owner)) known--
    if (known >= 0) {
      const entry = kept[known]!
      kept.copyWithin(known, known + 1)
      kept[kept.length - 1] = entry
      return entry.made as Made // each place of a file is made into one kind of thing
    }
    const made = make()
    const bytes = bytesOf(made, piece)
    kept.push({ owner, at: piece.at, made, bytes })
    this.#bytes += bytes
    this.shorten(this.#bytesMax)
    return made
  }

  /** What was used last stays, whatever it takes: one record after the other is asked of it. */
  shorten(bytesMax: number): void {
    const kept = this.#kept
    while (kept.length > SHORT || (this.#bytes > bytesMax && kept.length > LAST)) this.#bytes -= kept.shift()!.bytes
  }

  drop(owner: number): void {
    for (let at = this.#kept.length - 1; at >= 0; at--) {
      if (this.#kept[at]!.owner === owner) this.#bytes -= this.#kept.splice(at, 1)[0]!.bytes
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
