import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { FairQueue } from '../../../src/logstore/ingest/fair-queue.ts'

/** Serves everything; a request costs its tenant `costMs`. */
function serveAll(queue: FairQueue<string>, costMs: (request: string) => number): string[] {
  const served: string[] = []
  for (let request = queue.next(0); request !== null; request = queue.next(0)) {
    served.push(request)
    queue.served(costMs(request), 0, true)
  }
  assert(queue.isEmpty)
  return served
}

describe('the queue of the decode lane', () => {
  it('serves everything once, each tenant in its order, whatever comes meanwhile and whoever pauses', () => {
    const tenantAndCost = fc.record({
      tenant: fc.integer({ min: 0, max: 3 }),
      costMs: fc.constantFrom(0, 0.1, 0.5, 7),
      windowHasRoom: fc.boolean(),
    })
    fc.assert(
      fc.property(fc.array(tenantAndCost), fc.array(tenantAndCost), (first, later) => {
        const queue = new FairQueue<(typeof first)[number] & { number: number }>()
        let number = 0
        const add = (request: (typeof first)[number]): void =>
          queue.add(request.tenant, { ...request, number: number++ })
        first.forEach(add)
        const arriving = [...later]
        const seen: number[][] = [[], [], [], []]
        let nowMs = 0
        while (!queue.isEmpty) {
          const request = queue.next(nowMs)
          if (request === null) {
            assert(queue.resumesAtMs > nowMs && queue.resumesAtMs < Infinity)
            nowMs = queue.resumesAtMs
            continue
          }
          seen[request.tenant]!.push(request.number)
          nowMs += request.costMs
          queue.served(request.costMs, nowMs, request.windowHasRoom)
          const next = arriving.shift()
          if (next) add(next)
        }
        assert.equal(seen.flat().length, number)
        for (const numbers of seen)
          assert.deepEqual(
            numbers,
            numbers.toSorted((a, b) => a - b),
          )
      }),
    )
  })

  it('lets a request wait for one of each other tenant at most, however many those have sent', () => {
    const queue = new FairQueue<string>()
    for (let i = 0; i < 100; i++) queue.add(1, `flood ${i}`)
    assert.equal(queue.next(0), 'flood 0')
    queue.add(2, 'other')
    queue.served(1, 0, true)
    assert.deepEqual(serveAll(queue, () => 1).indexOf('other'), 0)
  })

  it('shares the time of the lane, not the number of requests', () => {
    const queue = new FairQueue<string>()
    for (let i = 0; i < 40; i++) queue.add(1, 'long')
    for (let i = 0; i < 400; i++) queue.add(2, 'short')
    const served = serveAll(queue, (request) => (request === 'long' ? 5 : 0.5))
    const longOnes = served.slice(0, 220).filter((request) => request === 'long').length
    assert(longOnes >= 19 && longOnes <= 21, `${longOnes} long ones beside 200 short ones`)
  })

  it('lets a tenant without room in its window pause, also for what it sends meanwhile, and no other one', () => {
    const queue = new FairQueue<string>()
    queue.add(1, 'refused')
    queue.add(2, 'other')
    assert.equal(queue.next(100), 'refused')
    queue.served(0.1, 100, false)
    queue.add(1, 'again')
    assert.equal(queue.next(100), 'other')
    queue.served(0.1, 100, true)
    assert.equal(queue.next(100), null)
    assert.equal(queue.isEmpty, false)
    assert.equal(queue.resumesAtMs, 105)
    assert.equal(queue.next(104.9), null)
    assert.equal(queue.next(105), 'again')
    assert.equal(queue.resumesAtMs, Infinity)
  })

  it('lets a tenant pause for less the more of its requests wait', () => {
    for (const [requests, mostMs] of [
      [16, 75],
      [64, 200],
    ] as const) {
      const queue = new FairQueue<number>()
      for (let i = 0; i < requests; i++) queue.add(1, i)
      let nowMs = 0
      for (let i = 0; i < requests - 1; i++) {
        assert.equal(queue.next(nowMs), i)
        queue.served(0, nowMs, false)
        nowMs = queue.resumesAtMs
      }
      assert.equal(queue.next(nowMs), requests - 1)
      assert(nowMs > mostMs / 2 && nowMs <= mostMs, String(nowMs))
    }
  })

  it('lets nobody pause when it is asked for everything', () => {
    const queue = new FairQueue<number>()
    for (let i = 0; i < 3; i++) queue.add(1, i)
    for (let i = 0; i < 3; i++) {
      assert.equal(queue.next(Infinity), i)
      queue.served(0, 0, false)
    }
    assert(queue.isEmpty)
  })
})
