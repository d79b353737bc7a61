/**
 * A command line made of a table of commands: that of `mq cli` and `mq diagnostics`, and that of `trilog logs`.
 *
 * P1  where a command works, and how it answers, may be said before it or behind it: what stands behind it wins. The exception is
 *     `diagnostics collect`, whose own `--output` is a file
 * P2  a wrong command line is reported before anything is done
 */
import { Command as Commander, CommanderError } from 'commander'
import type { Answer, Command, Where, World } from './command.ts'
import { Call, camelCase } from './command.ts'
import { COMMON, commonOf } from './common-options.ts'
import type { CommonName } from './common-options.ts'
import { usageFailure } from './failure.ts'

const OUTPUTS = ['text', 'json']

export interface Chosen {
  readonly json: boolean
  readonly answer: Answer
}

/** What commander wrote: help goes to stdout, what is wrong to stderr. */
export interface OutputWriters {
  readonly stdout: (text: string) => void
  readonly stderr: (text: string) => void
}

/** Commands that belong together, and how they reach what they work on. */
export interface Program {
  /** `mq`, `trilog`. */
  readonly name: string
  readonly commands: readonly Command[]
  /** Description of each group, such as `cli stream`. */
  readonly groups: Readonly<Record<string, string>>
  /** Options that may also stand before a command (P1). */
  readonly groupOptions: readonly CommonName[]
  /** For the help. */
  readonly exitCodes: string
  /**
   * @returns gives what the command works on; called when the command needs it
   * @throws CliFailure when the options do not go together (P2)
   */
  placeOf(command: Command, valueOf: ValueOf, world: World): () => Where
}

/** The value of an option, said before or behind the command; undefined: not said. */
export type ValueOf = (name: string) => string | undefined

/**
 * @param args behind the program's name
 * @returns what the command answered; null: help was shown
 * @throws CliFailure, CommanderError when the command line is wrong (P2)
 */
export async function runCommand(
  program: Program,
  args: readonly string[],
  world: World,
  output: OutputWriters,
): Promise<Chosen | null> {
  let chosen: Chosen | null = null
  const commander = commanderOf(program, output, async (command, names, operands, given) => {
    const json = isJson(command, given)
    const where = program.placeOf(command, (name) => valueOf(name, given), world)
    const call = new Call({
      world,
      json,
      operands: new Map(
        names.flatMap((name, index) => (operands[index] === undefined ? [] : [[name, operands[index]]])),
      ),
      options: given.own,
      where,
    })
    chosen = { json, answer: await command.run(call) }
  })
  try {
    await commander.parseAsync([...args], { from: 'user' })
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

function commanderOf(program: Program, output: OutputWriters, run: Run): Commander {
  const root = new Commander(program.name).exitOverride().enablePositionalOptions()
  root.configureOutput({ writeOut: output.stdout, writeErr: output.stderr })
  const groups = new Map([['', root]])
  for (const command of program.commands) {
    const words = command.name.split(' ')
    const parent = groupOf(program, groups, words.slice(0, -1))
    const leaf = parent.command(words.at(-1)!).description(command.description)
    for (const operand of command.operands) leaf.argument(operand)
    for (const { flags, description, required } of command.options) {
      if (required) leaf.requiredOption(flags, description)
      else leaf.option(flags, description)
    }
    for (const name of commonOf(command)) leaf.option(COMMON[name].flags, COMMON[name].description)
    leaf.allowExcessArguments(false)
    leaf.addHelpText('after', examplesText(command.examples))
    const names = command.operands.map((operand) => operand.replaceAll(/[<>[\]]/g, ''))
    leaf.action(async () => {
      await run(command, names, leaf.args, { own: leaf.opts(), above: optionsAbove(leaf) })
    })
  }
  return root
}

const examplesText = (examples: readonly string[]): string =>
  ['', examples.length === 1 ? 'Example:' : 'Examples:', ...examples.map((example) => `  ${example}`)].join('\n')

function groupOf(program: Program, groups: Map<string, Commander>, words: readonly string[]): Commander {
  const name = words.join(' ')
  const known = groups.get(name)
  if (known) return known
  const group = groupOf(program, groups, words.slice(0, -1)).command(words.at(-1)!)
  group.description(program.groups[name]!).enablePositionalOptions()
  for (const option of program.groupOptions) group.option(COMMON[option].flags, COMMON[option].description)
  const inGroup = program.commands.filter((command) => command.name.startsWith(`${name} `))
  const examples = inGroup.slice(0, EXAMPLES_MAX).map((command) => command.examples[0]!)
  group.addHelpText('after', `${examplesText(examples)}\n\n${program.exitCodes}`)
  groups.set(name, group)
  return group
}

const EXAMPLES_MAX = 10

function optionsAbove(leaf: Commander): Options {
  const above: Options[] = []
  for (let at = leaf.parent; at; at = at.parent) above.unshift(at.opts())
  return Object.assign({}, ...above) as Options // each of them is one
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
