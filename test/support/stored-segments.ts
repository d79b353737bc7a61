/** A log store's segments in a temporary directory, made of real frames, and the engine that queries them. No threads, no HTTP. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import {
  FRAME_HEADER_BYTES,
  crc32,
  emptyFrameHeader,
  encodeFrameHeader,
  frameBytes,
} from '../../native-free-codecs/frame.ts'
import type { Files } from '../../src/log/files.ts'
import { nodeFiles } from '../../src/log/node-files.ts'
import {
  RECORDS_NAME,
  SEGMENT_HEADER_BYTES,
  encodeSegmentFooter,
  encodeSegmentHeader,
  segmentName,
} from '../../src/log/segment-format.ts'
import { ActiveIndex } from '../../src/logstore/index/active-index.ts'
import { BATCH_FRAME_TYPE } from '../../src/logstore/batch-frame.ts'
import { encodeBatch, payloadOf } from './batch-payloads.ts'
import type { TestRecord } from './batch-payloads.ts'
import { NOTHING_EXPIRED } from '../../src/logstore/expired.ts'
import type { Expired } from '../../src/logstore/expired.ts'
import { compactSegment } from '../../src/logstore/compact/compact-segment.ts'
import { mergeBundles } from '../../src/logstore/compact/merge-bundles.ts'
import { PieceCache } from '../../src/logstore/compact/piece-cache.ts'
import { BlockCache } from '../../src/logstore/index/block-cache.ts'
import { LocalSegmentFiles } from '../../src/logstore/index/segment-files.ts'
import type { ExpectedRead, SegmentFiles } from '../../src/logstore/index/segment-files.ts'
import { IndexBuilder } from '../../src/logstore/index/builder.ts'
import { indexSegment } from '../../src/logstore/index/publish.ts'
import type { Bundle } from '../../src/logstore/index/manifest.ts'
import type { IndexedSegmentFacts } from '../../src/logstore/index/publish.ts'
import { FrameIndexer } from '../../src/logstore/index/index-frame.ts'
import { encodeCatalog } from '../../src/logstore/index/catalog.ts'
import { QueryEngine } from '../../src/logstore/query/engine.ts'
import type { QueryEngineParts } from '../../src/logstore/query/engine.ts'
import { FrameGrams, FrameNoter, ownFrameGrams } from '../../src/logstore/query/frame-grams.ts'
import type { FrameGramsHandle } from '../../src/logstore/query/frame-grams.ts'
import { FrameReader } from '../../src/logstore/query/frame-reader.ts'
import { NoteEngine } from '../../src/logstore/query/note-frames.ts'
import { OpenBundles } from '../../src/logstore/query/open-bundles.ts'
import { SegmentReader } from '../../src/logstore/query/segment-reader.ts'
import { DEADLINE_DEFAULT_MS, parseQueryRequest } from '../../src/logstore/query/request.ts'
import type { WalkBody, WalkRequest } from '../../src/logstore/walk/tasks.ts'
import type { WalkBounds } from '../../src/logstore/walk/time-walk.ts'
import { Walker } from '../../src/logstore/walk/walker.ts'
import type { QuarantinedRange, QueryAnswer, QuerySnapshot, QueryTask } from '../../src/logstore/query/task.ts'
import { SurveyEngine } from '../../src/logstore/survey/engine.ts'
import type { SurveyQuestion } from '../../src/logstore/survey/question.ts'

export const LOG_ID = 77
/** Bounds of walks: small, so that short histories take many steps. */
const BOUNDS: WalkBounds = { candidates: 5, run: 2, stepMs: 1, textMax: 300 }

/** Some trace ids. */
export const TRACES = [
  '0123456789abcdef0123456789abcdef',
  'ffffffffffffffffffffffffffffffff',
  '00000000000000000000000000000001',
]
/** Few entries a zone, so that short histories fill many zones. */
const ZONE_ENTRIES = 4
/** One for all stores: an indexer for each would take memory outside the heap, which makes V8 collect garbage again and again. */
const indexer = new FrameIndexer()

interface Segment {
  readonly base: number
  readonly active: ActiveIndex
  end: number
  frames: number
  lastHeaderCrc: number
  sealed: boolean
  row: Bundle | null
}

/** The fields of a response that tests look at. */
export interface QueryResponseBody {
  readonly matched_records: number
  readonly results: readonly { readonly record: QueriedRecord }[]
  readonly page: { readonly limit: number; readonly cursor: string | null; readonly next_cursor: string | null }
  readonly used_indexes: readonly string[]
  readonly scanned_bundles: number
  readonly quarantined_records?: number
}

export interface QueriedRecord {
  readonly record_id: string
  readonly tenant_id: string
  readonly dataset: string
  readonly time_unix_nano: string
  readonly trace_id: string | null
  readonly raw_payload: { readonly record: { readonly body: { readonly stringValue: string } } }
}

export class TestStore {
  readonly directory: string
  readonly segments: Segment[] = []
  readonly clock = { nowMs: 0 }
  quarantined: QuarantinedRange[] = []
  /** Reads of files with this name fail as a broken disk does. */
  unreadable: string | null = null
  /** What has expired, by dataset, for every tenant. */
  expired: Expired = NOTHING_EXPIRED
  /** Queries run as on a bucket with these bundles, although the bundles are read from the directory. */
  isBucket = false
  /** Reads to come that queries announced, as for a bucket; null: announcements are not wanted. */
  expected: { readonly name: string; readonly reads: readonly ExpectedRead[] }[] | null = null
  /** Notes of frames, which `note` fills for searches; null: each query thread makes its own. Call `restart` after a change. */
  notes: FrameGramsHandle | null = null
  #merged: Bundle[] = []
  #engine: QueryEngine
  #walker: Walker
  #surveys: SurveyEngine
  #bundles: OpenBundles
  readonly #builder = new IndexBuilder()
  /** Real files that are never synced: no test here cuts the power, and a shared disk would set the pace. */
  readonly #files: Files = {
    ...nodeFiles,
    syncDirectory: () => {},
    create: (path) => Object.assign(nodeFiles.create(path), { fdatasync: () => {} }),
    open: (path, access) => {
      const file = nodeFiles.open(path, access)
      const read = file.read.bind(file)
      file.read = (into, at) => {
        if (this.unreadable !== null && path.endsWith(this.unreadable)) throw new Error('EIO')
        return read(into, at)
      }
      return file
    },
  }

  static open(context: Pick<TestContext, 'after'>): TestStore {
    const store = new TestStore()
    context.after(() => store.close())
    return store
  }

  constructor() {
    this.directory = mkdtempSync(join(tmpdir(), 'trilog-query-'))
    this.#bundles = this.#openBundles()
    this.#engine = new QueryEngine(this.#engineParts())
    this.#surveys = new SurveyEngine(this.#engineParts())
    this.#walker = this.#newWalker()
  }

  /** Replaces the query thread: nothing is cached, nothing is open. */
  restart(): void {
    this.#bundles.close()
    this.#bundles = this.#openBundles()
    this.#engine = new QueryEngine(this.#engineParts())
    this.#surveys = new SurveyEngine(this.#engineParts())
    this.#walker = this.#newWalker()
  }

  close(): void {
    this.#bundles.close()
    rmSync(this.directory, { recursive: true })
  }

  /** One batch, one frame; returns the frame's position. */
  add(tenant: string, records: readonly TestRecord[]): number {
    return this.#append(encodeBatch(tenant, records))
  }

  /** As `add`, but with a body whose resources are all of the first dataset. */
  addBody(tenant: string, body: Buffer, signal: number, format: number, datasets: readonly string[]): number {
    return this.#append(payloadOf(tenant, body, signal, format, datasets))
  }

  #append(payload: Buffer): number {
    const segment = this.#activeSegment()
    const offset = segment.end - segment.base
    const frame = Buffer.alloc(frameBytes(payload.byteLength))
    payload.copy(frame, FRAME_HEADER_BYTES)
    const header = { ...emptyFrameHeader(), position: segment.base + offset, payloadBytes: payload.byteLength }
    const payloadCrc = crc32(payload, 0, payload.byteLength)
    const previousHeaderCrc = segment.lastHeaderCrc
    segment.lastHeaderCrc = encodeFrameHeader(
      { ...header, type: BATCH_FRAME_TYPE, epoch: 1, payloadCrc, previousHeaderCrc, logId: LOG_ID },
      frame,
      0,
    )
    this.#write(segment, frame)
    segment.end += frame.byteLength
    segment.frames++
    indexer.add(segment.active, offset, payload)
    return segment.base + offset
  }

  seal(): void {
    const segment = this.segments.at(-1)
    if (segment === undefined || segment.sealed) return
    const { base, end, frames: frameCount, lastHeaderCrc } = segment
    const footer = encodeSegmentFooter({ frameCount, logId: LOG_ID, end, epoch: 1, lastHeaderCrc, base })
    segment.sealed = true
    this.#write({ base, end }, footer)
  }

  /**
   * Publishes the sidecars of sealed segments, from the index that ingest filled or from the frames.
   *
   * @param merges how many compacted bundles in a row become one; 0: none
   */
  publish(fromFrames = false, compacts = false, merges = 0): void {
    for (const segment of this.segments) {
      if (segment.sealed && segment.row === null) segment.row = this.index(segment, fromFrames)
    }
    if (compacts) this.compact()
    if (merges > 1) this.mergeInRow(merges)
  }

  /** Merges the first compacted bundles that stand in a row, up to `most` of them. */
  mergeInRow(most: number): boolean {
    const bundles = this.bundles()
    for (let from = 0; from < bundles.length; from++) {
      let to = from
      while (to < bundles.length && to - from < most && bundles[to]!.isCompacted === true) to++
      if (to - from < 2) continue
      const first = this.segments.findIndex(({ base }) => base === bundles[from]!.base)
      const last = this.segments.findIndex(({ end }) => end === bundles[to - 1]!.end)
      if (this.segments.slice(first, last + 1).every(({ row }) => row?.isCompacted === true))
        return this.merge(first, last + 1)
    }
    return false
  }

  /** Compacts as the background does: writes the stand-ins of bundles, then removes what they stand in for. */
  compact(): void {
    for (const segment of this.segments) {
      if (segment.row === null || segment.row.isCompacted === true) continue
      const { base, end } = segment
      const task = { logId: LOG_ID, base, end, directories: [this.directoryOf(base)] }
      const result = compactSegment(this.#files, { ...task, kind: 'write' }, () => {})
      if (result.kind !== 'written') continue
      segment.row = result.bundle
      compactSegment(this.#files, { ...task, kind: 'clear' }, () => {})
    }
  }

  /**
   * Merges as the background does: compacted segments [from, to) of the store become one bundle, whether they are in merged bundles or not.
   *
   * @returns whether it was done
   */
  merge(from: number, to: number, settles = true): boolean {
    const segments = this.segments.slice(from, to).map(({ base, end }) => ({ base, end }))
    const [{ base }, { end }] = [segments[0]!, segments.at(-1)!]
    const bundles = this.bundles().filter((bundle) => bundle.base >= base && bundle.end <= end)
    if (bundles.some(({ isCompacted }) => isCompacted !== true)) return false
    const task = {
      logId: LOG_ID,
      bundles: bundles.map(({ isMerged = false, ...bundle }) => ({ base: bundle.base, end: bundle.end, isMerged })),
      segments,
      segmentsDirectories: [this.directory],
    }
    const result = mergeBundles(this.#files, { ...task, kind: 'merge' }, () => true)
    if (result.kind !== 'merged') return false
    this.#merged = [...this.#merged.filter((other) => other.base < base || other.end > end), result.bundle]
    if (settles) mergeBundles(this.#files, { ...task, kind: 'settle' }, () => true)
    return true
  }

  /** Queries see these bundles in place of one. */
  replace({ base, end }: Bundle, by: readonly Bundle[]): void {
    const others = this.#merged.filter((other) => other.base < base || other.base >= end)
    this.#merged = [...others, ...by.filter(({ isMerged }) => isMerged)]
    for (const row of by) if (row.isMerged !== true) this.segments.find((each) => each.base === row.base)!.row = row
  }

  /** The bundles as queries see them. */
  bundles(): Bundle[] {
    const rows = this.segments.map(({ row }) => row).filter((row) => row !== null)
    const isMerged = ({ base }: Bundle): boolean => this.#merged.some((over) => over.base <= base && base < over.end)
    return [...rows.filter((row) => !isMerged(row)), ...this.#merged].sort((a, b) => a.base - b.base)
  }

  index({ base, end, active }: Segment, fromFrames: boolean): IndexedSegmentFacts {
    const directory = this.directoryOf(base)
    const recordsPath = `${directory}/${RECORDS_NAME}`
    const index = fromFrames ? null : active.handle
    return indexSegment(this.#files, this.#builder, { logId: LOG_ID, base, end, directory, recordsPath, index })
  }

  directoryOf(base: number): string {
    return `${this.directory}/${segmentName(base)}`
  }

  get committed(): number {
    return this.segments.at(-1)?.end ?? 0
  }

  snapshot(): QuerySnapshot {
    const rows = this.bundles()
    return {
      committed: this.committed,
      generation: 1,
      logId: LOG_ID,
      indexed: this.segments
        .filter(({ row }) => row === null)
        .map(({ base, active }) => ({ base, index: active.handle })),
      catalog: encodeCatalog(rows),
      quarantined: this.quarantined,
    }
  }

  ask(
    tenant: string,
    body: object,
    snapshot = this.snapshot(),
    deadlineAtMs = this.clock.nowMs + DEADLINE_DEFAULT_MS,
    among: readonly string[] | null = null,
  ): QueryAnswer {
    const request = parseQueryRequest(Buffer.from(JSON.stringify(body)))
    if ('kind' in request) throw new Error(request.message)
    return this.#engine.run({ tenant, request, among, deadlineAtMs, snapshot, expired: this.expired, ...this.#remote })
  }

  get #remote(): Pick<QueryTask, 'remote'> {
    return this.isBucket ? { remote: {} as never } : {} // only its presence is looked at
  }

  query(
    tenant: string,
    body: object,
    snapshot = this.snapshot(),
    among: readonly string[] | null = null,
  ): QueryResponseBody {
    const answer = this.ask(tenant, body, snapshot, undefined, among)
    if (answer.kind !== 'ok') throw new Error(`${answer.kind}: ${answer.message}`)
    return JSON.parse(Buffer.from(answer.body).toString()) as QueryResponseBody
  }

  /** Notes everything that is there, for searches. */
  note(): void {
    const notes = new NoteEngine(this.#engineParts(), new FrameNoter(this.notes!))
    const task = {
      tenant: '',
      request: { kind: 'note', deadlineMs: 1000 },
      deadlineAtMs: 1000,
      snapshot: this.snapshot(),
    } as const
    for (;;) {
      const answer = notes.run(task)
      if (answer.kind !== 'ok') throw new Error(`${answer.kind}: ${answer.message}`)
      if (Buffer.from(answer.body).toString() === 'true') return
    }
  }

  /** One step of a walk. */
  walk(
    tenant: string,
    request: WalkRequest,
    snapshot = this.snapshot(),
    among: readonly string[] | null = null,
  ): WalkBody {
    const deadlineAtMs = this.clock.nowMs + DEADLINE_DEFAULT_MS
    const asked = { tenant, request, among, deadlineAtMs, snapshot, expired: this.expired, ...this.#remote }
    const answer = this.#walker.run(asked)
    if (answer.kind !== 'ok') throw new Error(`${answer.kind}: ${answer.message}`)
    return answer.body
  }

  askSurvey(
    tenant: string,
    request: SurveyQuestion,
    snapshot = this.snapshot(),
    deadlineAtMs = this.clock.nowMs + DEADLINE_DEFAULT_MS,
  ): QueryAnswer {
    return this.#surveys.run({ tenant, request, deadlineAtMs, snapshot, expired: this.expired })
  }

  frameReader(bytesMax: number): FrameReader {
    return new FrameReader(this.#bundles, bytesMax)
  }

  #openBundles(): OpenBundles {
    const local = new LocalSegmentFiles(this.#files, this.directory)
    const noted = (): { readonly name: string; readonly reads: readonly ExpectedRead[] }[] | null => this.expected
    const files: SegmentFiles = {
      failure: local.failure,
      open: (base, name) => local.open(base, name),
      get readsAhead() {
        return noted() !== null
      },
      expect: (name, reads) => void noted()?.push({ name, reads }),
    }
    return new OpenBundles(files, new BlockCache(1 << 20), new PieceCache(1 << 18))
  }

  #grams(): FrameGrams {
    return this.notes === null ? ownFrameGrams(1 << 16) : new FrameGrams(this.notes, null)
  }

  #engineParts(): QueryEngineParts {
    const frames = this.frameReader(16 * 1024)
    const scans = this.frameReader(4096)
    return { bundles: this.#bundles, frames, scans, grams: this.#grams(), nowMs: () => this.clock.nowMs }
  }

  #newWalker(): Walker {
    const frames = this.frameReader(16 * 1024)
    return new Walker({
      reader: new SegmentReader({ bundles: this.#bundles, frames, scans: frames, grams: null }),
      frames,
      bounds: BOUNDS,
      nowMs: () => this.clock.nowMs,
    })
  }

  #activeSegment(): Segment {
    const last = this.segments.at(-1)
    if (last !== undefined && !last.sealed) return last
    const base = last === undefined ? 0 : last.end + SEGMENT_HEADER_BYTES
    const lastHeaderCrc = last?.lastHeaderCrc ?? 0
    const header = encodeSegmentHeader({ logId: LOG_ID, base, epoch: 1, previousHeaderCrc: lastHeaderCrc })
    const active = ActiveIndex.create(1024, ZONE_ENTRIES)
    const segment = {
      base,
      active,
      end: base + header.byteLength,
      frames: 0,
      lastHeaderCrc,
      sealed: false,
      row: null,
    }
    nodeFiles.makeDirectory(this.directoryOf(base))
    this.#write({ base, end: base }, header)
    this.segments.push(segment)
    return segment
  }

  /** Appends to the segment's file. */
  #write({ base, end }: Pick<Segment, 'base' | 'end'>, piece: Buffer): void {
    const path = `${this.directoryOf(base)}/${RECORDS_NAME}`
    const file = nodeFiles.exists(path) ? nodeFiles.open(path, 'write') : nodeFiles.create(path)
    file.writev([piece], end - base)
    file.close()
  }
}

export const textsOf = ({ results }: QueryResponseBody): string[] =>
  results.map(({ record }) => record.raw_payload.record.body.stringValue)

export function withStore(run: (store: TestStore) => void): void {
  const store = new TestStore()
  try {
    run(store)
  } finally {
    store.close()
  }
}
