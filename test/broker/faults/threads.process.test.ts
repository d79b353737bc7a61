import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { assertRefused } from '../../support/broker.ts'
import { eventually } from '../../support/waiting.ts'
import { BreakableBroker } from './breakable.ts'

/** Fewer than the five times a minute that a lane is replaced. */
const DEATHS = 3

describe('a journal lane that dies under load', () => {
  it('is replaced: what failed with it did not happen, what was answered did, and nothing else', async (context) => {
    const broker = await BreakableBroker.start(context)
    const { server, faults } = broker
    const load = await broker.load(context)
    load.scene.failures = 'undone'
    for (let death = 0; death < DEATHS; death++) {
      await load.untilDelivered(100)
      const operations = String(load.random.between(1, 60))
      await load.during(eventually(faults.hits('exit-journal', operations, () => load.scene.traffic.failures)))
      await load.during(eventually(async () => (await broker.storage()).status === 'ok'))
      await load.untilDelivered(20)
      await load.hold()
      await load.check()
    }
    await load.checkAfterKill(server)
    await load.finish()
  })
})

describe('a reader thread that dies', () => {
  it('fails what it read as retryable, gives back what was claimed, is replaced, and the next request is right', async (context) => {
    const { server, faults } = await BreakableBroker.start(context)
    const stream = await server.newStream()
    await stream.fill(20)
    const group = stream.group()
    faults.set('exit-read', 'FrameSource.')
    const replayed = await server.request('GET', `${stream.path}/records`)
    assertRefused(replayed, 500, 'internal_error')
    assert.equal(replayed.refusal().retryable, true, replayed.text)
    assert.equal((await stream.replay()).records.length, 20)

    await server.restart() // otherwise the window of the reader still holds the records
    faults.set('exit-read', 'FrameSource.')
    const claimed = await group.tryClaim({ max_messages: 5, lease_timeout_millis: 600_000 })
    assertRefused(claimed, 500, 'internal_error')
    assert.equal(claimed.refusal().retryable, true, claimed.text)
    assert.equal((await group.describe()).in_flight_count, 0)
    const deliveries = await group.claim({ max_messages: 5 })
    assert.deepEqual(
      deliveries.map(({ offset }) => offset),
      [0, 1, 2, 3, 4],
    )
    for (const delivery of deliveries) assert.equal((await delivery.ack()).code, null)
  })

  it('under load costs nothing that was answered', async (context) => {
    const broker = await BreakableBroker.start(context)
    const load = await broker.load(context)
    for (let death = 0; death < DEATHS; death++) {
      await load.untilDelivered(100)
      load.scene.failures = 'unknown'
      broker.faults.set('exit-read', 'FrameSource.')
      const { failures } = load.scene.traffic
      await load.during(eventually(() => load.scene.traffic.failures > failures))
      await load.hold()
      load.scene.failures = 'forbidden'
      await load.check()
    }
    await load.finish()
  })
})

describe('a thread that dies while it writes', () => {
  for (const [what, file] of [
    ['a sidecar', 'index.bin'],
    ['a checkpoint', 'checkpoint-'],
  ] as const) {
    it(`${what} costs the next start some reading, and nothing else`, async (context) => {
      const broker = await BreakableBroker.start(context)
      const { server, faults } = broker
      const load = await broker.load(context)
      faults.set('exit-write', file)
      await load.during(eventually(() => broker.logged('could not be written') > 0))
      await load.untilDelivered(100)
      await load.checkAfterKill(server)
      await load.finish()
    })
  }
})
