/** The frame of all pages: navigation, the account, and the keys that help. */
import type { VNode } from 'preact'
import { LocationProvider, Route, Router, useLocation } from 'preact-iso/router'
import { useEffect, useRef, useState } from 'preact/hooks'
import { Account } from './account.ts'
import { Boundary } from './boundary.ts'
import { Help, useShortcuts } from './help.ts'
import { html } from './html.ts'
import { PAGES } from './pages.ts'
import { Empty } from './parts.ts'
import { session } from './session.ts'
import type { ServiceName } from './session.ts'

interface Destination {
  readonly href: string
  readonly title: string
  /** The service that the pages show; null: all of them. */
  readonly service: ServiceName | null
  /** The key that follows `g`. */
  readonly key: string
  /** Other beginnings of addresses that belong to it. */
  readonly also?: string
}

/** In their order. */
const DESTINATIONS: readonly Destination[] = [
  { href: '/', title: 'Overview', service: null, key: 'o' },
  { href: '/logs', title: 'Logs', service: 'logstore', key: 'l', also: '/traces' },
  { href: '/objects', title: 'Objects', service: 'objectstore', key: 'b' },
  { href: '/streams', title: 'Streams', service: 'broker', key: 's', also: '/audit' },
]

export const App = (): VNode => html`<${LocationProvider}><${Frame} /><//>`

function Frame(): VNode {
  const [isHelpShown, showHelp] = useState(false)
  const { path, url, route } = useLocation()
  const main = useRef<HTMLElement>(null)
  const here = DESTINATIONS.filter(({ service }) => service === null || session.about.services[service] !== null)
  useShortcuts(here, route, () => showHelp(true))
  useEffect(() => {
    const { title } = here.find((each) => isAt(path, each)) ?? { title: 'Not found' }
    document.title = `${title} · trilog`
  }, [path])

  return html`<div class="frame">
    <a class="skip" href="#main" onClick=${() => main.current?.focus()}>Skip to the page</a>
    <header class="top">
      <a class="logo" href="/" aria-label="trilog, overview"><span class="mark" aria-hidden="true"></span>trilog</a>
      <nav aria-label="Pages">
        ${here.map(
          (each) =>
            html`<a key=${each.href} href=${each.href} aria-current=${isAt(path, each) ? 'page' : undefined}
              >${each.title}</a
            >`,
        )}
      </nav>
      <span class="space"></span>
      <button
        type="button"
        class="quiet"
        aria-label="Keyboard shortcuts"
        title="Keyboard shortcuts (?)"
        onClick=${() => showHelp(true)}
      >
        ?
      </button>
      <${Account} />
    </header>
    <main id="main" tabindex="-1" ref=${main}>
      <${Boundary} url=${url}>
        <${Router}>
          ${PAGES.map(({ path, component }) => html`<${Route} key=${path} path=${path} component=${component} />`)}
          <${Route} default component=${NotFound} />
        <//>
      <//>
    </main>
    ${isHelpShown && html`<${Help} destinations=${here} onClose=${() => showHelp(false)} />`}
  </div>`
}

const isAt = (path: string, { href, also }: Destination): boolean =>
  [href, also].some((each) => path === each || (each !== undefined && each !== '/' && path.startsWith(`${each}/`)))

const NotFound = (): VNode =>
  html`<${Empty} isPage title="There is no such page">The address may be of another version.<//>`
