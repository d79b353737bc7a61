import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { WaitedClient } from '../../../src/http/slow-clients.ts'
import { Places } from '../../../src/logstore/tenants/places.ts'

/** Holds a place while its body arrives, at a rate that the test says. */
class Sender implements WaitedClient {
  rate: number | null = null
  isGivenUp = false
  readonly #places: Places
  readonly #tenant: string

  constructor(places: Places, tenant: string) {
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
    this.#places.giveBack(this.#tenant)
  }

  whole(): void {
    this.#places.arrived(this)
  }
}

const senders = (places: Places, tenant: string, count: number): Sender[] =>
  Array.from({ length: count }, () => new Sender(places, tenant))

describe('places', () => {
  it('that fast senders hold are given to nobody else', () => {
    const places = new Places(3)
    const fast = senders(places, 'a', 3)
    assert.equal(places.tryTake('b', 1), 'all')
    assert.equal(places.tryTake('a', 3), 'all')
    assert.ok(fast.every(({ isGivenUp }) => !isGivenUp))
  })

  it('of the gateway go from the slowest sender, of whatever tenant, to the next request', () => {
    const places = new Places(3)
    const [first, second, third] = senders(places, 'a', 3)
    first!.rate = 20
    second!.rate = 10
    assert.equal(places.tryTake('b', 1), 'taken')
    assert.deepEqual([first!.isGivenUp, second!.isGivenUp, third!.isGivenUp], [false, true, false])
    assert.equal(places.taken, 3)
  })

  it('of a tenant go from its slowest sender to its next request, and from no other tenant', () => {
    const places = new Places(10)
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
    const places = new Places(2)
    const [slow] = senders(places, 'a', 1)
    senders(places, 'b', 1)
    slow!.rate = 1
    assert.equal(places.tryTake('b', 1), 'all')
    assert.equal(slow!.isGivenUp, false)
  })

  it('are kept by a request whose body is whole, however slowly it came', () => {
    const places = new Places(1)
    const [sender] = senders(places, 'a', 1)
    sender!.rate = 1
    sender!.whole()
    assert.equal(places.tryTake('b', 1), 'all')
    assert.equal(sender!.isGivenUp, false)
  })
})
