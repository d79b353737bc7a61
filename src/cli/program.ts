/**
 * The command line of `mq cli` and `mq diagnostics`, made of the table of commands.
 *
 * P1  where a command works, and how it answers, may be said before it or behind it: what stands behind it wins. The exception is
 *     `diagnostics collect`, whose own `--output` is a file
 * P2  a command line that is wrong is told before anything is done
 */
import { Command as Commander, CommanderError } from 'commander'
import type { Answer, Command, Where, World } from './command.ts'
import { Call, camelCase } from './command.ts'
import { COMMANDS } from './commands.ts'
import { COMMON, DATA_DIRECTORY, REMOTE_NAMES, commonOf } from './common-options.ts'
import { usageFailure } from './failure.ts'
import { Target } from './http-target.ts'
import { readTargetTls } from './target-tls.ts'

const OUTPUTS = ['text', 'json']

export interface Chosen {
  readonly json: boolean
  readonly answer: Answer
}

/** What commander wrote: help goes to stdout, what is wrong to stderr. */
export interface Said {
  readonly stdout: (text: string) => void
  readonly stderr: (text: string) => void
}

const GROUPS: Readonly<Record<string, string>> = {
  cli: 'Work with streams, on a data directory or on a node',
  'cli stream': 'Streams of a data directory',
  'cli cursor': 'Cursors of consumer groups',
  'cli consumer-group': 'Consumer groups of a node',
  'cli lease': 'Leases of consumer groups',
  'cli diagnostics': 'What support needs to know',
  'cli release': 'Drafts of documents that go with a release',
  diagnostics: 'What support needs to know, in one file',
}

/**
 * @param args behind `mq`
 * @returns what the command answered; null: help was shown
 * @throws CliFailure, CommanderError when the command line is wrong (P2)
 */
export async function runCommand(args: readonly string[], world: World, said: Said): Promise<Chosen | null> {
  let chosen: Chosen | null = null
  const program = programOf(said, async (command, names, operands, given) => {
    const json = isJson(command, given)
    checkPlace(command, given)
    const call = new Call({
      world,
      json,
      operands: new Map(names.map((name, index) => [name, operands[index]!])),
      options: given.own,
      where: () => whereOf(given, world),
    })
    chosen = { json, answer: await command.run(call) }
  })
  try {
    await program.parseAsync([...args], { from: 'user' })
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return null
    throw error
  }
  return chosen
}

type Options = Readonly<Record<string, unknown>>

/** Options of the command, and those of all groups above it, the outermost first. */
interface Given {
  readonly own: Options
  readonly above: Options
}

type Run = (command: Command, names: readonly string[], operands: readonly string[], given: Given) => Promise<void>

function programOf(said: Said, run: Run): Commander {
  const program = new Commander('mq').exitOverride().enablePositionalOptions()
  program.configureOutput({ writeOut: said.stdout, writeErr: said.stderr })
  const groups = new Map([['', program]])
  for (const command of COMMANDS) {
    const words = command.name.split(' ')
    const parent = groupOf(groups, words.slice(0, -1))
    const leaf = parent.command(words.at(-1)!).description(command.description)
    for (const operand of command.operands) leaf.argument(operand)
    for (const { flags, description, required } of command.options) {
      if (required) leaf.requiredOption(flags, description)
      else leaf.option(flags, description)
    }
    for (const name of commonOf(command)) leaf.option(COMMON[name].flags, COMMON[name].description)
    leaf.allowExcessArguments(false)
    leaf.addHelpText('after', examplesText(command.examples))
    const names = command.operands.map((operand) => operand.replaceAll(/[<>]/g, ''))
    leaf.action(async () => {
      await run(command, names, leaf.args, { own: leaf.opts(), above: optionsAbove(leaf) })
    })
  }
  return program
}

const examplesText = (examples: readonly string[]): string =>
  ['', examples.length === 1 ? 'Example:' : 'Examples:', ...examples.map((example) => `  ${example}`)].join('\n')

function groupOf(groups: Map<string, Commander>, words: readonly string[]): Commander {
  const name = words.join(' ')
  const known = groups.get(name)
  if (known) return known
  const group = groupOf(groups, words.slice(0, -1)).command(words.at(-1)!)
  group.description(GROUPS[name]!).enablePositionalOptions()
  for (const { flags, description } of Object.values(COMMON)) group.option(flags, description)
  const inGroup = COMMANDS.filter((command) => command.name.startsWith(`${name} `))
  const examples = inGroup.slice(0, EXAMPLES_MAX).map((command) => command.examples[0]!)
  group.addHelpText('after', `${examplesText(examples)}\n\n${EXIT_CODES}`)
  groups.set(name, group)
  return group
}

const EXAMPLES_MAX = 10
const EXIT_CODES = 'Exit codes: 0, 1 (the broker or the data said no), 2 (usage or configuration).'

function optionsAbove(leaf: Commander): Options {
  const above: Options[] = []
  for (let at = leaf.parent; at; at = at.parent) above.unshift(at.opts())
  return Object.assign({}, ...above) as Options
}

/** P1 */
function isJson(command: Command, { own, above }: Given): boolean {
  const output = (commonOf(command).includes('output') ? own['output'] : undefined) ?? above['output'] ?? 'text'
  if (typeof output === 'string' && OUTPUTS.includes(output)) return output === 'json'
  throw usageFailure(`--output must be ${OUTPUTS.join(' or ')}`)
}

const valueOf = (name: string, { own, above }: Given): string | undefined => {
  const value = own[camelCase(name)] ?? above[camelCase(name)]
  return typeof value === 'string' ? value : undefined
}

function checkPlace({ name, places }: Command, given: Given): void {
  const isRemote = valueOf('target', given) !== undefined
  const isLocal = valueOf('data-dir', given) !== undefined
  const said = name.replace(/^cli /, '')
  if (isRemote && isLocal) throw usageFailure('--target and --data-dir exclude each other')
  if (isRemote && !places.includes('remote')) {
    throw usageFailure(
      `${said} is not supported through --target`,
      'Use it without --target; --help shows what a node can be asked.',
    )
  }
  if (isLocal && !places.includes('local')) throw usageFailure(`${said} does not work on a data directory`)
  if (!isRemote && places.every((place) => place === 'remote')) {
    throw usageFailure(`${said} asks a node: --target http://host:port is missing`)
  }
  const lonely = isRemote ? undefined : REMOTE_NAMES.find((option) => valueOf(option, given) !== undefined)
  if (lonely !== undefined) throw usageFailure(`--${lonely} goes with --target`)
}

function whereOf(given: Given, { env }: World): Where {
  const url = valueOf('target', given)
  if (url !== undefined) {
    const key = valueOf('api-key', given) ?? (env['MQ_API_KEY'] || null)
    const file = (name: string): string | null => valueOf(name, given) ?? null
    const tls = readTargetTls({ ca: file('tls-ca'), cert: file('tls-cert'), key: file('tls-key') })
    return { place: 'remote', target: new Target(url, key, tls) }
  }
  const directory = valueOf('data-dir', given) ?? (env['MQ_DATA_DIR'] || DATA_DIRECTORY)
  if (directory.trim() === '') throw usageFailure('--data-dir must name a directory')
  return { place: 'local', directory }
}
