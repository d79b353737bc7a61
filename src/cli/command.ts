/**
 * A command of `mq` or of `trilog logs` as data: how it is written, where it works, what it does. `program.ts` makes the command line of it,
 * `completion.ts` the completion, and tests read the table.
 */
import { NAME_RULE, STREAM_NAME_RULE, TOKEN_RULE, isName, isStreamName, isToken } from '../broker/names.ts'
import type { Environment } from '../config/settings.ts'
import { CliFailure, usageFailure } from './failure.ts'
import type { Target } from './http-target.ts'
import type { StoreTarget } from './store-target.ts'
import type { Style } from './style.ts'

/** `local`: on a data directory; `remote`: on a node, by `--target`; `store`: on a log store; `nowhere`: needs none of them. */
type Place = 'local' | 'remote' | 'store' | 'nowhere'

interface CommandOption {
  /** As commander takes them: `--limit <N>`. */
  readonly flags: string
  readonly description: string
  readonly required?: boolean
}

export interface Command {
  /** Below the program: `cli stream create`. */
  readonly name: string
  /** `<stream>`, `<group>` … */
  readonly operands: readonly string[]
  readonly options: readonly CommandOption[]
  readonly places: readonly Place[]
  readonly description: string
  /** Whole command lines. */
  readonly examples: readonly string[]
  /** @throws CliFailure */
  run(call: Call): Promise<Answer>
}

export interface Answer {
  /** 1: the answer was given, and says that something is wrong. Default: 0. */
  readonly exitCode?: 0 | 1
  /** With `--output json`; undefined: everything was written as it came. */
  readonly json?: unknown
  /** For people. */
  text(style: Style): readonly string[]
}

/** The world around a command. */
export interface World {
  readonly env: Environment
  readonly version: string
  readonly nowMs: () => number
  /** Aborted when the user or the caller ends the command. */
  readonly stop: AbortSignal
  /** One line for stdout, at once. Resolves when there is room for more. */
  write(line: string): Promise<void>
  /** One line for stderr: what the answer does not say. */
  writeToStderr(line: string): void
  /** Resolves when the time is over or the command is ended. */
  pause(ms: number): Promise<void>
  readonly style: Style
}

export type Where =
  | { readonly place: 'local'; readonly directory: string }
  | { readonly place: 'remote'; readonly target: Target }
  | { readonly place: 'store'; readonly store: StoreTarget }

export interface CallParts {
  readonly world: World
  readonly operands: ReadonlyMap<string, string>
  readonly options: Readonly<Record<string, unknown>>
  readonly json: boolean
  readonly where: () => Where
}

/** A command line, read with its types. A command reads everything before it does anything, so that a wrong command line changes nothing. */
export class Call {
  readonly world: World
  readonly json: boolean
  readonly #parts: CallParts

  constructor(parts: CallParts) {
    this.world = parts.world
    this.json = parts.json
    this.#parts = parts
  }

  /** @throws CliFailure when both places are named, or the target is not valid */
  get where(): Where {
    return this.#parts.where()
  }

  /** The node that the command asks. @throws CliFailure when none is named */
  get target(): Target {
    const { where } = this
    if (where.place === 'remote') return where.target
    throw usageFailure('this command asks a running node: give --target http://host:port')
  }

  /** The log store that the command asks. @throws CliFailure when the options that name it are wrong */
  get store(): StoreTarget {
    const { where } = this
    if (where.place === 'store') return where.store
    throw usageFailure('this command asks a log store: give --target http://host:port')
  }

  /** As it was written; null: left out. */
  argument(name: string): string | null {
    return this.#parts.operands.get(name) ?? null
  }

  operand(name: string): string {
    const text = this.#parts.operands.get(name) ?? ''
    const [isValid, rule] = name === 'stream' ? [isStreamName, STREAM_NAME_RULE] : [isToken, TOKEN_RULE]
    if (!isValid(text)) throw usageFailure(`<${name}> ${rule}`)
    return text
  }

  /** An operand that is an unsigned integer. */
  number(name: string): number {
    return unsigned(`<${name}>`, this.operand(name))
  }

  isSet(flag: string): boolean {
    return this.#parts.options[camelCase(flag)] === true
  }

  /** Null: not given. It may be empty. */
  text(flag: string): string | null {
    const value = this.#parts.options[camelCase(flag)]
    return typeof value === 'string' ? value : null
  }

  /** Null: not given. */
  label(flag: string): string | null {
    const text = this.text(flag)
    if (text === null || isName(text)) return text
    throw usageFailure(`--${flag} ${NAME_RULE}`)
  }

  /** The value of an option that commander requires. */
  requiredLabel(flag: string): string {
    const label = this.label(flag)
    if (label === null) throw usageFailure(`--${flag} is missing`)
    return label
  }

  /** Null: not given. */
  unsigned(flag: string): number | null {
    const text = this.text(flag)
    return text === null ? null : unsigned(`--${flag}`, text)
  }

  positive(flag: string, fallback: number): number {
    const number = this.unsigned(flag) ?? fallback
    if (number === 0) throw usageFailure(`--${flag} must be a positive integer`)
    return number
  }
}

export function unsigned(name: string, text: string): number {
  const number = /^\d+$/.test(text) ? Number(text) : NaN
  if (Number.isSafeInteger(number)) return number
  throw usageFailure(`${name} must be an unsigned integer`)
}

/** As commander names an option. */
export const camelCase = (flag: string): string => flag.replaceAll(/-(.)/g, (_, letter: string) => letter.toUpperCase())

export const isFailure = (error: unknown): error is CliFailure => error instanceof CliFailure
