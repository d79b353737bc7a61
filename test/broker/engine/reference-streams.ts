/** What a reference knows of streams and groups. */
import type { ClaimWithId } from '../../../src/broker/state/claim-ids.ts'
import { NaiveGroup } from '../../support/naive-group.ts'
import type { Change } from '../../../src/broker/frames/change.ts'
import type { StreamSummary } from '../../../src/broker/wire/record-answers.ts'

export type ChangeOf<Kind extends Change['kind']> = Extract<Change, { readonly kind: Kind }>

export const AUDIT_STREAM = 'system.audit'

export interface Frame {
  readonly type: number
  readonly position: number
  readonly payload: Buffer
}

/** A record, as `RecordReply` says. */
export interface RefRecord {
  readonly offset: number
  readonly message_id: string
  readonly payload_hex: string
  readonly key_hex: string | null
  readonly headers: Readonly<Record<string, string>>
  readonly event_time_ms: number
  readonly ingest_time_ms: number
}

export interface RefEvent {
  readonly event_id: string
  readonly kind: string
  readonly at_ms: number
  readonly tenant: string
  readonly principal: string
  readonly stream: string | null
  readonly detail: Readonly<Record<string, unknown>>
  readonly offset: number
}

/** What a claim asked for. */
export interface RefClaim {
  readonly startOffset: number
  readonly max: number
}

/** What the frame's operation was about, as far as that decides what the frame must be. */
export interface Intent {
  /** By the lease's length, which is different for each claim. */
  claim?(timeoutMs: number): RefClaim | undefined
  /** A retry, of which the policy knows nothing. */
  readonly retryDelayMs?: number | undefined
  /** The wall clock when retention was planned; undefined when it went on since. */
  readonly retainedAtWallMs?: number | undefined
}

export interface RefCursor {
  readonly offset: number
  readonly atMs: number
}

export class RefGroup {
  readonly number: number
  readonly name: string
  readonly stream: RefStream
  readonly queue = new NaiveGroup()
  readonly cursors = new Map<string, RefCursor>()
  readonly observations = new Map<string, ChangeOf<'observation'>>()
  /** Number of the next. */
  claims: number
  /** All claims that had an id, by it. */
  readonly claimsWithId = new Map<string, ClaimWithId[]>()
  isDeleted = false

  constructor(number: number, name: string, stream: RefStream, claims = 0) {
    this.claims = claims
    this.number = number
    this.name = name
    this.stream = stream
    this.queue.dropBelow(stream.floor)
  }

  /** Time has come so far: what is due is available again, or up to the failure policy. */
  meet(nowMs: number): void {
    this.queue.expire(nowMs, Infinity, this.stream.appliesOnExpiry)
  }

  /** What an id stands for: deliveries of its last claim whose lease is active. */
  activeDeliveriesOf(id: string, nowMs: number): { offset: number; attempt: number }[] {
    const claim = this.claimsWithId.get(id)?.at(-1)
    const given = (claim?.runs ?? []).flatMap(({ offset: first, count, attempt }) =>
      Array.from({ length: count }, (_, i) => ({ offset: first + i, attempt })),
    )
    return given.filter(({ offset, attempt }) => {
      const found = this.queue.find(offset, attempt, nowMs)
      return found.kind === 'active' && found.claimNumber === claim!.claimNumber
    })
  }

  /** Offsets that a claim would find. */
  plan({ startOffset, max }: RefClaim): { offset: number; count: number; attempt: number }[] {
    const { floor, visibleNext } = this.stream
    return this.queue.plan(Math.max(startOffset, floor), visibleNext, max, NO_HOLES)
  }
}

export class RefStream {
  readonly number: number
  readonly tenant: string
  readonly name: string
  config: Pick<StreamSummary, 'default_durability' | 'retention' | 'failure_policy'>
  readonly createdAtMs: number
  /** Those below the floor too. */
  readonly records = new Map<number, RefRecord>()
  readonly events = new Map<number, RefEvent>()
  readonly groups = new Map<string, RefGroup>()
  /** Dead letters that were put back. */
  readonly redriven = new Set<number>()
  isDeleted = false
  floor = 0
  nextOffset = 0
  visibleNext = 0

  constructor(created: ChangeOf<'stream_created'>) {
    const { stream_number, tenant, stream, default_durability, retention, failure_policy, at_ms } = created
    this.number = stream_number
    this.tenant = tenant
    this.name = stream
    this.config = { default_durability, retention, failure_policy }
    this.createdAtMs = at_ms
  }

  get appliesOnExpiry(): boolean {
    return this.config.failure_policy?.apply_on_expiry ?? false
  }

  payloadBytesBetween(from: number, to: number): number {
    let bytes = 0
    for (let offset = from; offset < to; offset += 1) bytes += payloadBytesOf(this.records.get(offset))
    return bytes
  }

  /** The first offset whose record has a time at or above it. */
  firstAtOrAbove(by: 'event_time_ms' | 'ingest_time_ms', timeMs: number, end = this.visibleNext): number {
    for (let offset = this.floor; offset < end; offset += 1) {
      if (this.#timeOf(by, offset) >= timeMs) return offset
    }
    return end
  }

  /** The first offset that a greatest age keeps. A record of the future goes with the first one behind it that is too old. */
  firstNotAged(youngestMs: number, nowMs: number): number {
    const times = Array.from({ length: this.visibleNext - this.floor }, (_, i) =>
      this.#timeOf('ingest_time_ms', this.floor + i),
    )
    const young = times.findIndex((timeMs) => timeMs >= youngestMs && timeMs <= nowMs)
    const before = young < 0 ? times : times.slice(0, young)
    const lastOld = before.findLastIndex((timeMs) => timeMs < youngestMs)
    return this.floor + lastOld + 1
  }

  #timeOf(by: 'event_time_ms' | 'ingest_time_ms', offset: number): number {
    return this.events.get(offset)?.at_ms ?? this.records.get(offset)![by]
  }
}

const NO_HOLES: ReadonlySet<number> = new Set()

export const payloadBytesOf = (record: RefRecord | undefined): number => (record ? record.payload_hex.length / 2 : 0)
