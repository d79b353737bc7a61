/** Every command of `mq` but the node itself, in the order of the help. */
import type { Command } from './command.ts'
import { optionsOf } from './common-options.ts'
import { completionCommand } from './commands/completion.ts'
import { DIAGNOSTICS_COMMANDS } from './commands/diagnostics.ts'
import { LOCAL_COMMANDS } from './commands/local.ts'
import { RELEASE_COMMANDS } from './commands/release.ts'
import { REMOTE_COMMANDS } from './commands/remote.ts'

const GROUPED: readonly Command[] = [
  ...LOCAL_COMMANDS,
  ...REMOTE_COMMANDS,
  ...DIAGNOSTICS_COMMANDS,
  ...RELEASE_COMMANDS,
]

export const COMMANDS: readonly Command[] = [...GROUPED, completionCommand(GROUPED, optionsOf)]
