/**
 * Drives the connections through one run.
 *
 * Each connection is one loop: connect if necessary, take the next start from the pacing, wait for it, do the task, account.
 * The order matters in the open loop: a start is taken only by a connection that could send now, so while the server is
 * away no start is used up, and all that were due meanwhile are late afterwards (and their latency says so).
 *
 * At the end no further task starts, answers under way are awaited for DRAIN_MS, what is then left is aborted.
 */
import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { ConnectionError, HttpConnection } from './http-connection.ts'
import { Measurements } from './measurements.ts'
import type { SecondRow } from './measurements.ts'
import { DueStarts } from './due-starts.ts'
import { Pacing } from './pacing.ts'
import { UnreadableAnswerError } from './workload.ts'
import type { Connection, RequestSource, Workload } from './workload.ts'

const DRAIN_MS = 2000
const BACKOFF_MIN_MS = 20
const BACKOFF_MAX_MS = 1000

export interface RunOptions {
  readonly connections: number
  /** Infinity when `tasksMax` ends the run. */
  readonly durationMs: number
  readonly tasksMax: number
  /** Null: closed loop. */
  readonly unitsPerSecond: number | null
  readonly timeoutMs: number
  /** Tasks that begin in this first time are counted, but not timed. */
  readonly warmUpMs: number
  readonly obeyRetryAfter: boolean
}

export interface RunHooks {
  /** Monotonic, in milliseconds. */
  readonly nowMs: () => number
  /** CPU time this process has used so far, user and system. */
  readonly cpuSeconds: () => number
  readonly onSecond: (row: SecondRow, measured: Measurements) => void
  /** Ends the run early, as if its time were over. */
  readonly stop: AbortSignal
}

export interface RunOutcome {
  readonly measured: Measurements
  readonly elapsedSeconds: number
  /** CPU time over elapsed time: 1 is one whole core. Preparing the requests is not in it, stamping them is. */
  readonly cpuShare: number
  /** Open loop: tasks that were due and never found a free connection. */
  readonly missed: number
}

export async function run(workload: Workload, options: RunOptions, hooks: RunHooks): Promise<RunOutcome> {
  const { nowMs } = hooks
  const sources = Array.from({ length: options.connections }, (_, index) => workload.openSource(index))
  const startCpuSeconds = hooks.cpuSeconds()
  const startMs = nowMs() // after the sources, which may take a while to prepare
  const measured = new Measurements(startMs, options.warmUpMs)
  const pacing = new Pacing({
    startMs,
    endMs: startMs + options.durationMs,
    tasksMax: options.tasksMax,
    intervalMs: options.unitsPerSecond === null ? null : (workload.unitsPerTask / options.unitsPerSecond) * 1000,
  })
  const ending = new AbortController() // wakes every sleeping connection
  setMaxListeners(0, ending.signal)
  const starts = new DueStarts(nowMs)
  const end = (): void => {
    pacing.stop(nowMs())
    starts.end()
    ending.abort()
  }
  hooks.stop.addEventListener('abort', end, { once: true })
  if (hooks.stop.aborted) end()
  const endTimer = Number.isFinite(options.durationMs) ? setTimeout(end, options.durationMs) : undefined
  const secondTimer = setInterval(() => {
    hooks.onSecond(measured.closeSecond(nowMs()), measured)
  }, 1000)

  const connect = workload.connect ?? ((connection) => new HttpConnection(connection))
  const connections = sources.map(() => connect({ target: workload.target, timeoutMs: options.timeoutMs, nowMs }))
  const shared: Shared = { workload, options, pacing, starts, measured, nowMs, ending: ending.signal }
  const loops = Promise.all(sources.map((source, index) => runConnection(connections[index]!, source, shared)))
  const drained = afterAbort(ending.signal, DRAIN_MS, () => {
    for (const connection of connections) connection.destroy()
  })
  try {
    await loops
  } finally {
    end() // also when a loop threw: the others must not go on
    clearTimeout(endTimer)
    clearInterval(secondTimer)
    hooks.stop.removeEventListener('abort', end)
    drained.cancel()
    for (const connection of connections) connection.destroy()
  }

  const endMs = Math.max(pacing.endMs, shared.lastAnswerAtMs ?? 0) // a stalled end counts, our own draining does not
  measured.closeSecond(endMs)
  const elapsedSeconds = (endMs - startMs) / 1000
  const cpuShare = elapsedSeconds > 0 ? (hooks.cpuSeconds() - startCpuSeconds) / elapsedSeconds : 0
  return { measured, elapsedSeconds, cpuShare, missed: pacing.missed(endMs) }
}

interface Shared {
  readonly workload: Workload
  readonly options: RunOptions
  readonly pacing: Pacing
  readonly starts: DueStarts
  readonly measured: Measurements
  readonly nowMs: () => number
  readonly ending: AbortSignal
  lastAnswerAtMs?: number
}

async function runConnection(connection: Connection, source: RequestSource, shared: Shared): Promise<void> {
  const { pacing, starts, measured, nowMs, ending } = shared
  let backoffMs = BACKOFF_MIN_MS
  while (nowMs() < pacing.endMs) {
    if (!connection.isOpen) {
      try {
        await connection.open()
      } catch (error) {
        const kind = failureKind(error)
        if (kind !== 'aborted') measured.failed(kind)
        await pause(backoffMs, ending)
        backoffMs = Math.min(2 * backoffMs, BACKOFF_MAX_MS)
        continue
      }
    }
    const dueMs = pacing.take(nowMs())
    if (dueMs === null) return
    if (dueMs > nowMs()) await starts.at(dueMs)
    if (ending.aborted) return

    const done = await runTask(connection, source, shared, dueMs)
    starts.look()
    if (!done.ok) {
      await pause(Math.max(done.pauseMs, connection.isOpen ? 0 : backoffMs), ending)
      continue
    }
    backoffMs = BACKOFF_MIN_MS
  }
}

type TaskEnd = { ok: true } | { ok: false; pauseMs: number }

/** Sends the requests of one task and books what became of it. */
async function runTask(connection: Connection, source: RequestSource, shared: Shared, dueMs: number): Promise<TaskEnd> {
  const { workload, options, measured, nowMs, ending } = shared
  const prepared = source.next()
  let request = prepared instanceof Promise ? await prepared : prepared
  if (ending.aborted) return { ok: false, pauseMs: 0 }
  const sentMs = nowMs()
  const openLoop = options.unitsPerSecond !== null
  if (openLoop) measured.started(sentMs - dueMs)
  const latencyFromMs = openLoop ? dueMs : sentMs // the closed loop intends to start when the bytes are ready
  measured.inFlight++
  try {
    for (;;) {
      const response = await connection.send(request.head, request.body)
      shared.lastAnswerAtMs = response.completedAtMs
      if (response.status < 200 || response.status >= 300) {
        measured.failed(`${response.status} ${workload.refusalKind(response)}`)
        if (response.status >= 500) source.unresolved()
        const retryAfterSeconds = response.retryAfterSeconds ?? 0
        measured.retryAfterMaxSeconds = Math.max(measured.retryAfterMaxSeconds, retryAfterSeconds)
        return { ok: false, pauseMs: options.obeyRetryAfter ? retryAfterSeconds * 1000 : 0 }
      }
      const step = source.succeeded(response)
      if ('units' in step) {
        measured.completed(step, response.completedAtMs - latencyFromMs)
        return { ok: true }
      }
      request = step
    }
  } catch (error) {
    const kind = failureKind(error)
    if (kind === 'aborted') measured.cutOff(nowMs() - latencyFromMs)
    else measured.failed(kind)
    source.unresolved()
    return { ok: false, pauseMs: 0 }
  } finally {
    measured.inFlight--
  }
}

function failureKind(error: unknown): string {
  if (error instanceof ConnectionError) return error.kind
  if (error instanceof UnreadableAnswerError) return 'unreadable_answer'
  throw error
}

/** Sleeps, unless the run ends before. */
async function pause(durationMs: number, ending: AbortSignal): Promise<void> {
  if (durationMs <= 0 || ending.aborted) return
  try {
    await sleep(durationMs, undefined, { signal: ending })
  } catch (error) {
    if (!ending.aborted) throw error
  }
}

function afterAbort(signal: AbortSignal, delayMs: number, action: () => void): { cancel: () => void } {
  let timer: NodeJS.Timeout | undefined
  const onAbort = (): void => {
    timer = setTimeout(action, delayMs)
  }
  if (signal.aborted) onAbort()
  else signal.addEventListener('abort', onAbort, { once: true })
  return {
    cancel: () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
    },
  }
}
