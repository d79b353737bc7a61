/**
 * The main thread's side of the decode lane: its rings, its control messages, its death.
 *
 * A lane that died is replaced by one with new rings. What the dead lane had accepted is in its outcomes ring and is read first;
 * the owner fails everything else that the lane was given. The successor rebuilds the active segment's index from the log.
 *
 * If there are cores for them, further lanes prepare batches for it (prepared-batches.ts). When one of these lanes dies, all of them are ended.
 */
import { SpscRing } from '../../pipeline/spsc-ring.ts'
import { Lane } from '../../pipeline/lane.ts'
import { workerFile } from '../../pipeline/worker-file.ts'
import { THREAD_HEAP } from '../limits.ts'
import type { TenantPolicy } from '../tenants/tenant-policy.ts'
import type {
  DecodeLaneControl,
  DecodeLaneData,
  DecodeLaneMessage,
  LeaderFrames,
  PrepareLaneData,
} from './lane-data.ts'
import type { BundlePlace } from '../index/catalog.ts'
import {
  NOT_PREPARED,
  OUTCOME_HEAD_BYTES,
  REQUEST_BYTES,
  SEGMENT_OPENED,
  readOutcomeHead,
  writeRequest,
} from './messages.ts'
import type { IngestRequest, OutcomeHead } from './messages.ts'
import { PreparedBatches } from './prepared-batches.ts'

const REQUESTS_RING_BYTES = 256 * 1024
const OUTCOMES_RING_BYTES = 4 * 1024 * 1024
const LANE_FILE = workerFile('decode')
const PREPARE_FILE = workerFile('prepare')
/** Slots of each preparing lane: it works on one, and the others wait. Each takes 1.1 MiB. */
const SLOTS_PER_LANE = 8

export interface DecodeLaneListener {
  /** `tail` is valid during the call only. */
  onOutcome(outcome: OutcomeHead, tail: Buffer): void
  /** The lane indexes the segment at `base` in number `index` of the node's SegmentIndexes. */
  onSegmentOpened(base: number, index: number): void
  /** All outcomes that the lane left were reported by `onOutcome` before. */
  onDeath(error: Error): void
  onBundleUnreadable(base: number, code: string): void
  /** Frames of the cluster's leader, up to those of this number, are in the log and indexed. */
  onFollowed(number: number): void
  onFollowFailed(reason: string): void
  /** The lane has news; call `drain`. */
  onWake(): void
}

export type DecodeLaneStart = Omit<DecodeLaneData, 'requests' | 'outcomes' | 'wake' | 'prepared'> & {
  /** How many lanes decode: this one, and those that prepare batches for it. */
  readonly lanes: number
}

/** What main submits; `DecodeLane` adds the other fields. */
export type SubmittedRequest = Omit<IngestRequest, 'preparedSlot' | 'ticket'>

interface PrepareLane {
  readonly lane: Lane
  readonly requests: SpscRing
}

export class DecodeLane {
  readonly #lane: Lane
  readonly #requests = SpscRing.create(REQUESTS_RING_BYTES)
  readonly #outcomes = SpscRing.create(OUTCOMES_RING_BYTES)
  readonly #wake = new Int32Array(new SharedArrayBuffer(4))
  readonly #prepared: PreparedBatches | null
  readonly #preparing: readonly PrepareLane[]
  readonly #freeSlots: number[]
  readonly #slotOf = new Map<number, number>()
  /** Index of the preparing lane that gets the next request. */
  #nextPreparing = 0
  readonly #listener: DecodeLaneListener
  readonly #ready: { promise: Promise<number>; resolve(records: number): void; reject(error: Error): void }

  /** The lane takes requests at once; it works on them when it has rebuilt its index (`ready`). */
  static start(start: DecodeLaneStart, listener: DecodeLaneListener): DecodeLane {
    return new DecodeLane(start, listener)
  }

  private constructor({ lanes, ...start }: DecodeLaneStart, listener: DecodeLaneListener) {
    const slots = SLOTS_PER_LANE * (lanes - 1)
    this.#prepared = slots === 0 ? null : PreparedBatches.create(slots)
    this.#freeSlots = Array.from({ length: slots }, (_, slot) => slot)
    this.#listener = listener
    this.#ready = Promise.withResolvers<number>()
    this.#ready.promise.catch(() => {}) // a death before `ready` is also reported by onDeath
    const data: DecodeLaneData = {
      ...start,
      requests: this.#requests.shared,
      outcomes: this.#outcomes.shared,
      wake: this.#wake.buffer,
      prepared: this.#prepared?.shared ?? null,
    }
    this.#lane = Lane.start({
      name: 'logstore decode',
      filename: LANE_FILE,
      workerData: data,
      resourceLimits: THREAD_HEAP,
      onMessage: (message) => this.#hear(message as DecodeLaneMessage), // workers/decode.ts posts nothing else
      onDeath: (error) => {
        for (const { lane } of this.#preparing) void lane.terminate()
        this.drain()
        this.#ready.reject(error)
        listener.onDeath(error)
      },
    })
    this.#preparing = Array.from({ length: lanes - 1 }, () => this.#startPreparing(start))
  }

  #startPreparing({ arena, maxBodyBytes, policy }: Omit<DecodeLaneStart, 'lanes'>): PrepareLane {
    const requests = SpscRing.create(REQUESTS_RING_BYTES)
    const data: PrepareLaneData = {
      arena,
      maxBodyBytes,
      policy,
      requests: requests.shared,
      prepared: this.#prepared!.shared,
    }
    const lane = Lane.start({
      name: 'logstore prepare',
      filename: PREPARE_FILE,
      workerData: data,
      onMessage: () => {},
      onDeath: () => void this.#lane.terminate(),
    })
    return { lane, requests }
  }

  /** Resolves with the number of records the active segment held when the lane started. */
  get ready(): Promise<number> {
    return this.#ready.promise
  }

  /** False when the lane's ring is full: shed. */
  trySubmit(submitted: Readonly<SubmittedRequest>): boolean {
    const at = this.#requests.tryReserve(REQUEST_BYTES)
    if (at < 0) return false
    writeRequest(this.#requests.bytes, at, this.#prepare(submitted))
    this.#requests.publish()
    return true
  }

  /** Gives the request to a preparing lane, when there is a slot for it. */
  #prepare(submitted: Readonly<SubmittedRequest>): IngestRequest {
    const slot = this.#freeSlots.at(-1)
    if (slot === undefined) return { ...submitted, preparedSlot: NOT_PREPARED, ticket: 0 }
    const { requests } = this.#preparing[this.#nextPreparing]!
    this.#nextPreparing = (this.#nextPreparing + 1) % this.#preparing.length
    const at = requests.tryReserve(REQUEST_BYTES)
    if (at < 0) return { ...submitted, preparedSlot: NOT_PREPARED, ticket: 0 }
    this.#freeSlots.pop()
    this.#slotOf.set(submitted.request, slot)
    const request = { ...submitted, preparedSlot: slot, ticket: this.#prepared!.queue(slot) }
    writeRequest(requests.bytes, at, request)
    requests.publish()
    return request
  }

  #freeSlot(request: number): void {
    const slot = this.#slotOf.get(request)
    if (slot === undefined) return
    this.#slotOf.delete(request)
    this.#freeSlots.push(slot)
  }

  /** Hands over all outcomes there are. */
  drain(): void {
    Atomics.store(this.#wake, 0, 0)
    const ring = this.#outcomes
    for (let at = ring.next(); at >= 0; at = ring.next()) {
      const outcome = readOutcomeHead(ring.bytes, at)
      const tailAt = at + OUTCOME_HEAD_BYTES
      if (outcome.kind === SEGMENT_OPENED) this.#listener.onSegmentOpened(outcome.position, outcome.collapsed)
      else {
        this.#freeSlot(outcome.request)
        this.#listener.onOutcome(outcome, ring.bytes.subarray(tailAt, tailAt + outcome.tailBytes))
      }
      ring.release()
    }
  }

  applyPolicy(policy: TenantPolicy): void {
    this.#control({ kind: 'policy', policy })
    for (const { lane, requests } of this.#preparing) {
      lane.post({ kind: 'policy', policy })
      requests.wake()
    }
  }

  publishBundle(bundle: BundlePlace): void {
    this.#control({ kind: 'bundle-published', bundle })
  }

  dropBundle(base: number): void {
    this.#control({ kind: 'bundle-dropped', base })
  }

  /** Frames of the cluster's leader become frames of this log. */
  follow({ number, bytes }: LeaderFrames): void {
    this.#control({ kind: 'follow', frames: { number, bytes } })
  }

  async stop(): Promise<void> {
    const stopped = this.#lane.stop()
    this.#requests.wake()
    await stopped
    await Promise.all(
      this.#preparing.map(async ({ lane, requests }) => {
        const gone = lane.stop()
        requests.wake()
        await gone
      }),
    )
  }

  /** Kills the thread at once; the owner is told by `onDeath`, as of any death. */
  async terminate(): Promise<void> {
    await this.#lane.terminate()
  }

  #control(message: DecodeLaneControl): void {
    this.#lane.post(message)
    this.#requests.wake()
  }

  #hear(message: DecodeLaneMessage): void {
    const listener = this.#listener
    switch (message.kind) {
      case 'wake':
        return listener.onWake()
      case 'ready':
        return this.#ready.resolve(message.recoveredRecords)
      case 'bundle-unreadable':
        return listener.onBundleUnreadable(message.base, message.code)
      case 'followed':
        return listener.onFollowed(message.number)
      case 'follow-failed':
        return listener.onFollowFailed(message.reason)
    }
  }
}
