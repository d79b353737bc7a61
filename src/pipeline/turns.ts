/**
 * Decides which tenant's job the next free thread takes, when several tenants share the threads.
 *
 * T1  it takes a job of the tenant that has the fewest running now; of several such tenants, of the one that used the least thread time
 * T2  the time of a tenant is counted as long as it has jobs here. A tenant that comes, or comes again, begins with the time of the tenant that was
 *     served last: it neither waits for what others used before, nor makes up for what it did not use
 * T3  jobs of one tenant keep their order
 * T4  a job leaves once: when it has ended, or waits no more
 */
import assert from 'node:assert/strict'

/** A job among those of its tenant. */
export interface Turn {
  /** Resolves when a thread is free for it. */
  readonly ready: Promise<void>
  /** The job has ended, or waits no more. */
  leave(): void
}

interface Job {
  readonly ready: PromiseWithResolvers<void>
  /** NaN: the job waits. */
  begunMs: number
}

interface Tenant {
  /** T3 */
  readonly waiting: Set<Job>
  readonly running: Set<Job>
  usedMs: number
}

export class Turns {
  readonly #nowMs: () => number
  readonly #tenants = new Map<string, Tenant>()
  #free: number
  /** T2 */
  #floorMs = 0

  /** @param nowMs monotonic */
  constructor(threads: number, nowMs: () => number) {
    this.#free = threads
    this.#nowMs = nowMs
  }

  join(name: string): Turn {
    let tenant = this.#tenants.get(name)
    if (tenant === undefined) {
      tenant = { waiting: new Set(), running: new Set(), usedMs: this.#floorMs }
      this.#tenants.set(name, tenant)
    }
    const job: Job = { ready: Promise.withResolvers<void>(), begunMs: NaN }
    tenant.waiting.add(job)
    this.#fillThreads()
    return { ready: job.ready.promise, leave: () => this.#leave(name, tenant, job) }
  }

  #leave(name: string, tenant: Tenant, job: Job): void {
    if (tenant.running.delete(job)) {
      tenant.usedMs += this.#nowMs() - job.begunMs
      this.#free += 1
    } else assert(tenant.waiting.delete(job)) // T4
    if (tenant.running.size === 0 && tenant.waiting.size === 0) this.#tenants.delete(name)
    this.#fillThreads()
  }

  #fillThreads(): void {
    while (this.#free > 0) {
      const tenant = this.#next()
      if (tenant === null) return
      const [job] = tenant.waiting
      assert(job !== undefined)
      tenant.waiting.delete(job)
      tenant.running.add(job)
      this.#free -= 1
      this.#floorMs = Math.max(this.#floorMs, tenant.usedMs)
      job.begunMs = this.#nowMs()
      job.ready.resolve()
    }
  }

  /** T1. Null: nothing waits. */
  #next(): Tenant | null {
    let next: Tenant | null = null
    for (const tenant of this.#tenants.values()) {
      if (tenant.waiting.size > 0 && (next === null || isBefore(tenant, next))) next = tenant
    }
    return next
  }
}

const isBefore = (a: Tenant, b: Tenant): boolean =>
  a.running.size < b.running.size || (a.running.size === b.running.size && a.usedMs < b.usedMs)
