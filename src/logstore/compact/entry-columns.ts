/** What an index says of the entries of a segment, in columns: taken by compaction, which looks nothing up. */
import type { EntrySink } from '../index/index-frame.ts'

const ENTRIES_AT_FIRST = 1 << 16

export class EntryColumns implements EntrySink {
  count = 0
  /** When the last batch was received, ns since the Unix epoch. */
  receivedUntil = 0
  /** Four words an entry; of the trace zeros where it has none. */
  idWords = new Uint32Array(4 * ENTRIES_AT_FIRST)
  traceWords = new Uint32Array(4 * ENTRIES_AT_FIRST)
  timeHigh = new Uint32Array(ENTRIES_AT_FIRST)
  timeLow = new Uint32Array(ENTRIES_AT_FIRST)
  frameOffset = new Uint32Array(ENTRIES_AT_FIRST)
  recordNumber = new Uint16Array(ENTRIES_AT_FIRST)
  partition = new Uint16Array(ENTRIES_AT_FIRST)
  signal = new Uint8Array(ENTRIES_AT_FIRST)
  readonly #partitions: { readonly tenant: string; readonly dataset: string }[] = []
  readonly #numbers = new Map<string, number>()
  #published = 0

  get partitionCount(): number {
    return this.#partitions.length
  }

  /** In order of their numbers. */
  partitions(): readonly { readonly tenant: string; readonly dataset: string }[] {
    return this.#partitions
  }

  partitionOf(tenant: string, dataset: string): number {
    const key = JSON.stringify([tenant, dataset])
    const known = this.#numbers.get(key)
    if (known !== undefined) return known
    this.#numbers.set(key, this.#partitions.length)
    return this.#partitions.push({ tenant, dataset }) - 1
  }

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
    _recordBytes: number,
    signal: number,
  ): void {
    if (this.count === this.timeHigh.length) this.#grow()
    const entry = this.count++
    for (let word = 0; word < 4; word++) {
      this.idWords[4 * entry + word] = ids[idAt + word]!
      this.traceWords[4 * entry + word] = traces[traceAt + word]!
    }
    this.timeHigh[entry] = timeHigh
    this.timeLow[entry] = timeLow
    this.frameOffset[entry] = frameOffset
    this.recordNumber[entry] = recordNumber
    this.partition[entry] = partition
    this.signal[entry] = signal
  }

  publish(receivedHigh: number, receivedLow: number): void {
    if (this.count === this.#published) return
    this.#published = this.count
    this.receivedUntil = Math.max(this.receivedUntil, receivedHigh * 2 ** 32 + receivedLow)
  }

  #grow(): void {
    this.idWords = longer(this.idWords, Uint32Array)
    this.traceWords = longer(this.traceWords, Uint32Array)
    this.timeHigh = longer(this.timeHigh, Uint32Array)
    this.timeLow = longer(this.timeLow, Uint32Array)
    this.frameOffset = longer(this.frameOffset, Uint32Array)
    this.recordNumber = longer(this.recordNumber, Uint16Array)
    this.partition = longer(this.partition, Uint16Array)
    this.signal = longer(this.signal, Uint8Array)
  }
}

function longer<Column extends Uint32Array | Uint16Array | Uint8Array>(
  column: Column,
  make: new (length: number) => Column,
): Column {
  const twice = new make(2 * column.length)
  twice.set(column)
  return twice
}
