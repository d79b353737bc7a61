/** The settings of a client over HTTP besides those of every client, and their checks. No message repeats a value: it may be a credential. */
import { isObject } from '../../plain-objects.ts'
import { invalidConfig } from '../sdk-error.ts'
import type { ClientSettings } from '../client-config.ts'
import type { HttpTransport } from './transport.ts'

export interface HttpClientSettings extends ClientSettings {
  /** Sent as `Authorization: Bearer …`. */
  readonly apiKey?: string | null
  /** How long an answer may take, without the time that the broker was asked to wait; default 30 s. */
  readonly requestTimeoutMs?: number
  /** Connections for calls that are answered at once; default 16, in a browser 3. */
  readonly maxConnections?: number
  /** Further connections, for claims and replays that wait for a record; default 64, in a browser 3. */
  readonly maxWaitingConnections?: number
  /** Calls that wait for a connection; more are refused. Default 10 000. */
  readonly maxQueuedCalls?: number
  /**
   * Publishes, claims of subscriptions and calls that settle deliveries go over one WebSocket, many at a time. `leases` says what happens
   * to unsettled deliveries when it is lost: with `keep` (the default) they are settled over the next one, with `release` the broker gives
   * them to another consumer at once. Default: false.
   */
  readonly streaming?: boolean | { readonly leases?: 'keep' | 'release' }
  /** Carries the requests; it may add credentials. */
  readonly transport?: HttpTransport
}

export interface Limits {
  readonly maxConnections: number
  readonly maxWaitingConnections: number
}

export interface HttpConfig extends Required<
  Omit<HttpClientSettings, keyof ClientSettings | 'transport' | 'streaming'>
> {
  readonly origins: readonly string[]
  readonly apiKey: string | null
  /** Null: there is no streaming connection. */
  readonly streaming: { readonly leases: 'keep' | 'release' } | null
  /** Sent with every request. */
  readonly headers: Readonly<Record<string, string>>
}

const ADDRESSES_MAX = 100
const MS_MAX = 2 ** 31 - 1
/** As the broker takes it. */
const API_KEY = /^[\x21-\x7e]{1,512}$/

/**
 * @param addresses base URLs; one, or several of the same broker. With `tls` https is taken, too
 * @throws SdkError InvalidConfig
 */
export function httpConfigOf(
  addresses: string | readonly string[],
  settings: HttpClientSettings & { readonly tls?: unknown },
  defaults: Limits,
): HttpConfig {
  if (!isObject(settings)) throw invalidConfig('the settings of a client must be an object')
  const { apiKey = null, requestTimeoutMs = 30_000, maxQueuedCalls = 10_000, tls } = settings
  const transport = settings.transport ?? null
  if (transport !== null && typeof transport.send !== 'function') {
    throw invalidConfig('transport must be an object with the method send')
  }
  if (tls !== undefined && !isObject(tls)) throw invalidConfig('tls must be an object')
  if (apiKey !== null && (typeof apiKey !== 'string' || !API_KEY.test(apiKey))) {
    throw invalidConfig('apiKey must have 1 to 512 visible ASCII characters')
  }
  const { maxConnections = defaults.maxConnections, maxWaitingConnections = defaults.maxWaitingConnections } = settings
  checkCount('requestTimeoutMs', requestTimeoutMs, MS_MAX)
  checkCount('maxConnections', maxConnections)
  checkCount('maxWaitingConnections', maxWaitingConnections)
  checkCount('maxQueuedCalls', maxQueuedCalls)
  return {
    origins: originsOf(addresses, tls !== undefined),
    apiKey,
    streaming: streamingOf(settings.streaming ?? false),
    headers: { accept: 'application/json', ...(apiKey !== null && { authorization: `Bearer ${apiKey}` }) },
    requestTimeoutMs,
    maxConnections,
    maxWaitingConnections,
    maxQueuedCalls,
  }
}

function streamingOf(streaming: unknown): HttpConfig['streaming'] {
  if (streaming === false) return null
  if (streaming === true) return { leases: 'keep' }
  const leases = isObject(streaming) ? (streaming['leases'] ?? 'keep') : null
  if (leases === 'keep' || leases === 'release') return { leases }
  throw invalidConfig('streaming must be true, false, or { leases } with keep or release')
}

function originsOf(addresses: string | readonly string[], isTls: boolean): readonly string[] {
  const list: readonly unknown[] = Array.isArray(addresses) ? addresses : [addresses]
  if (list.length === 0 || list.length > ADDRESSES_MAX) {
    throw invalidConfig(`a client needs 1 to ${ADDRESSES_MAX} addresses`)
  }
  return [...new Set(list.map((address) => originOf(address, isTls)))]
}

const BASE_URL = /^(https?):\/\/[^\s/?#@\\]+\/?$/i

function originOf(address: unknown, isTls: boolean): string {
  const scheme = typeof address === 'string' ? BASE_URL.exec(address)?.[1]?.toLowerCase() : undefined
  if (scheme === 'https' && !isTls) {
    throw invalidConfig('an address must be http://host[:port]; https needs the setting tls')
  }
  if (scheme === undefined || !URL.canParse(String(address))) {
    throw invalidConfig('an address must be http://host[:port], without a path, a query or credentials')
  }
  return new URL(String(address)).origin
}

function checkCount(name: string, value: number, max = 1_000_000): void {
  if (!Number.isSafeInteger(value) || value < 1 || value > max) {
    throw invalidConfig(`${name} must be an integer from 1 to ${max}`)
  }
}
