/**
 * The state as a checkpoint holds it: everything except where records are, which the sidecars of the segments hold. Integers are little-endian.
 *
 *   offset  bytes  what
 *        0      4  jsonBytes   u32
 *        4      4  groupCount  u32
 *        8      …  json        everything small, UTF-8, padded to a multiple of 8
 *        …      …  groups      for each: bytes u32, unused u32, then GroupState.encode padded to a multiple of 8
 *
 * K1  a state that `decodeCheckpoint` restores from a `StateCopy` answers as the original did, once the records' places are added
 * K2  a copy shows the state at the moment it was begun. Small parts are copied then; groups are copied in slices, and a group that changes
 *     before its turn is copied before the change. So a copy blocks the main thread no longer than its largest group takes
 * K3  a state is restored in slices, so that the process answers meanwhile
 */
import { StoreError } from '../../errors.ts'
import { stepsOf } from '../../steps.ts'
import type { Steps } from '../../steps.ts'
import { jsonMembers } from './json-members.ts'
import type { JsonMember } from './json-members.ts'
import type { ClaimWithId } from '../state/claim-ids.ts'
import { encodeGroup, encodedBytes } from '../state/group-checkpoint.ts'
import type { GroupCopy } from '../state/group-checkpoint.ts'
import { GroupState } from '../state/group.ts'
import { IntervalSet } from '../interval-set.ts'
import { Redriven } from '../state/redriven.ts'
import { BrokerState, Group } from '../state/state.ts'
import type { GroupCopier, StreamState } from '../state/state.ts'
import type { AcknowledgedIncident, Cursor, Observation, StreamConfig } from '../state/state.ts'
import { StreamReplication } from '../state/replication-state.ts'
import type { Link, ReplicationContent } from '../state/replication-state.ts'

interface Content {
  readonly secret: string
  readonly last_at_ms: number
  /** Absent in checkpoints of older versions. */
  readonly events_lost?: number
  /** The next numbers. Absent in older checkpoints, whose versions deleted nothing. */
  readonly stream_numbers?: number
  readonly group_numbers?: number
  readonly claim_numbers_used?: number
  /** Absent in checkpoints of older versions. */
  readonly deleted_created_at_ms?: number
  readonly streams: readonly {
    readonly number: number
    readonly tenant: string
    readonly name: string
    readonly config: StreamConfig
    readonly created_at_ms: number
    readonly next_offset: number
    readonly floor: number
    readonly payload_bytes: number
    /** Bounds of intervals. */
    readonly holes: readonly number[]
    /** Offsets of redriven copies; absent: none. */
    readonly redriven?: readonly number[]
    /** Where their records are, as redriven.ts says; absent in checkpoints of older versions. */
    readonly redriven_to?: readonly number[]
    /** Absent: the stream was never replicated. */
    readonly replicated?: ReplicationContent
  }[]
  readonly groups: readonly {
    readonly number: number
    readonly stream_number: number
    readonly name: string
    readonly next_claim_number: number
    readonly cursors: readonly (readonly [string, Cursor])[]
    readonly observations: readonly (readonly [string, Observation])[]
    /** Absent: none. */
    readonly claim_ids?: readonly (readonly [string, ClaimWithId])[]
  }[]
  readonly acknowledged_incidents: readonly (readonly [string, AcknowledgedIncident])[]
  /** Links of older checkpoints, which do not list them with each stream. */
  readonly links?: readonly { readonly stream_number: number; readonly link: Link; readonly next: number }[]
}

const HEAD_BYTES = 8
const ALIGN = 8

/** Bounds of one slice of copying or restoring, which takes some milliseconds. */
const SLICE_STREAMS = 500
const SLICE_GROUPS = 100
const SLICE_BYTES = 1 << 20
const SLICE_JSON_BYTES = 64 * 1024
/** Copying a longer part costs more than handing it over separately. */
const JOINED_PART_BYTES_MAX = 64 * 1024
/** Numbers of a stream: next offset, floor, payload bytes. */
const STREAM_NUMBERS = 3

interface CopiedGroup {
  readonly json: string
  readonly queue: GroupCopy
}

/** K2 */
export class StateCopy implements GroupCopier {
  readonly #state: BrokerState
  readonly #streams: readonly StreamState[]
  readonly #streamNumbers: Float64Array
  /** Floors at the moment of the copy, by number of the stream. */
  readonly #floors: Float64Array
  /** References are enough, because a change replaces a configuration as a whole. */
  readonly #configs: readonly StreamConfig[]
  readonly #redriven = new Map<StreamState, ReturnType<Redriven['encode']>>()
  readonly #holes = new Map<StreamState, readonly number[]>()
  readonly #replicated = new Map<StreamState, ReplicationContent>()
  /** All groups by number. Those below `#next` are encoded; a later one that changes first is copied into `#copied`. */
  readonly #groups: readonly (Group | undefined)[]
  #next = 0
  readonly #copied = new Map<number, CopiedGroup>()
  readonly #head: string

  constructor(state: BrokerState) {
    this.#state = state
    this.#streams = state.streams.filter((stream) => stream !== undefined)
    this.#configs = this.#streams.map(({ config }) => config)
    this.#streamNumbers = new Float64Array(STREAM_NUMBERS * this.#streams.length)
    this.#floors = new Float64Array(state.streams.length)
    for (const [i, stream] of this.#streams.entries()) {
      this.#floors[stream.number] = stream.floor
      this.#streamNumbers[STREAM_NUMBERS * i] = stream.nextOffset
      this.#streamNumbers[STREAM_NUMBERS * i + 1] = stream.floor
      this.#streamNumbers[STREAM_NUMBERS * i + 2] = stream.payloadBytes
      if (stream.holes.size > 0) this.#holes.set(stream, [...stream.holes.encode()])
      if (stream.redriven.size > 0) this.#redriven.set(stream, stream.redriven.encode())
      if (stream.replicated) this.#replicated.set(stream, stream.replicated.encode())
    }
    this.#groups = state.groups.slice()
    const head: Omit<Content, 'streams' | 'groups'> = {
      secret: Buffer.from(state.secret).toString('hex'),
      last_at_ms: state.lastAtMs,
      events_lost: state.eventsLost,
      stream_numbers: state.streams.length,
      group_numbers: state.groups.length,
      claim_numbers_used: state.claimNumbersUsed,
      deleted_created_at_ms: state.deletedCreatedAtMs,
      acknowledged_incidents: [...state.acknowledgedIncidents],
    }
    this.#head = JSON.stringify(head).slice(0, -1)
    state.copiers.add(this)
  }

  /** Called before the group changes. */
  copy(group: Group): void {
    const { number } = group
    const isWaiting = number >= this.#next && number < this.#groups.length && !this.#copied.has(number)
    if (isWaiting) this.#copied.set(number, this.#copyOf(group))
  }

  /** The checkpoint, in consecutive parts. To be called once. */
  async finish(turn: () => Promise<void>): Promise<Uint8Array<ArrayBuffer>[]> {
    const json: Buffer[] = [Buffer.from(`${this.#head},"streams":[`)]
    for (let from = 0; from < this.#streams.length; from += SLICE_STREAMS) {
      if (from > 0) await turn()
      const texts = this.#streams
        .slice(from, from + SLICE_STREAMS)
        .map((stream, i) => this.#streamText(stream, from + i))
      json.push(Buffer.from((from > 0 ? ',' : '') + texts.join(',')))
    }
    json.push(Buffer.from('],"groups":['))
    const groups: Uint8Array[] = []
    let count = 0
    while (this.#next < this.#groups.length) {
      if (this.#next > 0) await turn()
      const slice = this.#nextSlice()
      if (slice.length === 0) continue
      json.push(Buffer.from((count > 0 ? ',' : '') + slice.map((copy) => copy.json).join(',')))
      const parts: Uint8Array[] = []
      for (const { queue } of slice) parts.push(...(await encoded(queue, turn)))
      groups.push(...joined(parts))
      count += slice.length
    }
    json.push(Buffer.from(']}'))
    this.#state.copiers.delete(this)
    const jsonBytes = json.reduce((sum, { byteLength }) => sum + byteLength, 0)
    return [wordPair(jsonBytes, count), ...json, padding(jsonBytes), ...groups].map(owned)
  }

  #streamText(stream: StreamState, index: number): string {
    const { number, tenant, name, createdAtMs } = stream
    const [next_offset, floor, payload_bytes] = this.#streamNumbers.subarray(STREAM_NUMBERS * index)
    const content: Content['streams'][number] = {
      number,
      tenant,
      name,
      config: this.#configs[index]!,
      created_at_ms: createdAtMs,
      next_offset: next_offset!,
      floor: floor!,
      payload_bytes: payload_bytes!,
      holes: this.#holes.get(stream) ?? [],
      redriven: this.#redriven.get(stream)?.bounds ?? [],
      redriven_to: this.#redriven.get(stream)?.places ?? [],
      ...(this.#replicated.has(stream) && { replicated: this.#replicated.get(stream)! }),
    }
    return JSON.stringify(content)
  }

  /** Copies the next groups, up to the bounds of a slice. */
  #nextSlice(): CopiedGroup[] {
    const slice: CopiedGroup[] = []
    const end = Math.min(this.#groups.length, this.#next + SLICE_GROUPS)
    for (let bytes = 0; this.#next < end && bytes < SLICE_BYTES; this.#next += 1) {
      const group = this.#groups[this.#next]
      if (group === undefined) continue
      const copy = this.#copied.get(group.number) ?? this.#copyOf(group)
      this.#copied.delete(group.number)
      slice.push(copy)
      bytes += encodedBytes(copy.queue)
    }
    return slice
  }

  #copyOf(group: Group): CopiedGroup {
    const { number, stream, name, nextClaimNumber, cursors, observations, claimIds } = group
    const content: Content['groups'][number] = {
      number,
      stream_number: stream.number,
      name,
      next_claim_number: nextClaimNumber,
      cursors: [...cursors],
      observations: [...observations],
      ...(claimIds.size > 0 && { claim_ids: [...claimIds] }),
    }
    return { json: JSON.stringify(content), queue: group.copyQueue(this.#floors[stream.number]!) }
  }
}

async function encoded(queue: GroupCopy, turn: () => Promise<void>): Promise<Uint8Array[]> {
  const bytes = encodedBytes(queue)
  const steps = encodeGroup(queue)
  for (;;) {
    const { done, value } = steps.next()
    if (done) return [wordPair(bytes, 0), ...value, padding(bytes)]
    await turn()
  }
}

/**
 * K3
 *
 * @param bytes begin at a multiple of 8 of their memory
 * @throws StoreError corrupt: the checksum held, so another version wrote it
 */
export function* decodeCheckpoint(bytes: Buffer): Steps<BrokerState> {
  const jsonBytes = bytes.readUInt32LE(0)
  const json = bytes.subarray(HEAD_BYTES, HEAD_BYTES + jsonBytes)
  const restored = new Restored(bytes, HEAD_BYTES + aligned(jsonBytes))
  const members = jsonMembers(json, new Set(['streams', 'groups']))
  let restoredBytes = 0
  for (let next = nextOf(members); next !== null; next = nextOf(members)) {
    const { name, value, end } = next
    if (name === 'streams') restored.stream(value as Content['streams'][number]) // the checksum says we wrote it
    else if (name === 'groups') yield* restored.group(value as Content['groups'][number])
    else restored.other(name, value)
    if (end - restoredBytes < SLICE_JSON_BYTES) continue
    restoredBytes = end
    yield { phase: 'restoring streams and consumer groups', done: end, total: bytes.byteLength, unit: 'bytes' }
  }
  return restored.end()
}

function nextOf(members: Generator<JsonMember, void, undefined>): JsonMember | null {
  try {
    return members.next().value ?? null
  } catch (error) {
    throw new StoreError('corrupt', 'checkpoint_unreadable', 'a checkpoint is not one of this version', {
      cause: error,
    })
  }
}

/** The part of a state that has been restored so far. */
class Restored {
  readonly #bytes: Buffer
  readonly #state = new BrokerState()
  /** Where the next group begins. */
  #at: number
  readonly #others: Partial<Record<string, unknown>> = {}

  constructor(bytes: Buffer, groupsAt: number) {
    this.#bytes = bytes
    this.#at = groupsAt
  }

  stream(content: Content['streams'][number]): void {
    const { number, tenant, name, config, created_at_ms: createdAtMs } = content
    const stream = this.#state.applyStreamCreated(number, tenant, name, config, createdAtMs)
    stream.nextOffset = content.next_offset
    stream.floor = content.floor
    stream.payloadBytes = content.payload_bytes
    stream.index.dropBelow(content.floor)
    stream.holes = IntervalSet.decode(Float64Array.from(content.holes))
    stream.redriven = Redriven.decode(content.redriven ?? [], content.redriven_to ?? [])
    if (content.replicated) stream.replicated = StreamReplication.decode(content.replicated)
  }

  *group(content: Content['groups'][number]): Steps<void> {
    const bytes = this.#bytes
    const groupBytes = bytes.readUInt32LE(this.#at)
    const begin = this.#at + HEAD_BYTES
    const restoring = GroupState.decodeInSteps(bytes.subarray(begin, begin + groupBytes))
    const about = { phase: 'restoring a consumer group', done: begin, total: bytes.byteLength }
    const queue = yield* stepsOf(restoring, about)
    this.#at = begin + aligned(groupBytes)
    const group = new Group(content.number, content.name, this.#state.streams[content.stream_number]!, queue)
    group.nextClaimNumber = content.next_claim_number
    for (const [name, cursor] of content.cursors) group.cursors.set(name, cursor)
    for (const [id, observation] of content.observations) group.observations.set(id, observation)
    for (const [id, claim] of content.claim_ids ?? []) group.claimIds.set(id, claim)
    this.#state.adopt(group)
  }

  other(name: string, value: unknown): void {
    this.#others[name] = value
  }

  end(): BrokerState {
    const state = this.#state
    const content = this.#others as Omit<Content, 'streams' | 'groups'> // what `StateCopy` wrote, or an older one
    state.secret = Buffer.from(content.secret, 'hex')
    for (const [id, acknowledged] of content.acknowledged_incidents) state.acknowledgedIncidents.set(id, acknowledged)
    for (const { stream_number, link, next } of content.links ?? []) {
      state.streams[stream_number]!.replication.restoreLink({ link, next, skipped: 0, createdAtMs: null })
    }
    state.streams.length = content.stream_numbers ?? state.streams.length
    state.groups.length = content.group_numbers ?? state.groups.length
    state.claimNumbersUsed = content.claim_numbers_used ?? 0
    state.deletedCreatedAtMs = content.deleted_created_at_ms ?? 0
    state.lastAtMs = content.last_at_ms
    state.eventsLost = content.events_lost ?? 0
    return state
  }
}

const aligned = (bytes: number): number => Math.ceil(bytes / ALIGN) * ALIGN
const padding = (bytes: number): Uint8Array => new Uint8Array(aligned(bytes) - bytes)
const wordPair = (first: number, second: number): Uint8Array => new Uint8Array(Uint32Array.of(first, second).buffer)

/** The same bytes in fewer parts: adjacent short parts become one. */
function joined(parts: readonly Uint8Array[]): Uint8Array[] {
  const fewer: Uint8Array[] = []
  let short: Uint8Array[] = []
  const endShort = (): void => {
    if (short.length > 0) fewer.push(Buffer.concat(short))
    short = []
  }
  for (const part of parts) {
    if (part.byteLength <= JOINED_PART_BYTES_MAX) {
      short.push(part)
    } else {
      endShort()
      fewer.push(part)
    }
  }
  endShort()
  return fewer
}

/** Copies a part into memory of its own, so that it can be handed to another thread: small buffers share theirs. */
function owned(part: Uint8Array): Uint8Array<ArrayBuffer> {
  const whole = part.buffer instanceof ArrayBuffer && part.byteLength === part.buffer.byteLength
  return whole ? (part as Uint8Array<ArrayBuffer>) : new Uint8Array(part) // its memory is an ArrayBuffer, as was just checked
}
