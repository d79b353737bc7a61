import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import type { TestContext } from 'node:test'
import { StoreError } from '../../../src/errors.ts'
import type { Files } from '../../../src/log/files.ts'
import { makeDurableDirectory, publishFile } from '../../../src/log/files.ts'
import { nodeFiles } from '../../../src/log/node-files.ts'
import { RECORDS_NAME, SEGMENT_FOOTER_BYTES } from '../../../src/log/segment-format.ts'
import { STAND_IN_NAME } from '../../../src/log/stand-in.ts'
import { adoptCompacted } from '../../../src/logstore/compact/adopt.ts'
import { CompactIndex } from '../../../src/logstore/compact/compact-index.ts'
import { compactSegment } from '../../../src/logstore/compact/compact-segment.ts'
import { PieceCache } from '../../../src/logstore/compact/piece-cache.ts'
import { RemovedFiles } from '../../../src/logstore/compact/removed-files.ts'
import { readSegmentRecords } from '../../../src/logstore/compact/segment-records.ts'
import { filledStore } from '../../support/bundle-ledger.ts'
import { Stopped, dyingFiles } from '../../support/dying-files.ts'
import { SimFiles, mulberry32 } from '../../support/sim-files.ts'
import { seedOf } from '../../support/seed.ts'
import { FORMAT_PROTOBUF, SIGNAL_LOG } from '../../../src/logstore/batch-frame.ts'
import { messageType } from '../../../src/logstore/query/render/otlp-types.ts'
import { LOG_ID, TRACES, TestStore } from '../../support/stored-segments.ts'

const DIRECTORIES = ['/data/bundles/0', '/replica/bundles/0']

const bundleOf = (context: TestContext): TestStore => filledStore(context, 1, 30)

const taskOf = ({ segments }: TestStore) => {
  const { base, end } = segments[0]!
  return { logId: LOG_ID, base, end, directories: DIRECTORIES }
}

function copyInto(files: SimFiles, store: TestStore): void {
  for (const directory of DIRECTORIES) {
    makeDurableDirectory(files, directory)
    for (const name of [RECORDS_NAME, 'index.bin', 'manifest.json']) {
      publishFile(files, directory, name, [readFileSync(`${store.directoryOf(0)}/${name}`)])
    }
  }
}

/** The records that a start finds in a directory: id, time, place and bytes of each. */
function ledgerOf(files: Files, directory: string, { base, end }: { base: number; end: number }): readonly string[] {
  const recordsPath = `${directory}/${RECORDS_NAME}`
  const segment = { base, end, sealed: true, directory, recordsPath }
  const damage: unknown[] = []
  const log = { id: LOG_ID, reportDamage: (_segment: unknown, range: unknown) => void damage.push(range) }
  const adopted = adoptCompacted(files, log, segment)
  assert.deepEqual(damage, [])
  const line = (entry: number, id: Uint32Array, time: string, place: string, bytes: Uint8Array): string =>
    `${entry} ${[...id].join('.')} ${time} ${place} ${Buffer.from(bytes).toString('hex')}`
  if (adopted === null) {
    const file = files.open(recordsPath, 'read')
    const records = readSegmentRecords(file, LOG_ID, base, end)
    assert(records !== null)
    const { index, count } = records
    const { source, starts, ends } = records.read(Uint32Array.from({ length: count }, (_, entry) => entry))
    file.close()
    return Array.from({ length: count }, (_, entry) => {
      const id = index.idWords.slice(4 * entry, 4 * entry + 4)
      const time = `${index.timeHigh[entry]} ${index.timeLow[entry]}`
      const place = `${index.frameOffset[entry]} ${index.recordNumber[entry]}`
      return line(entry, id, time, place, source.subarray(starts[entry], ends[entry]))
    })
  }
  const index = new CompactIndex(files.open(`${directory}/${STAND_IN_NAME}`, 'read'), base, new PieceCache(1 << 20))
  return Array.from({ length: index.entryCount }, (_, entry) => {
    index.seekEntry(entry)
    const { timeHigh, timeLow, frameOffset, recordNumber, unit, number } = index
    const { record } = index.records(index.blocks[unit]!).record(number)
    return line(entry, index.idOf(entry), `${timeHigh} ${timeLow}`, `${frameOffset} ${recordNumber}`, record)
  })
}

describe('compacting a segment', () => {
  it('loses, repeats and changes no record, whenever the process is killed or the power fails', (context) => {
    const store = bundleOf(context)
    const task = taskOf(store)
    const seed = seedOf(context)
    const before = new SimFiles({ seed })
    copyInto(before, store)
    const expected = ledgerOf(before, DIRECTORIES[0]!, task)
    assert.equal(expected.length, 240)
    let points = 0
    for (const how of ['kill', 'crash'] as const) {
      for (let after = 0, isOver = false; !isOver; after++, points++) {
        const files = new SimFiles({ seed: seed + after })
        copyInto(files, store)
        const dying = dyingFiles(files, after)
        try {
          compactSegment(dying, { ...task, kind: 'write' }, () => {})
          compactSegment(dying, { ...task, kind: 'clear' }, () => {})
          isOver = true
        } catch (error) {
          assert(error instanceof Stopped || error instanceof Error)
        }
        files[how]()
        for (const directory of DIRECTORIES) assert.deepEqual(ledgerOf(files, directory, task), expected)
        // The next start finishes what this life did not.
        if (!files.exists(`${DIRECTORIES[0]}/${RECORDS_NAME}`)) continue
        const again = compactSegment(files, { ...task, kind: 'write' }, () => {})
        assert.equal(again.kind, 'written')
        compactSegment(files, { ...task, kind: 'clear' }, () => {})
        for (const directory of DIRECTORIES) {
          assert.deepEqual(ledgerOf(files, directory, task), expected)
          assert.deepEqual(files.list(directory), [STAND_IN_NAME])
        }
      }
    }
    assert(points > 20, `${points} points`)
  })

  it('is made good in every directory by a life that finds it in the first one, whenever the process before died', (context) => {
    const store = bundleOf(context)
    const task = taskOf(store)
    const seed = seedOf(context)
    const before = new SimFiles({ seed })
    copyInto(before, store)
    const expected = ledgerOf(before, DIRECTORIES[0]!, task)
    let points = 0
    for (const how of ['kill', 'crash'] as const) {
      for (let after = 0, isOver = false; !isOver; after++) {
        const files = new SimFiles({ seed: seed + after })
        copyInto(files, store)
        try {
          compactSegment(dyingFiles(files, after), { ...task, kind: 'write' }, () => {})
          isOver = true
        } catch (error) {
          assert(error instanceof Stopped || error instanceof Error)
        }
        files[how]()
        if (!files.exists(`${DIRECTORIES[0]}/${STAND_IN_NAME}`)) continue
        points++
        compactSegment(files, { ...task, kind: 'clear' }, () => {})
        for (const directory of DIRECTORIES) {
          assert.deepEqual(ledgerOf(files, directory, task), expected)
          assert.deepEqual(files.list(directory), [STAND_IN_NAME], `${how} after ${after}: ${directory}`)
        }
      }
    }
    assert(points > 3, `${points} points`)
  })

  it('frees the files that it removed when the next one is cleared: others may have them open until then', (context) => {
    const store = bundleOf(context)
    const directory = store.directoryOf(0)
    const others = nodeFiles.list(directory)!.map((name) => `${directory}/${name}`)
    const open: string[] = []
    const files: Files = {
      ...nodeFiles,
      open(path, ...more) {
        const file = nodeFiles.open(path, ...more)
        const close = file.close.bind(file)
        open.push(path)
        file.close = () => {
          open.splice(open.indexOf(path), 1)
          close()
        }
        return file
      },
    }
    const removed = new RemovedFiles(files)
    const task = { ...taskOf(store), directories: [directory] }
    const run = (kind: 'write' | 'clear') => compactSegment(files, { ...task, kind }, () => {}, removed)
    run('write')
    run('clear')
    assert.deepEqual(open, others)
    assert.deepEqual(nodeFiles.list(directory), [STAND_IN_NAME])
    run('clear')
    assert.deepEqual([...open], [])
  })

  it('keeps nothing of what it took for it, before any collection', (context) => {
    const store = bundleOf(context)
    const files = new SimFiles({ seed: 1 })
    copyInto(files, store)
    const before = process.memoryUsage().arrayBuffers
    assert.equal(compactSegment(files, { ...taskOf(store), kind: 'write' }, () => {}).kind, 'written')
    const kept = process.memoryUsage().arrayBuffers - before
    assert(kept < 16 * 1024 * 1024, `${kept} bytes`) // the columns of a segment take 32 MB
  })

  it('leaves a segment as it is in which a frame is damaged', (context) => {
    const store = bundleOf(context)
    const files = new SimFiles({ seed: 1 })
    copyInto(files, store)
    files.damage(`${DIRECTORIES[0]}/${RECORDS_NAME}`, (content) => {
      content[content.byteLength - SEGMENT_FOOTER_BYTES - 100]! ^= 4
      return content
    })
    assert.equal(compactSegment(files, { ...taskOf(store), kind: 'write' }, () => {}).kind, 'left')
    assert.deepEqual(files.list(DIRECTORIES[0]!), ['index.bin', 'manifest.json', RECORDS_NAME])
  })

  it('takes every severity that a client may send', (context) => {
    const severityNumbers = [0, 1, 24, 30, 31, 32, 255, -1]
    const store = TestStore.open(context)
    const logRecords = Array.from({ length: 400 }, (_, i) => ({
      timeUnixNano: 1 + i,
      severityNumber: severityNumbers[i % 8],
      body: { stringValue: `order ${i}` },
    }))
    const Request = messageType('opentelemetry.proto.collector.logs.v1.ExportLogsServiceRequest')
    const message = Request.fromObject({ resourceLogs: [{ scopeLogs: [{ logRecords }] }] })
    const body = Buffer.from(Request.encode(message).finish())
    store.addBody('acme', body, SIGNAL_LOG, FORMAT_PROTOBUF, ['orders'])
    store.seal()
    store.publish(false, true)
    assert.equal(store.segments[0]!.row!.isCompacted, true)
    const found = store.query('acme', { dataset: 'orders', filter: { search: 'severity:31' } })
    assert.equal(found.matched_records, 50)
  })

  it('takes nothing for written that does not read back as it was', (context) => {
    const store = bundleOf(context)
    const files = new SimFiles({ seed: 1 })
    copyInto(files, store)
    files.faults = {
      read(path, at, bytes) {
        if (path.includes(STAND_IN_NAME) && at > 2000) bytes[0]! ^= 1
      },
    }
    assert.throws(() => compactSegment(files, { ...taskOf(store), kind: 'write' }, () => {}), StoreError)
    assert.equal(files.exists(`${DIRECTORIES[0]}/${STAND_IN_NAME}`), false)
  })
})

describe('a bit that flipped in a compacted bundle', () => {
  it('is a refusal or changes no answer, wherever it is', (context) => {
    const store = bundleOf(context)
    const questions = [
      { dataset: 'orders' },
      { dataset: 'orders', filter: { trace_id: TRACES[1] }, page: { limit: 500 } },
      { dataset: 'payments', order: 'desc', page: { limit: 5 } },
      { dataset: 'orders', filter: { search: 'paid severity:>=error' }, page: { limit: 500 } },
      { dataset: 'orders', filter: { search: 'c-3x OR again' }, page: { limit: 500 } },
      { dataset: 'orders', filter: { search: 'paid' }, page: { limit: 1 } },
      { dataset: 'orders', filter: { search: '"order 17"' }, page: { limit: 1 } },
      { dataset: 'orders', filter: { start_time_unix_nano: 1_002_000, end_time_unix_nano: 1_006_000 } },
    ]
    const plain = questions.map((question) => store.query('acme', question).results)
    store.compact()
    const byId = { dataset: 'orders', filter: { record_id: plain[0]![3]!.record.record_id } }
    const ask = () => [...questions, byId].map((question) => store.ask('acme', question))
    const bodyOf = (answer: ReturnType<typeof ask>[number]) =>
      answer.kind === 'ok' ? Buffer.from(answer.body).toString() : null
    const expected = ask().map(bodyOf)
    for (const [number, results] of plain.entries()) {
      assert.deepEqual((JSON.parse(expected[number]!) as { results: unknown }).results, results)
    }
    const path = `${store.directoryOf(0)}/${STAND_IN_NAME}`
    const whole = readFileSync(path)
    const random = mulberry32(seedOf(context))
    let refused = 0
    for (let round = 0; round < 120; round++) {
      // Damage in every part: most of it at the start, where the small parts are.
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
    assert(refused > 100)
  })
})
