/**
 * The command: service and options in, one run, summary, JSON and report out.
 *
 * Exit codes: 0 the run was made (and verified, when asked); 1 the server could not be reached, refused what the run needs,
 * acknowledged nothing, or lost something it had acknowledged; 2 the command line is wrong.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, totalmem, type as osType, release } from 'node:os'
import { dirname } from 'node:path'
import { defaultDiskDirectory, measureDiskRate } from './disk-rate.ts'
import type { DiskRate } from './disk-rate.ts'
import { ConnectionError, HttpConnection } from './http-connection.ts'
import { formatOptions, parseOptions, sharedOptions, UsageError } from './options.ts'
import type { OptionValues } from './options.ts'
import { Progress } from './progress.ts'
import type { ProgressOutput } from './progress.ts'
import { renderReport } from './report/report.ts'
import { buildResult, formatSummary } from './result.ts'
import type { DiskFigures, LoadResult } from './result.ts'
import { run } from './run.ts'
import type { RunOptions } from './run.ts'
import { services } from './services.ts'
import { RefusedError } from './workload.ts'
import type { LoadService, Workload } from './workload.ts'

export interface CommandIo {
  readonly stdout: (text: string) => void
  readonly stderr: ProgressOutput
  /** Monotonic, in milliseconds. */
  readonly nowMs: () => number
  /** Ends the run early; the summary is still made. */
  readonly stop: AbortSignal
}

/** @returns the exit code */
export async function runCommand(args: readonly string[], io: CommandIo): Promise<number> {
  try {
    const [name, ...rest] = args
    if (name === undefined || name === '--help' || name === '-h') {
      io.stdout(generalHelp())
      return name === undefined ? 2 : 0
    }
    const service = services.find((service) => service.name === name)
    if (service === undefined) {
      throw new UsageError(`unknown service '${name}'; known: ${services.map((service) => service.name).join(', ')}`)
    }
    const options = parseOptions(rest, { ...sharedOptions, ...service.options })
    if (options.flag('help')) {
      io.stdout(serviceHelp(service))
      return 0
    }
    return await load(service, options, io)
  } catch (error) {
    if (error instanceof UsageError) {
      io.stderr.write(`load: ${error.message} (see --help)\n`)
      return 2
    }
    if (error instanceof RefusedError) {
      io.stderr.write(`load: ${error.message}\n`)
      return 1
    }
    if (error instanceof ConnectionError) {
      io.stderr.write(`load: ${error.message}; is the server running?\n`)
      return 1
    }
    throw error
  }
}

async function load(service: LoadService, options: OptionValues, io: CommandIo): Promise<number> {
  const runOptions = runOptionsFrom(options)
  const diskMs = options.durationMs('disk-time', 0)
  const diskDirectory = options.has('disk-dir') ? options.text('disk-dir') : defaultDiskDirectory()
  const reportPath = options.has('report') ? options.text('report') : null
  const workload = service.plan(options, runOptions)
  try {
    const verify = options.flag('verify') ? workload.verify : null
    if (options.flag('verify') && verify === null)
      throw new UsageError('--verify: this workload leaves nothing to ask for')
    await probe(workload, io)
    if (reportPath !== null) mkdirSync(dirname(reportPath), { recursive: true })
    await workload.prepare((line) => io.stderr.write(`${line}\n`))

    const before = tryMeasureDisk(diskDirectory, diskMs, io.nowMs)
    const startedAt = new Date().toISOString()
    const progress = new Progress(io.stderr, workload.unit)
    const outcome = await run(workload, runOptions, {
      nowMs: io.nowMs,
      cpuSeconds: () => {
        const { user, system } = process.cpuUsage()
        return (user + system) / 1e6
      },
      stop: io.stop,
      onSecond: (row, measured) => progress.second(row, measured),
    })
    progress.done()
    const after = tryMeasureDisk(diskDirectory, diskMs, io.nowMs)

    const result = buildResult(outcome, {
      service: service.name,
      unit: workload.unit,
      task: workload.task,
      startedAt,
      loop: runOptions.unitsPerSecond === null ? 'closed' : 'open',
      disk: diskFigures(diskDirectory, before, after),
      verification: verify === null ? null : await verify(),
      configuration: [...workload.configuration, ...sharedConfiguration(runOptions)],
      machine: describeMachine(),
    })
    io.stdout(options.flag('json') ? `${JSON.stringify(result)}\n` : `${formatSummary(result)}\n`)
    if (reportPath !== null) {
      writeFileSync(reportPath, renderReport(result))
      io.stderr.write(`report written to ${reportPath}\n`)
    }
    return exitCode(result)
  } finally {
    workload.close()
  }
}

function exitCode(result: LoadResult): number {
  return result.acknowledged.tasks > 0 && result.verification?.ok !== false ? 0 : 1
}

function runOptionsFrom(options: OptionValues): RunOptions {
  const byCount = options.has('batches')
  const openLoop = options.has('rate')
  const durationMs = options.has('duration') ? options.durationMs('duration', 1) : byCount ? Infinity : 60_000
  const warmUpMs = options.durationMs('warm-up', 0)
  if (warmUpMs >= durationMs) throw new UsageError('--warm-up must be shorter than the run')
  return {
    connections: options.integer('connections', 1, 10_000),
    durationMs,
    tasksMax: byCount ? options.integer('batches', 1, 2 ** 32 - 1) : Infinity,
    unitsPerSecond: openLoop ? options.integer('rate', 1, 1e9) : null,
    timeoutMs: options.durationMs('timeout', 1),
    warmUpMs,
    // In the open loop the schedule rules: a connection that waits would only turn refusals into latency.
    obeyRetryAfter: options.flagOrNull('obey-retry-after') ?? !openLoop,
  }
}

function sharedConfiguration(options: RunOptions): [string, string][] {
  return [
    ['connections', String(options.connections)],
    ['duration', Number.isFinite(options.durationMs) ? `${options.durationMs / 1000} s` : 'until all batches are done'],
    ['batches', Number.isFinite(options.tasksMax) ? String(options.tasksMax) : 'no limit'],
    ['rate', options.unitsPerSecond === null ? 'closed loop' : `${options.unitsPerSecond} per second, open loop`],
    ['Retry-After', options.obeyRetryAfter ? 'obeyed' : 'ignored'],
    ['timeout', `${options.timeoutMs / 1000} s`],
    ['warm-up', `${options.warmUpMs / 1000} s`],
  ]
}

/** @throws ConnectionError when no server listens there */
async function probe(workload: Workload, { nowMs }: CommandIo): Promise<void> {
  const connection = new HttpConnection({ target: workload.target, timeoutMs: 5000, nowMs })
  try {
    await connection.open()
  } finally {
    connection.destroy()
  }
}

function tryMeasureDisk(directory: string, durationMs: number, nowMs: () => number): DiskRate | string | null {
  if (durationMs === 0) return null
  try {
    return measureDiskRate(directory, durationMs, nowMs)
  } catch (error) {
    if (error instanceof Error && 'code' in error) return error.message
    throw error
  }
}

function diskFigures(
  directory: string,
  before: DiskRate | string | null,
  after: DiskRate | string | null,
): DiskFigures {
  const rates = [before, after].filter((rate) => rate !== null && typeof rate === 'object')
  const [first, second] = rates
  return {
    directory,
    before: typeof before === 'object' ? before : null,
    after: typeof after === 'object' ? after : null,
    bytesPerSecond:
      first === undefined || second === undefined ? null : (first.bytesPerSecond + second.bytesPerSecond) / 2,
    problem: typeof before === 'string' ? before : typeof after === 'string' ? after : null,
  }
}

function describeMachine(): [string, string][] {
  const cores = cpus()
  return [
    ['CPU', cores[0]?.model.trim() ?? 'unknown'],
    ['cores', String(cores.length)],
    ['memory', `${(totalmem() / 2 ** 30).toFixed(1)} GiB`],
    ['system', `${osType()} ${release()}`],
    ['Node', process.version],
  ]
}

function generalHelp(): string {
  const list = services.map(({ name, summary }) => `  ${name.padEnd(14)}${summary}`).join('\n')
  return `usage: npm run load -- <service> [options]\n\n${list}\n\nnpm run load -- <service> --help shows the options.\n`
}

function serviceHelp({ name, summary, options, examples }: LoadService): string {
  const shared = Object.fromEntries(Object.entries(sharedOptions).filter(([option]) => !(option in options)))
  return [
    `usage: npm run load -- ${name} [options]`,
    summary,
    `options of ${name}:\n${formatOptions(options)}`,
    `options of every service:\n${formatOptions(shared)}`,
    `examples:\n${examples.map((example) => `  ${example}`).join('\n')}\n`,
  ].join('\n\n')
}
