/**
 * Two or three sites ship a stream to each other, in random steps. Each site is a broker on simulated files. Batches may arrive never, late,
 * twice or out of order, and so may the answers. Sites are killed, lose power and journals, purge records before they are shipped, and delete
 * the stream and create it again.
 *
 *   two sites    each ships its own records to the other
 *   three sites  a ring: with `forward` each site passes on records of the site before it, but not to the site where they began
 *
 * N1  a site has each record once
 * N2  records of one origin stand in the order in which they were published
 * N3  a record from another site is, or was before a purge, at the site that shipped it: no site ships what a power cut could take back
 * N4  a publish that waits for the target is answered only once the target has the record
 * N5  when nothing is left to ship, each record is where its policies bring it, or the audit stream of its site says that it was skipped
 * N6  the status and the audit stream have the same counts
 */
import assert from 'node:assert/strict'
import { parseReplicaApply } from '../../src/broker/api/replication.ts'
import type { ApplyAnswer } from '../../src/broker/operations/replication-worker.ts'
import { BrokerError } from '../../src/broker/refusals.ts'
import type { StreamState } from '../../src/broker/state/state.ts'
import { parseReplicationBinding } from '../../src/config/replication-binding.ts'
import type { ReplicationPolicy } from '../../src/config/replication-binding.ts'
import { Client } from '../broker/engine/client.ts'
import { BrokerWorld, CALLER, Pending, jsonOf } from '../support/broker-world.ts'
import { pick } from '../support/random-history.ts'
import type { Step, Weights } from '../support/random-history.ts'
import { nextTurn } from '../support/next-turn.ts'
import { mulberry32 } from '../support/sim-files.ts'

const STREAM = 'orders'
const BATCH_RECORDS = 4
const ROUNDS_MAX = 300
const TURNS_MAX = 6

export const SITE_STEPS = [
  ['publish', 12],
  ['publishWaiting', 2],
  ['flush', 12],
  ['step', 8],
  ['stepWithoutNotice', 2],
  ['deliver', 24],
  ['lose', 5],
  ['time', 10],
  ['pause', 1],
  ['resume', 2],
  ['purge', 2],
  ['enforceRetention', 2],
  ['replaceStream', 1],
  ['journalDies', 2],
  ['reopen', 4],
  ['quiesce', 1],
] as const satisfies Weights<string>

export type SiteStep = (typeof SITE_STEPS)[number][0]

interface Sent {
  readonly to: Site
  readonly body: Uint8Array
  /** Null: the sender's process has ended, or it has the answer. */
  settle: { readonly answer: (answer: ApplyAnswer) => void; readonly fail: (error: Error) => void } | null
}

/** A record, with the site where it began and its number there. */
interface Seen {
  readonly id: string
  readonly origin: string
  readonly number: number
}

interface Page {
  readonly records: readonly { readonly offset: number; readonly message_id: string }[]
  readonly next_offset: number
  readonly end_of_stream: boolean
}

interface Skipped {
  readonly kind: string
  readonly detail: Readonly<Record<string, unknown>>
}

class Site {
  readonly name: string
  readonly target: string
  readonly world: BrokerWorld
  readonly forwards: boolean
  /** By id of the record: publishes that are answered once the target has it. */
  readonly waiting = new Map<string, Pending<unknown>>()
  /** Batches that have arrived here and are not answered yet. */
  readonly applying = new Set<Sent>()
  /** Visible records by offset, as of the last look. */
  records = new Map<number, Seen>()
  /** By id: offsets of seen records that a purge or retention removed. */
  readonly removed = new Map<string, number>()
  /** Ids of records of a deleted stream: the laws expect nothing of them. */
  readonly deleted = new Set<string>()
  /** Number of records that retention removed before a look, so that the laws do not know them. 0 if only purges remove records. */
  unseen = 0
  published = 0
  /** All offsets below were looked at, or removed. */
  #lookedAt = 0
  #read: { readonly stream: StreamState; readonly next: number } | null = null

  constructor(name: string, target: string, world: BrokerWorld, forwards: boolean) {
    this.name = name
    this.target = target
    this.world = world
    this.forwards = forwards
  }

  get stream(): StreamState {
    return this.world.core.state.stream(CALLER.tenant, STREAM)!
  }

  get policy(): ReplicationPolicy {
    return this.world.core.policies.of(this.stream)[0]!
  }

  get isBehind(): boolean {
    return this.world.core.policies.lagOf(this.stream, this.policy) > 0
  }

  /** The stream was deleted, and another one created with its name. */
  replaced(): void {
    for (const { id } of this.records.values()) this.deleted.add(id)
    for (const id of this.removed.keys()) this.deleted.add(id)
    this.removed.clear()
    this.records.clear()
    this.#lookedAt = 0
    this.forget()
  }

  /** True if the site had the record at some time. */
  had(id: string): boolean {
    return this.removed.has(id) || this.deleted.has(id)
  }

  /** Forgets the records that were read, as they may be lost. */
  forget(): void {
    this.#read = null
  }

  /** Reads records that became visible since the last look. @returns false when records cannot be read now */
  async look(): Promise<boolean> {
    const { stream, world } = this
    if (this.#read?.stream !== stream) {
      for (const [offset, { id }] of this.records) if (offset < stream.floor) this.removed.set(id, offset)
      this.records = new Map()
      this.#read = { stream, next: stream.floor }
      for (const [id, offset] of this.removed) if (offset >= stream.floor) this.removed.delete(id) // the removal was lost
    }
    this.unseen += Math.max(0, stream.floor - this.#lookedAt)
    this.#lookedAt = Math.max(stream.floor, this.#lookedAt)
    this.#read = { stream, next: Math.max(stream.floor, this.#read.next) }
    for (let { next } = this.#read; next < stream.visibleNext; next = this.#read.next) {
      const start = { by: 'offset', offset: next } as const
      const request = { start, maxRecords: 1000, maxPayloadBytes: null, consumer: null, legacy: false }
      const asked = new Pending(world.broker.replay(CALLER, STREAM, request))
      for (let turns = 0; turns < TURNS_MAX && asked.outcome.kind === 'pending'; turns += 1) await nextTurn()
      if (asked.outcome.kind !== 'answered' || this.stream !== stream) return false
      const page = jsonOf<Page>(asked.value)
      for (const { offset, message_id: id } of page.records) {
        const [origin, number] = id.split('-') as [string, string]
        this.records.set(offset, { id, origin, number: Number(number) })
      }
      this.#read = { stream, next: Math.max(page.next_offset, next) }
      this.#lookedAt = Math.max(this.#lookedAt, this.#read.next)
      if (page.records.length === 0) break
    }
    for (const [offset, { id }] of this.records) {
      if (offset >= stream.floor) break
      this.removed.set(id, offset)
      this.records.delete(offset)
    }
    return true
  }

  /** True if the policy of the site brings this record to the target. */
  ships({ origin }: Seen): boolean {
    return origin === this.name || (this.forwards && origin !== this.target)
  }
}

export class SitesHistory {
  readonly sites: readonly Site[]
  readonly #way: Sent[]
  #certain = true

  static async begin(seed: number): Promise<SitesHistory> {
    const names = seed % 3 === 0 ? ['a', 'b', 'c'] : ['a', 'b']
    const forwards = seed % 2 === 0
    const way: Sent[] = []
    const sites: Site[] = []
    for (const [index, name] of names.entries()) {
      const target = names[(index + 1) % names.length]!
      const policy = {
        name: 'dr',
        streams: [STREAM],
        source_site: name,
        target_site: target,
        target_url: `http://${target}:1`,
        forward: forwards,
        ...(seed % 5 === 0 && { max_lag_records: 5 }),
      }
      const shipping = {
        transport: (_policy: ReplicationPolicy, body: Uint8Array): Promise<ApplyAnswer> =>
          new Promise((answer, fail) => {
            const to = sites.find((site) => site.name === target)!
            way.push({ to, body, settle: { answer, fail } })
            sentBy.set(way.at(-1)!, sites[index]!)
          }),
        random: mulberry32(seed + index),
        batchRecordsMax: BATCH_RECORDS,
      }
      const policies = parseReplicationBinding(JSON.stringify({ policies: [policy] }), {})
      const world = await BrokerWorld.open({ seed: seed + 1000 * index, policies, shipping })
      sites.push(new Site(name, target, world, forwards))
    }
    const retention = seed % 5 === 0 ? { retention: { max_bytes: 120 } } : {}
    for (const { world } of sites) await new Client(world).now(new Client(world).create(STREAM, retention))
    return new SitesHistory(sites, way)
  }

  private constructor(sites: readonly Site[], way: Sent[]) {
    this.sites = sites
    this.#way = way
  }

  async run(step: Step<string>): Promise<void> {
    try {
      await this.#take(step as Step<SiteStep>) // plans have only these kinds
      await nextTurn()
      await this.#check()
    } catch (error) {
      if (error instanceof Error) error.message = `in step ${JSON.stringify(step)}: ${error.message}`
      throw error
    }
  }

  async reopen(how: 'close' | 'kill' | 'crash'): Promise<void> {
    for (const site of this.sites) await this.#restart(site, how)
    await this.#check()
  }

  /** Repairs the network, then lets time pass until nothing is left to ship: N5, N6. */
  async quiesce(): Promise<void> {
    for (const site of this.sites) {
      if (isReadOnly(site)) await this.#restart(site, 'kill') // after its journals died too often
      await this.#control(site, 'resume')
    }
    for (let round = 0; ; round += 1) {
      assert(round < ROUNDS_MAX, 'the sites never catch up')
      for (const { world } of this.sites) {
        await world.flush()
        await world.advance(1000)
        await world.flush()
      }
      const isQuiet = this.#way.length === 0 && this.sites.every((site) => site.applying.size === 0)
      for (const sent of this.#way.splice(0)) await this.#arrive(sent, true, true)
      if (isQuiet && !this.sites.some((site) => site.isBehind)) break
    }
    await this.#check()
    assert(this.#certain, 'all records can be read when nothing is under way')
    for (const site of this.sites) await this.#checkArrived(site)
  }

  /** At the end of a life: each site purges everything and publishes, and the others get the new records. */
  async drain(): Promise<void> {
    await this.quiesce()
    for (const site of this.sites) {
      await this.#purge(site, Infinity)
      this.#publish(site, 3)
    }
    await this.quiesce()
    for (const site of this.sites) await this.#restart(site, 'kill')
    await this.quiesce()
  }

  async #take({ kind, a, b, c, yes }: Step<SiteStep>): Promise<void> {
    const site = pick(this.sites, a)
    const { world } = site
    switch (kind) {
      case 'publish':
        return this.#publish(site, 1 + (b % 8), pick([null, null, 'volatile', 'local-append'] as const, c))
      case 'publishWaiting':
        return this.#publishWaiting(site)
      case 'flush':
        return world.flush()
      case 'step':
        return world.step()
      case 'stepWithoutNotice':
        return world.stepWithoutNotice()
      case 'deliver': {
        const sent = this.#way[b % Math.max(1, this.#way.length)]
        if (sent !== undefined) await this.#arrive(sent, c % 4 > 0, yes || c % 3 === 0)
        return
      }
      case 'lose': {
        const [sent] = this.#way.splice(b % Math.max(1, this.#way.length), 1)
        sent?.settle?.fail(new Error('the test lost the request'))
        return
      }
      case 'time':
        for (const each of this.sites) await each.world.advance(pick([10, 50, 50, 200, 1000, 5000, 40_000], b))
        return
      case 'pause':
      case 'resume':
        return this.#control(site, kind)
      case 'purge':
        return this.#purge(site, b % (site.stream.nextOffset + 1))
      case 'enforceRetention':
        void world.retainer.enforce()
        return
      case 'replaceStream':
        return this.#replaceStream(site)
      case 'journalDies':
        if (isReadOnly(site)) return
        world.mendDisk()
        site.forget()
        return world.journalDies(yes ? 'unheard' : 'heard')
      case 'reopen':
        return this.#restart(site, pick(['close', 'kill', 'crash', 'crash'] as const, b))
      case 'quiesce':
        return this.quiesce()
    }
  }

  #publish(site: Site, count: number, durability: 'volatile' | 'local-append' | null = null): void {
    const client = new Client(site.world)
    for (let i = 0; i < count; i += 1) client.publish(STREAM, `${site.name}-${site.published++}`, durability)
  }

  /** Publishes a record that waits for the target: the stream asks for that only during this call. */
  async #publishWaiting(site: Site): Promise<void> {
    const { world } = site
    const asked = async (default_durability: 'replication-policy:dr' | 'local-disk'): Promise<void> => {
      void new Pending(world.broker.updateStream(CALLER, STREAM, { default_durability }, false))
      await nextTurn()
    }
    await asked('replication-policy:dr')
    const id = `${site.name}-${site.published++}`
    site.waiting.set(id, new Client(world).publish(STREAM, id))
    await asked('local-disk')
  }

  async #control(site: Site, verb: 'pause' | 'resume'): Promise<void> {
    const { world, name, target } = site
    const body = { stream: STREAM, source_site: name, target_site: target }
    void new Pending(
      verb === 'pause' ? world.broker.pauseReplication(CALLER, body) : world.broker.resumeReplication(CALLER, body),
    )
    await world.flush()
  }

  async #purge(site: Site, below: number): Promise<void> {
    await site.world.flush()
    await site.look() // so that the laws know what is purged
    const offset = Math.min(below, site.stream.nextOffset)
    const purged = new Pending(site.world.broker.purgeStream(CALLER, STREAM, { offset }, true))
    await site.world.flush()
    if (!isReadOnly(site)) assert.equal(purged.outcome.kind, 'answered')
  }

  async #replaceStream(site: Site): Promise<void> {
    const { world } = site
    // A new stream of a site that forwards records would forward them again.
    if (isReadOnly(site) || site.forwards) return
    await world.flush()
    if (isReadOnly(site) || !(await site.look())) return
    const deleted = new Pending(world.broker.deleteStream(CALLER, STREAM, true))
    await world.flush()
    if (deleted.outcome.kind !== 'answered') return assert(isReadOnly(site), 'a stream is deleted when it is asked for')
    site.waiting.clear()
    await world.advance(10) // streams are told apart by the time of their creation
    if (world.core.state.stream(CALLER.tenant, STREAM) === undefined) new Client(world).create(STREAM)
    await world.flush()
    site.replaced()
  }

  /** @param isLast the batch does not arrive again. @param isAnswered the sender gets the answer */
  async #arrive(sent: Sent, isLast: boolean, isAnswered: boolean): Promise<void> {
    if (isLast && this.#way.includes(sent)) this.#way.splice(this.#way.indexOf(sent), 1)
    const { to } = sent
    const batch = await parseReplicaApply(JSON.parse(Buffer.from(sent.body).toString()))
    const asked = new Pending(to.world.broker.applyReplica(CALLER, batch))
    to.applying.add(sent)
    asked.onSettled(() => {
      to.applying.delete(sent)
      const { settle } = sent
      if (isAnswered) sent.settle = null
      if (isAnswered) settle?.answer(answerOf(asked))
      else if (isLast) settle?.fail(new Error('the test lost the answer'))
    })
    await nextTurn()
  }

  async #restart(site: Site, how: 'close' | 'kill' | 'crash'): Promise<void> {
    const { world } = site
    for (const sent of this.#way) if (sentBy.get(sent) === site) sent.settle = null
    for (const each of this.sites) for (const sent of each.applying) if (sentBy.get(sent) === site) sent.settle = null
    if (how === 'close') await world.close()
    else world.end(how)
    for (const { settle } of site.applying) settle?.fail(new Error('the target is gone'))
    site.applying.clear()
    site.waiting.clear()
    site.forget()
    world.mendDisk()
    await world.open()
  }

  /** Checks N1 to N4 on the visible records. */
  async #check(): Promise<void> {
    this.#certain = true
    for (const site of this.sites) this.#certain = (await site.look()) && this.#certain
    for (const site of this.sites) {
      const ids = new Set<string>()
      const last = new Map<string, number>()
      for (const { id, origin, number } of site.records.values()) {
        assert(!ids.has(id), `N1: ${site.name} has ${id} twice`)
        assert(!site.removed.has(id), `N1: ${site.name} has ${id} again that went from there`)
        ids.add(id)
        assert(number > (last.get(origin) ?? -1), `N2: ${site.name} has ${id} behind ${origin}-${last.get(origin)}`)
        last.set(origin, number)
      }
    }
    if (!this.#certain) return
    for (const site of this.sites) {
      const target = this.#targetOf(site)
      const here = new Set(Array.from(site.records.values(), ({ id }) => id))
      const there = new Set(Array.from(target.records.values(), ({ id }) => id))
      const lost = Array.from(target.records.values()).filter(
        ({ id, origin }) => origin !== target.name && !here.has(id) && !site.had(id),
      )
      const lostIds = lost.map(({ id }) => id).join()
      assert(lost.length <= site.unseen, `N3: ${target.name} has ${lostIds}, which ${site.name} lost`)
      for (const [id, { outcome }] of site.waiting) {
        if (outcome.kind === 'pending') continue
        site.waiting.delete(id)
        if (outcome.kind !== 'answered') continue
        const isThere = there.has(id) || target.had(id) || target.unseen > 0
        assert(isThere, `N4: ${id} is answered, and ${target.name} has it not`)
      }
    }
  }

  /** N5, N6 */
  async #checkArrived(site: Site): Promise<void> {
    const target = this.#targetOf(site)
    const there = new Set(Array.from(target.records.values(), ({ id }) => id))
    const { world } = site
    const wasThere = (id: string): boolean => there.has(id) || target.had(id)
    const absent = Array.from(site.records.values()).filter((seen) => site.ships(seen) && !wasThere(seen.id))
    const absentIds = absent.map(({ id }) => id).join()
    assert(absent.length <= target.unseen, `N5: ${absentIds} of ${site.name} never came to ${target.name}`)
    const status = new Pending(world.broker.replicationStatus(CALLER))
    const events = await new Client(world).now(new Client(world).events())
    const told = (events as readonly Skipped[]).filter(({ kind }) => kind === 'replication_skipped')
    const toldRecords = told.reduce((sum, { detail }) => sum + Number(detail['skipped_records']), 0)
    const missing = Array.from(site.removed.keys()).filter((id) => {
      const [origin] = id.split('-') as [string]
      return site.ships({ id, origin, number: 0 }) && !wasThere(id)
    })
    assert(
      missing.length <= toldRecords + target.unseen,
      `N5: ${missing.join()} went from ${site.name} unshipped, and it tells of ${toldRecords}`,
    )
    const [checkpoint] = status.value.checkpoints
    if (site.deleted.size > 0) return // the checkpoint counts only for the newest stream
    assert.equal(checkpoint?.skipped_records, toldRecords, `N6: what ${site.name} skipped`)
  }

  #targetOf({ target }: Site): Site {
    return this.sites.find(({ name }) => name === target)!
  }
}

const isReadOnly = ({ world }: Site): boolean => world.log.state.kind === 'read-only'

/** The site that sent each batch. */
const sentBy = new WeakMap<Sent, Site>()

function answerOf({ outcome }: Pending<unknown>): ApplyAnswer {
  if (outcome.kind === 'answered') return { status: 200, text: JSON.stringify(outcome.value), numberIn: () => null }
  assert(outcome.kind === 'refused' && outcome.error instanceof BrokerError, JSON.stringify(outcome))
  const { status, detail, nextExpectedOffset } = outcome.error
  const numberIn = (header: string): number | null =>
    header === 'x-mq-next-expected-offset' ? nextExpectedOffset : null
  return { status, text: JSON.stringify({ error: detail }), numberIn }
}
