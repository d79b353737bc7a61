/** A command line as data. Unlike `parseArgs` of node:util, which stops at the first mistake, it tells every one. */
import type { Environment, SettingProblems } from '../config/settings.ts'

/** Names are as on the command line: `--data-dir`. */
export interface FlagKinds {
  readonly switches: readonly string[]
  readonly withValue: readonly string[]
  /** Flags with a value that may be given several times. */
  readonly repeatable: readonly string[]
}

export interface CommandLine {
  /** The values of each flag that was given, in order; none for a switch. */
  readonly flags: ReadonlyMap<string, readonly string[]>
  /** Operands, in their order. */
  readonly operands: readonly string[]
}

/**
 * What is wrong goes to the problems, and is left out of the result.
 *
 * @param command name of the command, for messages
 */
export function parseCommandLine(
  args: readonly string[],
  kinds: FlagKinds,
  problems: SettingProblems,
  command: string,
): CommandLine {
  const flags = new Map<string, readonly string[]>()
  const operands: string[] = []
  const rest = [...args]
  const nextValue = (): string => (rest[0]?.startsWith('-') ? '' : (rest.shift() ?? ''))
  for (let argument = rest.shift(); argument !== undefined; argument = rest.shift()) {
    const [, flag, inline] = /^(-[^=]*)(?:=(.*))?$/s.exec(argument) ?? []
    if (flag === undefined) {
      operands.push(argument)
    } else if (kinds.switches.includes(flag)) {
      if (inline === undefined) flags.set(flag, [])
      else problems.add(flag, 'takes no value')
    } else {
      const value = inline ?? nextValue() // of an unknown flag too: it is no operand
      const before = flags.get(flag) ?? []
      if (!kinds.withValue.includes(flag)) problems.add(flag, `is no flag of ${command}: see ${command} --help`)
      else if (value.trim() === '') problems.add(flag, 'needs a value')
      else if (before.length > 0 && !kinds.repeatable.includes(flag)) problems.add(flag, 'must be given once')
      else flags.set(flag, [...before, value])
    }
  }
  return { flags, operands }
}

/** Settings that were given by their flags, by the names of their variables; a repeated flag is a list with commas. */
export function settingsGiven(
  { flags }: CommandLine,
  named: readonly { readonly variable: string; readonly flag: string | null }[],
): Environment {
  return Object.fromEntries(
    named.flatMap(({ variable, flag }) => {
      const values = flag === null ? undefined : flags.get(flag)
      return values ? [[variable, values.join(',')]] : []
    }),
  )
}
