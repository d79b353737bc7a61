import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Turn } from '../../src/engine/engine.ts'
import { Parked } from '../../src/engine/parked.ts'
import type { Waiting } from '../../src/engine/decision.ts'

const PLACE = { number: 1, queue: 'g1' }
const NEVER_ABANDONED = (): void => {}

/** Gives out numbers one by one to operations that wait for them. */
class Shop {
  readonly stock: number[] = []
  readonly asked: string[] = []
  readonly parked: Parked
  readonly deferred: (() => void)[] = []
  /** Milliseconds by which each look at the clock moves it. */
  lookMs = 0
  nowMs = 0

  constructor(max = 100) {
    this.parked = new Parked({
      nowMs: () => (this.nowMs += this.lookMs),
      waitingMax: max,
      defer: (run) => void this.deferred.push(run),
    })
  }

  wait(
    name: string,
    options: {
      readonly place?: typeof PLACE
      readonly least?: number
      readonly onAbandoned?: Waiting['onAbandoned']
      readonly waitMs?: number
      readonly onServed?: () => void
    } = {},
  ): Visitor {
    const { least = 0, place = PLACE, waitMs = 1000, onAbandoned = NEVER_ABANDONED, onServed = () => {} } = options
    const waiting: Waiting = { kind: 'wait', place, waitMs, takesAny: least === 0, onAbandoned }
    const visitor = new Visitor(this, name, least, waiting, onServed)
    this.parked.park(waiting, visitor)
    return visitor
  }

  wake(...arrived: number[]): void {
    this.stock.push(...arrived)
    this.parked.wake(PLACE.number)
  }

  pass(ms: number): void {
    this.nowMs += ms
    this.parked.endExpired()
  }
}

class Visitor {
  /** The number that it got; null: none in time. */
  got: number | null | 'waits' = 'waits'
  readonly #shop: Shop
  readonly #name: string
  readonly #least: number
  readonly #waiting: Waiting
  readonly #onServed: () => void

  constructor(shop: Shop, name: string, least: number, waiting: Waiting, onServed: () => void) {
    this.#shop = shop
    this.#name = name
    this.#least = least
    this.#waiting = waiting
    this.#onServed = onServed
  }

  decideAgain(leave: () => void): Waiting | null {
    const { stock, asked } = this.#shop
    asked.push(this.#name)
    const found = stock.findIndex((each) => each >= this.#least)
    if (found < 0) return this.#waiting
    leave()
    this.got = stock.splice(found, 1)[0]!
    this.#onServed()
    return null
  }

  decide(turn: Extract<Turn, 'last'>): void {
    assert.deepEqual([turn, this.got], ['last', 'waits'], 'each leaves once (W1)')
    this.got = null
  }
}

const gotOf = (visitors: readonly Visitor[]): readonly Visitor['got'][] => visitors.map(({ got }) => got)

describe('operations that wait', () => {
  it('are served in the order they came (W2)', () => {
    const shop = new Shop()
    const visitors = ['a', 'b', 'c'].map((name) => shop.wait(name))
    shop.wake(7, 8)
    assert.deepEqual(gotOf(visitors), [7, 8, 'waits'])
    assert.equal(shop.parked.count, 1)
  })

  it('are not asked behind one that takes anything and found nothing (W2)', () => {
    const shop = new Shop()
    for (const name of ['a', 'b', 'c']) shop.wait(name)
    shop.wake()
    assert.deepEqual(shop.asked, ['a'])
  })

  it('let those behind them have what is not for them', () => {
    const shop = new Shop()
    const visitors = [shop.wait('picky', { least: 5 }), shop.wait('other')]
    shop.wake(3)
    assert.deepEqual(gotOf(visitors), ['waits', 3])
  })

  it('wait for one queue of one number', () => {
    const shop = new Shop()
    const here = shop.wait('here')
    const elsewhere = shop.wait('elsewhere', { place: { number: 2, queue: 'g1' } })
    const beside = shop.wait('beside', { place: { number: 1, queue: 'g2' } })
    shop.stock.push(1, 2, 3)
    shop.parked.wake(1, 'g2')
    assert.deepEqual(gotOf([here, elsewhere, beside]), ['waits', 'waits', 1])
    shop.parked.wake(1)
    assert.deepEqual(gotOf([here, elsewhere]), [2, 'waits'])
    assert.equal(shop.parked.count, 1)
  })

  it('end with nothing when their time is over, once (W1)', () => {
    const shop = new Shop()
    const long = shop.wait('long', { waitMs: 20 })
    const short = shop.wait('short', { waitMs: 10 })
    shop.pass(9)
    assert.deepEqual(gotOf([short, long]), ['waits', 'waits'])
    shop.pass(1)
    assert.deepEqual(gotOf([short, long]), [null, 'waits'])
    shop.wake(1)
    assert.equal(long.got, 1)
    shop.pass(100)
    assert.equal(shop.parked.count, 0)
  })

  it('end when their client is gone, and take nothing (W1)', () => {
    const shop = new Shop()
    let abandon = (): void => {}
    const gone = shop.wait('gone', { onAbandoned: (listener) => (abandon = listener) })
    const here = shop.wait('here')
    abandon()
    shop.wake(1)
    assert.deepEqual(gotOf([gone, here]), [null, 1])
    abandon()
    assert.equal(shop.parked.count, 0)
  })

  it('do not wait for a client that was gone before', () => {
    const shop = new Shop()
    const gone = shop.wait('gone', { onAbandoned: (listener) => listener() })
    assert.deepEqual([gone.got, shop.parked.count], [null, 0])
    shop.wake(1)
    assert.deepEqual(shop.stock, [1])
  })

  it('are so many at most, and more when some have left', () => {
    const shop = new Shop(2)
    shop.wait('a')
    assert.equal(shop.parked.isFull, false)
    shop.wait('b')
    assert.equal(shop.parked.isFull, true)
    shop.wake(1)
    assert.equal(shop.parked.isFull, false)
  })

  it('end when nobody is served any more, and nobody waits from then on', () => {
    const shop = new Shop()
    const visitors = ['a', 'b'].map((name) => shop.wait(name))
    shop.parked.close()
    visitors.push(shop.wait('late'))
    assert.deepEqual(gotOf(visitors), [null, null, null])
    assert.equal(shop.parked.count, 0)
  })

  it('may be woken by serving another', () => {
    const shop = new Shop()
    const wakeAgain = (): void => shop.parked.wake(PLACE.number) // an appended frame may do this
    const visitors = [shop.wait('first', { onServed: wakeAgain }), shop.wait('second')]
    shop.wake(1, 2)
    assert.deepEqual(gotOf(visitors), [1, 2])
  })

  describe('in many queues of one number (W4)', () => {
    const MANY = 200
    const inQueue = (i: number) => ({ place: { number: PLACE.number, queue: `g${i}` } })

    function woken(): { shop: Shop; visitors: Visitor[] } {
      const shop = new Shop(2 * MANY)
      shop.lookMs = 4
      const visitors = Array.from({ length: MANY }, (_, i) => shop.wait(`${i}`, { ...inQueue(i), waitMs: 1e6 }))
      shop.wake(...visitors.map((_, i) => i))
      assert.ok(shop.asked.length > 0 && shop.asked.length < MANY / 2)
      return { shop, visitors }
    }

    function finish(shop: Shop): void {
      for (let turns = 0; shop.deferred.length > 0; turns++) {
        assert.ok(turns < MANY)
        assert.equal(shop.deferred.length, 1)
        shop.deferred.shift()!()
      }
    }

    it('are asked in slices, those behind a newer wake once more', () => {
      const { shop, visitors } = woken()
      const asked = shop.asked.length
      const [late, picky] = [shop.wait('late', inQueue(0)), shop.wait('picky', { ...inQueue(1), least: 1e6 })]
      shop.wake(1000)
      assert.equal(shop.asked.length, asked)
      finish(shop)
      assert.deepEqual(gotOf([...visitors, late]), [...visitors.keys(), 1000])
      assert.deepEqual(shop.asked.slice(MANY), ['late', 'picky'])
      assert.equal(picky.got, 'waits')
    })

    it('are not asked when they parked after the wake', () => {
      const { shop, visitors } = woken()
      const late = shop.wait('late', inQueue(MANY))
      finish(shop)
      assert.deepEqual(gotOf([...visitors, late]), [...visitors.keys(), 'waits'])
    })

    it('are served before a newcomer to their queue (W2)', () => {
      const { shop, visitors } = woken()
      shop.parked.catchUp(inQueue(MANY - 1).place)
      assert.notEqual(visitors.at(-1)!.got, 'waits')
      assert.equal(visitors.at(-2)!.got, 'waits')
      finish(shop)
      assert.equal(shop.stock.length, 0)
    })
  })

  it('are remembered whatever their number, and their slots used again', () => {
    const shop = new Shop(1000)
    for (let round = 0; round < 3; round += 1) {
      const visitors = Array.from({ length: 300 }, (_, i) => shop.wait(String(i), { waitMs: 1 + ((i * 7) % 100) }))
      shop.pass(50)
      assert.equal(gotOf(visitors).filter((got) => got === null).length, 150)
      shop.pass(50)
      assert.equal(shop.parked.count, 0)
    }
  })
})
