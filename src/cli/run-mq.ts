/** `mq` as a process: does what its arguments ask for. */
import release from '../../package.json' with { type: 'json' }
import { EXIT_BAD_CONFIGURATION } from '../config/config.ts'
import { StoreError } from '../errors.ts'
import { printFailure } from '../print-failure.ts'
import { writeAnswer } from './answer-output.ts'
import { nodeCommand } from './node-command.ts'
import { styleFor } from './style.ts'

/** @param args behind the command's own name */
export async function runMq(args: readonly string[]): Promise<void> {
  try {
    const style = styleFor(process.stdout, process.env)
    const answer = nodeCommand(args, process.env, { version: release.version, node: process.versions.node }, style)
    if (answer.kind === 'group') {
      const { runCli } = await import('./run-cli.ts')
      const { MQ_PROGRAM } = await import('./mq-program.ts')
      process.exitCode = await runCli(MQ_PROGRAM, args, process.env, release.version)
    } else if (answer.kind === 'start') {
      const { run } = await import('../run.ts') // only now: a command that prints one line should print it soon
      await run(answer.config)
    } else {
      writeAnswer(answer.text)
      process.exitCode = answer.exitCode
    }
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    printFailure(error)
    process.exitCode = EXIT_BAD_CONFIGURATION
  }
}
