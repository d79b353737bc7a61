/** What the process was told: environment and flags → one frozen object. */
import type { LogLevel } from '../observability/logger.ts'
import { loadBrokerConfig } from './broker.ts'
import type { BrokerConfig, BrokerFlags } from './broker.ts'
import { loadClusterSettings } from './cluster.ts'
import type { ClusterSettings } from './cluster.ts'
import { loadConsoleConfig } from './console.ts'
import type { ConsoleConfig } from './console.ts'
import { loadLogStoreConfig } from './logstore.ts'
import type { LogStoreConfig } from './logstore.ts'
import { loadObjectStoreConfig } from './objectstore.ts'
import type { ObjectStoreConfig } from './objectstore.ts'
import { processSettings, startSettings } from './process.ts'
import { BadConfiguration, SettingProblems, readSettings } from './settings.ts'
import type { Environment, SettingsOf } from './settings.ts'
import { tracingOf } from './tracing.ts'
import type { TracingConfig } from './tracing.ts'

/** Exit code of a start that cannot work. */
export const EXIT_BAD_CONFIGURATION = 2

export interface Config {
  readonly logLevel: LogLevel
  /** Series of each service for things that users create. */
  readonly metricsSeriesMax: number
  /** How long requests are still served after SIGTERM. */
  readonly drainSeconds: number
  /** Share of requests that are logged, from 0 to 1. */
  readonly accessLogShare: number
  readonly hasAuditLog: boolean
  /** Null: no traces of trilog itself. */
  readonly tracing: TracingConfig | null
  /** The chosen services with their settings; null: not started. */
  readonly services: {
    readonly logstore: LogStoreConfig | null
    readonly objectstore: ObjectStoreConfig | null
    readonly broker: BrokerConfig | null
  }
  /** Null: none is started. */
  readonly console: ConsoleConfig | null
  /** Null: each log is on this machine alone. */
  readonly cluster: ClusterSettings | null
}

/**
 * What `trilog start` was told.
 *
 * @param problems of the command line, told together with those of the settings
 * @throws BadConfiguration that names every bad setting
 */
export function loadConfig(env: Environment, problems: SettingProblems = new SettingProblems()): Config {
  const ofProcess = readSettings(processSettings, env, problems)
  const chosen = servicesOf(readSettings(startSettings, env, problems))
  const logstore = chosen.has('logstore') ? collect(problems, () => loadLogStoreConfig(env)) : null
  const objectstore = chosen.has('objectstore') ? collect(problems, () => loadObjectStoreConfig(env)) : null
  const broker = chosen.has('broker') ? collect(problems, () => loadBrokerConfig(env)) : null
  const local = {
    logstore: logstore && logstore.tenantPolicyFile !== null,
    objectstore: objectstore && objectstore.auth.mode !== 'local',
    broker: broker && broker.auth.mode !== 'insecure-local',
  }
  const console = collect(problems, () => loadConsoleConfig(env, local))
  const cluster = collect(problems, () => loadClusterSettings(env))
  if (cluster !== null) demandClusterable({ logstore, broker }, problems)
  problems.throwIfAny()
  return configOf(ofProcess, { logstore, objectstore, broker }, { console, cluster })
}

/**
 * What `mq` was told: the broker alone.
 *
 * @param problems of the command line, told together with those of the settings
 * @throws as `loadConfig` does
 */
export function loadNodeConfig(env: Environment, flags: BrokerFlags, problems: SettingProblems): Config {
  const ofProcess = readSettings(processSettings, env, problems)
  const broker = collect(problems, () => loadBrokerConfig(env, flags))
  const cluster = collect(problems, () => loadClusterSettings(env))
  if (cluster !== null) demandClusterable({ logstore: null, broker }, problems)
  problems.throwIfAny()
  return configOf(ofProcess, { logstore: null, objectstore: null, broker }, { console: null, cluster })
}

/**
 * A log that a node copies from another one would leave replica directories behind, and a start could prefer those. A bucket is not what the leader
 * has at the moment.
 */
function demandClusterable(
  { logstore, broker }: Pick<Config['services'], 'logstore' | 'broker'>,
  problems: SettingProblems,
): void {
  const unset = 'must be unset with TRILOG_CLUSTER_SERVERS: the other nodes have the copies'
  if (broker !== null && broker.replicaDirectories.length > 0) problems.add('MQ_REPLICA_DIRS', unset)
  if (logstore !== null && logstore.durability.mode !== 'local') problems.add('LOGSTORE_WAL_REPLICA_PATHS', unset)
  if (logstore !== null && logstore.queryStore.kind === 's3')
    problems.add(
      'LOGSTORE_QUERY_STORE',
      'must not be s3 with TRILOG_CLUSTER_SERVERS: queries are answered by the leader',
    )
}

const configOf = (
  ofProcess: SettingsOf<typeof processSettings>,
  services: Config['services'],
  beside: Pick<Config, 'console' | 'cluster'>,
): Config =>
  Object.freeze({
    logLevel: ofProcess.TRILOG_LOG_LEVEL,
    metricsSeriesMax: ofProcess.TRILOG_METRICS_SERIES_MAX,
    drainSeconds: ofProcess.TRILOG_DRAIN_SECONDS,
    accessLogShare: ofProcess.TRILOG_ACCESS_LOG,
    hasAuditLog: ofProcess.TRILOG_AUDIT_LOG,
    tracing: tracingOf(ofProcess),
    services: Object.freeze(services),
    ...beside,
  })

/** None when their setting has a mistake, which is among the problems. */
const servicesOf = ({
  TRILOG_SERVICES: chosen,
}: Partial<SettingsOf<typeof startSettings>>): ReadonlySet<keyof Config['services']> => chosen ?? new Set()

/** Adds the problems of one service's settings to those of the process, so that all are told at once. */
function collect<T>(problems: SettingProblems, load: () => T): T | null {
  try {
    return load()
  } catch (error) {
    if (!(error instanceof BadConfiguration)) throw error
    problems.addAll(error)
    return null
  }
}
