/**
 * The records of a stream by their offsets, loaded in blocks when their rows come into sight.
 *
 * B1 [whole]        large payloads fill an answer before its block ends: then the rest is asked for
 * B2 [asked-again]  what could not be loaded is asked for again as long as it is in sight
 * B3 [in-sight]     requests for rows that are out of sight are aborted: others would wait behind them
 * B4 [bounded]      BLOCKS_KEPT blocks are kept, each with no more of its payloads than rows show
 */
import { useEffect, useState } from 'preact/hooks'
import { RETRY_MS } from '../loading.ts'
import { asRefusal } from '../request.ts'
import type { Refusal } from '../request.ts'
import { replay } from './api.ts'
import type { Stream, StreamRecord } from './api.ts'

const BLOCK = 100
/** Payloads of one answer. */
const PAYLOAD_BYTES_MAX = 1024 * 1024
/** B4 */
const BLOCKS_KEPT = 50
/** B4. In hexadecimal digits. */
const PREVIEW = 400

/** What a row shows of a record. */
export interface ListedRecord {
  readonly offset: number
  readonly ingestMs: number
  readonly keyHex: string | null
  /** The beginning of the payload. */
  readonly payloadHex: string
  readonly payloadBytes: number
}

interface Block {
  readonly records: Map<number, ListedRecord>
  /** The first offset that is not loaded yet. */
  next: number
}

export class RecordBlocks {
  #stream: Stream
  readonly #onChange: () => void
  /** Blocks by their numbers. */
  readonly #blocks = new Map<number, Block>()
  readonly #loads = new Map<number, AbortController>()
  readonly #problems = new Map<number, Refusal>()
  /** The first and the last offset in sight. */
  #sight: readonly [number, number] = [0, 0]
  #retry = 0

  constructor(stream: Stream, onChange: () => void) {
    this.#stream = stream
    this.#onChange = onChange
  }

  /** Why something in sight could not be loaded. */
  get problem(): Refusal | null {
    return this.#problems.values().next().value ?? null
  }

  /** undefined: not loaded yet; null: there is none any more. */
  recordAt(offset: number): ListedRecord | null | undefined {
    const block = this.#blocks.get(numberOf(offset))
    return block && offset < block.next ? (block.records.get(offset) ?? null) : undefined
  }

  /** Notes what is in sight now, and loads it. */
  look(stream: Stream, from: number, to: number): void {
    this.#stream = stream
    this.#sight = [Math.min(from, to), Math.max(from, to)]
    this.#loadMissing()
  }

  close(): void {
    clearTimeout(this.#retry)
    for (const load of this.#loads.values()) load.abort()
  }

  #loadMissing(): void {
    const [low, high] = this.#sight.map(numberOf) as [number, number] // as many as there were
    const isOutOfSight = (number: number): boolean => number < low || number > high
    for (const [number, load] of this.#loads) if (isOutOfSight(number)) load.abort() // B3
    for (const number of this.#problems.keys()) if (isOutOfSight(number)) this.#problems.delete(number)
    for (const number of this.#blocks.keys()) {
      if (this.#blocks.size > BLOCKS_KEPT && isOutOfSight(number)) this.#blocks.delete(number) // B4
    }
    for (let number = low; number <= high; number++) {
      const isOnItsWay = this.#loads.get(number)?.signal.aborted === false
      if (!isOnItsWay) void this.#load(number)
    }
  }

  async #load(number: number): Promise<void> {
    const { stream, first_offset: first, next_offset: end } = this.#stream
    const upTo = Math.min(end, (number + 1) * BLOCK)
    const known = this.#blocks.get(number)
    let start = known?.next ?? Math.max(first, number * BLOCK)
    if (start >= upTo) return
    const block = known ?? { records: new Map<number, ListedRecord>(), next: start }
    const leaving = new AbortController()
    this.#loads.set(number, leaving)
    try {
      while (start < upTo) {
        const from = { start_offset: start, max_payload_bytes: PAYLOAD_BYTES_MAX }
        const page = await replay(stream, from, upTo - start, leaving.signal)
        if (leaving.signal.aborted) return
        for (const record of page.records) block.records.set(record.offset, listed(record))
        start = page.next_offset > start ? page.next_offset : upTo // B1
        block.next = Math.min(start, upTo)
        this.#blocks.set(number, block)
        this.#onChange()
      }
      this.#problems.delete(number)
    } catch (error) {
      if (leaving.signal.aborted) return
      this.#problems.set(number, asRefusal(error))
      this.#againLater()
    } finally {
      if (this.#loads.get(number) === leaving) this.#loads.delete(number)
    }
    this.#onChange()
  }

  /** B2 */
  #againLater(): void {
    clearTimeout(this.#retry)
    this.#retry = setTimeout(() => this.#loadMissing(), RETRY_MS)
  }
}

const numberOf = (offset: number): number => Math.floor(offset / BLOCK)

function listed(record: StreamRecord): ListedRecord {
  const { offset, ingest_time_ms: ingestMs, key_hex: keyHex, payload_hex: payload } = record
  return { offset, ingestMs, keyHex, payloadHex: copyOf(payload, PREVIEW), payloadBytes: payload.length / 2 }
}

/** A slice of a string would hold the whole string in memory. */
const copyOf = (text: string, length: number): string =>
  text.length > length ? Array.from(text.slice(0, length)).join('') : text

export function useBlocks(stream: Stream): RecordBlocks {
  const [, renew] = useState(0)
  const [blocks] = useState(() => new RecordBlocks(stream, () => renew((count) => count + 1)))
  useEffect(() => () => blocks.close(), [])
  return blocks
}
