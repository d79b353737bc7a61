/**
 * Caches what was made of verified pieces, bounded in bytes. One cache per thread, for all files that the thread reads. A value that was handed out stays
 * valid after its eviction.
 *
 * Each search goes through all bundles. If every new value evicted the least recently used one, that would be the one that the search comes to next: with
 * more values than fit there would be no cache hit at all. So most new values are not kept while the cache is full.
 *
 * Records and their places are kept while one question is answered, and only the last ones for the next question: each look-up needs others. V8 moves
 * values that stay longer to memory that only a full collection frees, and begins one for every 64 MB of it.
 */
import type { Piece } from './pieces.ts'

interface Kept {
  readonly owner: number
  readonly made: object
  readonly bytes: number
}

/** A reader of a file that keeps what it read last, outside of the cache. */
interface CachingReader {
  /** Drops what it read last. */
  dropLastRead(): void
}

/** Most readers that keep what they read last; a merge has fewer at the same time. */
const RECENT_READERS_MAX = 16
/** The part of the cache that records and their places may take between questions, and during one. */
const RECORDS_SHARE = 1 / 6
const RECORDS_SHARE_MAX = 1 / 2

export class PieceCache {
  readonly #pieces: LongCache
  readonly #records: ShortCache
  readonly #recordsKept: number
  /** The most recent ones first. */
  readonly #recentReaders: CachingReader[] = []
  #owners = 0

  constructor(bytesMax: number) {
    this.#records = new ShortCache(bytesMax * RECORDS_SHARE_MAX)
    this.#recordsKept = bytesMax * RECORDS_SHARE
    this.#pieces = new LongCache(bytesMax * (1 - RECORDS_SHARE))
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

  /** A reader calls it before it keeps what it reads. The least recent reader drops that: some hundred bundles would keep more than the cache does. */
  noteReader(reader: CachingReader): void {
    if (this.#recentReaders[0] === reader) return
    const known = this.#recentReaders.indexOf(reader)
    if (known >= 0) this.#recentReaders.splice(known, 1)
    this.#recentReaders.unshift(reader)
    if (this.#recentReaders.length > RECENT_READERS_MAX) this.#recentReaders.pop()!.dropLastRead()
  }

  /** Drops what was made of a file that was closed. */
  drop(owner: number, reader: CachingReader | null = null): void {
    this.#pieces.drop(owner)
    this.#records.drop(owner)
    const known = reader === null ? -1 : this.#recentReaders.indexOf(reader)
    if (known >= 0) this.#recentReaders.splice(known, 1)
  }
}

/** While the cache is full, one of this many new values is kept, and evicts the least recently used ones. So a value that is often asked for gets in. */
const KEPT_OF_FULL = 8

class LongCache {
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

/** Most entries, as a look-up compares one after the other. */
const SHORT_ENTRIES_MAX = 128
/** The last entries stay, whatever they take: the records of a block, its keys, and a chunk. */
const SHORT_ENTRIES_MIN = 3

/**
 * A cache of few entries, without a Map: when V8 replaces the table of a Map, the old table keeps a reference to the new one. Once an old table is in
 * memory that only a full collection frees, cheap collections free nothing that later tables had.
 */
class ShortCache {
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

  /** The last entries stay: callers ask them for one record after the other. */
  shorten(bytesMax: number): void {
    const kept = this.#kept
    while (kept.length > SHORT_ENTRIES_MAX || (this.#bytes > bytesMax && kept.length > SHORT_ENTRIES_MIN))
      this.#bytes -= kept.shift()!.bytes
  }

  drop(owner: number): void {
    for (let at = this.#kept.length - 1; at >= 0; at--) {
      if (this.#kept[at]!.owner === owner) this.#bytes -= this.#kept.splice(at, 1)[0]!.bytes
    }
  }
}

/** Overhead of an entry: its key, and the objects around the bytes. */
const ENTRY_BYTES = 256

/** Bytes in memory: those of the buffer of a view. For other values an estimate: their `heldBytes`, and twice the bytes of the piece. */
function bytesOf(made: object, { bytes, rawBytes }: Piece): number {
  if (ArrayBuffer.isView(made)) return made.buffer.byteLength + ENTRY_BYTES
  const held = 'heldBytes' in made && typeof made.heldBytes === 'number' ? made.heldBytes : 0
  return held + 2 * Math.max(bytes, rawBytes) + ENTRY_BYTES
}
