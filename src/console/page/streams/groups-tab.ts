/** The consumer groups of a stream: how far behind each is, and since when. */
import type { VNode } from 'preact'
import { curlCommand } from '../commands.ts'
import { html } from '../html.ts'
import type { Loaded } from '../loading.ts'
import { Count, Empty, Loading, Problem, Waiting } from '../parts.ts'
import { groupPath } from './api.ts'
import type { Group, Stream } from './api.ts'

interface TabProps {
  readonly stream: Stream
  readonly groups: Loaded<readonly Group[]>
}

export function GroupsTab({ stream: { stream }, groups: { value, problem } }: TabProps): VNode {
  if (value === null) return problem ? html`<${Problem} of=${problem} />` : html`<${Loading} />`
  if (value.length === 0) {
    return html`<${Empty}
      title="No consumer group yet"
      command=${curlCommand('broker', `${groupPath(stream, 'workers')}/claims`, { json: { lease_timeout_millis: 30_000 } })}
      >A group comes into being with its first claim, cursor or named replay.<//
    >`
  }
  return html`<div class="scroll" tabindex="0" role="group" aria-label="Consumer groups">
    ${problem && html`<${Problem} of=${problem} />`}
    <table>
      <thead>
        <tr>
          <th scope="col">Group</th>
          <th scope="col" class="right">Lag</th>
          <th scope="col" class="right">In flight</th>
          <th scope="col" class="right">Delayed</th>
          <th scope="col" class="right">First unfinished</th>
          <th scope="col" class="right">Oldest waits</th>
          <th scope="col" class="right">Cursors</th>
        </tr>
      </thead>
      <tbody>
        ${value.map(
          (each) =>
            html`<tr key=${each.consumer_group}>
              <th scope="row"><a href=${groupLink(stream, each.consumer_group)}>${each.consumer_group}</a></th>
              <td class="right"><${Count} of=${each.lag_messages} /></td>
              <td class="right"><${Count} of=${each.in_flight_count} /></td>
              <td class="right"><${Count} of=${each.delayed_count} /></td>
              <td class="right"><${Count} of=${each.progress_offset} /></td>
              <td class="right"><${Waiting} ms=${each.oldest_unfinished_age_millis} /></td>
              <td class="right"><${Count} of=${each.cursor_count} /></td>
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`
}

const groupLink = (stream: string, group: string): string =>
  `/streams/${encodeURIComponent(stream)}/groups/${encodeURIComponent(group)}`
