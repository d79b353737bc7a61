/**
 * The records of a stream, however many there are: the list has a row for each offset, and rows are loaded when they come into sight.
 * Newest first, unless the address says otherwise.
 */
import type { VNode } from 'preact'
import { useLocation } from 'preact-iso/router'
import { useRef, useState } from 'preact/hooks'
import { bytes } from '../format.ts'
import { html } from '../html.ts'
import { useAction } from '../loading.ts'
import { Empty, Field, Form, Problem, When, link } from '../parts.ts'
import type { FormValues } from '../parts.ts'
import { Refusal, asRefusal } from '../request.ts'
import { VirtualList } from '../virtual-list.ts'
import { replay, textOf } from './api.ts'
import type { Stream, StreamRecord } from './api.ts'
import { RecordDetail } from './record-detail.ts'

const BLOCK = 100
const ROW_PIXELS = 34
/** Browsers lay out no more than some 30 million pixels; what lies beyond is reached by its offset. */
const ROWS_MAX = 500_000
const BLOCKS_KEPT = 50

interface Block {
  readonly records: ReadonlyMap<number, StreamRecord>
  /** The end of the stream when it was loaded. */
  readonly end: number
}

interface TabProps {
  readonly stream: Stream
  readonly onPublish: () => void
}

export function RecordsTab({ stream, onPublish }: TabProps): VNode {
  const { query, route } = useLocation()
  const path = `/streams/${encodeURIComponent(stream.stream)}`
  const isOldestFirst = query['order'] === 'oldest'
  const at = offsetIn(query['at'])
  const selected = offsetIn(query['record'])
  const { first_offset: first, next_offset: next } = stream
  const anchor = Math.min(Math.max(at ?? (isOldestFirst ? first : next - 1), first), Math.max(first, next - 1))
  const count = Math.min(ROWS_MAX, isOldestFirst ? next - anchor : anchor - first + 1)
  const offsetOf = (index: number): number => (isOldestFirst ? anchor + index : anchor - index)
  const { recordAt, load, problem } = useBlocks(stream)
  const go = (changes: Record<string, string | number | null>): void =>
    route(link(path, { ...query, ...changes }), true)
  const step = (by: number): void => {
    const index = selected === null ? 0 : (isOldestFirst ? selected - anchor : anchor - selected) + by
    if (index >= 0 && index < count) go({ record: offsetOf(index) })
  }

  if (next === first) {
    return html`<${Empty}
      title=${next === 0 ? 'No record yet' : 'No record is left'}
      command=${`npx mq cli publish ${stream.stream} --message-id first --payload hello`}
    >
      Or <button type="button" class="link" onClick=${onPublish}>publish one here</button>.
    <//>`
  }
  return html`<div class=${selected === null ? 'split' : 'split open'}>
    <section aria-label="Records">
      <${Jump} stream=${stream} isOldestFirst=${isOldestFirst} onGo=${go} />
      ${problem && html`<${Problem} of=${problem} />`}
      <button
        type="button"
        class="hidden"
        tabindex="-1"
        aria-hidden="true"
        data-key="j"
        onClick=${() => step(1)}
      ></button>
      <button
        type="button"
        class="hidden"
        tabindex="-1"
        aria-hidden="true"
        data-key="k"
        onClick=${() => step(-1)}
      ></button>
      <div class="record head" aria-hidden="true">
        <span>Offset</span><span>Stored</span><span>Key</span><span>Payload</span><span>Size</span>
      </div>
      <${VirtualList}
        key=${`${at} ${isOldestFirst}`}
        label=${`Records of ${stream.stream}`}
        count=${count}
        rowPixels=${ROW_PIXELS}
        shown=${selected === null ? null : isOldestFirst ? selected - anchor : anchor - selected}
        onRange=${(from: number, to: number) => load(offsetOf(from), offsetOf(to))}
        row=${(index: number) => html`<${Row} offset=${offsetOf(index)} record=${recordAt(offsetOf(index))} isSelected=${offsetOf(index) === selected} onSelect=${() => go({ record: offsetOf(index) })} />`}
      />
    </section>
    ${selected !== null && html`<${RecordDetail} stream=${stream.stream} offset=${selected} show=${query['show'] ?? ''} onShow=${(show: string) => go({ show })} onClose=${() => go({ record: null })} />`}
  </div>`
}

const offsetIn = (text: string | undefined): number | null => (/^\d{1,15}$/.test(text ?? '') ? Number(text) : null)

function useBlocks(stream: Stream) {
  /** By their numbers; null: on its way. */
  const blocks = useRef(new Map<number, Block | null>()).current
  const [problem, setProblem] = useState<Refusal | null>(null)
  const [, renew] = useState(0)
  const { first_offset: first, next_offset: end } = stream
  const fetchBlock = async (number: number): Promise<void> => {
    const before = blocks.get(number)
    if (before === undefined) blocks.set(number, null)
    try {
      const { records } = await replay(stream.stream, { start_offset: Math.max(number * BLOCK, first) }, BLOCK)
      blocks.set(number, { records: new Map(records.map((record) => [record.offset, record])), end })
      setProblem(null)
    } catch (error) {
      if (before === undefined) blocks.delete(number)
      setProblem(asRefusal(error))
    }
    renew((count) => count + 1)
  }
  return {
    problem,
    /** undefined: not loaded yet; null: there is none any more. */
    recordAt: (offset: number): StreamRecord | null | undefined => {
      const block = blocks.get(Math.floor(offset / BLOCK))
      if (!block || offset >= block.end) return undefined
      return block.records.get(offset) ?? null
    },
    load: (from: number, to: number): void => {
      const low = Math.floor(Math.min(from, to) / BLOCK)
      const high = Math.floor(Math.max(from, to) / BLOCK)
      for (const number of blocks.keys()) {
        if (blocks.size > BLOCKS_KEPT && (number < low || number > high)) blocks.delete(number)
      }
      for (let number = low; number <= high; number++) {
        const block = blocks.get(number)
        const hasGrown = block ? block.end < Math.min(end, (number + 1) * BLOCK) : false
        if (block === undefined || hasGrown) void fetchBlock(number)
      }
    },
  }
}

interface RowProps {
  readonly offset: number
  readonly record: StreamRecord | null | undefined
  readonly isSelected: boolean
  readonly onSelect: () => void
}

const PREVIEW = 400

function Row({ offset, record, isSelected, onSelect }: RowProps): VNode {
  if (!record) {
    return html`<div class="record">
      <span class="number">${offset}</span
      ><span class="fine">${record === null ? 'It is not there any more.' : '…'}</span>
    </div>`
  }
  const start = record.payload_hex.slice(0, PREVIEW)
  const size = record.payload_hex.length / 2
  return html`<button type="button" class="record" aria-pressed=${isSelected} onClick=${onSelect}>
    <span class="number">${offset}</span>
    <span><${When} ms=${record.ingest_time_ms} /></span>
    <span class="cut mono">${record.key_hex === null ? '' : (textOf(record.key_hex) ?? `0x${record.key_hex}`)}</span>
    <span class="cut mono">${textOf(start) ?? `0x${start}`}</span>
    <span class="fine number">${bytes(size)}</span>
  </button>`
}

interface JumpProps {
  readonly stream: Stream
  readonly isOldestFirst: boolean
  readonly onGo: (changes: Record<string, string | number | null>) => void
}

/** To an offset, or to the first record of a time. */
function Jump({ stream, isOldestFirst, onGo }: JumpProps): VNode {
  const action = useAction()
  const jump = async (values: FormValues): Promise<void> => {
    const { offset = '', time = '' } = values
    if (offset !== '') return onGo({ at: Number(offset), order: 'oldest', record: null })
    const ms = Date.parse(time)
    if (!Number.isFinite(ms)) throw new Refusal(400, 'nowhere', 'Give an offset, or a day and a time.')
    const { records } = await replay(stream.stream, { ingest_time_ms: ms }, 1)
    const [record] = records
    if (record === undefined) throw new Refusal(404, 'nothing_later', 'Nothing was stored then or later.')
    onGo({ at: record.offset, order: 'oldest', record: null })
  }
  return html`<div class="jump">
    <div class="chips" role="group" aria-label="Order">
      <button type="button" aria-pressed=${!isOldestFirst} onClick=${() => onGo({ order: null, at: null })}>
        Newest
      </button>
      <button type="button" aria-pressed=${isOldestFirst} onClick=${() => onGo({ order: 'oldest', at: null })}>
        Oldest
      </button>
    </div>
    <${Form} action=${action} submit="Go" onSubmit=${jump}>
      <${Field}
        label="From offset"
        name="offset"
        type="number"
        placeholder=${`${stream.first_offset} to ${stream.next_offset - 1}`}
      />
      <${Field} label="or from the time" name="time" type="datetime-local" />
    <//>
  </div>`
}
