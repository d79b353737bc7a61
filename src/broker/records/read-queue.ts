/**
 * Requests for the reader threads, gathered into jobs.
 *
 * G1  a thread has one job at a time; what comes meanwhile waits and goes together in the next one, so a job's overhead is shared by all
 *     that came during the one before. While a thread is free, the requests of one turn of the event loop go together
 * G2  requests are taken in the order they came, up to JOB_RECORDS_MAX records a job, so that nobody waits for a long one
 * G3  at most `waitingMax` requests wait; the next one is refused as `overloaded`. Every other is answered, or fails with its job
 */
import { StoreError } from '../../errors.ts'
import type { JobOptions } from '../../pipeline/jobs.ts'
import type { Readable } from './frame-source.ts'
import { PLACE_NUMBERS } from './places.ts'
import type { Places } from './places.ts'
import { REQUEST_NUMBERS, answerNumbers } from './read-protocol.ts'
import type { ReadKind, ReadResult, ReadTask, UnreadablePlace } from './read-protocol.ts'

const JOB_RECORDS_MAX = 2000
/** A disk that does not answer for so long has failed, for those who wait. */
const JOB_TIMEOUT_MS = 30_000

export interface ReadQueueOptions {
  readonly jobs: { run(task: ReadTask, options: JobOptions): Promise<ReadResult> }
  /** Of the pool behind `jobs`. */
  readonly threads: number
  readonly waitingMax: number
  /** What can be read at this moment. */
  readonly readable: () => Readable
  /** Calls once, after what is under way in this turn of the event loop. */
  readonly defer: (run: () => void) => void
}

/** What a request asks, see read-protocol.ts. */
export interface ReadRequest {
  readonly kind: ReadKind
  readonly audited: boolean
  readonly argument: number
  readonly places: Places
  /** The first so many. */
  readonly count: number
}

/** The part of a job's result that is for one request. */
export interface ReadAnswer {
  /** Of the whole job: the numbers say where. */
  readonly text: Buffer
  readonly numbers: Float64Array
  readonly unreadable: readonly UnreadablePlace[]
}

interface Waiting extends ReadRequest {
  readonly resolve: (answer: ReadAnswer) => void
  readonly reject: (error: unknown) => void
}

export class ReadQueue {
  readonly #options: ReadQueueOptions
  #waiting: Waiting[] = []
  #running = 0
  #deferred = false

  constructor(options: ReadQueueOptions) {
    this.#options = options
  }

  /** Requests that wait for a thread. */
  get waiting(): number {
    return this.#waiting.length
  }

  /** @throws StoreError reads_queue_full; as the job, when it fails */
  ask(request: ReadRequest): Promise<ReadAnswer> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length >= this.#options.waitingMax) {
        const message = `${this.#waiting.length} reads are waiting, retry later`
        return reject(new StoreError('overloaded', 'reads_queue_full', message)) // G3
      }
      this.#waiting.push({ ...request, resolve, reject })
      if (this.#deferred || this.#running >= this.#options.threads) return
      this.#deferred = true
      this.#options.defer(() => {
        this.#deferred = false
        this.#start()
      })
    })
  }

  /** G1 */
  #start(): void {
    while (this.#running < this.#options.threads && this.#waiting.length > 0) {
      this.#running += 1
      void this.#run(this.#take()).finally(() => {
        this.#running -= 1
        this.#start()
      })
    }
  }

  /** G2 */
  #take(): Waiting[] {
    let records = 0
    let requests = 0
    while (requests < this.#waiting.length) {
      records += this.#waiting[requests]!.count
      if (requests > 0 && records > JOB_RECORDS_MAX) break
      requests += 1
    }
    return this.#waiting.splice(0, requests)
  }

  async #run(group: readonly Waiting[]): Promise<void> {
    const { jobs, readable } = this.#options
    try {
      const requests = encodeRequests(group)
      const task = { readable: readable(), requests }
      settle(group, await jobs.run(task, { timeoutMs: JOB_TIMEOUT_MS, transfer: [requests.buffer] }))
    } catch (error) {
      for (const { reject } of group) reject(error)
    }
  }
}

function encodeRequests(group: readonly ReadRequest[]): Float64Array<ArrayBuffer> {
  const length = group.reduce((sum, { count }) => sum + REQUEST_NUMBERS + PLACE_NUMBERS * count, 0)
  const requests = new Float64Array(length)
  let at = 0
  for (const { kind, audited, argument, places, count } of group) {
    requests[at] = kind
    requests[at + 1] = audited ? 1 : 0
    requests[at + 2] = argument
    requests[at + 3] = count
    at += REQUEST_NUMBERS
    requests.set(places.numbers.subarray(0, PLACE_NUMBERS * count), at)
    at += PLACE_NUMBERS * count
  }
  return requests
}

function settle(group: readonly Waiting[], { text, numbers, unreadable }: ReadResult): void {
  const bytes = Buffer.from(text.buffer, text.byteOffset, text.byteLength)
  let at = 0
  for (const [request, { kind, count, resolve }] of group.entries()) {
    const end = at + answerNumbers(kind, count)
    const mine = unreadable.length === 0 ? unreadable : unreadable.filter((place) => place.request === request)
    resolve({ text: bytes, numbers: numbers.subarray(at, end), unreadable: mine })
    at = end
  }
}
