/**
 * Requests for the threads of a pool, gathered into jobs.
 *
 * G1  a thread has one job at a time. Requests that come meanwhile go together in the next jobs, so they share a job's overhead. While a thread
 *     is free, the requests of one turn of the event loop go together
 * G2  requests are taken in the order in which they came. Free threads share the waiting ones, up to `weightMax` a job, so that
 *     none waits for a long job
 */
export interface GatheredJobsOptions<Request> {
  /** Threads of the pool behind `run`. */
  readonly threads: number
  readonly weightMax: number
  readonly weigh: (request: Request) => number
  /** One job. Settles every request of the group itself, and never rejects. */
  readonly run: (group: readonly Request[]) => Promise<void>
  /** Calls once, after what is under way in this turn of the event loop. */
  readonly defer: (run: () => void) => void
}

export class GatheredJobs<Request> {
  readonly #options: GatheredJobsOptions<Request>
  #waiting: Request[] = []
  #running = 0
  #deferred = false

  constructor(options: GatheredJobsOptions<Request>) {
    this.#options = options
  }

  /** Requests that wait for a thread. */
  get waiting(): number {
    return this.#waiting.length
  }

  add(request: Request): void {
    const { threads, defer } = this.#options
    this.#waiting.push(request)
    if (this.#deferred || this.#running >= threads) return
    this.#deferred = true
    defer(() => {
      this.#deferred = false
      this.#start()
    })
  }

  /** G1 */
  #start(): void {
    while (this.#running < this.#options.threads && this.#waiting.length > 0) {
      const group = this.#take()
      this.#running += 1
      void this.#options.run(group).finally(() => {
        this.#running -= 1
        this.#start()
      })
    }
  }

  /** G2 */
  #take(): Request[] {
    const { threads, weigh, weightMax } = this.#options
    const share = Math.ceil(this.#waiting.length / (threads - this.#running))
    let weight = 0
    let count = 0
    while (count < share) {
      weight += weigh(this.#waiting[count]!)
      if (count > 0 && weight > weightMax) break
      count += 1
    }
    return this.#waiting.splice(0, count)
  }
}
