/** Opens a bundle in the form that it is expected in. */
import { StoreError } from '../../errors.ts'
import { mergedName } from '../../log/merged.ts'
import { segmentName } from '../../log/segment-format.ts'
import { STAND_IN_NAME } from '../../log/stand-in.ts'
import type { BlockCache } from '../index/block-cache.ts'
import { openBundleIndex } from '../index/reader.ts'
import type { BundleSearch, ExpectedIndex } from '../index/reader.ts'
import type { SegmentFiles } from '../index/segment-files.ts'
import { CompactIndex } from './compact-index.ts'
import type { PieceCache } from './piece-cache.ts'

/** @throws StoreError when it cannot be read, or is another one */
export function openBundle(
  files: SegmentFiles,
  blocks: BlockCache,
  pieces: PieceCache,
  expected: ExpectedIndex,
): BundleSearch {
  if (expected.isCompacted !== true) return openBundleIndex(files, blocks, expected)
  const name = expected.isMerged === true ? mergedName(expected.end) : STAND_IN_NAME
  const source = files.open(expected.base, name)
  try {
    const index = new CompactIndex(source, expected.base, pieces, files.readsAhead)
    if (index.header.end === expected.end && index.header.identity === expected.identity) return index
    const problem = `bundle ${segmentName(expected.base)}: ${name} is not the one that is expected`
    throw new StoreError('corrupt', 'bundle_block_corrupt', problem)
  } catch (error) {
    source.close()
    throw error
  }
}
