/** One bucket: its objects by folder, its open uploads, or its settings. */
import type { FunctionComponent, VNode } from 'preact'
import { useLocation, useRoute } from 'preact-iso/router'
import { Gate } from '../account.ts'
import { html } from '../html.ts'
import { Tabs, link } from '../parts.ts'
import { Browser } from './browser.ts'
import { BucketSettings } from './bucket-settings.ts'
import { OpenUploads } from './open-uploads.ts'

const TABS: ReadonlyMap<string, FunctionComponent<{ bucket: string }>> = new Map([
  ['objects', Browser],
  ['uploads', OpenUploads],
  ['settings', BucketSettings],
])

export function BucketPage(): VNode {
  const { params } = useRoute()
  const { query } = useLocation()
  const bucket = params['bucket'] ?? ''
  const path = `/objects/${encodeURIComponent(bucket)}`
  const tab = query['tab'] ?? 'objects'
  return html`<${Gate} service="objectstore">
    <div class="page">
      <header class="bar">
        <p class="crumbs"><a href="/objects">Buckets</a> <span aria-hidden="true">/</span></p>
        <h1>${bucket}</h1>
      </header>
      <${Tabs}
        label="Parts of the bucket"
        current=${tab}
        tabs=${[
          { name: 'objects', title: 'Objects', href: path },
          { name: 'uploads', title: 'Open uploads', href: link(path, { tab: 'uploads' }) },
          { name: 'settings', title: 'Policy and CORS', href: link(path, { tab: 'settings' }) },
        ]}
      />
      <${TABS.get(tab) ?? Browser} key=${bucket} bucket=${bucket} />
    </div>
  <//>`
}
