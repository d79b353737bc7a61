/** Flips bits in every kind of block of a compacted bundle, one kind after the other. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import type { TestContext } from 'node:test'
import { mergedName } from '../../../src/log/merged.ts'
import { nodeFiles } from '../../../src/log/node-files.ts'
import { STAND_IN_HEADER_BYTES, STAND_IN_NAME } from '../../../src/log/stand-in.ts'
import { adoptMerged } from '../../../src/logstore/compact/adopt-merged.ts'
import { COMPACT_BEGIN_BYTES, decodeCompactHead } from '../../../src/logstore/compact/compact-format.ts'
import { CompactIndex } from '../../../src/logstore/compact/compact-index.ts'
import type { CompactBlock } from '../../../src/logstore/compact/compact-directory.ts'
import { PieceCache } from '../../../src/logstore/compact/piece-cache.ts'
import { FORMAT_PROTOBUF, SIGNAL_LOG } from '../../../src/logstore/batch-frame.ts'
import { messageType } from '../../../src/logstore/query/render/otlp-types.ts'
import { LOG_ID, TRACES, TestStore } from '../../support/stored-segments.ts'

const LOGS = messageType('opentelemetry.proto.collector.logs.v1.ExportLogsServiceRequest')
/** Flips for each kind of block, evenly spread over it. */
const FLIPS = 6

interface Region {
  readonly what: string
  readonly from: number
  readonly to: number
}

/** Where each kind of block is; where there are many blocks of records, in one of them. See compact-format.ts. */
function regionsOf(path: string, base: number): readonly Region[] {
  const whole = readFileSync(path)
  const head = decodeCompactHead(whole.subarray(STAND_IN_HEADER_BYTES))!
  const file = nodeFiles.open(path, 'read')
  const { blocks } = new CompactIndex(file, base, new PieceCache(0))
  file.close()
  const directoryEnd = COMPACT_BEGIN_BYTES + head.directoryBytes
  const block = blocks[0]!
  const last = blocks.at(-1)!
  const pieceOf = (name: 'filter' | 'keys' | 'texts' | 'numbers' | 'values') => ({
    what: name,
    from: block[name].at,
    to: block[name].at + block[name].bytes,
  })
  const { at: filtersAt } = (blocks.find(({ filter }) => filter.bytes > 0) satisfies CompactBlock | undefined)!.filter
  return [
    { what: 'header of the stand-in', from: 0, to: STAND_IN_HEADER_BYTES },
    { what: 'head', from: STAND_IN_HEADER_BYTES, to: COMPACT_BEGIN_BYTES },
    { what: 'directory', from: COMPACT_BEGIN_BYTES, to: directoryEnd },
    { what: 'record ids and trace ids', from: directoryEnd, to: head.openBytes },
    { what: 'counts of tokens', from: head.openBytes, to: filtersAt },
    pieceOf('filter'),
    { what: 'chunks of entries', from: last.filter.at + last.filter.bytes, to: block.keys.at },
    pieceOf('keys'),
    pieceOf('texts'),
    pieceOf('numbers'),
    pieceOf('values'),
  ]
}

/** Questions that together need every kind of block of the first partition's first block. */
function questionsOf(store: TestStore, tenant: string, dataset: string): readonly object[] {
  const all = store.query(tenant, { dataset, page: { limit: 500 } }).results
  const middle = all[all.length >> 1]!.record
  return [
    { dataset, page: { limit: 500 } },
    { dataset, filter: { record_id: middle.record_id } },
    { dataset, filter: { trace_id: TRACES[1] }, page: { limit: 500 } },
    { dataset, filter: { start_time_unix_nano: 1_002_000, end_time_unix_nano: 1_006_000 }, page: { limit: 500 } },
    { dataset, filter: { search: 'paid' }, page: { limit: 1 } },
    { dataset, filter: { search: '"order 3"' }, page: { limit: 500 } },
    { dataset, filter: { search: 'nowhere' } },
    { dataset, filter: { search: 'severity:>=error' }, page: { limit: 1 } },
    { dataset, filter: { search: 'code:>215' }, page: { limit: 500 } },
  ]
}

function flipped(whole: Buffer, at: number): Buffer {
  const damaged = Buffer.from(whole)
  damaged[at]! ^= 1 << (at % 8)
  return damaged
}

function write(path: string, content: Buffer): void {
  const file = nodeFiles.open(path, 'write')
  file.writev([content], 0)
  file.close()
}

function flipEverywhere(store: TestStore, path: string): void {
  const file = nodeFiles.open(path, 'read')
  const [first] = [...new CompactIndex(file, 0, new PieceCache(0)).partitions()]
  file.close()
  const { tenant, dataset } = first!
  const questions = questionsOf(store, tenant, dataset)
  const ask = () => {
    store.restart()
    return questions.map((question) => {
      const answer = store.ask(tenant, question)
      return answer.kind === 'ok' ? Buffer.from(answer.body).toString() : answer.kind
    })
  }
  const expected = ask()
  const whole = readFileSync(path)
  for (const { what, from, to } of regionsOf(path, 0)) {
    assert(to > from, `there is no ${what}`)
    let refused = 0
    for (let flip = 0; flip < FLIPS; flip++) {
      const at = from + Math.floor(((to - from) * flip) / FLIPS)
      write(path, flipped(whole, at))
      for (const [number, answer] of ask().entries()) {
        if (answer === 'bundle_read_failed') refused++
        else assert.equal(answer, expected[number], `${what}, byte ${at}`)
      }
    }
    assert(refused > 0, `no question needs the ${what}`)
  }
  write(path, whole)
  assert.deepEqual(ask(), expected)
}

function compacted(context: TestContext, segments: number): TestStore {
  const store = TestStore.open(context)
  for (let segment = 0; segment < segments; segment++) {
    for (let batch = 0; batch < 4; batch++)
      store.addBody('acme', bodyOf(4 * segment + batch), SIGNAL_LOG, FORMAT_PROTOBUF, ['orders'])
    store.seal()
  }
  store.publish()
  store.compact()
  return store
}

/** 25 records, whose words are frequent or rare, with and without a trace. */
function bodyOf(batch: number): Buffer {
  const logRecords = Array.from({ length: 25 }, (_, i) => ({
    timeUnixNano: String(1_000_000 + batch * 1000 + i),
    severityNumber: 9 + (i % 2) * 8,
    ...(i % 3 > 0 && { traceId: Buffer.from(TRACES[(batch + i) % 3]!, 'hex') }),
    body: { stringValue: `order ${batch * 25 + i} was paid in ${i} ms by c-${batch}x` },
    attributes: [{ key: 'code', value: { intValue: String(200 + i) } }],
  }))
  const message = { resourceLogs: [{ resource: {}, scopeLogs: [{ logRecords }] }] }
  return Buffer.from(LOGS.encode(LOGS.fromObject(message)).finish())
}

describe('a bit that flips in any kind of block', () => {
  it('of a compacted bundle is a refusal, or changes no answer', (context) => {
    const store = compacted(context, 1)
    flipEverywhere(store, `${store.directoryOf(0)}/${STAND_IN_NAME}`)
  })

  it('of a merged bundle is so, too', (context) => {
    const store = compacted(context, 4)
    assert(store.merge(0, 4))
    flipEverywhere(store, `${store.directoryOf(0)}/${mergedName(store.segments.at(-1)!.end)}`)
  })

  it('of a moved stand-in, or the header of a merged file, never makes a start leave out records in silence', (context) => {
    const store = compacted(context, 2)
    assert(store.merge(0, 2))
    const segments = store.segments.map(({ base, end }) => {
      const directory = store.directoryOf(base)
      return { base, end, sealed: true, directory, recordsPath: `${directory}/records.log` }
    })
    const start = () => {
      const damage: number[] = []
      const log = { id: LOG_ID, reportDamage: ({ base }: { readonly base: number }) => void damage.push(base) }
      const merged = adoptMerged(nodeFiles, log, segments)
      const isRead = (base: number): boolean => merged.some((over) => over.base <= base && base < over.end)
      return { damage, unread: segments.filter(({ base }) => !isRead(base)).map(({ base }) => base) }
    }
    assert.deepEqual(start(), { damage: [], unread: [] })
    const [first, second] = segments
    const moved = `${second!.directory}/${STAND_IN_NAME}`
    for (const path of [moved, `${first!.directory}/${mergedName(second!.end)}`]) {
      const whole = readFileSync(path)
      for (let at = 0; at < 160 && at < whole.byteLength; at += 3) {
        write(path, flipped(whole, at))
        const { damage, unread } = start()
        // A segment that is not read from a merged bundle is reported. A moved stand-in that does not open is made again.
        for (const base of unread) assert(damage.includes(base), `${path} byte ${at}`)
        if (path === moved) assert.deepEqual({ damage, unread }, { damage: [], unread: [] })
        write(path, whole)
      }
    }
    assert.deepEqual(start(), { damage: [], unread: [] })
  })
})
