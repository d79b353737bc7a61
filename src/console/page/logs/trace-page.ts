/** One trace over all services: its spans as a waterfall, or its log records by time. */
import type { VNode } from 'preact'
import { useLocation, useRoute } from 'preact-iso/router'
import { useMemo } from 'preact/hooks'
import { Gate } from '../account.ts'
import { duration, exact, exactTime, momentOf, msOf } from '../format.ts'
import { html } from '../html.ts'
import { useLoaded } from '../loading.ts'
import { Copy, Loading, Problem, Tabs, link } from '../parts.ts'
import { Steps } from '../steps.ts'
import { VirtualList } from '../virtual-list.ts'
import { findTrace } from './api.ts'
import type { Trace } from './api.ts'
import { RecordDetail } from './record-detail.ts'
import { RecordRow, rowOf } from './rows.ts'
import { colorOf, logsOf, spansOf } from './trace.ts'
import { logsLink } from './view.ts'
import type { Range } from './view.ts'
import { Waterfall } from './waterfall.ts'

const ROW_PIXELS = 28
/** Before and behind a trace, where records that belong to it may stand. */
const AROUND_MS = 60_000

export const TracePage = (): VNode => {
  const { params } = useRoute()
  const id = params['trace'] ?? ''
  return html`<${Gate} service="logstore"><${Page} key=${id} id=${id} /><//>`
}

function Page({ id }: { id: string }): VNode {
  const { value, problem, reload } = useLoaded((signal) => findTrace(id, signal), [id])
  return html`<div class="logs">
    <header class="bar">
      <p class="crumbs"><a href="/logs">Logs</a> <span aria-hidden="true">/</span></p>
      <h1>${value?.roots[0]?.name ?? 'Trace'}</h1>
      <code class="fine">${id}</code>
      <${Copy} text=${id} what="trace id" />
      <span class="space"></span>
      <button type="button" data-key="r" onClick=${reload}>Reload</button>
    </header>
    ${problem && html`<${Problem} of=${problem} />`}
    ${value ? html`<${Shown} trace=${value} />` : problem === null && html`<${Loading} />`}
  </div>`
}

function Shown({ trace }: { trace: Trace }): VNode {
  const { query, route } = useLocation()
  const { span: spanId, record: recordId, tab = 'spans', fold = '' } = query
  const path = `/traces/${trace.trace_id}`
  const spans = useMemo(() => spansOf(trace), [trace])
  const logs = useMemo(() => logsOf(trace), [trace])
  const go = (changes: Record<string, string | null>): void => route(link(path, { ...query, ...changes }), true)
  const opened =
    recordId !== undefined
      ? logs.find((each) => each.record_id === recordId)
      : spans.find((each) => each.spanId === spanId)?.record
  const folded = useMemo(() => new Set(fold.split(',').filter((each) => each !== '')), [fold])
  const onFold = (span: string): void => {
    const others = [...folded].filter((each) => each !== span)
    go({ fold: (folded.has(span) ? others : [...others, span]).join() })
  }
  const nanoseconds = Number(BigInt(trace.end_time_unix_nano) - BigInt(trace.start_time_unix_nano))
  const failed = spans.filter(({ isFailed }) => isFailed).length
  const range: Range = {
    kind: 'between',
    fromMs: Math.floor(msOf(trace.start_time_unix_nano)) - AROUND_MS,
    toMs: Math.ceil(msOf(trace.end_time_unix_nano)) + AROUND_MS,
  }
  const shownLog = logs.findIndex((each) => each.record_id === recordId)
  const isOpen = opened !== undefined
  return html`<div class="explorer">
    <dl class="inline">
      <div>
        <dt>Began</dt>
        <dd>
          <time title=${exactTime(trace.start_time_unix_nano)}>${momentOf(trace.start_time_unix_nano)}</time>
        </dd>
      </div>
      <div>
        <dt>Took</dt>
        <dd title=${`${nanoseconds} ns`}>${duration(nanoseconds / 1e9)}</dd>
      </div>
      <div>
        <dt>Errors</dt>
        <dd>${failed === 0 ? 'none' : html`<span class="level error">${exact(failed)}</span>`}</dd>
      </div>
      <div>
        <dt>Services</dt>
        <dd class="services">
          ${trace.datasets.map(
            (dataset) =>
              html`<a key=${dataset} href=${logsLink({ dataset, range })}
                ><i class="dot" style=${{ background: colorOf(trace, dataset) }}></i>${dataset}</a
              >`,
          )}
        </dd>
      </div>
    </dl>
    ${
      trace.truncated &&
      html`<p class="notice warn">
        The trace has ${exact(trace.matched_records)} records; the earliest ${exact(trace.spans + trace.log_records)}
        are shown.
      </p>`
    }
    <${Tabs}
      label="Parts of the trace"
      current=${tab}
      tabs=${[
        { name: 'spans', title: 'Waterfall', href: link(path, { fold }), count: trace.spans },
        { name: 'logs', title: 'Log records', href: link(path, { tab: 'logs', fold }), count: trace.log_records },
      ]}
    />
    <div class=${isOpen ? 'split open' : 'split'}>
      ${
        tab === 'logs'
          ? html`<section aria-label="Log records of the trace">
              <${Steps}
                count=${logs.length}
                at=${shownLog}
                onGo=${(at: number) => go({ record: logs[at]!.record_id })}
              />
              ${
                logs.length === 0
                  ? html`<p class="notice">No log record names this trace.</p>`
                  : html`<${VirtualList}
                      label="Log records by time"
                      count=${logs.length}
                      rowPixels=${ROW_PIXELS}
                      shown=${shownLog}
                      row=${(at: number) =>
                        html`<${RecordRow}
                          row=${rowOf(logs[at]!)}
                          hasDataset
                          isSelected=${logs[at]!.record_id === recordId}
                          onOpen=${() => go({ record: logs[at]!.record_id })}
                        />`}
                    />`
              }
            </section>`
          : html`<${Waterfall}
              trace=${trace}
              spans=${spans}
              selected=${spanId ?? null}
              folded=${folded}
              onFold=${onFold}
              onOpen=${(id: string) => go({ span: id, record: null })}
            />`
      }
      ${
        isOpen &&
        html`<${RecordDetail}
          dataset=${opened.dataset}
          id=${opened.record_id}
          view=${{ range }}
          trace=${trace.trace_id}
          onClose=${() => go({ span: null, record: null })}
        />`
      }
    </div>
  </div>`
}
