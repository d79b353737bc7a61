import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { nodeFiles } from '../../../src/log/node-files.ts'
import { RECORDS_NAME } from '../../../src/log/segment-format.ts'
import { STAND_IN_NAME } from '../../../src/log/stand-in.ts'
import { adoptMerged } from '../../../src/logstore/compact/adopt-merged.ts'
import { CompactIndex } from '../../../src/logstore/compact/compact-index.ts'
import { bundleOfCompact } from '../../../src/logstore/compact/compact-segment.ts'
import { decodeMoved } from '../../../src/logstore/compact/moved.ts'
import { PieceCache } from '../../../src/logstore/compact/piece-cache.ts'
import { ActiveIndex } from '../../../src/logstore/index/active-index.ts'
import { LOG_ID, TestStore } from '../../support/stored-segments.ts'

interface Stored {
  readonly base: number
  readonly end: number
  readonly identity: number
  readonly asked: readonly {
    readonly question: object
    readonly records: readonly string[]
    readonly matched: number
  }[]
  readonly compacted: string
}

const stored = (version: number): Stored =>
  JSON.parse(
    readFileSync(new URL(`../../fixtures/compacted/format-${version}.json`, import.meta.url), 'utf8'),
  ) as Stored

/** As the version that wrote the fixture did. */
function assertAnswers(store: TestStore, asked: Stored['asked']): void {
  for (const { question, records, matched } of asked) {
    const { results, matched_records } = store.query('acme', question)
    assert.deepEqual(
      results.map(({ record }) => record.record_id),
      records,
      JSON.stringify(question),
    )
    assert.equal(matched_records, matched)
  }
}

describe('a compacted bundle of format 2', () => {
  it('is found and answers as the version that wrote it did', (context) => {
    const { base, end, identity, asked, compacted } = stored(2)
    const store = TestStore.open(context)
    const directory = store.directoryOf(base)
    mkdirSync(directory)
    writeFileSync(`${directory}/${STAND_IN_NAME}`, Buffer.from(compacted, 'base64'))
    const file = nodeFiles.open(`${directory}/${STAND_IN_NAME}`, 'read')
    const row = bundleOfCompact(new CompactIndex(file, base, new PieceCache(0)))
    file.close()
    assert.equal(row.identity, identity)
    const active = ActiveIndex.create(16, 4)
    const nothing = { bytes: Buffer.alloc(0), frames: 0, lastHeaderCrc: 0 }
    store.segments.push({ base, end, active, ...nothing, sealed: true, row })
    assertAnswers(store, asked)
    assert(asked.length > 10)
  })
})

interface StoredMerge extends Pick<Stored, 'asked'> {
  readonly segments: readonly { readonly base: number; readonly end: number }[]
  /** By path in the directory of the segments. */
  readonly files: Readonly<Record<string, string>>
}

describe('a merged bundle', () => {
  it('is adopted and answers as the version that wrote it did', (context) => {
    const path = new URL('../../fixtures/compacted/merged-1.json', import.meta.url)
    const { segments, asked, files } = JSON.parse(readFileSync(path, 'utf8')) as StoredMerge
    const store = TestStore.open(context)
    for (const { base } of segments) mkdirSync(store.directoryOf(base))
    for (const [name, bytes] of Object.entries(files))
      writeFileSync(`${store.directory}/${name}`, Buffer.from(bytes, 'base64'))
    const log = { id: LOG_ID, reportDamage: () => assert.fail() }
    const infos = segments.map(({ base, end }) => {
      const directory = store.directoryOf(base)
      return { base, end, sealed: true, directory, recordsPath: `${directory}/${RECORDS_NAME}` }
    })
    const [row, ...others] = adoptMerged(nodeFiles, log, infos)
    assert.deepEqual(others, [])
    const moved = infos.map(({ directory }) => decodeMoved(readFileSync(`${directory}/${STAND_IN_NAME}`)))
    assert.deepEqual(
      moved.map((each) => each && { base: each.base, end: each.end }),
      segments,
    )
    assert(moved.every((each) => each!.minTime >= row!.minTime && each!.maxTime <= row!.maxTime))
    const active = ActiveIndex.create(16, 4)
    const nothing = { bytes: Buffer.alloc(0), frames: 0, lastHeaderCrc: 0 }
    store.segments.push({ base: row!.base, end: row!.end, active, ...nothing, sealed: true, row: row! })
    assertAnswers(store, asked)
  })
})
