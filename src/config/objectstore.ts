/** Settings of the object store. */
import { isLoopback } from '../addresses.ts'
import type { AddressBlock } from '../addresses.ts'
import { MULTIPART_TTL_HOURS, OBJSTORE_PUT_BYTES, OBJSTORE_CACHE_BYTES, OBJSTORE_SEGMENT_BYTES } from './limits.ts'
import { processSettings } from './process.ts'
import {
  SettingProblems,
  bindAddress,
  domain,
  integer,
  oneOf,
  optional,
  path,
  readSettings,
  region,
  someOf,
  unknownSettings,
} from './settings.ts'
import type { BindAddress, Environment, SettingsOf } from './settings.ts'
import { tlsCertSetting, tlsClientCaSetting, tlsKeySetting, tlsOf } from './tls.ts'
import type { TlsFiles } from '../tls-files.ts'

/** Beyond the profile. */
const EXTENSIONS = ['list-v1', 'ignore-acl-headers'] as const

export const objectStoreSettings = {
  OBJSTORE_BIND_ADDRESS: bindAddress({
    default: '127.0.0.1:9000',
    description: 'HTTP listener, host:port; port 0 picks a free one',
  }),
  OBJSTORE_TLS_CERT_FILE: tlsCertSetting,
  OBJSTORE_TLS_KEY_FILE: tlsKeySetting,
  OBJSTORE_TLS_CLIENT_CA_FILE: tlsClientCaSetting,
  OBJSTORE_DATA_DIR: path({
    default: './data/objectstore',
    description: 'Objects and buckets; must be writable',
  }),
  OBJSTORE_BASE_DOMAIN: optional(
    domain({
      description:
        'Trusted base domain of virtual-host addressing: in requests for bucket.<domain>, the host names the bucket; unset: path-style only',
    }),
  ),
  OBJSTORE_AUTH_MODE: oneOf(['local', 'sigv4'], {
    default: 'local',
    description:
      '`local`: the caller is the principal named in x-obj-principal; `sigv4`: requests are signed with access keys',
  }),
  OBJSTORE_CREDENTIALS_FILE: optional(path({ description: 'JSON file of access keys, for `sigv4`' })),
  OBJSTORE_REGION: region({
    default: 'us-east-1',
    description: 'Region that signatures are made for: letters, digits and hyphens',
  }),
  OBJSTORE_EXTENSIONS: someOf(EXTENSIONS, {
    default: '',
    description:
      'Comma-separated, beyond the profile. `list-v1`: ListObjects version 1; `ignore-acl-headers`: ACLs are ignored instead of refused',
  }),
  OBJSTORE_MAX_PUT_BYTES: integer({
    ...OBJSTORE_PUT_BYTES,
    description: 'Largest body of one PUT, and of one part',
  }),
  OBJSTORE_MULTIPART_TTL_HOURS: integer({
    ...MULTIPART_TTL_HOURS,
    description: 'Age at which multipart uploads that were not completed are aborted',
  }),
  OBJSTORE_SEGMENT_BYTES: integer({
    ...OBJSTORE_SEGMENT_BYTES,
    description:
      'A log segment is closed before it exceeds this size. Smaller: less garbage; larger: fewer files. On small disks about a 64th of the disk',
  }),
  OBJSTORE_READ_CACHE_BYTES: optional(
    integer({
      ...OBJSTORE_CACHE_BYTES,
      description:
        'Memory that caches pieces of large objects that were read or written; unset: a 16th of all memory, at most 1 GiB',
    }),
  ),
  OBJSTORE_OBJECT_CACHE_BYTES: optional(
    integer({
      ...OBJSTORE_CACHE_BYTES,
      description:
        'Memory that caches small objects that were read and checked; unset: a 32nd of all memory, at most 256 MiB',
    }),
  ),
}

export interface ObjectStoreConfig {
  readonly http: BindAddress
  /** Null: the listener speaks plain HTTP. */
  readonly tls: TlsFiles | null
  /** Names that `Host` may have where requests need no credentials, besides loopback, the bind address and the base domain. */
  readonly allowedHosts: readonly string[]
  /** Proxies whose forwarded headers are believed. */
  readonly trustedProxies: readonly AddressBlock[]
  readonly dataDirectory: string
  /** null: path-style only */
  readonly baseDomain: string | null
  readonly auth: { readonly mode: 'local' } | { readonly mode: 'sigv4'; readonly credentialsFile: string }
  readonly region: string
  readonly extensions: ReadonlySet<(typeof EXTENSIONS)[number]>
  readonly putBytesMax: number
  readonly multipartTtlHours: number
  readonly segmentBytes: number
  /** Null: what the machine's memory allows. */
  readonly readCacheBytes: number | null
  /** Null: what the memory of the machine allows. */
  readonly objectCacheBytes: number | null
  /** Variables that begin with OBJSTORE_ and are no settings: worth a warning. */
  readonly unknownSettings: readonly string[]
}

export const OBJSTORE_TLS_NAMES = {
  certFile: 'OBJSTORE_TLS_CERT_FILE',
  keyFile: 'OBJSTORE_TLS_KEY_FILE',
  clientCaFile: 'OBJSTORE_TLS_CLIENT_CA_FILE',
} as const

const tableWithProcess = {
  ...objectStoreSettings,
  TRILOG_ALLOW_INSECURE_BIND: processSettings.TRILOG_ALLOW_INSECURE_BIND,
  TRILOG_ALLOWED_HOSTS: processSettings.TRILOG_ALLOWED_HOSTS,
  TRILOG_TRUSTED_PROXIES: processSettings.TRILOG_TRUSTED_PROXIES,
}
type Settings = SettingsOf<typeof tableWithProcess>

/** @throws BadConfiguration that names every bad setting */
export function loadObjectStoreConfig(env: Environment): ObjectStoreConfig {
  const problems = new SettingProblems()
  const settings = readSettings(tableWithProcess, env, problems)
  problems.check(() => checkBind(settings, problems))
  const auth = problems.check(() => authOf(settings, problems))
  const tls = tlsOf(
    {
      certFile: settings.OBJSTORE_TLS_CERT_FILE,
      keyFile: settings.OBJSTORE_TLS_KEY_FILE,
      clientCaFile: settings.OBJSTORE_TLS_CLIENT_CA_FILE,
    },
    OBJSTORE_TLS_NAMES,
    problems,
  )
  problems.throwIfAny()
  return Object.freeze({
    http: settings.OBJSTORE_BIND_ADDRESS,
    tls,
    allowedHosts: settings.TRILOG_ALLOWED_HOSTS,
    trustedProxies: settings.TRILOG_TRUSTED_PROXIES,
    dataDirectory: settings.OBJSTORE_DATA_DIR,
    baseDomain: settings.OBJSTORE_BASE_DOMAIN,
    auth: auth!, // or there was a problem
    region: settings.OBJSTORE_REGION,
    extensions: settings.OBJSTORE_EXTENSIONS,
    putBytesMax: settings.OBJSTORE_MAX_PUT_BYTES,
    multipartTtlHours: settings.OBJSTORE_MULTIPART_TTL_HOURS,
    segmentBytes: settings.OBJSTORE_SEGMENT_BYTES,
    readCacheBytes: settings.OBJSTORE_READ_CACHE_BYTES,
    objectCacheBytes: settings.OBJSTORE_OBJECT_CACHE_BYTES,
    unknownSettings: unknownSettings(objectStoreSettings, 'OBJSTORE_', env),
  })
}

/** In `local` mode callers name themselves, so only this machine may be able to reach the listener. */
function checkBind(settings: Settings, problems: SettingProblems): void {
  if (settings.OBJSTORE_AUTH_MODE !== 'local' || settings.TRILOG_ALLOW_INSECURE_BIND) return
  if (isLoopback(settings.OBJSTORE_BIND_ADDRESS.host)) return
  problems.add(
    'OBJSTORE_BIND_ADDRESS',
    'must be a loopback address while requests need no credentials: set OBJSTORE_AUTH_MODE=sigv4, or TRILOG_ALLOW_INSECURE_BIND=1',
  )
}

function authOf(settings: Settings, problems: SettingProblems): ObjectStoreConfig['auth'] {
  const credentialsFile = settings.OBJSTORE_CREDENTIALS_FILE
  if (settings.OBJSTORE_AUTH_MODE === 'sigv4' && credentialsFile !== null) {
    return Object.freeze({ mode: 'sigv4', credentialsFile })
  }
  if (settings.OBJSTORE_AUTH_MODE === 'sigv4') {
    problems.add('OBJSTORE_CREDENTIALS_FILE', 'must name a file of access keys, as OBJSTORE_AUTH_MODE is sigv4')
  } else if (credentialsFile !== null) {
    problems.add('OBJSTORE_CREDENTIALS_FILE', 'has no meaning unless OBJSTORE_AUTH_MODE is sigv4')
  }
  return Object.freeze({ mode: 'local' })
}
