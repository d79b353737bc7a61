/** Signing in to a service, and out of it. */
import type { ComponentChildren, VNode } from 'preact'
import { html } from './html.ts'
import { useAction } from './loading.ts'
import { Empty, Field, Form } from './parts.ts'
import type { FormValues } from './parts.ts'
import { Refusal, askJson } from './request.ts'
import { SERVICES, TITLES, session, useCredentials } from './session.ts'
import type { Credentials, ServiceName } from './session.ts'
import { s3 } from './objects/s3.ts'

/** The names under which the visitor is signed in. */
export const Account = (): VNode =>
  html`<ul class="account" aria-label="Signed in">
    ${SERVICES.map((service) => html`<${Membership} key=${service} service=${service} />`)}
  </ul>`

function Membership({ service }: { service: ServiceName }): VNode | null {
  const credentials = useCredentials(service)
  if (!session.isSignedIn(service) || credentials === null) return null
  return html`<li>
    <span title=${TITLES[service]}>${nameOf(credentials)}</span>
    <button
      type="button"
      class="quiet"
      onClick=${() => session.signOut(service)}
      aria-label=${`Sign out of the ${TITLES[service].toLowerCase()}`}
    >
      Sign out
    </button>
  </li>`
}

function nameOf(credentials: Credentials): string {
  if (credentials.kind === 'tenant') return credentials.tenant
  if (credentials.kind === 'access-key') return credentials.id
  return credentials.kind === 'api-key' ? 'API key' : 'no credentials'
}

interface GateProps {
  readonly service: ServiceName
  readonly children?: ComponentChildren
}

/** Shows its children only to visitors who have signed in to the service. */
export function Gate({ service, children }: GateProps): VNode {
  const credentials = useCredentials(service)
  const place = session.about.services[service]
  if (place === null) {
    return html`<${Empty}
      isPage
      title=${`This console has no ${TITLES[service].toLowerCase()}`}
      command=${`npm start -- --services ${service}`}
    >
      It does not run in this process, and TRILOG_CONSOLE_${service.toUpperCase()}_URL names no other one.
    <//>`
  }
  if (place.access === 'elsewhere') {
    return html`<${Empty} isPage title=${`The ${TITLES[service].toLowerCase()} cannot be used from here`}>
      It asks for client certificates, or a proxy authenticates its callers. The console supports neither.
    <//>`
  }
  return credentials === null ? html`<${SignIn} service=${service} />` : html`<div class="gate">${children}</div>`
}

const FIRST_REGION = 'us-east-1'

export function SignIn({ service }: { service: ServiceName }): VNode {
  const action = useAction()
  const { access = 'unknown', region = null, url = '' } = session.about.services[service] ?? {}
  const submit = async (values: FormValues): Promise<void> => {
    const credentials = credentialsFrom(service, values)
    try {
      await tryOut(service, credentials)
    } catch (error) {
      // A service that refuses for another reason than the credentials has accepted them.
      if (!(error instanceof Refusal) || error.isOfCredentials || error.isAway) throw error
    }
    session.signIn(service, credentials)
  }
  return html`<section class="sign-in">
    <h1>Sign in to the ${TITLES[service].toLowerCase()}</h1>
    <p class="fine">What you type stays in this tab, and goes to <code>${url}</code> only.</p>
    ${
      service === 'objectstore' &&
      !isSecureContext &&
      html`<p class="notice warn">
        Browsers sign requests only for pages of localhost or over TLS: open the console under localhost, or behind a
        proxy that speaks TLS.
      </p>`
    }
    <${Form} action=${action} submit="Sign in" onSubmit=${submit}>
      ${
        service === 'logstore' &&
        html`<${Field} label="Tenant" name="tenant" required autofocus />
          <${Field} label="Token" name="token" type="password" required />`
      }
      ${
        service === 'objectstore' &&
        html`<${Field} label="Access key id" name="id" required autofocus />
          <${Field}
            label="Secret access key"
            name="secret"
            type="password"
            required
            hint="It never leaves this page: requests are signed here."
          />
          ${region === null && html`<${Field} label="Region" name="region" value=${FIRST_REGION} required />`}`
      }
      ${service === 'broker' && html`<${Field} label="API key" name="key" type="password" required autofocus />`}
    <//>
    ${
      access === 'unknown' &&
      html`<button type="button" onClick=${() => session.signIn(service, { kind: 'none' })}>
        Go on without credentials
      </button>`
    }
  </section>`
}

function credentialsFrom(service: ServiceName, values: FormValues): Credentials {
  const text = (name: string): string => (values[name] ?? '').trim()
  if (service === 'logstore') return { kind: 'tenant', tenant: text('tenant'), token: text('token') }
  if (service === 'broker') return { kind: 'api-key', key: text('key') }
  const region = session.about.services.objectstore?.region ?? (text('region') || FIRST_REGION)
  return { kind: 'access-key', id: text('id'), secret: text('secret'), region }
}

/** The cheapest request that needs credentials. @throws Refusal */
async function tryOut(service: ServiceName, credentials: Credentials): Promise<void> {
  if (service === 'objectstore') await s3({ method: 'GET', credentials })
  else if (service === 'broker') await askJson('broker', '/v1/streams/system.audit', { credentials })
  else
    await askJson('logstore', '/v1/query', {
      method: 'POST',
      body: { dataset: 'console', page: { limit: 1 } },
      credentials,
    })
}
