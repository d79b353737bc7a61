/**
 * Settings from the file that TRILOG_CONFIG names: `NAME=value` lines with the names of the environment variables, as in the files that
 * Docker (`--env-file`) and systemd (`EnvironmentFile=`) read.
 *
 * G1  a variable of the environment wins over its line in the file
 * G2  the file may set only settings that exist: a misspelt name is a mistake. As the file may hold secrets, messages repeat nothing of it, except text
 *     before a `=` that is written like the name of a setting
 */
import { StoreError } from '../errors.ts'
import { allSettings } from './all-settings.ts'
import { processSettings } from './process.ts'
import { readSettingFile } from './setting-file.ts'
import { isGiven, readSettings } from './settings.ts'
import type { Environment, SettingProblems } from './settings.ts'

const LINE = /^(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)$/s
const LIKE_A_NAME = /^[A-Z][A-Z0-9]*(_[A-Z0-9]+)+$/
const SETTING = 'TRILOG_CONFIG'

/** @returns what the file sets; nothing when there is none, or when it cannot be read, which is a problem */
export function readConfigFile(env: Environment, problems: SettingProblems): Environment {
  const { TRILOG_CONFIG: path } = readSettings({ [SETTING]: processSettings.TRILOG_CONFIG }, env, problems)
  if (path === null || path === undefined) return {}
  try {
    return parseConfigFile(readSettingFile(path), problems, path)
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    problems.add(SETTING, error.message)
    return {}
  }
}

/** G2. Every wrong line is a separate problem. */
export function parseConfigFile(text: string, problems: SettingProblems, file = 'a file'): Environment {
  const found = new Map<string, string>()
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    const trimmed = line.trim()
    if (trimmed === '' || trimmed.startsWith('#')) continue
    const [, name, value] = LINE.exec(trimmed) ?? []
    const mistake = (what: string): void =>
      problems.add(SETTING, `names ${file} with a mistake in line ${index + 1}: ${what}`)
    if (name === undefined || value === undefined) mistake('a line is NAME=value, empty, or begins with #')
    else if (name === SETTING) mistake('a file of settings must not name another one')
    else if (!(name in allSettings)) mistake(`there is no setting ${LIKE_A_NAME.test(name) ? name : 'of this name'}`)
    else if (found.has(name)) mistake(`${name} is set twice`)
    else found.set(name, unquoted(value))
  }
  return Object.fromEntries(found)
}

/** G1 */
export function belowEnvironment(file: Environment, env: Environment): Environment {
  const merged: Record<string, string | undefined> = { ...env }
  for (const [name, value] of Object.entries(file)) if (!isGiven(allSettings[name]!, env[name])) merged[name] = value
  return merged
}

function unquoted(value: string): string {
  const [, , inner] = /^(["'])(.*)\1$/s.exec(value) ?? []
  return inner ?? value
}
