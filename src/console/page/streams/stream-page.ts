/** One stream: its records, its groups, its settings. The address says which of them is shown, and what of it. */
import type { VNode } from 'preact'
import { useLocation, useRoute } from 'preact-iso/router'
import { useState } from 'preact/hooks'
import { Gate } from '../account.ts'
import { html } from '../html.ts'
import { useLoaded } from '../loading.ts'
import { Bytes, Count, Loading, Problem, Tabs, link } from '../parts.ts'
import { describeStream, listGroups } from './api.ts'
import { GroupsTab } from './groups-tab.ts'
import { Publish } from './publish.ts'
import { RecordsTab } from './records-tab.ts'
import { SettingsTab } from './settings-tab.ts'
import { Keeps } from './streams-page.ts'

const REFRESH_MS = 3000

export function StreamPage(): VNode {
  const { params } = useRoute()
  const name = params['stream'] ?? ''
  return html`<${Gate} service="broker"><${Shown} key=${name} name=${name} /><//>`
}

function Shown({ name }: { name: string }): VNode {
  const { query } = useLocation()
  const tab = query['tab'] ?? 'records'
  const [isPublishing, setPublishing] = useState(false)
  const stream = useLoaded((signal) => describeStream(name, signal), [name], REFRESH_MS)
  const groups = useLoaded((signal) => listGroups(name, signal), [name], REFRESH_MS)
  const path = `/streams/${encodeURIComponent(name)}`
  const { value } = stream
  const reload = (): void => {
    stream.reload()
    groups.reload()
  }
  return html`<div class="page">
    <header class="bar">
      <p class="crumbs"><a href="/streams">Streams</a> <span aria-hidden="true">/</span></p>
      <h1>${name}</h1>
      ${
        value &&
        html`<dl class="inline">
          <div>
            <dt>Records</dt>
            <dd><${Count} of=${value.record_count} /></dd>
          </div>
          <div>
            <dt>Payload</dt>
            <dd><${Bytes} of=${value.payload_bytes} /></dd>
          </div>
          <div>
            <dt>Keeps</dt>
            <dd><${Keeps} retention=${value.retention} /></dd>
          </div>
          ${
            value.failure_policy?.dead_letter_stream &&
            html`<div>
              <dt>Dead letters</dt>
              <dd>
                <a href=${`/streams/${encodeURIComponent(value.failure_policy.dead_letter_stream)}`}
                  >${value.failure_policy.dead_letter_stream}</a
                >
              </dd>
            </div>`
          }
        </dl>`
      }
      <span class="space"></span>
      <button type="button" data-key="r" onClick=${reload}>Reload</button>
      ${value && html`<button type="button" class="primary" data-key="n" onClick=${() => setPublishing(true)}>Publish</button>`}
    </header>
    ${stream.problem && html`<${Problem} of=${stream.problem} />`}
    ${
      value &&
      html`<${Tabs}
        label="Parts of the stream"
        current=${tab}
        tabs=${[
          { name: 'records', title: 'Records', href: path },
          {
            name: 'groups',
            title: 'Groups',
            href: link(path, { tab: 'groups' }),
            ...(groups.value && { count: groups.value.length }),
          },
          { name: 'settings', title: 'Settings', href: link(path, { tab: 'settings' }) },
        ]}
      />`
    }
    ${
      value === null
        ? stream.problem === null && html`<${Loading} />`
        : tab === 'groups'
          ? html`<${GroupsTab} stream=${value} groups=${groups} />`
          : tab === 'settings'
            ? html`<${SettingsTab} stream=${value} onChange=${reload} />`
            : html`<${RecordsTab} stream=${value} onPublish=${() => setPublishing(true)} />`
    }
    ${isPublishing && html`<${Publish} stream=${name} onClose=${() => setPublishing(false)} onPublished=${reload} />`}
  </div>`
}
