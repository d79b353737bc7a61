import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { Histogram, VALUE_MAX_MS, VALUE_MIN_MS } from '../../../bench/load/histogram.ts'

const durationsMs = fc.array(
  fc
    .double({ min: Math.log2(VALUE_MIN_MS), max: Math.log2(VALUE_MAX_MS), noNaN: true })
    .map((exponent) => 2 ** exponent),
  { minLength: 1, maxLength: 300 },
)

function histogramOf(values: readonly number[]): Histogram {
  const histogram = new Histogram()
  for (const value of values) histogram.add(value)
  return histogram
}

describe('the latency histogram', () => {
  it('gives every percentile within 0.4 % of the value of that rank', () => {
    fc.assert(
      fc.property(durationsMs, fc.double({ min: 0, max: 100, noNaN: true }), (values, percent) => {
        const sorted = values.toSorted((a, b) => a - b)
        const exact = sorted[Math.max(1, Math.ceil((percent / 100) * values.length)) - 1]!
        const error = Math.abs(histogramOf(values).percentile(percent) - exact) / exact
        assert(error <= 1 / 256 + 1e-12, `off by ${error}`)
      }),
    )
  })

  it('keeps count, minimum, maximum and mean exactly', () => {
    fc.assert(
      fc.property(durationsMs, (values) => {
        const histogram = histogramOf(values)
        assert.equal(histogram.count, values.length)
        assert.equal(histogram.minMs, Math.min(...values))
        assert.equal(histogram.maxMs, Math.max(...values))
        assert.equal(histogram.percentile(100), Math.max(...values))
        assert.equal(histogram.meanMs, values.reduce((sum, value) => sum + value, 0) / values.length)
      }),
    )
  })

  it('is the same whether values are added to one or to two that are merged', () => {
    fc.assert(
      fc.property(durationsMs, durationsMs, (left, right) => {
        const merged = histogramOf(left)
        merged.merge(histogramOf(right))
        const whole = histogramOf([...left, ...right])
        assert.deepEqual(merged.bars(8), whole.bars(8))
        assert.deepEqual([merged.count, merged.minMs, merged.maxMs], [whole.count, whole.minMs, whole.maxMs])
      }),
    )
  })

  it('draws bars that meet each other and hold every value', () => {
    fc.assert(
      fc.property(durationsMs, (values) => {
        const bars = histogramOf(values).bars(8)
        assert.equal(
          bars.reduce((sum, bar) => sum + bar.count, 0),
          values.length,
        )
        for (const [index, bar] of bars.slice(1).entries()) assert.equal(bar.fromMs, bars[index]!.toMs)
        assert(bars[0]!.count > 0 && bars.at(-1)!.count > 0)
      }),
    )
  })

  it('counts values outside its range at the edges, and is all zeros when empty or reset', () => {
    const histogram = histogramOf([0, 1e9])
    assert.equal(histogram.count, 2)
    assert.equal(histogram.maxMs, 1e9)
    histogram.reset()
    assert.deepEqual([histogram.count, histogram.minMs, histogram.maxMs, histogram.meanMs], [0, 0, 0, 0])
    assert.equal(histogram.percentile(99), 0)
    assert.deepEqual(histogram.bars(8), [])
  })
})
