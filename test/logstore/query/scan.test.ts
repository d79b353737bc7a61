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

/** Entries of one dataset. @param timeOf by the number of the entry */
function indexOf(timeOf: (entry: number) => number): ActiveIndex {
  const active = ActiveIndex.create(ENTRIES, ZONE_ENTRIES)
  const partition = active.partitionOf('acme', 'orders')
  const none = new Uint32Array(4)
  for (let i = 0; i < ENTRIES; i++)
    active.append(Uint32Array.of(i, 0, 0, 1), 0, none, 0, 0, timeOf(i), 64 + 8 * i, 0, partition, 1, 1)
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

const ARRIVALS = {
  'in the order of their times': (entry: number) => 1 + entry,
  'newest first': (entry: number) => ENTRIES - entry,
  'zone by zone, newest zone first': (entry: number) =>
    ENTRIES - (entry - (entry % ZONE_ENTRIES)) + (entry % ZONE_ENTRIES),
} as const

for (const [arrival, timeOf] of Object.entries(ARRIVALS)) {
  for (const order of ['asc', 'desc'] as const) {
    it(`a page in the order ${order} is full after its own zones of an unsealed segment, when records came ${arrival}; the others are only counted`, () => {
      const index = indexOf(timeOf)
      const filter = { recordId: null, traceId: null, startTime: null, endTime: null, search: null }
      const plan = planQuery('acme', 'orders', filter, order, null, Infinity)
      const page = new CountedPage(LIMIT, plan.descending)
      const placed = { entriesBefore: (offset: number) => index.countBefore(offset) }
      const scan = new SegmentScan(plan, page, new Deadline(1, () => 0), 0, boundsOf(plan, 0, placed, []))
      assert(scanActive(scan, index))
      assert.equal(scan.matched, ENTRIES)
      const inOrder = Array.from({ length: ENTRIES }, (_, entry) => entry).sort((a, b) => timeOf(a) - timeOf(b))
      if (order === 'desc') inOrder.reverse()
      assert.deepEqual(
        page.results().map(({ entry }) => entry),
        inOrder.slice(0, LIMIT),
      )
      assert(page.offers <= 2 * ZONE_ENTRIES, `${page.offers} entries were offered`)
    })
  }
}
