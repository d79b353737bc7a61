/** Where the page begins. */
import { render } from 'preact'
import { App } from './app.ts'
import { html } from './html.ts'
import { startHistory } from './overview/history.ts'
import { loadOtherPages } from './pages.ts'
import { asRefusal, send } from './request.ts'
import { session } from './session.ts'
import type { About } from './session.ts'
import { Problem } from './parts.ts'

const root = document.querySelector('#page')!

/** A visitor may have typed an address that the router cannot read: with a `%` that begins no escape, or with two slashes before it. */
function mendAddress(): void {
  const { pathname, search } = location
  const segments = pathname.replace(/^\/+/, '/').split('/')
  const mended = segments.map((each) => (isEncoded(each) ? each : each.replaceAll('%', '%25'))).join('/')
  if (mended !== pathname) history.replaceState(null, '', `${mended}${search}`)
}

function isEncoded(segment: string): boolean {
  try {
    decodeURIComponent(segment)
    return true
  } catch {
    return false
  }
}

try {
  session.about = (await (await send('/console.json')).json()) as About // as the console answers
  startHistory()
  mendAddress()
  render(html`<${App} />`, root)
  loadOtherPages()
} catch (error) {
  render(html`<main class="lone"><${Problem} of=${asRefusal(error)} title="The page cannot start" /></main>`, root)
}
