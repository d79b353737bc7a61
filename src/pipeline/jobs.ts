/**
 * Short tasks on a pool of threads, with a bounded queue in front.
 *
 * At most threads + queueMax tasks are inside; the next one is refused as `overloaded`. They begin in their order, or tenants take turns (turns.ts).
 *
 * J2  every accepted task settles: with its result, or as `unavailable` when it threw (job_failed), its thread died (job_thread_died), or its time was
 *     over (job_timed_out).
 *     A task that its caller aborted rejects with the caller's own reason
 * J3  a thread that dies ends its own task and is replaced; the other tasks continue
 *
 * Values that cross the boundary are cloned. If the caller shall branch on a failure, the task returns the failure as a result.
 */
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { ResourceLimits, Transferable } from 'node:worker_threads'
import { StoreError, messageOf } from '../errors.ts'
import { Piscina, balancer, forNewestThread } from './piscina.ts'
import type { Pool } from './piscina.ts'
import { PoolThreads, POOL_OPTIONS } from './pool-threads.ts'
import { Turns } from './turns.ts'

export interface JobPoolOptions<Task> {
  /** For messages to people: 'logstore query'. */
  readonly name: string
  /** Module whose default export is the task. */
  readonly filename: URL
  readonly threads: number
  /** Started with the pool, so that its first tasks do not wait for one; the others start when tasks queue. Default 1. */
  readonly threadsAtStart?: number
  /** Tasks that may wait while every thread is busy. */
  readonly queueMax: number
  /** Cloned once per thread; the module reads it as `workerData` of Piscina. */
  readonly workerData?: unknown
  readonly resourceLimits?: ResourceLimits
  /** Which tasks do not need what others leave in the memory of a thread: they avoid the thread that the others take first. Absent: none. */
  readonly wantsNewestThread?: (task: Task) => boolean
  /** Absent: all tasks are of one tenant. */
  readonly turns?: {
    readonly tenantOf: (task: Task) => string
    /** Monotonic. */
    readonly nowMs: () => number
  }
}

export interface JobOptions {
  /** The thread of a task that runs longer is killed. Waiting in the queue counts. */
  readonly timeoutMs?: number
  /** Takes the task out of the queue, or kills its thread. */
  readonly signal?: AbortSignal
  readonly transfer?: readonly Transferable[]
}

export class JobPool<Task, Result> {
  readonly #options: JobPoolOptions<Task>
  readonly #turns: Turns | null
  readonly #tasksMax: number
  #pool: Pool<Task, Result> | null = null
  #threads: PoolThreads | null = null
  #tasks = 0
  #closed = false
  /** True when the threads are being ended. */
  #isEnding = false
  #idle: () => void = ignore

  constructor(options: JobPoolOptions<Task>) {
    this.#options = options
    this.#turns = options.turns === undefined ? null : new Turns(options.threads, options.turns.nowMs)
    this.#tasksMax = options.threads + options.queueMax
    if (options.threadsAtStart !== 0) this.#pool = this.#start()
  }

  /** Tasks running or waiting. */
  get tasks(): number {
    return this.#tasks
  }

  async run(task: Task, options: JobOptions = {}): Promise<Result> {
    if (this.#closed) throw this.#shuttingDown()
    if (this.#tasks >= this.#tasksMax) {
      throw new StoreError(
        'overloaded',
        'jobs_queue_full',
        `${this.#options.name} jobs: ${this.#tasks} are in progress, retry later`,
      )
    }
    const limits = new TaskLimits(options)

    this.#tasks++
    const turn = this.#turns?.join(this.#options.turns!.tenantOf(task))
    try {
      if (turn !== undefined) await Promise.race([turn.ready, limits.over])
      if (this.#isEnding) throw this.#shuttingDown()
      this.#pool ??= this.#start()
      const beginning = this.#threads?.beginning
      if (beginning) await Promise.race([beginning, limits.over])
      if (this.#isEnding) throw this.#shuttingDown() // Piscina would start another thread for it
      return await this.#pool.run(this.#options.wantsNewestThread?.(task) === true ? forNewestThread(task) : task, {
        signal: limits.signal,
        // Piscina's list is mutable and narrower by name only.
        ...(options.transfer && { transferList: [...options.transfer] as ArrayBuffer[] }),
      })
    } catch (error) {
      if (options.signal?.aborted) throw options.signal.reason
      if (limits.isTimedOut) {
        throw new StoreError(
          'unavailable',
          'job_timed_out',
          `${this.#options.name} job took longer than ${options.timeoutMs} ms`,
        )
      }
      if (error instanceof StoreError) throw error
      const code = isDeath(error) ? 'job_thread_died' : 'job_failed'
      throw new StoreError('unavailable', code, `${this.#options.name} job failed: ${messageOf(error)}`, {
        cause: error,
      })
    } finally {
      limits.end()
      turn?.leave()
      this.#tasks--
      if (this.#tasks === 0) this.#idle()
    }
  }

  /** Lets the tasks inside finish for a while, then kills the threads; what is not done by then rejects as `unavailable`. */
  async close({ withinMs }: { readonly withinMs: number }): Promise<void> {
    this.#closed = true
    if (this.#tasks > 0) {
      const outOfTime = AbortSignal.timeout(Math.ceil(withinMs)) // which takes no fractions
      await new Promise<void>((resolve) => {
        this.#idle = resolve
        outOfTime.addEventListener('abort', () => resolve(), { once: true })
      })
    }
    this.#isEnding = true
    await this.#threads?.destroy()
  }

  #shuttingDown(): StoreError {
    return new StoreError('unavailable', 'jobs_closed', `${this.#options.name} jobs are shutting down`)
  }

  /** At least one thread is kept from here on: with none, Piscina would let the tasks behind a dying thread wait for the next task. */
  #start(): Pool<Task, Result> {
    const { filename, threads, threadsAtStart = 1, workerData, resourceLimits } = this.#options
    const pool = new Piscina<Task, Result>({
      filename: fileURLToPath(filename),
      minThreads: Math.max(1, threadsAtStart),
      maxThreads: threads,
      idleTimeout: Infinity,
      workerData,
      loadBalancer: balancer,
      ...POOL_OPTIONS,
      ...(resourceLimits && { resourceLimits }),
    })
    this.#threads = new PoolThreads(pool)
    pool.on('error', ignore) // a thread that dies idle is replaced; with a task, the task rejects
    return pool
  }
}

/** Ends a task early, by its time-out or its caller. `AbortSignal.timeout` would keep the task's memory until the time is over, even if the task is done. */
class TaskLimits {
  isTimedOut = false
  readonly #controller = new AbortController()
  readonly #abort = (): void => this.#controller.abort()
  readonly #caller: AbortSignal | undefined
  readonly #timer: NodeJS.Timeout | null

  constructor({ timeoutMs, signal }: JobOptions) {
    this.#caller = signal
    if (signal?.aborted) this.#abort()
    else signal?.addEventListener('abort', this.#abort)
    this.#timer = timeoutMs === undefined ? null : setTimeout(() => this.#timeOut(), timeoutMs).unref()
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Resolves when the signal aborts. */
  get over(): Promise<unknown> {
    const { signal } = this
    return signal.aborted ? Promise.resolve() : once(signal, 'abort')
  }

  /** The task settled. */
  end(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#caller?.removeEventListener('abort', this.#abort)
  }

  #timeOut(): void {
    this.isTimedOut = true
    this.#abort()
  }
}

/** Piscina reports the death of a thread only by the message of the error. */
const isDeath = (error: unknown): boolean =>
  error instanceof Error &&
  (error.message.startsWith('worker exited with code') ||
    ('code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY'))

function ignore(): void {}
