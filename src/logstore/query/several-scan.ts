/** The part of a scan that looks in one segment for a trace over several datasets of a tenant. */
import type { ActiveIndex } from '../index/active-index.ts'
import type { BundleSearch } from '../index/reader.ts'
import { isKept, keptFrom } from '../expired.ts'
import type { Expired, KeptFrom } from '../expired.ts'
import type { SeveralDatasets } from './plan.ts'
import { ENTRIES_PER_CHECK } from './scan.ts'
import type { SegmentScan } from './scan.ts'

/** True when the segment's index was searched past the pruning. */
export function scanActiveOfSeveral(scan: SegmentScan, active: ActiveIndex, several: SeveralDatasets): boolean {
  const { tenant, trace, id } = scan.plan
  if (trace === null || scan.visible === 0) return false
  let entry = active.newestOfTrace(trace[0]!, trace[1]!, trace[2]!, trace[3]!)
  if (entry < 0) return false
  const partitions = partitionsOf(active, tenant, several, scan.plan.expired)
  for (let looked = 1; entry >= 0; entry = active.olderOfTrace(entry), looked++) {
    if (looked % ENTRIES_PER_CHECK === 0) scan.deadline.check()
    if (entry >= scan.visible) continue
    if (!isKept(partitions.get(active.partition[entry]!), active.timeHigh[entry]!, active.timeLow[entry]!)) continue
    if (id !== null && !active.idWords.subarray(4 * entry, 4 * entry + 4).every((word, i) => word === id[i])) continue
    scan.consider(entry, active.timeHigh[entry]!, active.timeLow[entry]!)
  }
  return true
}

/** Likewise. @param index see `mayHold` */
export function scanBundleOfSeveral(scan: SegmentScan, index: BundleSearch, several: SeveralDatasets): boolean {
  const { tenant, trace, id } = scan.plan
  if (trace === null || scan.visible === 0) return false
  const { from, to } = index.traceRows(trace[0]!, trace[1]!, trace[2]!, trace[3]!)
  if (from === to) return true
  const partitions = partitionsOf(index, tenant, several, scan.plan.expired)
  for (let row = from; row < to; row++) {
    if ((row - from) % ENTRIES_PER_CHECK === 0) scan.deadline.check()
    const entry = index.traceEntry(row)
    index.seekEntry(entry)
    const { timeHigh, timeLow } = index
    if (!isKept(partitions.get(index.partition), timeHigh, timeLow)) continue
    if (id !== null && !index.idOf(entry).every((word, i) => word === id[i])) continue
    scan.consider(entry, timeHigh, timeLow)
  }
  return true
}

/** The datasets of a tenant that a segment has records of, with the numbers of their partitions. */
export function datasetsOf(
  index: Pick<ActiveIndex | BundleSearch, 'partitions'>,
  tenant: string,
): ReadonlyMap<string, number> {
  const found = new Map<string, number>()
  let number = 0
  for (const names of index.partitions()) {
    if (names.tenant === tenant) found.set(names.dataset, number)
    number++
  }
  return found
}

/** By number, the partitions of a segment that may be read. */
export function partitionsOf(
  index: Pick<ActiveIndex | BundleSearch, 'partitions'>,
  tenant: string,
  { among }: SeveralDatasets,
  expired: Expired,
): ReadonlyMap<number, KeptFrom> {
  const all = datasetsOf(index, tenant)
  const readable = new Map<number, KeptFrom>()
  for (const dataset of among ?? all.keys()) {
    const number = all.get(dataset)
    if (number !== undefined) readable.set(number, keptFrom(expired, dataset))
  }
  return readable
}
