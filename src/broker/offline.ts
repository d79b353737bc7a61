/**
 * Reads a data directory without a broker, for tools, while no node uses the directory. Nothing is written (read-only-log O1): what the broker
 * would repair at its start is skipped.
 */
import { incidentIdOf } from '../log/quarantine.ts'
import { openToRead } from '../log/read-only-log.ts'
import type { ReadOnlyLog } from '../log/read-only-log.ts'
import type { Logger } from '../observability/logger.ts'
import { atOnce } from '../steps.ts'
import { recoverState } from './engine/recovery.ts'
import { SEGMENTS_NAME } from './headless.ts'
import { PAGE_RECORDS_MAX, READS_WAITING_MAX } from './limits.ts'
import { RecordReader } from './records/reader.ts'
import { RecordReads } from './records/record-reads.ts'
import type { Page } from './records/record-reads.ts'
import { refuse } from './refusals.ts'
import { AUDIT_STREAM } from './state/state.ts'
import type { BrokerState, StreamState } from './state/state.ts'
import { summaryOf } from './operations/summary.ts'
import type { AuditEvent } from './records/audit-event.ts'
import type { RecordReply, StreamSummary } from './wire/record-answers.ts'
import type { Static } from 'typebox'

type StoredRecord = Static<typeof RecordReply>

export interface OfflinePage {
  readonly records: readonly StoredRecord[]
  readonly nextOffset: number
  readonly endOfStream: boolean
  /** The lowest offset that retention left. */
  readonly firstOffset: number
  /** Records left out because they are damaged. */
  readonly quarantinedRecords: number
}

export interface OfflineCursor {
  readonly stream: string
  readonly consumer_group: string
  readonly cursor: string
  readonly offset: number
  readonly updated_at_ms: number
}

export interface OfflineStorage {
  readonly log_id: string
  readonly segments: number
  readonly end_position: number
  /** Bytes that a crash left behind the last whole frame. They were never reported as durable; the next start cuts them off. */
  readonly torn_tail_bytes: number
  readonly tenants: readonly string[]
  readonly incidents: readonly { readonly incident_id: string; readonly reason: string }[]
}

export class OfflineBroker {
  readonly #log: ReadOnlyLog
  readonly #state: BrokerState
  readonly #reads: RecordReads

  private constructor(directory: string, log: ReadOnlyLog, logger: Logger) {
    this.#log = log
    const recovery = { log, directories: [directory], files: log.files, logger, isToRead: true }
    this.#state = atOnce(recoverState(recovery)).state
    const reader = new RecordReader(log.files, {
      segmentsDirectory: `${directory}/${SEGMENTS_NAME}`,
      logId: log.id,
    })
    this.#reads = new RecordReads({
      jobs: { run: async (task) => reader.run(task) },
      threads: 1,
      waitingMax: READS_WAITING_MAX,
      readable: () => ({ from: log.segments[0]?.base ?? 0, end: log.committed, generation: 0 }),
      defer: queueMicrotask,
      readErrors: { note: () => {}, noteFailed: () => {} },
    })
  }

  /** @throws StoreError as `openToRead`, and when the log cannot be understood */
  static async open(directory: string, logger: Logger): Promise<OfflineBroker> {
    const log = await openToRead(directory, SEGMENTS_NAME)
    try {
      return new OfflineBroker(directory, log, logger)
    } catch (error) {
      await log.release()
      throw error
    }
  }

  close(): Promise<void> {
    return this.#log.release()
  }

  /** Sorted by name. */
  streams(tenant: string): readonly StreamSummary[] {
    return this.#streamsOf(tenant).map(summaryOf)
  }

  cursors(tenant: string): readonly OfflineCursor[] {
    return this.#streamsOf(tenant).flatMap((stream) =>
      [...stream.groups.values()].flatMap((group) =>
        Array.from(group.cursors, ([cursor, { offset, updatedAtMs }]) => ({
          stream: stream.name,
          consumer_group: group.name,
          cursor,
          offset,
          updated_at_ms: updatedAtMs,
        })),
      ),
    )
  }

  get storage(): OfflineStorage {
    const { id, segments, committed, tornTail, incidents } = this.#log
    return {
      log_id: id.toString(16).padStart(8, '0'),
      segments: segments.length,
      end_position: committed,
      torn_tail_bytes: tornTail ? tornTail.to - tornTail.from : 0,
      tenants: [...new Set(this.#state.streams.flatMap((stream) => stream?.tenant ?? []))].sort(),
      incidents: incidents.map((incident) => ({ incident_id: incidentIdOf(incident), reason: incident.reason })),
    }
  }

  /** @throws BrokerError stream_not_found */
  describe(tenant: string, name: string): StreamSummary {
    return summaryOf(this.#stream(tenant, name))
  }

  /**
   * The first records from an offset on, at most `limit`.
   *
   * @throws BrokerError stream_not_found
   */
  async replay(tenant: string, name: string, fromOffset: number, limit: number): Promise<OfflinePage> {
    const stream = this.#stream(tenant, name)
    const end = stream.visibleNext
    const start = Math.max(fromOffset, stream.floor)
    const records: StoredRecord[] = []
    let unreadable = 0
    let next = start
    let hasMore = true
    while (hasMore && records.length < limit) {
      const page = await this.#page(stream, next, Math.min(limit - records.length, PAGE_RECORDS_MAX))
      records.push(...(itemsOf(page) as StoredRecord[])) // our own reader wrote them, as RecordReply says
      unreadable += page.unreadable.length
      hasMore = page.hasMore
      next = hasMore ? page.nextOffset : Math.max(start, end)
    }
    return {
      records,
      nextOffset: next,
      endOfStream: next >= end,
      firstOffset: stream.floor,
      quarantinedRecords: unreadable + stream.holes.coveredBetween(start, Math.max(start, Math.min(next, end))),
    }
  }

  /** The newest audit events, at most `limit`, oldest first. */
  async auditEvents(tenant: string, limit: number): Promise<readonly AuditEvent[]> {
    const stream = this.#state.stream(tenant, AUDIT_STREAM)
    if (stream === undefined) return []
    const start = Math.max(stream.floor, stream.visibleNext - limit)
    const { visibleNext, index, holes } = stream
    const page = await this.#reads.auditPage(index, start, visibleNext, limit, 'json', holes)
    return itemsOf(page) as AuditEvent[] // our own reader wrote them, as AuditEvent says
  }

  #page({ index, visibleNext, holes, name }: StreamState, start: number, maxRecords: number): Promise<Page> {
    const limits = { maxRecords, maxPayloadBytes: null }
    return this.#reads.page(index, start, visibleNext, limits, name === AUDIT_STREAM, holes)
  }

  #streamsOf(tenant: string): readonly StreamState[] {
    return Array.from(this.#state.streamsOf(tenant))
      .filter(({ name }) => name !== AUDIT_STREAM)
      .sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  #stream(tenant: string, name: string): StreamState {
    const stream = this.#state.stream(tenant, name)
    if (stream === undefined) throw refuse('stream_not_found', `there is no stream ${name}`)
    return stream
  }
}

const itemsOf = ({ bytes }: Page): readonly unknown[] => JSON.parse(`[${bytes.toString()}]`) as unknown[]
