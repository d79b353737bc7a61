/**
 * Short tasks on a pool of threads, with a bounded queue in front.
 *
 * J1  at most threads + queueMax tasks are inside; the next one is refused as `overloaded`
 * J2  every accepted task settles: with its result, or as `unavailable` when it threw, its thread died, or its time was over.
 *     Only what the caller aborted rejects with the caller's own reason
 * J3  a thread that dies takes its own task along and is replaced; the other tasks go on
 *
 * What crosses the boundary is cloned: a task that wants its caller to branch on a failure returns it as a result.
 */
import { fileURLToPath } from 'node:url'
import type { ResourceLimits, Transferable } from 'node:worker_threads'
import { Piscina } from 'piscina'
import { StoreError } from '../errors.ts'

export interface JobPoolOptions {
  /** For messages to people: 'logstore query'. */
  readonly name: string
  /** Module whose default export is the task. */
  readonly filename: URL
  readonly threads: number
  /** Tasks that may wait while every thread is busy. */
  readonly queueMax: number
  /** Cloned once per thread; the module reads it as `workerData` of Piscina. */
  readonly workerData?: unknown
  readonly resourceLimits?: ResourceLimits
}

export interface JobOptions {
  /** The thread of a task that runs longer is killed. Waiting in the queue counts. */
  readonly timeoutMs?: number
  /** Takes the task out of the queue, or kills its thread. */
  readonly signal?: AbortSignal
  readonly transfer?: readonly Transferable[]
}

export class JobPool<Task, Result> {
  readonly #name: string
  readonly #pool: Piscina<Task, Result>
  readonly #tasksMax: number
  #tasks = 0
  #closed = false
  #idle: () => void = ignore

  constructor(options: JobPoolOptions) {
    this.#name = options.name
    this.#tasksMax = options.threads + options.queueMax
    this.#pool = new Piscina({
      filename: fileURLToPath(options.filename),
      minThreads: options.threads,
      maxThreads: options.threads,
      workerData: options.workerData,
      ...(options.resourceLimits && { resourceLimits: options.resourceLimits }),
    })
    this.#pool.on('error', ignore) // a thread that dies idle is replaced; with a task, the task rejects
  }

  /** Tasks running or waiting. */
  get tasks(): number {
    return this.#tasks
  }

  async run(task: Task, options: JobOptions = {}): Promise<Result> {
    if (this.#closed) throw new StoreError('unavailable', 'jobs_closed', `${this.#name} jobs are shutting down`)
    if (this.#tasks >= this.#tasksMax) {
      throw new StoreError(
        'overloaded',
        'jobs_queue_full',
        `${this.#name} jobs: ${this.#tasks} are in progress, retry later`,
      )
    }
    const timeout = options.timeoutMs === undefined ? null : AbortSignal.timeout(options.timeoutMs)
    const signals = [timeout, options.signal].filter((signal) => signal !== null && signal !== undefined)

    this.#tasks++
    try {
      return await this.#pool.run(task, {
        ...(signals.length > 0 && { signal: AbortSignal.any(signals) }),
        // Piscina's list is mutable and narrower by name only.
        ...(options.transfer && { transferList: [...options.transfer] as ArrayBuffer[] }),
      })
    } catch (error) {
      if (options.signal?.aborted) throw options.signal.reason
      if (timeout?.aborted) {
        throw new StoreError(
          'unavailable',
          'job_timed_out',
          `${this.#name} job took longer than ${options.timeoutMs} ms`,
        )
      }
      throw new StoreError('unavailable', 'job_failed', `${this.#name} job failed: ${messageOf(error)}`, {
        cause: error,
      })
    } finally {
      this.#tasks--
      if (this.#tasks === 0) this.#idle()
    }
  }

  /** Lets the tasks inside finish for a while, then kills the threads; what is not done by then rejects as `unavailable`. */
  async close({ withinMs }: { readonly withinMs: number }): Promise<void> {
    this.#closed = true
    if (this.#tasks > 0) {
      const outOfTime = AbortSignal.timeout(withinMs)
      await new Promise<void>((resolve) => {
        this.#idle = resolve
        outOfTime.addEventListener('abort', () => resolve(), { once: true })
      })
    }
    await this.#pool.destroy()
  }
}

function ignore(): void {}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
