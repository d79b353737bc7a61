/**
 * Digests of large bodies, computed on lanes. A body stays on one lane.
 *
 * D1  the listener of every body that was begun is told of each of its updates in order, or of `failed` once: its lane died, or had no room
 * D2  a lane that died is replaced when it is needed again; the bodies that it had fail
 * D3  a lane starts with its first body: a store of small objects alone needs none
 */
import { SpscRing } from '../../pipeline/spsc-ring.ts'
import type { BodyDigest, DigestPlan } from './body-digests.ts'
import { REQUEST_BYTES, writeRequest } from './digest-messages.ts'
import type { DigestAnswer, DigestLaneData, DigestRequest } from './digest-messages.ts'

const RING_BYTES = 256 * 1024

export interface DigestListener {
  updated(payloadCrc: number): void
  finished(digest: BodyDigest): void
  /** D1 */
  failed(): void
}

/** A thread, as `src/pipeline/lane.ts` starts it. */
interface DigestThread {
  stop(): Promise<void>
}

export type StartDigestThread = (
  data: DigestLaneData,
  heard: { onMessage(message: unknown): void; onDeath(error: Error): void },
) => DigestThread

export class DigestLanes {
  readonly #start: StartDigestThread
  readonly #arena: SharedArrayBuffer
  readonly #onDeath: (error: Error) => void
  readonly #lanes: (DigestLane | null)[]
  #bodiesEver = 0
  #closed = false

  constructor(
    options: { readonly count: number; readonly arena: SharedArrayBuffer; readonly onDeath: (error: Error) => void },
    start: StartDigestThread,
  ) {
    this.#start = start
    this.#arena = options.arena
    this.#onDeath = options.onDeath
    this.#lanes = Array.from({ length: options.count }, () => null)
  }

  begin(plan: DigestPlan, listener: DigestListener): DigestBody {
    this.#bodiesEver = (this.#bodiesEver + 1) >>> 0
    const number = this.#bodiesEver % this.#lanes.length
    const lane = (this.#lanes[number] ??= this.#startLane(number)) // D3
    return new DigestBody(this.#bodiesEver, lane, plan, listener)
  }

  async close(): Promise<void> {
    this.#closed = true
    await Promise.all(this.#lanes.filter((lane) => lane !== null).map((lane) => lane.stop()))
  }

  #startLane(number: number): DigestLane {
    return new DigestLane(this.#arena, this.#start, (error) => {
      if (this.#closed) return
      this.#lanes[number] = null // D2
      this.#onDeath(error)
    })
  }
}

class DigestLane {
  readonly bodies = new Map<number, DigestListener>()
  readonly #ring = SpscRing.create(RING_BYTES)
  readonly #thread: DigestThread

  constructor(arena: SharedArrayBuffer, start: StartDigestThread, onDeath: (error: Error) => void) {
    this.#thread = start(
      { ring: this.#ring.shared, arena },
      {
        onMessage: (message) => this.#hear(message as DigestAnswer), // digest-loop.ts posts nothing else
        onDeath: (error) => {
          onDeath(error)
          this.#failAll()
        },
      },
    )
  }

  request(request: DigestRequest): boolean {
    const at = this.#ring.tryReserve(REQUEST_BYTES)
    if (at < 0) return false
    writeRequest(request, this.#ring.bytes, at)
    this.#ring.publish()
    return true
  }

  async stop(): Promise<void> {
    const stopped = this.#thread.stop()
    this.#ring.wake()
    await stopped
    this.#failAll()
  }

  #failAll(): void {
    const listeners = [...this.bodies.values()]
    this.bodies.clear()
    for (const listener of listeners) listener.failed()
  }

  #hear(answer: DigestAnswer): void {
    const listener = this.bodies.get(answer.body)
    if (listener === undefined) return // dropped meanwhile
    if (answer.kind === 'updated') return listener.updated(answer.payloadCrc)
    this.bodies.delete(answer.body)
    listener.finished(answer.digest)
  }
}

/** One body on its lane. */
export class DigestBody {
  readonly #number: number
  readonly #lane: DigestLane

  constructor(number: number, lane: DigestLane, plan: DigestPlan, listener: DigestListener) {
    this.#number = number
    this.#lane = lane
    lane.bodies.set(number, listener)
    this.#request({ kind: 'begin', body: number, plan })
  }

  /** @param offset of the bytes in the arena @param crc CRC-32 of what comes before the bytes in their frame */
  update(offset: number, bytes: number, crc: number): void {
    this.#request({ kind: 'update', body: this.#number, offset, bytes, crc })
  }

  finish(): void {
    this.#request({ kind: 'finish', body: this.#number })
  }

  /** Its listener is not called any more. */
  drop(): void {
    if (this.#lane.bodies.delete(this.#number)) this.#lane.request({ kind: 'drop', body: this.#number })
  }

  /** D1: `failed` is called later, as the caller is in the middle of its work. */
  #request(request: DigestRequest): void {
    const listener = this.#lane.bodies.get(this.#number)
    if (listener === undefined || this.#lane.request(request)) return
    this.#lane.bodies.delete(this.#number)
    queueMicrotask(() => listener.failed())
  }
}
