/**
 * Ends a pool of threads without ending the process: Node 22 aborts when a thread is terminated while it loads its module
 * (`v8::Module::IsGraphAsync must be used on an instantiated module`), so threads that are still loading are awaited.
 */
import type { Worker } from 'node:worker_threads'
import type { Pool } from './piscina.ts'

/** For every pool: threads start without the flags of the process, and Piscina keeps no histograms, which take 3 MB and are never read. */
export const POOL_OPTIONS = { execArgv: [], recordTiming: false }

export class PoolThreads {
  readonly #pool: Pool
  /** Threads that the pool began with, until they have loaded or are gone. */
  readonly #beginning = new Map<Worker, Promise<void>>()
  /** Ids of the threads that have loaded, and of the first ones, for which `beginning` waits. */
  readonly #loaded = new Set<number>()
  #heard: () => void = () => {}
  #destroyed: Promise<void> | null = null

  /**
   * For a pool that was made in this turn of the event loop. Piscina reports the threads that it begins with as ready at once, but only their first message
   * says that they have loaded.
   */
  constructor(pool: Pool) {
    this.#pool = pool
    for (const thread of pool.threads) {
      const begun = new Promise<void>((resolve) => {
        thread.once('message', () => resolve())
        thread.once('exit', () => resolve())
      })
      this.#beginning.set(
        thread,
        begun.then(() => void this.#beginning.delete(thread)),
      )
      this.#loaded.add(thread.threadId)
    }
    pool.on('workerCreate', ({ id }: { readonly id: number }) => {
      this.#loaded.add(id)
      this.#heard()
    })
  }

  /** Resolves when the first threads have loaded; null when they have already. Before that, a task that is given up would end its thread while it loads. */
  get beginning(): Promise<unknown> | null {
    if (this.#beginning.size === 0) return null
    for (const thread of this.#beginning.keys()) thread.ref() // or the process may end before; Piscina lets go of it then
    return Promise.all(this.#beginning.values())
  }

  /** Ends the threads. The pool is given no more tasks, for which it would start another thread. */
  destroy(): Promise<void> {
    return (this.#destroyed ??= this.#destroy())
  }

  async #destroy(): Promise<void> {
    await this.beginning
    for (let thread = this.#loading; thread !== undefined; thread = this.#loading) await this.#loadedOrGone(thread)
    await this.#pool.destroy()
  }

  /** A thread that is still loading and began later, as when tasks were waiting. */
  get #loading(): Worker | undefined {
    return this.#pool.threads.find(({ threadId }) => threadId >= 0 && !this.#loaded.has(threadId))
  }

  #loadedOrGone(thread: Worker): Promise<void> {
    thread.ref() // or the process may end before
    return new Promise((resolve) => {
      thread.once('exit', () => resolve())
      this.#heard = () => {
        if (this.#loaded.has(thread.threadId)) resolve()
      }
    })
  }
}
