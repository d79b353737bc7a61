/** The spans of a trace over its time, each as a bar in the colour of its service. */
import type { VNode } from 'preact'
import { useMemo } from 'preact/hooks'
import { duration, exact } from '../format.ts'
import { html } from '../html.ts'
import { Steps } from '../steps.ts'
import { VirtualList } from '../virtual-list.ts'
import type { Trace } from './api.ts'
import { colorOf } from './trace.ts'
import type { FlatSpan } from './trace.ts'

const ROW_PIXELS = 28
const MARKS = [0, 0.25, 0.5, 0.75, 1]
const INDENT_MAX = 12

interface WaterfallProps {
  readonly trace: Trace
  readonly spans: readonly FlatSpan[]
  readonly selected: string | null
  readonly onOpen: (spanId: string) => void
  /** Spans whose children are hidden. */
  readonly folded: ReadonlySet<string>
  readonly onFold: (spanId: string) => void
}

export function Waterfall({ trace, spans, selected, onOpen, folded, onFold }: WaterfallProps): VNode {
  const shown = useMemo(() => withoutFolded(spans, folded), [spans, folded])
  const whole = Math.max(1, Number(BigInt(trace.end_time_unix_nano) - BigInt(trace.start_time_unix_nano)))
  if (spans.length === 0) {
    return html`<section aria-label="Spans">
      <p class="notice">No span of this trace is stored, only log records.</p>
    </section>`
  }
  const index = shown.findIndex(({ spanId }) => spanId === selected)
  return html`<section aria-label="Spans">
    <${Steps} count=${shown.length} at=${index} onGo=${(at: number) => onOpen(shown[at]!.spanId)} />
    <div class="record span head" aria-hidden="true">
      <span>Span</span>
      <span class="axis">
        ${MARKS.map((part) => html`<i key=${part} style=${{ left: along(part) }}>${part === 0 ? '0' : duration((whole * part) / 1e9)}</i>`)}
      </span>
    </div>
    <${VirtualList}
      label="Spans by time"
      count=${shown.length}
      rowPixels=${ROW_PIXELS}
      shown=${index}
      row=${(at: number) =>
        html`<${SpanRow}
          span=${shown[at]!}
          color=${colorOf(trace, shown[at]!.dataset)}
          whole=${whole}
          isSelected=${shown[at]!.spanId === selected}
          isFolded=${folded.has(shown[at]!.spanId)}
          onOpen=${() => onOpen(shown[at]!.spanId)}
          onFold=${() => onFold(shown[at]!.spanId)}
        />`}
    />
  </section>`
}

function withoutFolded(spans: readonly FlatSpan[], folded: ReadonlySet<string>): readonly FlatSpan[] {
  const shown: FlatSpan[] = []
  for (let at = 0; at < spans.length; at++) {
    const span = spans[at]!
    shown.push(span)
    if (folded.has(span.spanId)) at += span.below
  }
  return shown
}

/** A part of the trace's time as a length: behind the end of the axis there is room for the text of a bar. */
const along = (part: number): string => `calc((100% - 7.5rem) * ${part})`

interface RowProps {
  readonly span: FlatSpan
  readonly color: string
  readonly whole: number
  readonly isSelected: boolean
  readonly isFolded: boolean
  readonly onOpen: () => void
  readonly onFold: () => void
}

function SpanRow({ span, color, whole, isSelected, isFolded, onOpen, onFold }: RowProps): VNode {
  const { name, dataset, depth, below, offset, duration: nano, isFailed, logs, lacks } = span
  const [from, part] = [offset / whole, nano / whole]
  const took = duration(nano / 1e9)
  const indent = { paddingLeft: `${Math.min(depth, INDENT_MAX) * 0.9}rem` }
  return html`<div class=${`record span ${isSelected ? 'chosen' : ''}`}>
    <span class="name" style=${indent}>
      ${
        below > 0
          ? html`<button
              type="button"
              class="quiet fold"
              aria-expanded=${isFolded ? 'false' : 'true'}
              aria-label=${`${exact(below)} spans below ${name}`}
              onClick=${onFold}
            ></button>`
          : html`<span class="fold"></span>`
      }
      <button
        type="button"
        class="link cut"
        aria-current=${isSelected ? 'true' : undefined}
        title=${lacks === null ? `${dataset}: ${name}` : `${dataset}: ${name} (${lacks})`}
        onClick=${onOpen}
      >
        <i class="dot" style=${{ background: color }} aria-hidden="true"></i><strong>${dataset}</strong> ${name}
      </button>
      ${isFailed && html`<span class="level error">error</span>`}
      ${lacks !== null && html`<span class="fine" title=${lacks}>?</span>`}
    </span>
    <span class="axis" onClick=${onOpen}>
      <i
        class=${isFailed ? 'span-bar failed' : 'span-bar'}
        style=${{ left: along(from), width: `max(${along(part)}, 2px)`, background: color }}
      ></i>
      <span class="took number fine" style=${{ left: along(from + part) }} title=${`${nano} ns`}
        >${took}${logs > 0 ? ` · ${logs} log${logs > 1 ? 's' : ''}` : ''}</span
      >
    </span>
  </div>`
}
