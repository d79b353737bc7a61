/**
 * Notes on the frames that are not compacted yet: which runs of four word characters (grams) occur in their bodies. A search skips a frame that lacks a
 * run of its text. Compacted blocks have filters of their own.
 *
 * One thread at a time notes frames, ascending (note-frames.ts). All threads that search read the notes, in shared memory; each has its own table of
 * which frame has which note. A thread that reads a bucket keeps notes of its own on what its searches read.
 *
 *   notes  a ring: position of the frame, where its bits are, how many (0: it may hold anything), and whether it follows (G4); by sequence numbers from
 *          TAIL to HEAD
 *   bits   a ring: by the hash of each run, see native-free-codecs/gram-bits.ts
 *
 * G1  a committed frame never changes while the log is of one generation. Notes of another generation are not used
 * G2  a frame is skipped only if it has none of the texts in `SearchMatcher.required`: every match has at least one of them
 * G3  the memory is bounded: the oldest notes go. TAIL moves before anything is overwritten, so what was read of a note is valid if TAIL has not
 *     passed the note since
 * G4  a frame follows if no other frame with records is in the log between it and the frame of the previous note. So a search can go from note to note
 *     without the index of the segment
 */
import type { RecordBatch } from '../batch-frame.ts'
import { GRAM_BITS_MAX, GRAM_BYTES, gramHash, setGramBits } from '../../../native-free-codecs/gram-bits.ts'

/** A frame gets a bit for every four bytes of its body. In a batch of logs, a tenth of the bits is set. */
const BYTES_PER_BIT = 4
const BITS_MIN = 1 << 8

// Words of the head.
const HEAD = 0
const TAIL = 1
const GENERATION = 2
const HEAD_WORDS = 4

/** How many notes there are. Even a batch of one record takes one. */
const NOTES = 16_384

/** The hashes of the runs of one text; a frame that lacks one of them does not have the text. */
type Grams = readonly number[]

export type FrameGramsHandle = Readonly<Record<'head' | 'position' | 'notes' | 'bits', SharedArrayBuffer>>

/** @param bitsBytes for the bits of all notes */
export const createFrameGrams = (bitsBytes: number): FrameGramsHandle => ({
  head: new SharedArrayBuffer(4 * HEAD_WORDS),
  position: new SharedArrayBuffer(8),
  notes: new SharedArrayBuffer(NOTES * 17),
  bits: new SharedArrayBuffer(bitsBytes),
})

/** The shared memory as numbers. */
class Notes {
  readonly #head: Int32Array
  readonly #position: Float64Array
  readonly positions: Float64Array
  readonly ats: Uint32Array
  readonly bitCounts: Uint32Array
  /** 1: the frame follows (G4). */
  readonly follows: Uint8Array
  readonly bits: Uint32Array

  constructor({ head, position, notes, bits }: FrameGramsHandle) {
    this.#head = new Int32Array(head)
    this.#position = new Float64Array(position)
    this.positions = new Float64Array(notes, 0, NOTES)
    this.ats = new Uint32Array(notes, 8 * NOTES, NOTES)
    this.bitCounts = new Uint32Array(notes, 12 * NOTES, NOTES)
    this.follows = new Uint8Array(notes, 16 * NOTES, NOTES)
    this.bits = new Uint32Array(bits)
  }

  get head(): number {
    return Atomics.load(this.#head, HEAD)
  }

  set head(sequence: number) {
    Atomics.store(this.#head, HEAD, sequence)
  }

  get tail(): number {
    return Atomics.load(this.#head, TAIL)
  }

  set tail(sequence: number) {
    Atomics.store(this.#head, TAIL, sequence)
  }

  get generation(): number {
    return Atomics.load(this.#head, GENERATION)
  }

  set generation(generation: number) {
    Atomics.store(this.#head, GENERATION, generation)
  }

  /** The next frame that has to be noted is at this position, or behind it. A thread that takes over continues here. */
  get position(): number {
    return this.#position[0]!
  }

  set position(position: number) {
    this.#position[0] = position
  }

  /** Whether the note is not overwritten. Sequence numbers come again after 2^32 notes. */
  isThere(sequence: number): boolean {
    return isAtOrAfter(sequence, this.tail)
  }
}

const isAtOrAfter = (a: number, b: number): boolean => ((a - b) | 0) >= 0
const slotOf = (sequence: number): number => (sequence >>> 0) % NOTES

/** For the thread that notes frames. */
export class FrameNoter {
  readonly #notes: Notes

  constructor(handle: FrameGramsHandle) {
    this.#notes = new Notes(handle)
  }

  /** Forgets notes of another generation. @returns the position at which noting continues */
  begin(generation: number): number {
    const notes = this.#notes
    if (notes.generation !== generation) {
      notes.tail = notes.head
      notes.position = 0
      notes.generation = generation
    }
    return notes.position
  }

  /**
   * Notes a frame. Noting continues behind it.
   *
   * @param batch   the records of the frame; null: it cannot be read
   * @param follows see G4
   */
  note(position: number, batch: RecordBatch | null, follows: boolean): void {
    const notes = this.#notes
    notes.position = position + 1 // frames are longer
    const body = batch === null || batch.mayHaveEscapes ? null : batch.body
    const bitCount = body === null ? 0 : bitCountOf(body.byteLength)
    const { head } = notes
    const at = this.#place(bitCount / 32)
    if (body !== null) setGramBits(notes.bits.subarray(at, at + bitCount / 32), body)
    const slot = slotOf(head)
    notes.positions[slot] = position
    notes.ats[slot] = at
    notes.bitCounts[slot] = bitCount
    notes.follows[slot] = follows ? 1 : 0
    notes.head = (head + 1) | 0
  }

  /** G3 */
  #place(words: number): number {
    const notes = this.#notes
    const { head } = notes
    let { tail } = notes
    const next = (sequence: number): number => (sequence + 1) | 0
    const startOf = (sequence: number): number => notes.ats[slotOf(sequence)]!
    const endOf = (sequence: number): number => startOf(sequence) + notes.bitCounts[slotOf(sequence)]! / 32
    let at = head === tail ? 0 : endOf((head - 1) | 0)
    if (at + words > notes.bits.length) {
      while (tail !== head && startOf(tail) >= at) tail = next(tail)
      at = 0
    }
    if (((head - tail) | 0) === NOTES) tail = next(tail)
    // A note without bits goes when the words at its place are overwritten: as the oldest note it would keep those behind it from going.
    const isIn = (sequence: number): boolean =>
      startOf(sequence) < at + words && (endOf(sequence) > at || startOf(sequence) === at)
    while (tail !== head && isIn(tail)) tail = next(tail)
    notes.tail = tail
    return at
  }
}

function bitCountOf(bytes: number): number {
  let bitCount = BITS_MIN
  while (bitCount < GRAM_BITS_MAX && bitCount * BYTES_PER_BIT < bytes) bitCount *= 2
  return bitCount
}

export interface FrameTest {
  /** False: no record of the frame matches. */
  mayMatch(frameOffset: number): boolean
  /** No record matches in this frame, and in those behind it that begin before the returned offset. The offset of the frame itself: a record may match. */
  nextCandidateFrom(frameOffset: number): number
  wasRead(frameOffset: number, batch: RecordBatch): void
}

export const READS_ALL: FrameTest = { mayMatch: () => true, nextCandidateFrom: (offset) => offset, wasRead() {} }

/** For a thread that searches. */
export class FrameGrams {
  readonly #notes: Notes
  readonly #noter: FrameNoter | null
  /** Sequence numbers by position of the frame, ascending. */
  readonly #known = new Map<number, number>()
  #seen = 0

  /** @param noter the only one that notes in this memory; null: another thread does */
  constructor(handle: FrameGramsHandle, noter: FrameNoter | null) {
    this.#notes = new Notes(handle)
    this.#noter = noter
  }

  /**
   * One search in one segment.
   *
   * @param required see G2; null: there are no such texts
   * @param end      where the next segment begins, if that is known
   */
  search(required: readonly string[] | null, base: number, generation: number, end = Infinity): FrameTest {
    const grams = required?.map(gramsOf) ?? []
    if (grams.length === 0 || grams.some((each) => each.length === 0)) return READS_ALL
    this.#readNewNotes()
    return {
      mayMatch: (frameOffset) =>
        this.#nextCandidateFrom(base + frameOffset, 0, grams, generation) === base + frameOffset,
      nextCandidateFrom: (frameOffset) => this.#nextCandidateFrom(base + frameOffset, end, grams, generation) - base,
      wasRead: (frameOffset, batch) => this.#wasRead(base + frameOffset, batch),
    }
  }

  #wasRead(position: number, batch: RecordBatch): void {
    if (!this.#known.has(position)) this.#noter?.note(position, batch, false)
  }

  #readNewNotes(): void {
    const notes = this.#notes
    const { head } = notes
    if (!notes.isThere(this.#seen)) this.#seen = notes.tail
    for (; this.#seen !== head; this.#seen = (this.#seen + 1) | 0) {
      const position = notes.positions[slotOf(this.#seen)]!
      this.#known.delete(position)
      this.#known.set(position, this.#seen)
    }
    for (const [position, sequence] of this.#known) {
      if (notes.isThere(sequence)) break
      this.#known.delete(position)
    }
  }

  /** As FrameTest.nextCandidateFrom, by positions; it looks at no note of a frame at `end` or behind it. */
  #nextCandidateFrom(position: number, end: number, grams: readonly Grams[], generation: number): number {
    const first = this.#known.get(position)
    if (first === undefined) return position
    const notes = this.#notes
    let at = position
    for (let sequence = first; !this.#mayHold(slotOf(sequence), grams);) {
      sequence = (sequence + 1) | 0
      const slot = slotOf(sequence)
      const isKnown = at < end && sequence !== this.#seen && notes.follows[slot] === 1 // G4
      at = isKnown ? notes.positions[slot]! : at + 1
      if (!isKnown || at >= end) break
    }
    return notes.generation === generation && notes.isThere(first) ? at : position // G1, G3
  }

  #mayHold(slot: number, grams: readonly Grams[]): boolean {
    const notes = this.#notes
    const at = notes.ats[slot]!
    const bitCount = notes.bitCounts[slot]!
    if (bitCount === 0) return true
    const shift = Math.clz32(bitCount) + 1
    const has = (gram: number): boolean => {
      const bit = gram >>> shift
      return (notes.bits[at + (bit >>> 5)]! & (1 << (bit & 31))) !== 0
    }
    return grams.some((each) => each.every(has))
  }
}

/** For a thread that notes for itself what it reads. */
export function ownFrameGrams(bitsBytes: number): FrameGrams {
  const handle = createFrameGrams(bitsBytes)
  return new FrameGrams(handle, new FrameNoter(handle))
}

/** @param text ASCII, in lower case */
function gramsOf(text: string): Grams {
  const grams: number[] = []
  for (const run of text.match(/[a-z0-9_]{4,}/g) ?? []) {
    const bytes = Buffer.from(run, 'latin1')
    for (let at = 0; at + GRAM_BYTES <= bytes.byteLength; at++) grams.push(gramHash(bytes.readInt32LE(at)))
  }
  return grams
}
