/** One consumer group: what it works on, what waits, and where it reads. */
import type { VNode } from 'preact'
import { useLocation, useRoute } from 'preact-iso/router'
import { useState } from 'preact/hooks'
import { Gate } from '../account.ts'
import { ago, exact } from '../format.ts'
import { html } from '../html.ts'
import { useLoaded } from '../loading.ts'
import { Count, Duration, Loading, Problem, Waiting, When, link } from '../parts.ts'
import { askJson } from '../request.ts'
import { describeStream, groupPath, replay } from './api.ts'
import type { Cursor, Delayed, Lease, Stream } from './api.ts'
import {
  CommitCursor,
  DeadLetterLease,
  DeleteCursor,
  DeleteGroup,
  ReleaseLease,
  RewindCursor,
  SeekGroup,
} from './group-actions.ts'

const REFRESH_MS = 2000

interface GroupState {
  readonly stream: Stream
  readonly group: {
    readonly progress_offset: number
    readonly lag_messages: number
    readonly in_flight_count: number
    readonly delayed_count: number
  }
  readonly leases: { readonly leases: readonly Lease[]; readonly truncated: boolean }
  readonly delayed: { readonly delayed: readonly Delayed[]; readonly truncated: boolean }
  readonly cursors: readonly Cursor[]
  /** When the oldest record came in that is not finished; null: there is none. */
  readonly oldestMs: number | null
}

async function loadGroup(stream: string, group: string, withEnded: boolean, signal: AbortSignal): Promise<GroupState> {
  const path = groupPath(stream, group)
  const [described, state, leases, delayed, cursors] = await Promise.all([
    describeStream(stream, signal),
    askJson<GroupState['group']>('broker', path, { signal }),
    askJson<GroupState['leases']>('broker', `${path}/leases${withEnded ? '?include_completed=true' : ''}`, { signal }),
    askJson<GroupState['delayed']>('broker', `${path}/delayed`, { signal }),
    askJson<{ cursors: readonly Cursor[] }>('broker', `${path}/cursors`, { signal }),
  ])
  const { progress_offset: progress } = state
  const oldest = state.lag_messages > 0 ? await replay(stream, { start_offset: progress }, 1, signal) : null
  return {
    stream: described,
    group: state,
    leases,
    delayed,
    cursors: cursors.cursors,
    oldestMs: oldest?.records[0]?.ingest_time_ms ?? null,
  }
}

export function GroupPage(): VNode {
  const { params } = useRoute()
  const { stream = '', group = '' } = params
  return html`<${Gate} service="broker"><${Shown} key=${`${stream}/${group}`} stream=${stream} group=${group} /><//>`
}

type Doing =
  | { readonly kind: 'seek' | 'delete' | 'commit' }
  | { readonly kind: 'release' | 'dead-letter'; readonly lease: Lease }
  | { readonly kind: 'rewind' | 'delete-cursor'; readonly cursor: Cursor }

function Shown({ stream, group }: { stream: string; group: string }): VNode {
  const { path, query, route } = useLocation()
  const withEnded = query['ended'] === '1'
  const showEnded = (isShown: boolean): void => route(link(path, { ended: isShown ? 1 : null }), true)
  const [doing, setDoing] = useState<Doing | null>(null)
  const { value, problem, reload } = useLoaded(
    (signal) => loadGroup(stream, group, withEnded, signal),
    [stream, group, withEnded],
    REFRESH_MS,
  )
  const of = { stream, group, onDone: reload, onClose: () => setDoing(null) }
  const streamLink = `/streams/${encodeURIComponent(stream)}`
  return html`<div>
    <header class="bar">
      <p class="crumbs">
        <a href="/streams">Streams</a> / <a href=${`${streamLink}?tab=groups`}>${stream}</a>
        <span aria-hidden="true">/</span>
      </p>
      <h1>${group}</h1>
      <span class="space"></span>
      <button type="button" data-key="r" onClick=${reload}>Reload</button>
      <button type="button" disabled=${value === null} onClick=${() => setDoing({ kind: 'seek' })}>Seek</button>
      <button type="button" class="danger" onClick=${() => setDoing({ kind: 'delete' })}>Delete group</button>
    </header>
    ${problem && html`<${Problem} of=${problem} />`}
    ${
      value === null
        ? problem === null && html`<${Loading} />`
        : html`<div class="stack">
            <dl class="figures">
              <div>
                <dt>Lag</dt>
                <dd title=${`${exact(value.group.lag_messages)} records are not finished`}>
                  <${Count} of=${value.group.lag_messages} />
                </dd>
              </div>
              <div>
                <dt>In flight</dt>
                <dd><${Count} of=${value.group.in_flight_count} /></dd>
              </div>
              <div>
                <dt>Delayed</dt>
                <dd><${Count} of=${value.group.delayed_count} /></dd>
              </div>
              <div>
                <dt>First unfinished</dt>
                <dd>
                  <a href=${`${streamLink}?order=oldest&at=${value.group.progress_offset}`}
                    ><${Count} of=${value.group.progress_offset}
                  /></a>
                </dd>
              </div>
              <div>
                <dt>Oldest waits</dt>
                <dd><${Waiting} ms=${value.oldestMs === null ? null : Date.now() - value.oldestMs} /></dd>
              </div>
            </dl>
            <${Leases} state=${value} withEnded=${withEnded} onShowEnded=${showEnded} onDo=${setDoing} />
            <${DelayedRecords} state=${value} />
            <${Cursors} state=${value} onDo=${setDoing} />
          </div>`
    }
    ${doing?.kind === 'seek' && value !== null && html`<${SeekGroup} ...${of} progress=${value.group.progress_offset} progressMs=${value.oldestMs} end=${value.stream.next_offset} />`}
    ${doing?.kind === 'delete' && html`<${DeleteGroup} ...${of} onDone=${() => route(`${streamLink}?tab=groups`)} />`}
    ${doing?.kind === 'commit' && html`<${CommitCursor} ...${of} end=${value?.stream.next_offset ?? 0} />`}
    ${doing?.kind === 'release' && html`<${ReleaseLease} ...${of} lease=${doing.lease} />`}
    ${doing?.kind === 'dead-letter' && html`<${DeadLetterLease} ...${of} lease=${doing.lease} to=${value?.stream.failure_policy?.dead_letter_stream ?? ''} />`}
    ${doing?.kind === 'rewind' && html`<${RewindCursor} ...${of} cursor=${doing.cursor} />`}
    ${doing?.kind === 'delete-cursor' && html`<${DeleteCursor} ...${of} cursor=${doing.cursor} />`}
  </div>`
}

interface LeasesProps {
  readonly state: GroupState
  readonly withEnded: boolean
  readonly onShowEnded: (shown: boolean) => void
  readonly onDo: (doing: Doing) => void
}

const LEASES_SHOWN_MAX = 500

function Leases({ state: { leases, stream }, withEnded, onShowEnded, onDo }: LeasesProps): VNode {
  const shown = leases.leases.slice(0, LEASES_SHOWN_MAX)
  return html`<section aria-label="Leases">
    <header class="bar">
      <h2>Leases</h2>
      <span class="space"></span>
      <label class="check"
        ><input
          type="checkbox"
          checked=${withEnded}
          onChange=${(event: { currentTarget: HTMLInputElement }) => onShowEnded(event.currentTarget.checked)}
        />
        with those that ended</label
      >
    </header>
    ${
      shown.length === 0
        ? html`<p class="loading">No record is leased now.</p>`
        : html`<div class="scroll" tabindex="0" role="group" aria-label="Leases">
            <table>
              <thead>
                <tr>
                  <th scope="col" class="right">Offset</th>
                  <th scope="col" class="right">Attempt</th>
                  <th scope="col">State</th>
                  <th scope="col">Ends in</th>
                  <th scope="col">Reason</th>
                  <th scope="col">Delivery</th>
                  <th scope="col"><span class="hidden">Actions</span></th>
                </tr>
              </thead>
              <tbody>
                ${shown.map(
                  (lease) =>
                    html`<tr key=${lease.delivery_id}>
                      <th scope="row" class="right number">
                        <a
                          href=${`/streams/${encodeURIComponent(stream.stream)}?record=${lease.offset}&at=${lease.offset}`}
                          >${lease.offset}</a
                        >
                      </th>
                      <td class="right number">${lease.attempt}</td>
                      <td><span class=${`state ${lease.state}`}>${lease.state.replaceAll('_', ' ')}</span></td>
                      <td class="number">
                        ${lease.state === 'active' ? html`<${Duration} seconds=${Math.max(0.001, lease.lease_remaining_millis / 1000)} />` : '–'}
                      </td>
                      <td>${lease.reason ?? ''}</td>
                      <td class="mono fine">${lease.delivery_id}</td>
                      <td class="right">
                        ${lease.state === 'active' && html`<button type="button" aria-label=${`Release the record at ${lease.offset}`} onClick=${() => onDo({ kind: 'release', lease })}>Release</button> <button type="button" aria-label=${`Dead-letter the record at ${lease.offset}`} onClick=${() => onDo({ kind: 'dead-letter', lease })}>Dead-letter</button>`}
                      </td>
                    </tr>`,
                )}
              </tbody>
            </table>
          </div>`
    }
    ${(leases.truncated || shown.length < leases.leases.length) && html`<p class="fine">There are more: these are the first ${shown.length}.</p>`}
  </section>`
}

function DelayedRecords({ state: { delayed } }: { state: GroupState }): VNode | null {
  if (delayed.delayed.length === 0) return null
  return html`<section aria-label="Delayed">
    <h2>Delayed</h2>
    <div class="scroll" tabindex="0" role="group" aria-label="Delayed records">
      <table>
        <thead>
          <tr>
            <th scope="col" class="right">Offset</th>
            <th scope="col" class="right">Attempt</th>
            <th scope="col">Given out again</th>
          </tr>
        </thead>
        <tbody>
          ${delayed.delayed.map(
            (each) =>
              html`<tr key=${each.offset}>
                <th scope="row" class="right number">${each.offset}</th>
                <td class="right number">${each.attempt}</td>
                <td title=${new Date(each.available_at_ms).toISOString()}>${ago(each.available_at_ms, Date.now())}</td>
              </tr>`,
          )}
        </tbody>
      </table>
    </div>
    ${delayed.truncated && html`<p class="fine">There are more.</p>`}
  </section>`
}

function Cursors({ state: { cursors, stream }, onDo }: { state: GroupState; onDo: (doing: Doing) => void }): VNode {
  return html`<section aria-label="Cursors">
    <header class="bar">
      <h2>Cursors</h2>
      <span class="space"></span
      ><button type="button" onClick=${() => onDo({ kind: 'commit' })}>Commit a cursor</button>
    </header>
    ${
      cursors.length === 0
        ? html`<p class="loading">The group has no cursors.</p>`
        : html`<div class="scroll" tabindex="0" role="group" aria-label="Cursors">
            <table>
              <thead>
                <tr>
                  <th scope="col">Cursor</th>
                  <th scope="col" class="right">Offset</th>
                  <th scope="col" class="right">Behind</th>
                  <th scope="col">Moved</th>
                  <th scope="col"><span class="hidden">Actions</span></th>
                </tr>
              </thead>
              <tbody>
                ${cursors.map(
                  (cursor) =>
                    html`<tr key=${cursor.cursor}>
                      <th scope="row">${cursor.cursor}</th>
                      <td class="right"><${Count} of=${cursor.offset} /></td>
                      <td class="right"><${Count} of=${Math.max(0, stream.next_offset - cursor.offset)} /></td>
                      <td><${When} ms=${cursor.updated_at_ms} /></td>
                      <td class="right">
                        <button
                          type="button"
                          aria-label=${`Rewind ${cursor.cursor}`}
                          onClick=${() => onDo({ kind: 'rewind', cursor })}
                        >
                          Rewind
                        </button>
                        <button
                          type="button"
                          class="danger"
                          aria-label=${`Delete the cursor ${cursor.cursor}`}
                          onClick=${() => onDo({ kind: 'delete-cursor', cursor })}
                        >
                          Delete
                        </button>
                      </td>
                    </tr>`,
                )}
              </tbody>
            </table>
          </div>`
    }
  </section>`
}
