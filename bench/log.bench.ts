/**
 * How close does the log come to the disk below it? Group commit with bodies of 190 KB in the arena and with 200-byte frames in the ring, against
 * plain sequential write + fdatasync of the same directory in the same run; and what a file written before gains.
 *
 *   node bench/log.bench.ts [--smoke] [--directory <path>]
 */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { performance } from 'node:perf_hooks'
import { parseArgs } from 'node:util'
import { crc32 } from 'node:zlib'
import { Log } from '../src/log/log.ts'
import { LogWriter } from '../src/log/log-writer.ts'
import { nodeFiles } from '../src/log/node-files.ts'
import { replaySegment } from '../src/log/read.ts'
import { Arena } from '../src/pipeline/arena.ts'

const { values: options } = parseArgs({ options: { smoke: { type: 'boolean' }, directory: { type: 'string' } } })
const smoke = options.smoke ?? false
const root = fs.mkdtempSync(path.join(options.directory ?? os.tmpdir(), 'trilog-bench-'))
const SEGMENT_BYTES = smoke ? 4 << 20 : 64 << 20
let checksum = 0 // same frames, same number

const body = Buffer.alloc(190_000, 'body of a batch ')
const bodyCrc = crc32(body)
const small = Buffer.alloc(200, 'record ')
const smallCrc = crc32(small)

/** Megabytes per second of plain writes, each synced, that overwrite a file or make it grow. */
function diskRate(
  groupBytes: number,
  mode: 'growing' | 'written before',
): { megabytesPerSecond: number; medianUs: number } {
  const totalBytes = smoke ? 4 * groupBytes : Math.min(SEGMENT_BYTES, groupBytes * 400)
  const file = nodeFiles.create(path.join(root, 'plain'))
  const group = Buffer.alloc(groupBytes, 7)
  if (mode === 'written before') {
    const zeros = Buffer.alloc(1 << 20)
    for (let at = 0; at < totalBytes; at += zeros.byteLength) file.writev([zeros], at)
    file.fdatasync()
  }
  const tookMs: number[] = []
  for (let at = 0; at < totalBytes; at += groupBytes) {
    const startMs = performance.now()
    file.writev([group], at)
    file.fdatasync()
    tookMs.push(performance.now() - startMs)
  }
  file.close()
  nodeFiles.removeFile(path.join(root, 'plain'))
  const seconds = tookMs.reduce((sum, ms) => sum + ms, 0) / 1000
  tookMs.sort((a, b) => a - b)
  return { megabytesPerSecond: totalBytes / seconds / 1e6, medianUs: tookMs[tookMs.length >> 1]! * 1000 }
}

interface Load {
  readonly name: string
  readonly frames: number
  readonly inFlight: number
  readonly external: boolean
}

interface Rate {
  readonly framesPerSecond: number
  readonly megabytesPerSecond: number
  readonly groupKilobytes: number
}

/** Keeps `inFlight` frames waiting for their commit until all are committed. */
async function logRate(log: Log, writer: LogWriter, arena: Arena, load: Load): Promise<Rate> {
  const slots = load.external ? Array.from({ length: load.inFlight }, () => arena.allocate(body.byteLength)) : []
  for (const slot of slots) body.copy(arena.bytes, slot)
  const ends: number[] = []
  let committed = 0
  let appended = 0
  const before = log.counters()
  const startMs = performance.now()
  await new Promise<void>((resolve) => {
    const pump = (): void => {
      while (committed < ends.length && ends[committed]! <= log.committed) committed += 1
      while (appended < load.frames && appended - committed < load.inFlight) {
        const slot = load.external ? slots[appended % load.inFlight]! : -1
        const inline = load.external ? 0 : small.byteLength
        if (writer.tryBegin(1, inline, slot, load.external ? body.byteLength : 0, 'sync', 'admit') !== 'ok') break
        if (!load.external) small.copy(writer.bytes, writer.inlineOffset)
        writer.publish(load.external ? bodyCrc : smallCrc)
        ends.push(writer.end)
        appended += 1
      }
      if (committed === load.frames) resolve()
    }
    log.onProgress(pump)
    pump()
  })
  const seconds = (performance.now() - startMs) / 1000
  const after = log.counters()
  for (const slot of slots) arena.free(slot)
  const bytes = after.bytes - before.bytes
  return {
    framesPerSecond: load.frames / seconds,
    megabytesPerSecond: bytes / seconds / 1e6,
    groupKilobytes: bytes / (after.groups - before.groups) / 1000,
  }
}

const arena = Arena.create(32 << 20)
const log = await Log.open({ directory: path.join(root, 'log'), arena: arena.shared, segmentBytes: SEGMENT_BYTES })
const writer = LogWriter.attach(log.writer)
const scale = smoke ? 1 : 100

const loads: Load[] = [
  { name: '190 KB external, 16 in flight', frames: 40 * scale, inFlight: 16, external: true },
  { name: '200 B inline, 64 in flight', frames: 1000 * scale, inFlight: 64, external: false },
  { name: '200 B inline, 256 in flight', frames: 2000 * scale, inFlight: 256, external: false },
]
const results: Record<string, Record<string, number>> = {}
for (const load of loads) {
  for (const files of ['growing', 'recycled'] as const) {
    if (files === 'recycled') log.dropBefore(log.committed) // its files become the next segments
    const rate = await logRate(log, writer, arena, load)
    const groupBytes = Math.max(4096, Math.ceil((rate.groupKilobytes * 1000) / 4096) * 4096)
    const disk = diskRate(groupBytes, 'growing')
    results[`${load.name}, ${files}`] = {
      'frames/s': Math.round(rate.framesPerSecond),
      'MB/s': Math.round(rate.megabytesPerSecond),
      'KB a group': Math.round(rate.groupKilobytes),
      'of the disk': Number((rate.megabytesPerSecond / disk.megabytesPerSecond).toFixed(2)),
    }
  }
}
console.table(results)

const prepared: Record<string, Record<string, number>> = {}
for (const kilobytes of [4, 64, 1024, 4096]) {
  const growing = diskRate(kilobytes << 10, 'growing')
  const before = diskRate(kilobytes << 10, 'written before')
  prepared[`${kilobytes} KiB a group`] = {
    'growing, median µs': Math.round(growing.medianUs),
    'written before, median µs': Math.round(before.medianUs),
    gain: Number((growing.medianUs / before.medianUs).toFixed(2)),
  }
}
console.table(prepared)

let frames = 0
const startMs = performance.now()
for (const segment of log.segments) {
  replaySegment(nodeFiles, segment, {
    logId: log.id,
    to: segment.end,
    onFrame(frame) {
      frames += 1
      checksum = (checksum + frame.payloadCrc) >>> 0
    },
    onDamage: () => (frames = Number.NaN),
  })
}
console.log({ replayed: frames, framesPerSecond: Math.round((frames / (performance.now() - startMs)) * 1000) })
await log.close()
fs.rmSync(root, { recursive: true, force: true })
console.log({ node: process.version, checksum })
