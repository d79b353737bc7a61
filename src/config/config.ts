/** The configuration of the process: environment and flags → one frozen object. */
import type { LogLevel } from '../observability/logger.ts'
import { brokerSettings, loadBrokerConfig } from './broker.ts'
import type { BrokerConfig, BrokerFlags } from './broker.ts'
import { clusterSettings, loadClusterSettings } from './cluster.ts'
import type { ClusterSettings } from './cluster.ts'
import { loadConsoleConfig } from './console.ts'
import type { AskForCredentials, ConsoleConfig } from './console.ts'
import { loadLogStoreConfig, logStoreSettings } from './logstore.ts'
import type { LogStoreConfig } from './logstore.ts'
import { loadObjectStoreConfig, objectStoreSettings } from './objectstore.ts'
import type { ObjectStoreConfig } from './objectstore.ts'
import { processSettings, servicesNamed, startSettings } from './process.ts'
import { SettingProblems, readSettings } from './settings.ts'
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
 * The configuration of `trilog start`.
 *
 * @param problems of the command line, reported together with those of the settings
 * @throws BadConfiguration that names every bad setting
 */
export function loadConfig(env: Environment, problems: SettingProblems = new SettingProblems()): Config {
  const ofProcess = readSettings(processSettings, env, problems)
  const start = readSettings(startSettings, env, problems)
  const chosen = problems.check(() => start.TRILOG_SERVICES) ?? servicesNamed(env['TRILOG_SERVICES'])
  const logstore = chosen.has('logstore') ? problems.collect(() => loadLogStoreConfig(env)) : null
  const objectstore = chosen.has('objectstore') ? problems.collect(() => loadObjectStoreConfig(env)) : null
  const broker = chosen.has('broker') ? problems.collect(() => loadBrokerConfig(env)) : null
  const console = problems.collect(() => loadConsoleConfig(env, askedFor(chosen, env)))
  const cluster = problems.collect(() => loadClusterSettings(env))
  demandClusterable(chosen, env, problems)
  problems.throwIfAny()
  return configOf(ofProcess, { logstore, objectstore, broker }, { console, cluster })
}

/**
 * The configuration of `mq`: the broker alone.
 *
 * @param problems of the command line, reported together with those of the settings
 * @throws as `loadConfig` does
 */
export function loadNodeConfig(env: Environment, flags: BrokerFlags, problems: SettingProblems): Config {
  const ofProcess = readSettings(processSettings, env, problems)
  const broker = problems.collect(() => loadBrokerConfig(env, flags))
  const cluster = problems.collect(() => loadClusterSettings(env))
  demandClusterable(new Set(['broker']), { ...env, ...flags }, problems)
  problems.throwIfAny()
  return configOf(ofProcess, { logstore: null, objectstore: null, broker }, { console: null, cluster })
}

/** Settings that are checked across services, whether or not the services' own settings have mistakes. */
const judgedBesides = {
  TRILOG_CLUSTER_SERVERS: clusterSettings.TRILOG_CLUSTER_SERVERS,
  LOGSTORE_TENANT_POLICY_FILE: logStoreSettings.LOGSTORE_TENANT_POLICY_FILE,
  LOGSTORE_WAL_DURABILITY_MODE: logStoreSettings.LOGSTORE_WAL_DURABILITY_MODE,
  LOGSTORE_QUERY_STORE: logStoreSettings.LOGSTORE_QUERY_STORE,
  OBJSTORE_AUTH_MODE: objectStoreSettings.OBJSTORE_AUTH_MODE,
  MQ_AUTH_MODE: brokerSettings.MQ_AUTH_MODE,
  MQ_REPLICA_DIRS: brokerSettings.MQ_REPLICA_DIRS,
}

type Chosen = ReadonlySet<keyof Config['services']>

/** Which services of this process ask for credentials. A mode with a mistake counts as one that asks: the mistake is reported anyway. */
function askedFor(chosen: Chosen, env: Environment): AskForCredentials {
  const told = new SettingProblems()
  const settings = readSettings(judgedBesides, env, told)
  const asks = (service: keyof Config['services'], isAsked: () => boolean): boolean | null =>
    chosen.has(service) ? (told.check(isAsked) ?? true) : null
  return {
    logstore: asks('logstore', () => settings.LOGSTORE_TENANT_POLICY_FILE !== null),
    objectstore: asks('objectstore', () => settings.OBJSTORE_AUTH_MODE !== 'local'),
    broker: asks('broker', () => settings.MQ_AUTH_MODE !== 'insecure-local'),
  }
}

/**
 * Refuses settings that do not fit a cluster. A log that is copied from another node would leave replica directories behind, and a start could prefer
 * those. A bucket does not have what the leader has at the moment.
 */
function demandClusterable(chosen: Chosen, env: Environment, problems: SettingProblems): void {
  const settings = readSettings(judgedBesides, env, new SettingProblems()) // each service reports their mistakes
  const demand = (service: keyof Config['services'], setting: string, isFit: () => boolean, rule: string): void => {
    if (chosen.has(service) && problems.check(isFit) === false) problems.add(setting, rule)
  }
  if (problems.check(() => settings.TRILOG_CLUSTER_SERVERS) === null) return
  const unset = 'must be unset with TRILOG_CLUSTER_SERVERS: the other nodes have the copies'
  demand('broker', 'MQ_REPLICA_DIRS', () => settings.MQ_REPLICA_DIRS.length === 0, unset)
  const isLocal = (): boolean => settings.LOGSTORE_WAL_DURABILITY_MODE === 'local'
  demand('logstore', 'LOGSTORE_WAL_REPLICA_PATHS', isLocal, unset)
  demand(
    'logstore',
    'LOGSTORE_QUERY_STORE',
    () => settings.LOGSTORE_QUERY_STORE !== 's3',
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
