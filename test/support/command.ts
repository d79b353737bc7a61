/**
 * A command that ends by itself, run to its end by a process that runs many of them (`command-host.ts`): a process of its own costs ten times as much.
 * Tests that need a process of its own use `runToEnd` in `process.ts`.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import type { Socket } from 'node:net'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { entryFile } from './entry.ts'
import { END } from './hosted-command.ts'
import type { HostedCommand } from './hosted-command.ts'
import { killAtEnd } from './left-behind.ts'
import { environmentOf } from './process.ts'
import type { Command, Ending } from './process.ts'
import { eventually } from './waiting.ts'

const HOST = fileURLToPath(new URL('command-host.ts', import.meta.url))

/** Whether both end marks have come: a pipe may bring the first one alone. */
const hasEnd = (text: string): boolean => text.split(END).length === 3

/** Hosts that run no command now. */
const idle: Host[] = []

class Host {
  readonly #child: ChildProcess
  #stdout = ''
  #stderr = ''
  #ended: number | NodeJS.Signals | null = null

  constructor() {
    this.#child = spawn(process.execPath, [HOST], { stdio: ['ignore', 'pipe', 'pipe', 'ipc'], env: environmentOf({}) })
    const child = this.#child
    killAtEnd(child, () => {
      child.kill('SIGKILL')
      idle.length = 0
    })
    child.stdout!.setEncoding('utf8').on('data', (text: string) => (this.#stdout += text))
    child.stderr!.setEncoding('utf8').on('data', (text: string) => (this.#stderr += text))
    child.once('close', (code, signal) => (this.#ended = code ?? signal ?? -1))
  }

  async run(command: HostedCommand): Promise<Ending> {
    this.#stdout = ''
    this.#stderr = ''
    this.#holdTest(true)
    this.#child.send(command)
    await this.#untilEnd(command)
    this.#holdTest(false)
    if (this.#ended !== null) return { code: this.#ended, stdout: this.#stdout, stderr: this.#stderr }
    const [stdout, code] = this.#stdout.split(END)
    const [stderr] = this.#stderr.split(END)
    idle.push(this)
    return { code: Number(code), stdout: stdout!, stderr: stderr! }
  }

  async #untilEnd({ args }: HostedCommand): Promise<void> {
    try {
      await eventually(() => this.#ended !== null || (hasEnd(this.#stdout) && hasEnd(this.#stderr)))
    } catch (error) {
      this.#child.kill('SIGKILL')
      throw new Error(`${args.join(' ')} does not end; it said:\n${this.#stdout}${this.#stderr}`, { cause: error })
    }
  }

  /** The host may keep the test's process alive only while a test waits for a command. */
  #holdTest(hold: boolean): void {
    const { stdout, stderr, channel } = this.#child
    for (const held of [this.#child, stdout as Socket, stderr as Socket, channel]) {
      if (hold) held?.ref()
      else held?.unref()
    }
  }
}

/** @throws when the command has not ended in time */
export async function runCommand({ entry, args, env }: Command): Promise<Ending> {
  assert(
    Object.keys(env).every((name) => !name.startsWith('NODE_')),
    'Node reads it at the start of a process',
  )
  const host = idle.pop() ?? new Host()
  return host.run({ entry: pathToFileURL(entryFile(entry)).href, args, env: environmentOf(env) })
}
