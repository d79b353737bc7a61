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

try {
  session.about = (await (await send('/console.json')).json()) as About // as the console answers
  startHistory()
  render(html`<${App} />`, root)
  loadOtherPages()
} catch (error) {
  render(html`<main class="lone"><${Problem} of=${asRefusal(error)} title="The page cannot start" /></main>`, root)
}
