import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { BundlePlace } from '../../../src/logstore/index/catalog.ts'
import { newsOfBundles } from '../../../src/logstore/ingest/bundle-news.ts'

const place = (base: number, end: number, identity: number, form: 'plain' | 'compacted' | 'merged' = 'plain') =>
  ({
    base,
    end,
    identity,
    directory: `bundles/${base}`,
    isCompacted: form !== 'plain',
    isMerged: form === 'merged',
  }) satisfies BundlePlace

describe('what a decode lane hears of bundles when it is at work', () => {
  it('is nothing when all are as it was told', () => {
    const told = [place(0, 10, 1), place(10, 20, 2, 'compacted'), place(20, 40, 3, 'merged')]
    assert.deepEqual(newsOfBundles(told, told), { published: [], dropped: [] })
  })

  it('is each that came or has another form, and each that went with nothing in its place', () => {
    const told = [place(0, 10, 1), place(10, 20, 2), place(20, 30, 3), place(30, 40, 4), place(40, 50, 5)]
    const compacted = place(10, 20, 7, 'compacted')
    const merged = place(20, 40, 8, 'merged')
    const rebuilt = place(40, 50, 9)
    const sealed = place(50, 60, 6)
    assert.deepEqual(newsOfBundles(told, [compacted, merged, rebuilt, sealed]), {
      published: [compacted, merged, rebuilt, sealed],
      dropped: [0],
    })
  })
})
