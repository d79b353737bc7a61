/** What `trilog config` and `mq --validate-config` find: every setting with where it comes from, and what is wrong. */
import { BadConfiguration, sourceOf, textOf } from '../config/settings.ts'
import type { Environment, Setting, SettingSource } from '../config/settings.ts'
import { withoutUrlSecrets } from '../url-secrets.ts'
import { columns } from './columns.ts'
import type { Style } from './style.ts'

export interface SettingsReport {
  readonly valid: boolean
  readonly settings: readonly ReportedSetting[]
  /** One sentence each, which begins with what it is about. */
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
}

interface ReportedSetting {
  readonly variable: string
  /** null: the setting has none. */
  readonly flag: string | null
  /** The text that was given, or the default, without secrets; null: unset. */
  readonly value: string | null
  readonly source: SettingSource
}

/** A setting with the names that it has. */
export interface NamedSetting {
  readonly variable: string
  readonly flag: string | null
  readonly setting: Setting<unknown>
}

/** Where values come from, by the names of variables; what comes first wins. */
export interface Sources {
  readonly flags: Environment
  readonly env: Environment
  readonly file: Environment
}

export function reportSettings(
  named: readonly NamedSetting[],
  { flags, env, file }: Sources,
): readonly ReportedSetting[] {
  return named.map(({ variable, flag, setting }) => {
    const source = sourceOf(variable, setting, env, flags, file)
    const given = { flag: flags, environment: env, file, default: {} as Environment }[source][variable]
    return { variable, flag, value: withoutSecrets(variable, setting, textOf(setting, given)), source }
  })
}

/** @param load throws BadConfiguration for the problems */
export function problemsOf(load: () => unknown): readonly string[] {
  try {
    load()
    return []
  } catch (error) {
    if (!(error instanceof BadConfiguration)) throw error
    return error.problems
  }
}

/** For people. */
export function shownReport({ valid, settings, problems, warnings }: SettingsReport, style: Style): string {
  const mistakes = shownMistakes(problems, warnings, style)
  return [...shownSettings(settings, style), '', ...mistakes, shownVerdict(valid, style)].join('\n')
}

export function shownSettings(settings: readonly ReportedSetting[], style: Style): readonly string[] {
  const rows = settings.map(({ variable, flag, value, source }) => [
    flag ?? variable,
    value || style.quiet('unset'),
    source === 'environment' ? variable : source === 'default' ? style.quiet(source) : source,
  ])
  return columns([['setting', 'value', 'from'].map(style.heading), ...rows])
}

export const shownMistakes = (
  problems: readonly string[],
  warnings: readonly string[],
  style: Style,
): readonly string[] => [
  ...warnings.map((warning) => `${style.warning('warning')}: ${warning}`),
  ...problems.map((problem) => `${style.bad('problem')}: ${problem}`),
]

export const shownVerdict = (valid: boolean, style: Style): string =>
  valid ? style.good('valid') : style.bad('invalid')

/** A user and a password before a host, without the beginning of a URL. */
const USER = /(^|[,\s])[^\s/,@:]+:(?!\/\/)[^\s,@]+@/g

/** A URL loses its user, its password and the values of its query. */
const withoutSecrets = (variable: string, { isSecret }: Setting<unknown>, text: string | undefined): string | null => {
  const isCredential = isSecret || variable.endsWith('_HEADERS') // headers are credentials for a collector
  if (text !== undefined && isCredential) return '…'
  return text === undefined ? null : withoutUrlSecrets(text).replaceAll(USER, '$1…@')
}
