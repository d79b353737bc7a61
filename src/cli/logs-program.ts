/** `trilog logs`: commands that ask a log store, which runs here or elsewhere. */
import type { Where, World } from './command.ts'
import { LOGS_COMMANDS } from './commands/logs.ts'
import { STORE_NAMES, STORE_TARGET } from './common-options.ts'
import { usageFailure } from './failure.ts'
import type { Program, ValueOf } from './program.ts'
import { DEVELOPMENT, StoreTarget } from './store-target.ts'
import { readTargetTls } from './target-tls.ts'

export const LOGS_PROGRAM: Program = {
  name: 'trilog',
  commands: LOGS_COMMANDS,
  groups: { logs: 'Search, follow and export what a log store has' },
  groupOptions: [...STORE_NAMES, 'output'],
  exitCodes: 'Exit codes: 0, 1 (the log store said no, or could not be reached), 2 (usage or configuration).',
  placeOf: (_command, valueOf, world) => () => whereOf(valueOf, world),
}

function whereOf(valueOf: ValueOf, { env }: World): Where {
  const said = (name: string): string | null => valueOf(name) ?? null
  const either = (name: string): string | null => said(name) ?? (env[`TRILOG_LOGS_${name.toUpperCase()}`] || null)
  const tls = readTargetTls({ ca: said('tls-ca'), cert: said('tls-cert'), key: said('tls-key') })
  const tenant = either('tenant')
  const token = either('token')
  if ((tenant === null) !== (token === null))
    throw usageFailure('a tenant and its token go together: --tenant, --token')
  const caller = tenant === null || token === null ? DEVELOPMENT : { tenant, token }
  return { place: 'store', store: new StoreTarget(either('target') ?? STORE_TARGET, caller, tls) }
}
