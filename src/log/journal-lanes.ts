/** The journal lanes of a log that run, by directory (0: the primary). */
import type { SpscRing } from '../pipeline/spsc-ring.ts'
import type { JournalLane, JournalRequest } from './environment.ts'

export class JournalLanes {
  readonly #rings: readonly SpscRing[]
  readonly #lanes: (JournalLane | null)[]

  constructor(rings: readonly SpscRing[]) {
    this.#rings = rings
    this.#lanes = rings.map(() => null)
  }

  /** The replicas whose lane runs. */
  get running(): readonly number[] {
    return [...this.#lanes.keys()].filter((replica) => this.#lanes[replica] !== null)
  }

  started(replica: number, lane: JournalLane): void {
    this.#lanes[replica] = lane
  }

  died(replica: number): void {
    this.#lanes[replica] = null
  }

  /** Sends the request to every lane that runs. */
  post(request: JournalRequest): void {
    for (const [replica, lane] of this.#lanes.entries()) {
      lane?.post(request)
      this.#rings[replica]!.wake()
    }
  }

  /** Stops one lane. What is in its ring is written and synced when this resolves. */
  async stop(replica: number): Promise<void> {
    const lane = this.#lanes[replica]
    this.#lanes[replica] = null
    if (!lane) return
    const stopped = lane.stop()
    this.#rings[replica]!.wake()
    await stopped.catch(() => undefined) // the caller goes by what the lane has published
  }

  /** The same for all of them. */
  async stopAll(): Promise<void> {
    await Promise.all(this.#lanes.map((_, replica) => this.stop(replica)))
  }
}
