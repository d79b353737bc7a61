/**
 * A lane: one thread that runs one endless task over rings, until it is told to stop. A Piscina pool of one thread holds it,
 * so lanes and jobs start, load TypeScript and report errors in one way.
 *
 * A dead lane is not restarted here: its owner knows what was in flight.
 *
 * L1  a lane ends once: either stopped (its owner called `stop` first) or dead; `onDeath` is called at most once, and only
 *     for a lane that was not stopped
 * L2  messages that a lane posted before it ended are delivered before the end is reported
 * L3  its thread is gone when the end is reported: a successor may attach to the same rings
 *
 * `lane-task.ts` describes the task that runs on the thread.
 */
import assert from 'node:assert/strict'
import { fileURLToPath } from 'node:url'
import { MessageChannel, receiveMessageOnPort } from 'node:worker_threads'
import type { MessagePort, ResourceLimits, Transferable } from 'node:worker_threads'
import { messageOf } from '../errors.ts'
import { STOP } from './lane-task.ts'
import type { LaneTask } from './lane-task.ts'
import { Piscina } from './piscina.ts'
import type { Pool } from './piscina.ts'
import { PoolThreads, POOL_OPTIONS } from './pool-threads.ts'

export interface LaneOptions {
  /** For messages to people: 'logstore decode'. */
  readonly name: string
  /** Module whose default export is the task. */
  readonly filename: URL
  /** Cloned into the task as `data`; SharedArrayBuffers in it are shared. */
  readonly workerData: unknown
  onMessage(message: unknown): void
  onDeath(error: Error): void
  readonly resourceLimits?: ResourceLimits
}

export class Lane {
  readonly name: string
  readonly #port: MessagePort
  readonly #pool: Pool<LaneTask<unknown>, void>
  readonly #threads: PoolThreads
  readonly #ended: Promise<void>
  #state: 'running' | 'stopping' | 'terminating' | 'ended' = 'running'
  #stopFailure: Error | null = null

  static start(options: LaneOptions): Lane {
    return new Lane(options)
  }

  private constructor(options: LaneOptions) {
    this.name = options.name
    const { port1: ours, port2: theirs } = new MessageChannel()
    this.#port = ours
    ours.on('message', (message: unknown) => options.onMessage(message))

    // One thread from the start: a task handed to it at once is rejected when the module does not load.
    this.#pool = new Piscina({
      filename: fileURLToPath(options.filename),
      minThreads: 1,
      maxThreads: 1,
      ...POOL_OPTIONS,
      ...(options.resourceLimits && { resourceLimits: options.resourceLimits }),
    })
    this.#threads = new PoolThreads(this.#pool)
    const thread = this.#pool.threads[0]
    assert(thread !== undefined)
    const threadGone = new Promise((resolve) => thread.once('exit', resolve))
    this.#pool.on('error', ignore) // errors of the spare thread that Piscina starts after a death, which is torn down at once
    this.#ended = this.#pool
      .run({ port: theirs, data: options.workerData }, { transferList: [theirs] })
      .then(
        () => new Error(`lane ${options.name} returned without having been stopped`),
        (error: unknown) => new Error(`lane ${options.name} died: ${messageOf(error)}`, { cause: error }),
      )
      .then((end) => this.#end(end, threadGone, options))
  }

  /** Posts a control message. The lane looks at its port when woken: call `wake` of its ring afterwards. */
  post(message: unknown, transfer: readonly Transferable[] = []): void {
    if (this.#state !== 'ended') this.#port.postMessage(message, transfer)
  }

  /**
   * Asks the task to return; call `wake` of its ring afterwards. Resolves when the thread is gone; for a lane that is dead
   * already, at once. Rejects when the task threw instead of returning.
   */
  async stop(): Promise<void> {
    if (this.#state === 'running') {
      this.#state = 'stopping'
      this.post(STOP)
    }
    await this.#ended
    if (this.#stopFailure) throw this.#stopFailure
  }

  /** Kills the thread at once. A lane that was not asked to stop is dead then (`onDeath`). */
  async terminate(): Promise<void> {
    if (this.#state === 'stopping') this.#state = 'terminating'
    await this.#threads.destroy()
    await this.#ended
  }

  async #end(end: Error, threadGone: Promise<unknown>, options: LaneOptions): Promise<void> {
    await this.#threads.destroy()
    await threadGone // L3
    for (let last = receiveMessageOnPort(this.#port); last; last = receiveMessageOnPort(this.#port)) {
      options.onMessage(last.message) // L2
    }
    this.#port.close()
    const state = this.#state
    this.#state = 'ended'
    if (state === 'running') options.onDeath(end) // L1
    else if (state === 'stopping' && end.cause !== undefined) this.#stopFailure = end
  }
}

function ignore(): void {}
