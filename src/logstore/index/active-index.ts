/**
 * Index of the segment that is being written: columns over one SharedArrayBuffer, one writer, many readers.
 *
 *   Int32 words   [0] entry count, [1] partition count, [2] partition name bytes used; stored only by the writer
 *   Float64       [2] earliest, [3] latest time of an entry; when [4] the last, [5] the first batch with an entry was received;
 *                 all in the same 64 bytes
 *   entry columns  id (4 words), trace id (4 words), time (high, low), frame offset, next entry of the same id and of the same
 *                  trace, bytes of the record, partition, record number, signal
 *   zone columns   for every `zoneEntries` entries in turn: earliest and latest time (high, low) and their partition, or ZONE_MIXED
 *   hash tables    id slots and trace slots, open addressing, entry + 1 (0: empty)
 *   names          partitions back to back: u16 tenant bytes, tenant, u16 dataset bytes, dataset (UTF-8)
 *
 * A partition is one (tenant, dataset) pair. Ids are held as big-endian words, so that comparing words as unsigned
 * numbers compares ids byte by byte.
 *
 * The entries of an id are one chain, newest first, and so are those of a trace id.
 *
 * A1  entries are appended in ingest order: (frame offset, record number) strictly increases
 * A2  an entry's columns are written before the count that includes it is stored: a reader that loaded the count sees whole entries
 * A3  slots may name entries beyond the count a reader loaded; a reader ignores those
 * A5  a zone's columns are written before the count that includes its last entry: a reader that loaded that count sees them
 */
import assert from 'node:assert/strict'
import { clearMemory } from '../../libc.ts'
import { NAME_BYTES_MAX, PARTITION_NAMES_BYTES, SEGMENT_ENTRIES_MAX, SEGMENT_PARTITIONS_MAX } from '../limits.ts'
import { isBefore } from '../time-words.ts'

const HEADER_WORDS = 16
const COUNT = 0
const PARTITION_COUNT = 1
const NAME_BYTES = 2
const EARLIEST = 2
const LATEST = 3
const RECEIVED_UNTIL = 4
const RECEIVED_FROM = 5
const WORD = 2 ** 32

const ZONE_ENTRIES = 256
/** In place of a partition: the zone has entries of several. */
const ZONE_MIXED = SEGMENT_PARTITIONS_MAX

export interface ActiveIndexHandle {
  readonly shared: SharedArrayBuffer
  readonly capacity: number
  readonly zoneEntries: number
}

const slotCount = (capacity: number): number => {
  let slots = 16
  while (slots < capacity * 2) slots *= 2
  return slots
}

export class ActiveIndex {
  readonly shared: SharedArrayBuffer
  readonly capacity: number
  readonly idWords: Uint32Array
  readonly traceWords: Uint32Array
  readonly timeHigh: Uint32Array
  readonly timeLow: Uint32Array
  readonly frameOffset: Uint32Array
  /** The length of the record itself, as it stands in its batch. */
  readonly recordBytes: Uint32Array
  readonly partition: Uint16Array
  readonly recordNumber: Uint16Array
  /** SIGNAL_… of batch-frame.ts. */
  readonly signal: Uint8Array
  readonly zoneEntries: number
  readonly zoneEarliestHigh: Uint32Array
  readonly zoneEarliestLow: Uint32Array
  readonly zoneLatestHigh: Uint32Array
  readonly zoneLatestLow: Uint32Array
  readonly zonePartition: Uint32Array
  readonly #header: Int32Array
  readonly #times: Float64Array
  #earliest: number
  #latest: number
  readonly #idNext: Uint32Array
  readonly #traceNext: Uint32Array
  readonly #idSlots: Uint32Array
  readonly #traceSlots: Uint32Array
  readonly #slotMask: number
  readonly #names: Buffer
  /** The writer's count; runs ahead of the published one inside a batch. */
  #appended: number
  readonly #partitionNumbers = new Map<string, number>()
  #partitionsRead = 0
  #namesRead = 0

  /** Bytes of shared memory that an index of `capacity` entries takes; untouched pages cost nothing. */
  static bytesFor(capacity: number, zoneEntries: number): number {
    return (
      HEADER_WORDS * 4 +
      capacity * (16 + 16 + 4 + 4 + 4 + 4 + 4 + 4 + 2 + 2 + 1) +
      Math.floor(capacity / zoneEntries) * 5 * 4 +
      slotCount(capacity) * 8 +
      namesBytes(capacity)
    )
  }

  static create(capacity: number = SEGMENT_ENTRIES_MAX, zoneEntries: number = ZONE_ENTRIES): ActiveIndex {
    assert(capacity > 0 && capacity % 8 === 0)
    const shared = new SharedArrayBuffer(ActiveIndex.bytesFor(capacity, zoneEntries))
    return new ActiveIndex({ shared, capacity, zoneEntries })
  }

  static attach(handle: ActiveIndexHandle): ActiveIndex {
    return new ActiveIndex(handle)
  }

  private constructor({ shared, capacity, zoneEntries }: ActiveIndexHandle) {
    this.shared = shared
    this.capacity = capacity
    this.zoneEntries = zoneEntries
    let at = 0
    const take = (bytes: number): number => (at += bytes) - bytes
    this.#header = new Int32Array(shared, take(HEADER_WORDS * 4), HEADER_WORDS)
    this.#times = new Float64Array(shared, 0, HEADER_WORDS / 2)
    this.idWords = new Uint32Array(shared, take(capacity * 16), capacity * 4)
    this.traceWords = new Uint32Array(shared, take(capacity * 16), capacity * 4)
    this.timeHigh = new Uint32Array(shared, take(capacity * 4), capacity)
    this.timeLow = new Uint32Array(shared, take(capacity * 4), capacity)
    this.frameOffset = new Uint32Array(shared, take(capacity * 4), capacity)
    this.#idNext = new Uint32Array(shared, take(capacity * 4), capacity)
    this.#traceNext = new Uint32Array(shared, take(capacity * 4), capacity)
    this.recordBytes = new Uint32Array(shared, take(capacity * 4), capacity)
    this.partition = new Uint16Array(shared, take(capacity * 2), capacity)
    this.recordNumber = new Uint16Array(shared, take(capacity * 2), capacity)
    this.signal = new Uint8Array(shared, take(capacity), capacity)
    const zones = Math.floor(capacity / zoneEntries)
    this.zoneEarliestHigh = new Uint32Array(shared, take(zones * 4), zones)
    this.zoneEarliestLow = new Uint32Array(shared, take(zones * 4), zones)
    this.zoneLatestHigh = new Uint32Array(shared, take(zones * 4), zones)
    this.zoneLatestLow = new Uint32Array(shared, take(zones * 4), zones)
    this.zonePartition = new Uint32Array(shared, take(zones * 4), zones)
    const slots = slotCount(capacity)
    this.#slotMask = slots - 1
    this.#idSlots = new Uint32Array(shared, take(slots * 4), slots)
    this.#traceSlots = new Uint32Array(shared, take(slots * 4), slots)
    this.#names = Buffer.from(shared, take(namesBytes(capacity)), namesBytes(capacity))
    this.#appended = this.count
    this.#earliest = this.#appended > 0 ? this.#times[EARLIEST]! : Infinity
    this.#latest = this.#appended > 0 ? this.#times[LATEST]! : -Infinity
  }

  get handle(): ActiveIndexHandle {
    return { shared: this.shared, capacity: this.capacity, zoneEntries: this.zoneEntries }
  }

  /** Published entries (A2). */
  get count(): number {
    return Atomics.load(this.#header, COUNT)
  }

  get partitionCount(): number {
    return Atomics.load(this.#header, PARTITION_COUNT)
  }

  /** Whether an entry can have a time in [from, to]; nanoseconds as doubles, which keep the order of u64. Writer only. */
  mayHoldTimes(from: number, to: number): boolean {
    return this.#earliest <= to && this.#latest >= from
  }

  /** Earliest and latest time of the published entries; nanoseconds as doubles. Meaningless without entries. */
  get earliest(): number {
    return this.#times[EARLIEST]!
  }

  get latest(): number {
    return this.#times[LATEST]!
  }

  /** When the first of the batches with published entries was received, ns since the Unix epoch as a double; 0: there is none. */
  get receivedFrom(): number {
    return this.#times[RECEIVED_FROM]!
  }

  /** Likewise for the last batch. */
  get receivedUntil(): number {
    return this.#times[RECEIVED_UNTIL]!
  }

  /** How many of the published entries lie in frames that begin before `frameOffset` bytes into the segment (A1). */
  countBefore(frameOffset: number): number {
    let low = 0
    let high = this.count
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.frameOffset[middle]! < frameOffset) low = middle + 1
      else high = middle
    }
    return low
  }

  /**
   * Newest entry of this id, or -1; follow with `olderOfId` (A3: readers skip entries beyond their count). Also finds entries that are appended
   * but not published yet.
   */
  newestOfId(w0: number, w1: number, w2: number, w3: number): number {
    return this.#idSlots[this.#idSlot(w0, w1, w2, w3)]! - 1
  }

  /** Next older entry of the same id, or -1. */
  olderOfId(entry: number): number {
    return this.#idNext[entry]! - 1
  }

  /** How many entries there are, those that are not published yet included. Writer only. */
  get appended(): number {
    return this.#appended
  }

  /** Newest entry of this trace id, or -1; follow with `olderOfTrace` (A3: skip entries beyond your count). */
  newestOfTrace(w0: number, w1: number, w2: number, w3: number): number {
    return this.#traceSlots[this.#traceSlot(w0, w1, w2, w3)]! - 1
  }

  /** Next older entry of the same trace, or -1. */
  olderOfTrace(entry: number): number {
    return this.#traceNext[entry]! - 1
  }

  /** True when `records` more entries and `partitions` more new partitions are sure to fit. */
  hasRoom(records: number, partitions: number): boolean {
    return (
      this.#appended + records <= this.capacity &&
      this.partitionCount + partitions <= SEGMENT_PARTITIONS_MAX &&
      this.#header[NAME_BYTES]! + partitions * PARTITION_NAME_BYTES_MAX <= this.#names.byteLength
    )
  }

  /** Number of the partition, added when new. Writer only; room was checked with `hasRoom`. */
  partitionOf(tenant: string, dataset: string): number {
    this.#readPartitions()
    const key = partitionKey(tenant, dataset)
    const known = this.#partitionNumbers.get(key)
    if (known !== undefined) return known
    const number = this.#partitionsRead
    let at = this.#namesRead
    for (const name of [tenant, dataset]) {
      const bytes = this.#names.write(name, at + 2)
      this.#names.writeUInt16LE(bytes, at)
      at += 2 + bytes
    }
    assert(number < SEGMENT_PARTITIONS_MAX)
    this.#partitionNumbers.set(key, number)
    this.#partitionsRead = number + 1
    this.#namesRead = at
    Atomics.store(this.#header, NAME_BYTES, at)
    Atomics.store(this.#header, PARTITION_COUNT, number + 1)
    return number
  }

  /** Number of the partition, or -1 when this segment holds nothing of it. */
  findPartition(tenant: string, dataset: string): number {
    this.#readPartitions()
    return this.#partitionNumbers.get(partitionKey(tenant, dataset)) ?? -1
  }

  /** All partitions in order of their numbers. */
  partitions(): { tenant: string; dataset: string }[] {
    this.#readPartitions()
    return Array.from(this.#partitionNumbers.keys(), (key) => {
      const [tenant, dataset] = JSON.parse(key) as [string, string] // the key is written by partitionKey
      return { tenant, dataset }
    })
  }

  /** Appends one entry; visible to readers after `publish`. The caller checked that there is room. */
  append(
    ids: Uint32Array,
    idAt: number,
    traces: Uint32Array,
    traceAt: number,
    timeHigh: number,
    timeLow: number,
    frameOffset: number,
    recordNumber: number,
    partition: number,
    recordBytes: number,
    signal: number,
  ): void {
    const entry = this.#appended
    const to = entry * 4
    const idWords = this.idWords
    idWords[to] = ids[idAt]!
    idWords[to + 1] = ids[idAt + 1]!
    idWords[to + 2] = ids[idAt + 2]!
    idWords[to + 3] = ids[idAt + 3]!
    const time = timeHigh * WORD + timeLow
    if (time < this.#earliest) this.#earliest = time
    if (time > this.#latest) this.#latest = time
    this.timeHigh[entry] = timeHigh
    this.timeLow[entry] = timeLow
    this.frameOffset[entry] = frameOffset
    this.recordNumber[entry] = recordNumber
    this.partition[entry] = partition
    this.recordBytes[entry] = recordBytes
    this.signal[entry] = signal
    const idSlot = this.#idSlot(ids[idAt]!, ids[idAt + 1]!, ids[idAt + 2]!, ids[idAt + 3]!)
    this.#idNext[entry] = this.#idSlots[idSlot]!
    this.#idSlots[idSlot] = entry + 1
    const t0 = traces[traceAt]!
    const t1 = traces[traceAt + 1]!
    const t2 = traces[traceAt + 2]!
    const t3 = traces[traceAt + 3]!
    if ((t0 | t1 | t2 | t3) !== 0) {
      const traceWords = this.traceWords
      traceWords[to] = t0
      traceWords[to + 1] = t1
      traceWords[to + 2] = t2
      traceWords[to + 3] = t3
      const traceSlot = this.#traceSlot(t0, t1, t2, t3)
      this.#traceNext[entry] = this.#traceSlots[traceSlot]!
      this.#traceSlots[traceSlot] = entry + 1
    }
    this.#appended = entry + 1
  }

  /** Makes everything appended so far visible (A2, A5). @param receivedHigh, receivedLow when the batch was received, ns since the Unix epoch */
  publish(receivedHigh: number, receivedLow: number): void {
    this.#times[EARLIEST] = this.#earliest
    this.#times[LATEST] = this.#latest
    if (this.#appended > this.count) {
      const received = receivedHigh * WORD + receivedLow
      if (this.receivedFrom === 0) this.#times[RECEIVED_FROM] = received
      this.#times[RECEIVED_UNTIL] = Math.max(this.receivedUntil, received)
    }
    const whole = Math.floor(this.#appended / this.zoneEntries)
    for (let zone = Math.floor(this.count / this.zoneEntries); zone < whole; zone++) this.#describeZone(zone)
    Atomics.store(this.#header, COUNT, this.#appended)
  }

  /** Empties the index, and gives its memory back to the system. No reader may hold it any more. Writer only. */
  reset(): void {
    clearMemory(Buffer.from(this.shared))
    this.#partitionNumbers.clear()
    this.#partitionsRead = 0
    this.#namesRead = 0
    this.#appended = 0
    this.#earliest = Infinity
    this.#latest = -Infinity
  }

  #describeZone(zone: number): void {
    const { timeHigh, timeLow, partition } = this
    const first = zone * this.zoneEntries
    let earliest = first
    let latest = first
    let partitionOfAll = partition[first]!
    for (let entry = first + 1; entry < first + this.zoneEntries; entry++) {
      const high = timeHigh[entry]!
      const low = timeLow[entry]!
      if (isBefore(high, low, timeHigh[earliest]!, timeLow[earliest]!)) earliest = entry
      else if (isBefore(timeHigh[latest]!, timeLow[latest]!, high, low)) latest = entry
      if (partition[entry] !== partitionOfAll) partitionOfAll = ZONE_MIXED
    }
    this.zoneEarliestHigh[zone] = timeHigh[earliest]!
    this.zoneEarliestLow[zone] = timeLow[earliest]!
    this.zoneLatestHigh[zone] = timeHigh[latest]!
    this.zoneLatestLow[zone] = timeLow[latest]!
    this.zonePartition[zone] = partitionOfAll
  }

  /** Slot of the id's chain: the one that holds it, or the empty one where it belongs. */
  #idSlot(w0: number, w1: number, w2: number, w3: number): number {
    const ids = this.idWords
    let slot = w0 & this.#slotMask
    for (;;) {
      const entry = this.#idSlots[slot]! - 1
      if (entry < 0) return slot
      const at = entry * 4
      if (ids[at] === w0 && ids[at + 1] === w1 && ids[at + 2] === w2 && ids[at + 3] === w3) return slot
      slot = (slot + 1) & this.#slotMask
    }
  }

  /** Slot of the trace's chain: the one that holds it, or the empty one where it belongs. */
  #traceSlot(w0: number, w1: number, w2: number, w3: number): number {
    const words = this.traceWords
    let hash = Math.imul(w0 ^ Math.imul(w1, 0x9e3779b1), 0x85ebca77)
    hash = Math.imul(hash ^ (hash >>> 15) ^ w2, 0xc2b2ae3d)
    hash = Math.imul(hash ^ (hash >>> 13) ^ w3, 0x27d4eb2f)
    let slot = (hash ^ (hash >>> 16)) & this.#slotMask
    for (;;) {
      const entry = this.#traceSlots[slot]! - 1
      if (entry < 0) return slot
      const at = entry * 4
      if (words[at] === w0 && words[at + 1] === w1 && words[at + 2] === w2 && words[at + 3] === w3) return slot
      slot = (slot + 1) & this.#slotMask
    }
  }

  #readPartitions(): void {
    const count = this.partitionCount
    while (this.#partitionsRead < count) {
      const names: string[] = []
      for (let i = 0; i < 2; i++) {
        const bytes = this.#names.readUInt16LE(this.#namesRead)
        names.push(this.#names.toString('utf8', this.#namesRead + 2, this.#namesRead + 2 + bytes))
        this.#namesRead += 2 + bytes
      }
      this.#partitionNumbers.set(partitionKey(names[0]!, names[1]!), this.#partitionsRead++)
    }
  }
}

/** A partition's names with their length fields. */
const PARTITION_NAME_BYTES_MAX = 2 * (2 + NAME_BYTES_MAX)

/** There are at most as many partitions as entries. */
const namesBytes = (capacity: number): number => Math.min(PARTITION_NAMES_BYTES, capacity * PARTITION_NAME_BYTES_MAX)

const partitionKey = (tenant: string, dataset: string): string => JSON.stringify([tenant, dataset])
