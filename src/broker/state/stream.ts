/**
 * A stream and its consumer groups. State that spans several streams is in state.ts.
 *
 * F1  the floor of a stream rises at once, however many groups it has. Each group catches up, which means that it forgets what is below the
 *     floor, when its queue or its counts are asked for next. `queue` and `counted` are the only ways to them, so no reader sees the difference
 */
import type { Position } from '../../log/log-writer.ts'
import type { Change } from '../frames/change.ts'
import { IntervalSet } from '../interval-set.ts'
import { RecordIndex } from '../records/record-index.ts'
import type { ClaimIds } from './claim-ids.ts'
import type { GroupCopy } from './group-checkpoint.ts'
import { GroupState } from './group.ts'
import { notCounted } from './group-totals.ts'
import type { GroupCounts } from './group-totals.ts'
import { Redriven } from './redriven.ts'
import { StreamReplication } from './replication-state.ts'

export type StreamConfig = Pick<
  Extract<Change, { readonly kind: 'stream_created' }>,
  'default_durability' | 'retention' | 'failure_policy'
>

export interface Cursor {
  readonly offset: number
  readonly updatedAtMs: number
}

export interface Observation {
  readonly returnedRecords: number
  readonly nextOffset: number
  readonly endOfStream: boolean
  readonly observedAtMs: number
}

export class Group {
  readonly number: number
  readonly name: string
  readonly stream: StreamState
  readonly cursors = new Map<string, Cursor>()
  readonly observations = new Map<string, Observation>()
  nextClaimNumber = 0
  readonly claimIds: ClaimIds = new Map()
  readonly #queue: GroupState
  readonly #counted = notCounted()
  /** The floor of the stream when the group last caught up. */
  #floor: number

  constructor(number: number, name: string, stream: StreamState, queue = GroupState.create()) {
    this.number = number
    this.name = name
    this.stream = stream
    this.#queue = queue
    this.#floor = queue.floor
  }

  /** F1. True when the group has not caught up with the floor of its stream. */
  get isBehind(): boolean {
    return this.#floor < this.stream.floor
  }

  /** F1. Code after an `await` asks for it again, as for the group (core C1). */
  get queue(): GroupState {
    if (this.isBehind) this.stream.catchUp(this)
    return this.#queue
  }

  /** F1. What the totals count of the group (state S4). */
  get counted(): GroupCounts {
    if (this.isBehind) this.stream.catchUp(this)
    return this.#counted
  }

  /** F1. Only for `BrokerState`, which counts the group afterwards. */
  forgetBelowFloor(): void {
    this.#floor = this.stream.floor
    this.#queue.dropBelow(this.#floor)
  }

  /** A copy of the queue for a checkpoint. @param floor that the stream had at the checkpoint; the group has not changed since */
  copyQueue(floor: number): GroupCopy {
    this.#queue.dropBelow(floor) // no reader sees this: the floor of the stream is at least as high
    return this.#queue.copy()
  }
}

type StreamCreated = Pick<StreamState, 'number' | 'tenant' | 'name' | 'config' | 'createdAtMs'>

export class StreamState {
  readonly number: number
  readonly tenant: string
  readonly name: string
  config: StreamConfig
  readonly createdAtMs: number
  readonly index = new RecordIndex()
  readonly groups = new Map<string, Group>()
  /** Offsets whose frames are damaged or missing. */
  holes = new IntervalSet()
  /** Dead letters that were put back into their source. */
  redriven = new Redriven()
  /** Null: the stream was never replicated, neither from nor to another site. */
  replicated: StreamReplication | null = null
  nextOffset = 0
  visibleNext = 0
  /** Records below were removed, by retention or a purge. */
  floor = 0
  /** Payload of the records from the floor on. */
  payloadBytes = 0
  /** Records that can be read: what the lag of its groups is counted from (state S4). */
  countedReadable = 0
  /** What the totals count of all its groups. */
  readonly countedGroups = notCounted()
  /** F1. Makes a group of the stream forget what is below the floor, and counts the group anew. */
  readonly catchUp: (group: Group) => void
  /** Readers wait until the log is written up to here: see `Core.readable`. */
  readersWaitFor: Position = 0
  /** Offsets below were told to publishers that did not wait: readers wait until they are visible, see `Core.readable`. */
  acknowledgedNext = 0
  /** Answers about the stream wait until the log is committed up to here: its creation and its floor are stored then. */
  answersWaitFor: Position = 0

  constructor({ number, tenant, name, config, createdAtMs }: StreamCreated, catchUp: (group: Group) => void) {
    this.number = number
    this.tenant = tenant
    this.name = name
    this.config = config
    this.createdAtMs = createdAtMs
    this.catchUp = catchUp
  }

  /** Created when it is asked for first. */
  get replication(): StreamReplication {
    return (this.replicated ??= new StreamReplication())
  }

  /** State S1 */
  advance(firstOffset: number, count: number): void {
    if (firstOffset > this.nextOffset) this.holes.add(this.nextOffset, firstOffset)
    this.nextOffset = Math.max(this.nextOffset, firstOffset + count)
  }

  /** State S2. Offsets that were given and have no place in the index become holes. */
  findHoles(): void {
    if (this.index.recordsBetween(this.floor, this.nextOffset) === this.nextOffset - this.floor) return
    for (const [from, to] of this.index.gaps(this.floor, this.nextOffset)) this.holes.add(from, to)
  }

  /** Makes holes of indexed records in a damaged range of a segment: they exist, and are never given out again. @returns false when there are none */
  loseAt(segmentBase: Position, from: number, to: number): boolean {
    const lost = this.index.offsetsAt(segmentBase, from, to)
    for (const { from, end } of lost) this.holes.add(from, end)
    return lost.length > 0
  }

  /** Records of [from, to) that can be read. */
  readableBetween(from: number, to: number): number {
    const begin = Math.max(from, this.floor)
    if (to <= begin) return 0
    return to - begin - (this.holes.size === 0 ? 0 : this.holes.coveredBetween(begin, to))
  }
}
