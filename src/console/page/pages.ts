/**
 * The pages by their addresses. Only the modules of the page that is shown are loaded first, and the server names them with the page
 * (page-files.ts). The others are loaded before a visitor asks for them, as soon as the browser has nothing else to do.
 */
import type { FunctionComponent, VNode } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { html } from './html.ts'
import { Loading, Problem } from './parts.ts'
import { asRefusal } from './request.ts'
import type { Refusal } from './request.ts'

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

/** Shows the page as soon as its modules are loaded. */
function laterPage(load: Load) {
  let page: FunctionComponent | null = null
  const loaded = async (): Promise<void> => {
    page = await load()
  }
  const component = (): VNode => {
    const [problem, setProblem] = useState<Refusal | null>(null)
    const [isThere, renew] = useState(page !== null) // it may come between this and the effect
    useEffect(() => {
      if (isThere) return
      loaded().then(
        () => renew(true),
        (error: unknown) => setProblem(asRefusal(error)),
      )
    }, [])
    if (page !== null) return html`<${page} />`
    return problem === null ? html`<${Loading} />` : html`<${Unloadable} problem=${problem} />`
  }
  return { component, load: loaded }
}

/** The console is away, or another release has taken its place. */
const Unloadable = ({ problem }: { problem: Refusal }): VNode =>
  html`<${Problem} of=${problem} title="This page could not be loaded">
    <button type="button" onClick=${() => location.reload()}>Load it again</button>
  <//>`

export const PAGES = Object.entries(LOADS).map(([path, load]) => ({ path, ...laterPage(load) }))

const IDLE_MS_MAX = 2000

/** A page that cannot be loaded now is loaded when the visitor goes there. */
export function loadOtherPages(): void {
  requestIdleCallback(() => void Promise.allSettled(PAGES.map(({ load }) => load())), { timeout: IDLE_MS_MAX })
}
