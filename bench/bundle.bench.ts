/**
 * What does the index of a bundle cost to build, and what does a search through many of them cost a query thread? `--smoke` runs
 * each case once on little data, so that CI catches rot.
 *
 * 30 bundles of 340 000 records (10 million) in temporary files; four datasets, half of the records in traces of five; times
 * ascend but for a jitter of 10 ms. Searches are those of the query engine without reading the records of the page. `cold`
 * begins with nothing open and an empty block cache: every block is read from the page cache of the system and verified.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { Bench } from 'tinybench'
import { nodeFiles } from '../src/log/node-files.ts'
import { segmentName } from '../src/log/segment-format.ts'
import { ActiveIndex } from '../src/logstore/index/active-index.ts'
import { PieceCache } from '../src/logstore/compact/piece-cache.ts'
import { BlockCache } from '../src/logstore/index/block-cache.ts'
import { LocalSegmentFiles } from '../src/logstore/index/segment-files.ts'
import { IndexBuilder } from '../src/logstore/index/builder.ts'
import { INDEX_NAME } from '../src/logstore/index/index-file.ts'
import { bundleOf } from '../src/logstore/index/manifest.ts'
import type { CatalogRow } from '../src/logstore/index/catalog.ts'
import type { QueryFilter } from '../src/logstore/query/cursor.ts'
import { Deadline } from '../src/logstore/query/deadline.ts'
import { OpenBundles } from '../src/logstore/query/open-bundles.ts'
import { PageSelection } from '../src/logstore/query/page-selection.ts'
import { planQuery } from '../src/logstore/query/plan.ts'
import { SegmentScan, boundsOf, scanActive, scanBundle } from '../src/logstore/query/scan.ts'
import { Random } from './load/random.ts'

const smoke = process.argv.includes('--smoke')
const BUNDLES = smoke ? 2 : 30
const RECORDS = smoke ? 2048 : 340_000
const FRAME_BYTES = 200_000
const BUNDLE_BYTES = Math.ceil(RECORDS / 512) * FRAME_BYTES
const FIRST_TIME = 1_700_000_000_000_000_000n
const NS_PER_RECORD = 2000
const JITTER_NS = 10_000_000
const PAGE = 100

const random = new Random(1)
const active = ActiveIndex.create(Math.ceil(RECORDS / 8) * 8)
const builder = new IndexBuilder()
const directory = mkdtempSync(join(tmpdir(), 'trilog-bench-'))
process.on('exit', () => rmSync(directory, { recursive: true }))

/** Fills the active index with the records of one bundle. */
function fill(bundle: number): void {
  active.reset()
  const id = new Uint32Array(4)
  const trace = new Uint32Array(4)
  const partitions = ['orders', 'payments', 'search', 'mail'].map((dataset) => active.partitionOf('local', dataset))
  for (let record = 0; record < RECORDS; record++) {
    for (let i = 0; i < 4; i++) id[i] = random.uint32()
    if (record % 10 === 0) for (let i = 0; i < 4; i++) trace[i] = random.uint32()
    if (record % 10 === 5) trace.fill(0)
    const time = FIRST_TIME + BigInt((bundle * RECORDS + record) * NS_PER_RECORD + random.between(0, JITTER_NS))
    const frameOffset = 64 + Math.floor(record / 512) * FRAME_BYTES
    const partition = partitions[record % 4]!
    active.append(
      id,
      0,
      trace,
      0,
      Number(time >> 32n),
      Number(time & 0xffff_ffffn),
      frameOffset,
      record % 512,
      partition,
      200,
      1,
    )
  }
  active.publish(0, 0)
}

const rows: CatalogRow[] = []
const ids: string[] = []
const traces: string[] = []
let checksum = 0 // of the files: same records, same number
for (let bundle = 0; bundle < BUNDLES; bundle++) {
  fill(bundle)
  const base = bundle * BUNDLE_BYTES
  mkdirSync(join(directory, segmentName(base)))
  const file = nodeFiles.create(join(directory, segmentName(base), INDEX_NAME))
  const { header } = builder.build(active, RECORDS, base, base + BUNDLE_BYTES, (bytes, at) => file.writev([bytes], at))
  file.close()
  rows.push(bundleOf(header))
  checksum = crc32(Uint32Array.of(header.identity), checksum)
  const hex = (words: Uint32Array, entry: number): string =>
    Array.from(words.subarray(4 * entry, 4 * entry + 4), (word) => word.toString(16).padStart(8, '0')).join('')
  for (let i = 0; i < 100; i++) {
    ids.push(`logstore_${hex(active.idWords, 4 * random.between(0, RECORDS / 4 - 1))}`)
    traces.push(hex(active.traceWords, 10 * random.between(0, Math.floor(RECORDS / 10) - 1)))
  }
}

const NO_DEADLINE = new Deadline(Infinity, () => 0)
const EVERYTHING: QueryFilter = { recordId: null, traceId: null, startTime: null, endTime: null, search: null }
const timeAt = (share: number): bigint => FIRST_TIME + BigInt(Math.floor(share * BUNDLES * RECORDS * NS_PER_RECORD))
const newBundles = (): OpenBundles =>
  new OpenBundles(new LocalSegmentFiles(nodeFiles, directory), new BlockCache(64 << 20), new PieceCache(64 << 20))

/** What the engine does before it reads records; returns how many match. */
function search(bundles: OpenBundles, filter: QueryFilter): number {
  const plan = planQuery('local', 'orders', filter, 'asc', null, BUNDLES * BUNDLE_BYTES)
  const page = new PageSelection(PAGE + 1, false)
  let matched = 0
  for (const [number, row] of rows.entries()) {
    const { startTime, endTime } = filter
    if ((startTime !== null && row.maxTime < startTime) || (endTime !== null && row.minTime >= endTime)) continue
    const index = bundles.index(row)
    const scan = new SegmentScan(plan, page, NO_DEADLINE, number, boundsOf(plan, row.base, index, []))
    scanBundle(scan, index)
    matched += scan.matched
  }
  return matched + page.results().length
}

function searchActive(filter: QueryFilter): number {
  const plan = planQuery('local', 'orders', filter, 'asc', null, BUNDLE_BYTES)
  const page = new PageSelection(PAGE + 1, false)
  const index = { entriesBefore: (frameOffset: number) => active.countBefore(frameOffset) }
  const scan = new SegmentScan(plan, page, NO_DEADLINE, 0, boundsOf(plan, 0, index, []))
  scanActive(scan, active)
  return scan.matched + page.results().length
}

const bench = new Bench({
  name: `${BUNDLES} bundles of ${RECORDS}`,
  ...(smoke && { time: 0, iterations: 1, warmup: false }),
})
const warm = newBundles()
let turn = 0
const someId = (): QueryFilter => ({ ...EVERYTHING, recordId: ids[turn++ % ids.length]! })
const someTrace = (): QueryFilter => ({ ...EVERYTHING, traceId: traces[turn++ % traces.length]! })
const someRange = (): QueryFilter => {
  const share = (turn++ % 97) / 100
  return { ...EVERYTHING, startTime: timeAt(share), endTime: timeAt(share + 0.02) }
}
const cold = (filter: () => QueryFilter) => () => {
  const bundles = newBundles()
  search(bundles, filter())
  bundles.close()
}

bench.add('build one index', () => {
  builder.build(active, RECORDS, 0, BUNDLE_BYTES, () => {})
})
bench.add('record id', () => {
  search(warm, someId())
})
bench.add('record id, cold', cold(someId))
bench.add('trace id', () => {
  search(warm, someTrace())
})
bench.add('trace id, cold', cold(someTrace))
bench.add('page of 2 % of the time', () => {
  search(warm, someRange())
})
bench.add('page of 2 % of the time, cold', cold(someRange))
bench.add('first page of everything', () => {
  search(warm, EVERYTHING)
})
bench.add(
  'first page of everything, cold',
  cold(() => EVERYTHING),
)
bench.add('first page of an active index', () => {
  searchActive(EVERYTHING)
})
await bench.run()
console.table(bench.table())
console.log({ node: process.version, checksum, matched: search(warm, EVERYTHING) - PAGE - 1 })
warm.close()
