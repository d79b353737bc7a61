/** All actors that work on the object store, and the checks of their work. */
import assert from 'node:assert/strict'
import { mix32, Random } from '../../../bench/load/random.ts'
import type { ObjectStoreServer } from '../../../test/support/objectstore.ts'
import { eventually } from '../../../test/support/waiting.ts'
import type { Actor } from '../actor.ts'
import { CheckedCrew } from '../crew.ts'
import { Checks } from './checks.ts'
import { Owner } from './owner.ts'
import type { OwnerOptions } from './owner.ts'
import { Racer } from './racer.ts'
import { Reader } from './reader.ts'
import { BUCKETS, Scene } from './scene.ts'
import { Uploader } from './uploader.ts'

/** Bodies within the frame that commits them, and about as long as fit there; bodies of many extents; bodies that soon are garbage. */
const OWNERS: readonly (Omit<OwnerOptions, 'seed' | 'pauseMs'> & { readonly pauses: number })[] = [
  {
    prefix: 'small-0',
    keys: 30,
    buckets: BUCKETS,
    sizes: [
      [0, 300],
      [1000, 5000],
    ],
    putPercent: 30,
    pauses: 1,
  },
  {
    prefix: 'small-1',
    keys: 30,
    buckets: BUCKETS,
    sizes: [
      [0, 300],
      [65_400, 65_600],
    ],
    putPercent: 30,
    pauses: 1,
  },
  {
    prefix: 'large',
    keys: 10,
    buckets: BUCKETS,
    sizes: [
      [100_000, 900_000],
      [1_000_000, 2_500_000],
    ],
    putPercent: 20,
    pauses: 4,
  },
  { prefix: 'passing', keys: 3, buckets: [BUCKETS[0]], sizes: [[200_000, 400_000]], putPercent: 95, pauses: 1 },
]

export interface LoadOptions {
  readonly seed: number
  /** About how long each actor pauses between two requests. */
  readonly pauseMs?: number
}

export class Load extends CheckedCrew<Scene> {
  protected readonly checks: Checks
  readonly #actors: readonly Actor[]

  /** Creates the buckets, then starts all actors. */
  static async start(server: ObjectStoreServer, options: LoadOptions): Promise<Load> {
    const load = new Load(server, options)
    for (const bucket of BUCKETS) (await server.request('PUT', `/${bucket}`)).succeeded(200)
    load.begin(load.#actors)
    return load
  }

  private constructor(server: ObjectStoreServer, { seed, pauseMs = 4 }: LoadOptions) {
    const random = new Random(mix32(seed))
    const nextSeed = (): number => random.uint32()
    const scene = new Scene(server, nextSeed())
    super(scene, random)
    this.checks = new Checks(scene, new Random(nextSeed()))
    const [a, b] = BUCKETS
    this.#actors = [
      ...OWNERS.map(
        ({ pauses, ...options }) => new Owner(scene, { ...options, seed: nextSeed(), pauseMs: pauses * pauseMs }),
      ),
      new Uploader(scene, { seed: nextSeed(), pauseMs: 4 * pauseMs, prefix: 'parted', bucket: b }),
      new Racer(scene, { seed: nextSeed(), pauseMs: 4 * pauseMs, prefix: 'raced', bucket: a }),
      new Reader(scene, nextSeed(), pauseMs),
      new Reader(scene, nextSeed(), pauseMs),
    ]
  }

  /** Until so many more requests were answered. */
  async untilWorked(operations: number): Promise<void> {
    const { traffic } = this.scene
    const answered = (): number => traffic.operations - traffic.unanswered - traffic.failures
    const due = answered() + operations
    await this.during(eventually(() => answered() >= due))
  }

  /** Until so many more requests were sent. */
  async untilAsked(operations: number): Promise<void> {
    const due = this.scene.traffic.operations + operations
    await this.during(eventually(() => this.scene.traffic.operations >= due))
  }

  /** Stops all actors, and checks everything again. */
  async finish(): Promise<void> {
    this.resume()
    await this.stopAll()
    await this.checks.run(true)
  }

  /** After all actors have stopped: the large objects go, and the space of everything that is garbage comes back. Nothing else changes. */
  async giveBackSpace(segmentBytes: number): Promise<void> {
    const client = this.scene.newInspector()
    for (const ledger of this.scene.keys) {
      if ((ledger.known?.object?.body.size ?? 0) < 100_000) continue
      const version = ledger.ask(null)
      assert.equal((await client.ask('DELETE', ledger.target))?.status, 204)
      ledger.answered(version, null)
    }
    for (const { target, fate, id } of this.scene.uploads.values()) {
      if (fate === 'completed' || fate === 'aborted') continue
      await client.ask('DELETE', target, { expected: ['NoSuchUpload'] })
      this.scene.uploads.delete(id)
    }
    const churn = this.scene.newKey(BUCKETS[0], 'churn')
    const isSmall = async (): Promise<boolean> => {
      // What is written opens segments, which makes checkpoints, without which nothing goes.
      const body = this.scene.bodies.body(this.random, 300_000)
      const object = { body, etag: body.md5, contentType: 'text/plain', metadata: {}, tags: {} }
      const version = churn.ask(object)
      const reply = await client.ask('PUT', churn.target, {
        body: body.bytes,
        headers: { 'content-type': 'text/plain' },
      })
      churn.answered(version, Number(reply!.header('x-obj-commit-sequence')))
      const [logBytes, liveBytes, end] = await this.gauges('log_bytes', 'live_bytes', 'log_committed_position')
      return logBytes! <= 2 * liveBytes! + 8 * segmentBytes && end! - logBytes! > segmentBytes
    }
    await eventually(isSmall)
    await this.checks.run(true)
  }

  /** Values of the service's gauges. */
  async gauges(...names: readonly string[]): Promise<number[]> {
    const { text } = (await this.scene.server.request('GET', '/v1/metrics')).succeeded(200)
    return names.map((name) => Number(new RegExp(`^objstore_${name} (\\S+)$`, 'm').exec(text)![1]))
  }
}
