/**
 * What is wrong with the directories and files that settings name, as far as it can be seen without changing anything.
 *
 * Each is looked at by its own setting, so that a mistake in another one hides nothing. `src/config` reads the files by which it judges settings.
 */
import { constants, accessSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { brokerSettings } from '../config/broker.ts'
import { clusterSettings } from '../config/cluster.ts'
import { consoleSettings } from '../config/console.ts'
import { logStoreSettings } from '../config/logstore.ts'
import { objectStoreSettings } from '../config/objectstore.ts'
import { servicesNamed, startSettings } from '../config/process.ts'
import { readSettingFile } from '../config/setting-file.ts'
import { SettingProblems, isGiven, readSettings } from '../config/settings.ts'
import type { BindAddress, Environment } from '../config/settings.ts'
import { StoreError } from '../errors.ts'
import { errorCode } from '../log/files.ts'
import { readFormat } from '../log/format.ts'
import { nodeFiles } from '../log/node-files.ts'
import { readTenantPolicy } from '../logstore/tenants/policy-holder.ts'
import { parseCredentials } from '../objectstore/s3/auth/credentials.ts'

/**
 * @param env settings, with or without mistakes
 * @returns one sentence each, which begins with the name of the setting
 */
export function placeProblems(env: Environment): readonly string[] {
  const told = new SettingProblems() // `loadConfig` reports these
  const settings = readSettings(
    {
      ...startSettings,
      ...logStoreSettings,
      ...objectStoreSettings,
      ...brokerSettings,
      ...clusterSettings,
      ...consoleSettings,
    },
    env,
    told,
  )
  const chosen = told.check(() => settings.TRILOG_SERVICES) ?? servicesNamed(env['TRILOG_SERVICES'])
  const problems: string[] = []
  const takenBy = new Map<string, string>()
  /** Two settings must not name the same place. */
  const take = (setting: string, placeOf: () => string | null): void => {
    const place = told.check(placeOf)
    const other = place === null ? undefined : takenBy.get(place)
    if (other !== undefined) problems.push(`${setting} must not be ${place}, because ${other} names it already`)
    else if (place !== null) takenBy.set(place, setting)
  }
  const look = (find: () => string | null): void => {
    const problem = told.check(find)
    if (problem !== null) problems.push(problem)
  }
  if (chosen.has('logstore')) {
    take('LOGSTORE_BIND_ADDRESS', () => shownListener(settings.LOGSTORE_BIND_ADDRESS))
    take('LOGSTORE_OTLP_GRPC_BIND_ADDRESS', () => shownListener(settings.LOGSTORE_OTLP_GRPC_BIND_ADDRESS))
    take('LOGSTORE_DATA_DIR', () => settings.LOGSTORE_DATA_DIR)
    const isReplicated = told.check(() => settings.LOGSTORE_WAL_DURABILITY_MODE === 'replicated-local') === true
    look(() => dataProblem('LOGSTORE_DATA_DIR', settings.LOGSTORE_DATA_DIR, 'bundles', isReplicated))
    for (const replica of isReplicated ? settings.LOGSTORE_WAL_REPLICA_PATHS : [])
      look(() => directoryProblem('LOGSTORE_WAL_REPLICA_PATHS', replica))
    const policy = settings.LOGSTORE_TENANT_POLICY_FILE
    if (policy !== null) look(() => problemOf('', () => readTenantPolicy(nodeFiles, policy, 1)))
  }
  if (chosen.has('objectstore')) {
    take('OBJSTORE_BIND_ADDRESS', () => shownListener(settings.OBJSTORE_BIND_ADDRESS))
    take('OBJSTORE_DATA_DIR', () => settings.OBJSTORE_DATA_DIR)
    look(() => dataProblem('OBJSTORE_DATA_DIR', settings.OBJSTORE_DATA_DIR, 'segments', false))
    const credentials = settings.OBJSTORE_CREDENTIALS_FILE
    const asksForKeys = told.check(() => settings.OBJSTORE_AUTH_MODE === 'sigv4') === true
    if (asksForKeys && credentials !== null)
      look(() => problemOf('OBJSTORE_CREDENTIALS_FILE ', () => parseCredentials(readSettingFile(credentials))))
  }
  if (chosen.has('broker')) {
    take('MQ_HTTP_BIND', () => shownListener(settings.MQ_HTTP_BIND))
    take('MQ_DATA_DIR', () => settings.MQ_DATA_DIR)
    const isReplicated = settings.MQ_REPLICA_DIRS.length > 0
    look(() => dataProblem('MQ_DATA_DIR', settings.MQ_DATA_DIR, 'segments', isReplicated))
    for (const replica of settings.MQ_REPLICA_DIRS) look(() => directoryProblem('MQ_REPLICA_DIRS', replica))
  }
  if (told.check(() => settings.TRILOG_CLUSTER_SERVERS !== null) === true)
    take('TRILOG_CLUSTER_BIND', () => shownListener(settings.TRILOG_CLUSTER_BIND))
  // A start does without the console where only its default address is taken.
  if (isGiven(consoleSettings.TRILOG_CONSOLE_BIND, env['TRILOG_CONSOLE_BIND']))
    take('TRILOG_CONSOLE_BIND', () => shownListener(settings.TRILOG_CONSOLE_BIND))
  return problems
}

/** Null: there is none, or any free port will do. */
const shownListener = (bind: BindAddress | null): string | null =>
  bind === null || bind.port === 0 ? null : `${bind.host}:${bind.port}`

/** With replica directories, a missing FORMAT is no problem: a start writes it again. */
function dataProblem(setting: string, directory: string, segmentsName: string, isReplicated: boolean): string | null {
  const problem = directoryProblem(setting, directory)
  if (problem !== null || isReplicated) return problem
  try {
    readFormat(nodeFiles, directory, segmentsName)
    return null
  } catch (error) {
    if (error instanceof StoreError) return `${setting} ${error.message}`
    return `${setting} ${directory}: this user cannot read it (${errorCode(error)})`
  }
}

/** A directory that is not there is no problem: the start makes it. */
function directoryProblem(setting: string, directory: string): string | null {
  const existing = existingOf(directory)
  if ('code' in existing) return `${setting} ${directory}: this user cannot reach ${existing.path} (${existing.code})`
  const { path } = existing
  if (!existing.isDirectory) return `${setting} ${directory}: ${path} is no directory`
  try {
    accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK)
    return null
  } catch {
    return `${setting} ${directory}: ${path} must be readable and writable for this user`
  }
}

type Existing =
  | { readonly path: string; readonly isDirectory: boolean }
  | { readonly path: string; readonly code: string }

/** The path, or the longest part of it that exists, or what keeps it from being seen. */
function existingOf(path: string): Existing {
  for (let at = path; at !== dirname(at); at = dirname(at)) {
    try {
      const stats = statSync(at, { throwIfNoEntry: false })
      if (stats !== undefined) return { path: at, isDirectory: stats.isDirectory() }
    } catch (error) {
      return { path: at, code: errorCode(error) }
    }
  }
  return { path: '/', isDirectory: true }
}

function problemOf(prefix: string, read: () => unknown): string | null {
  try {
    read()
    return null
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    return `${prefix}${error.message}`
  }
}
