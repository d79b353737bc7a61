/**
 * A service as a process of its own, on a data directory of its own.
 *
 * V1  processes that a test leaves running are killed at the end of its file; a running server never keeps the test's process alive
 * V2  settings of the surrounding environment never reach the server
 * V3  when a process ends unasked, its exit code and its log are printed beside the test that finds it gone
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import type { ChildProcessByStdio } from 'node:child_process'
import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { entryFile } from './entry.ts'
import type { Entry } from './entry.ts'
import { killAtEnd } from './left-behind.ts'
import { LIMIT_MS, eventually } from './waiting.ts'

/** Unit of the times in /proc/…/stat on Linux on x64: hundredths of a second. */
const MS_PER_TICK = 10
const ENDS: ReadonlySet<NodeJS.Signals> = new Set(['SIGTERM', 'SIGINT', 'SIGKILL'])

export type Environment = Readonly<Record<string, string>>

/** Only tests of the console set its address; all others leave its default port alone. */
const NO_CONSOLE: Environment = { TRILOG_CONSOLE_BIND: 'off' }

/** V2 */
export function environmentOf(env: Environment): Record<string, string> {
  const inherited = Object.entries(process.env).flatMap(([name, value]) =>
    value === undefined || /^(LOGSTORE|MQ|OBJSTORE|TRILOG|NODE_TEST)_/.test(name) ? [] : [[name, value] as const],
  )
  return { ...Object.fromEntries(inherited), ...NO_CONSOLE, ...env }
}

const HASTEN = fileURLToPath(new URL('../../scripts/soak/hasten.ts', import.meta.url))

/** For a service that does not live long: see scripts/soak/hasten.ts. */
export const HASTENED: Environment = { NODE_OPTIONS: `--import ${HASTEN}` }

export interface Command {
  readonly entry: Entry
  readonly args: readonly string[]
  readonly env: Environment
  /** Limit of open files, as `ulimit -n` sets it. */
  readonly openFilesMax?: number
}

export interface ReadyLine {
  readonly service: string
  readonly http: string
  readonly grpc: string | null
  /** Scheme of both listeners; absent: http. */
  readonly scheme?: 'https'
  readonly pid: number
}

type Child = ChildProcessByStdio<null, Readable, Readable>

/** One run of a command, from its start to its end. */
class ServiceProcess {
  stdout = ''
  stderr = ''
  readonly #child: Child
  readonly #ended: Promise<number | NodeJS.Signals>
  #mayEnd = false

  constructor({ entry, args, env, openFilesMax }: Command) {
    const node = [process.execPath, entryFile(entry), ...args]
    const limited = openFilesMax === undefined ? [] : ['sh', '-c', `ulimit -n ${openFilesMax}; exec "$@"`, 'sh']
    const [command, ...rest] = [...limited, ...node]
    this.#child = spawn(command!, rest, {
      env: environmentOf(env),
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const child = this.#child
    killAtEnd(child, () => this.signal('SIGKILL')) // V1
    child.stdout.setEncoding('utf8').on('data', (text: string) => (this.stdout += text))
    child.stderr.setEncoding('utf8').on('data', (text: string) => (this.stderr += text))
    this.#ended = new Promise((resolve) => {
      child.once('close', (code, signal) => {
        const how = code ?? signal ?? -1
        if (!this.#mayEnd) console.error(`process ${this.pid} ended by itself with ${how}; it said:\n${this.stderr}`) // V3
        resolve(how)
      })
    })
    this.#holdTest(false)
  }

  get pid(): number {
    assert(this.#child.pid !== undefined, 'the process did not start')
    return this.#child.pid
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** Processor time since the start. Unlike time on a clock, it does not grow while other processes have the processor. */
  get cpuMs(): number {
    const stat = readFileSync(`/proc/${this.pid}/stat`, 'utf8')
    const [userTicks, systemTicks] = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11, 13)
      .map(Number)
    return (userTicks! + systemTicks!) * MS_PER_TICK
  }

  signal(signal: NodeJS.Signals): void {
    if (ENDS.has(signal)) this.#mayEnd = true
    this.#child.kill(signal)
  }

  /** The exit code, or the signal that ended it. */
  async end(): Promise<number | NodeJS.Signals> {
    this.#mayEnd = true
    this.#holdTest(true)
    const waiting = new AbortController()
    const late = sleep(LIMIT_MS, 'late' as const, { signal: waiting.signal }).catch(() => 'late' as const)
    const how = await Promise.race([this.#ended, late])
    waiting.abort()
    this.#holdTest(false)
    if (how !== 'late') return how
    this.signal('SIGKILL')
    throw new Error(`the process was still running after ${LIMIT_MS} ms; it said:\n${this.stderr}`)
  }

  /** Waits for the line on stdout; undefined when the process ended without it. */
  async ready(): Promise<ReadyLine | undefined> {
    let ended = false
    void this.#ended.then(() => (ended = true))
    await eventually(() => ended || this.stdout.includes('\n'))
    const line = /^ready (\{.*\})$/m.exec(this.stdout)?.[1]
    return line === undefined ? undefined : (JSON.parse(line) as ReadyLine) // as the contract says
  }

  /** V1: the process may keep the test's own process alive only while a test waits for it. */
  #holdTest(hold: boolean): void {
    for (const held of [this.#child, this.#child.stdout as Socket, this.#child.stderr as Socket]) {
      if (hold) held.ref()
      else held.unref()
    }
  }
}

/** How a command that is expected to end ended. */
export interface Ending {
  readonly code: number | NodeJS.Signals
  readonly stdout: string
  readonly stderr: string
}

export async function runToEnd(command: Command): Promise<Ending> {
  const child = new ServiceProcess(command)
  const code = await child.end()
  return { code, stdout: child.stdout, stderr: child.stderr }
}

/** A service that was started, and can be stopped and started again on the same data. */
export class RunningService {
  readonly #command: Command
  #process: ServiceProcess
  #ready: ReadyLine

  protected constructor(command: Command, [process, ready]: Launched) {
    this.#command = command
    this.#process = process
    this.#ready = ready
  }

  get readyLine(): ReadyLine {
    return this.#ready
  }

  get url(): string {
    return `${this.#ready.scheme ?? 'http'}://${this.#ready.http}`
  }

  get pid(): number {
    return this.#process.pid
  }

  get isRunning(): boolean {
    return this.#process.isRunning
  }

  get cpuMs(): number {
    return this.#process.cpuMs
  }

  /** Output of the process that runs now. */
  get stdout(): string {
    return this.#process.stdout
  }

  get stderr(): string {
    return this.#process.stderr
  }

  /** Resolves when the log has this: the pipe may bring a line after the answer to a later request. */
  async logged(what: string | RegExp): Promise<void> {
    await eventually(() => (typeof what === 'string' ? this.stderr.includes(what) : what.test(this.stderr)))
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.signal(signal)
  }

  /** Waits for the process, which was told to stop; its exit code must be 0. */
  async ended(): Promise<void> {
    assert.equal(await this.#process.end(), 0, this.#process.stderr)
  }

  async stop(): Promise<void> {
    this.signal('SIGTERM')
    await this.ended()
  }

  async kill(): Promise<void> {
    this.signal('SIGKILL')
    assert.equal(await this.#process.end(), 'SIGKILL')
  }

  /** Starts it again, after `stop` or `kill`, on the same data and another port. */
  async startAgain(env: Environment = {}): Promise<void> {
    const [process, ready] = await launch({ ...this.#command, env: { ...this.#command.env, ...env } })
    this.#process = process
    this.#ready = ready
  }

  async restart(): Promise<void> {
    await this.stop()
    await this.startAgain()
  }
}

export type Launched = readonly [process: ServiceProcess, ready: ReadyLine]

export async function launch(command: Command): Promise<Launched> {
  const child = new ServiceProcess(command)
  const ready = await child.ready()
  assert(ready, `${command.entry} ${command.args.join(' ')} did not start:\n${child.stderr}`)
  return [child, ready]
}
