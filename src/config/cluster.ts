/**
 * Settings of the cluster: several processes that keep the same logs, by way of NATS JetStream.
 *
 * C1  without TRILOG_CLUSTER_SERVERS there is no cluster, and no other setting of it may be given, as it would have no effect
 * C2  no message repeats a secret
 */
import { isLoopback } from '../addresses.ts'
import { StoreError } from '../errors.ts'
import type { TlsFiles } from '../tls-files.ts'
import { Authorities } from './authorities.ts'
import {
  CLUSTER_COPY_RATE,
  CLUSTER_KEEP_BYTES,
  CLUSTER_KEEP_HOURS_MAX,
  CLUSTER_LEASE_MS,
  CLUSTER_REPLICAS_MAX,
  CLUSTER_SECRET_CHARACTERS_MIN,
} from './limits.ts'
import { processSettings } from './process.ts'
import { readSettingFile } from './setting-file.ts'
import {
  SettingProblems,
  bindAddress,
  entriesOf,
  flag,
  serviceUrl,
  integer,
  isGiven,
  oneOf,
  optional,
  path,
  readAs,
  readSettings,
  secret,
  text,
  unknownSettings,
} from './settings.ts'
import type { BindAddress, Environment, SettingsOf } from './settings.ts'
import { tlsOf } from './tls.ts'

const urlOf = (service: string) =>
  optional(
    serviceUrl({
      description: `Where clients reach the ${service} of this node, as in \`http://10.0.0.1:9000\`: other nodes send clients there while this node leads`,
    }),
  )

const name = (description: string) =>
  optional(readAs({ description }, 'must be 1 to 64 letters, digits, hyphens and underscores', nameOf))

export const clusterSettings = {
  TRILOG_CLUSTER_SERVERS: optional(
    readAs(
      { description: 'Comma-separated addresses of NATS servers, `host:port` or `tls://host:port`; unset: no cluster' },
      'must be a comma-separated list of host:port, nats://host:port or tls://host:port, without credentials',
      serversOf,
    ),
  ),
  TRILOG_CLUSTER_NAME: name('Name of the cluster, the same on all its nodes: letters, digits, hyphens and underscores'),
  TRILOG_NODE_ID: name('Name of this node, different on each node: letters, digits, hyphens and underscores'),
  TRILOG_CLUSTER_CREDENTIALS_FILE: optional(
    path({ description: 'Credentials file for the NATS servers, as `nsc` writes it' }),
  ),
  TRILOG_CLUSTER_USER: optional(text({ description: 'User for the NATS servers, with TRILOG_CLUSTER_PASSWORD' })),
  TRILOG_CLUSTER_PASSWORD: secret(optional(text({ description: 'Password of TRILOG_CLUSTER_USER' }))),
  TRILOG_CLUSTER_TOKEN: secret(optional(text({ description: 'Token for the NATS servers, instead of a user' }))),
  TRILOG_CLUSTER_TLS: flag({
    default: '0',
    description: '1: speak TLS with the NATS servers; an address that begins with tls:// has the same effect',
  }),
  TRILOG_CLUSTER_CA_FILE: optional(
    path({
      description:
        'Authorities in PEM that certificates of NATS servers and of other nodes are checked against; unset: the authorities built into Node. SIGHUP reads it again',
    }),
  ),
  TRILOG_CLUSTER_REPLICAS: integer({
    default: 3,
    min: 1,
    max: CLUSTER_REPLICAS_MAX,
    description:
      'NATS servers that keep each message: 3 or 5; 1 for a trial, where the loss of a server may lose messages',
  }),
  TRILOG_CLUSTER_ACK: oneOf(['cluster', 'cluster-only'], {
    default: 'cluster',
    description:
      'What an answer waits for. `cluster`: the acknowledgement of the stream and the sync on this machine; `cluster-only`: the acknowledgement alone',
  }),
  TRILOG_CLUSTER_KEEP_BYTES: integer({
    ...CLUSTER_KEEP_BYTES,
    description:
      'Bytes that the stream of each service keeps; a node that missed more than these copies files from another node',
  }),
  TRILOG_CLUSTER_KEEP_HOURS: optional(
    integer({
      min: 1,
      max: CLUSTER_KEEP_HOURS_MAX,
      description:
        'Messages that are older are removed from the stream, too; unset: TRILOG_CLUSTER_KEEP_BYTES alone limits it',
    }),
  ),
  TRILOG_CLUSTER_LEASE_MS: integer({
    ...CLUSTER_LEASE_MS,
    description:
      'How long a leader may answer without the stream. Other nodes lead after 1.5 times as long at the earliest. The same on all nodes',
  }),
  TRILOG_CLUSTER_BIND: bindAddress({
    default: '127.0.0.1:7490',
    description: 'Listener for other nodes and for `trilog cluster`, host:port; port 0 picks a free one',
  }),
  TRILOG_CLUSTER_SECRET: secret(
    optional(
      readAs(
        {
          description: `Secret by which nodes recognise each other: at least ${CLUSTER_SECRET_CHARACTERS_MIN} characters, the same on all nodes`,
        },
        `must be at least ${CLUSTER_SECRET_CHARACTERS_MIN} printable ASCII characters without spaces`,
        (value) => (/^[\x21-\x7e]+$/.test(value) && value.length >= CLUSTER_SECRET_CHARACTERS_MIN ? value : null),
      ),
    ),
  ),
  TRILOG_CLUSTER_TLS_CERT_FILE: optional(
    path({
      description: 'Certificate in PEM of the listener for other nodes, which then speaks TLS. SIGHUP reads it again',
    }),
  ),
  TRILOG_CLUSTER_TLS_KEY_FILE: optional(
    path({ description: 'Private key of that certificate in PEM, without a passphrase. SIGHUP reads it again' }),
  ),
  TRILOG_CLUSTER_URL: optional(
    serviceUrl({ description: 'Where other nodes reach that listener; unset: at the address of TRILOG_CLUSTER_BIND' }),
  ),
  TRILOG_CLUSTER_COPY_BYTES_PER_SECOND: integer({
    ...CLUSTER_COPY_RATE,
    description: 'How fast this node sends its files to all nodes that catch up, together',
  }),
  TRILOG_CLUSTER_LOGSTORE_URL: urlOf('log store'),
  TRILOG_CLUSTER_OBJECTSTORE_URL: urlOf('object store'),
  TRILOG_CLUSTER_BROKER_URL: urlOf('broker'),
}

/** Credentials of a node for the NATS servers. */
type NatsCredentials =
  | { readonly kind: 'none' }
  /** Content of the credentials file. */
  | { readonly kind: 'creds'; readonly content: string }
  | { readonly kind: 'user'; readonly user: string; readonly password: string }
  | { readonly kind: 'token'; readonly token: string }

export interface ClusterSettings {
  /** `host:port` each. */
  readonly servers: readonly string[]
  readonly name: string
  readonly nodeId: string
  readonly credentials: NatsCredentials
  /** Whether NATS servers are reached over TLS. */
  readonly natsTls: boolean
  readonly replicas: number
  readonly ack: 'cluster' | 'cluster-only'
  readonly keepBytes: number
  /** Null: only `keepBytes` limits the stream. */
  readonly keepMs: number | null
  readonly leaseMs: number
  /** The listener for other nodes and for commands. */
  readonly listener: {
    readonly bind: BindAddress
    readonly tls: TlsFiles | null
    readonly secret: string
    /** URL at which other nodes reach it, without a slash at the end; null: at `bind`. */
    readonly url: string | null
    readonly bytesPerSecond: number
  }
  /** For certificates of NATS servers and of other nodes' listeners; null: the authorities that Node knows. */
  readonly authorities: Authorities | null
  /** URLs at which clients reach the services of this node, without a slash at the end; null: not published. */
  readonly urls: {
    readonly logstore: string | null
    readonly objectstore: string | null
    readonly broker: string | null
  }
  /** Variables that begin with TRILOG_CLUSTER_ and are no settings: worth a warning. */
  readonly unknownSettings: readonly string[]
}

const tableWithProcess = {
  ...clusterSettings,
  TRILOG_ALLOW_INSECURE_BIND: processSettings.TRILOG_ALLOW_INSECURE_BIND,
}
type Settings = SettingsOf<typeof tableWithProcess>

const TLS_NAMES = {
  certFile: 'TRILOG_CLUSTER_TLS_CERT_FILE',
  keyFile: 'TRILOG_CLUSTER_TLS_KEY_FILE',
  clientCaFile: 'TRILOG_CLUSTER_CA_FILE',
} as const

const MS_PER_HOUR = 3_600_000

/**
 * @returns null: no cluster
 * @throws BadConfiguration that names every bad setting
 */
export function loadClusterSettings(env: Environment): ClusterSettings | null {
  const problems = new SettingProblems()
  const settings = readSettings(tableWithProcess, env, problems)
  const isAlone = problems.check(() => settings.TRILOG_CLUSTER_SERVERS === null)
  if (isAlone === true) {
    refuseWithoutServers(env, problems)
    problems.throwIfAny()
    return null
  }
  for (const needed of ['TRILOG_CLUSTER_NAME', 'TRILOG_NODE_ID', 'TRILOG_CLUSTER_SECRET'] as const) {
    problems.check(() => {
      if (settings[needed] === null) problems.add(needed, 'must be set, as TRILOG_CLUSTER_SERVERS is')
    })
  }
  const credentials = credentialsOf(settings, problems)
  const authorities = authoritiesOf(settings, problems)
  const listenerTls = tlsOf(
    {
      certFile: settings.TRILOG_CLUSTER_TLS_CERT_FILE,
      keyFile: settings.TRILOG_CLUSTER_TLS_KEY_FILE,
      clientCaFile: null, // other nodes show the secret
    },
    TLS_NAMES,
    problems,
  )
  problems.check(() => checkBind(settings, problems))
  problems.check(() => checkUrl(settings, problems))
  problems.throwIfAny()
  const { hosts, isTls } = settings.TRILOG_CLUSTER_SERVERS! // this node is not alone
  return Object.freeze({
    servers: hosts,
    name: settings.TRILOG_CLUSTER_NAME!, // demanded above
    nodeId: settings.TRILOG_NODE_ID!,
    credentials,
    natsTls: isTls || settings.TRILOG_CLUSTER_TLS,
    replicas: settings.TRILOG_CLUSTER_REPLICAS,
    ack: settings.TRILOG_CLUSTER_ACK,
    keepBytes: settings.TRILOG_CLUSTER_KEEP_BYTES,
    keepMs: settings.TRILOG_CLUSTER_KEEP_HOURS === null ? null : settings.TRILOG_CLUSTER_KEEP_HOURS * MS_PER_HOUR,
    leaseMs: settings.TRILOG_CLUSTER_LEASE_MS,
    listener: Object.freeze({
      bind: settings.TRILOG_CLUSTER_BIND,
      tls: listenerTls,
      secret: settings.TRILOG_CLUSTER_SECRET!,
      url: withoutSlash(settings.TRILOG_CLUSTER_URL),
      bytesPerSecond: settings.TRILOG_CLUSTER_COPY_BYTES_PER_SECOND,
    }),
    authorities,
    urls: Object.freeze({
      logstore: withoutSlash(settings.TRILOG_CLUSTER_LOGSTORE_URL),
      objectstore: withoutSlash(settings.TRILOG_CLUSTER_OBJECTSTORE_URL),
      broker: withoutSlash(settings.TRILOG_CLUSTER_BROKER_URL),
    }),
    unknownSettings: unknownSettings(clusterSettings, 'TRILOG_CLUSTER_', env),
  })
}

/** C1 */
function refuseWithoutServers(env: Environment, problems: SettingProblems): void {
  for (const [each, setting] of Object.entries(clusterSettings)) {
    if (isGiven(setting, env[each])) problems.add(each, 'has no meaning without TRILOG_CLUSTER_SERVERS')
  }
}

function credentialsOf(settings: Settings, problems: SettingProblems): NatsCredentials {
  const {
    TRILOG_CLUSTER_CREDENTIALS_FILE: file,
    TRILOG_CLUSTER_USER: user,
    TRILOG_CLUSTER_PASSWORD: password,
    TRILOG_CLUSTER_TOKEN: token,
  } = settings
  if (user === null && password !== null)
    problems.add('TRILOG_CLUSTER_USER', 'must be set, as TRILOG_CLUSTER_PASSWORD is')
  if (user !== null && password === null)
    problems.add('TRILOG_CLUSTER_PASSWORD', 'must be set, as TRILOG_CLUSTER_USER is')
  const given = [
    ['TRILOG_CLUSTER_CREDENTIALS_FILE', file],
    ['TRILOG_CLUSTER_USER', user],
    ['TRILOG_CLUSTER_TOKEN', token],
  ] as const
  const [first, second] = given.filter(([, value]) => value !== null).map(([each]) => each)
  if (second !== undefined) problems.add(second, `excludes ${first}: set one of them`)
  if (file !== null) return { kind: 'creds', content: contentOf(file, problems) }
  if (user !== null && password !== null) return { kind: 'user', user, password }
  return token === null ? { kind: 'none' } : { kind: 'token', token }
}

function contentOf(file: string, problems: SettingProblems): string {
  const content = readOr('', 'TRILOG_CLUSTER_CREDENTIALS_FILE', problems, () => readSettingFile(file))
  const isCreds = /-----BEGIN NATS USER JWT-----/.test(content) && /-----BEGIN USER NKEY SEED-----/.test(content)
  if (content !== '' && !isCreds)
    problems.add('TRILOG_CLUSTER_CREDENTIALS_FILE', 'names a file without a user JWT and its seed')
  return content
}

function authoritiesOf({ TRILOG_CLUSTER_CA_FILE: file }: Settings, problems: SettingProblems): Authorities | null {
  return file === null ? null : readOr(null, 'TRILOG_CLUSTER_CA_FILE', problems, () => new Authorities(file))
}

function readOr<T, Fallback>(
  fallback: Fallback,
  setting: string,
  problems: SettingProblems,
  readFile: () => T,
): T | Fallback {
  try {
    return readFile()
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    problems.add(setting, error.message)
    return fallback
  }
}

/** The listener serves everything there is: neither that nor the secret crosses a network in plain text, unless the operator allows it. */
function checkBind(settings: Settings, problems: SettingProblems): void {
  const { TRILOG_CLUSTER_BIND: bind, TRILOG_CLUSTER_TLS_CERT_FILE: certificate } = settings
  if (isLoopback(bind.host) || certificate !== null || settings.TRILOG_ALLOW_INSECURE_BIND) return
  problems.add(
    'TRILOG_CLUSTER_BIND',
    'must be a loopback address while the listener speaks no TLS: set TRILOG_CLUSTER_TLS_CERT_FILE, or TRILOG_ALLOW_INSECURE_BIND=1',
  )
}

function checkUrl(settings: Settings, problems: SettingProblems): void {
  const { TRILOG_CLUSTER_BIND: bind, TRILOG_CLUSTER_URL: url, TRILOG_CLUSTER_TLS_CERT_FILE: certificate } = settings
  if (url === null && (bind.host === '0.0.0.0' || bind.host === '::'))
    problems.add(
      'TRILOG_CLUSTER_URL',
      `must be set, because other nodes cannot connect to ${bind.host}, the host of TRILOG_CLUSTER_BIND`,
    )
  if (certificate !== null && url?.startsWith('http:') === true)
    problems.add('TRILOG_CLUSTER_URL', 'must begin with https:, as the listener speaks TLS')
}

const withoutSlash = (url: string | null): string | null => url?.replace(/\/+$/, '') ?? null

function nameOf(value: string): string | null {
  return /^[A-Za-z0-9_-]{1,64}$/.test(value) ? value : null
}

const NATS_PORT = '4222'
const SERVER = /^(?:(nats|tls):\/\/)?(\[[0-9a-f:.]+\]|[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?)(?::([0-9]{1,5}))?\/?$/i

interface Servers {
  readonly hosts: readonly string[]
  readonly isTls: boolean
}

function serversOf(value: string): Servers | null {
  const found = entriesOf(value).map((each) => SERVER.exec(each))
  const hosts = found.flatMap((match) => {
    const [, , host, port = NATS_PORT] = match ?? []
    return host === undefined || Number(port) < 1 || Number(port) > 65_535 ? [] : [`${host}:${port}`]
  })
  if (hosts.length === 0 || hosts.length < found.length) return null
  return { hosts, isTls: found.some((match) => match?.[1]?.toLowerCase() === 'tls') }
}
