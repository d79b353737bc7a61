import assert from 'node:assert/strict'
import { beforeEach, describe, it } from 'node:test'
import { PieceCache } from '../../../src/logstore/compact/piece-cache.ts'
import { BlockCache } from '../../../src/logstore/index/block-cache.ts'
import { Catalog, encodeCatalog } from '../../../src/logstore/index/catalog.ts'
import type { BundleFile, SegmentFiles } from '../../../src/logstore/index/segment-files.ts'
import { OpenBundles } from '../../../src/logstore/query/open-bundles.ts'

/** Files of records, and which of them are open. */
class Files implements SegmentFiles {
  readonly failure = 'bundle_read_failed'
  readonly readsAhead = false
  readonly descriptors: string[] = []
  opened = 0

  open(base: number, name: string): BundleFile {
    this.opened += 1
    const file = `${name} of ${base}, opened as number ${this.opened}`
    this.descriptors.push(file)
    return {
      size: () => 0,
      read: () => 0,
      close: () => void this.descriptors.splice(this.descriptors.indexOf(file), 1),
    }
  }

  expect(): void {}
}

const NO_BUNDLES = new Catalog(encodeCatalog([]))
const SEGMENTS = [{ base: 0 }, { base: 4096 }]

describe('files of records that a query thread has open', () => {
  let files: Files
  let bundles: OpenBundles

  beforeEach(() => {
    files = new Files()
    bundles = new OpenBundles(files, new BlockCache(1 << 20), new PieceCache(1 << 18))
    bundles.keepOnly(NO_BUNDLES, SEGMENTS, 1)
    for (const { base } of SEGMENTS) bundles.records(base)
  })

  it('stay open in one generation of the log', () => {
    const [first] = SEGMENTS.map(({ base }) => bundles.records(base))
    bundles.keepOnly(NO_BUNDLES, SEGMENTS, 1)
    assert.equal(bundles.records(0), first)
    assert.equal(files.opened, 2)
  })

  it('are opened anew in the next one: their segments may have been cut, and made again', () => {
    const before = bundles.records(0)
    bundles.keepOnly(NO_BUNDLES, SEGMENTS, 2)
    assert.deepEqual(files.descriptors, [])
    assert.notEqual(bundles.records(0), before)
    bundles.keepOnly(NO_BUNDLES, SEGMENTS, 2)
    assert.deepEqual(files.descriptors, ['records.log of 0, opened as number 3'])
  })

  it('are closed when their segment is gone', () => {
    bundles.keepOnly(NO_BUNDLES, SEGMENTS.slice(1), 1)
    assert.deepEqual(files.descriptors, ['records.log of 4096, opened as number 2'])
    bundles.close()
    assert.deepEqual(files.descriptors, [])
  })
})
