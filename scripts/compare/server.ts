/**
 * Server processes of a comparison.
 *
 * S1  every process that was started here is ended here, also when the comparison ends early, and no other process is
 */
import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { createServer, connect } from 'node:net'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { MissingError } from './peer.ts'

const READY_WITHIN_MS = 20_000
const STOP_WITHIN_MS = 10_000
const TRY_EVERY_MS = 50
const LAST_WORDS_CHARACTERS = 1000

const children = new Set<ChildProcess>()

/**
 * A directory that is removed, after every server was ended (S1), when this process ends for any reason.
 *
 * @param prefix of its path
 */
export function scratchDirectory(prefix: string): string {
  const directory = mkdtempSync(prefix)
  process.on('exit', () => {
    for (const child of children) child.kill('SIGKILL')
    rmSync(directory, { recursive: true, force: true })
  })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130))
  return directory
}

export interface Server {
  /** What it printed on stdout so far. */
  readonly stdout: () => string
  /** The end of what it printed on stderr. */
  readonly lastWords: () => string
  /** False: it ended by itself. */
  readonly isRunning: () => boolean
  /** What all of its threads have used of the processor so far. */
  readonly cpuSeconds: () => number
  /** The same of its main thread alone. */
  readonly mainCpuSeconds: () => number
  stop(): Promise<void>
}

export interface StartOptions {
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
}

export function startServer(command: string, args: readonly string[], { cwd, env }: StartOptions = {}): Server {
  const child = spawn(command, args, {
    ...(cwd !== undefined && { cwd }),
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  children.add(child)
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-LAST_WORDS_CHARACTERS)
  })
  const ended = once(child, 'close').finally(() => children.delete(child))
  ended.catch(() => {}) // it could not be started: seen as not running
  return {
    stdout: () => stdout,
    lastWords: () => stderr.trim(),
    isRunning: () => children.has(child),
    cpuSeconds: () =>
      readdirSync(`/proc/${child.pid!}/task`).reduce((sum, id) => sum + cpuSecondsOf(child.pid!, id), 0),
    mainCpuSeconds: () => cpuSecondsOf(child.pid!, String(child.pid!)),
    async stop() {
      child.kill('SIGTERM')
      const waiting = new AbortController()
      const late = sleep(STOP_WITHIN_MS, undefined, { signal: waiting.signal }).then(() => child.kill('SIGKILL'))
      late.catch(() => {}) // it ended in time
      await ended
      waiting.abort()
    },
  }
}

/** The first of three numbers that the kernel says of a thread, in nanoseconds. @see Documentation/scheduler/sched-stats.rst of Linux */
function cpuSecondsOf(pid: number, threadId: string): number {
  return Number(readFileSync(`/proc/${pid}/task/${threadId}/schedstat`, 'latin1').split(' ')[0]) / 1e9
}

/** @throws MissingError when there is no such program, or it does not know the option */
export function versionOf(command: string, option: string, pattern: RegExp): string {
  const { error, stdout, stderr } = spawnSync(command, [option], { encoding: 'utf8' })
  const version = error === undefined ? pattern.exec(stdout + stderr)?.[1] : undefined
  if (version === undefined) throw new MissingError(`there is no ${command} (apt-get install ${command})`)
  return version
}

/** A port that was free a moment ago, for servers that cannot tell which one they picked. */
export async function freePort(): Promise<number> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo // a TCP server has no other
  server.close()
  await once(server, 'close')
  return port
}

/** Waits until the server listens there. */
export async function untilListening(server: Server, port: number): Promise<void> {
  await until(server, async () => {
    const socket = connect(port, '127.0.0.1')
    try {
      await once(socket, 'connect')
      return true
    } catch {
      return false // not yet
    } finally {
      socket.destroy()
    }
  })
}

export async function until(server: Server, condition: () => boolean | Promise<boolean>): Promise<void> {
  for (let waitedMs = 0; waitedMs < READY_WITHIN_MS; waitedMs += TRY_EVERY_MS) {
    if (!server.isRunning()) throw new Error(`it ended at once; it said: ${server.lastWords()}`)
    if (await condition()) return
    await sleep(TRY_EVERY_MS)
  }
  throw new Error(`not ready within ${READY_WITHIN_MS / 1000} s`)
}
