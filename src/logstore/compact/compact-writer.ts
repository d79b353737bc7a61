/** Makes the content of `compact.bin`, see compact-format.ts, from the records of a segment. */
import { EntrySorter } from '../index/radix-sort.ts'
import { BLOCKS_MAX, BundleWriter, blockCountBound, isBlockFull } from './bundle-writer.ts'
import { MemoryScratch } from './scratch.ts'
import type { SegmentRecords } from './segment-records.ts'

/**
 * @param originalBytes bytes of the files that it replaces
 * @param rest called after each block, to leave the processor to other threads
 * @returns parts of the content, one after the other; null: there would be more than BLOCKS_MAX blocks
 */
export function compactContent(
  records: SegmentRecords,
  originalBytes: number,
  rest: () => void,
): readonly Buffer<ArrayBuffer>[] | null {
  const { index, count } = records
  if (blockCountBound(index.partitionCount, count, records.bytes) > BLOCKS_MAX) return null
  const writer = new BundleWriter(count, new MemoryScratch())
  writeRows(writer, records, rest)
  const facts = { receivedUntil: BigInt(index.receivedUntil), originalBytes, level: 0 }
  const { frameOffset, recordNumber } = index
  return [
    ...writer.finish(facts, (from, to) => ({
      frameOffset: frameOffset.subarray(from, to),
      recordNumber: recordNumber.subarray(from, to),
    })),
  ]
}

function writeRows(writer: BundleWriter, records: SegmentRecords, rest: () => void): void {
  const { index, count, start, end } = records
  const names = index.partitions()
  const order = orderOf(records)
  for (let row = 0; row < count;) {
    const partition = index.partition[order[row]!]!
    const { tenant, dataset } = names[partition]!
    writer.beginPartition(tenant, dataset)
    while (row < count && index.partition[order[row]!] === partition) {
      const blockStart = row
      let bytes = 0
      for (; row < count && !isBlockFull(row - blockStart, bytes); row++) {
        const entry = order[row]!
        if (index.partition[entry] !== partition) break
        bytes += end[entry]! - start[entry]!
      }
      writeBlock(writer, records, order.subarray(blockStart, row))
      rest()
    }
  }
}

function writeBlock(writer: BundleWriter, records: SegmentRecords, entries: Uint32Array): void {
  const { index, group, groups, explicitIds } = records
  const { timeHigh, timeLow, traceWords, idWords } = index
  const { source, starts, ends } = records.read(entries)
  writer.beginBlock(source)
  for (const [i, entry] of entries.entries()) {
    writer.add({
      start: starts[i]!,
      end: ends[i]!,
      group: groups[group[entry]!]!,
      timeHigh: timeHigh[entry]!,
      timeLow: timeLow[entry]!,
      entry,
      trace: traceWords,
      traceAt: 4 * entry,
      idWord: idWords[4 * entry]!,
      explicitId: explicitIds.get(entry) ?? null,
    })
  }
  writer.endBlock()
}

/** Entries by (partition, time, entry). */
function orderOf({ index, count }: SegmentRecords): Uint32Array {
  const order = Uint32Array.from({ length: count }, (_, entry) => entry)
  const sorter = new EntrySorter(count)
  sorter.sortByKey(index.timeLow, 1, 0, order, 0, count)
  sorter.sortByKey(index.timeHigh, 1, 0, order, 0, count)
  sorter.sortByKey(index.partition, 1, 0, order, 0, count)
  return order
}
