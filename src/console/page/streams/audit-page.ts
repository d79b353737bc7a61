/** The broker's audit events, the newest first. */
import type { VNode } from 'preact'
import { useLocation } from 'preact-iso/router'
import { Gate } from '../account.ts'
import { html } from '../html.ts'
import { useLoaded } from '../loading.ts'
import { Empty, Loading, Problem, When, link } from '../parts.ts'
import { askJson } from '../request.ts'
import type { AuditEvent } from './api.ts'

const PAGE = 1000

/** The newest ones. */
async function loadEvents(
  before: number | null,
  signal: AbortSignal,
): Promise<{ events: readonly AuditEvent[]; first: number }> {
  const { next_offset: end } = await askJson<{ next_offset: number }>('broker', '/v1/streams/system.audit', { signal })
  const last = before ?? end
  const first = Math.max(0, last - PAGE)
  const path = `/v1/audit/events?start_offset=${first}&max_records=${PAGE}`
  const { events } = await askJson<{ events: readonly AuditEvent[] }>('broker', path, { signal })
  return { events: events.filter(({ offset }) => offset < last).toReversed(), first }
}

export const AuditPage = (): VNode => html`<${Gate} service="broker"><${Audit} /><//>`

function Audit(): VNode {
  const { query, route } = useLocation()
  const before = query['before'] === undefined ? null : Number(query['before'])
  const { value, problem, reload } = useLoaded((signal) => loadEvents(before, signal), [before])
  const { kind = '', stream = '', q = '' } = query
  const go = (changes: Record<string, string>): void => route(link('/audit', { ...query, ...changes }), true)
  const distinct = (of: (event: AuditEvent) => string | null): readonly string[] =>
    [...new Set((value?.events ?? []).map(of))].filter((each) => each !== null).toSorted()
  const isShown = (event: AuditEvent): boolean =>
    (kind === '' || event.kind === kind) &&
    (stream === '' || event.stream === stream) &&
    (q === '' || JSON.stringify(event).toLowerCase().includes(q.toLowerCase()))
  const shown = (value?.events ?? []).filter(isShown)
  return html`<div>
    <header class="bar">
      <p class="crumbs"><a href="/streams">Streams</a> <span aria-hidden="true">/</span></p>
      <h1>Audit trail</h1>
      <span class="space"></span>
      <${Choice}
        label="Kind"
        value=${kind}
        values=${distinct((event) => event.kind)}
        titleOf=${kindTitle}
        onChange=${(next: string) => go({ kind: next })}
      />
      <${Choice}
        label="Stream"
        value=${stream}
        values=${distinct((event) => event.stream)}
        onChange=${(next: string) => go({ stream: next })}
      />
      <input
        type="search"
        data-key="/"
        aria-label="Search in what is shown"
        placeholder="Search"
        value=${q}
        onInput=${(event: { currentTarget: HTMLInputElement }) => go({ q: event.currentTarget.value })}
      />
      <button type="button" data-key="r" onClick=${reload}>Reload</button>
    </header>
    ${problem && html`<${Problem} of=${problem} />`}
    ${
      value === null
        ? problem === null && html`<${Loading} />`
        : value.events.length === 0
          ? html`<${Empty} title="Nothing was changed yet"
              >Streams created, changed and deleted, dead letters, rewinds and seeks leave an event each.<//
            >`
          : html`<div class="scroll" tabindex="0" role="group" aria-label="Audit events">
              <table>
                <thead>
                  <tr>
                    <th scope="col">When</th>
                    <th scope="col">What</th>
                    <th scope="col">Stream</th>
                    <th scope="col">Who</th>
                    <th scope="col">Details</th>
                  </tr>
                </thead>
                <tbody>
                  ${shown.map(
                    (event) =>
                      html`<tr key=${event.offset}>
                        <td><${When} ms=${event.at_ms} /></td>
                        <th scope="row">${kindTitle(event.kind)}</th>
                        <td>
                          ${event.stream !== null && html`<a href=${`/streams/${encodeURIComponent(event.stream)}`}>${event.stream}</a>`}
                        </td>
                        <td>${event.principal}</td>
                        <td class="mono fine wrap">${detailText(event.detail)}</td>
                      </tr>`,
                  )}
                </tbody>
              </table>
            </div>`
    }
    ${value !== null && value.first > 0 && html`<p class="buttons"><a class="button" href=${link('/audit', { ...query, before: value.first })}>Older</a></p>`}
  </div>`
}

/** The members of a detail in one line, without those that are null. */
function detailText(detail: AuditEvent['detail']): string {
  const words = Object.entries(detail).map(([name, value]) => {
    if (value === null) return ''
    if (typeof value !== 'object') return `${name} ${typeof value === 'string' ? value : JSON.stringify(value)}`
    const inside = Array.isArray(value) ? JSON.stringify(value) : detailText(value as AuditEvent['detail']) // of JSON
    return inside === '' ? '' : `${name} (${inside})`
  })
  return words.filter((each) => each !== '').join(', ')
}

const kindTitle = (kind: string): string => kind.replaceAll('_', ' ')

interface ChoiceProps {
  readonly label: string
  readonly value: string
  readonly values: readonly string[]
  readonly titleOf?: (value: string) => string
  readonly onChange: (value: string) => void
}

const Choice = ({ label, value, values, titleOf = (each) => each, onChange }: ChoiceProps): VNode =>
  html`<select
    aria-label=${label}
    value=${value}
    onChange=${(event: { currentTarget: HTMLSelectElement }) => onChange(event.currentTarget.value)}
  >
    <option value="">${label}: all</option>
    ${values.map((each) => html`<option key=${each} value=${each}>${titleOf(each)}</option>`)}
  </select>`
