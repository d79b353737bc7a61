import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import type { Files } from '../../../src/log/files.ts'
import { mergedName } from '../../../src/log/merged.ts'
import { nodeFiles } from '../../../src/log/node-files.ts'
import { segmentName } from '../../../src/log/segment-format.ts'
import { STAND_IN_NAME } from '../../../src/log/stand-in.ts'
import { adoptMerged } from '../../../src/logstore/compact/adopt-merged.ts'
import { mergeBundles } from '../../../src/logstore/compact/merge-bundles.ts'
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
import { Stopped, dyingFiles } from '../../support/dying-files.ts'
import { seedOf } from '../../support/seed.ts'
import { SimFiles, mulberry32 } from '../../support/sim-files.ts'
import { LOG_ID, TRACES } from '../../support/stored-segments.ts'

describe('merging bundles', () => {
  it('loses, repeats and changes no record, whenever the process is killed or the power fails', (context) => {
    const { plain, compacted } = stores(context, 5)
    const ranges = rangesOf(plain)
    const seed = seedOf(context)
    const before = new SimFiles({ seed })
    copyInto(before, plain, compacted)
    const expected = ledgerOf(before, PRIMARY, ranges)
    assert.equal(expected.length, 80)
    let points = 0
    const everything = (files: Files): void => {
      mergeRange(files, ranges.slice(0, 2))
      mergeRange(files, ranges.slice(2, 4))
      mergeRange(files, ranges) // of two merged bundles and one that is not
    }
    for (const how of ['kill', 'crash'] as const) {
      for (let after = 0, isOver = false; !isOver; after += 1, points++) {
        const files = before.clone(seed + after)
        try {
          everything(dyingFiles(files, after))
          isOver = true
        } catch (error) {
          if (!(error instanceof Stopped)) throw error
        }
        files[how]()
        for (const directory of DIRECTORIES)
          assert.deepEqual(ledgerOf(files, directory, ranges), expected, `${how} after ${after}: ${directory}`)
        // The next start merges what there is.
        if (after % 4 !== 0) continue
        assert.equal(mergeRange(files, ranges), 'merged')
        for (const directory of DIRECTORIES) {
          assert.deepEqual(ledgerOf(files, directory, ranges), expected)
          for (const [number, { base }] of ranges.entries()) {
            const name = mergedName(ranges.at(-1)!.end)
            const wanted = number === 0 ? [STAND_IN_NAME, name] : [STAND_IN_NAME]
            assert.deepEqual(files.list(`${directory}/${segmentName(base)}`), wanted)
          }
        }
      }
    }
    assert(points > 150, `${points} points`)
  })

  it('leaves nothing behind when it is stopped, and writes nothing that does not read back', (context) => {
    const { plain, compacted } = stores(context, 3)
    const ranges = rangesOf(plain)
    const files = new SimFiles({ seed: 1 })
    copyInto(files, plain, compacted)
    const before = files.paths().join('\n')
    const task = {
      kind: 'merge' as const,
      logId: LOG_ID,
      bundles: ranges.map((range) => ({ ...range, isMerged: false })),
      segments: ranges,
      segmentsDirectories: DIRECTORIES,
    }
    for (let rests = 0; ; rests++) {
      let left = rests
      const { kind } = mergeBundles(files, task, () => left-- > 0)
      if (kind === 'merged') break
      assert.equal(kind, 'stopped')
      const isLeft = files.paths().filter((path) => !before.includes(path) && !path.includes('merged-'))
      assert.deepEqual(isLeft, [])
      if (rests < 4) assert.equal(files.paths().join('\n'), before)
    }
    const again = new SimFiles({ seed: 1 })
    copyInto(again, plain, compacted)
    again.faults = {
      read(path, at, bytes) {
        if (path.includes('merged-') && !path.includes('blocks') && at > 2000) bytes[0]! ^= 1
      },
    }
    assert.equal(mergeBundles(again, task, () => true).kind, 'damaged')
    assert.equal(again.paths().join('\n'), before)
  })

  it('leaves bundles apart of which one is damaged, or that would overlap another merged file', (context) => {
    const { plain, compacted } = stores(context, 4)
    const ranges = rangesOf(plain)
    const files = new SimFiles({ seed: 1 })
    copyInto(files, plain, compacted)
    mergeRange(files, ranges.slice(0, 2))
    const part = ranges.slice(1, 3)
    const task = {
      kind: 'merge' as const,
      logId: LOG_ID,
      bundles: part.map((range) => ({ ...range, isMerged: false })),
      segments: part,
      segmentsDirectories: [PRIMARY],
    }
    assert.equal(mergeBundles(files, task, () => true).kind, 'left')
    files.damage(`${PRIMARY}/${segmentName(ranges[3]!.base)}/${STAND_IN_NAME}`, (content) => {
      content[content.byteLength - 100]! ^= 4
      return content
    })
    const last = ranges.slice(2)
    const damaged = { ...task, segments: last, bundles: last.map((range) => ({ ...range, isMerged: false })) }
    assert.equal(mergeBundles(files, damaged, () => true).kind, 'damaged')
  })

  it('makes no replica directory anew that has vanished, and says so', (context) => {
    const { plain, compacted } = stores(context, 3)
    const ranges = rangesOf(plain)
    const files = new SimFiles({ seed: 1 })
    copyInto(files, plain, compacted)
    files.removeDirectory('/replica')
    const bundles = ranges.map((range) => ({ ...range, isMerged: false }))
    const task = { logId: LOG_ID, bundles, segments: ranges, segmentsDirectories: DIRECTORIES }
    const result = mergeBundles(files, { ...task, kind: 'merge' }, () => true)
    assert(result.kind === 'merged')
    assert.match(result.problem ?? '', /^\/replica\/bundles: /)
    mergeBundles(files, { ...task, kind: 'settle' }, () => true)
    assert.deepEqual(
      files.paths().filter((path) => path.startsWith('/replica')),
      [],
    )
    assert.equal(ledgerOf(files, PRIMARY, ranges).length, 48)
  })

  it('is told as damage of every segment when the merged file is gone', (context) => {
    const { plain, compacted } = stores(context, 3)
    const ranges = rangesOf(plain)
    const files = new SimFiles({ seed: 1 })
    copyInto(files, plain, compacted)
    mergeRange(files, ranges)
    files.removeFile(`${PRIMARY}/${segmentName(ranges[0]!.base)}/${mergedName(ranges[2]!.end)}`)
    const damage: unknown[] = []
    const log = { id: LOG_ID, reportDamage: ({ base }: { base: number }) => void damage.push(base) }
    assert.deepEqual(adoptMerged(files, log, infosIn(PRIMARY, ranges)), [])
    assert.deepEqual(
      damage,
      ranges.map(({ base }) => base),
    )
  })
})

describe('a bit that flipped in a merged bundle', () => {
  it('is a refusal or changes no answer, wherever it is', (context) => {
    const store = filledStore(context, 4)
    const questions = [
      { dataset: 'orders' },
      { dataset: 'orders', filter: { trace_id: TRACES[1] }, page: { limit: 500 } },
      { dataset: 'payments', order: 'desc', page: { limit: 5 } },
      { dataset: 'orders', filter: { search: 'paid severity:>=error' }, page: { limit: 500 } },
      { dataset: 'orders', filter: { search: 'c-3x OR again' }, page: { limit: 500 } },
      { dataset: 'orders', filter: { start_time_unix_nano: 1_002_000, end_time_unix_nano: 1_006_000 } },
    ]
    const plain = questions.map((question) => store.query('acme', question).results)
    store.compact()
    assert(store.merge(0, 4))
    const byId = { dataset: 'orders', filter: { record_id: plain[0]![3]!.record.record_id } }
    const ask = () => [...questions, byId].map((question) => store.ask('acme', question))
    const bodyOf = (answer: ReturnType<typeof ask>[number]) =>
      answer.kind === 'ok' ? Buffer.from(answer.body).toString() : null
    const expected = ask().map(bodyOf)
    for (const [number, results] of plain.entries())
      assert.deepEqual((JSON.parse(expected[number]!) as { results: unknown }).results, results)
    const path = `${store.directoryOf(0)}/${mergedName(store.segments.at(-1)!.end)}`
    const whole = readFileSync(path)
    const random = mulberry32(seedOf(context))
    let refused = 0
    for (let round = 0; round < 80; round++) {
      const at = Math.floor(random() ** 2 * whole.byteLength)
      const damaged = Buffer.from(whole)
      damaged[at]! ^= 1 << Math.floor(random() * 8)
      const file = nodeFiles.open(path, 'write')
      file.writev([damaged], 0)
      file.close()
      store.restart()
      for (const [number, answer] of ask().entries()) {
        if (answer.kind === 'ok') assert.equal(bodyOf(answer), expected[number], `byte ${at}`)
        else {
          assert.equal(answer.kind, 'bundle_read_failed')
          assert.deepEqual(answer.incident, { kind: 'stand-in', base: 0 })
          refused++
        }
      }
    }
    assert(refused > 60, `${refused} refused`)
  })
})
