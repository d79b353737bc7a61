/** All streams: how much is in them, how fast they grow, how long they keep it. */
import type { VNode } from 'preact'
import { useLocation } from 'preact-iso/router'
import { useRef, useState } from 'preact/hooks'
import { Gate } from '../account.ts'
import { curlCommand } from '../commands.ts'
import { exact, exactRate, rate } from '../format.ts'
import { html } from '../html.ts'
import { useAction, useLoaded } from '../loading.ts'
import { Bytes, Count, Dialog, Duration, Empty, Field, Form, Loading, Problem, When, link } from '../parts.ts'
import type { FormValues } from '../parts.ts'
import { askJson } from '../request.ts'
import { listStreams, streamPath } from './api.ts'
import type { Retention, Stream } from './api.ts'
import { DurabilityField, PolicyFields, policyFrom } from './policy-fields.ts'

const REFRESH_MS = 3000
/** A browser lays out so many rows without a delay that one feels; the others are found by name. */
const ROWS_MAX = 500

export const StreamsPage = (): VNode => html`<${Gate} service="broker"><${Streams} /><//>`

function Streams(): VNode {
  const { query, route } = useLocation()
  const filter = query['q'] ?? ''
  const [isCreating, setCreating] = useState(false)
  const { value, problem, reload } = useLoaded(listStreams, [], REFRESH_MS)
  const speeds = useSpeeds(value)
  const shown = (value ?? []).filter(({ stream }) => stream.toLowerCase().includes(filter.toLowerCase()))
  return html`<div>
    <header class="bar">
      <h1>Streams ${value && html`<span class="badge">${exact(value.length)}</span>`}</h1>
      <span class="space"></span>
      <input
        type="search"
        data-key="/"
        aria-label="Filter streams by name"
        placeholder="Filter by name"
        value=${filter}
        onInput=${(event: { currentTarget: HTMLInputElement }) => route(link('/streams', { q: event.currentTarget.value }), true)}
      />
      <a class="button" href="/audit">Audit trail</a>
      <button type="button" data-key="r" onClick=${reload}>Reload</button>
      <button type="button" class="primary" data-key="n" onClick=${() => setCreating(true)}>Create stream</button>
    </header>
    ${problem && html`<${Problem} of=${problem} />`}
    ${value === null ? problem === null && html`<${Loading} />` : value.length === 0 ? html`<${NoStream} />` : html`<${Table} streams=${shown} speeds=${speeds} />`}
    ${isCreating && html`<${Create} onClose=${() => setCreating(false)} />`}
  </div>`
}

const NoStream = (): VNode =>
  html`<${Empty} title="No stream yet" command=${curlCommand('broker', streamPath('orders'), { method: 'PUT' })}
    >Records are published to a stream, kept there, and given out to consumer groups.<//
  >`

const Table = ({ streams, speeds }: { streams: readonly Stream[]; speeds: ReadonlyMap<string, number> }): VNode =>
  html`<div class="scroll" tabindex="0" role="group" aria-label="Streams">
    <table>
      <thead>
        <tr>
          <th scope="col">Stream</th>
          <th scope="col" class="right">Records</th>
          <th scope="col" class="right">Payload</th>
          <th scope="col" class="right">Published</th>
          <th scope="col" class="right">Next offset</th>
          <th scope="col">Keeps</th>
          <th scope="col">Created</th>
        </tr>
      </thead>
      <tbody>
        ${streams.slice(0, ROWS_MAX).map(
          (each) =>
            html`<tr key=${each.stream}>
              <th scope="row"><a href=${`/streams/${encodeURIComponent(each.stream)}`}>${each.stream}</a></th>
              <td class="right"><${Count} of=${each.record_count} /></td>
              <td class="right"><${Bytes} of=${each.payload_bytes} /></td>
              <td class="right number"><${Speed} of=${speeds.get(each.stream)} /></td>
              <td class="right"><${Count} of=${each.next_offset} /></td>
              <td><${Keeps} retention=${each.retention} /></td>
              <td><${When} ms=${each.created_at_ms} /></td>
            </tr>`,
        )}
      </tbody>
    </table>
    ${streams.length === 0 && html`<p class="loading">No stream has such a name.</p>`}
    ${streams.length > ROWS_MAX && html`<p class="loading">And ${exact(streams.length - ROWS_MAX)} more: filter by name.</p>`}
  </div>`

const Speed = ({ of }: { of: number | undefined }): VNode =>
  of === undefined ? html`<span>–</span>` : html`<span title=${exactRate(of)}>${rate(of)}</span>`

export function Keeps({ retention }: { retention: Retention }): VNode {
  const { max_age_millis: age, max_bytes: size, min_cursor_name: cursor } = retention
  const bounds = [
    age !== null && html`<${Duration} seconds=${age / 1000} />`,
    size !== null && html`<${Bytes} of=${size} />`,
    cursor !== null && html`<span>what ${cursor} has not read</span>`,
  ].filter((each) => each !== false)
  if (bounds.length === 0) return html`<span>everything</span>`
  return html`<span>${bounds.map((each, at) => [at > 0 && ', ', each])}</span>`
}

/** Records per second, from one look to the next. */
function useSpeeds(streams: readonly Stream[] | null): ReadonlyMap<string, number> {
  const seen = useRef<{ atMs: number; streams: readonly Stream[]; speeds: ReadonlyMap<string, number> } | null>(null)
  if (streams === null || seen.current?.streams === streams) return seen.current?.speeds ?? new Map()
  const before = seen.current
  const nowMs = performance.now()
  const offsets = new Map(before?.streams.map(({ stream, next_offset: next }) => [stream, next]))
  const speeds = new Map<string, number>()
  for (const { stream, next_offset: next } of streams) {
    const then = offsets.get(stream)
    if (before && then !== undefined && nowMs > before.atMs)
      speeds.set(stream, Math.max(0, next - then) / ((nowMs - before.atMs) / 1000))
  }
  seen.current = { atMs: nowMs, streams, speeds }
  return speeds
}

function Create({ onClose }: { onClose: () => void }): VNode {
  const { route } = useLocation()
  const action = useAction()
  const create = async (values: FormValues): Promise<void> => {
    const name = (values['stream'] ?? '').trim()
    await askJson('broker', streamPath(name), {
      method: 'PUT',
      body: policyFrom(values),
    })
    route(`/streams/${encodeURIComponent(name)}`)
  }
  return html`<${Dialog} title="Create a stream" onClose=${onClose}>
    <${Form} action=${action} submit="Create stream" onSubmit=${create} onCancel=${onClose}>
      <${Field} label="Name" name="stream" required autofocus />
      <${DurabilityField} />
      <${PolicyFields} />
    <//>
  <//>`
}
