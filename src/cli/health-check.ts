/**
 * `trilog health`: asks the services that these settings start, on this machine, whether they are ready. A container's health check runs it.
 *
 * Nothing secret is sent, so the certificate of a listener is not checked. A listener that shows nothing without a client's certificate counts
 * as ready, since it answers.
 */
import { request as httpRequest } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { text } from 'node:stream/consumers'
import { canonicalAddress } from '../addresses.ts'
import type { Config } from '../config/config.ts'
import { messageOf } from '../errors.ts'
import { columns } from './columns.ts'
import { EXIT_REFUSED } from './failure.ts'
import type { Style } from './style.ts'
import type { Output } from './trilog-command.ts'

const ANSWER_MS_MAX = 3000
const ASKS_FOR_A_CERTIFICATE = new Set([401, 403])

export interface ServiceHealth {
  readonly service: string
  readonly isReady: boolean
  /** The status in the answer of `/readyz`, or why there is none. */
  readonly status: string
}

/** @returns one entry for each service that the settings choose */
export function healthOf({ services }: Pick<Config, 'services'>): Promise<readonly ServiceHealth[]> {
  const chosen = Object.entries(services).filter(([, settings]) => settings !== null)
  return Promise.all(chosen.map(([service, settings]) => healthOfOne(service, settings!)))
}

export function outputOfHealth(found: readonly ServiceHealth[], json: boolean, style: Style): Output {
  const ready = found.every(({ isReady }) => isReady)
  const shown = json
    ? JSON.stringify({
        ready,
        services: found.map(({ service, isReady, status }) => ({ service, ready: isReady, status })),
      })
    : columns(found.map((each) => [each.service, statusShown(each, style)])).join('\n')
  return { text: shown, exitCode: ready ? 0 : EXIT_REFUSED }
}

const statusShown = ({ isReady, status }: ServiceHealth, style: Style): string =>
  isReady ? (status === 'degraded' ? style.warning(status) : style.good(status)) : style.bad(status)

type ListenerSettings = Pick<NonNullable<Config['services']['broker']>, 'http' | 'tls'>

async function healthOfOne(service: string, { http, tls }: ListenerSettings): Promise<ServiceHealth> {
  if (http.port === 0)
    return {
      service,
      isReady: false,
      status: 'unknown: with port 0 the settings do not say which port the service listens on',
    }
  const asked = {
    host: reachable(http.host),
    port: http.port,
    path: '/readyz',
    timeout: ANSWER_MS_MAX,
    agent: false as const,
  }
  try {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const request =
        tls === null ? httpRequest(asked, resolve) : httpsRequest({ ...asked, rejectUnauthorized: false }, resolve)
      request.on('error', reject)
      request.on('timeout', () => request.destroy(new Error(`no answer within ${ANSWER_MS_MAX / 1000} s`)))
      request.end()
    })
    const body = await text(response)
    const { statusCode = 0 } = response
    if (ASKS_FOR_A_CERTIFICATE.has(statusCode)) return { service, isReady: true, status: 'answers' }
    const status = statusIn(body)
    if (status === null)
      return { service, isReady: false, status: `answered ${statusCode}, and is no service of trilog` }
    return { service, isReady: statusCode === 200, status }
  } catch (error) {
    return { service, isReady: false, status: `unreachable: ${messageOf(error)}` }
  }
}

/** A service that listens on all addresses is reached by loopback. */
function reachable(host: string): string {
  const address = canonicalAddress(host)
  if (address === '0.0.0.0') return '127.0.0.1'
  return address === '::' ? '::1' : host
}

/** Null: the body is not that of `/readyz`. */
function statusIn(body: string): string | null {
  try {
    const { status } = JSON.parse(body) as { readonly status?: unknown }
    return typeof status === 'string' ? status : null
  } catch {
    return null
  }
}
