import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Worker } from 'node:worker_threads'
import fc from 'fast-check'
import { Histogram, histogramBytes } from '../../src/pipeline/histogram.ts'

const BOUNDS = [0.5, 1, 2.5]
const counts = (histogram: Histogram): number[] => histogram.bounds.concat(Infinity).map((_, i) => histogram.count(i))

describe('a histogram', () => {
  it('counts each value in the first bucket whose bound is not below it', () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0, max: 4, noNaN: true })), (values) => {
        const histogram = Histogram.create(BOUNDS)
        for (const value of values) histogram.observe(value)
        const naive = [0, 0, 0, 0]
        for (const value of values) naive[[...BOUNDS, Infinity].findIndex((bound) => value <= bound)]! += 1
        assert.deepEqual(counts(histogram), naive)
        assert.equal(
          histogram.sum,
          values.reduce((sum, value) => sum + value, 0),
        )
      }),
    )
  })

  it('has a value that equals a bound in the bucket that ends there', () => {
    const histogram = Histogram.create(BOUNDS)
    for (const bound of BOUNDS) histogram.observe(bound)
    assert.deepEqual(counts(histogram), [1, 1, 1, 0])
  })

  it('wants bounds that ascend', () => {
    assert.throws(() => Histogram.create([1, 1]), /bounds ascend/)
    assert.throws(() => Histogram.create([]), /bounds ascend/)
  })

  it('is written by its thread and read by main, beside others in the same memory', async () => {
    const shared = new SharedArrayBuffer(3 * histogramBytes(BOUNDS))
    const places = [0, 1, 2].map((i) => i * histogramBytes(BOUNDS))
    const source = `import { workerData } from 'node:worker_threads'
      import { Histogram } from '${new URL('../../src/pipeline/histogram.ts', import.meta.url).href}'
      const { shared, at, bounds } = workerData
      const histogram = Histogram.inSharedMemory(shared, at, bounds)
      for (let i = 0; i < 30_000; i++) histogram.observe(i % 3)`
    const data = new URL(`data:text/javascript,${encodeURIComponent(source)}`)
    const workers = places.slice(0, 2).map((at) => new Worker(data, { workerData: { shared, at, bounds: BOUNDS } }))
    await Promise.all(
      workers.map((worker) => new Promise((resolve, reject) => worker.once('exit', resolve).once('error', reject))),
    )
    const [first, second, untouched] = places.map((at) => Histogram.inSharedMemory(shared, at, BOUNDS))
    for (const written of [first!, second!]) {
      assert.deepEqual(counts(written), [10_000, 10_000, 10_000, 0])
      assert.equal(written.sum, 30_000)
    }
    assert.deepEqual(counts(untouched!), [0, 0, 0, 0])
  })
})
