/**
 * The storage side of a log store opened in this process on a copy of a data directory: log, bundles and query engine, without
 * threads for ingest, journal and queries.
 */
import assert from 'node:assert/strict'
import { StoreError } from '../../../src/errors.ts'
import { Lifecycle } from '../../../src/lifecycle.ts'
import type { JournalLane, LogEnvironment } from '../../../src/log/environment.ts'
import type { Files } from '../../../src/log/files.ts'
import { Log } from '../../../src/log/log.ts'
import { nodeEnvironment } from '../../../src/log/node-environment.ts'
import { nodeFiles } from '../../../src/log/node-files.ts'
import { adoptCompacted } from '../../../src/logstore/compact/adopt.ts'
import { adoptMerged } from '../../../src/logstore/compact/adopt-merged.ts'
import { PieceCache } from '../../../src/logstore/compact/piece-cache.ts'
import { BlockCache } from '../../../src/logstore/index/block-cache.ts'
import { LocalSegmentFiles } from '../../../src/logstore/index/segment-files.ts'
import type { IndexSegmentTask, IndexedSegmentFacts } from '../../../src/logstore/index/publish.ts'
import { indexFromFrames } from '../../../src/logstore/index/rebuild.ts'
import { openBundles } from '../../../src/logstore/bundles.ts'
import type { Bundles } from '../../../src/logstore/bundles.ts'
import { SegmentIndexes } from '../../../src/logstore/index/segment-indexes.ts'
import { QueryEngine } from '../../../src/logstore/query/engine.ts'
import { FrameReader } from '../../../src/logstore/query/frame-reader.ts'
import { OpenBundles } from '../../../src/logstore/query/open-bundles.ts'
import { parseQueryRequest } from '../../../src/logstore/query/request.ts'
import type { QuerySnapshot } from '../../../src/logstore/query/task.ts'
import { JobPool } from '../../../src/pipeline/jobs.ts'
import { eventually } from '../../support/waiting.ts'
import { unloggedReadErrors } from '../../support/health.ts'

const SEGMENTS_NAME = 'bundles'
const SEGMENT_BYTES = 1 << 20
const REPAIRS_MAX = 20

export interface StoredRecord {
  readonly record_id: string
  readonly trace_id: string | null
  readonly [field: string]: unknown
}

export interface QueryReply {
  readonly matched_records: number
  readonly quarantined_records?: number
  readonly quarantined_ranges?: number
  readonly results: readonly { readonly record: StoredRecord }[]
  readonly page: { readonly next_cursor: string | null }
}

export interface Everything {
  readonly records: readonly StoredRecord[]
  readonly matched: number
  readonly quarantined: number
  readonly damagedRanges: number
}

/** No journal writes here. */
const NO_LANE: JournalLane = { post() {}, stop: async () => {} }

/** Real files that are never synced: no test here cuts the power, and a shared disk would set the pace. */
const files: Files = {
  ...nodeFiles,
  syncDirectory: () => {},
  create: (path) => Object.assign(nodeFiles.create(path), { fdatasync: () => {} }),
  open: (path, access) => Object.assign(nodeFiles.open(path, access), { fdatasync: () => {} }),
}

const environment: LogEnvironment = { ...nodeEnvironment, files, startJournal: () => NO_LANE }

export const indexJobs = (): JobPool<IndexSegmentTask, IndexedSegmentFacts> =>
  new JobPool({
    name: 'index',
    filename: new URL('../../../workers/index-segment.ts', import.meta.url),
    threads: 1,
    queueMax: 64,
  })

export class OpenedCopy {
  readonly log: Log
  /** Errors of queries, before the damage that they met was repaired. */
  readonly errors: string[] = []
  readonly #running: Lifecycle
  readonly #bundles: Bundles
  readonly #openBundles: OpenBundles
  readonly #engine: QueryEngine
  readonly #active: QuerySnapshot['indexed']

  /** @throws StoreError when the store would refuse to start */
  static async open(directory: string, jobs: JobPool<IndexSegmentTask, IndexedSegmentFacts>): Promise<OpenedCopy> {
    const running = new Lifecycle()
    const log = await running.open(() =>
      Log.open({ directory, segmentsName: SEGMENTS_NAME, segmentBytes: SEGMENT_BYTES, environment }),
    )
    const ignore = (): void => {}
    const bundles = await openBundles(running, {
      log,
      files,
      indexes: SegmentIndexes.create(16, 1),
      jobs,
      readErrors: unloggedReadErrors(),
      logger: { debug: ignore, info: ignore, warn: ignore, error: ignore },
      after: (_delayMs, run) => run(),
      compactedBundle: (segment) => adoptCompacted(files, log, segment),
      mergedBundles: (sealed) => adoptMerged(files, log, sealed),
      onStandInDamaged: ignore,
    })
    return new OpenedCopy(directory, running, log, bundles)
  }

  private constructor(directory: string, running: Lifecycle, log: Log, bundles: Bundles) {
    this.log = log
    this.#running = running
    this.#bundles = bundles
    this.#openBundles = new OpenBundles(
      new LocalSegmentFiles(files, `${directory}/${SEGMENTS_NAME}`),
      new BlockCache(1 << 22),
      new PieceCache(1 << 22),
    )
    const frames = new FrameReader(this.#openBundles, 1 << 22)
    this.#engine = new QueryEngine({ bundles: this.#openBundles, frames, scans: frames, grams: null, nowMs: () => 0 })
    const last = log.segments.at(-1)
    this.#active =
      last && !last.sealed
        ? [{ base: last.base, index: indexFromFrames(files, { logId: log.id, ...last }).active.handle }]
        : []
  }

  /** Asks until there is an answer. Every error must be typed, name the bundle, and make known what repairs it. */
  async query(query: object): Promise<QueryReply> {
    const request = parseQueryRequest(Buffer.from(JSON.stringify(query)))
    assert(!('kind' in request))
    const { registry, sidecars, repair } = this.#bundles
    for (let repairs = 0; ; repairs++) {
      const { log } = this
      const catalogued = registry.snapshot()
      const snapshot = {
        committed: log.segments.at(-1)?.end ?? 0,
        generation: log.generation,
        logId: log.id,
        indexed: this.#active,
        catalog: catalogued.catalog,
        quarantined: log.incidents,
      }
      const answer = this.#engine.run({ tenant: 'local', request, deadlineAtMs: 1, snapshot })
      catalogued.release()
      if (answer.kind === 'ok') return JSON.parse(Buffer.from(answer.body).toString()) as QueryReply
      this.errors.push(answer.message)
      assert.equal(answer.kind, 'bundle_read_failed')
      assert.match(answer.message, /bundle (\S+\/)?[0-9a-f]{16}\b/)
      assert(answer.incident !== null && repairs < REPAIRS_MAX, `nothing repairs it: ${answer.message}`)
      repair(answer.incident)
      await eventually(() => sidecars.pending === 0)
    }
  }

  /** Everything of a dataset, page by page. */
  async all(dataset: string): Promise<Everything> {
    const records: StoredRecord[] = []
    for (let cursor: string | null = null; ;) {
      const reply: QueryReply = await this.query({ dataset, page: { limit: 100, cursor } })
      records.push(...reply.results.map(({ record }) => record))
      cursor = reply.page.next_cursor
      if (cursor === null) {
        const { matched_records: matched, quarantined_records: quarantined = 0 } = reply
        return { records, matched, quarantined, damagedRanges: reply.quarantined_ranges ?? 0 }
      }
    }
  }

  async close(): Promise<void> {
    this.#openBundles.close()
    await this.#running.close({ withinMs: 1000 })
  }
}

export const isRefusal = (error: unknown): error is StoreError => error instanceof StoreError
