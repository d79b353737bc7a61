import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { HeldSlot } from '../../../src/logstore/tenants/held-slot.ts'

describe('a place that work is done for', () => {
  it('is given back when the request has ended and the work is done, whichever comes last, once', async () => {
    for (const leavesFirst of [true, false]) {
      let given = 0
      const slot = new HeldSlot(() => void (given += 1))
      const work = Promise.withResolvers<string>()
      const done = slot.during(work.promise)
      if (leavesFirst) slot.leave()
      assert.equal(given, 0)
      work.resolve('answer')
      assert.equal(await done, 'answer')
      if (!leavesFirst) {
        assert.equal(given, 0)
        slot.leave()
      }
      assert.equal(given, 1)
      assert.equal(await slot.during(Promise.resolve('late')), 'late')
      assert.equal(given, 1)
    }
  })

  it('is given back when the work fails', async () => {
    let given = 0
    const slot = new HeldSlot(() => void (given += 1))
    const failed = slot.during(Promise.reject(new Error('failed by the test')))
    slot.leave()
    await assert.rejects(failed)
    assert.equal(given, 1)
  })
})
