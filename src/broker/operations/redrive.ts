/**
 * Puts dead letters back: the records are appended again to the streams that the headers of their copies name.
 *
 * D1  a copy is used once: the frame that brings its record back also marks the copy. A repeated request, even after a crash, is told that the
 *     copy was used. If the record that came back is damaged later, the copy can be used again
 * D2  a request looks at REDRIVE_RECORDS_MAX copies at most, and brings back at most REDRIVE_BYTES_MAX, or one record
 */
import { frameBytes } from '../../../native-free-codecs/frame.ts'
import { LATER, replied } from '../../engine/decision.ts'
import type { Decision, NewFrame } from '../../engine/decision.ts'
import { FRAME_REDRIVE, encodeRedrive, redrivenOf } from '../frames.ts'
import type { Change } from '../frames/change.ts'
import { REDRIVE_BYTES_MAX, REDRIVE_RECORDS_DEFAULT } from '../limits.ts'
import type { Caller } from '../operations.ts'
import { BrokerError, refuse } from '../refusals.ts'
import type { RawRecord } from '../records/record-reads.ts'
import type { RedriveReply } from '../wire/record-answers.ts'
import type { RedriveBody } from '../wire/requests.ts'
import type { Core } from '../engine/core.ts'
import { AUDIT_STREAM } from '../state/state.ts'
import type { StreamState } from '../state/state.ts'

type Result = RedriveReply['results'][number]

/** The copies that a request asks for, as far as they could be read. */
interface Copies {
  readonly offsets: readonly number[]
  /** By offset; without those that cannot be read. */
  readonly records: ReadonlyMap<number, RawRecord>
  readonly nextOffset: number
  readonly isEnd: boolean
}

/** Records that go back to one stream. */
interface Load {
  readonly stream: StreamState
  readonly offsets: number[]
  readonly records: Buffer[]
}

export class Redriving {
  readonly #core: Core

  constructor(core: Core) {
    this.#core = core
  }

  redrive(caller: Caller, name: string, body: RedriveBody): Decision<RedriveReply, Change> {
    const core = this.#core
    if (name === AUDIT_STREAM) return refuse('write_not_allowed', `${AUDIT_STREAM} has no dead letters`)
    const stream = core.stream(caller, name, 'stream_not_found')
    if (stream instanceof Error) return stream
    if (stream.acknowledgedNext > stream.visibleNext) return LATER
    return {
      kind: 'read',
      read: async () => {
        await core.readable(stream)
        const copies = await this.#read(stream, body)
        return () =>
          core.isCurrent(stream) ? this.#decide(caller, stream, body, copies) : this.redrive(caller, name, body)
      },
    }
  }

  async #read(stream: StreamState, body: RedriveBody): Promise<Copies> {
    if (body.offsets) {
      const offsets = Array.from(new Set(body.offsets)).toSorted((a, b) => a - b)
      const end = offsets.at(-1)! + 1
      return this.#readAll(stream, { offsets, nextOffset: end, isEnd: end >= stream.visibleNext })
    }
    const max = body.max_records ?? REDRIVE_RECORDS_DEFAULT
    const end = stream.visibleNext
    const offsets: number[] = []
    const mayBeLost = this.#core.state.streams.some((each) => each !== undefined && each.holes.size > 0) // computed once, as there may be many streams
    let at = Math.max(stream.floor, body.start_offset ?? 0)
    const behindUsed = (): number => Math.max(at, Math.min(this.#nextUnused(stream, at, mayBeLost), end))
    for (at = behindUsed(); at < end && offsets.length < max; at = behindUsed()) {
      offsets.push(at)
      at += 1
    }
    return this.#readAll(stream, { offsets, nextOffset: at, isEnd: at >= end })
  }

  /** D2. Reads adjacent copies together, up to the bound; the rest is left for the next request. */
  async #readAll(stream: StreamState, copies: Omit<Copies, 'records'>): Promise<Copies> {
    const { offsets } = copies
    const records = new Map<number, RawRecord>()
    let bytes = 0
    let i = 0
    while (i < offsets.length && bytes < this.#bytesMax) {
      const from = offsets[i]!
      let count = 1
      while (offsets[i + count] === from + count) count += 1
      const read = await this.#core.reads.rawRecords(stream.index, from, from + count, count)
      this.#core.reportUnreadable(stream, read.unreadable)
      for (const record of read.records) {
        records.set(record.offset, record)
        bytes += record.bytes.byteLength
      }
      const withheld = read.unreadable.find(({ cause }) => cause === 'withheld')?.offset ?? from + count
      i += Math.max(1, withheld - from)
    }
    if (i === offsets.length) return { ...copies, records }
    return { offsets: offsets.slice(0, i), records, nextOffset: offsets[i]!, isEnd: false }
  }

  /** All frames of one request are in the log's memory at the same time. */
  get #bytesMax(): number {
    return Math.min(REDRIVE_BYTES_MAX, this.#core.appender.payloadBytesMax / 2)
  }

  #decide(caller: Caller, stream: StreamState, body: RedriveBody, copies: Copies): Decision<RedriveReply, Change> {
    const core = this.#core
    const loads = new Map<string, Load>()
    const results: Result[] = []
    let bytes = 0
    let left: number | null = null
    for (const offset of copies.offsets) {
      const judged = this.#judge(caller, stream, offset, copies)
      if (judged instanceof BrokerError) {
        results.push({ dead_letter_offset: offset, error: judged.detail })
        continue
      }
      const more = frameBytes(judged.record.byteLength)
      if (left !== null || (bytes > 0 && bytes + more > this.#bytesMax)) {
        left ??= offset
        continue
      }
      bytes += more
      const load = loadFor(loads, judged.source)
      const result = {
        dead_letter_offset: offset,
        stream: judged.source.name,
        offset: judged.source.nextOffset + load.offsets.length,
      }
      load.offsets.push(offset)
      load.records.push(judged.record)
      results.push(result)
    }
    const count = Array.from(loads.values()).reduce((sum, { offsets }) => sum + offsets.length, 0)
    const reply: RedriveReply = {
      api_version: 'v1',
      stream: stream.name,
      redriven_count: count,
      results: left === null ? results : results.filter(({ dead_letter_offset }) => dead_letter_offset < left),
      next_offset: left ?? copies.nextOffset,
      end_of_stream: left === null && copies.isEnd,
      acknowledgement: core.acknowledgement,
    }
    if (count === 0) return replied(reply)
    const { nextOffset: auditOffset, before } = core.auditOf(caller.tenant)
    const frames: NewFrame<Change>[] = []
    for (const load of loads.values()) {
      const frame = this.#frameOf(caller, stream, load, body.reason ?? null, auditOffset + frames.length)
      if (frame instanceof Error) return frame
      frames.push(frame)
    }
    const last = frames.pop()!
    return { kind: 'change', before: [...before, ...frames], frame: last, reply: () => reply }
  }

  /** D1 */
  #judge(
    caller: Caller,
    from: StreamState,
    offset: number,
    { records }: Copies,
  ): { readonly source: StreamState; readonly record: Buffer } | BrokerError {
    if (offset < from.floor || offset >= from.visibleNext) {
      return refuse('not_found', 'the stream has no record at this offset', { action: 'Read the stream.' })
    }
    if (from.redriven.has(offset) && !this.#isLost(from, offset))
      return refuse('write_not_allowed', 'the dead letter was put back before', USED)
    const copy = records.get(offset)
    if (copy === undefined) {
      const isLost = from.holes.has(offset)
      const message = isLost
        ? 'the record is damaged: see the quarantine incidents'
        : 'the record cannot be read at present'
      return refuse('internal_error', message, { retryable: !isLost })
    }
    const redriven = redrivenOf(copy.bytes)
    if (redriven === null) return refuse('invalid_request', 'the record is no dead letter: its headers name no source')
    const source = this.#core.state.stream(caller.tenant, redriven.source)
    if (source === undefined || source.name === AUDIT_STREAM) {
      return refuse('stream_not_found', 'the stream that the dead letter is from does not exist')
    }
    if (frameBytes(redriven.record.byteLength) > 0.75 * this.#core.appender.payloadBytesMax) {
      return refuse('payload_too_large', 'the record is longer than what the log takes now')
    }
    return { source, record: redriven.record }
  }

  /**
   * The first offset from `at` on whose copy can be used (D1).
   *
   * @param mayBeLost true when some stream has damaged records
   */
  #nextUnused({ redriven, holes }: StreamState, at: number, mayBeLost: boolean): number {
    for (let next = at; ;) {
      const unused = redriven.firstGap(next)
      const usable = mayBeLost ? redriven.firstLost(next, unused, this.#nextLost) : unused
      const found = holes.firstGap(usable)
      if (found === usable) return found
      next = found
    }
  }

  /** D1: true when the record that was made of a copy is damaged. */
  #isLost({ redriven }: StreamState, copy: number): boolean {
    const place = redriven.placeOf(copy)
    return place !== null && this.#nextLost(place.streamNumber, place.offset, place.offset + 1) === place.offset
  }

  /** Records that retention removed do not count as lost. */
  readonly #nextLost = (streamNumber: number, from: number, to: number): number => {
    const stream = this.#core.state.streams[streamNumber]
    if (stream === undefined) return to
    return Math.min(to, stream.holes.nextCovered(Math.max(from, stream.floor)))
  }

  #frameOf(
    { tenant, principal }: Caller,
    from: StreamState,
    { stream, offsets, records }: Load,
    reason: string | null,
    auditOffset: number,
  ): NewFrame<Change> | BrokerError {
    const core = this.#core
    const firstOffset = stream.nextOffset
    const payload = encodeRedrive({
      streamNumber: stream.number,
      firstOffset,
      ingestTimeMs: core.time.wallMs(),
      fromNumber: from.number,
      auditOffset,
      tenant,
      principal,
      stream: stream.name,
      dead_letter_stream: from.name,
      reason,
      offsets,
      records,
    })
    if (payload.byteLength > core.appender.payloadBytesMax) {
      return refuse('payload_too_large', 'the dead letters are too large for one request: ask for fewer at a time')
    }
    return {
      type: FRAME_REDRIVE,
      payloadBytes: payload.byteLength,
      encode: (target, at) => void payload.copy(target, at),
      purpose: 'admit',
      durability: core.localDisk,
      onStored: () => {
        core.makeVisible(stream, firstOffset + records.length)
        core.showEvent(tenant, auditOffset)
        core.counters.redriven(records.length)
      },
    }
  }
}

const USED = { action: 'Leave it out: its record is in its source again.' }

function loadFor(loads: Map<string, Load>, stream: StreamState): Load {
  const load = loads.get(stream.name) ?? { stream, offsets: [], records: [] }
  loads.set(stream.name, load)
  return load
}
