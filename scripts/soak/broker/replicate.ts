/**
 * kill -9 of two nodes that replicate to each other, under load, in turn and by chance. Publishers send to both sites; each stream that goes over is shipped
 * in one direction, one in both.
 *
 * R1  what was acknowledged at its site is at the other, in its order, once; what was not answered is at both or at neither
 * R2  a record that came from the other site never goes back
 * R3  what is shipped is there when the load is over and both nodes are up, however often they were killed
 */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { Random, mix32 } from '../../../bench/load/random.ts'
import { BrokerServer } from '../../../test/support/broker.ts'
import { Relay, Site, boundTo, policyTo } from '../../../test/support/site.ts'
import type { Fault } from '../../../test/support/site.ts'
import { eventually } from '../../../test/support/waiting.ts'
import { lifeMs } from '../rounds.ts'

export interface ReplicateOptions {
  readonly seed: number
  readonly rounds: number
  readonly liveMsMax?: number
  readonly report?: (line: string) => void
}

export interface ReplicateSummary {
  readonly seed: number
  readonly kills: number
  readonly records: number
  readonly unanswered: number
  readonly faults: number
}

const SEGMENT_BYTES = 1 << 20
const BATCH_MAX = 40
const PAUSE_MS = 10
/** Share of the requests between the sites, per cent. */
const FAULT_PERCENT = 15
const FAULTS = ['lost', 'unanswered', 'twice', 'late'] as const satisfies readonly Fault[]
const NAMES = ['a', 'b'] as const
type Name = (typeof NAMES)[number]
const BOTH = 'orders'
const streamOf = (site: Name): string => `orders.${site}`

/** Publishes to one site, without a pause; knows what was answered. */
class Publisher {
  readonly sure: string[] = []
  readonly unsure = new Set<string>()
  readonly stream: string
  readonly #site: Site
  readonly #prefix: string
  readonly #random: Random
  #sent = 0
  #isOver = false

  constructor(site: Site, name: Name, stream: string, random: Random) {
    this.stream = stream
    this.#site = site
    this.#prefix = `${name}:`
    this.#random = random
  }

  async run(): Promise<void> {
    while (!this.#isOver) {
      const ids = Array.from({ length: this.#random.between(1, BATCH_MAX) }, () => `${this.#prefix}${this.#sent++}`)
      try {
        const { published_count } = await this.#site.publish(this.stream, ids)
        assert.equal(published_count, ids.length)
        this.sure.push(...ids)
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error
        for (const id of ids) this.unsure.add(id) // its node was killed
        await sleep(5 * PAUSE_MS)
      }
      await sleep(this.#random.between(0, 2 * PAUSE_MS))
    }
  }

  stop(): void {
    this.#isOver = true
  }

  /** R1. The publisher's own records in a stream, in order. */
  assertIn(ids: readonly string[], where: string): readonly string[] {
    const own = ids.filter((id) => id.startsWith(this.#prefix))
    assert.equal(new Set(own).size, own.length, `${where} has a record twice`)
    const certain = own.filter((id) => !this.unsure.has(id))
    assert.deepEqual(certain, this.sure, `${where}, what was acknowledged`)
    return own
  }
}

/** @throws AssertionError when a record is missing, there twice, or out of order */
export async function runReplicateRounds(options: ReplicateOptions): Promise<ReplicateSummary> {
  const { seed, rounds, liveMsMax = 2000, report } = options
  const random = new Random(mix32(seed))
  const sites: Partial<Record<Name, Site>> = {}
  const relays = [await Relay.open(() => sites.b!.node.url), await Relay.open(() => sites.a!.node.url)] as const
  let faults = 0
  for (const relay of relays) {
    relay.faultOf = () => {
      if (random.between(1, 100) > FAULT_PERCENT) return 'none'
      faults += 1
      return random.pick(FAULTS)
    }
  }
  const segments = ['--segment-bytes', String(SEGMENT_BYTES)]
  const a = new Site(await BrokerServer.start({ flags: [...boundTo([policyTo(relays[0].url)]), ...segments] }))
  const back = policyTo(relays[1].url, { source_site: 'b', target_site: 'a' })
  const b = new Site(await BrokerServer.start({ flags: [...boundTo([back]), ...segments] }))
  Object.assign(sites, { a, b })
  for (const site of [a, b]) for (const stream of [BOTH, ...NAMES.map(streamOf)]) await site.create(stream)
  const publishers = NAMES.flatMap((name) =>
    [BOTH, streamOf(name)].map((stream) => new Publisher(sites[name]!, name, stream, new Random(random.uint32()))),
  )
  const working = Promise.all(publishers.map((each) => each.run()))
  working.catch(() => {}) // seen below
  try {
    for (let round = 1; round <= rounds; round += 1) {
      await Promise.race([sleep(lifeMs(random, liveMsMax)), working])
      const victims = random.pick([[a], [b], [a, b]])
      for (const { node } of victims) await node.kill()
      for (const { node } of victims) await node.startAgain()
      const records = publishers.reduce((sum, { sure }) => sum + sure.length, 0)
      report?.(`${round}: killed ${victims.length}, ${records} records, ${faults} faults between the sites`)
    }
    for (const publisher of publishers) publisher.stop()
    await working
    for (const relay of relays) relay.faultOf = () => 'none'
    await assertEqual(a, b, publishers)
  } finally {
    for (const publisher of publishers) publisher.stop()
    for (const relay of relays) relay.close()
    await Promise.all([a.node.kill(), b.node.kill()])
  }
  return {
    seed,
    kills: rounds,
    records: publishers.reduce((sum, { sure }) => sum + sure.length, 0),
    unanswered: publishers.reduce((sum, { unsure }) => sum + unsure.size, 0),
    faults,
  }
}

/** R1 to R3 */
async function assertEqual(a: Site, b: Site, publishers: readonly Publisher[]): Promise<void> {
  for (const stream of [BOTH, ...NAMES.map(streamOf)]) {
    await eventually(async () => {
      const [here, there] = [await a.ids(stream), await b.ids(stream)]
      return here.length === there.length
    })
    const [here, there] = [await a.ids(stream), await b.ids(stream)]
    assert.deepEqual(here.toSorted(), there.toSorted(), `${stream} at both sites`)
    for (const publisher of publishers.filter((each) => each.stream === stream)) {
      assert.deepEqual(publisher.assertIn(here, `${stream} at a`), publisher.assertIn(there, `${stream} at b`))
    }
  }
}
