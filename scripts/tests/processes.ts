/**
 * Runs test files in processes: each process takes a file of the queue when it has ended the one before.
 *
 * A process that ends too early, or from which nothing is heard for long, fails the file that it runs; another process takes the rest.
 * The failure of a silent one says what it was doing.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { limitMs } from '../../test/support/waiting.ts'
import type { Assignment, Report } from './messages.ts'
import type { Results } from './results.ts'
import { INSPECTED, whatItDoes } from './stack.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const WORKER = `${root}scripts/tests/worker.ts`
const FLAGS = [
  INSPECTED,
  '--experimental-async-context-frame', // follows what waits without a hook at every promise: a sixth less time
  '--single-threaded-gc', // the other cores have tests of their own: threads that help to collect cost a fifth of all time
  '--max-semi-space-size=64', // files of tests are buffers: with less, V8 collects for their sake, and copies what lives again and again
  `--test-reporter=${root}scripts/tests/reporter.ts`,
]
/** Linux on x64 counts in hundredths of a second. */
const MS_PER_TICK = 10
/** Tests wait for nothing so long, and no machine stalls for so long. */
const SILENT_LIMITS_MAX = 5

export interface ProcessOptions {
  /** Each file gets a process of its own. */
  readonly alone: boolean
  readonly env: Readonly<Record<string, string>>
  readonly nowMs: () => number
  /** A process is ended when nothing was heard of it for so long. */
  readonly silentMsMax?: number
}

/** Takes files from the queue, which others may take from, too, until it is empty and the last of them has ended. */
export async function runQueue(queue: string[], options: ProcessOptions, results: Results): Promise<void> {
  while (queue.length > 0) if (!(await runProcess(queue, options, results))) return // nor would the next one
}

/**
 * Runs files of the queue in a new process until it ends.
 *
 * @returns false when it cannot even start
 */
async function runProcess(queue: string[], options: ProcessOptions, results: Results): Promise<boolean> {
  const { alone, env, nowMs, silentMsMax = SILENT_LIMITS_MAX * limitMs() } = options
  const child = fork(WORKER, { execArgv: FLAGS, env: { ...process.env, ...env }, silent: true })
  let file: string | undefined
  let hasEnded = true
  let startedMs = 0
  let cpuMsBefore = 0
  let running = 'its start'
  const silent: { in?: string } = {}
  const silence = setTimeout(() => void endSilent(), silentMsMax)
  const endSilent = async (): Promise<void> => {
    silent.in = await whatItDoes(child)
    child.kill('SIGKILL')
  }
  let failures = 0

  const fail = (text: string): void => {
    const failed = file ?? 'scripts/tests/worker.ts'
    results.add(failed, { kind: 'failed', failure: { file: failed, at: null, name: running, text } })
  }
  const assign = (next: string | null): void => {
    const assignment: Assignment = { file: next }
    child.send(assignment, () => {}) // a process that is gone is met by its exit
    if (next === null) return
    file = next
    hasEnded = false
    running = 'the file itself, or its first test'
    startedMs = nowMs()
  }

  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => file !== undefined && results.addOutput(file, text))
  }
  child.on('message', (report: Report) => {
    silence.refresh()
    if (report.kind === 'running') running = report.test
    else if (report.kind === 'ended') {
      const cpuMs = cpuMsOf(child.pid!)
      results.ended({ file: file ?? '', ms: nowMs() - startedMs, cpuMs: cpuMs - cpuMsBefore })
      cpuMsBefore = cpuMs
      hasEnded = true
      running = 'after the last test'
    } else if (report.kind === 'idle') {
      assign(alone && file !== undefined ? null : (queue.shift() ?? null))
    } else {
      if (report.kind === 'failed') failures++
      results.add(file ?? '', report)
    }
  })
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null]
  clearTimeout(silence)
  const how = signal === null ? `exit code ${code}` : signal
  if (silent.in !== undefined)
    fail(`nothing was heard of it for ${Math.round(silentMsMax / 1000)} s, and its process was ended ${silent.in}`)
  else if (!hasEnded) {
    const why = signal === null ? ': a test waits for what can no longer happen, or calls process.exit' : ''
    fail(`its process ended in the middle of it, with ${how}${why}`)
  } else if (code !== 0 && failures === 0) fail(`its process ended with ${how}`)
  return file !== undefined || code === 0
}

/** What the process and those that it started have computed, apart from those that ended and were not waited for. */
function cpuMsOf(pid: number): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const ticks = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .slice(11, 15) // its own and those of the ended, in user and system mode
      .reduce((sum, field) => sum + Number(field), 0)
    const children = readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean),
    )
    return children.reduce((sum, child) => sum + cpuMsOf(Number(child)), ticks * MS_PER_TICK)
  } catch {
    return 0 // it has just ended
  }
}
