import assert from 'node:assert/strict'
import { it } from 'node:test'
import { ActiveIndex } from '../../../src/logstore/index/active-index.ts'
import { Deadline } from '../../../src/logstore/query/deadline.ts'
import { PageSelection } from '../../../src/logstore/query/page-selection.ts'
import { planQuery } from '../../../src/logstore/query/plan.ts'
import { SegmentScan, boundsOf, scanActive } from '../../../src/logstore/query/scan.ts'

const ENTRIES = 4096
const ZONE_ENTRIES = 16
const LIMIT = 10

/** Entries in the order of their times, all of one dataset. */
function ordered(): ActiveIndex {
  const active = ActiveIndex.create(ENTRIES, ZONE_ENTRIES)
  const partition = active.partitionOf('acme', 'orders')
  const none = new Uint32Array(4)
  for (let i = 0; i < ENTRIES; i++)
    active.append(Uint32Array.of(i, 0, 0, 1), 0, none, 0, 0, 1 + i, 64 + 8 * i, 0, partition, 1, 1)
  active.publish(0, 0)
  return active
}

class CountedPage extends PageSelection {
  offers = 0

  override offer(timeHigh: number, timeLow: number, source: number, entry: number): boolean {
    this.offers++
    return super.offer(timeHigh, timeLow, source, entry)
  }
}

for (const order of ['asc', 'desc'] as const) {
  it(`a page in the order ${order} is full after its own zones of an unsealed segment; the others are only counted`, () => {
    const index = ordered()
    const filter = { recordId: null, traceId: null, startTime: null, endTime: null, search: null }
    const plan = planQuery('acme', 'orders', filter, order, null, Infinity)
    const page = new CountedPage(LIMIT, plan.descending)
    const placed = { entriesBefore: (offset: number) => index.countBefore(offset) }
    const scan = new SegmentScan(plan, page, new Deadline(1, () => 0), 0, boundsOf(plan, 0, placed, []))
    assert(scanActive(scan, index))
    assert.equal(scan.matched, ENTRIES)
    const first = Array.from({ length: LIMIT }, (_, i) => (order === 'asc' ? i : ENTRIES - 1 - i))
    assert.deepEqual(
      page.results().map(({ entry }) => entry),
      first,
    )
    assert(page.offers <= 2 * ZONE_ENTRIES, `${page.offers} entries were offered`)
  })
}
