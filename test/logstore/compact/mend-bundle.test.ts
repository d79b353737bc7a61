import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { makeDurableDirectory, publishFile, readWhole } from '../../../src/log/files.ts'
import type { Files } from '../../../src/log/files.ts'
import { mergedName } from '../../../src/log/merged.ts'
import { segmentName } from '../../../src/log/segment-format.ts'
import {
  STAND_IN_HEADER_BYTES,
  STAND_IN_NAME,
  encodeStandInHeader,
  publishStandIn,
  readStandIn,
} from '../../../src/log/stand-in.ts'
import { adoptCompacted } from '../../../src/logstore/compact/adopt.ts'
import type { MendAtStart } from '../../../src/logstore/compact/adopt.ts'
import { adoptMerged } from '../../../src/logstore/compact/adopt-merged.ts'
import { CompactIndex } from '../../../src/logstore/compact/compact-index.ts'
import { mendBundle } from '../../../src/logstore/compact/mend-bundle.ts'
import type { MendResult } from '../../../src/logstore/compact/mend-bundle.ts'
import { PieceCache } from '../../../src/logstore/compact/piece-cache.ts'
import {
  DIRECTORIES,
  PRIMARY,
  REPLICA,
  copyInto,
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
import { LOG_ID } from '../../support/stored-segments.ts'

const directoriesOf = (base: number): readonly string[] => DIRECTORIES.map((each) => `${each}/${segmentName(base)}`)

/** @param identity of the bundle, as queries expect it */
const mend = (files: Files, { base, end }: Range, identity: number, isMerged = false): MendResult =>
  mendBundle(files, { logId: LOG_ID, base, end, isMerged, identity, directories: directoriesOf(base) }, () => {})

function identityIn(files: Files, directory: string, { base }: Range, name = STAND_IN_NAME): number {
  const file = files.open(`${directory}/${segmentName(base)}/${name}`, 'read')
  const { identity } = new CompactIndex(file, base, new PieceCache(0)).header
  file.close()
  return identity
}

function flip(files: Files, path: string, at: number): void {
  const file = files.open(path, 'write')
  const byte = Buffer.alloc(1)
  file.read(byte, at)
  byte[0]! ^= 1
  file.writev([byte], at)
  file.fdatasync()
  file.close()
}

/** Positions in the file's header, in its middle and at its end. */
function placesIn(files: Files, path: string): readonly number[] {
  const file = files.open(path, 'read')
  const bytes = file.size()
  file.close()
  return [20, bytes >> 1, bytes - 1]
}

/** Replaces the bundle by one of the same segment with other content, as when expired records were taken from it in one directory only. */
function publishedOther(files: Files, directory: string, { base }: Range): Buffer {
  const segment = `${directory}/${segmentName(base)}`
  const content = [Buffer.from('other records')]
  const parts = [encodeStandInHeader(readStandIn(files, segment, LOG_ID, base)!, content), ...content]
  publishStandIn(files, segment, parts)
  return Buffer.concat(parts)
}

describe('a compacted bundle that is damaged in one directory', () => {
  it('gets the file of the other one, wherever the damage is and whenever the process dies', (context) => {
    const { plain, compacted } = stores(context, 1)
    const ranges = rangesOf(plain)
    const [range] = ranges
    const seed = seedOf(context)
    const before = new SimFiles({ seed })
    copyInto(before, plain, compacted)
    const expected = ledgerOf(before, PRIMARY, ranges)
    const [primary, replica] = directoriesOf(range!.base)
    const identity = identityIn(before, PRIMARY, range!)
    for (const [damaged, whole] of [
      [primary!, replica!],
      [replica!, primary!],
    ] as const) {
      const path = `${damaged}/${STAND_IN_NAME}`
      for (const place of placesIn(before, path)) {
        for (let after = 0, isOver = false; !isOver; after += 1) {
          const files = before.clone(seed + after)
          flip(files, path, place)
          try {
            assert.deepEqual(mend(dyingFiles(files, after), range!, identity), {
              kind: 'mended',
              from: whole,
              to: [damaged],
              problem: null,
            })
            isOver = true
          } catch (error) {
            if (!(error instanceof Stopped)) throw error
          }
          files.crash()
          if (!isOver) assert.notEqual(mend(files, range!, identity).kind, 'lost')
          for (const directory of DIRECTORIES) assert.deepEqual(ledgerOf(files, directory, ranges), expected)
          assert.deepEqual(mend(files, range!, identity), { kind: 'whole' })
        }
      }
    }
  })

  it('is mended when it is a merged one, too', (context) => {
    const { plain, compacted } = stores(context, 3)
    const ranges = rangesOf(plain)
    const files = new SimFiles({ seed: seedOf(context) })
    copyInto(files, plain, compacted)
    const expected = ledgerOf(files, PRIMARY, ranges)
    assert.equal(mergeRange(files, ranges), 'merged')
    const over = { base: ranges[0]!.base, end: ranges.at(-1)!.end }
    const name = mergedName(over.end)
    const identity = identityIn(files, PRIMARY, over, name)
    flip(files, `${PRIMARY}/${segmentName(over.base)}/${name}`, 2000)
    const [primary, replica] = directoriesOf(over.base)
    assert.deepEqual(mend(files, over, identity, true), { kind: 'mended', from: replica, to: [primary], problem: null })
    assert.deepEqual(ledgerOf(files, PRIMARY, ranges), expected)
  })

  it('is mended where the file is taken, when another directory does not take it', (context) => {
    const { plain, compacted } = stores(context, 1)
    const [range] = rangesOf(plain)
    const files = new SimFiles({ seed: seedOf(context) })
    copyInto(files, plain, compacted)
    const identity = identityIn(files, PRIMARY, range!)
    const [primary, replica] = directoriesOf(range!.base)
    const third = '/third/0000000000000000'
    makeDurableDirectory(files, third)
    publishFile(files, third, STAND_IN_NAME, [readWhole(files, `${primary}/${STAND_IN_NAME}`)!])
    for (const directory of [primary, replica]) flip(files, `${directory}/${STAND_IN_NAME}`, 2000)
    for (const full of [[primary!], [replica!], [primary!, replica!]]) {
      const disk = files.clone(1)
      const create = disk.create.bind(disk)
      disk.create = (path, ...rest) => {
        if (full.some((each) => path.startsWith(each))) throw Object.assign(new Error('it is full'), { code: 'ENOSPC' })
        return create(path, ...rest)
      }
      const task = { logId: LOG_ID, ...range!, isMerged: false, identity, directories: [primary!, replica!, third] }
      const before = disk.paths()
      if (full.length === 2) assert.throws(() => mendBundle(disk, task, () => {}), { code: 'ENOSPC' })
      else {
        const to = [primary!, replica!].filter((each) => !full.includes(each))
        const problem = `${full[0]!}: it is full`
        assert.deepEqual(
          mendBundle(disk, task, () => {}),
          { kind: 'mended', from: third, to, problem },
        )
        assert.equal(identityIn(disk, to[0] === primary ? PRIMARY : REPLICA, range!), identity)
      }
      assert.deepEqual(disk.paths(), before)
    }
  })

  it('is mended by a start that cannot open it, and is no damage then', (context) => {
    const { plain, compacted } = stores(context, 3)
    const ranges = rangesOf(plain)
    for (const merges of [false, true]) {
      const files = new SimFiles({ seed: seedOf(context) })
      copyInto(files, plain, compacted)
      const over = merges ? { base: ranges[0]!.base, end: ranges.at(-1)!.end } : ranges[0]!
      if (merges) assert.equal(mergeRange(files, ranges), 'merged')
      const expected = ledgerOf(files, PRIMARY, ranges)
      const name = merges ? mergedName(over.end) : STAND_IN_NAME
      const path = `${PRIMARY}/${segmentName(over.base)}/${name}`
      flip(files, path, STAND_IN_HEADER_BYTES + 20)
      const start = (disk: SimFiles, mend: MendAtStart): number[] => {
        const damaged: number[] = []
        const log = { id: LOG_ID, reportDamage: ({ base }: { readonly base: number }) => void damaged.push(base) }
        const infos = infosIn(PRIMARY, ranges)
        const merged = adoptMerged(disk, log, infos, () => {}, mend)
        if (merged.length === 0) adoptCompacted(disk, log, infos[0]!, mend)
        return damaged
      }
      assert.notDeepEqual(
        start(files.clone(1), () => false),
        [],
      )
      const mend: MendAtStart = ({ base, end, isMerged: its }) => {
        const task = { logId: LOG_ID, base, end, isMerged: its, identity: null, directories: directoriesOf(base) }
        return mendBundle(files, task, () => {}).kind === 'mended'
      }
      assert.deepEqual(start(files, mend), [])
      assert.deepEqual(ledgerOf(files, PRIMARY, ranges), expected)
    }
  })

  it('is not taken from a moved stand-in, which holds nothing', (context) => {
    const { plain, compacted } = stores(context, 2)
    const ranges = rangesOf(plain)
    const files = new SimFiles({ seed: seedOf(context) })
    copyInto(files, plain, compacted)
    assert.equal(mergeRange(files, ranges), 'merged')
    const [first] = ranges
    const [primary, replica] = directoriesOf(first!.base)
    flip(files, `${replica}/${STAND_IN_NAME}`, 20)
    const task = { logId: LOG_ID, ...first!, isMerged: false, identity: null, directories: [primary!, replica!] }
    assert.deepEqual(
      mendBundle(files, task, () => {}),
      { kind: 'lost' },
    )
  })

  it('stays as it is when no directory has it whole, or the other one has another form or other content', (context) => {
    const { plain, compacted } = stores(context, 2)
    const [first, second] = rangesOf(plain)
    const files = new SimFiles({ seed: seedOf(context) })
    copyInto(files, plain, compacted)
    const pathOf = (directory: string, { base }: Range): string => `${directory}/${segmentName(base)}/${STAND_IN_NAME}`
    assert(!files.exists(pathOf(REPLICA, second!)))
    const ofSecond = identityIn(files, PRIMARY, second!)
    flip(files, pathOf(PRIMARY, second!), 2000)
    assert.deepEqual(mend(files, second!, ofSecond), { kind: 'lost' })
    const identity = identityIn(files, PRIMARY, first!)
    const both = files.clone(1)
    for (const directory of DIRECTORIES) flip(both, pathOf(directory, first!), 2000)
    assert.deepEqual(mend(both, first!, identity), { kind: 'lost' })
    const other = publishedOther(files, REPLICA, first!)
    flip(files, pathOf(PRIMARY, first!), 2000)
    assert.deepEqual(mend(files, first!, identity), { kind: 'lost' })
    assert.deepEqual(readWhole(files, pathOf(REPLICA, first!)), other)
  })
})
