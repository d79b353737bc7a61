/** The lane of `workers/cluster.ts`, in a simulated world. Messages from it and to it come a little later, in order. */
import { STREAM_BEGIN } from '../../src/cluster/history.ts'
import { ClusterLane } from '../../src/cluster/lane/cluster-lane.ts'
import type { LaneParts } from '../../src/cluster/lane/cluster-lane.ts'
import { OtherNodes } from '../../src/cluster/lane/other-nodes.ts'
import type { MemberParts, RunningLane } from '../../src/cluster/member/parts.ts'
import { writerOf } from '../../src/cluster/message.ts'
import type { Delivered, Following } from '../../src/cluster/nats/stream-reader.ts'
import type { World } from '../support/log-harness.ts'
import type { SimulatedStream } from './cluster-stream.ts'

const LOG_ID = 0x0102_0304

interface LanesWorld {
  readonly nowMs: number
  readonly isHealed: boolean
  readonly random: () => number
  readonly stream: SimulatedStream<Uint8Array>
  count(what: string): void
}

interface LaneWorld {
  readonly data: Parameters<MemberParts['startLane']>[0]
  readonly events: Parameters<MemberParts['startLane']>[1]
  readonly later: (delayMs: number, run: () => void) => void
}

export class SimulatedLane implements RunningLane {
  readonly #cluster: LanesWorld
  readonly #world: World
  readonly #parts: LaneWorld
  #lane: ClusterLane | null = null
  #next = 0
  #following: Following | null = null
  #isPumping = false
  #isOver = false

  constructor(cluster: LanesWorld, world: World, parts: LaneWorld) {
    this.#cluster = cluster
    this.#world = world
    this.#parts = parts
    this.#tell({ kind: 'stream', logId: LOG_ID, begin: STREAM_BEGIN, first: 1 })
  }

  post(message: Parameters<RunningLane['post']>[0]): void {
    this.#parts.later(0.1, () => {
      if (this.#isOver) return
      if (message.kind !== 'join') return this.#lane?.receive(message)
      this.#lane = new ClusterLane(this.#laneParts(), message)
    })
  }

  async stop(): Promise<void> {
    if (!this.#isOver) this.#lane?.close()
    this.#isOver = true
  }

  step(): void {
    if (this.#isOver || this.#lane === null) return
    if (this.#lane.pause === null) this.#lane.step()
    else this.#cluster.count('gathered')
  }

  die(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#parts.events.onDeath(new Error('killed by the test'))
  }

  /** The process is gone. */
  vanish(): void {
    this.#isOver = true
  }

  pump(): void {
    if (this.#following === null || this.#isPumping) return
    this.#isPumping = true
    this.#parts.later(this.#delayMs(), () => {
      this.#isPumping = false
      const { isHealed, random, stream } = this.#cluster
      if (!isHealed && random() < 0.01) return this.#endReading()
      while (!this.#isOver && this.#following !== null) {
        const countMax = 1 + Math.floor(4 * random())
        const messages: Delivered[] = []
        for (
          let message = stream.at(this.#next);
          message && messages.length < countMax;
          message = stream.at(this.#next)
        ) {
          messages.push({ sequence: this.#next, message })
          this.#next += 1
        }
        if (messages.length === 0) return
        this.#following.delivered(messages)
      }
    })
  }

  /** The stream's consumer is gone, and the lane hears of it. */
  #endReading(): void {
    const following = this.#following
    this.#following = null
    if (!this.#isOver) following?.ended()
  }

  #tell(message: Parameters<LaneWorld['events']['onMessage']>[0]): void {
    this.#parts.later(0.1, () => this.#parts.events.onMessage(message))
  }

  #delayMs(): number {
    const { random, isHealed } = this.#cluster
    return random() + (!isHealed && random() < 0.02 ? 2000 * random() : 0)
  }

  #laneParts(): LaneParts {
    const { data } = this.#parts
    /** Runs later, unless the thread is gone by then. */
    const later = (delayMs: number, run: () => void): void =>
      this.#parts.later(delayMs, () => {
        if (!this.#isOver) run()
      })
    const cluster = this.#cluster
    const { random, stream } = cluster
    const writer = writerOf(data.node, String(Math.floor(random() * 2 ** 40)))
    return {
      data,
      nodes: new OtherNodes({ writer, nowMs: () => cluster.nowMs }),
      files: this.#world.files,
      clock: {
        nowMs: () => cluster.nowMs,
        after: (delayMs, run) => {
          let isCancelled = false
          later(delayMs, () => void (isCancelled || run()))
          return () => void (isCancelled = true)
        },
      },
      random,
      tell: (message) => {
        if (!this.#isOver) this.#tell(message)
      },
      stream: {
        logId: LOG_ID,
        bodyBytesMax: 512,
        publish: (expectedLast, message) =>
          new Promise((resolve) => {
            const isLost = !cluster.isHealed && random() < 0.02
            later(this.#delayMs(), () =>
              stream.publish(expectedLast, message, (sequence) => {
                if (isLost) return
                later(this.#delayMs(), () =>
                  resolve(sequence === null ? { kind: 'refused' } : { kind: 'stored', sequence }),
                )
              }),
            )
          }),
        lookUp: (sequence) =>
          new Promise((resolve) => {
            later(this.#delayMs(), () =>
              stream.lookUp(sequence, (found) => later(this.#delayMs(), () => resolve(found))),
            )
          }),
        ends: async () => ({ first: stream.first, last: stream.last }),
        follow: async (from, following) => {
          this.#next = from
          this.#following = following
          this.pump()
          return () => {
            if (this.#following === following) this.#following = null
          }
        },
        sendToNodes: () => {},
      },
    }
  }
}
