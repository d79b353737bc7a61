/**
 * Requests for the reader threads, gathered into jobs.
 *
 * Q1  requests are gathered as src/pipeline/gathered-jobs.ts says; the weight of one is how many records it asks for
 * Q2  at most `waitingMax` requests wait; the next one is refused as `overloaded`. Every other is answered, or fails with its job
 * Q3  how long a page may be is decided when it is read, because only then the unread answers are known, and what the job has read before it
 */
import { freeMemory } from '../../free-memory.ts'
import { StoreError } from '../../errors.ts'
import type { ReadErrors } from '../../observability/read-errors.ts'
import { GatheredJobs } from '../../pipeline/gathered-jobs.ts'
import type { JobOptions } from '../../pipeline/jobs.ts'
import type { Readable } from './frame-source.ts'
import { PLACE_NUMBERS } from './places.ts'
import type { Places } from './places.ts'
import { REQUEST_NUMBERS, answerNumbers } from './read-protocol.ts'
import type { ReadKind, ReadResult, ReadTask, UnreadablePlace } from './read-protocol.ts'
import { UnreadAnswers } from './unread-answers.ts'

const JOB_RECORDS_MAX = 2000
/** A disk that does not answer for so long has failed, for the requests that wait for it. */
const JOB_TIMEOUT_MS = 30_000

export interface ReadQueueOptions {
  readonly jobs: { run(task: ReadTask, options: JobOptions): Promise<ReadResult> }
  /** Threads of the pool behind `jobs`. */
  readonly threads: number
  readonly waitingMax: number
  /** What can be read at this moment. */
  readonly readable: () => Readable
  /** Calls `run` once, after this turn of the event loop. */
  readonly defer: (run: () => void) => void
  readonly readErrors: Pick<ReadErrors, 'note' | 'noteFailed'>
}

/** What a request asks, see read-protocol.ts. */
export interface ReadRequest {
  readonly kind: ReadKind
  readonly audited: boolean
  readonly argument: number
  readonly places: Places
  /** How many of the places are asked for, from the first on. */
  readonly count: number
}

/** The part of a job's result that is for one request. */
export interface ReadAnswer {
  /** Text of the whole job: the numbers say where each request's part is. */
  readonly text: Buffer
  /** Call it when the text is not used any more. The last user frees the memory; if a user forgets, garbage collection does. */
  readonly textDone: () => void
  readonly numbers: Float64Array
  readonly unreadable: readonly UnreadablePlace[]
}

interface Waiting extends ReadRequest {
  readonly resolve: (answer: ReadAnswer) => void
  readonly reject: (error: unknown) => void
}

export class ReadQueue {
  /** Q3 */
  readonly unread = new UnreadAnswers()
  readonly #options: ReadQueueOptions
  readonly #gathered: GatheredJobs<Waiting>

  constructor(options: ReadQueueOptions) {
    this.#options = options
    this.#gathered = new GatheredJobs({
      threads: options.threads,
      weightMax: JOB_RECORDS_MAX,
      weigh: ({ count }) => count,
      run: (group) => this.#run(group),
      defer: options.defer,
    })
  }

  /** Requests that wait for a thread. */
  get waiting(): number {
    return this.#gathered.waiting
  }

  /** @throws StoreError reads_queue_full; as the job, when it fails */
  ask(request: ReadRequest): Promise<ReadAnswer> {
    return new Promise((resolve, reject) => {
      const { waiting } = this.#gathered
      if (waiting >= this.#options.waitingMax) {
        return reject(new StoreError('overloaded', 'reads_queue_full', `${waiting} reads are waiting, retry later`)) // Q2
      }
      this.#gathered.add({ ...request, resolve, reject })
    })
  }

  async #run(group: readonly Waiting[]): Promise<void> {
    const { jobs, readable, readErrors } = this.#options
    try {
      const requests = encodeRequests(group)
      const task = { readable: readable(), requests, heldBytes: this.unread.heldBytes }
      const result = await jobs.run(task, { timeoutMs: JOB_TIMEOUT_MS, transfer: [requests.buffer] })
      const failed = result.unreadable.find(({ isReadError }) => isReadError)
      if (failed) readErrors.note(failed.reason)
      settle(group, result)
    } catch (error) {
      readErrors.noteFailed('records', error)
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
  let readers = group.length
  let at = 0
  for (const [request, { kind, count, resolve }] of group.entries()) {
    let isDone = false
    const textDone = (): void => {
      if (isDone) return
      isDone = true
      readers -= 1
      if (readers === 0) freeMemory(text)
    }
    const end = at + answerNumbers(kind, count)
    const mine = unreadable.length === 0 ? unreadable : unreadable.filter((place) => place.request === request)
    resolve({ text: bytes, textDone, numbers: numbers.subarray(at, end), unreadable: mine })
    at = end
  }
}
