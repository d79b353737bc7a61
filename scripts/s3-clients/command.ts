/** Clients that are commands: run to their end, one at a time. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { MissingError } from './client.ts'
import type { Target } from './client.ts'

const ENDS_WITHIN_MS = 120_000
const OUTPUT_BYTES_MAX = 64 << 20
const LAST_WORDS_CHARACTERS = 600

export interface Ended {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

/** @param env beside PATH and HOME: settings of the surrounding environment never reach a client */
export function runCommand(
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Ended {
  const { PATH = '', HOME = '' } = process.env
  const { error, status, stdout, stderr } = spawnSync(command, args, {
    env: { PATH, HOME, LC_ALL: 'C.UTF-8', ...env },
    encoding: 'utf8',
    timeout: ENDS_WITHIN_MS,
    maxBuffer: OUTPUT_BYTES_MAX,
  })
  if (error !== undefined) throw error
  return { status, stdout, stderr }
}

/** Its stdout; it must succeed. */
export function succeed(command: string, args: readonly string[], env: Readonly<Record<string, string>> = {}): string {
  const { status, stdout, stderr } = runCommand(command, args, env)
  const lastWords = (stderr || stdout).trim().slice(-LAST_WORDS_CHARACTERS)
  assert.equal(status, 0, `${[command, ...args].join(' ')} ended with ${status}: ${lastWords}`)
  return stdout
}

/** @param install what to type when it is missing. @throws MissingError */
export function versionOf(command: string, args: readonly string[], pattern: RegExp, install: string): string {
  const { error, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' })
  const version = error === undefined ? pattern.exec(stdout + stderr)?.[1] : undefined
  if (version === undefined) throw new MissingError(`there is no ${command}: ${install}`)
  return version
}

/** As the tools of AWS want it. */
export const awsEnvironment = ({ keyId, secret, region, directory }: Target): Readonly<Record<string, string>> => ({
  AWS_ACCESS_KEY_ID: keyId,
  AWS_SECRET_ACCESS_KEY: secret,
  AWS_DEFAULT_REGION: region,
  AWS_CONFIG_FILE: `${directory}/aws-config`,
  AWS_SHARED_CREDENTIALS_FILE: `${directory}/aws-credentials`,
  AWS_EC2_METADATA_DISABLED: 'true',
  AWS_PAGER: '',
})

/** A file of random bytes. */
export function randomFile(path: string, bytes: number): string {
  writeFileSync(path, randomBytes(bytes))
  return path
}

/** Not with assert.equal: it would print megabytes. */
export function sameFiles(actual: string, expected: string): void {
  const [actualBytes, expectedBytes] = [readFileSync(actual), readFileSync(expected)]
  assert(actualBytes.equals(expectedBytes), `${actual} is not what was stored from ${expected}`)
}

export const md5Of = (path: string): string => createHash('md5').update(readFileSync(path)).digest('hex')
