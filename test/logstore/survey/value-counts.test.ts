import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { KEPT_VALUES_MAX } from '../../../src/logstore/survey/question.ts'
import { ValueCounts } from '../../../src/logstore/survey/value-counts.ts'

describe('counts of values', () => {
  it('of more values than are kept still know those that are frequent, and whether they are sure of it', () => {
    const counts = ValueCounts.ofAll(1)
    const values = 3 * KEPT_VALUES_MAX
    for (let i = 0; i < values; i++) {
      counts.add(`rare-${i}`, 0)
      if (i % 4 === 0) counts.add('often', 0)
      if (i % 8 === 0) counts.add('less', 0)
    }
    assert.deepEqual(counts.top(2), ['often', 'less'])
    assert(counts.isTopCertain(2))
    assert(!counts.isTopCertain(3)) // one rare value is as frequent as another
    assert.equal(counts.counted(['often']), null)
    const exact = ValueCounts.onlyOf(['often', 'never'], 2)
    for (let i = 0; i < 10; i++) exact.add(i % 2 === 0 ? 'often' : 'rare', i % 4 === 0 ? 0 : 1)
    assert.deepEqual(exact.counted(['often', 'never']), [
      { key: 'often', records: 5, counts: Float64Array.of(3, 2) },
      { key: 'never', records: 0, counts: Float64Array.of(0, 0) },
    ])
  })

  it('are the same of many records at once as of one after the other', () => {
    const [atOnce, each] = [ValueCounts.ofAll(1), ValueCounts.ofAll(1)]
    for (let i = 0; i < 1.1 * KEPT_VALUES_MAX; i++) {
      const [key, records] = [`value-${i % 17 === 0 ? 0 : i}`, 1 + (i % 3)]
      atOnce.add(key, 0, records)
      for (let left = records; left > 0; left--) each.add(key, 0)
    }
    assert.deepEqual(atOnce.top(KEPT_VALUES_MAX), each.top(KEPT_VALUES_MAX))
    assert.equal(atOnce.isTopCertain(1), each.isTopCertain(1))
    assert.equal(atOnce.counted(['value-0']), null)
  })
})
