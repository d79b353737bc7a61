/**
 * The pages by their addresses. Only the modules of the page that is shown are loaded first, and the server names them with the page
 * (page-files.ts). The others are loaded before anybody asks for them, as soon as the browser has nothing else to do.
 */
import type { FunctionComponent, VNode } from 'preact'
import lazy from 'preact-iso/lazy'
import { html } from './html.ts'
import { Problem } from './parts.ts'
import { asRefusal } from './request.ts'

type Load = () => Promise<FunctionComponent>

const LOADS: Readonly<Record<string, Load>> = {
  '/': () => import('./overview/overview-page.ts').then(({ OverviewPage }) => OverviewPage),
  '/logs': () => import('./logs/logs-page.ts').then(({ LogsPage }) => LogsPage),
  '/traces/:trace': () => import('./logs/trace-page.ts').then(({ TracePage }) => TracePage),
  '/streams': () => import('./streams/streams-page.ts').then(({ StreamsPage }) => StreamsPage),
  '/streams/:stream': () => import('./streams/stream-page.ts').then(({ StreamPage }) => StreamPage),
  '/streams/:stream/groups/:group': () => import('./streams/group-page.ts').then(({ GroupPage }) => GroupPage),
  '/audit': () => import('./streams/audit-page.ts').then(({ AuditPage }) => AuditPage),
  '/objects': () => import('./objects/buckets-page.ts').then(({ BucketsPage }) => BucketsPage),
  '/objects/:bucket': () => import('./objects/bucket-page.ts').then(({ BucketPage }) => BucketPage),
}

export const PAGES = Object.entries(LOADS).map(([path, load]) => ({
  path,
  component: lazy(() => load().catch((error: unknown) => () => unloadable(error))),
}))

/** The console is away, or another release has taken its place. */
const unloadable = (error: unknown): VNode =>
  html`<${Problem} of=${asRefusal(error)} title="This page could not be loaded">
    <button type="button" onClick=${() => location.reload()}>Load it again</button>
  <//>`

const IDLE_MS_MAX = 2000

/** What cannot be loaded now is tried once more when somebody asks for it. */
export function loadOtherPages(): void {
  requestIdleCallback(() => void Promise.allSettled(Object.values(LOADS).map((load) => load())), {
    timeout: IDLE_MS_MAX,
  })
}
