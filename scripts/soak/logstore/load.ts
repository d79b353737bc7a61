/** Connections that send every kind of batch to a log store until each one is acknowledged, and the questions to ask it. */
import assert from 'node:assert/strict'
import { mix32, Random } from '../../../bench/load/random.ts'
import { policyTenant } from '../../../test/support/logstore.ts'
import type { LogStoreServer, PolicyTenant } from '../../../test/support/logstore.ts'
import { Crew } from '../crew.ts'
import { Batches, ROUTES } from './batches.ts'
import { checkAll, checkCount, checkSample } from './checks.ts'
import type { Ask, QueryReply } from './checks.ts'
import { Sender } from './sender.ts'

/** A tenant without limits, so that no load is refused. */
export const UNLIMITED: PolicyTenant = policyTenant('local', 'local-dev-token', {
  records: null,
  bytes: null,
  concurrent_requests: null,
})

const SAMPLED_BATCHES = 12

export interface LoadOptions {
  readonly seed: number
  /** Two loads on one store must not share it. */
  readonly dataset?: string
  readonly connections?: number
  readonly recordsPerBatch?: number
  /** Mean, in protobuf. */
  readonly recordBytes?: number
  /** Pause of each connection between an acknowledgement and its next batch. */
  readonly pauseMs?: number
  readonly obeyRetryAfter?: boolean
}

export class Load extends Crew {
  readonly batches: Batches
  readonly random: Random
  readonly ask: Ask
  readonly senders: readonly Sender[]

  static start(server: LogStoreServer, options: LoadOptions): Load {
    return new Load(server, options)
  }

  private constructor(server: LogStoreServer, options: LoadOptions) {
    super()
    const { seed, dataset = 'soak', connections = 8, recordsPerBatch = 25, recordBytes = 300 } = options
    const { pauseMs = 5, obeyRetryAfter = false } = options
    const batches = new Batches({ seed, dataset, recordsPerBatch, recordBytes })
    this.batches = batches
    this.random = new Random(mix32(seed))
    const patient = { deadline_ms: 60_000 } // a busy machine answers late
    this.ask = async (query) => (await server.request('/v1/query', { ...patient, ...query })).ok() as QueryReply // checked field by field
    const authority = (): string => server.readyLine.http
    this.senders = Array.from(
      { length: connections },
      (_, n) => new Sender({ batches, route: ROUTES[n % ROUTES.length]!, authority, pauseMs, obeyRetryAfter }),
    )
    this.begin(this.senders)
  }

  /** Requests whose answer never came. */
  get unanswered(): number {
    return this.senders.reduce((sum, { unanswered }) => sum + unanswered, 0)
  }

  /** How often each refusal came. */
  get refusals(): Record<string, number> {
    const all: Record<string, number> = {}
    for (const { refusals } of this.senders) {
      for (const [name, count] of refusals) all[name] = (all[name] ?? 0) + count
    }
    return all
  }

  /** Resolves when every batch that was begun is acknowledged. */
  async stop(): Promise<void> {
    await this.stopAll()
  }

  /** Ends the load as it is: the check after it failed, or never came. */
  abandon(): void {
    for (const sender of this.senders) sender.abandon()
  }

  /** While the load goes on: the number of records is right, and so are some batches. */
  async check(): Promise<number> {
    const matched = await checkCount(this.ask, this.batches)
    await checkSample(this.ask, this.batches, this.random, SAMPLED_BATCHES)
    return matched
  }

  /** After `stop`: every record is there, once, and nothing else. */
  async checkEverything(): Promise<void> {
    const { batches, ask } = this
    assert.equal(batches.acknowledgedRecords, batches.sentRecords)
    assert.equal(await checkCount(ask, batches), batches.sentRecords)
    await checkAll(ask, batches)
  }
}

export async function bundlesOf(server: LogStoreServer): Promise<number> {
  const { text } = await server.request('/metrics', null)
  return Number(/^logstore_bundles (\d+)$/m.exec(text)?.[1])
}
