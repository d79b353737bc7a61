import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { nodeFiles } from '../../../src/log/node-files.ts'
import { STAND_IN_NAME } from '../../../src/log/stand-in.ts'
import { CompactIndex } from '../../../src/logstore/compact/compact-index.ts'
import { bundleOfCompact } from '../../../src/logstore/compact/compact-segment.ts'
import { PieceCache } from '../../../src/logstore/compact/piece-cache.ts'
import { ActiveIndex } from '../../../src/logstore/index/active-index.ts'
import { TestStore } from '../../support/stored-segments.ts'

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
    for (const { question, records, matched } of asked) {
      const { results, matched_records } = store.query('acme', question)
      assert.deepEqual(
        results.map(({ record }) => record.record_id),
        records,
        JSON.stringify(question),
      )
      assert.equal(matched_records, matched)
    }
    assert(asked.length > 10)
  })
})
