/** Settings of the log store. */
import { isLoopback } from '../addresses.ts'
import {
  LOGSTORE_BODY_BYTES,
  LOGSTORE_CONCURRENT_QUERIES_DEFAULT,
  LOGSTORE_DECODE_LANES_MAX,
  LOGSTORE_GATEWAY_BYTES_DEFAULT,
  LOGSTORE_GATEWAY_RECORDS_DEFAULT,
  LOGSTORE_GATEWAY_REQUESTS_DEFAULT,
  LOGSTORE_SEGMENT_BYTES,
  REPLICA_DIRECTORIES_MAX,
} from './limits.ts'
import { processSettings } from './process.ts'
import { areDisjoint, disjointRule } from './replica-directories.ts'
import {
  SettingProblems,
  bindAddress,
  flag,
  httpUrl,
  integer,
  limit,
  nonEmptyWhenSupplied,
  oneOf,
  optional,
  path,
  paths,
  readSettings,
  text,
  unknownSettings,
} from './settings.ts'
import type { BindAddress, Environment, SettingsOf } from './settings.ts'
import { tlsCertSetting, tlsClientCaSetting, tlsKeySetting, tlsOf } from './tls.ts'
import type { TlsFiles } from '../tls-files.ts'

const COUNT_MAX = 1_000_000_000
const BYTES_MAX = 2 ** 49
/** Accepts old names, too, and those of other stores. */
const BUCKET_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$/

export const logStoreSettings = {
  LOGSTORE_BIND_ADDRESS: bindAddress({
    default: '127.0.0.1:4318',
    description: 'HTTP listener, host:port; port 0 picks a free one',
  }),
  LOGSTORE_DATA_DIR: path({
    default: './data/logstore',
    description: 'Segment bundles and write-ahead log; must be writable',
  }),
  LOGSTORE_OTLP_GRPC_BIND_ADDRESS: optional(
    bindAddress({ description: 'OTLP/gRPC listener, host:port; unset: no gRPC' }),
  ),
  LOGSTORE_TLS_CERT_FILE: tlsCertSetting,
  LOGSTORE_TLS_KEY_FILE: tlsKeySetting,
  LOGSTORE_TLS_CLIENT_CA_FILE: tlsClientCaSetting,
  LOGSTORE_TENANT_POLICY_FILE: optional(
    path({
      description:
        'JSON file of tenants, credentials and limits; unset: the development tenant `local`. SIGHUP reads it again',
    }),
  ),
  LOGSTORE_WAL_DURABILITY_MODE: oneOf(['local', 'replicated-local'], {
    default: 'local',
    description:
      '`local`: acknowledged after fdatasync; `replicated-local`: after fdatasync on a write quorum of directories',
  }),
  LOGSTORE_WAL_REPLICA_PATHS: paths({
    default: '',
    description: 'Comma-separated directories besides the data directory, for `replicated-local`',
  }),
  LOGSTORE_WAL_WRITE_QUORUM: optional(
    integer({
      min: 1,
      max: 1 + REPLICA_DIRECTORIES_MAX,
      description: 'Directories that must have synced, the data directory included, for `replicated-local`',
    }),
  ),
  LOGSTORE_SEGMENT_BYTES: integer({
    ...LOGSTORE_SEGMENT_BYTES,
    description:
      'A bundle is closed before it exceeds this size. Smaller: a start reads less, and retention removes smaller parts; larger: fewer bundles to search',
  }),
  LOGSTORE_DECODE_LANES: optional(
    integer({
      min: 1,
      max: LOGSTORE_DECODE_LANES_MAX,
      description:
        'Threads that decode ingest. Unset: one for each core beyond the second, at least 1. Answers are the same with any number',
    }),
  ),
  LOGSTORE_COMPACTION: oneOf(['on', 'off'], {
    default: 'on',
    description:
      '`on`: sealed bundles are compacted in the background, to a fifth or less; `off`: they stay as they are',
  }),
  LOGSTORE_MERGING: oneOf(['on', 'off'], {
    default: 'on',
    description:
      '`on`: neighbouring compacted bundles are merged, so that their number grows slowly; `off`: no further ones are. Needs compaction',
  }),
  LOGSTORE_MAX_BODY_BYTES: integer({
    ...LOGSTORE_BODY_BYTES,
    description: 'Largest request body, both as sent and decompressed',
  }),
  LOGSTORE_GATEWAY_MAX_REQUESTS: limit({
    default: LOGSTORE_GATEWAY_REQUESTS_DEFAULT,
    min: 1,
    max: COUNT_MAX,
    description: 'Ingest requests in flight, over all tenants; `none`: no limit',
  }),
  LOGSTORE_GATEWAY_MAX_RECORDS: limit({
    default: LOGSTORE_GATEWAY_RECORDS_DEFAULT,
    min: 1,
    max: COUNT_MAX,
    description: 'Records in flight, over all tenants; `none`: no limit',
  }),
  LOGSTORE_GATEWAY_MAX_BYTES: limit({
    default: LOGSTORE_GATEWAY_BYTES_DEFAULT,
    min: 1,
    max: BYTES_MAX,
    description: 'Decompressed bytes in flight, over all tenants; `none`: no limit',
  }),
  LOGSTORE_MAX_CONCURRENT_QUERIES: limit({
    default: LOGSTORE_CONCURRENT_QUERIES_DEFAULT,
    min: 1,
    max: COUNT_MAX,
    description: 'Queries in flight per tenant; `none`: no limit',
  }),
  LOGSTORE_RETENTION_MAX_AGE_SECONDS: limit({
    default: 'none',
    min: 1,
    max: COUNT_MAX * 10,
    description:
      'Bundles are dropped when their newest record, by its own time or its receipt, is older; the newest bundle stays. `none`: keep all',
  }),
  LOGSTORE_RETENTION_MAX_BYTES: limit({
    default: 'none',
    min: 1,
    max: BYTES_MAX,
    description: 'The oldest bundles are dropped while the store is larger; `none`: keep all',
  }),
  LOGSTORE_QUERY_STORE: text({
    default: 'local',
    description: '`s3`: queries read bundles from an object-storage bucket; anything else: from the data directory',
  }),
  LOGSTORE_QUERY_S3_BUCKET: optional(text({ description: 'Bucket for query reads; required with the store `s3`' })),
  LOGSTORE_QUERY_S3_PREFIX: text({
    default: '',
    description: 'Key prefix below which the bundles are; a slash at its end may be left out',
  }),
  LOGSTORE_QUERY_S3_REGION: optional(
    nonEmptyWhenSupplied(text({ description: 'Region; unset: the AWS SDK’s own choice. Not empty when supplied' })),
  ),
  LOGSTORE_QUERY_S3_ENDPOINT: optional(httpUrl({ description: 'Endpoint URL of an S3-compatible store; unset: AWS' })),
  LOGSTORE_QUERY_S3_FORCE_PATH_STYLE: flag({ default: '0', description: '1: path-style addressing of the bucket' }),
  LOGSTORE_QUERY_S3_REFRESH_SECONDS: integer({
    default: 30,
    min: 1,
    max: 86_400,
    description: 'How often the bucket is listed for bundles that arrived',
  }),
  LOGSTORE_QUERY_S3_CACHE_BYTES: integer({
    default: 256 * 1024 * 1024,
    min: 16 * 1024 * 1024,
    max: BYTES_MAX,
    description:
      'Memory that caches what was read of the bucket. Half of it is for indexes, which take 3 bytes for each record',
  }),
}

export interface LogStoreConfig {
  readonly http: BindAddress
  readonly grpc: BindAddress | null
  /** TLS of both listeners. Null: they speak plain HTTP. */
  readonly tls: TlsFiles | null
  /** Names that `Host` may have where requests need no credentials, besides loopback and the bind address. */
  readonly allowedHosts: readonly string[]
  readonly dataDirectory: string
  /** null: the development policy */
  readonly tenantPolicyFile: string | null
  readonly durability:
    | { readonly mode: 'local' }
    | {
        readonly mode: 'replicated-local'
        readonly replicaDirectories: readonly string[]
        readonly writeQuorum: number
      }
  readonly segmentBytes: number
  readonly bodyBytesMax: number
  /** Infinity: no limit. */
  readonly gateway: { readonly requestsMax: number; readonly recordsMax: number; readonly bytesMax: number }
  /** Per tenant; Infinity: no limit. */
  readonly concurrentQueriesMax: number
  /** Null: as many as there are cores for. */
  readonly decodeLanes: number | null
  /** Sealed bundles are compacted in the background. */
  readonly compaction: boolean
  readonly merging: boolean
  /** Infinity: keep all. */
  readonly retention: { readonly ageSecondsMax: number; readonly bytesMax: number }
  readonly queryStore: { readonly kind: 'local' } | S3QueryStore
  /** Variables that begin with LOGSTORE_ and are no settings: worth a warning. */
  readonly unknownSettings: readonly string[]
}

interface S3QueryStore {
  readonly kind: 's3'
  readonly bucket: string
  readonly prefix: string
  /** null: the SDK's own choice */
  readonly region: string | null
  readonly endpoint: string | null
  readonly forcePathStyle: boolean
  readonly refreshSeconds: number
  readonly cacheBytes: number
}

export const LOGSTORE_TLS_NAMES = {
  certFile: 'LOGSTORE_TLS_CERT_FILE',
  keyFile: 'LOGSTORE_TLS_KEY_FILE',
  clientCaFile: 'LOGSTORE_TLS_CLIENT_CA_FILE',
} as const

const tableWithProcess = {
  ...logStoreSettings,
  TRILOG_ALLOW_INSECURE_BIND: processSettings.TRILOG_ALLOW_INSECURE_BIND,
  TRILOG_ALLOWED_HOSTS: processSettings.TRILOG_ALLOWED_HOSTS,
}
type Settings = SettingsOf<typeof tableWithProcess>

/** @throws BadConfiguration that names every bad setting */
export function loadLogStoreConfig(env: Environment): LogStoreConfig {
  const problems = new SettingProblems()
  const settings = readSettings(tableWithProcess, env, problems)
  for (const name of ['LOGSTORE_BIND_ADDRESS', 'LOGSTORE_OTLP_GRPC_BIND_ADDRESS'] as const)
    problems.check(() => checkBind(name, settings, problems))
  problems.check(() => checkReplicas(settings, problems))
  const tls = tlsOf(
    {
      certFile: settings.LOGSTORE_TLS_CERT_FILE,
      keyFile: settings.LOGSTORE_TLS_KEY_FILE,
      clientCaFile: settings.LOGSTORE_TLS_CLIENT_CA_FILE,
    },
    LOGSTORE_TLS_NAMES,
    problems,
  )
  checkQueryStore(settings, problems)
  problems.throwIfAny()
  return Object.freeze({
    http: settings.LOGSTORE_BIND_ADDRESS,
    grpc: settings.LOGSTORE_OTLP_GRPC_BIND_ADDRESS,
    tls,
    allowedHosts: settings.TRILOG_ALLOWED_HOSTS,
    dataDirectory: settings.LOGSTORE_DATA_DIR,
    tenantPolicyFile: settings.LOGSTORE_TENANT_POLICY_FILE,
    durability: durabilityOf(settings),
    segmentBytes: settings.LOGSTORE_SEGMENT_BYTES,
    bodyBytesMax: settings.LOGSTORE_MAX_BODY_BYTES,
    gateway: Object.freeze({
      requestsMax: settings.LOGSTORE_GATEWAY_MAX_REQUESTS,
      recordsMax: settings.LOGSTORE_GATEWAY_MAX_RECORDS,
      bytesMax: settings.LOGSTORE_GATEWAY_MAX_BYTES,
    }),
    concurrentQueriesMax: settings.LOGSTORE_MAX_CONCURRENT_QUERIES,
    decodeLanes: settings.LOGSTORE_DECODE_LANES,
    compaction: settings.LOGSTORE_COMPACTION === 'on',
    merging: settings.LOGSTORE_MERGING === 'on',
    retention: Object.freeze({
      ageSecondsMax: settings.LOGSTORE_RETENTION_MAX_AGE_SECONDS,
      bytesMax: settings.LOGSTORE_RETENTION_MAX_BYTES,
    }),
    queryStore: queryStoreOf(settings),
    unknownSettings: unknownSettings(logStoreSettings, 'LOGSTORE_', env),
  })
}

/** The development tenant's token is public, so only this machine may be able to reach the listeners. */
function checkBind(
  name: 'LOGSTORE_BIND_ADDRESS' | 'LOGSTORE_OTLP_GRPC_BIND_ADDRESS',
  settings: Settings,
  problems: SettingProblems,
): void {
  if (settings.LOGSTORE_TENANT_POLICY_FILE !== null || settings.TRILOG_ALLOW_INSECURE_BIND) return
  const bind = settings[name]
  if (bind === null || isLoopback(bind.host)) return
  problems.add(
    name,
    'must be a loopback address while the development credentials are in use: set LOGSTORE_TENANT_POLICY_FILE, or TRILOG_ALLOW_INSECURE_BIND=1',
  )
}

function checkQueryStore(settings: Settings, problems: SettingProblems): void {
  const { LOGSTORE_QUERY_STORE: store, LOGSTORE_QUERY_S3_BUCKET: bucket, LOGSTORE_QUERY_S3_PREFIX: prefix } = settings
  if (store === 's3' && bucket === null)
    problems.add('LOGSTORE_QUERY_S3_BUCKET', 'must name a bucket, as LOGSTORE_QUERY_STORE is s3')
  if (bucket !== null && !BUCKET_NAME.test(bucket)) {
    problems.add(
      'LOGSTORE_QUERY_S3_BUCKET',
      'must be the name of a bucket: letters, digits, dots, hyphens and underscores',
    )
  }
  if (prefix.startsWith('/'))
    problems.add('LOGSTORE_QUERY_S3_PREFIX', 'must not begin with a slash: keys that tools write never do')
}

function checkReplicas(settings: Settings, problems: SettingProblems): void {
  const replicas = settings.LOGSTORE_WAL_REPLICA_PATHS
  const quorum = settings.LOGSTORE_WAL_WRITE_QUORUM
  if (settings.LOGSTORE_WAL_DURABILITY_MODE === 'local') {
    const unused = 'has no meaning unless LOGSTORE_WAL_DURABILITY_MODE is replicated-local'
    if (replicas.length > 0) problems.add('LOGSTORE_WAL_REPLICA_PATHS', unused)
    if (quorum !== null) problems.add('LOGSTORE_WAL_WRITE_QUORUM', unused)
    return
  }
  if (replicas.length === 0 || replicas.length > REPLICA_DIRECTORIES_MAX) {
    problems.add(
      'LOGSTORE_WAL_REPLICA_PATHS',
      `must name 1 to ${REPLICA_DIRECTORIES_MAX} directories, separated by commas`,
    )
  } else if (!areDisjoint([settings.LOGSTORE_DATA_DIR, ...replicas])) {
    problems.add('LOGSTORE_WAL_REPLICA_PATHS', disjointRule('LOGSTORE_DATA_DIR'))
  } else if (quorum === null || quorum > 1 + replicas.length) {
    problems.add(
      'LOGSTORE_WAL_WRITE_QUORUM',
      `must be 1 to ${1 + replicas.length}: the data directory and the directories of LOGSTORE_WAL_REPLICA_PATHS`,
    )
  }
}

function durabilityOf(settings: Settings): LogStoreConfig['durability'] {
  const writeQuorum = settings.LOGSTORE_WAL_WRITE_QUORUM
  if (settings.LOGSTORE_WAL_DURABILITY_MODE === 'local' || writeQuorum === null) return Object.freeze({ mode: 'local' })
  return Object.freeze({
    mode: 'replicated-local',
    replicaDirectories: settings.LOGSTORE_WAL_REPLICA_PATHS,
    writeQuorum,
  })
}

function queryStoreOf(settings: Settings): LogStoreConfig['queryStore'] {
  const bucket = settings.LOGSTORE_QUERY_S3_BUCKET
  if (settings.LOGSTORE_QUERY_STORE !== 's3' || bucket === null) return Object.freeze({ kind: 'local' })
  return Object.freeze({
    kind: 's3',
    bucket,
    prefix: settings.LOGSTORE_QUERY_S3_PREFIX.replace(/([^/])$/, '$1/'),
    region: settings.LOGSTORE_QUERY_S3_REGION,
    endpoint: settings.LOGSTORE_QUERY_S3_ENDPOINT,
    forcePathStyle: settings.LOGSTORE_QUERY_S3_FORCE_PATH_STYLE,
    refreshSeconds: settings.LOGSTORE_QUERY_S3_REFRESH_SECONDS,
    cacheBytes: settings.LOGSTORE_QUERY_S3_CACHE_BYTES,
  })
}
