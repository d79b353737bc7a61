/** Two real nodes replicate while one is killed or stopped, the network loses and repeats requests, or records are removed before they are sent. */
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import { BrokerServer, assertRefused } from '../../support/broker.ts'
import { Relay, Site, boundTo, numbered, policyTo } from '../../support/site.ts'
import type { Fault } from '../../support/site.ts'
import { eventually } from '../../support/waiting.ts'

const SMALL_SEGMENTS = ['--segment-bytes', String(1 << 20)]

interface Pair {
  readonly source: Site
  readonly target: Site
  readonly relay: Relay
}

async function openPair(more: object = {}): Promise<Pair> {
  const target = new Site(await BrokerServer.start())
  const relay = await Relay.open(() => target.node.url)
  const flags = [...boundTo([policyTo(relay.url, more)]), ...SMALL_SEGMENTS]
  return { source: new Site(await BrokerServer.start({ flags })), target, relay }
}

async function closePair({ source, target, relay }: Pair): Promise<void> {
  await source.node.stop()
  await target.node.stop()
  relay.close()
}

const arrived = (target: Site, stream: string, count: number): Promise<void> =>
  eventually(async () => (await target.ids(stream)).length >= count)

describe('replication between two sites', () => {
  let pair: Pair
  let stream = ''
  let streams = 0
  before(async () => (pair = await openPair()))
  beforeEach(() => {
    streams += 1
    stream = `orders-${streams}`
    pair.relay.faultOf = () => 'none'
  })
  after(() => closePair(pair))

  it('brings each record once and in order, whichever node is killed', async () => {
    const { source, target } = pair
    await source.create(stream)
    for (let round = 0; round < 6; round += 1) {
      await source.publish(stream, numbered(500 * round, 500 * (round + 1)))
      const victim = round % 2 === 0 ? source : target
      await victim.node.kill()
      await victim.node.startAgain()
    }
    await arrived(target, stream, 3000)
    await eventually(async () => (await source.worker(stream)).lag_records === 0)
    assert.deepEqual(await target.ids(stream), numbered(0, 3000))
  })

  it('does so over a way that loses, repeats and reorders', async () => {
    const { source, target, relay } = pair
    const faults: readonly Fault[] = ['none', 'lost', 'twice', 'unanswered', 'none', 'late', 'twice', 'unanswered']
    relay.faultOf = (number) => faults[number % faults.length]!
    const requestsBefore = relay.requests
    await source.create(stream)
    for (let from = 0; from < 6000; from += 1000) await source.publish(stream, numbered(from, from + 1000))
    await arrived(target, stream, 6000)
    assert.deepEqual(await target.ids(stream), numbered(0, 6000))
    assert(relay.requests > requestsBefore + 6)
  })

  it('a target that stands still holds publishes of its policy up until they are refused, and gets their records when it goes on', async () => {
    const { source, target } = pair
    await source.create(stream, { default_durability: 'replication-policy:dr' })
    await source.publish(stream, numbered(0, 1))
    target.node.signal('SIGSTOP')
    const waiting = await source.node.request('POST', `/v1/streams/${stream}/records`, {
      message_id: 'm-1',
      payload: 'x',
    })
    assertRefused(waiting, 503, 'replication_unavailable')
    assert.notEqual(waiting.headers.get('retry-after'), null)
    target.node.signal('SIGCONT')
    await arrived(target, stream, 2)
    assert.deepEqual(await target.ids(stream), numbered(0, 2))
  })

  it('a target that is gone has publishes of its policy refused before they are stored, and is caught up when it is back', async () => {
    const { source, target } = pair
    await source.create(stream, { default_durability: 'replication-policy:dr' })
    await target.node.kill()
    const first = await source.node.request('POST', `/v1/streams/${stream}/records`, {
      message_id: 'm-0',
      payload: 'x',
    })
    assertRefused(first, 503, 'replication_unavailable') // but stored: the source did not know yet that the target cannot be reached
    assert.equal((await source.worker(stream)).state, 'failing')
    const second = await source.node.request('POST', `/v1/streams/${stream}/records`, {
      message_id: 'm-1',
      payload: 'x',
    })
    assertRefused(second, 503, 'replication_unavailable')
    assert.deepEqual(await source.ids(stream), numbered(0, 1))
    await target.node.startAgain()
    await source.poll()
    assert.deepEqual(await target.ids(stream), numbered(0, 1))
    assert.deepEqual((await source.publish(stream, ['m-1'])).replication_receipt?.next_expected_offset, 2)
  })

  it('a stream that is created anew under its name is replicated from its beginning', async () => {
    const { source, target } = pair
    await source.create(stream)
    await source.publish(stream, numbered(0, 5))
    await source.poll()
    assert.equal((await source.node.request('DELETE', `/v1/streams/${stream}`)).status, 200)
    await source.create(stream)
    await source.publish(stream, numbered(5, 7))
    await source.poll()
    assert.deepEqual(await target.ids(stream), numbered(0, 7))
  })
})

describe('replication', () => {
  it('holds retention back; beyond max_lag_records it goes on, the worker lags, the loss is audited, and the target skips it', async () => {
    const pair = await openPair({ max_lag_records: 50 })
    const { source, target, relay } = pair
    relay.faultOf = () => 'lost'
    await source.create('orders', { retention: { max_bytes: 100 } })
    await source.publish('orders', numbered(0, 50))
    const plan = async (): Promise<number> => {
      const reply = await source.node.request('GET', '/streams/orders/retention/dry-run')
      return (JSON.parse(reply.text) as { planned_first_offset: number }).planned_first_offset
    }
    assert.equal(await plan(), 0)
    await source.publish('orders', numbered(50, 100))
    assert.equal((await source.worker('orders')).lagging, true)
    assert.equal((await source.status()).status, 'failing')
    assert((await plan()) > 80)
    await eventually(async () => (await source.events('replication_skipped')).length > 0)
    const [event] = await source.events('replication_skipped')
    const first = (await source.node.stream('orders').describe()).first_offset
    assert.equal(event?.stream, 'orders')
    assert.deepEqual(event.detail, {
      source_site: 'a',
      target_site: 'b',
      policy: 'dr',
      from_offset: 0,
      to_offset: first,
      skipped_records: first,
    })
    relay.faultOf = () => 'none'
    await source.poll()
    assert.deepEqual(await target.ids('orders'), numbered(first, 100))
    const { targets } = await target.status()
    assert.deepEqual([targets[0]?.next_expected_offset, targets[0]?.skipped_records], [100, first])
    await source.node.restart()
    await source.publish('orders', numbered(100, 110))
    await source.poll()
    assert.deepEqual(await target.ids('orders'), numbered(first, 110))
    assert.equal((await source.events('replication_skipped')).length, 1)
    await closePair(pair)
  })

  it('between two sites that replicate each other, each record is at both, once, also when one is killed', async () => {
    const way: { b: BrokerServer | null } = { b: null }
    const relay = await Relay.open(() => way.b!.url)
    const a = new Site(await BrokerServer.start({ flags: boundTo([policyTo(relay.url)]) }))
    const back = await Relay.open(() => a.node.url)
    const toA = { source_site: 'b', target_site: 'a' }
    const b = new Site(await BrokerServer.start({ flags: boundTo([policyTo(back.url, toA)]) }))
    way.b = b.node
    await a.create('orders')
    await b.create('orders')
    for (let round = 0; round < 20; round += 1) {
      await Promise.all([a.publish('orders', [`a-${round}`]), b.publish('orders', [`b-${round}`])])
      if (round === 10) await b.node.kill().then(() => b.node.startAgain())
    }
    const all = ['a', 'b'].flatMap((site) => Array.from({ length: 20 }, (_, round) => `${site}-${round}`)).toSorted()
    for (const site of [a, b]) {
      await eventually(async () => (await site.ids('orders')).length >= all.length)
      await site.poll()
    }
    for (const site of [a, b]) assert.deepEqual((await site.ids('orders')).toSorted(), all)
    const own = (ids: readonly string[], site: string): string[] => ids.filter((id) => id.startsWith(site))
    for (const site of ['a', 'b']) assert.deepEqual(own(await a.ids('orders'), site), own(await b.ids('orders'), site))
    await a.node.stop()
    await b.node.stop()
    relay.close()
    back.close()
  })

  it('in a circle of sites that forward, each record is at each site, once', async () => {
    const names = ['a', 'b', 'c']
    const sites: Site[] = []
    const relays = await Promise.all(names.map((_, i) => Relay.open(() => sites[(i + 1) % 3]!.node.url)))
    for (const [i, source_site] of names.entries()) {
      const policy = policyTo(relays[i]!.url, { source_site, target_site: names[(i + 1) % 3], forward: true })
      sites.push(new Site(await BrokerServer.start({ flags: boundTo([policy]) })))
    }
    for (const site of sites) await site.create('orders') // here, as the first record from another site would create it
    for (const [i, site] of sites.entries()) await site.publish('orders', [`${names[i]}-0`, `${names[i]}-1`])
    const all = names.flatMap((name) => [`${name}-0`, `${name}-1`])
    for (const site of sites) await eventually(async () => (await site.ids('orders')).length >= all.length)
    for (const site of [...sites, ...sites]) await site.poll()
    for (const site of sites) assert.deepEqual((await site.ids('orders')).toSorted(), all)
    for (const site of sites) await site.node.stop()
    for (const relay of relays) relay.close()
  })
})
