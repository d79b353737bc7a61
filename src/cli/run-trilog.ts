/** `trilog` as a process: does what its arguments ask for. */
import release from '../../package.json' with { type: 'json' }
import { EXIT_BAD_CONFIGURATION } from '../config/config.ts'
import { StoreError } from '../errors.ts'
import { printFailure } from '../print-failure.ts'
import { writeAnswer } from './answer-output.ts'
import { styleFor } from './style.ts'
import { trilogCommand } from './trilog-command.ts'

/** @param args behind the command's own name */
export async function runTrilog(args: readonly string[]): Promise<void> {
  try {
    const style = styleFor(process.stdout, process.env)
    const answer = trilogCommand(args, process.env, { version: release.version, node: process.versions.node }, style)
    if (answer.kind === 'start') {
      const { run } = await import('../run.ts') // only now: a command that only prints something should print it soon
      await run(answer.config)
    } else if (answer.kind === 'check') {
      const { placeProblems } = await import('./place-problems.ts')
      say(answer.answer(placeProblems(answer.settings)))
    } else if (answer.kind === 'health') {
      const { healthOf, outputOfHealth } = await import('./health-check.ts')
      say(outputOfHealth(await healthOf(answer.config), answer.json, style))
    } else if (answer.kind === 'logs') {
      const { runCli } = await import('./run-cli.ts')
      const { LOGS_PROGRAM } = await import('./logs-program.ts')
      process.exitCode = await runCli(LOGS_PROGRAM, args, process.env, release.version)
    } else if (answer.kind === 'store') {
      const { runStoreCommand } = await import('./run-store-command.ts')
      await runStoreCommand(answer.command, process.env)
    } else if (answer.kind === 'cluster') {
      const { runClusterCommand } = await import('./run-cluster-command.ts')
      await runClusterCommand(answer.command, style)
    } else say(answer)
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    printFailure(error)
    process.exitCode = EXIT_BAD_CONFIGURATION
  }
}

function say({ text, exitCode }: { readonly text: string; readonly exitCode: number }): void {
  writeAnswer(text)
  process.exitCode = exitCode
}
