/** Which time is shown: up to now, everything, or from one moment to another. */
import type { VNode } from 'preact'
import { html } from '../html.ts'
import { Refusal } from '../request.ts'
import { useAction } from '../loading.ts'
import { Field, Form } from '../parts.ts'
import type { FormValues } from '../parts.ts'
import { RANGES } from './view.ts'
import type { Range, RangeName } from './view.ts'

interface PickerProps {
  readonly range: Range
  readonly onChange: (range: Range) => void
}

const CUSTOM = 'custom'

export function RangePicker({ range, onChange }: PickerProps): VNode {
  const choose = (name: string): void => {
    if (name === 'all') return onChange({ kind: 'all' })
    if (name !== CUSTOM) return onChange({ kind: 'last', name: name as RangeName }) // one of the options
    const toMs = Math.ceil(Date.now() / 60_000) * 60_000
    onChange({ kind: 'between', fromMs: toMs - (range.kind === 'last' ? RANGES[range.name].ms : 3_600_000), toMs })
  }
  const value = range.kind === 'last' ? range.name : range.kind === 'all' ? 'all' : CUSTOM
  return html`<select
    aria-label="Time"
    value=${value}
    onChange=${(event: { currentTarget: HTMLSelectElement }) => choose(event.currentTarget.value)}
  >
    ${Object.entries(RANGES).map(([name, { title }]) => html`<option key=${name} value=${name}>${title}</option>`)}
    <option value="all">All time</option>
    <option value=${CUSTOM}>From … to …</option>
  </select>`
}

export function Between({ range, onChange }: PickerProps): VNode | null {
  const action = useAction()
  if (range.kind !== 'between') return null
  const { fromMs, toMs } = range
  const apply = async ({ from = '', to = '' }: FormValues): Promise<void> => {
    const [low, high] = [Date.parse(from), Date.parse(to)]
    if (!(low < high)) throw new Refusal(400, '', 'The time must begin before it ends.')
    onChange({ kind: 'between', fromMs: low, toMs: high })
  }
  const zoomOut = (): void => {
    const half = (toMs - fromMs) / 2
    onChange({ kind: 'between', fromMs: fromMs - half, toMs: toMs + half })
  }
  return html`<div class="between" key=${`${fromMs} ${toMs}`}>
    <${Form} action=${action} submit="Go" onSubmit=${apply}>
      <${Field} label="From" name="from" type="datetime-local" step="0.001" value=${localText(fromMs)} />
      <${Field} label="to" name="to" type="datetime-local" step="0.001" value=${localText(toMs)} />
    <//>
    <button type="button" onClick=${zoomOut}>Zoom out</button>
  </div>`
}

/** As the browser's own control takes it. */
function localText(ms: number): string {
  const local = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000)
  return local.toISOString().slice(0, -1)
}
