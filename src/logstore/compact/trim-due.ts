/**
 * Tells when a bundle is to be written again without the records that have expired by the retention of datasets.
 *
 * D1  when SHARE of its bytes has expired. So each trim frees at least this share, and all trims together write less than 1 / SHARE times the bytes of the
 *     bundle
 * D2  at the latest when MOST of the bytes that can expire have expired, unless these are less than SHARE_LEAST of the bundle
 */
import { timeOfWords } from '../time-words.ts'
import type { CompactIndex } from './compact-index.ts'

const SHARE = 1 / 4
const SHARE_LEAST = 1 / 64
/** Not all: the time of a record may be far ahead. */
const MOST = 15 / 16
/** Parts of a block, whose rows are in the order of time: a part counts as expired when its last row has expired. */
const PARTS = 16

/** By tenant: by dataset, how many seconds its records are kept. */
export type RetentionByTenant = ReadonlyMap<string, ReadonlyMap<string, number>>

/** @returns ns since the Unix epoch; null: never by these retentions */
export function trimDueAt(
  index: Pick<CompactIndex, 'partitions' | 'blocksOf' | 'keys'>,
  retention: RetentionByTenant,
): bigint | null {
  let bytes = 0
  const parts: { readonly atNs: bigint; readonly bytes: number }[] = []
  for (const { tenant, dataset, partition } of index.partitions()) {
    const seconds = retention.get(tenant)?.get(dataset)
    for (const block of index.blocksOf(partition.number)) {
      const its = [block.keys, block.texts, block.numbers, block.values, block.filter]
      const blockBytes = its.reduce((sum, piece) => sum + piece.bytes, 0)
      bytes += blockBytes
      if (seconds === undefined) continue
      const { timeHigh, timeLow } = index.keys(block)
      for (let part = 1; part <= PARTS; part++) {
        const last = Math.ceil((part * block.rows) / PARTS) - 1
        const atNs = timeOfWords(timeHigh[last]!, timeLow[last]!) + BigInt(seconds) * 1_000_000_000n + 1n
        parts.push({ atNs, bytes: blockBytes / PARTS })
      }
    }
  }
  const expiring = parts.reduce((sum, part) => sum + part.bytes, 0)
  if (expiring < bytes * SHARE_LEAST) return null // D2
  const enough = Math.min(bytes * SHARE, expiring * MOST)
  let expired = 0
  for (const part of parts.toSorted((a, b) => Number(a.atNs - b.atNs))) {
    expired += part.bytes
    if (expired >= enough) return part.atNs
  }
  return null
}
