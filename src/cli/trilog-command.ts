/** `trilog`: what a command line asks for. Touches nothing but the files that settings name. */
import { SECTIONS, allSettings, flagOf } from '../config/all-settings.ts'
import { brokerSettings } from '../config/broker.ts'
import { belowEnvironment, readConfigFile } from '../config/config-file.ts'
import { EXIT_BAD_CONFIGURATION, loadConfig } from '../config/config.ts'
import type { Config } from '../config/config.ts'
import { SettingProblems, unknownSettings } from '../config/settings.ts'
import type { Environment } from '../config/settings.ts'
import { clusterCommand, clusterFlags } from './cluster-command.ts'
import type { ClusterCommand } from './cluster-command.ts'
import { optionsOf } from './common-options.ts'
import { SHELLS, completionScript, wordsOf } from './completion.ts'
import { LOGS_COMMANDS } from './commands/logs.ts'
import { parseCommandLine, settingsGiven } from './flags.ts'
import type { CommandLine } from './flags.ts'
import { shownRelease } from './release-text.ts'
import type { Release } from './release-text.ts'
import { problemsOf, reportSettings, shownMistakes, shownSettings, shownVerdict } from './settings-report.ts'
import type { Sources } from './settings-report.ts'
import { STORE_COMMANDS, isStoreCommand, storeCommand, storeFlags } from './store-command.ts'
import type { StoreCommand } from './store-command.ts'
import { PLAIN } from './style.ts'
import type { Style } from './style.ts'
import { trilogHelp } from './trilog-help.ts'

/** For stdout. */
export interface Output {
  readonly text: string
  readonly exitCode: number
}

export type TrilogAnswer =
  | { readonly kind: 'start'; readonly config: Config }
  /** The places that the settings name are to be checked. `answer` takes their problems, and puts those of the settings before them. */
  | { readonly kind: 'check'; readonly settings: Environment; readonly answer: (problems: readonly string[]) => Output }
  /** The settings are valid: the services that they name are to be asked. */
  | { readonly kind: 'health'; readonly config: Config; readonly json: boolean }
  /** `trilog logs`: asks a log store. */
  | { readonly kind: 'logs' }
  /** About a data directory or a backup. */
  | { readonly kind: 'store'; readonly command: StoreCommand }
  /** `trilog cluster`: asks a node. */
  | { readonly kind: 'cluster'; readonly command: ClusterCommand }
  | ({ readonly kind: 'say' } & Output)

const COMMANDS = ['start', 'check', 'config', 'health', 'completion'] as const
type Command = (typeof COMMANDS)[number]

/** The group of commands that ask a log store. */
const LOGS = 'logs'
/** The group of commands that ask a node of a cluster. */
const CLUSTER = 'cluster'

const OUTPUTS = ['text', 'json']
const NAMED = Object.entries(allSettings).map(([variable, setting]) => ({ variable, flag: flagOf(variable), setting }))
const SETTING_FLAGS = NAMED.map(({ flag }) => flag)
const isRepeatable = (variable: string): boolean =>
  variable in brokerSettings && brokerSettings[variable as keyof typeof brokerSettings].repeatable
const KINDS = {
  switches: ['--help', '--version'],
  withValue: [...SETTING_FLAGS, '--output'],
  repeatable: Object.keys(allSettings).filter(isRepeatable).map(flagOf),
}

/**
 * @param args behind the command's own name
 * @param style of text for people
 * @throws BadConfiguration that names every mistake
 */
export function trilogCommand(
  args: readonly string[],
  env: Environment,
  release: Release,
  style: Style = PLAIN,
): TrilogAnswer {
  const [name, ...rest] = args
  if (name === LOGS) return { kind: 'logs' }
  if (name === CLUSTER) {
    const asked = clusterCommand(rest, env)
    const exitCode = rest.length === 0 ? EXIT_BAD_CONFIGURATION : 0
    return typeof asked === 'string' ? { kind: 'say', text: asked, exitCode } : { kind: 'cluster', command: asked }
  }
  if (isStoreCommand(name)) {
    const asked = storeCommand(name, rest)
    return typeof asked === 'string' ? { kind: 'say', text: asked, exitCode: 0 } : { kind: 'store', command: asked }
  }
  const problems = new SettingProblems()
  const line = parseCommandLine(args, KINDS, problems, 'trilog')
  const command = commandOf(line, problems)
  const json = wantsJson(line, problems)
  if (line.flags.has('--version')) return said(problems, shownRelease('trilog', release, json))
  if (line.flags.has('--help')) return said(problems, trilogHelp(style))
  if (command === null) {
    problems.throwIfAny()
    return { kind: 'say', text: trilogHelp(style), exitCode: EXIT_BAD_CONFIGURATION }
  }
  if (command === 'completion') return completion(line.operands.slice(1), problems)
  return withSettings(command, line, { env, json, problems, style })
}

function commandOf({ operands: [name, ...rest] }: CommandLine, problems: SettingProblems): Command | null {
  const command = COMMANDS.find((each) => each === name) ?? null
  if (name === LOGS || name === CLUSTER || isStoreCommand(name))
    problems.add(`trilog ${name}`, 'must stand before its flags')
  else if (name !== undefined && command === null) problems.add('trilog', `has no command ${name}: see trilog --help`)
  if (command !== null && command !== 'completion') {
    for (const operand of rest) problems.add(`trilog ${command}`, `takes no ${operand}: see trilog --help`)
  }
  return command
}

function wantsJson({ flags, operands }: CommandLine, problems: SettingProblems): boolean {
  const output = flags.get('--output')?.[0]
  if (output === undefined) return false
  if (!OUTPUTS.includes(output)) problems.add('--output', `must be ${OUTPUTS.join(' or ')}`)
  if (!flags.has('--version') && !['check', 'config', 'health'].includes(operands[0] ?? '')) {
    problems.add('--output', 'goes with check, config, health or --version')
  }
  return output === 'json'
}

function said(problems: SettingProblems, text: string): TrilogAnswer {
  problems.throwIfAny()
  return { kind: 'say', text, exitCode: 0 }
}

interface Asked {
  readonly env: Environment
  readonly json: boolean
  /** Problems of the command line. */
  readonly problems: SettingProblems
  readonly style: Style
}

function withSettings(command: Exclude<Command, 'completion'>, line: CommandLine, asked: Asked): TrilogAnswer {
  const { env, json, problems, style } = asked
  const flags = settingsGiven(line, NAMED)
  const told = { ...env, ...flags }
  const sources: Sources = { flags, env, file: readConfigFile(told, problems) }
  const settings = belowEnvironment(sources.file, told)
  const load = (): Config => loadConfig(settings, problems)
  if (command === 'start') return { kind: 'start', config: load() }
  if (command === 'health') return { kind: 'health', config: load(), json }

  const warnings = SECTIONS.flatMap(({ prefix, settings: table }) =>
    prefix === null ? [] : unknownSettings(table, prefix, env).map((variable) => `${variable} is no setting`),
  )
  if (command === 'config') {
    const found = problemsOf(load)
    const report = reportSettings(NAMED, sources)
    const text = json
      ? JSON.stringify({ valid: found.length === 0, settings: report, problems: found, warnings })
      : [...shownSettings(report, style), ...shownMistakes(found, warnings, style)].join('\n')
    return { kind: 'say', text, exitCode: exitCodeOf(found) }
  }
  const answer = (ofPlaces: readonly string[]): Output => {
    const found = [...problemsOf(load), ...ofPlaces]
    const valid = found.length === 0
    const text = json
      ? JSON.stringify({ valid, problems: found, warnings })
      : [...shownMistakes(found, warnings, style), shownVerdict(valid, style)].join('\n')
    return { text, exitCode: exitCodeOf(found) }
  }
  return { kind: 'check', settings, answer }
}

const exitCodeOf = (problems: readonly string[]): number => (problems.length === 0 ? 0 : EXIT_BAD_CONFIGURATION)

function completion(operands: readonly string[], problems: SettingProblems): TrilogAnswer {
  const shell = SHELLS.find((each) => each === operands[0])
  if (shell === undefined || operands.length > 1)
    problems.add('trilog completion', `needs one of: ${SHELLS.join(', ')}`)
  problems.throwIfAny()
  const words = new Map<string, readonly string[]>([
    ...wordsOf(LOGS_COMMANDS, optionsOf, [...COMMANDS, ...STORE_COMMANDS, CLUSTER, '--help', '--version']),
    ['start', SETTING_FLAGS],
    ['check', [...SETTING_FLAGS, '--output']],
    ['config', [...SETTING_FLAGS, '--output']],
    ['health', [...SETTING_FLAGS, '--output']],
    ['completion', SHELLS],
    [CLUSTER, ['status', 'hand-over', ...clusterFlags()]],
    ...STORE_COMMANDS.map((name) => [name, storeFlags(name)] as const),
  ])
  return { kind: 'say', text: completionScript('trilog', shell!, words).trimEnd(), exitCode: 0 }
}
