/**
 * Does the broker have what it acknowledged?
 *
 * publish: everything the run sent is replayed, stream by stream, from the lowest offset that was acknowledged.
 * V1  each acknowledged record is at its offset, with its message id and its payload
 * V2  no record of the run is there a second time, or without having been sent (one without a clear answer may be there or not)
 * V3  offsets have no gaps
 *
 * cycle: the group's own count of what is finished grew by what was acknowledged. A record given to two workers that both
 * could acknowledge it would be counted once, so that the sum is too small. Holds when no other client uses the group.
 */
import { Problems } from '../verification.ts'
import { UnreadableAnswerError } from '../workload.ts'
import type { Verification } from '../workload.ts'
import type { AcknowledgedRecords } from './acknowledged-records.ts'
import type { CycleTotals } from './cycle-source.ts'
import { groupPath, messageId, recordOfMessageId, streamName, streamPath } from './names.ts'
import type { Requests } from './requests.ts'

const PAGE_RECORDS = 1000

export interface SentRecords {
  /** Records below this number were sent. */
  readonly count: number
  readonly streamOf: (record: number) => number
  readonly messageIdPrefix: string
  readonly payload: string
  readonly acknowledged: AcknowledgedRecords
}

interface ReplayedRecord {
  readonly offset: number
  readonly message_id: string
  readonly payload_hex: string
}

export async function verifyPublished(requests: Requests, sent: SentRecords): Promise<Verification> {
  const published = new PublishedCheck(sent)
  for (const [stream, firstOffset] of sent.acknowledged.firstOffsets) {
    published.begin(stream, firstOffset)
    for await (const page of replay(requests, stream, firstOffset)) for (const record of page) published.see(record)
  }
  return published.end()
}

async function* replay(requests: Requests, stream: number, from: number): AsyncGenerator<readonly ReplayedRecord[]> {
  for (let start = from, ended = false; !ended;) {
    const page = await requests.get(`${streamPath(stream)}/records?start_offset=${start}&max_records=${PAGE_RECORDS}`)
    yield page['records'] as readonly ReplayedRecord[] // a server that answers otherwise fails the comparison
    const next = Number(page['next_offset'])
    ended = page['end_of_stream'] === true
    if (!ended && !(next > start)) throw new UnreadableAnswerError(`the page from ${start} on leads to ${next}`)
    start = next
  }
}

class PublishedCheck {
  readonly #sent: SentRecords
  readonly #payloadHex: string
  /** 1: the record was seen. */
  readonly #seen: Uint8Array
  readonly #wrong = new Problems()
  readonly #surplus = new Problems()
  readonly #gaps = new Problems()
  #found = 0
  #replayed = 0
  #stream = 0
  #expectedOffset = 0

  constructor(sent: SentRecords) {
    this.#sent = sent
    this.#payloadHex = Buffer.from(sent.payload).toString('hex')
    this.#seen = new Uint8Array(sent.count)
  }

  begin(stream: number, firstOffset: number): void {
    this.#stream = stream
    this.#expectedOffset = firstOffset
  }

  see({ offset, message_id: id, payload_hex: payloadHex }: ReplayedRecord): void {
    const { count, streamOf, messageIdPrefix, acknowledged } = this.#sent
    const place = (): string => `${id} at ${streamName(this.#stream)} ${offset}`
    this.#replayed++
    if (offset !== this.#expectedOffset) this.#gaps.add(`${place()}, where ${this.#expectedOffset} was due`)
    this.#expectedOffset = offset + 1

    const record = recordOfMessageId(messageIdPrefix, id)
    if (record === null) return // of another run
    if (record >= count || streamOf(record) !== this.#stream) {
      this.#surplus.add(`${place()} was never sent there`)
      return
    }
    if (this.#seen[record] === 1) {
      this.#surplus.add(`${place()} is there a second time`)
      return
    }
    this.#seen[record] = 1
    const acknowledgedAt = acknowledged.offsetOf(record)
    if (acknowledgedAt === null) return
    if (acknowledgedAt !== offset) this.#wrong.add(`${place()} was acknowledged at ${acknowledgedAt}`)
    else if (payloadHex !== this.#payloadHex) this.#wrong.add(`${place()} has another payload`)
    else this.#found++
  }

  end(): Verification {
    const { count, acknowledged, messageIdPrefix, streamOf } = this.#sent
    for (let record = 0; record < count; record++) {
      const offset = this.#seen[record] === 1 ? null : acknowledged.offsetOf(record)
      if (offset === null) continue
      this.#wrong.add(`${messageId(messageIdPrefix, record)} at ${streamName(streamOf(record))} ${offset} is missing`)
    }
    const checks = [
      this.#wrong.check('acknowledged', `${this.#found} of ${acknowledged.count} at their offsets, as sent`),
      this.#surplus.check('stored once', `nothing twice among ${this.#replayed} records`),
      this.#gaps.check('offsets', 'without a gap'),
    ]
    return { ok: checks.every((check) => check.ok), checks }
  }
}

/** @returns how many records of the streams the group has finished */
export async function finishedRecords(requests: Requests, streams: number, group: string): Promise<number> {
  let finished = 0
  for (let stream = 0; stream < streams; stream++) {
    const description = await requests.get(groupPath(stream, group))
    finished += Number(description['highest_next_offset']) - Number(description['lag_messages'])
  }
  return finished
}

export function verifyCompleted(finishedBefore: number, finishedAfter: number, totals: CycleTotals): Verification {
  const finished = finishedAfter - finishedBefore
  const ok = finished >= totals.completed && finished <= totals.completed + totals.unresolved
  const expected = `${totals.completed}${totals.unresolved > 0 ? ` to ${totals.completed + totals.unresolved}` : ''}`
  const detail = `the group finished ${finished} records, ${expected} were acknowledged`
  return { ok, checks: [{ name: 'finished', ok, detail }] }
}
