import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { crc32 } from 'node:zlib'
import { mergedName } from '../../../src/log/merged.ts'
import { nodeFiles } from '../../../src/log/node-files.ts'
import { RECORDS_NAME } from '../../../src/log/segment-format.ts'
import {
  STAND_IN_HEADER_BYTES,
  STAND_IN_NAME,
  decodeStandInHeader,
  encodeStandInHeader,
} from '../../../src/log/stand-in.ts'
import { adoptCompacted } from '../../../src/logstore/compact/adopt.ts'
import { adoptMerged } from '../../../src/logstore/compact/adopt-merged.ts'
import { COMPACT_BEGIN_BYTES } from '../../../src/logstore/compact/compact-format.ts'
import { CompactIndex } from '../../../src/logstore/compact/compact-index.ts'
import { bundleOfCompact } from '../../../src/logstore/compact/compact-segment.ts'
import { decodeMoved } from '../../../src/logstore/compact/moved.ts'
import { PieceCache } from '../../../src/logstore/compact/piece-cache.ts'
import { ActiveIndex } from '../../../src/logstore/index/active-index.ts'
import { filledStore, infosIn, rangesOf } from '../../support/bundle-ledger.ts'
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

const stored = (version: string): Stored =>
  JSON.parse(
    readFileSync(new URL(`../../fixtures/compacted/format-${version}.json`, import.meta.url), 'utf8'),
  ) as Stored

/** Checks that the store answers as the version that wrote the fixture did. */
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

/** A word that format-3-counted has a count of. */
const COUNTED = 'order'

for (const version of ['2', '3', '3-counted']) {
  describe(`a compacted bundle of format ${version}`, () => {
    it('is found and answers as the version that wrote it did', (context) => {
      const { base, end, identity, asked, compacted } = stored(version)
      const store = TestStore.open(context)
      const directory = store.directoryOf(base)
      mkdirSync(directory)
      writeFileSync(`${directory}/${STAND_IN_NAME}`, Buffer.from(compacted, 'base64'))
      const file = nodeFiles.open(`${directory}/${STAND_IN_NAME}`, 'read')
      const index = new CompactIndex(file, base, new PieceCache(0))
      assert.equal(index.rowsWithToken(COUNTED), null, 'its counts may be wrong')
      const row = bundleOfCompact(index)
      file.close()
      assert.equal(row.identity, identity)
      const active = ActiveIndex.create(16, 4)
      const nothing = { bytes: Buffer.alloc(0), frames: 0, lastHeaderCrc: 0 }
      store.segments.push({ base, end, active, ...nothing, sealed: true, row })
      assertAnswers(store, asked)
      assert(asked.length > 10)
      assertFindsEach(store, 'orders')
    })
  })
}

/** Finds each record by its id. A page of all records has the ids. */
function assertFindsEach(store: TestStore, dataset: string): void {
  const { results } = store.query('acme', { dataset, page: { limit: 500 } })
  for (const { record } of results) {
    const found = store.query('acme', { dataset, filter: { record_id: record.record_id } })
    assert.deepEqual(
      found.results.map((each) => each.record),
      [record],
    )
  }
  assert(results.length > 40)
}

describe('a compacted bundle of a newer format', () => {
  it('is refused by a start, which leaves it and what is beside it as it is', (context) => {
    const store = filledStore(context, 2)
    const beside = readFileSync(`${store.directoryOf(0)}/${RECORDS_NAME}`)
    store.compact()
    const infos = infosIn(store.directory, rangesOf(store))
    const refusal = {
      code: 'bundle_format_newer',
      message: /newer version \(format 99, this version knows 4\): upgrade/,
    }
    const log = { id: LOG_ID, reportDamage: () => assert.fail('it is not damaged') }
    const path = `${store.directoryOf(0)}/${STAND_IN_NAME}`
    makeNewer(path)
    const newer = readFileSync(path)
    assert.throws(() => adoptCompacted(nodeFiles, log, infos[0]!), refusal)
    writeFileSync(`${store.directoryOf(0)}/${RECORDS_NAME}`, beside)
    assert.throws(() => adoptCompacted(nodeFiles, log, infos[0]!), refusal)
    assert.deepEqual(readFileSync(path), newer)
    assert.deepEqual(readFileSync(`${store.directoryOf(0)}/${RECORDS_NAME}`), beside)
  })

  it('is refused where it is a merged one, too', (context) => {
    const store = filledStore(context, 2)
    store.compact()
    assert(store.merge(0, 2))
    const path = `${store.directoryOf(0)}/${mergedName(store.segments.at(-1)!.end)}`
    makeNewer(path)
    const newer = readFileSync(path)
    const log = { id: LOG_ID, reportDamage: () => assert.fail('it is not damaged') }
    const start = () => adoptMerged(nodeFiles, log, infosIn(store.directory, rangesOf(store)))
    assert.throws(start, { code: 'bundle_format_newer' })
    assert.deepEqual(readFileSync(path), newer)
  })
})

/** Makes the file what a version that knows format 99 would write. */
function makeNewer(path: string): void {
  const whole = readFileSync(path)
  const head = whole.subarray(STAND_IN_HEADER_BYTES, COMPACT_BEGIN_BYTES)
  head.writeUInt32LE(99, 8)
  head.writeUInt32LE(crc32(head.subarray(0, 92)), 92)
  const standIn = decodeStandInHeader(whole)!
  writeFileSync(
    path,
    Buffer.concat([
      encodeStandInHeader(standIn, [whole.subarray(STAND_IN_HEADER_BYTES)]),
      whole.subarray(STAND_IN_HEADER_BYTES),
    ]),
  )
}

interface StoredMerge extends Pick<Stored, 'asked'> {
  readonly segments: readonly { readonly base: number; readonly end: number }[]
  /** Contents by path in the directory of the segments. */
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
