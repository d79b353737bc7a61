import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { encodeCatalog } from '../../../src/logstore/index/catalog.ts'
import type { CatalogRow } from '../../../src/logstore/index/catalog.ts'
import type { Cursor } from '../../../src/logstore/query/cursor.ts'
import { seenBundles } from '../../../src/logstore/query/seen-bundles.ts'
import type { QuerySnapshot } from '../../../src/logstore/query/task.ts'
import { LOG_ID, TestStore } from '../../support/stored-segments.ts'
import { fillBundles } from './bundles.ts'

/** A store whose bundles are read as in a bucket, and the snapshot that a question sees of it. */
function openBucket(context: Parameters<typeof TestStore.open>[0]) {
  const store = TestStore.open(context)
  fillBundles(store, 4)
  store.isBucket = true
  const seen = (choose = (rows: readonly CatalogRow[]) => rows): QuerySnapshot => {
    const rows = choose(store.bundles())
    return { ...store.snapshot(), committed: rows.at(-1)!.end, indexed: [], catalog: encodeCatalog(rows) }
  }
  const page = (snapshot: QuerySnapshot, cursor: string | null) =>
    store.ask('local', { dataset: 'orders', page: { limit: 2, cursor } }, snapshot)
  const cursorOf = (snapshot: QuerySnapshot): string =>
    store.query('local', { dataset: 'orders', page: { limit: 2 } }, snapshot).page.next_cursor!
  const exportStep = (snapshot: QuerySnapshot, resume: Cursor | null) => {
    const filter = { recordId: null, traceId: null, startTime: null, endTime: null, search: null }
    const request = { kind: 'export', dataset: 'orders', filter, order: 'asc', resume, deadlineMs: 1000 } as const
    return store.walk('local', request, snapshot)
  }
  return { store, seen, page, cursorOf, exportStep }
}

describe('the bundles that a question to a bucket sees', () => {
  it('are the same when they are compacted or merged, and when newer ones came', (context) => {
    const { store, seen } = openBucket(context)
    const { committed: below } = seen()
    const before = seenBundles(seen(), below)
    const beforeTheLast = seenBundles(
      seen((rows) => rows.slice(0, 3)),
      store.segments[2]!.end,
    )
    store.compact()
    assert.equal(seenBundles(seen(), below), before)
    assert(store.merge(0, 2))
    assert.equal(seenBundles(seen(), below), before)
    assert(store.merge(0, 4))
    assert.equal(store.bundles().length, 1)
    assert.equal(seenBundles(seen(), below), before)
    assert.equal(seenBundles(seen(), store.segments[2]!.end), beforeTheLast)
    fillBundles(store, 1)
    assert.equal(seenBundles(seen(), below), before)
  })

  it('are others when one is removed or added below, or the log is another one', (context) => {
    const { seen } = openBucket(context)
    const { committed: below } = seen()
    const all = seenBundles(seen(), below)
    for (const removed of [0, 1, 2, 3]) {
      const left = seen((rows) => rows.filter((_, number) => number !== removed))
      assert.notEqual(seenBundles(left, below), all)
    }
    assert.notEqual(seenBundles({ ...seen(), logId: LOG_ID + 1 }, below), all)
  })
})

describe('a cursor of a bucket', () => {
  it('goes on while the bundles of its first page are there in any form', (context) => {
    const { store, seen, page, cursorOf } = openBucket(context)
    const cursor = cursorOf(seen((rows) => rows.slice(0, 3)))
    store.compact()
    assert(store.merge(0, 2))
    assert.equal(page(seen(), cursor).kind, 'ok')
  })

  it('is refused when a bundle below its first page is gone, or came', (context) => {
    const { seen, page, cursorOf } = openBucket(context)
    const without = seen((rows) => rows.filter((_, number) => number !== 1))
    for (const [before, after] of [
      [seen(), without],
      [without, seen()],
      [seen(), seen((rows) => rows.slice(0, 3))],
    ] as const) {
      const answer = page(after, cursorOf(before))
      assert(answer.kind === 'invalid_cursor')
      assert.match(answer.message, /other bundles than the bucket has now/)
    }
  })

  it('is refused by a log, and that of a log by a bucket', (context) => {
    const { store, seen, page, cursorOf } = openBucket(context)
    const ofBucket = cursorOf(seen())
    store.isBucket = false
    const ofLog = cursorOf(seen())
    assert.equal(page(seen(), ofLog).kind, 'ok')
    assert.equal(page(seen(), ofBucket).kind, 'invalid_cursor')
    store.isBucket = true
    assert.equal(page(seen(), ofBucket).kind, 'ok')
    assert.equal(page(seen(), ofLog).kind, 'invalid_cursor')
  })
})

describe('an export of a bucket', () => {
  it('goes on while the bundles of its first step are there in any form, and fails when one is gone or came', (context) => {
    const { store, seen, exportStep } = openBucket(context)
    const without = seen((rows) => rows.filter((_, number) => number !== 1))
    const { resume } = exportStep(seen(), null)
    assert(resume !== null)
    assert.throws(
      () => exportStep(without, resume),
      /object_storage_read_failed: the bundles in the bucket have changed/,
    )
    assert.throws(() => exportStep(seen(), exportStep(without, null).resume), /the bundles in the bucket have changed/)
    store.compact()
    assert(store.merge(0, 2))
    let records = 1
    for (let next: Cursor | null = resume; next !== null;) {
      const step = exportStep(seen(), next)
      records += step.records
      next = step.resume
    }
    assert.equal(records, 12)
  })
})
