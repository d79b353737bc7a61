/** Where the console finds each service, and the credentials that a service asks of a visitor. */
import { canonicalAddress } from '../addresses.ts'
import type { Config } from '../config/config.ts'
import type { CONSOLE_SERVICES } from './console.ts'
import type { Access, ConsoleDependencies, ServicePlace } from './console.ts'

/** A service of this process, as it announced itself. */
interface RunningService {
  readonly http: string
  readonly isSecure: boolean
}

export type RunningServices = Partial<Record<(typeof CONSOLE_SERVICES)[number], RunningService>>

/** What each service reads besides the headers that all have in common. */
const HEADERS = {
  logstore: ['content-encoding', 'last-event-id', 'x-logstore-'],
  objectstore: [
    'cache-control',
    'content-disposition',
    'content-encoding',
    'content-language',
    'content-md5',
    'expires',
    'if-match',
    'if-modified-since',
    'if-none-match',
    'if-range',
    'if-unmodified-since',
    'range',
    'x-amz-',
    'x-obj-',
  ],
  broker: [],
} as const

export function placesOf(
  { services, console }: Pick<Config, 'services' | 'console'>,
  running: RunningServices,
): ConsoleDependencies['services'] {
  const access = accessOf(services)
  const region = services.objectstore?.auth.mode === 'sigv4' ? services.objectstore.region : null
  const place = (name: (typeof CONSOLE_SERVICES)[number]): ServicePlace | null => {
    const url = console?.urls[name] ?? null
    const headers = HEADERS[name]
    if (url !== null) return { target: { url, isLocal: false, headers }, access: 'unknown', region: null }
    const local = running[name]
    if (local === undefined) return null
    const scheme = local.isSecure ? 'https' : 'http'
    return {
      target: { url: `${scheme}://${reachable(local.http)}`, isLocal: true, headers },
      access: access[name],
      region: name === 'objectstore' ? region : null,
    }
  }
  return { logstore: place('logstore'), objectstore: place('objectstore'), broker: place('broker') }
}

function accessOf({
  logstore,
  objectstore,
  broker,
}: Config['services']): Readonly<Record<keyof typeof HEADERS, Access>> {
  const ofBroker = { 'insecure-local': 'none', 'api-key': 'api-key', mtls: 'elsewhere', external: 'elsewhere' } as const
  return {
    logstore: isOfCertificates(logstore)
      ? 'elsewhere'
      : logstore?.tenantPolicyFile === null
        ? 'development'
        : 'tenant-token',
    objectstore: isOfCertificates(objectstore)
      ? 'elsewhere'
      : objectstore?.auth.mode === 'sigv4'
        ? 'access-key'
        : 'none',
    broker: isOfCertificates(broker) ? 'elsewhere' : ofBroker[broker?.auth.mode ?? 'insecure-local'],
  }
}

const isOfCertificates = (service: { readonly tls: { readonly clientCaFile: string | null } | null } | null): boolean =>
  (service?.tls?.clientCaFile ?? null) !== null

/** A service that listens on all addresses is reached by loopback. */
function reachable(http: string): string {
  const { hostname, port } = new URL(`http://${http}`)
  const address = canonicalAddress(hostname.replace(/^\[(.*)\]$/, '$1'))
  if (address === '0.0.0.0') return `127.0.0.1:${port}`
  return address === '::' ? `[::1]:${port}` : http
}
