/** All services at a glance. What is wrong stands on top, and says what to do. */
import type { VNode } from 'preact'
import { html } from '../html.ts'
import { Empty, When } from '../parts.ts'
import { SERVICES, TITLES, session, useCredentials } from '../session.ts'
import type { ServiceName } from '../session.ts'
import { useKnown } from './history.ts'
import type { Known } from './history.ts'
import { ServiceCard } from './service-card.ts'

export function OverviewPage(): VNode {
  const here = SERVICES.filter((service) => session.about.services[service] !== null)
  if (here.length === 0) {
    return html`<${Empty} isPage title="This console has no service to show" command="npm start"
      >Start one beside it, or name the address of one in TRILOG_CONSOLE_BROKER_URL.<//
    >`
  }
  return html`<div class="overview">
    <h1 class="hidden">Overview</h1>
    ${here.map((service) => html`<${Wrong} key=${service} service=${service} />`)}
    <div class="cards">${here.map((service) => html`<${ServiceCard} key=${service} service=${service} />`)}</div>
  </div>`
}

/** What is wrong with a service, and what to do about it. */
function Wrong({ service }: { service: ServiceName }): VNode | null {
  const known = useKnown(service)
  const isSignedIn = useCredentials(service) !== null
  const found = isSignedIn ? wrongOf(known) : []
  if (found.length === 0) return null
  return html`<ul class="wrong" aria-label=${`What is wrong with the ${TITLES[service].toLowerCase()}`}>
    ${found.map(
      ({ isBad, text, action, since }) =>
        html`<li key=${text} class=${isBad ? 'notice bad' : 'notice warn'}>
          <p>
            <strong>${TITLES[service]}</strong>
            ${text}${since !== undefined && html` <span class="fine">since <${When} ms=${Date.parse(since)} /></span>`}
          </p>
          ${action && html`<p>${action}</p>`}
        </li>`,
    )}
  </ul>`
}

interface Found {
  readonly isBad: boolean
  readonly text: string
  readonly action?: string | undefined
  readonly since?: string | undefined
}

function wrongOf({ problem, readiness }: Known): readonly Found[] {
  if (problem !== null)
    return [{ isBad: true, text: `does not report its health: ${problem.message}`, action: problem.action }]
  const isBad = readiness?.status === 'unavailable'
  return (readiness?.reasons ?? []).map(({ reason, action, since }) => ({ isBad, text: reason, action, since }))
}
