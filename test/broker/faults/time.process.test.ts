import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { assertRefused } from '../../support/broker.ts'
import { eventually, timePasses } from '../../support/waiting.ts'
import { BreakableBroker } from './breakable.ts'

const HOUR_MS = 3_600_000
const PAUSES = 3

describe('a wall clock that jumps', () => {
  for (const [direction, shiftMs] of [
    ['forward', HOUR_MS],
    ['back', -HOUR_MS],
  ] as const) {
    it(`by an hour ${direction} neither ends a lease nor lengthens one, nor a delay`, async (context) => {
      const { server, faults } = await BreakableBroker.start(context)
      const stream = await server.newStream()
      await stream.fill(3)
      const group = stream.group()
      const long = await group.claimOne({ lease_timeout_millis: HOUR_MS })
      const short = await group.claimOne({ lease_timeout_millis: 1000 })
      const delayed = await group.claimOne({ start_offset: 2, lease_timeout_millis: HOUR_MS })
      assert.equal((await delayed.retry(1000)).code, null)
      faults.set('wall-shift', String(shiftMs))
      const published = await stream.publish('after the jump')
      assert(
        Math.abs(published.ingest_time_ms - Date.now() - shiftMs) < HOUR_MS / 2,
        'records have the time on the wall',
      )

      assert.equal((await long.renew(1000)).code, null)
      const again: number[] = []
      while (again.length < 3) {
        for (const { offset } of await group.claim({
          max_messages: 3,
          wait_millis: 2000,
          lease_timeout_millis: HOUR_MS,
        })) {
          again.push(offset)
        }
      }
      assert.deepEqual(
        again.sort((a, b) => a - b),
        [short.offset, delayed.offset, published.offset],
      )
      assertRefused(await short.ack(), 409, 'lease_expired')
      assert.equal((await long.ack()).code, null)
    })
  }

  it('back by an hour while the broker is down does not bring back a lease that ended, nor end one, nor let time fall', async (context) => {
    const { server, faults } = await BreakableBroker.start(context)
    const stream = await server.newStream()
    await stream.fill(2)
    const group = stream.group()
    const ended = await group.claimOne({ lease_timeout_millis: 1 })
    await eventually(async () => (await group.describe()).in_flight_count === 0)
    const held = await group.claimOne({ lease_timeout_millis: HOUR_MS })
    assert.deepEqual([held.offset, held.attempt], [ended.offset, 2])
    await server.stop()
    faults.set('wall-shift', String(-HOUR_MS))
    await server.startAgain()
    assertRefused(await ended.ack(), 409, 'lease_expired')
    const { leases } = await group.leases()
    assert.deepEqual(
      leases.map(({ offset, attempt, state }) => [offset, attempt, state]),
      [[held.offset, 2, 'active']],
    )
    assert.equal((await held.ack()).code, null)
    const { fields } = await group.claimOne()
    assert(fields.leased_at_ms >= held.fields.leased_at_ms, 'time fell')
  })
})

describe('a broker that is stopped for longer than a lease', () => {
  it('refuses the late acknowledgement and gives the record out again', async (context) => {
    const { server } = await BreakableBroker.start(context)
    const stream = await server.newStream()
    await stream.fill(1)
    const late = await stream.group().claimOne({ lease_timeout_millis: 300 })
    server.signal('SIGSTOP')
    await timePasses(600)
    server.signal('SIGCONT')
    assertRefused(await late.ack(), 409, 'lease_expired')
    const again = await stream.group().claimOne()
    assert.deepEqual([again.offset, again.attempt], [0, 2])
    assert.equal((await again.ack()).code, null)
    assertRefused(await late.ack(), 409, 'lease_expired')
  })

  it('under load gives nothing to two workers', async (context) => {
    const broker = await BreakableBroker.start(context)
    const load = await broker.load(context)
    for (let pause = 0; pause < PAUSES; pause++) {
      await load.during(timePasses(load.random.between(100, 600)))
      broker.server.signal('SIGSTOP')
      await timePasses(load.random.between(300, 900))
      broker.server.signal('SIGCONT')
    }
    const before = load.deliveries
    await load.during(eventually(() => load.deliveries > before))
    await load.hold()
    await load.check()
    await load.finish()
  })
})
