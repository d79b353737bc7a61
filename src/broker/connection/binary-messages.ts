/**
 * Messages of the binary form (wire/connection-frames.ts): publishes and acknowledgements go to their operations as bytes.
 *
 * M1  frames of a message are handled one after the other. The lengths in a frame are checked before anything of that frame is done
 * M2  adjacent good records of a frame are stored together; a bad one is refused by itself
 */
import type { Answer } from '../../engine/decision.ts'
import type { Permission } from '../grants.ts'
import { BATCH_RECORDS_MAX, CLAIM_MESSAGES_MAX } from '../limits.ts'
import { isStreamName } from '../names.ts'
import type { Acked, AckedPairs, Caller, PublishedRecords, StreamingOperations } from '../operations.ts'
import { streamNamed } from '../path-names.ts'
import { BrokerError, refuse } from '../refusals.ts'
import { RECORD_DURABILITIES } from '../durability.ts'
import type { RecordDurability } from '../durability.ts'
import {
  ACK,
  ACKED,
  DURABILITY_CODES,
  FrameReader,
  ID_BYTES,
  PUBLISH,
  PUBLISHED,
  REQUEST,
  SUBSCRIPTION_PREFIX,
} from '../wire/connection-frames.ts'
import { KnownHeaders, areWhole, payloadBytesAt, problemAt } from './encoded-records.ts'
import type { MessageWork } from './inbox.ts'
import type { Outbox } from './outbox.ts'

const PAIR_BYTES = 2 * ID_BYTES
const FRAME_COST = 6
const RECORD_COST = 1
const REFUSED_COST = 4
const DELIVERY_COST = 4
const JSON_BYTES_PER_COST = 8
const RECORD_BYTES_PER_COST = 1024
/** Durabilities by their code in a PUBLISH; null: as the stream says. */
const ASKED: readonly (RecordDurability | null)[] = [null, ...RECORD_DURABILITIES]

export interface BinaryParts {
  readonly operations: Pick<StreamingOperations, 'publishRecords' | 'ackPairs'>
  readonly outbox: Outbox
  /** Longest record, as for the body of a publish. */
  readonly bodyBytesMax: number
  readonly caller: () => Caller
  /** @throws BrokerError authorization_denied */
  readonly demand: (permission: Permission, stream: string) => void
  /** Counts one more operation in flight. @throws BrokerError */
  readonly begin: () => void
  readonly finish: () => void
  readonly refused: (id: number, error: unknown, count: number) => void
  readonly settled: (subscriptionId: string) => void
  readonly request: (id: number, json: Buffer) => void
  /** Asked before each frame. False: the rest of the message is dropped. */
  readonly mayBegin: () => boolean
  /** Called when the message does not consist of good frames. */
  readonly malformed: () => void
}

/** The frames of one message. */
class Frames implements MessageWork {
  readonly #parts: Pick<BinaryParts, 'mayBegin' | 'malformed'>
  /** @returns what the frame cost; 0: it is malformed */
  readonly #take: (bytes: Buffer, frames: FrameReader) => number
  #bytes: Buffer
  #frames: FrameReader
  #isOwn: boolean

  constructor(
    bytes: Buffer,
    isOwn: boolean,
    parts: Pick<BinaryParts, 'mayBegin' | 'malformed'>,
    take: (bytes: Buffer, frames: FrameReader) => number,
  ) {
    this.#bytes = bytes
    this.#frames = new FrameReader(bytes)
    this.#isOwn = isOwn
    this.#parts = parts
    this.#take = take
  }

  next(): number {
    const frames = this.#frames
    if (frames.isAtEnd || !this.#parts.mayBegin()) return 0
    const cost = frames.next() ? this.#take(this.#bytes, frames) : 0
    if (cost === 0) this.#parts.malformed()
    return cost
  }

  keep(): void {
    if (this.#isOwn) return
    this.#isOwn = true
    this.#bytes = Buffer.from(this.#bytes.subarray(this.#frames.end))
    this.#frames = new FrameReader(this.#bytes)
  }
}

export class BinaryMessages {
  readonly #parts: BinaryParts
  readonly #knownHeaders = new KnownHeaders()

  constructor(parts: BinaryParts) {
    this.#parts = parts
  }

  /** @param isOwn whether the bytes stay valid after this call */
  framesOf(bytes: Buffer, isOwn: boolean): MessageWork {
    return new Frames(bytes, isOwn, this.#parts, this.#take)
  }

  /** M1. @returns what the frame cost; 0: it is malformed */
  readonly #take = (bytes: Buffer, frames: FrameReader): number => {
    const { type, id, count, bodyAt, end } = frames
    const bodyBytes = end - bodyAt
    if (type === REQUEST) {
      this.#parts.request(id, bytes.subarray(bodyAt, end))
      return FRAME_COST + bodyBytes / JSON_BYTES_PER_COST
    }
    if (type === PUBLISH) {
      if (count === 0 || !areWhole(bytes, bodyAt, end, count)) return 0
      const refused = this.#publish(bytes, frames)
      return FRAME_COST + count * RECORD_COST + refused * REFUSED_COST + bodyBytes / RECORD_BYTES_PER_COST
    }
    if (type !== ACK || count === 0 || bodyBytes !== count * PAIR_BYTES) return 0
    this.#ack(bytes, frames)
    return FRAME_COST + count * DELIVERY_COST
  }

  /** @returns how many records were refused by themselves */
  #publish(bytes: Buffer, frames: FrameReader): number {
    const { id, count, flags, bodyAt, end } = frames
    const parts = this.#parts
    let refused = 0
    try {
      const stream = this.#streamOf(frames, 'stream.publish')
      const durability = ASKED[flags]
      if (durability === undefined) throw refuse('invalid_request', 'the frame has an unknown durability')
      if (count > BATCH_RECORDS_MAX) {
        throw refuse('invalid_request', `a frame has at most ${BATCH_RECORDS_MAX} records`)
      }
      let at = bodyAt
      let from = at
      let first = 0
      let payloadBytes = 0
      const store = (until: number): void => {
        if (until === first) return
        const records = { bytes: bytes.subarray(from, at), count: until - first, payloadBytes, durability }
        this.#store(id + first, stream, records)
      }
      for (let i = 0; i < count; i++) {
        const next = at + bytes.readUInt32LE(at)
        const problem = this.#problemOf(bytes, at, next)
        if (problem === null) payloadBytes += payloadBytesAt(bytes, at)
        else {
          store(i)
          parts.refused(id + i, problem, 1)
          refused += 1
          from = next
          first = i + 1
          payloadBytes = 0
        }
        at = next
      }
      at = end
      store(count)
    } catch (error) {
      parts.refused(id, error, count)
    }
    return refused
  }

  #problemOf(bytes: Buffer, at: number, end: number): BrokerError | null {
    if (end - at <= this.#parts.bodyBytesMax) return problemAt(bytes, at, this.#knownHeaders)
    return refuse('payload_too_large', `the record must not exceed ${this.#parts.bodyBytesMax} bytes`)
  }

  /** M2 */
  #store(id: number, stream: string, records: Parameters<StreamingOperations['publishRecords']>[3]): void {
    const { operations, begin, caller, refused } = this.#parts
    const { count } = records
    try {
      begin()
    } catch (error) {
      return refused(id, error, count)
    }
    const answer = this.#answerOf<PublishedRecords>(id, count, (published) => this.#published(id, count, published))
    operations.publishRecords(answer, caller(), stream, records)
  }

  /** Answers an operation that has begun. */
  #answerOf<Reply>(id: number, count: number, give: (reply: Reply) => void): Answer<Reply> {
    const { refused, finish } = this.#parts
    return {
      answered(reply) {
        give(reply)
        finish()
      },
      refused(error) {
        refused(id, error, count)
        finish()
      },
    }
  }

  #published(id: number, count: number, published: PublishedRecords): void {
    const { offset, ingestTimeMs, acknowledgement, replication_receipt } = published
    const frames = this.#parts.outbox.frames()
    frames.begin(PUBLISHED, codeOf(acknowledgement.durability), id, '')
    frames.u64(offset)
    frames.u64(ingestTimeMs)
    frames.u32(acknowledgement.replicas)
    if (replication_receipt !== undefined) frames.text(JSON.stringify(replication_receipt))
    frames.end(count)
  }

  #ack(bytes: Buffer, frames: FrameReader): void {
    const { id, count, bodyAt, end } = frames
    const { operations, refused, begin, caller } = this.#parts
    try {
      const stream = this.#streamOf(frames, 'stream.consume')
      if (count > CLAIM_MESSAGES_MAX) {
        throw refuse('invalid_request', `a frame has at most ${CLAIM_MESSAGES_MAX} deliveries`)
      }
      begin()
      const ids = Buffer.from(bytes.subarray(bodyAt, end)) // a copy, because the operation may decide again, and its answer reads the ids
      const answer = this.#answerOf<AckedPairs>(id, count, (acked) => this.#acked(id, ids, acked))
      operations.ackPairs(answer, caller(), stream, ids)
    } catch (error) {
      refused(id, error, count)
    }
  }

  /** Adjacent results of one group become one frame, and so do adjacent refusals that are equal. */
  #acked(id: number, ids: Buffer, acked: AckedPairs): void {
    const { results } = acked
    for (let from = 0; from < results.length;) {
      const first = results[from]!
      let to = from + 1
      if (first instanceof BrokerError) {
        while (to < results.length && isSameRefusal(results[to]!, first)) to += 1
        this.#parts.refused(id + from, first, to - from)
      } else {
        while (to < results.length && isOfGroup(results[to]!, first.group)) to += 1
        this.#ackedRun(id, ids, acked, from, to, first.group)
      }
      from = to
    }
  }

  #ackedRun(id: number, ids: Buffer, acked: AckedPairs, from: number, to: number, group: string): void {
    const { acknowledgement, acknowledgedAtMs, results } = acked
    const { outbox, settled } = this.#parts
    const frames = outbox.frames()
    frames.begin(ACKED, codeOf(acknowledgement.durability), id + from, group)
    frames.u64(acknowledgedAtMs)
    frames.u32(acknowledgement.replicas)
    for (let i = from; i < to; i++) {
      const { offset, attempt } = results[i] as Acked // the caller has checked the run
      frames.u64(offset)
      frames.u32(attempt)
      settled(`${SUBSCRIPTION_PREFIX}${ids.toString('base64url', i * PAIR_BYTES, i * PAIR_BYTES + ID_BYTES)}`)
    }
    frames.end(to - from)
  }

  /** @throws BrokerError */
  #streamOf(frames: FrameReader, permission: Permission): string {
    let name: string | null = null
    try {
      name = frames.name()
    } catch {
      // not UTF-8: refused below, as the route would do
    }
    this.#parts.demand(permission, name !== null && isStreamName(name) ? name : '')
    return streamNamed(name)
  }
}

const codeOf = (durability: string): number => DURABILITY_CODES.findIndex((each) => each === durability)
const isOfGroup = (result: Acked | BrokerError, group: string): boolean =>
  !(result instanceof BrokerError) && result.group === group
const isSameRefusal = (result: Acked | BrokerError, { code, message }: BrokerError): boolean =>
  result instanceof BrokerError && result.code === code && result.message === message
