import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { FairQueue } from '../../../src/logstore/ingest/fair-queue.ts'

/** Serves everything; what a request takes is `costMs` of its tenant. */
function serveAll(queue: FairQueue<string>, costMs: (request: string) => number): string[] {
  const served: string[] = []
  for (let request = queue.next(); request !== null; request = queue.next()) {
    served.push(request)
    queue.served(costMs(request))
  }
  assert(queue.isEmpty)
  return served
}

describe('the queue of the decode lane', () => {
  it('serves everything once, each tenant in its order, whatever comes meanwhile', () => {
    const tenantAndCost = fc.record({ tenant: fc.integer({ min: 0, max: 3 }), costMs: fc.constantFrom(0, 0.1, 0.5, 7) })
    fc.assert(
      fc.property(fc.array(tenantAndCost), fc.array(tenantAndCost), (first, later) => {
        const queue = new FairQueue<{ tenant: number; number: number; costMs: number }>()
        let number = 0
        const add = ({ tenant, costMs }: { tenant: number; costMs: number }): void =>
          queue.add(tenant, { tenant, costMs, number: number++ })
        first.forEach(add)
        const arriving = [...later]
        const seen: number[][] = [[], [], [], []]
        for (let request = queue.next(); request !== null; request = queue.next()) {
          seen[request.tenant]!.push(request.number)
          queue.served(request.costMs)
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
    assert.equal(queue.next(), 'flood 0')
    queue.add(2, 'other')
    queue.served(1)
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
})
