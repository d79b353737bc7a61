import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import {
  HELD_BODY_BYTES_MAX,
  SILENT_GRACE_MS,
  SLOW_BYTES_PER_SECOND,
  SLOW_GRACE_MS,
  WAITED_CLIENTS_MAX,
} from '../../src/http/limits.ts'
import type { Link } from '../../src/linked-list.ts'
import { Pace, ServedTime, WaitedClients, slowestOf } from '../../src/http/slow-clients.ts'
import type { WaitedClient } from '../../src/http/slow-clients.ts'
import { TestClock } from '../support/http-server.ts'

class TestClient implements WaitedClient {
  isGivenUp = false
  heldBytes = 0
  rate: number | null
  readonly #clients: WaitedClients<TestClient> | null
  readonly #link: Link<TestClient> | undefined

  constructor(rate: number | null, clients: WaitedClients<TestClient> | null = null) {
    this.rate = rate
    this.#clients = clients
    this.#link = clients?.add(this)
  }

  slowRate(): number | null {
    return this.rate
  }

  giveUp(): void {
    this.isGivenUp = true
    if (this.#link) this.#clients?.remove(this.#link)
    this.#clients?.hold(-this.heldBytes)
    this.heldBytes = 0
  }

  hold(bytes: number): this {
    this.heldBytes += bytes
    this.#clients?.hold(bytes)
    return this
  }
}

describe('the pace of a client', () => {
  it('is never slow while it moves at least so much a second, in whatever pieces, at whatever time', () => {
    const steps = fc.array(fc.record({ ms: fc.integer({ min: 1, max: 1000 }), times: fc.integer({ min: 1, max: 4 }) }))
    fc.assert(
      fc.property(steps, (all) => {
        let nowMs = 0
        const pace = new Pace(nowMs)
        for (const { ms, times } of all) {
          nowMs += ms
          for (let i = 0; i < times; i++) pace.moved(Math.ceil((SLOW_BYTES_PER_SECOND * ms) / 1000 / times), nowMs)
          assert.equal(pace.slowRate(nowMs), null, `at ${nowMs}`)
        }
      }),
    )
  })

  it('is slow when it drips, after a short grace, and when it is silent, after a longer one', () => {
    const drips = new Pace(0)
    const silent = new Pace(0)
    for (const nowMs of [500, 1000, 1500]) drips.moved(1, nowMs)
    assert.equal(drips.slowRate(SLOW_GRACE_MS - 1), null)
    assert.notEqual(drips.slowRate(SLOW_GRACE_MS), null)
    assert.equal(silent.slowRate(SILENT_GRACE_MS - 1), null)
    assert.equal(silent.slowRate(SILENT_GRACE_MS), 0)
  })

  it('is that of late: who was fast and stalls becomes slow, and who waits for the server does not', () => {
    const pace = new Pace(0)
    for (let nowMs = 0; nowMs <= 5000; nowMs += 100) pace.moved(100_000, nowMs)
    assert.equal(pace.slowRate(10_000), null)
    assert.notEqual(pace.slowRate(40_000), null)
    assert.equal(new Pace(40_000).slowRate(40_000 + SLOW_GRACE_MS), null)
  })
})

describe('the slowest client', () => {
  it('is the one with the lowest rate of those that are slow', () => {
    fc.assert(
      fc.property(fc.array(fc.option(fc.integer({ min: 0, max: 1000 }))), (rates) => {
        const lowest = Math.min(...rates.filter((rate) => rate !== null))
        const slowest = slowestOf(rates.map((rate) => new TestClient(rate)))
        assert.equal(slowest?.slowRate() ?? Infinity, lowest)
      }),
    )
  })

  it('gives way when there is one client more than may be waited for, and nobody does when none is slow', () => {
    const clients = new WaitedClients<TestClient>()
    const slow = new TestClient(2, clients)
    const slower = new TestClient(1, clients)
    const fast = Array.from({ length: WAITED_CLIENTS_MAX }, () => new TestClient(null, clients))
    assert.deepEqual([slower.isGivenUp, slow.isGivenUp], [true, true])
    assert.equal([...clients].length, WAITED_CLIENTS_MAX)
    const more = new TestClient(null, clients)
    assert.ok([...fast, more].every(({ isGivenUp }) => !isGivenUp))
  })

  it('gives way when bodies on their way hold too much memory', () => {
    const clients = new WaitedClients<TestClient>()
    const empty = new TestClient(0, clients)
    const slow = new TestClient(1, clients).hold(HELD_BODY_BYTES_MAX)
    const fast = new TestClient(null, clients)
    slow.hold(-100)
    fast.hold(100)
    assert.equal(slow.isGivenUp, false)
    fast.hold(1)
    assert.deepEqual(
      [slow, fast, empty].map(({ isGivenUp }) => isGivenUp),
      [true, false, false],
    )
  })

  it('gives way later when none was slow yet as too much came to be held, one by one until it is not too much', () => {
    const clients = new WaitedClients<TestClient>(250)
    const holding = Array.from({ length: 5 }, () => new TestClient(null, clients).hold(100))
    clients.giveUpSlowClients()
    assert.ok(holding.every(({ isGivenUp }) => !isGivenUp))
    for (const [i, client] of holding.entries()) client.rate = 5 - i
    clients.giveUpSlowClients()
    assert.deepEqual(
      holding.map(({ isGivenUp }) => isGivenUp),
      [false, false, true, true, true],
    )
  })
})

describe('room for answers', () => {
  it('is given in the order of asking, and counts from then on as held', () => {
    const clients = new WaitedClients<TestClient>(250)
    const granted: number[] = []
    const withdraw = [200, 100, 40].map((bytes) => clients.reserve(bytes, () => void granted.push(bytes)))
    assert.deepEqual(granted, [200], 'the third would fit, and waits behind the second')
    clients.hold(-200)
    assert.deepEqual(granted, [200, 100, 40])
    clients.reserve(200, () => void granted.push(-1))
    withdraw[0]!()
    assert.equal(granted.length, 3, 'what was granted is not given back by that')
  })

  it('is free for others when whoever waits for it goes away', () => {
    const clients = new WaitedClients<TestClient>(250)
    const granted: number[] = []
    clients.reserve(200, () => void granted.push(200))
    const withdraw = clients.reserve(100, () => void granted.push(100))
    clients.reserve(40, () => void granted.push(40))
    withdraw()
    assert.deepEqual(granted, [200, 40])
  })

  it('is made by giving up slow clients that hold memory, as soon as they are slow', () => {
    const clients = new WaitedClients<TestClient>(250)
    const holding = [new TestClient(null, clients).hold(100), new TestClient(null, clients).hold(100)]
    let isGranted = false
    clients.reserve(200, () => (isGranted = true))
    for (const [i, client] of holding.entries()) {
      clients.giveUpSlowClients()
      assert.equal(isGranted, false)
      client.rate = i
    }
    clients.giveUpSlowClients()
    assert.ok(isGranted)
    assert.ok(holding.every(({ isGivenUp }) => isGivenUp))
  })

  it('is there for one that is larger than all that may be held, when nothing is', () => {
    const clients = new WaitedClients<TestClient>(250)
    let isGranted = false
    clients.reserve(300, () => (isGranted = true))
    assert.ok(isGranted)
  })
})

describe('served time', () => {
  it('goes on with the clock, but not while the process stands still', () => {
    const clock = new TestClock()
    const served = new ServedTime(clock)
    clock.advanceMs(10_000)
    assert.equal(served.nowMs, 10_000)
    clock.stopMs(60_000)
    assert.ok(served.nowMs <= 11_000, `${served.nowMs}`)
    served.stop()
  })
})
