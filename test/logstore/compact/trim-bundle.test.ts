import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Files } from '../../../src/log/files.ts'
import { mergedName } from '../../../src/log/merged.ts'
import { segmentName } from '../../../src/log/segment-format.ts'
import { writeQuarantine } from '../../../src/log/quarantine.ts'
import { STAND_IN_NAME, decodeStandInHeader } from '../../../src/log/stand-in.ts'
import { adoptMerged } from '../../../src/logstore/compact/adopt-merged.ts'
import { compactSegment } from '../../../src/logstore/compact/compact-segment.ts'
import { mergeBundles } from '../../../src/logstore/compact/merge-bundles.ts'
import { decodeMoved } from '../../../src/logstore/compact/moved.ts'
import { trimBundle } from '../../../src/logstore/compact/trim-bundle.ts'
import {
  DIRECTORIES,
  PRIMARY,
  copyInto,
  filledStore,
  infosIn,
  ledgerOf,
  mergeRange,
  rangesOf,
  stores,
} from '../../support/bundle-ledger.ts'
import type { Range } from '../../support/bundle-ledger.ts'
import { Stopped, dyingFiles } from '../../support/dying-files.ts'
import { seedOf } from '../../support/seed.ts'
import { SimFiles } from '../../support/sim-files.ts'
import { LOG_ID, TRACES } from '../../support/stored-segments.ts'
import { NOW_NS, retentionOf, trimIn } from '../../support/trimmed-bundles.ts'

const SECOND = 1_000_000_000n

const logOf = () => ({ id: LOG_ID, reportDamage: () => assert.fail('no damage') })

/** Trims, as the background does, the bundle over the first of the segments, as the primary directory has it. */
function trimAt(files: Files, ranges: readonly Range[], datasets: Readonly<Record<string, number>>): string {
  const merged = adoptMerged(files, logOf(), infosIn(PRIMARY, ranges))
  const first = ranges[0]!
  const over = merged.find(({ base, end }) => base <= first.base && first.base < end)
  const bundle = { ...first, ...(over && { base: over.base, end: over.end }), isMerged: over !== undefined }
  const segments = ranges.filter(({ base, end }) => base >= bundle.base && end <= bundle.end)
  const retention = retentionOf(datasets)
  const common = { logId: LOG_ID, segments, segmentsDirectories: DIRECTORIES }
  const task = { ...common, bundle, retention, nowNs: NOW_NS }
  const { kind } = trimBundle(files, { ...task, kind: 'trim' }, () => true)
  if (kind !== 'trimmed') return kind
  if (bundle.isMerged) trimBundle(files, { ...task, kind: 'settle-apart' }, () => true)
  else mergeBundles(files, { ...common, bundles: [{ ...bundle, isMerged: true }], kind: 'settle' }, () => true)
  return kind
}

/** Cleans bundles that may be unclean, as a start does. */
function clean(files: Files, ranges: readonly Range[]): void {
  const merged = adoptMerged(files, logOf(), infosIn(PRIMARY, ranges))
  for (const { base, end } of merged) {
    const segments = ranges.filter((range) => range.base >= base && range.end <= end)
    const task = { logId: LOG_ID, bundles: [{ base, end, isMerged: true }], segments, segmentsDirectories: DIRECTORIES }
    mergeBundles(files, { ...task, kind: 'settle' }, () => true)
  }
  for (const { base, end } of ranges) {
    if (merged.some((over) => over.base <= base && base < over.end)) continue
    const directories = DIRECTORIES.map((directory) => `${directory}/${segmentName(base)}`)
    compactSegment(files, { kind: 'clear', logId: LOG_ID, base, end, directories }, () => {})
  }
}

describe('a bundle that is written again without what has expired', () => {
  it('loses nothing that is kept, and repeats nothing, whenever the process is killed or the power fails', (context) => {
    const { plain, compacted } = stores(context, 3)
    const ranges = rangesOf(plain)
    const seed = seedOf(context)
    const before = new SimFiles({ seed })
    copyInto(before, plain, compacted)
    const all = ledgerOf(before, PRIMARY, ranges)
    const kept = ledgerOf(before, PRIMARY, ranges, (dataset) => dataset === 'orders')
    assert(kept.length > 0 && kept.length < all.length)
    let points = 0
    const everything = (files: Files): void => {
      mergeRange(files, ranges.slice(0, 2))
      for (const from of [0, 2]) trimAt(files, ranges.slice(from), { payments: 1 })
    }
    for (const how of ['kill', 'crash'] as const) {
      for (let after = 0, isOver = false; !isOver; after += how === 'kill' ? 2 : 1, points++) {
        const files = new SimFiles({ seed: seed + after })
        copyInto(files, plain, compacted)
        try {
          everything(dyingFiles(files, after))
          isOver = true
        } catch (error) {
          if (!(error instanceof Stopped)) throw error
        }
        files[how]()
        for (const directory of DIRECTORIES) {
          const found = ledgerOf(files, directory, ranges)
          const what = `${how} after ${after}: ${directory}`
          assert.equal(new Set(found).size, found.length, what)
          assert.deepEqual(
            kept.filter((line) => !found.includes(line)),
            [],
            what,
          )
          assert.deepEqual(
            found.filter((line) => !all.includes(line)),
            [],
            what,
          )
        }
        if (after % 5 !== 0) continue
        clean(files, ranges)
        for (let from = 0; from < ranges.length; from++) trimAt(files, ranges.slice(from), { payments: 1 })
        for (const directory of DIRECTORIES)
          assert.deepEqual(ledgerOf(files, directory, ranges), kept, `${how} after ${after}: ${directory}`)
        assert.deepEqual(
          files.paths().filter((path) => path.endsWith('.tmp')),
          [],
        )
      }
    }
    assert(points > 100, `${points} points`)
  })

  it('is written from one form into the other and back, in every directory, until nothing is left', (context) => {
    const { plain, compacted } = stores(context, 3)
    const ranges = rangesOf(plain)
    const files = new SimFiles({ seed: 1 })
    copyInto(files, plain, compacted)
    const [, second] = ranges
    const namesIn = (directory: string) => files.list(`${directory}/${segmentName(second!.base)}`)
    assert.equal(trimAt(files, ranges.slice(1), { payments: 9 }), 'trimmed')
    for (const directory of DIRECTORIES)
      assert.deepEqual(namesIn(directory), [STAND_IN_NAME, mergedName(second!.end)], directory)
    const one = ledgerOf(files, PRIMARY, ranges)
    assert.equal(trimAt(files, ranges.slice(1), { payments: 9 }), 'not-due')
    assert.equal(trimAt(files, ranges.slice(1), { payments: 9, orders: 9 }), 'trimmed')
    for (const directory of DIRECTORIES) assert.deepEqual(namesIn(directory), [STAND_IN_NAME], directory)
    const none = ledgerOf(files, PRIMARY, ranges)
    assert(one.length > none.length)
    const isSecond = (line: string): boolean =>
      Number(line.split(' ')[0]) >= second!.base && Number(line.split(' ')[0]) < second!.end
    assert.deepEqual(none.filter(isSecond), [])
    // The empty bundle can be merged with its neighbours as any other.
    assert.equal(mergeRange(files, ranges), 'merged')
    assert.deepEqual(ledgerOf(files, PRIMARY, ranges), none)
  })

  it('is not removed by a start because a bit flipped in the small stand-in of its segment', (context) => {
    const { plain, compacted } = stores(context, 3)
    const ranges = rangesOf(plain)
    const files = new SimFiles({ seed: 1 })
    copyInto(files, plain, compacted)
    const second = ranges[1]!
    const directory = `${PRIMARY}/${segmentName(second.base)}`
    assert.equal(trimAt(files, ranges.slice(1), { payments: 9 }), 'trimmed')
    const kept = ledgerOf(files, PRIMARY, ranges)
    const whole = files.contentOf(`${directory}/${STAND_IN_NAME}`)
    files.damage(`${directory}/${STAND_IN_NAME}`, (content) => {
      const flipped = Buffer.from(content)
      flipped[20]! ^= 4
      return flipped
    })
    const segment = { logId: LOG_ID, base: second.base, end: second.end, directories: [directory] }
    compactSegment(files, { kind: 'clear', ...segment }, () => {})
    clean(files, ranges)
    assert.deepEqual(ledgerOf(files, PRIMARY, ranges), kept)
    // The stand-in is made again, but for its number of frames: the segment is the last of the merged file.
    const [before, made] = [whole, files.contentOf(`${directory}/${STAND_IN_NAME}`)].map((bytes) => ({
      ...decodeStandInHeader(bytes)!,
      frameCount: 0,
    }))
    assert.deepEqual(made, before)
  })

  it('makes each small stand-in again that does not open, when several segments are in it, and no damage is left', (context) => {
    const { plain, compacted } = stores(context, 3)
    const ranges = rangesOf(plain)
    for (const lost of [[0], [1], [0, 1, 2]]) {
      const files = new SimFiles({ seed: 1 })
      copyInto(files, plain, compacted)
      assert.equal(mergeRange(files, ranges), 'merged')
      const kept = ledgerOf(files, PRIMARY, ranges)
      const paths = lost.map((number) => `${PRIMARY}/${segmentName(ranges[number]!.base)}`)
      const facts = paths.map((path) => decodeMoved(files.contentOf(`${path}/${STAND_IN_NAME}`)))
      for (const path of paths) {
        files.damage(`${path}/${STAND_IN_NAME}`, (content) => content.subarray(0, 100))
        writeQuarantine(files, path, [{ from: 0, to: 1, reason: 'an earlier start took it for lost' }])
      }
      const made: number[] = []
      const start = () => adoptMerged(files, logOf(), infosIn(PRIMARY, ranges), ({ base }) => void made.push(base))
      assert.equal(start().length, 1)
      assert.deepEqual(
        made,
        lost.map((number) => ranges[number]!.base),
      )
      assert.equal(start().length, 1)
      assert.equal(made.length, lost.length)
      assert.deepEqual(
        paths.map((path) => decodeMoved(files.contentOf(`${path}/${STAND_IN_NAME}`))),
        facts,
      )
      for (const path of paths) assert.equal(files.exists(`${path}/quarantine.json`), false)
      clean(files, ranges)
      assert.deepEqual(ledgerOf(files, PRIMARY, ranges), kept)
    }
  })

  it('gives its segments bundles of their own when it was merged, and they can be merged again', (context) => {
    const { plain, compacted } = stores(context, 4)
    const ranges = rangesOf(plain)
    const files = new SimFiles({ seed: 1 })
    copyInto(files, plain, compacted)
    const kept = ledgerOf(files, PRIMARY, ranges, (dataset) => dataset !== 'orders')
    mergeRange(files, ranges)
    assert.equal(trimAt(files, ranges, { orders: 9 }), 'trimmed')
    for (const directory of DIRECTORIES) {
      assert.deepEqual(ledgerOf(files, directory, ranges), kept)
      for (const { base } of ranges) assert.deepEqual(files.list(`${directory}/${segmentName(base)}`), [STAND_IN_NAME])
    }
    assert.equal(mergeRange(files, ranges), 'merged')
    for (const directory of DIRECTORIES) assert.deepEqual(ledgerOf(files, directory, ranges), kept)
  })

  it('stays as it is when it is damaged, or does not read back, or the work is stopped', (context) => {
    const { plain, compacted } = stores(context, 2)
    const ranges = rangesOf(plain)
    const files = new SimFiles({ seed: 1 })
    copyInto(files, plain, compacted)
    const all = ledgerOf(files, PRIMARY, ranges)
    const [bundle] = ranges
    const task = {
      kind: 'trim' as const,
      logId: LOG_ID,
      bundle: { ...bundle!, isMerged: false },
      segments: [bundle!],
      segmentsDirectories: [PRIMARY],
      retention: retentionOf({ orders: 9 }),
      nowNs: NOW_NS,
    }
    assert.equal(trimBundle(files, task, () => false).kind, 'stopped')
    assert.deepEqual(ledgerOf(files, PRIMARY, ranges), all)
    files.faults = {
      read(path, at, bytes) {
        if (path.includes('merged-') && !path.includes('blocks') && at > 400) bytes[0]! ^= 1
      },
    }
    assert.equal(trimBundle(files, task, () => true).kind, 'damaged')
    files.faults = {}
    assert.deepEqual(ledgerOf(files, PRIMARY, ranges), all)
    files.damage(`${PRIMARY}/${segmentName(bundle!.base)}/${STAND_IN_NAME}`, (content) => {
      content[200]! ^= 4
      return content
    })
    assert.equal(trimBundle(files, task, () => true).kind, 'damaged')
  })
})

describe('queries of a bundle from which expired records were taken', () => {
  it('answer as before, with the cursors and the snapshots of before', (context) => {
    const store = filledStore(context, 4)
    store.compact()
    const retention = { payments: 9 }
    store.expired = new Map([['payments', NOW_NS - 9n * SECOND]])
    const questions = [
      { dataset: 'orders' },
      { dataset: 'orders', filter: { trace_id: TRACES[1] }, page: { limit: 500 } },
      { dataset: 'orders', order: 'desc', page: { limit: 5 } },
      { dataset: 'orders', filter: { search: 'paid severity:>=error' }, page: { limit: 500 } },
      { dataset: 'payments', filter: { search: 'order' } },
      { filter: { trace_id: TRACES[0] }, page: { limit: 500 } },
    ]
    const datasets = ['orders', 'payments']
    const ask = () => questions.map((question) => store.query('acme', question, undefined, datasets))
    const results = () => ask().map(({ results: found, matched_records }) => ({ found, matched_records }))
    const expected = results()
    const pages = (['asc', 'desc'] as const).map((order) => {
      const question = { dataset: 'orders', order, page: { limit: 7 } }
      const first = store.query('acme', question)
      const next = { ...question, page: { limit: 500, cursor: first.page.next_cursor } }
      return { next, expected: store.query('acme', next).results }
    })
    const byId = { dataset: 'orders', filter: { record_id: expected[0]!.found[3]!.record.record_id } }
    const checkAll = (): void => {
      assert.deepEqual(results(), expected)
      assert.equal(store.query('acme', byId).matched_records, 1)
      for (const { next, expected: rest } of pages) assert.deepEqual(store.query('acme', next).results, rest)
    }
    store.merge(2, 4)
    const old = store.snapshot()
    assert.equal(trimIn(store, 0, retention, false), 'trimmed')
    checkAll()
    assert.equal(store.query('acme', { dataset: 'orders' }, old).matched_records, expected[0]!.matched_records)
    assert.equal(trimIn(store, 1, retention), 'trimmed')
    assert.equal(trimIn(store, 2, retention), 'trimmed')
    store.restart()
    checkAll()
    store.expired = new Map()
    assert.equal(store.query('acme', { dataset: 'payments' }).matched_records, 0) // a longer retention brings nothing back
  })
})
