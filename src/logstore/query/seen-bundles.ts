/**
 * A digest of 8 bytes of which bundles of a bucket a question sees. Tools copy bundles there in any order, and remove some, so what lies below a position
 * may change between two pages, or two steps of an export.
 *
 * Only the positions that the bundles cover count: bundles that are compacted, or merged with their neighbours, hold the same records.
 */
import { hash } from 'node:crypto'
import { SEGMENT_FOOTER_BYTES } from '../../log/segment-format.ts'
import { Catalog } from '../index/catalog.ts'
import type { QuerySnapshot, QueryTask, Question } from './task.ts'

/** @param below positions from here on do not count, as the question does not see them */
export function seenBundles(
  { catalog: encoded, logId }: Pick<QuerySnapshot, 'catalog' | 'logId'>,
  below: number,
): bigint {
  const catalog = new Catalog(encoded)
  const bounds: number[] = []
  for (let row = 0; row < catalog.length && catalog.base(row) < below; row++) {
    const end = Math.min(catalog.end(row), below)
    const endBefore = bounds.at(-1)
    const isNext = endBefore !== undefined && catalog.base(row) <= endBefore + SEGMENT_FOOTER_BYTES
    if (isNext) bounds[bounds.length - 1] = end
    else bounds.push(catalog.base(row), end)
  }
  return hash('sha256', new Float64Array([logId, ...bounds]), 'buffer').readBigUInt64LE()
}

/** What cursors of this question carry; undefined: it asks a log, not a bucket. */
export const seenBundlesForCursor = (
  { remote, snapshot }: Pick<QueryTask<Question>, 'remote' | 'snapshot'>,
  below: number,
): bigint | undefined => (remote === undefined ? undefined : seenBundles(snapshot, below))
