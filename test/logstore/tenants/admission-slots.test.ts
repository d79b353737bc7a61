import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { WaitedClient } from '../../../src/http/slow-clients.ts'
import { AdmissionSlots } from '../../../src/logstore/tenants/admission-slots.ts'

/** A client that holds a slot while its body arrives, at a rate that the test says. */
class Sender implements WaitedClient {
  rate: number | null = null
  isGivenUp = false
  readonly #places: AdmissionSlots
  readonly #tenant: string

  constructor(places: AdmissionSlots, tenant: string) {
    this.#places = places
    this.#tenant = tenant
    assert.equal(places.tryTake(tenant, Infinity), 'taken')
    places.arriving(tenant, this)
  }

  slowRate(): number | null {
    return this.rate
  }

  giveUp(): void {
    this.isGivenUp = true
    this.whole()
    this.#places.release(this.#tenant)
  }

  whole(): void {
    this.#places.arrived(this)
  }
}

const senders = (places: AdmissionSlots, tenant: string, count: number): Sender[] =>
  Array.from({ length: count }, () => new Sender(places, tenant))

describe('places', () => {
  it('that fast senders hold are given to nobody else', () => {
    const places = new AdmissionSlots(3)
    const fast = senders(places, 'a', 3)
    assert.equal(places.tryTake('b', 1), 'all')
    assert.equal(places.tryTake('a', 3), 'all')
    assert.ok(fast.every(({ isGivenUp }) => !isGivenUp))
  })

  it('of the gateway go from the slowest sender, of whatever tenant, to the next request', () => {
    const places = new AdmissionSlots(3)
    const [first, second, third] = senders(places, 'a', 3)
    first!.rate = 20
    second!.rate = 10
    assert.equal(places.tryTake('b', 1), 'taken')
    assert.deepEqual([first!.isGivenUp, second!.isGivenUp, third!.isGivenUp], [false, true, false])
    assert.equal(places.taken, 3)
  })

  it('of a tenant go from its slowest sender to its next request, and from no other tenant', () => {
    const places = new AdmissionSlots(10)
    const [own, fast] = senders(places, 'a', 2)
    const [other] = senders(places, 'b', 1)
    other!.rate = 1
    assert.equal(places.tryTake('a', 2), 'tenant')
    own!.rate = 5
    assert.equal(places.tryTake('a', 2), 'taken')
    assert.deepEqual([own!.isGivenUp, fast!.isGivenUp, other!.isGivenUp], [true, false, false])
    assert.equal(places.taken, 3)
  })

  it('make nobody give up for a request whose own tenant has none', () => {
    const places = new AdmissionSlots(2)
    const [slow] = senders(places, 'a', 1)
    senders(places, 'b', 1)
    slow!.rate = 1
    assert.equal(places.tryTake('b', 1), 'all')
    assert.equal(slow!.isGivenUp, false)
  })

  it('are kept by a request whose body is whole, however slowly it came', () => {
    const places = new AdmissionSlots(1)
    const [sender] = senders(places, 'a', 1)
    sender!.rate = 1
    sender!.whole()
    assert.equal(places.tryTake('b', 1), 'all')
    assert.equal(sender!.isGivenUp, false)
  })
})

describe('places that tenants have shares of', () => {
  const takes = (places: AdmissionSlots, tenant: string, count: number): number => {
    let taken = 0
    for (let i = 0; i < count; i++) if (places.tryTake(tenant, Infinity) === 'taken') taken += 1
    return taken
  }

  it('are all for a tenant that is alone', () => {
    const places = new AdmissionSlots(8, () => 0)
    assert.equal(takes(places, 'flood', 10), 8)
    for (let i = 0; i < 8; i++) places.release('flood')
    assert.equal(takes(places, 'flood', 10), 8)
  })

  it('are kept, when they come free, for a tenant that was refused, until it has its share', () => {
    const places = new AdmissionSlots(8, () => 0)
    assert.equal(takes(places, 'flood', 8), 8)
    for (let held = 0; held < 4; held++) {
      assert.equal(takes(places, 'other', 1), 0)
      places.release('flood')
      assert.equal(takes(places, 'flood', 1), 0)
      assert.equal(takes(places, 'other', 1), 1)
    }
    assert.equal(takes(places, 'other', 1), 0)
    places.release('flood')
    assert.equal(takes(places, 'flood', 1), 1, 'the other has its share')
  })

  it('are not kept from a tenant below its own share', () => {
    const places = new AdmissionSlots(4, () => 0)
    assert.equal(takes(places, 'flood', 4), 4)
    assert.equal(takes(places, 'other', 4), 0)
    places.release('flood')
    assert.equal(takes(places, 'third', 1), 1)
    assert.equal(takes(places, 'other', 1), 0)
  })

  it('are kept for some time only', () => {
    let nowMs = 0
    const places = new AdmissionSlots(2, () => nowMs)
    assert.equal(takes(places, 'flood', 2), 2)
    assert.equal(takes(places, 'other', 1), 0)
    places.release('flood')
    nowMs = 1999
    assert.equal(takes(places, 'flood', 1), 0)
    nowMs = 2000
    assert.equal(takes(places, 'flood', 1), 1)
  })

  it('are given back once each, whatever comes in which order', () => {
    const steps = fc.array(
      fc.record({ tenant: fc.constantFrom('a', 'b', 'c'), does: fc.constantFrom('take', 'give', 'wait') }),
      { maxLength: 60 },
    )
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 6 }), (all, limit) => {
        let nowMs = 0
        const places = new AdmissionSlots(limit, () => nowMs)
        const held: Record<string, number> = { a: 0, b: 0, c: 0 }
        for (const { tenant, does } of all) {
          const sum = held['a']! + held['b']! + held['c']!
          if (does === 'wait') nowMs += 700
          else if (does === 'take') {
            const isTaken = places.tryTake(tenant, Infinity) === 'taken'
            assert(!isTaken || sum < limit)
            assert(isTaken || sum >= limit || held[tenant]! > 0, 'one that has none is refused only when none is free')
            if (isTaken) held[tenant]! += 1
          } else if (held[tenant]! > 0) {
            places.release(tenant)
            held[tenant]! -= 1
          }
          assert.equal(places.taken, held['a']! + held['b']! + held['c']!)
        }
      }),
    )
  })
})
