/**
 * A process in which commands run one after the other, each as if it had a process of its own: the code is loaded once. `command.ts` starts it.
 *
 * A command ends when nothing that it left keeps the process alive: one that forgets to close something never ends. When a command exits its
 * process, this one ends.
 */
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import { END } from './hosted-command.ts'
import type { HostedCommand } from './hosted-command.ts'
import { nextTurn } from './next-turn.ts'
import { eventually } from './waiting.ts'

/** Commands listen to them until they end. */
const SIGNALS = ['SIGINT', 'SIGTERM']

const streams = [process.stdout, process.stderr]
let commands = 0

process.on('message', (command: HostedCommand) => void run(command))

async function run({ entry, args, env }: HostedCommand): Promise<void> {
  for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name]
  Object.assign(process.env, env)
  process.argv.splice(1, Infinity, fileURLToPath(entry), ...args)
  process.exitCode = undefined
  const before = keptAlive()
  try {
    commands += 1
    await import(`${entry}?command=${commands}`) // an entry point does its work when it is loaded
  } catch (error) {
    process.stderr.write(`${inspect(error)}\n`)
    process.exitCode = 1
  }
  await nextTurn()
  await eventually(() => keptAlive() <= before)
  for (const stream of streams) stream.removeAllListeners('error')
  for (const signal of SIGNALS) process.removeAllListeners(signal)
  const code = process.exitCode ?? 0
  for (const stream of streams) stream.write(`${END}${code}${END}`)
}

/** How many things keep this process alive. */
const keptAlive = (): number => process.getActiveResourcesInfo().length
