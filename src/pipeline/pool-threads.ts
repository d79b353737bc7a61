/**
 * Ends a pool of threads without ending the process: Node 22 aborts when a thread is terminated while it loads its module
 * (`v8::Module::IsGraphAsync must be used on an instantiated module`), so those that still do are waited for.
 */
import type { Worker } from 'node:worker_threads'
import type { Piscina } from 'piscina'

/** Of every pool: its threads, too, take their sources from the cache, and nobody reads its histograms, which take 3 MB. */
export const POOL_OPTIONS = {
  execArgv: ['--import', new URL('../stripped-types.js', import.meta.url).href],
  recordTiming: false,
}

export class PoolThreads {
  readonly #pool: Piscina
  /** By thread id. */
  readonly #loaded = new Set<number>()
  #heard: () => void = () => {}

  /** Of a pool that was made in this turn of the event loop. */
  constructor(pool: Piscina) {
    this.#pool = pool
    pool.on('workerCreate', ({ id }: { readonly id: number }) => {
      this.#loaded.add(id)
      this.#heard()
    })
  }

  async destroy(): Promise<void> {
    for (const thread of this.#pool.threads) await this.#loadedOrGone(thread)
    await this.#pool.destroy()
  }

  #loadedOrGone(thread: Worker): Promise<void> {
    if (this.#loaded.has(thread.threadId) || thread.threadId < 0) return Promise.resolve()
    thread.ref() // or the process may end before
    return new Promise((resolve) => {
      thread.once('exit', () => resolve())
      this.#heard = () => {
        if (this.#loaded.has(thread.threadId)) resolve()
      }
    })
  }
}
