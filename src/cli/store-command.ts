/** `trilog backup`, `restore` and `inspect`: what a command line asks for. Touches nothing. */
import { SettingProblems } from '../config/settings.ts'
import { parseCommandLine } from './flags.ts'
import type { CommandLine, FlagKinds } from './flags.ts'

interface Common {
  readonly json: boolean
}

/** A directory, or `s3://bucket/prefix` at the endpoint; null: where the SDK finds one. */
export interface BackupPlace {
  readonly place: string
  readonly endpoint: string | null
}

export type StoreCommand = Common &
  (
    | {
        readonly kind: 'backup'
        readonly to: BackupPlace
        readonly dataDirectory: string
        readonly replicas: readonly string[]
        readonly keep: number | null
        /** Null: as fast as it goes. */
        readonly bytesPerSecond: number | null
      }
    | { readonly kind: 'check'; readonly from: BackupPlace }
    | {
        readonly kind: 'restore'
        readonly from: BackupPlace
        readonly dataDirectory: string
        readonly service: string | null
        readonly snapshot: number | null
        readonly position: number | null
      }
    | { readonly kind: 'inspect'; readonly dataDirectory: string }
  )

export const STORE_COMMANDS = ['backup', 'restore', 'inspect'] as const
export type StoreCommandName = (typeof STORE_COMMANDS)[number]

const FLAGS: Readonly<Record<StoreCommandName, FlagKinds>> = {
  backup: {
    switches: ['--check', '--help'],
    withValue: [
      '--data-dir',
      '--to',
      '--replica-dir',
      '--keep',
      '--max-bytes-per-second',
      '--endpoint-url',
      '--output',
    ],
    repeatable: ['--replica-dir'],
  },
  restore: {
    switches: ['--check', '--help'],
    withValue: ['--from', '--data-dir', '--service', '--snapshot', '--to-position', '--endpoint-url', '--output'],
    repeatable: [],
  },
  inspect: { switches: ['--help'], withValue: ['--output'], repeatable: [] },
}

/** Every flag of each, for the completion of shells. */
export const storeFlags = (name: StoreCommandName): readonly string[] => [
  ...FLAGS[name].withValue,
  ...FLAGS[name].switches,
]

const HELP: Readonly<Record<StoreCommandName, string>> = {
  backup: `trilog backup --data-dir <DIRECTORY> --to <PLACE>   copy the data of a node while it runs
trilog backup --check --to <PLACE>                  read every backup there and compare it with its checksums

  --data-dir <DIRECTORY>     data directory of one service, or a directory with a folder for each service
  --to <PLACE>               a directory, or s3://bucket/prefix; it must be empty before the first backup
  --replica-dir <DIRECTORY>  replica directory of the same log; may be repeated
  --keep <COUNT>             keep the newest COUNT snapshots and remove the others; default: keep all
  --max-bytes-per-second <N> copy no faster than this, to leave the disk to the node
  --endpoint-url <URL>       URL of the S3-compatible store; credentials and region are those of the AWS variables and profiles
  --output <text|json>       default: text

Exit code 1: the store is damaged (what can be read of it is copied), or the backup failed.`,
  restore: `trilog restore --from <PLACE> --data-dir <DIRECTORY>  create a data directory from a backup
trilog restore --check --from <PLACE>                 as trilog backup --check

  --from <PLACE>           a directory, or s3://bucket/prefix
  --data-dir <DIRECTORY>   the new data directory: empty, or not existing yet
  --service <FOLDER>       restore only the service that had this folder in the data directory
  --snapshot <NUMBER>      snapshot to restore; default: the newest
  --to-position <NUMBER>   restore one log as it was at this position
  --endpoint-url <URL>     URL of the S3-compatible store
  --output <text|json>     default: text`,
  inspect: `trilog inspect <DIRECTORY>  read a data directory, of one service or with a folder for each, and say what is damaged; changes nothing

  --output <text|json>  default: text

Exit code 1: something is damaged.`,
}

const OUTPUTS = ['text', 'json']

export const isStoreCommand = (name: string | undefined): name is StoreCommandName =>
  STORE_COMMANDS.some((each) => each === name)

/**
 * @param args behind the name of the command
 * @returns the help, when that was asked for
 * @throws BadConfiguration that names every mistake
 */
export function storeCommand(name: StoreCommandName, args: readonly string[]): StoreCommand | string {
  const problems = new SettingProblems()
  const line = parseCommandLine(args, FLAGS[name], problems, `trilog ${name}`)
  if (line.flags.has('--help')) {
    problems.throwIfAny()
    return HELP[name]
  }
  const command = new Reading(name, line, problems).command()
  problems.throwIfAny()
  return command
}

class Reading {
  readonly #name: StoreCommandName
  readonly #line: CommandLine
  readonly #problems: SettingProblems

  constructor(name: StoreCommandName, line: CommandLine, problems: SettingProblems) {
    this.#name = name
    this.#line = line
    this.#problems = problems
  }

  /** Adds every mistake to the problems. The command is good for use only if there are none. */
  command(): StoreCommand {
    const output = this.#optional('--output') ?? 'text'
    if (!OUTPUTS.includes(output)) this.#problems.add('--output', `must be ${OUTPUTS.join(' or ')}`)
    const common = { json: output === 'json' }
    if (this.#name === 'inspect') return { ...common, kind: 'inspect', dataDirectory: this.#onlyOperand() }
    for (const operand of this.#line.operands) {
      this.#problems.add(`trilog ${this.#name}`, `takes no ${operand}: see trilog ${this.#name} --help`)
    }
    const flag = this.#name === 'backup' ? '--to' : '--from'
    const place = { place: this.#place(flag), endpoint: this.#endpoint() }
    if (this.#line.flags.has('--check')) return this.#check(common, flag, place)
    const dataDirectory = this.#needed('--data-dir')
    if (this.#name === 'backup') {
      const replicas = this.#line.flags.get('--replica-dir') ?? []
      return {
        ...common,
        kind: 'backup',
        to: place,
        dataDirectory,
        replicas,
        keep: this.#count('--keep', 1),
        bytesPerSecond: this.#count('--max-bytes-per-second', 1),
      }
    }
    return {
      ...common,
      kind: 'restore',
      from: place,
      dataDirectory,
      service: this.#optional('--service'),
      snapshot: this.#count('--snapshot', 1),
      position: this.#count('--to-position', 0),
    }
  }

  #check(common: Common, flag: string, from: BackupPlace): StoreCommand {
    for (const given of this.#line.flags.keys()) {
      if (!['--check', '--endpoint-url', '--output', flag].includes(given)) {
        this.#problems.add(given, 'does not go with --check')
      }
    }
    return { ...common, kind: 'check', from }
  }

  #onlyOperand(): string {
    const [directory, ...rest] = this.#line.operands
    if (directory === undefined) this.#problems.add('trilog inspect', 'needs a data directory')
    for (const operand of rest) this.#problems.add('trilog inspect', `takes no ${operand}: see trilog inspect --help`)
    return directory ?? ''
  }

  #optional = (flag: string): string | null => this.#line.flags.get(flag)?.[0] ?? null

  #needed(flag: string): string {
    const value = this.#optional(flag)
    if (value === null) this.#problems.add(`trilog ${this.#name}`, `needs ${flag}`)
    return value ?? ''
  }

  /** An address is no directory, and no name of a bucket has credentials before it. */
  #place(flag: string): string {
    const place = this.#needed(flag)
    const isAddress = /^[a-z][a-z0-9+.-]*:\/\//i.test(place)
    if (isAddress && !/^s3:\/\/[a-z0-9][a-z0-9._-]*(?:\/|$)/i.test(place))
      this.#problems.add(flag, 'must be a directory, or s3://bucket/prefix')
    return place
  }

  #endpoint(): string | null {
    const endpoint = this.#optional('--endpoint-url')
    if (endpoint !== null && !/^https?:\/\/[^/]/.test(endpoint)) {
      this.#problems.add('--endpoint-url', 'must begin with http:// or https://')
    }
    return endpoint
  }

  #count(flag: string, least: number): number | null {
    const text = this.#optional(flag)
    if (text === null) return null
    const value = /^\d+$/.test(text) ? Number(text) : NaN
    if (!Number.isSafeInteger(value) || value < least) this.#problems.add(flag, `must be an integer from ${least} on`)
    return value
  }
}
