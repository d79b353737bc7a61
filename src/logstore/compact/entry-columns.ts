/** The entries of a segment in columns, for compaction. There are no hash tables as in ActiveIndex, as compaction looks nothing up. */
import assert from 'node:assert/strict'
import { freeMemory } from '../../free-memory.ts'
import type { EntrySink } from '../index/index-frame.ts'

const BYTES_OF_ENTRY = 4 * 4 + 4 * 4 + 3 * 4 + 2 * 2 + 1

export class EntryColumns implements EntrySink {
  count = 0
  /** When the last batch was received, ns since the Unix epoch. */
  receivedUntil = 0
  /** Four words an entry; zeros in `traceWords`: it has no trace. */
  readonly idWords: Uint32Array
  readonly traceWords: Uint32Array
  readonly timeHigh: Uint32Array
  readonly timeLow: Uint32Array
  readonly frameOffset: Uint32Array
  readonly recordNumber: Uint16Array
  readonly partition: Uint16Array
  readonly signal: Uint8Array
  readonly #memory: ArrayBuffer
  readonly #partitions: { readonly tenant: string; readonly dataset: string }[] = []
  readonly #numbers = new Map<string, number>()
  #published = 0

  /** @param capacity most entries; pages that no entry touches take no memory */
  constructor(capacity: number) {
    const memory = new ArrayBuffer(capacity * BYTES_OF_ENTRY)
    let at = 0
    const take = (bytes: number): number => (at += bytes) - bytes
    this.#memory = memory
    this.idWords = new Uint32Array(memory, take(16 * capacity), 4 * capacity)
    this.traceWords = new Uint32Array(memory, take(16 * capacity), 4 * capacity)
    this.timeHigh = new Uint32Array(memory, take(4 * capacity), capacity)
    this.timeLow = new Uint32Array(memory, take(4 * capacity), capacity)
    this.frameOffset = new Uint32Array(memory, take(4 * capacity), capacity)
    this.recordNumber = new Uint16Array(memory, take(2 * capacity), capacity)
    this.partition = new Uint16Array(memory, take(2 * capacity), capacity)
    this.signal = new Uint8Array(memory, take(capacity), capacity)
  }

  /** Its columns are empty from then on. */
  free(): void {
    freeMemory(new Uint8Array(this.#memory))
  }

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
    assert(this.count < this.timeHigh.length)
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
}
