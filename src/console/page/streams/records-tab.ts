/**
 * The records of a stream, however many there are: the list has a row for each offset, and rows are loaded when they come into sight.
 * Newest first, unless the address says otherwise.
 */
import type { VNode } from 'preact'
import { useLocation } from 'preact-iso/router'
import { useEffect, useRef, useState } from 'preact/hooks'
import { curlCommand } from '../commands.ts'
import { exact } from '../format.ts'
import { html } from '../html.ts'
import { useAction } from '../loading.ts'
import { Bytes, Empty, Field, Form, Problem, When, link } from '../parts.ts'
import type { FormValues } from '../parts.ts'
import { Refusal } from '../request.ts'
import { StepKeys } from '../steps.ts'
import { VirtualList } from '../virtual-list.ts'
import { replay, streamPath, textOf } from './api.ts'
import type { Stream } from './api.ts'
import { useBlocks } from './record-blocks.ts'
import type { ListedRecord } from './record-blocks.ts'
import { RecordDetail } from './record-detail.ts'

const ROW_PIXELS = 34
/** Browsers lay out no more than some 30 million pixels; what lies beyond is reached by its offset. */
const ROWS_MAX = 500_000

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
  const newest = Math.max(first, next - 1)
  /** Rows stand still while the visitor reads below the first one, or has opened a record. */
  const [isReading, setReading] = useState(false)
  const top = useRef(newest)
  if (!isReading && selected === null) top.current = newest
  const [turn, setTurn] = useState(0)
  const anchor = Math.min(Math.max(at ?? (isOldestFirst ? first : top.current), first), newest)
  const waiting = at === null && !isOldestFirst ? newest - anchor : 0
  const count = Math.min(ROWS_MAX, isOldestFirst ? next - anchor : anchor - first + 1)
  const offsetOf = (index: number): number => (isOldestFirst ? anchor + index : anchor - index)
  const blocks = useBlocks(stream)
  const { problem } = blocks
  const inSight = useRef<readonly [number, number]>([0, 0])
  const look = (): void => blocks.look(stream, offsetOf(inSight.current[0]), offsetOf(inSight.current[1]))
  useEffect(look, [anchor, first, next]) // the same rows are of other records now, or of more
  const go = (changes: Record<string, string | number | null>): void =>
    route(link(path, { ...query, ...changes }), true)
  const showNewest = (): void => {
    setReading(false)
    setTurn(turn + 1)
    go({ record: null })
  }
  const step = (by: number): void => {
    const index = selected === null ? 0 : (isOldestFirst ? selected - anchor : anchor - selected) + by
    if (index >= 0 && index < count) go({ record: offsetOf(index) })
  }

  if (next === first) {
    return html`<${Empty}
      title=${next === 0 ? 'No record yet' : 'No record is left'}
      command=${curlCommand('broker', `${streamPath(stream.stream)}/records`, { json: { message_id: 'first', payload: 'hello' } })}
    >
      Or <button type="button" class="link" onClick=${onPublish}>publish one here</button>.
    <//>`
  }
  return html`<div class=${selected === null ? 'split' : 'split open'}>
    <section aria-label="Records">
      <${Jump} stream=${stream} isOldestFirst=${isOldestFirst} onGo=${go} />
      ${problem && html`<${Problem} of=${problem} />`}
      ${waiting > 0 && html`<button type="button" class="new" onClick=${showNewest}><strong>${exact(waiting)}</strong> new</button>`}
      <${StepKeys} step=${step} />
      <div class="record head" aria-hidden="true">
        <span>Offset</span><span>Stored</span><span>Key</span><span>Payload</span><span>Size</span>
      </div>
      <${VirtualList}
        key=${`${at} ${isOldestFirst} ${turn}`}
        label=${`Records of ${stream.stream}`}
        count=${count}
        rowPixels=${ROW_PIXELS}
        shown=${selected === null ? null : isOldestFirst ? selected - anchor : anchor - selected}
        onRange=${(from: number, to: number, first: number) => {
          inSight.current = [from, to]
          look()
          setReading(first > 0)
        }}
        row=${(index: number) => html`<${Row} offset=${offsetOf(index)} record=${blocks.recordAt(offsetOf(index))} isSelected=${offsetOf(index) === selected} onSelect=${() => go({ record: offsetOf(index) })} />`}
      />
    </section>
    ${selected !== null && html`<${RecordDetail} stream=${stream.stream} offset=${selected} show=${query['show'] ?? ''} onShow=${(show: string) => go({ show })} onClose=${() => go({ record: null })} />`}
  </div>`
}

const offsetIn = (text: string | undefined): number | null => (/^\d{1,15}$/.test(text ?? '') ? Number(text) : null)

interface RowProps {
  readonly offset: number
  readonly record: ListedRecord | null | undefined
  readonly isSelected: boolean
  readonly onSelect: () => void
}

function Row({ offset, record, isSelected, onSelect }: RowProps): VNode {
  if (!record) {
    return html`<div class="record">
      <span class="number">${offset}</span
      ><span class="fine">${record === null ? 'It is not there any more.' : '…'}</span>
    </div>`
  }
  const { ingestMs, keyHex, payloadHex, payloadBytes } = record
  return html`<button type="button" class="record" aria-pressed=${isSelected} onClick=${onSelect}>
    <span class="number">${offset}</span>
    <span><${When} ms=${ingestMs} /></span>
    <span class="cut mono">${keyHex === null ? '' : (textOf(keyHex) ?? `0x${keyHex}`)}</span>
    <span class="cut mono">${textOf(payloadHex, payloadHex.length < payloadBytes * 2) ?? `0x${payloadHex}`}</span>
    <span class="fine"><${Bytes} of=${payloadBytes} /></span>
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
