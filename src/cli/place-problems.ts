/** What is wrong with the directories and files that settings name, as far as it can be seen without changing anything. */
import { constants, accessSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Config } from '../config/config.ts'
import { readSettingFile } from '../config/setting-file.ts'
import { StoreError } from '../errors.ts'
import { errorCode } from '../log/files.ts'
import { nodeFiles } from '../log/node-files.ts'
import { readTenantPolicy } from '../logstore/tenants/policy-holder.ts'
import { parseCredentials } from '../objectstore/s3/auth/credentials.ts'

/** @returns one sentence each, which begins with the name of the setting */
export function placeProblems({ services: { logstore, objectstore, broker } }: Config): readonly string[] {
  const problems: (string | null)[] = []
  if (logstore) {
    const { dataDirectory, durability, tenantPolicyFile } = logstore
    problems.push(directoryProblem('LOGSTORE_DATA_DIR', dataDirectory))
    for (const replica of durability.mode === 'local' ? [] : durability.replicaDirectories) {
      problems.push(directoryProblem('LOGSTORE_WAL_REPLICA_PATHS', replica))
    }
    if (tenantPolicyFile !== null) problems.push(problemOf('', () => readTenantPolicy(nodeFiles, tenantPolicyFile, 1)))
  }
  if (objectstore) {
    const { dataDirectory, auth } = objectstore
    problems.push(directoryProblem('OBJSTORE_DATA_DIR', dataDirectory))
    if (auth.mode === 'sigv4') {
      const read = (): unknown => parseCredentials(readSettingFile(auth.credentialsFile))
      problems.push(problemOf('OBJSTORE_CREDENTIALS_FILE ', read))
    }
  }
  if (broker) {
    problems.push(directoryProblem('MQ_DATA_DIR', broker.dataDirectory))
    for (const replica of broker.replicaDirectories) problems.push(directoryProblem('MQ_REPLICA_DIRS', replica))
  }
  return problems.filter((problem) => problem !== null)
}

/** One that is not there would be made by the start. */
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

/** The path, or what there is of it, or what keeps it from being seen. */
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
