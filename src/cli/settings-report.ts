/** What `mq --validate-config` finds: every setting with where it comes from, and what is wrong. */
import { brokerSettings } from '../config/broker.ts'
import type { BrokerFlags } from '../config/broker.ts'
import { processSettings } from '../config/process.ts'
import { BadConfiguration, sourceOf, textOf, unknownSettings } from '../config/settings.ts'
import type { Environment } from '../config/settings.ts'
import { columns } from './columns.ts'

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
  /** As given, or as one would give it; null: unset. */
  readonly value: string | null
  readonly source: 'flag' | 'environment' | 'default'
}

/** @param load throws what is wrong */
export function reportSettings(env: Environment, flags: BrokerFlags, load: () => unknown): SettingsReport {
  const problems = problemsOf(load)
  const given: Environment = flags
  const settings = Object.entries({ ...brokerSettings, ...processSettings }).map(([variable, setting]) => ({
    variable,
    flag: 'flag' in setting ? setting.flag : null,
    value: textOf(setting, given[variable] ?? env[variable]) ?? null,
    source: sourceOf(variable, setting, env, given),
  }))
  const warnings = unknownSettings(brokerSettings, 'MQ_', env).map((variable) => `${variable} is no setting`)
  return { valid: problems.length === 0, settings, problems, warnings }
}

function problemsOf(load: () => unknown): readonly string[] {
  try {
    load()
    return []
  } catch (error) {
    if (!(error instanceof BadConfiguration)) throw error
    return error.problems
  }
}

/** For people. */
export function shownReport({ valid, settings, problems, warnings }: SettingsReport): string {
  const rows = settings.map(({ variable, flag, value, source }) => [
    flag ?? variable,
    value || 'unset',
    source === 'environment' ? variable : source,
  ])
  return [
    ...columns([['setting', 'value', 'from'], ...rows]),
    '',
    ...warnings.map((warning) => `warning: ${warning}`),
    ...problems.map((problem) => `problem: ${problem}`),
    valid ? 'valid' : 'invalid',
  ].join('\n')
}
