import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'node:test'
import { crc32 } from 'node:zlib'
import { frameBytes } from '../../../native-free-codecs/frame.ts'
import { FRAME_RECORDS, encodeRecords, recordsBytes } from '../../../src/broker/frames.ts'
import { contentOf, readNewestCheckpoint } from '../../support/checkpoints.ts'
import type { ReadResult, ReadTask } from '../../../src/broker/records/read-protocol.ts'
import { RecordIndex } from '../../../src/broker/records/record-index.ts'
import { RecordReads } from '../../../src/broker/records/record-reads.ts'
import { encodeSegmentIndex, readSegmentIndex } from '../../../src/broker/records/segment-index.ts'
import type { CheckpointTask } from '../../../src/engine/checkpoint-thread.ts'
import type { SidecarTask } from '../../../src/broker/records/segment-index.ts'
import { Log } from '../../../src/log/log.ts'
import { LogWriter } from '../../../src/log/log-writer.ts'
import { nodeFiles } from '../../../src/log/node-files.ts'
import { JobPool } from '../../../src/pipeline/jobs.ts'
import { INGEST_TIME_MS, bytesOf, plainRecord, shownRecord } from './support.ts'
import { unloggedReadErrors } from '../../support/health.ts'

it('threads read records of a real log as soon as they are written, and write sidecars that a next start reads', async (context) => {
  const directory = mkdtempSync(join(tmpdir(), 'trilog-records-'))
  const log = await Log.open({ directory, ringBytes: 1 << 16, reserveBytes: 0 })
  const pool = <Task, Result>(name: string, workerData?: unknown): JobPool<Task, Result> => {
    const filename = new URL(`../../../workers/${name}.ts`, import.meta.url)
    return new JobPool<Task, Result>({ name, filename, threads: 1, queueMax: 4, workerData })
  }
  const workerData = { segmentsDirectory: join(directory, 'segments'), logId: log.id }
  const readers = pool<ReadTask, ReadResult>('read-records', workerData)
  const writers = pool<SidecarTask | CheckpointTask, void>('write-sidecars')
  context.after(async () => {
    await Promise.all([readers.close({ withinMs: 1000 }), writers.close({ withinMs: 1000 })])
    await log.close()
    rmSync(directory, { recursive: true })
  })
  const reads = new RecordReads({
    jobs: readers,
    threads: 1,
    waitingMax: 10,
    readable: () => ({ from: log.segments[0]?.base ?? 0, end: log.written, generation: log.generation }),
    defer: setImmediate,
    readErrors: unloggedReadErrors(),
  })
  const writer = LogWriter.attach(log.writer)
  const progress = (isReached: () => boolean): Promise<void> =>
    new Promise((resolve) => log.onProgress(() => isReached() && resolve()))

  const records = [plainRecord(0), plainRecord(1), plainRecord(2)]
  const payloadBytes = recordsBytes(records)
  assert.equal(writer.tryBegin(FRAME_RECORDS, payloadBytes, -1, 0, 'sync', 'admit'), 'ok')
  const at = writer.inlineOffset
  encodeRecords(writer.bytes, at, { streamNumber: 1, firstOffset: 0, ingestTimeMs: INGEST_TIME_MS, records })
  const written = progress(() => log.committed >= writer.end)
  writer.publish(crc32(writer.bytes.subarray(at, at + payloadBytes)))
  const index = new RecordIndex()
  index.append(
    { segmentBase: writer.segmentBase, place: writer.segmentOffset, frameBytes: frameBytes(payloadBytes) },
    0,
    3,
    INGEST_TIME_MS,
    (n) => records[n]!.eventTimeMs,
    (n) => bytesOf(records[n]!.payload).byteLength,
  )
  await written
  const pages = await Promise.all(
    [0, 1].map((start) => reads.page(index, start, 3, { maxRecords: 10, maxPayloadBytes: null })),
  )
  for (const [start, { bytes }] of pages.entries()) {
    const expected = records.map((record, n) => shownRecord(record, n, INGEST_TIME_MS)).slice(start)
    assert.deepEqual(JSON.parse(`[${bytes.toString()}]`), expected)
  }

  const sealed = new Promise<Log['segments'][number]>((resolve) => log.onSealed(resolve))
  writer.rotate()
  const segment = await sealed
  const bytes = encodeSegmentIndex(segment, [{ number: 1, index }])
  await writers.run({ kind: 'sidecar', directory: segment.directory, bytes }, { transfer: [bytes.buffer] })
  const state = new TextEncoder().encode('state')
  await writers.run({ kind: 'begin', directories: [directory], position: segment.end })
  await writers.run({ kind: 'part', bytes: state }, { transfer: [state.buffer] })
  await writers.run({ kind: 'end' })
  const read = readSegmentIndex(nodeFiles, segment)
  assert.ok(read.kind === 'runs' && read.runs[0]?.run.count === 3)
  assert.equal(contentOf(readNewestCheckpoint(nodeFiles, [directory], log.committed)!).toString(), 'state')
})
