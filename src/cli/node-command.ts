/**
 * The part of `mq` that is about the node: what a command line asks for. Touches nothing but the files that settings name.
 * Commands of a group go to `run-cli.ts`.
 */
import { brokerSettings } from '../config/broker.ts'
import type { BrokerFlags } from '../config/broker.ts'
import { belowEnvironment, readConfigFile } from '../config/config-file.ts'
import { clusterSettings } from '../config/cluster.ts'
import { EXIT_BAD_CONFIGURATION, loadNodeConfig } from '../config/config.ts'
import type { Config } from '../config/config.ts'
import { processSettings } from '../config/process.ts'
import { SettingProblems, unknownSettings } from '../config/settings.ts'
import type { Environment } from '../config/settings.ts'
import { parseCommandLine, settingsGiven } from './flags.ts'
import type { CommandLine } from './flags.ts'
import { nodeHelp } from './node-help.ts'
import { shownRelease } from './release-text.ts'
import type { Release } from './release-text.ts'
import { problemsOf, reportSettings, shownReport } from './settings-report.ts'
import { PLAIN } from './style.ts'
import type { Style } from './style.ts'

export type NodeAnswer =
  | { readonly kind: 'start'; readonly config: Config }
  /** A command of a group: `mq cli …`. */
  | { readonly kind: 'group' }
  /** For stdout. */
  | { readonly kind: 'say'; readonly text: string; readonly exitCode: number }

const GROUPS = new Set(['cli', 'diagnostics', 'completion'])
const NAMED = Object.entries({ ...brokerSettings, ...processSettings, ...clusterSettings }).map(
  ([variable, setting]) => ({
    variable,
    flag: 'flag' in setting ? setting.flag : null,
    setting,
  }),
)
const OUTPUTS = ['text', 'json']

const settings = Object.entries(brokerSettings)
const KINDS = {
  switches: ['--help', '--version', '--validate-config'],
  withValue: [...settings.map(([, { flag }]) => flag), '--output'],
  repeatable: settings.filter(([, { repeatable }]) => repeatable).map(([, { flag }]) => flag),
}

/**
 * @param args after the command's own name
 * @param style of text for people
 * @throws BadConfiguration that names every mistake
 */
export function nodeCommand(
  args: readonly string[],
  env: Environment,
  release: Release,
  style: Style = PLAIN,
): NodeAnswer {
  if (GROUPS.has(args[0] ?? '')) return { kind: 'group' }
  const problems = new SettingProblems()
  const line = parseCommandLine(args, KINDS, problems, 'mq')
  const json = wantsJson(line, problems)
  for (const operand of line.operands) problems.add('mq', `has no command ${operand}: see mq --help`)
  const given: BrokerFlags = settingsGiven(line, NAMED)
  const file = readConfigFile(env, problems)
  const load = (): Config => loadNodeConfig(belowEnvironment(file, env), given, problems)

  if (line.flags.has('--validate-config')) {
    const found = problemsOf(load)
    const report = {
      valid: found.length === 0,
      settings: reportSettings(NAMED, { flags: given, env, file }),
      problems: found,
      warnings: unknownSettings(brokerSettings, 'MQ_', env).map((variable) => `${variable} is no setting`),
    }
    const text = json ? JSON.stringify(report) : shownReport(report, style)
    return { kind: 'say', text, exitCode: report.valid ? 0 : EXIT_BAD_CONFIGURATION }
  }
  if (line.flags.has('--help') || line.flags.has('--version')) {
    problems.throwIfAny()
    return { kind: 'say', text: line.flags.has('--help') ? nodeHelp() : shownRelease('mq', release, json), exitCode: 0 }
  }
  return { kind: 'start', config: load() }
}

function wantsJson({ flags }: CommandLine, problems: SettingProblems): boolean {
  const output = flags.get('--output')?.[0]
  if (output === undefined) return false
  if (!OUTPUTS.includes(output)) problems.add('--output', `must be ${OUTPUTS.join(' or ')}`)
  if (!flags.has('--version') && !flags.has('--validate-config')) {
    problems.add('--output', 'goes with --version or --validate-config')
  }
  return output === 'json'
}
