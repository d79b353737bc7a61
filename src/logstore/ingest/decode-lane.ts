/**
 * The main thread's side of the decode lane: its rings, its control messages, its death.
 *
 * A lane that died is replaced by one with new rings. What the dead lane had accepted is in its outcomes ring and is read first;
 * everything else it was given is failed by the owner. The successor rebuilds the active segment's index from the log.
 */
import { SpscRing } from '../../pipeline/spsc-ring.ts'
import { Lane } from '../../pipeline/lane.ts'
import { workerFile } from '../../pipeline/worker-file.ts'
import type { TenantPolicy } from '../tenants/tenant-policy.ts'
import type { DecodeLaneControl, DecodeLaneData, DecodeLaneMessage } from './lane-data.ts'
import type { BundlePlace } from '../index/catalog.ts'
import { OUTCOME_HEAD_BYTES, REQUEST_BYTES, SEGMENT_OPENED, readOutcomeHead, writeRequest } from './messages.ts'
import type { IngestRequest, OutcomeHead } from './messages.ts'

const REQUESTS_RING_BYTES = 256 * 1024
const OUTCOMES_RING_BYTES = 4 * 1024 * 1024
const LANE_FILE = workerFile('decode')

export interface DecodeLaneListener {
  /** `tail` is valid during the call only. */
  onOutcome(outcome: OutcomeHead, tail: Buffer): void
  /** The lane indexes the segment at `base` in this one of the node's SegmentIndexes. */
  onSegmentOpened(base: number, index: number): void
  /** Everything the lane left was reported by `onOutcome` before. */
  onDeath(error: Error): void
  onBundleUnreadable(base: number, code: string): void
  /** The lane has news; call `drain`. */
  onWake(): void
}

export type DecodeLaneStart = Omit<DecodeLaneData, 'requests' | 'outcomes' | 'wake'>

export class DecodeLane {
  readonly #lane: Lane
  readonly #requests = SpscRing.create(REQUESTS_RING_BYTES)
  readonly #outcomes = SpscRing.create(OUTCOMES_RING_BYTES)
  readonly #wake = new Int32Array(new SharedArrayBuffer(4))
  readonly #listener: DecodeLaneListener
  readonly #ready: { promise: Promise<number>; resolve(records: number): void; reject(error: Error): void }

  /** The lane takes requests at once; it works on them when it has rebuilt its index (`ready`). */
  static start(start: DecodeLaneStart, listener: DecodeLaneListener): DecodeLane {
    return new DecodeLane(start, listener)
  }

  private constructor(start: DecodeLaneStart, listener: DecodeLaneListener) {
    this.#listener = listener
    this.#ready = Promise.withResolvers<number>()
    this.#ready.promise.catch(() => {}) // a death before `ready` is also reported by onDeath
    const data: DecodeLaneData = {
      ...start,
      requests: this.#requests.shared,
      outcomes: this.#outcomes.shared,
      wake: this.#wake.buffer,
    }
    this.#lane = Lane.start({
      name: 'logstore decode',
      filename: LANE_FILE,
      workerData: data,
      onMessage: (message) => this.#hear(message as DecodeLaneMessage), // workers/decode.ts posts nothing else
      onDeath: (error) => {
        this.drain()
        this.#ready.reject(error)
        listener.onDeath(error)
      },
    })
  }

  /** Resolves with the number of records the active segment held when the lane started. */
  get ready(): Promise<number> {
    return this.#ready.promise
  }

  /** False when the lane's ring is full: shed. */
  trySubmit(request: Readonly<IngestRequest>): boolean {
    const at = this.#requests.tryReserve(REQUEST_BYTES)
    if (at < 0) return false
    writeRequest(this.#requests.bytes, at, request)
    this.#requests.publish()
    return true
  }

  /** Hands over all outcomes there are. */
  drain(): void {
    Atomics.store(this.#wake, 0, 0)
    const ring = this.#outcomes
    for (let at = ring.next(); at >= 0; at = ring.next()) {
      const outcome = readOutcomeHead(ring.bytes, at)
      const tailAt = at + OUTCOME_HEAD_BYTES
      if (outcome.kind === SEGMENT_OPENED) this.#listener.onSegmentOpened(outcome.position, outcome.collapsed)
      else this.#listener.onOutcome(outcome, ring.bytes.subarray(tailAt, tailAt + outcome.tailBytes))
      ring.release()
    }
  }

  applyPolicy(policy: TenantPolicy): void {
    this.#control({ kind: 'policy', policy })
  }

  publishBundle(bundle: BundlePlace): void {
    this.#control({ kind: 'bundle-published', bundle })
  }

  dropBundle(base: number): void {
    this.#control({ kind: 'bundle-dropped', base })
  }

  async stop(): Promise<void> {
    const stopped = this.#lane.stop()
    this.#requests.wake()
    await stopped
  }

  /** Kills the thread where it stands; the owner hears of it as of any death. */
  async terminate(): Promise<void> {
    await this.#lane.terminate()
  }

  #control(message: DecodeLaneControl): void {
    this.#lane.post(message)
    this.#requests.wake()
  }

  #hear(message: DecodeLaneMessage): void {
    if (message.kind === 'wake') this.#listener.onWake()
    else if (message.kind === 'ready') this.#ready.resolve(message.recoveredRecords)
    else this.#listener.onBundleUnreadable(message.base, message.code)
  }
}
