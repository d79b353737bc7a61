import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { readWhole } from '../../../src/log/files.ts'
import type { Files } from '../../../src/log/files.ts'
import { mergedName } from '../../../src/log/merged.ts'
import { segmentName } from '../../../src/log/segment-format.ts'
import { STAND_IN_NAME, encodeStandInHeader, publishStandIn, readStandIn } from '../../../src/log/stand-in.ts'
import { CompactIndex } from '../../../src/logstore/compact/compact-index.ts'
import { mendBundle } from '../../../src/logstore/compact/mend-bundle.ts'
import type { MendResult } from '../../../src/logstore/compact/mend-bundle.ts'
import { PieceCache } from '../../../src/logstore/compact/piece-cache.ts'
import {
  DIRECTORIES,
  PRIMARY,
  REPLICA,
  copyInto,
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

/** Of its header, of its middle and of its end. */
function placesIn(files: Files, path: string): readonly number[] {
  const file = files.open(path, 'read')
  const bytes = file.size()
  file.close()
  return [20, bytes >> 1, bytes - 1]
}

/** Makes it one of the same segment with other content, as when expired records were taken from it in one directory only. */
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
    assert.deepEqual(mend(files, over, identity, true), { kind: 'mended', from: replica, to: [primary] })
    assert.deepEqual(ledgerOf(files, PRIMARY, ranges), expected)
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
