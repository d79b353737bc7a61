/** All actors that work on the broker, and the checks of their work. */
import assert from 'node:assert/strict'
import { mix32, Random } from '../../../bench/load/random.ts'
import { CreateStreamReply } from '../../../src/broker/wire/record-answers.ts'
import { eventually } from '../../../test/support/waiting.ts'
import { CheckedCrew } from '../crew.ts'
import type { Actor } from './actor.ts'
import { Checks } from './checks.ts'
import { CursorKeeper } from './cursor-keeper.ts'
import { LifeKeeper } from './life-keeper.ts'
import { Publisher } from './publisher.ts'
import { Reader } from './reader.ts'
import { Scene, lifeName } from './scene.ts'
import { Shipper } from './shipper.ts'
import { Streamer } from './streamer.ts'
import { Worker } from './worker.ts'

const PUBLISHERS_PER_STREAM = 2
const LIFE_KEEPERS = 3
/** Streams whose groups are worked on over the streaming connection as well. */
const STREAMED: ReadonlySet<string> = new Set(['plain', 'kept'])

export interface LoadOptions {
  readonly seed: number
  readonly replicated?: boolean
  /** See SceneOptions. Default: as `replicated`, as any of the directories may be lost. */
  readonly onlyDurable?: boolean
  /** About how long each actor pauses between two requests. */
  readonly pauseMs?: number
  readonly workersPerGroup?: number
  /** No actor changes and deletes streams, ships from elsewhere, or uses the streaming connection: where failures leave it open what happened. */
  readonly onlyWorkers?: boolean
}

export class Load extends CheckedCrew<Scene> {
  protected readonly checks: Checks
  readonly #actors: readonly Actor[]

  /** Creates the streams, then starts all actors. */
  static async start(authority: () => string, options: LoadOptions): Promise<Load> {
    const load = new Load(authority, options)
    await load.#createStreams()
    load.begin(load.#actors)
    return load
  }

  private constructor(authority: () => string, options: LoadOptions) {
    const {
      seed,
      replicated = false,
      onlyDurable = replicated,
      pauseMs = 4,
      workersPerGroup = 3,
      onlyWorkers = true,
    } = options
    const scene = new Scene({ authority, replicated, onlyDurable })
    super(scene, new Random(mix32(seed)))
    const nextSeed = (): number => this.random.uint32()
    const keepers = Array.from(
      { length: onlyWorkers ? 0 : LIFE_KEEPERS },
      (_, n) => new LifeKeeper(scene, lifeName(n), nextSeed(), 2 * pauseMs),
    )
    const shippers = onlyWorkers ? [] : [new Shipper(scene, nextSeed(), 4 * pauseMs)]
    const streamed = onlyWorkers ? [] : scene.groups.filter(({ stream }) => STREAMED.has(stream.name))
    this.checks = new Checks(scene, new Random(nextSeed()), [...keepers, ...shippers])
    this.#actors = [
      ...scene.workStreams.flatMap((stream) =>
        Array.from({ length: PUBLISHERS_PER_STREAM }, () => new Publisher(scene, stream, nextSeed(), pauseMs)),
      ),
      ...scene.groups.flatMap((group) =>
        Array.from({ length: workersPerGroup }, () => new Worker(scene, group, nextSeed(), pauseMs)),
      ),
      ...scene.groups.map((group, n) => {
        const cursors = scene.cursors.filter((cursor) => cursor.group === group)
        return new CursorKeeper(scene, cursors, `keeper-${n}`, nextSeed(), 4 * pauseMs)
      }),
      new Reader(scene, nextSeed(), pauseMs),
      new Reader(scene, nextSeed(), pauseMs),
      ...keepers,
      ...shippers,
      ...streamed.map((group) => new Streamer(scene, group, nextSeed(), pauseMs)),
    ]
  }

  get deliveries(): number {
    return this.scene.groups.reduce((sum, group) => sum + group.deliveries, 0)
  }

  get records(): number {
    return this.scene.workStreams.reduce((sum, { storedEnd }) => sum + storedEnd, 0)
  }

  /** While the load goes on. */
  async untilDelivered(deliveries: number): Promise<void> {
    const due = this.deliveries + deliveries
    await this.during(eventually(() => this.deliveries >= due))
  }

  /** Stops all actors; then everything left is worked off and accounted for. */
  async finish(): Promise<void> {
    await this.stopAll()
    await this.checks.drain()
  }

  async #createStreams(): Promise<void> {
    const client = this.scene.newClient()
    for (const { name, plan } of this.scene.streams) {
      this.scene.audit.asked('stream_created', name)
      const answer = await client.request(CreateStreamReply, 'PUT', `/v1/streams/${name}`, { body: plan.body })
      assert(answer?.kind === 'ok')
      this.scene.audit.answered('stream_created', name)
    }
  }
}
