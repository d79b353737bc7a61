/** A line of a list of records: what is kept of each, so that a hundred thousand fit into the page. */
import type { VNode } from 'preact'
import { duration, exactTime, momentOf, msOf } from '../format.ts'
import { html } from '../html.ts'
import type { StoredRecord } from './stored-record.ts'
import { durationNano, isFailed, levelOf, lineOf } from './otlp.ts'
import type { Level } from './otlp.ts'

const TEXT_MAX = 500

export interface Row {
  readonly id: string
  readonly dataset: string
  readonly timeNano: string
  readonly signal: 'log' | 'trace'
  readonly level: Level | null
  readonly text: string
  /** Duration of a span in nanoseconds. */
  readonly durationNano: number | null
  readonly isFailed: boolean
}

export function rowOf(record: StoredRecord): Row {
  const sent = record.raw_payload.record
  return {
    id: record.record_id,
    dataset: record.dataset,
    timeNano: record.time_unix_nano,
    signal: record.signal,
    level: levelOf(record),
    text: lineOf(record).slice(0, TEXT_MAX),
    durationNano: record.signal === 'trace' ? durationNano(sent) : null,
    isFailed: record.signal === 'trace' && isFailed(sent),
  }
}

interface RowProps {
  readonly row: Row
  readonly isSelected: boolean
  readonly hasDataset: boolean
  readonly onOpen: () => void
}

export function RecordRow({ row, isSelected, hasDataset, onOpen }: RowProps): VNode {
  const { dataset, timeNano, level, text, durationNano: nano, isFailed: failed, signal } = row
  return html`<button
    type="button"
    class=${`record log ${hasDataset ? 'of' : ''} ${failed || level === 'error' || level === 'fatal' ? 'failed' : ''}`}
    aria-pressed=${isSelected}
    onClick=${onOpen}
  >
    <time class="number" datetime=${new Date(msOf(timeNano)).toISOString()} title=${exactTime(timeNano)}
      >${momentOf(timeNano)}</time
    >
    <span class=${`level ${failed ? 'error' : (level ?? 'none')}`}
      >${signal === 'trace' ? (failed ? 'failed' : 'span') : (level ?? '–')}</span
    >
    ${hasDataset && html`<span class="cut fine">${dataset}</span>`}
    <span class="cut mono">${text}</span>
    ${nano !== null && html`<span class="number fine" title=${`${nano} ns`}>${duration(nano / 1e9)}</span>`}
  </button>`
}
