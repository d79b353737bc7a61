/** The commands of `mq` but the node itself: on a data directory, or on a node by `--target`. */
import type { Command, Where, World } from './command.ts'
import { COMMANDS } from './commands.ts'
import { DATA_DIRECTORY, REMOTE_NAMES } from './common-options.ts'
import { usageFailure } from './failure.ts'
import { Target } from './http-target.ts'
import type { Program, ValueOf } from './program.ts'
import { readTargetTls } from './target-tls.ts'

export const MQ_PROGRAM: Program = {
  name: 'mq',
  commands: COMMANDS,
  groups: {
    cli: 'Work with streams, on a data directory or on a node',
    'cli stream': 'Streams of a data directory',
    'cli cursor': 'Cursors of consumer groups',
    'cli consumer-group': 'Consumer groups of a node',
    'cli lease': 'Leases of consumer groups',
    'cli diagnostics': 'What support needs to know',
    'cli release': 'Drafts of documents that go with a release',
    diagnostics: 'Diagnostics for support, in one file',
  },
  groupOptions: ['data-dir', ...REMOTE_NAMES, 'output'],
  exitCodes: 'Exit codes: 0, 1 (the broker or the data said no), 2 (usage or configuration).',
  placeOf(command, valueOf, world) {
    checkPlace(command, valueOf)
    return () => whereOf(valueOf, world)
  },
}

function checkPlace({ name, places }: Command, valueOf: ValueOf): void {
  const isRemote = valueOf('target') !== undefined
  const isLocal = valueOf('data-dir') !== undefined
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
    throw usageFailure(`${said} asks a running node: give --target http://host:port`)
  }
  const lonely = isRemote ? undefined : REMOTE_NAMES.find((option) => valueOf(option) !== undefined)
  if (lonely !== undefined) throw usageFailure(`--${lonely} goes with --target`)
}

function whereOf(valueOf: ValueOf, { env }: World): Where {
  const url = valueOf('target')
  if (url !== undefined) {
    const key = valueOf('api-key') ?? (env['MQ_API_KEY'] || null)
    const file = (name: string): string | null => valueOf(name) ?? null
    const tls = readTargetTls({ ca: file('tls-ca'), cert: file('tls-cert'), key: file('tls-key') })
    return { place: 'remote', target: new Target(url, key, tls) }
  }
  const directory = valueOf('data-dir') ?? (env['MQ_DATA_DIR'] || DATA_DIRECTORY)
  if (directory.trim() === '') throw usageFailure('--data-dir must name a directory')
  return { place: 'local', directory }
}
