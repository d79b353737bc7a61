/** The claims that a connection holds: it forgets those that are over, and no others. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { HeldClaims } from '../../../src/broker/connection/held-claims.ts'
import type { Pushed } from '../../../src/broker/operations.ts'
import { CALLER } from '../../support/broker-world.ts'
import { HOUR_MS, STREAM, activeLeases, opened, subscribe } from './orders.ts'
import { Talk } from './talk.ts'

const pushed = (claimNumber: number, deliveries = 1): Pushed => ({
  claim: {
    groupNumber: 0,
    claimNumber,
    deliveries: Array.from({ length: deliveries }, (_, offset) => ({ offset, attempt: 1 })),
  },
  subscriptionId: `sub-${claimNumber}`,
  leasedAtMs: 0,
  expiresAtMs: HOUR_MS,
  message: new Uint8Array(),
})

describe('claims that a connection holds', () => {
  it('are forgotten when they are over, though one that came before them goes on', () => {
    const held = new HeldClaims(({ claimNumber }) => (claimNumber === 0 ? 0 : -1))
    for (let i = 0; i < 10_000; i++) held.add(pushed(i))
    assert(held.size < 10, `${held.size} are held`)
    assert(held.take().some(({ claimNumber }) => claimNumber === 0))
  })

  it('are about as many as are leased, however long leases are', () => {
    const LIVING = 100
    let newest = 0
    const held = new HeldClaims(({ claimNumber }) =>
      newest - claimNumber < LIVING || claimNumber % 1000 === 0 ? 0 : -1,
    )
    for (; newest < 20_000; newest++) {
      held.add(pushed(newest))
      assert(held.size <= 3 * LIVING, `${held.size} are held`)
    }
    const claims = new Set(held.take().map(({ claimNumber }) => claimNumber))
    for (let i = newest - LIVING + 1; i < newest; i++) assert(claims.has(i), `claim ${i} is leased`)
    for (let i = 0; i < newest; i += 1000) assert(claims.has(i), `claim ${i} is leased`)
  })

  it('are looked at from the first delivery on that was leased before', () => {
    const looks: number[] = []
    const firsts = [3, 7, 7, -1]
    const held = new HeldClaims((_claim, from) => {
      looks.push(from)
      return firsts[looks.length - 1] ?? 0
    })
    held.add(pushed(0, 10))
    for (let i = 1; i < 20 && looks.length < 4; i++) {
      held.add(pushed(i))
      held.settled(`sub-${i}`, 1)
    }
    assert.deepEqual(looks, [0, 3, 7, 7])
    assert.equal(held.size, 0)
  })
})

describe('when the connection ends', () => {
  it('a lease that was renewed over HTTP is given back, too', async () => {
    const world = await opened({ segmentBytes: 1 << 20 })
    const talk = new Talk(world)
    talk.text(subscribe(1, 7, { lease_timeout_millis: 1000, max_messages: 1 }))
    talk.publish(10, STREAM, 'a', 'b')
    await world.flush()
    const { subscription_id: subscriptionId, delivery_id: deliveryId } = talk.given[0]!
    const path = { stream: STREAM, subscriptionId, deliveryId }
    const renewed = world.broker.renew(CALLER, path, { extend_by_millis: HOUR_MS })
    await world.flush()
    await renewed
    await world.advance(2000)
    talk.publish(20, STREAM, 'c', 'd', 'e', 'f')
    await world.flush()
    assert.deepEqual(
      talk.given.map(({ message_id }) => message_id),
      ['a', 'b', 'b', 'c', 'd', 'e', 'f'],
    )
    await world.advance(2000)
    assert.equal(await activeLeases(world), 1)
    talk.close()
    await world.flush()
    assert.equal(await activeLeases(world), 0)
  })
})
