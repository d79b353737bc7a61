/**
 * Settings of the broker. Each has a variable and a flag of `mq`; a flag wins over a variable.
 *
 * B1  a problem names a setting as the operator gave it: by its flag, or else by its variable. A setting that was not given is named by its flag under
 *     `mq`, and by its variable under `npm start`, which has no flags
 */
import { isLoopback } from '../addresses.ts'
import type { AddressBlock } from '../addresses.ts'
import { StoreError } from '../errors.ts'
import { readBrokerCredentials } from './broker-credentials.ts'
import type { BrokerAuthByFile, BrokerCredential } from './broker-credentials.ts'
import { connectionLimitsOf, connectionSettings } from './broker-connection.ts'
import type { ConnectionLimits } from './broker-connection.ts'
import { flagged } from './flagged.ts'
import {
  AUDIT_RETENTION_DAYS_MAX,
  BROKER_BODY_BYTES,
  BROKER_SEGMENT_BYTES,
  NODE_ID_CHARACTERS_MAX,
  REPLICA_DIRECTORIES_MAX,
} from './limits.ts'
import { processSettings } from './process.ts'
import { NO_QUOTAS, readQuotas } from './quotas.ts'
import type { Quotas } from './quotas.ts'
import { areDisjoint, disjointRule } from './replica-directories.ts'
import { readReplicationBinding } from './replication-binding.ts'
import type { ReplicationPolicy } from './replication-binding.ts'
import {
  SettingProblems,
  addressBlocks,
  bindAddress,
  identityHeaders,
  integer,
  label,
  oneOf,
  optional,
  path,
  paths,
  readSettings,
  sourceOf,
  unknownSettings,
} from './settings.ts'
import type { BindAddress, Environment, SettingsOf } from './settings.ts'
import { tlsCertSetting, tlsClientCaSetting, tlsKeySetting, tlsOf } from './tls.ts'
import type { TlsNames } from './tls.ts'
import type { TlsFiles } from '../tls-files.ts'

export const brokerSettings = {
  MQ_NODE_ID: flagged(
    '--node-id <ID>',
    label({
      default: 'node-1',
      charactersMax: NODE_ID_CHARACTERS_MAX,
      description: 'Name of the node, in health and replication status',
    }),
  ),
  MQ_HTTP_BIND: flagged(
    '--http-bind <host:port>',
    bindAddress({ default: '127.0.0.1:7400', description: 'HTTP listener; port 0 picks a free one' }),
  ),
  MQ_DATA_DIR: flagged(
    '--data-dir <PATH>',
    path({ default: './data/broker', description: 'Log and queue state; created at start, must be writable' }),
  ),
  MQ_FLUSH_POLICY: flagged(
    '--flush-policy <NAME>',
    oneOf(['group-sync', 'append-only'], {
      default: 'group-sync',
      description:
        'When a publish of durability `local-disk` is answered. `group-sync`: after fdatasync; `append-only`: after the write, so a power loss may remove it',
    }),
  ),
  MQ_AUTH_MODE: flagged(
    '--auth-mode <MODE>',
    oneOf(['insecure-local', 'api-key', 'mtls', 'external'], {
      default: 'insecure-local',
      description:
        '`insecure-local`: no credentials, the tenant is `local`; `api-key`: a key of the credentials file; `mtls`: a client certificate; `external`: headers of a trusted proxy',
    }),
  ),
  MQ_CREDENTIALS_FILE: flagged(
    '--credentials-file <PATH>',
    optional(
      path({
        description:
          'JSON file of keys or subjects, tenants and grants, for `api-key` and `mtls`. SIGHUP reads it again',
      }),
    ),
  ),
  MQ_IDENTITY_HEADER: flagged(
    '--identity-header <LIST>',
    optional(
      identityHeaders({
        description:
          'Headers in which a trusted proxy names the caller, for `external`: `tenant=X-Auth-Tenant,principal=X-Auth-Principal,permissions=X-Auth-Permissions`',
      }),
    ),
  ),
  MQ_TRUSTED_PROXY: flagged(
    '--trusted-proxy <ADDRESS>',
    addressBlocks({
      default: '',
      description:
        'Addresses and CIDR blocks of the trusted proxies, for `external`: comma-separated, and the flag may be repeated',
    }),
    { repeatable: true },
  ),
  MQ_TLS_CERT_FILE: flagged('--tls-cert <PATH>', tlsCertSetting),
  MQ_TLS_KEY_FILE: flagged('--tls-key <PATH>', tlsKeySetting),
  MQ_TLS_CLIENT_CA_FILE: flagged('--tls-client-ca <PATH>', tlsClientCaSetting),
  MQ_METRICS_EXPOSURE: flagged(
    '--metrics-exposure <NAME>',
    oneOf(['http', 'disabled'], { default: 'disabled', description: '`http`: metrics at `/metrics`; or `disabled`' }),
  ),
  MQ_REPLICA_DIRS: flagged(
    '--replica-dir <PATH>',
    paths({
      default: '',
      description: 'More directories for the log, for `local-quorum`: comma-separated, and the flag may be repeated',
    }),
    { repeatable: true },
  ),
  MQ_WRITE_QUORUM: flagged(
    '--write-quorum <N>',
    optional(
      integer({
        min: 1,
        max: 1 + REPLICA_DIRECTORIES_MAX,
        description:
          'Directories that must have synced, the data directory included, for `local-quorum`; unset: more than half',
      }),
    ),
  ),
  MQ_MAX_BODY_BYTES: flagged(
    '--max-body-bytes <N>',
    integer({
      ...BROKER_BODY_BYTES,
      description: 'Largest request body',
    }),
  ),
  ...connectionSettings,
  MQ_SEGMENT_BYTES: flagged(
    '--segment-bytes <N>',
    integer({
      ...BROKER_SEGMENT_BYTES,
      description:
        'A log segment is closed before it exceeds this size. Smaller: a start reads less, and retention removes smaller parts; larger: fewer files',
    }),
  ),
  MQ_CLOCK: flagged(
    '--clock <NAME>',
    oneOf(['slew', 'reset'], {
      default: 'slew',
      description:
        'If broker time is ahead of the wall clock: `slew` lets it approach by 43 s a day; `reset` sets it at this start',
    }),
  ),
  MQ_AUDIT_RETENTION_DAYS: flagged(
    '--audit-retention-days <N>',
    optional(
      integer({
        min: 1,
        max: AUDIT_RETENTION_DAYS_MAX,
        description: 'Audit events that are older are removed; unset: all are kept',
      }),
    ),
  ),
  MQ_QUOTAS_FILE: flagged(
    '--quotas-file <PATH>',
    optional(path({ description: 'JSON file of limits by tenant; unset: no limits. SIGHUP reads it again' })),
  ),
  MQ_REPLICATION_BINDING_FILE: flagged(
    '--replication-binding-file <PATH>',
    optional(
      path({
        description:
          'JSON file of the policies by which streams are replicated to other sites; unset: none are. SIGHUP reads it again',
      }),
    ),
  ),
}

type BrokerSettingName = keyof typeof brokerSettings
type BrokerSettingNames = Readonly<Record<BrokerSettingName, string>>

const BROKER_TLS_NAMES = {
  certFile: 'MQ_TLS_CERT_FILE',
  keyFile: 'MQ_TLS_KEY_FILE',
  clientCaFile: 'MQ_TLS_CLIENT_CA_FILE',
} as const

/** B1 */
export const brokerTlsNames = (names: BrokerSettingNames): TlsNames => ({
  certFile: names[BROKER_TLS_NAMES.certFile],
  keyFile: names[BROKER_TLS_NAMES.keyFile],
  clientCaFile: names[BROKER_TLS_NAMES.clientCaFile],
})

/** How callers prove who they are. */
export type BrokerAuth =
  | { readonly mode: 'insecure-local' }
  | {
      readonly mode: BrokerAuthByFile
      readonly credentialsFile: string
      readonly credentials: readonly BrokerCredential[]
    }
  | {
      readonly mode: 'external'
      /** Names in lower case. */
      readonly headers: { readonly tenant: string; readonly principal: string; readonly permissions: string }
      readonly trustedProxies: readonly AddressBlock[]
    }

export interface BrokerConfig {
  readonly http: BindAddress
  /** Null: the listener speaks plain HTTP. */
  readonly tls: TlsFiles | null
  /** Names that `Host` may have where requests need no credentials, besides loopback and the bind address. */
  readonly allowedHosts: readonly string[]
  readonly dataDirectory: string
  readonly nodeId: string
  readonly flushPolicy: 'group-sync' | 'append-only'
  readonly auth: BrokerAuth
  readonly metricsExposure: 'http' | 'disabled'
  /** Directories besides the data directory that hold the same log. */
  readonly replicaDirectories: readonly string[]
  /** How many of all directories, the data directory included, must have a frame before it counts. */
  readonly writeQuorum: number
  readonly bodyBytesMax: number
  readonly connection: ConnectionLimits
  readonly segmentBytes: number
  /** What happens to broker time that is ahead of the wall clock at the start. */
  readonly clock: 'slew' | 'reset'
  /** Null: audit events are kept. */
  readonly auditRetentionDays: number | null
  readonly quotas: Quotas
  /** File of the quotas; null: there is none. */
  readonly quotasFile: string | null
  /** Policies of the replication to other sites; null: there is no binding. */
  readonly replication: readonly ReplicationPolicy[] | null
  /** Reads the binding and what it names again; null: there is none. Throws as `readReplicationBinding` does. */
  readonly readReplication: (() => readonly ReplicationPolicy[]) | null
  /** Names of the settings as the operator knows them, for messages (B1). */
  readonly names: BrokerSettingNames
  /** Variables that begin with MQ_ and are no settings: worth a warning. */
  readonly unknownSettings: readonly string[]
}

const tableWithProcess = {
  ...brokerSettings,
  TRILOG_ALLOW_INSECURE_BIND: processSettings.TRILOG_ALLOW_INSECURE_BIND,
  TRILOG_ALLOWED_HOSTS: processSettings.TRILOG_ALLOWED_HOSTS,
}
type Settings = SettingsOf<typeof tableWithProcess>

/** Values by the name of their setting, from the command line of `mq`. */
export type BrokerFlags = Readonly<Partial<Record<BrokerSettingName, string>>>

/**
 * @param flags null under `npm start`
 * @throws BadConfiguration that names every bad setting
 */
export function loadBrokerConfig(env: Environment, flags: BrokerFlags | null = null): BrokerConfig {
  const names = namesOf(env, flags)
  const problems = new SettingProblems((name) => (isBrokerSetting(name) ? names[name] : name))
  const settings = readSettings(tableWithProcess, { ...env, ...flags }, problems)
  const quotas = quotasOf(settings, problems)
  const auth = problems.check(() => authOf(settings, problems))
  const tls = tlsOf(
    {
      certFile: settings.MQ_TLS_CERT_FILE,
      keyFile: settings.MQ_TLS_KEY_FILE,
      clientCaFile: settings.MQ_TLS_CLIENT_CA_FILE,
    },
    BROKER_TLS_NAMES,
    problems,
    brokerTlsNames(names),
  )
  const replication = replicationOf(settings, env, problems)
  problems.check(() => checkBind(settings, problems))
  problems.check(() => checkReplicas(settings, names, problems))
  problems.throwIfAny()
  const replicaDirectories = settings.MQ_REPLICA_DIRS
  const bindingFile = settings.MQ_REPLICATION_BINDING_FILE
  return Object.freeze({
    http: settings.MQ_HTTP_BIND,
    tls,
    allowedHosts: settings.TRILOG_ALLOWED_HOSTS,
    dataDirectory: settings.MQ_DATA_DIR,
    nodeId: settings.MQ_NODE_ID,
    flushPolicy: settings.MQ_FLUSH_POLICY,
    auth: auth!, // or there was a problem
    metricsExposure: settings.MQ_METRICS_EXPOSURE,
    replicaDirectories,
    writeQuorum: settings.MQ_WRITE_QUORUM ?? majorityOf(1 + replicaDirectories.length),
    bodyBytesMax: settings.MQ_MAX_BODY_BYTES,
    connection: connectionLimitsOf(settings, settings.MQ_MAX_BODY_BYTES),
    segmentBytes: settings.MQ_SEGMENT_BYTES,
    clock: settings.MQ_CLOCK,
    auditRetentionDays: settings.MQ_AUDIT_RETENTION_DAYS,
    quotas,
    quotasFile: settings.MQ_QUOTAS_FILE,
    replication,
    readReplication: bindingFile === null ? null : () => readReplicationBinding(bindingFile, env),
    names,
    unknownSettings: unknownSettings(brokerSettings, 'MQ_', env),
  })
}

const majorityOf = (directories: number): number => Math.floor(directories / 2) + 1

const isBrokerSetting = (name: string): name is BrokerSettingName => name in brokerSettings

/** B1 */
function namesOf(env: Environment, flags: BrokerFlags | null): BrokerSettingNames {
  const entries = Object.entries(brokerSettings).map(([name, setting]) => {
    const source = sourceOf(name, setting, env, flags ?? {})
    const byFlag = source === 'flag' || (source === 'default' && flags !== null)
    return [name, byFlag ? setting.flag : name]
  })
  return Object.freeze(Object.fromEntries(entries) as BrokerSettingNames) // one for each
}

/** Without credentials only this machine may be able to reach the node. */
function checkBind(settings: Settings, problems: SettingProblems): void {
  if (settings.MQ_AUTH_MODE !== 'insecure-local') return
  if (isLoopback(settings.MQ_HTTP_BIND.host) || settings.TRILOG_ALLOW_INSECURE_BIND) return
  problems.add(
    'MQ_HTTP_BIND',
    'must be a loopback address, as insecure-local asks for no credentials: choose another auth mode, or set TRILOG_ALLOW_INSECURE_BIND=1',
  )
}

function checkReplicas(settings: Settings, names: BrokerSettingNames, problems: SettingProblems): void {
  const replicas = settings.MQ_REPLICA_DIRS
  const quorum = settings.MQ_WRITE_QUORUM
  if (replicas.length > REPLICA_DIRECTORIES_MAX) {
    problems.add('MQ_REPLICA_DIRS', `must name at most ${REPLICA_DIRECTORIES_MAX} directories`)
  } else if (!areDisjoint([settings.MQ_DATA_DIR, ...replicas])) {
    problems.add('MQ_REPLICA_DIRS', disjointRule(names.MQ_DATA_DIR))
  } else if (quorum !== null && quorum > 1 + replicas.length) {
    problems.add(
      'MQ_WRITE_QUORUM',
      `must be 1 to ${1 + replicas.length}: the data directory and the directories of ${names.MQ_REPLICA_DIRS}`,
    )
  }
}

function authOf(settings: Settings, problems: SettingProblems): BrokerAuth {
  const { MQ_AUTH_MODE: mode, MQ_CREDENTIALS_FILE: file } = settings
  const asksFile = mode === 'api-key' || mode === 'mtls'
  if (!asksFile && file !== null) problems.add('MQ_CREDENTIALS_FILE', 'is for the modes api-key and mtls: leave it out')
  const headers = problems.check(() => identityHeadersOf(settings, problems))
  const trustedProxies = problems.check(() => trustedProxiesOf(settings, problems)) ?? []
  if (mode === 'mtls' && settings.MQ_TLS_CLIENT_CA_FILE === null)
    problems.add('MQ_TLS_CLIENT_CA_FILE', 'must name the authorities of clients, as the mode is mtls')
  if (asksFile) {
    const what = mode === 'mtls' ? 'subjects' : 'keys'
    if (file === null) problems.add('MQ_CREDENTIALS_FILE', `must name a file with ${what}, as the mode is ${mode}`)
    else return { mode, credentialsFile: file, credentials: credentialsOf(file, mode, problems) }
  }
  return mode === 'external' && headers !== null ? { mode, headers, trustedProxies } : { mode: 'insecure-local' }
}

const ONLY_EXTERNAL = 'is for the mode external: leave it out'

function identityHeadersOf(settings: Settings, problems: SettingProblems): Settings['MQ_IDENTITY_HEADER'] {
  const { MQ_AUTH_MODE: mode, MQ_IDENTITY_HEADER: headers } = settings
  if (mode === 'external' && headers === null)
    problems.add('MQ_IDENTITY_HEADER', 'must name three headers, as the mode is external')
  if (mode !== 'external' && headers !== null) problems.add('MQ_IDENTITY_HEADER', ONLY_EXTERNAL)
  return headers
}

function trustedProxiesOf(settings: Settings, problems: SettingProblems): readonly AddressBlock[] {
  const { MQ_AUTH_MODE: mode, MQ_TRUSTED_PROXY: proxies } = settings
  if (mode === 'external' && proxies.length === 0)
    problems.add('MQ_TRUSTED_PROXY', 'must name an address at least, as the mode is external')
  if (mode !== 'external' && proxies.length > 0) problems.add('MQ_TRUSTED_PROXY', ONLY_EXTERNAL)
  return proxies
}

function credentialsOf(file: string, mode: BrokerAuthByFile, problems: SettingProblems): readonly BrokerCredential[] {
  try {
    return readBrokerCredentials(file, mode)
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    problems.add('MQ_CREDENTIALS_FILE', error.message)
    return []
  }
}

function quotasOf(settings: Settings, problems: SettingProblems): Quotas {
  if (settings.MQ_QUOTAS_FILE === null) return NO_QUOTAS
  try {
    return readQuotas(settings.MQ_QUOTAS_FILE)
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    problems.add('MQ_QUOTAS_FILE', error.message)
    return NO_QUOTAS
  }
}

function replicationOf(
  settings: Settings,
  env: Environment,
  problems: SettingProblems,
): readonly ReplicationPolicy[] | null {
  if (settings.MQ_REPLICATION_BINDING_FILE === null) return null
  try {
    return readReplicationBinding(settings.MQ_REPLICATION_BINDING_FILE, env)
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    problems.add('MQ_REPLICATION_BINDING_FILE', error.message)
    return null
  }
}
