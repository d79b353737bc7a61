/** Everything about one record, and what leads from it: to others that are like it, and to its trace. */
import type { VNode } from 'preact'
import { duration, exactTime, momentOf, msOf } from '../format.ts'
import { html } from '../html.ts'
import { useLoaded } from '../loading.ts'
import { Copy, Loading, Problem } from '../parts.ts'
import { findRecord } from './api.ts'
import type { Attribute, StoredRecord } from './stored-record.ts'
import { durationNano, isComparable, isFailed, kindName, levelOf, nanoOf, valueText } from './otlp.ts'
import { logsLink, withTerm } from './view.ts'
import type { View } from './view.ts'

const FILTERED_LENGTH_MAX = 500

interface DetailProps {
  readonly dataset: string
  readonly id: string
  /** The view that filters are added to. */
  readonly view: Partial<View>
  /** The trace that the page shows; null: none. */
  readonly trace?: string | null
  readonly onClose: () => void
}

export function RecordDetail({ dataset, id, view, trace = null, onClose }: DetailProps): VNode {
  const { value, problem } = useLoaded(
    async (signal) => ({ record: await findRecord(dataset, id, signal) }),
    [dataset, id],
  )
  const record = value?.record ?? null
  return html`<aside class="detail" aria-label="Record">
    <header>
      <h2>${record?.signal === 'trace' ? record.raw_payload.record.name : 'Log record'}</h2>
      <button type="button" class="quiet" data-key="Escape" aria-label="Close the record" onClick=${onClose}>×</button>
    </header>
    ${problem && html`<${Problem} of=${problem} />`}
    ${
      record
        ? html`<${Shown} record=${record} view=${view} trace=${trace} />`
        : value === null
          ? problem === null && html`<${Loading} />`
          : html`<p class="notice">It is not stored any more: retention removed it, or it is damaged.</p>`
    }
  </aside>`
}

interface ShownProps {
  readonly record: StoredRecord
  readonly view: Partial<View>
  readonly trace: string | null
}

function Shown({ record, view, trace }: ShownProps): VNode {
  const { trace_id: traceId, span_id: spanId, dataset, time_unix_nano: timeNano, raw_payload: payload } = record
  const { resource, scope, record: sent } = payload
  const level = levelOf(record)
  const traceLink = `/traces/${traceId}${spanId === null ? '' : `?span=${spanId}`}`
  const isShownThere = trace === traceId && (record.signal === 'trace' || spanId === null)
  const body = valueText(sent.body, 2)
  return html`<div>
    <div class="buttons">
      ${traceId !== null && !isShownThere && html`<a class="button primary" href=${traceLink}>${trace === traceId ? 'Show its span' : 'Show the trace'}</a>`}
      <${Copy} text=${JSON.stringify(record, null, 2)} what="the record as JSON" label="Copy as JSON" />
    </div>
    ${body !== '' && html`<pre class="payload" tabindex="0" aria-label="Body"><code>${body}</code></pre>`}
    <dl class="pairs">
      <div>
        <dt>Time</dt>
        <dd>
          <time title=${exactTime(timeNano)} datetime=${new Date(msOf(timeNano)).toISOString()}
            >${momentOf(timeNano)}</time
          >
        </dd>
      </div>
      <div>
        <dt>Dataset</dt>
        <dd>${dataset}</dd>
      </div>
      ${
        level !== null &&
        html`<div>
          <dt>Severity</dt>
          <dd>
            <span class=${`level ${level}`}>${level}</span>
            <span class="fine">${[sent.severityText, record.severity_number].filter(Boolean).join(' · ')}</span>
          </dd>
        </div>`
      }
      ${sent.eventName && html`<${Pair} name="Event" value=${sent.eventName} />`}
      ${record.signal === 'trace' && html`<${SpanPairs} record=${record} />`}
      ${traceId !== null && html`<${Pair} name="Trace" value=${traceId} />`}
      ${spanId !== null && html`<${Pair} name="Span" value=${spanId} />`}
    </dl>
    <${Attributes} title="Attributes" prefix="attributes." of=${sent.attributes} view=${view} dataset=${dataset} />
    <${Events} of=${sent.events ?? []} />
    ${
      scope !== undefined &&
      (scope.name || scope.attributes) &&
      html`<h3>Scope</h3>
        <dl class="pairs"><${Pair} name="Name" value=${[scope.name, scope.version].filter(Boolean).join(' ')} /></dl>
        <${Attributes} title="" prefix="scope.attributes." of=${scope.attributes} view=${view} dataset=${dataset} />`
    }
    <${Attributes}
      title="Resource"
      prefix="resource.attributes."
      of=${resource?.attributes}
      view=${view}
      dataset=${dataset}
    />
    <p class="fine">${record.source} · <span class="mono wrap">${record.record_id}</span></p>
  </div>`
}

const Pair = ({ name, value }: { name: string; value: string }): VNode =>
  html`<div>
    <dt>${name}</dt>
    <dd class="mono">${value}</dd>
  </div>`

function SpanPairs({ record }: { record: StoredRecord }): VNode[] {
  const sent = record.raw_payload.record
  const nano = durationNano(sent)
  const message = sent.status?.message ?? ''
  return [
    html`<div key="kind">
      <dt>Kind</dt>
      <dd>${kindName(sent.kind)}</dd>
    </div>`,
    html`<div key="duration">
      <dt>Duration</dt>
      <dd title=${nano === null ? '' : `${nano} ns`}>${nano === null ? '–' : duration(nano / 1e9)}</dd>
    </div>`,
    html`<div key="status">
      <dt>Status</dt>
      <dd>
        ${isFailed(sent) ? html`<span class="level error">error</span>` : sent.status?.code === 1 ? 'ok' : 'unset'}
        ${message !== '' && html` <span class="mono">${message}</span>`}
      </dd>
    </div>`,
  ]
}

interface AttributesProps {
  readonly title: string
  readonly prefix: string
  readonly of: readonly Attribute[] | null | undefined
  readonly view: Partial<View>
  readonly dataset: string
}

function Attributes({ title, prefix, of, view, dataset }: AttributesProps): VNode | null {
  if (!of || of.length === 0) return null
  return html`<section aria-label=${title || 'Scope attributes'}>
    ${title !== '' && html`<h3>${title}</h3>`}
    <dl class="pairs attributes">
      ${of.map((attribute) => {
        const { key, value } = attribute
        const text = valueText(value)
        const link = (isNot: boolean): string =>
          logsLink({ ...withTerm({ ...view, dataset }, `${prefix}${key}`, text, isNot), record: null })
        return html`<div key=${key}>
          <dt class="mono">${key}</dt>
          <dd class="mono">${text === '' ? '–' : text}</dd>
          ${
            isComparable(attribute) &&
            text.length <= FILTERED_LENGTH_MAX &&
            html`<dd class="acts">
              <a href=${link(false)} aria-label=${`Only records with ${key} ${text}`} title="Only records with this"
                >+</a
              >
              <a href=${link(true)} aria-label=${`Leave out ${key} ${text}`} title="Leave these out">−</a>
            </dd>`
          }
        </div>`
      })}
    </dl>
  </section>`
}

function Events({ of }: { of: NonNullable<StoredRecord['raw_payload']['record']['events']> }): VNode | null {
  if (of.length === 0) return null
  return html`<section aria-label="Events">
    <h3>Events</h3>
    ${of.map(({ name, timeUnixNano, attributes }, at) => {
      const time = String(nanoOf(timeUnixNano))
      return html`<div key=${at} class="event">
        <p>
          <strong>${name}</strong>
          <time class="fine" title=${exactTime(time)}>${momentOf(time)}</time>
        </p>
        <dl class="pairs">
          ${(attributes ?? []).map(({ key, value }) => html`<${Pair} key=${key} name=${key} value=${valueText(value)} />`)}
        </dl>
      </div>`
    })}
  </section>`
}
