import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { HeldPlace } from '../../../src/logstore/tenants/held-place.ts'

describe('a place that work is done for', () => {
  it('is given back when the request has ended and the work is done, whichever comes last, once', async () => {
    for (const leavesFirst of [true, false]) {
      let given = 0
      const place = new HeldPlace(() => void (given += 1))
      const work = Promise.withResolvers<string>()
      const done = place.during(work.promise)
      if (leavesFirst) place.leave()
      assert.equal(given, 0)
      work.resolve('answer')
      assert.equal(await done, 'answer')
      if (!leavesFirst) {
        assert.equal(given, 0)
        place.leave()
      }
      assert.equal(given, 1)
      assert.equal(await place.during(Promise.resolve('late')), 'late')
      assert.equal(given, 1)
    }
  })

  it('is given back when the work fails', async () => {
    let given = 0
    const place = new HeldPlace(() => void (given += 1))
    const failed = place.during(Promise.reject(new Error('failed by the test')))
    place.leave()
    await assert.rejects(failed)
    assert.equal(given, 1)
  })
})
