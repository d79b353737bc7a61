/** The streams and groups of a reference. */
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

/** A record in the form of `RecordReply`. */
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

/** The fields of a claim that decide which records it finds. */
export interface RefClaim {
  readonly startOffset: number
  readonly max: number
}

/** Parameters of the operation that caused a frame, as far as the frame depends on them. */
export interface Intent {
  /** The claim, by the length of its lease, which is different for each claim. */
  claim?(timeoutMs: number): RefClaim | undefined
  /** The delay that a retry asked for: the policy does not decide it. */
  readonly retryDelayMs?: number | undefined
  /** The wall clock when retention was planned; undefined if time has passed since. */
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
  /** Number of the next claim. */
  claims: number
  /** All claims with an id, by id. */
  readonly claimsWithId = new Map<string, ClaimWithId[]>()
  isDeleted = false

  constructor(number: number, name: string, stream: RefStream, claims = 0) {
    this.claims = claims
    this.number = number
    this.name = name
    this.stream = stream
    this.queue.dropBelow(stream.floor)
  }

  /** Expires leases that are due: their records are available again, or left to the failure policy. */
  meet(nowMs: number): void {
    this.queue.expire(nowMs, Infinity, this.stream.appliesOnExpiry)
  }

  /** Deliveries that a repeated claim with this id gets: those of its last claim with an active lease. */
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
  /** By offset, including records below the floor. */
  readonly records = new Map<number, RefRecord>()
  readonly events = new Map<number, RefEvent>()
  readonly groups = new Map<string, RefGroup>()
  /** Offsets of dead letters that were redriven. */
  readonly redriven = new Set<number>()
  isDeleted = false
  floor = 0
  nextOffset = 0
  visibleNext = 0

  constructor(created: ChangeOf<'stream_created'>) {
    const { stream_number, tenant, stream, default_durability, retention, failure_policy } = created
    this.number = stream_number
    this.tenant = tenant
    this.name = stream
    this.config = { default_durability, retention, failure_policy }
    this.createdAtMs = created.created_at_ms ?? created.at_ms
  }

  get appliesOnExpiry(): boolean {
    return this.config.failure_policy?.apply_on_expiry ?? false
  }

  payloadBytesBetween(from: number, to: number): number {
    let bytes = 0
    for (let offset = from; offset < to; offset += 1) bytes += payloadBytesOf(this.records.get(offset))
    return bytes
  }

  /** The first offset whose record has this time or a later one. */
  firstAtOrAbove(by: 'event_time_ms' | 'ingest_time_ms', timeMs: number, end = this.visibleNext): number {
    for (let offset = this.floor; offset < end; offset += 1) {
      if (this.#timeOf(by, offset) >= timeMs) return offset
    }
    return end
  }

  /** The first offset that a limit of age keeps. A record with a time in the future is removed with the next record that is too old. */
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

/** Whether the last of the streams was created later than all that are deleted. */
export const isNewest = (streams: readonly RefStream[]): boolean =>
  streams.every(({ isDeleted, createdAtMs }) => !isDeleted || createdAtMs < streams.at(-1)!.createdAtMs)
