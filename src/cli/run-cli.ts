/**
 * `mq cli` and `mq diagnostics` as a process: stdout has the answer and nothing else, stderr what is wrong.
 *
 * E1  exit code 0, 1 (the broker or the data said no), 2 (usage or configuration). Source: contract "Broker", CLI
 * E2  whoever reads stdout may leave: the rest is not written, and it is no failure
 */
import { once } from 'node:events'
import { CommanderError } from 'commander'
import type { Environment } from '../config/settings.ts'
import { systemClock } from '../observability/system-clock.ts'
import { CliFailure, EXIT_USAGE } from './failure.ts'
import type { FailureDetail } from './failure.ts'
import { runCommand } from './program.ts'
import { styleFor, visible } from './style.ts'

/** @returns the exit code */
export async function runCli(args: readonly string[], env: Environment, version: string): Promise<number> {
  const stop = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())
  process.stdout.on('error', () => stop.abort()) // E2
  const write = async (line: string): Promise<void> => {
    if (stop.signal.aborted || process.stdout.write(`${line}\n`)) return
    await once(process.stdout, 'drain', { signal: stop.signal }).catch(() => {}) // E2
  }
  const style = styleFor(process.stdout, env)
  try {
    const chosen = await runCommand(
      args,
      { env, version, nowMs: systemClock.wallMs, stop: stop.signal, write, style },
      {
        stdout: (text) => void process.stdout.write(text),
        stderr: (text) => void process.stderr.write(withoutValues(text)),
      },
    )
    if (chosen === null) return 0
    const { json, answer } = chosen
    if (!json) for (const line of answer.text(style)) await write(line)
    else if (answer.json !== undefined) await write(JSON.stringify(answer.json))
    return 0
  } catch (error) {
    if (error instanceof CommanderError) return EXIT_USAGE // commander has said why
    if (!(error instanceof CliFailure)) throw error
    process.stderr.write(`${wantsJson(args) ? envelope(error.detail) : shown(error.detail, env)}\n`)
    return error.exitCode
  }
}

/** A misspelt `--api-key=…` is repeated without the key. */
const withoutValues = (text: string): string => text.replaceAll(/('--?[^'=\s]+)=[^']*'/g, "$1=…'")

/** As far as one can tell of a command line that may be wrong. */
const wantsJson = (args: readonly string[]): boolean =>
  args.includes('--output=json') || args.some((arg, index) => arg === 'json' && args[index - 1] === '--output')

/** As over HTTP. */
const envelope = (error: FailureDetail): string => JSON.stringify({ api_version: 'v1', error })

function shown({ code, message, action }: FailureDetail, env: Environment): string {
  const style = styleFor(process.stderr, env)
  return `${style.bad('error')}: ${visible(message)} (${visible(code)})\n${visible(action)}`
}
