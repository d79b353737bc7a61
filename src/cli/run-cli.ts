/**
 * `mq cli`, `mq diagnostics` and `trilog logs` as a process: stdout has the answer and nothing else, stderr what is wrong.
 *
 * E1  exit code 0, 1 (the service or the data said no), 2 (usage or configuration). Source: contract "Broker", CLI
 * E2  a reader of stdout that leaves is no failure: the rest is not written
 */
import { once } from 'node:events'
import { CommanderError } from 'commander'
import type { Environment } from '../config/settings.ts'
import { systemClock } from '../observability/system-clock.ts'
import { withoutUrlSecrets } from '../url-secrets.ts'
import { watchStdout } from './answer-output.ts'
import type { World } from './command.ts'
import { CliFailure, EXIT_USAGE } from './failure.ts'
import type { FailureDetail } from './failure.ts'
import { runCommand } from './program.ts'
import type { Program } from './program.ts'
import { styleFor, visible } from './style.ts'

/** @returns the exit code */
export async function runCli(
  program: Program,
  args: readonly string[],
  env: Environment,
  version: string,
): Promise<number> {
  const output = new Output()
  const style = styleFor(process.stdout, env)
  const world: World = {
    env,
    version,
    style,
    nowMs: systemClock.wallMs,
    get stop() {
      return output.untilStopped()
    },
    write: (line) => output.write(line),
    writeToStderr: (line) => void process.stderr.write(`${line}\n`),
    pause: (ms) => output.pause(ms),
  }
  try {
    const chosen = await runCommand(program, args, world, {
      stdout: (text) => void process.stdout.write(text),
      stderr: (text) => void process.stderr.write(withoutValues(text)),
    })
    if (chosen === null) return 0
    const { json, answer } = chosen
    if (!json) for (const line of answer.text(style)) await output.write(line)
    else if (answer.json !== undefined) await output.write(JSON.stringify(answer.json))
    return answer.exitCode ?? 0
  } catch (error) {
    if (error instanceof CommanderError) return EXIT_USAGE // commander has said why
    if (!(error instanceof CliFailure)) throw error
    process.stderr.write(`${wantsJson(args) ? envelope(error.detail) : shown(error.detail, env)}\n`)
    return error.exitCode
  }
}

/** stdout, and the signal that nothing more is wanted: Ctrl-C, or the reader of stdout is gone. */
class Output {
  readonly #stop = new AbortController()
  #listens = false

  constructor() {
    watchStdout(() => this.#stop.abort()) // E2
  }

  /** A command that asks for this signal ends by itself on Ctrl-C; all others are ended by the process's signal. */
  untilStopped(): AbortSignal {
    if (!this.#listens)
      for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => this.#stop.abort())
    this.#listens = true
    return this.#stop.signal
  }

  pause(ms: number): Promise<void> {
    const signal = this.untilStopped()
    return new Promise((resolve) => {
      const cancel = systemClock.wait(ms, resolve)
      signal.addEventListener('abort', () => {
        cancel()
        resolve()
      })
    })
  }

  /** Resolves when there is room for more. */
  async write(line: string): Promise<void> {
    const { signal } = this.#stop
    if (signal.aborted || process.stdout.write(`${line}\n`)) return
    await once(process.stdout, 'drain', { signal }).catch(() => {}) // E2
  }
}

/** A misspelt `--api-key=…` is repeated without the key. */
const withoutValues = (text: string): string => withoutUrlSecrets(text).replaceAll(/('--?[^'=\s]+)=[^']*'/g, "$1=…'")

/** A guess, as the command line may be wrong. */
const wantsJson = (args: readonly string[]): boolean =>
  args.includes('--output=json') || args.some((arg, index) => arg === 'json' && args[index - 1] === '--output')

/** As over HTTP. */
const envelope = (error: FailureDetail): string => JSON.stringify({ api_version: 'v1', error })

function shown({ code, message, action }: FailureDetail, env: Environment): string {
  const style = styleFor(process.stderr, env)
  return `${style.bad('error')}: ${visible(message)} (${visible(code)})\n${visible(action)}`
}
