/**
 * The bucket that queries are answered from, on the main thread: the catalog of the last listing, and the lane that reads.
 *
 * A query is answered from the one catalog that it began with.
 *
 * S2  until the bucket was listed once, queries are refused; if it cannot be listed later, they use the last catalog, and health reports it
 * S3  if the reader thread dies, its queries are refused as retryable, and another thread is started
 */
import { MessageChannel } from 'node:worker_threads'
import { StoreError } from '../../errors.ts'
import type { Degradation } from '../../observability/health.ts'
import { Lane } from '../../pipeline/lane.ts'
import { workerFile } from '../../pipeline/worker-file.ts'
import { encodeCatalog } from '../index/catalog.ts'
import type { BucketState } from './bucket-catalog.ts'
import type { ObjectClientSettings } from './object-client.ts'
import {
  ACCESS_WORDS,
  BYTES_COUNTER,
  FAILURES_COUNTER,
  GONE_WORD,
  READER_COUNTERS,
  REPLIES_WORD,
  REQUESTS_COUNTER,
} from './remote-protocol.ts'
import type { ObjectReaderControl, ObjectReaderData, ObjectReaderMessage, RemoteAccess } from './remote-protocol.ts'

export interface BucketStoreParts {
  readonly settings: ObjectClientSettings & {
    readonly prefix: string
    readonly cacheBytes: number
    readonly refreshSeconds: number
  }
  readonly logger: {
    info(details: object, message: string): void
    warn(details: object, message: string): void
    error(details: object, message: string): void
  }
  readonly clock: {
    every(intervalMs: number, task: () => void): () => void
    after(delayMs: number, run: () => void): void
  }
}

/** What a query sees of the bucket. */
interface BucketSnapshot {
  readonly catalog: SharedArrayBuffer
  readonly logId: number
  /** Position behind the last bundle. */
  readonly end: number
  readonly damaged: BucketState['damaged']
  readonly bundles: number
}

export interface BucketQuery {
  readonly snapshot: BucketSnapshot
  readonly access: RemoteAccess
  /** Called once, when the query is over. */
  release(): void
}

/** How long a start waits for the first listing of the bucket. */
const FIRST_LISTING_MS = 10_000
const RESTART_MS = 1000

export class BucketStore {
  readonly #parts: BucketStoreParts
  readonly #counters = new Float64Array(new SharedArrayBuffer(8 * READER_COUNTERS))
  readonly #queries = new Set<RemoteAccess>()
  readonly #stopRefreshing: () => void
  #lane: Lane
  #snapshot: BucketSnapshot | null = null
  #problem: string | null = 'it was not looked at yet'
  #closed = false
  #resolveFirstListing: (refusedBecause: string | null) => void = () => {}

  /** @throws StoreError when the settings cannot work; a bucket that cannot be reached is no reason not to start */
  static async open(parts: BucketStoreParts): Promise<BucketStore> {
    const store = new BucketStore(parts)
    const refused = await new Promise<string | null>((resolve) => {
      store.#resolveFirstListing = resolve
      parts.clock.after(FIRST_LISTING_MS, () => resolve(null))
      store.#refresh()
    })
    if (refused === null) return store
    await store.close()
    throw new StoreError('invalid', 'query_store_unavailable', refused)
  }

  private constructor(parts: BucketStoreParts) {
    this.#parts = parts
    this.#lane = this.#start()
    this.#stopRefreshing = parts.clock.every(1000 * parts.settings.refreshSeconds, () => this.#refresh())
  }

  /** Why the bucket could not be listed the last time; null: it could. */
  get problem(): string | null {
    return this.#problem
  }

  degradations(): readonly Degradation[] {
    if (this.#problem === null) return []
    return [
      {
        kind: 'query_store',
        reason: `the bucket that queries read cannot be listed: ${this.#problem}`,
        action:
          'check the settings LOGSTORE_QUERY_S3_…, the credentials and the object store; ingest continues meanwhile',
      },
    ]
  }

  get bundles(): number {
    return this.#snapshot?.bundles ?? 0
  }

  get requests(): number {
    return this.#counters[REQUESTS_COUNTER]!
  }

  get bytesRead(): number {
    return this.#counters[BYTES_COUNTER]!
  }

  get failures(): number {
    return this.#counters[FAILURES_COUNTER]!
  }

  /** Null: the bucket was never listed (S2). */
  query(): BucketQuery | null {
    const snapshot = this.#snapshot
    if (snapshot === null) return null
    const { port1, port2 } = new MessageChannel()
    const words = new SharedArrayBuffer(4 * ACCESS_WORDS)
    const access = { port: port2, words }
    this.#queries.add(access)
    this.#post({ kind: 'connect', access: { port: port1, words } })
    return {
      snapshot,
      access,
      release: () => {
        this.#queries.delete(access)
        port2.close() // if the queue was full, no query thread has taken over the port
      },
    }
  }

  /** True while the bucket holds the same as when the query began. */
  isCurrent({ snapshot }: BucketQuery): boolean {
    return snapshot === this.#snapshot
  }

  /** A reader found the bundle damaged: it is read again, from what the bucket has then. */
  dropDamaged(base: number): void {
    this.#post({ kind: 'distrust', base })
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#stopRefreshing()
    await this.#lane.stop()
  }

  #start(): Lane {
    const { settings } = this.#parts
    const { prefix, cacheBytes, refreshSeconds: _, ...client } = settings
    const workerData: ObjectReaderData = { client, prefix, cacheBytes, counters: this.#counters.buffer }
    return Lane.start({
      name: 'logstore object reader',
      filename: workerFile('object-reader'),
      workerData,
      onMessage: (message) => this.#handleMessage(message as ObjectReaderMessage), // the worker posts nothing else
      onDeath: (error) => this.#handleDeath(error),
    })
  }

  #refresh(): void {
    this.#post({ kind: 'refresh' })
  }

  #post(control: ObjectReaderControl): void {
    this.#lane.post(control, control.kind === 'connect' ? [control.access.port] : [])
  }

  #handleMessage(message: ObjectReaderMessage): void {
    switch (message.kind) {
      case 'catalog':
        this.#takeState(message.state)
        return this.#resolveFirstListing(null)
      case 'unreachable':
        this.#noteProblem(message.reason)
        return this.#resolveFirstListing(null)
      case 'refused':
        this.#problem = message.problem // the start fails, and reports it
        return this.#resolveFirstListing(message.problem)
    }
  }

  #takeState({ bundles, logId, damaged }: BucketState): void {
    const before = this.#snapshot?.bundles
    if (this.#problem !== null || before !== bundles.length) {
      this.#parts.logger.info({ bundles: bundles.length }, 'the bucket was listed')
    }
    this.#problem = null
    const end = bundles.at(-1)?.end ?? 0
    const snapshot = { catalog: encodeCatalog(bundles), logId, end, damaged, bundles: bundles.length }
    if (this.#snapshot === null || !isSame(this.#snapshot, snapshot)) this.#snapshot = snapshot
  }

  #noteProblem(reason: string): void {
    if (this.#problem !== reason) this.#parts.logger.warn({ reason }, 'the bucket that queries read cannot be listed')
    this.#problem = reason
  }

  /** S3 */
  #handleDeath(error: Error): void {
    this.#parts.logger.error({ reason: error.message }, 'the thread that reads the bucket died')
    this.#problem = 'the thread that reads it died'
    for (const { words } of this.#queries) {
      const shared = new Int32Array(words)
      Atomics.store(shared, GONE_WORD, 1)
      Atomics.notify(shared, REPLIES_WORD)
    }
    this.#parts.clock.after(RESTART_MS, () => {
      if (this.#closed) return
      this.#lane = this.#start()
      this.#refresh()
    })
  }
}

function isSame(a: BucketSnapshot, b: BucketSnapshot): boolean {
  const isSameCatalog = Buffer.from(a.catalog).equals(Buffer.from(b.catalog))
  return isSameCatalog && a.logId === b.logId && JSON.stringify(a.damaged) === JSON.stringify(b.damaged)
}
