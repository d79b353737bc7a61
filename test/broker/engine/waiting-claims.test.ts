import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { WaitingClaims } from '../../../src/broker/engine/waiting-claims.ts'
import type { Patience } from '../../../src/broker/operations.ts'
import { turn } from '../../support/turn.ts'
import { PATIENT, Pending } from '../../support/broker-world.ts'

const PLACE = { streamNumber: 1, group: 'g1' }

/** Numbers that are given out one by one, and claims that wait for them. */
class Shop {
  readonly stock: number[] = []
  readonly timers = new Map<() => void, number>()
  readonly asked: string[] = []
  readonly waiting: WaitingClaims<number>

  constructor(max = 100) {
    const every = (intervalMs: number, task: () => void): (() => void) => {
      this.timers.set(task, intervalMs)
      return () => void this.timers.delete(task)
    }
    this.waiting = new WaitingClaims({ every }, max)
  }

  wait(
    name: string,
    options: {
      readonly place?: typeof PLACE
      readonly least?: number
      readonly patience?: Patience
      readonly waitMs?: number
    } = {},
  ): Pending<number | null> {
    const { place = PLACE, least = 0, patience = PATIENT, waitMs = 1000 } = options
    const serve = (): number | null => {
      this.asked.push(name)
      const found = this.stock.findIndex((each) => each >= least)
      return found < 0 ? null : this.stock.splice(found, 1)[0]!
    }
    return new Pending(this.waiting.wait(place, { waitMs, takesAny: least === 0, serve }, patience))
  }

  async wake(...arrived: number[]): Promise<void> {
    this.stock.push(...arrived)
    this.waiting.wake(PLACE.streamNumber)
    await turn()
  }

  async timeIsUp(intervalMs: number): Promise<void> {
    for (const [task, each] of this.timers) if (each === intervalMs) task()
    await turn()
  }
}

describe('claims that wait', () => {
  it('are served in the order they came (W2)', async () => {
    const shop = new Shop()
    const claims = ['a', 'b', 'c'].map((name) => shop.wait(name))
    await shop.wake(7, 8)
    assert.deepEqual([claims[0]!.value, claims[1]!.value, claims[2]!.outcome.kind], [7, 8, 'pending'])
    assert.equal(shop.waiting.count, 1)
  })

  it('are not asked behind one that takes anything and found nothing (W2)', async () => {
    const shop = new Shop()
    for (const name of ['a', 'b', 'c']) shop.wait(name)
    await shop.wake()
    assert.deepEqual(shop.asked, ['a'])
  })

  it('let those behind them have what is not for them', async () => {
    const shop = new Shop()
    const picky = shop.wait('picky', { least: 5 })
    const other = shop.wait('other')
    await shop.wake(3)
    assert.deepEqual([picky.outcome.kind, other.value], ['pending', 3])
  })

  it('wait for one group of one stream', async () => {
    const shop = new Shop()
    const here = shop.wait('here')
    const elsewhere = shop.wait('elsewhere', { place: { streamNumber: 2, group: 'g1' } })
    const beside = shop.wait('beside', { place: { streamNumber: 1, group: 'g2' } })
    shop.stock.push(1, 2, 3)
    shop.waiting.wake(1, 'g2')
    await turn()
    assert.deepEqual([here.outcome.kind, elsewhere.outcome.kind, beside.value], ['pending', 'pending', 1])
    shop.waiting.wake(1)
    await turn()
    assert.deepEqual([here.value, elsewhere.outcome.kind], [2, 'pending'])
    assert.equal(shop.waiting.count, 1)
  })

  it('end with nothing when their time is up, once (W1)', async () => {
    const shop = new Shop()
    const short = shop.wait('short', { waitMs: 10 })
    const long = shop.wait('long', { waitMs: 20 })
    await shop.timeIsUp(10)
    assert.deepEqual([short.value, long.outcome.kind, shop.waiting.count], [null, 'pending', 1])
    await shop.wake(1)
    assert.equal(long.value, 1)
    assert.equal(shop.timers.size, 0, 'no timer is left')
  })

  it('end when their client is gone, and take nothing (W1)', async () => {
    const shop = new Shop()
    let abandon = (): void => {}
    const gone = shop.wait('gone', { patience: { onAbandoned: (listener) => (abandon = listener) } })
    const here = shop.wait('here')
    abandon()
    await shop.wake(1)
    assert.deepEqual([gone.value, here.value], [null, 1])
    abandon()
    assert.equal(shop.waiting.count, 0)
  })

  it('do not wait for a client that was gone before', async () => {
    const shop = new Shop()
    const gone = shop.wait('gone', { patience: { onAbandoned: (listener) => listener() } })
    await turn()
    assert.deepEqual([gone.value, shop.waiting.count, shop.timers.size], [null, 0, 0])
    await shop.wake(1)
    assert.deepEqual(shop.stock, [1])
  })

  it('fail alone', async () => {
    const shop = new Shop()
    const serve = (): number => {
      throw new Error('no')
    }
    const failing = new Pending(shop.waiting.wait(PLACE, { waitMs: 1, takesAny: true, serve }, PATIENT))
    const other = shop.wait('other')
    await shop.wake(1)
    assert.deepEqual([failing.outcome.kind, other.value], ['refused', 1])
  })

  it('are refused beyond a bound', async () => {
    const shop = new Shop(2)
    shop.wait('a')
    shop.wait('b')
    assert.throws(() => shop.wait('c'), { code: 'quota_exceeded' })
    await shop.wake(1)
    shop.wait('c')
    assert.equal(shop.waiting.count, 2)
  })

  it('end when nobody is served any more, and nobody waits from then on', async () => {
    const shop = new Shop()
    const claims = ['a', 'b'].map((name) => shop.wait(name))
    shop.waiting.close()
    const late = shop.wait('late')
    await turn()
    assert.deepEqual(
      [...claims, late].map(({ value }) => value),
      [null, null, null],
    )
    assert.deepEqual([shop.waiting.count, shop.timers.size], [0, 0])
  })

  it('may be woken by serving another', async () => {
    const shop = new Shop()
    shop.stock.push(1, 2)
    const serve = (): number => {
      shop.waiting.wake(PLACE.streamNumber) // as a frame that is appended may
      return shop.stock.shift()!
    }
    const first = new Pending(shop.waiting.wait(PLACE, { waitMs: 1, takesAny: true, serve: once(serve) }, PATIENT))
    const second = shop.wait('second')
    await shop.wake()
    assert.deepEqual(new Set([first.value, second.value]), new Set([1, 2]))
  })
})

/** Null while it runs: a claim that is being served has nothing for itself. */
function once(serve: () => number): () => number | null {
  let isRunning = false
  return () => {
    if (isRunning) return null
    isRunning = true
    const served = serve()
    isRunning = false
    return served
  }
}
