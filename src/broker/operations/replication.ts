/**
 * Replication as operators and publishers see it: status, poll, pause and resume of workers, waiting for a target. Source:
 * specification "Replication", contract "Broker".
 *
 * C1  a publish that waits for a target is refused before it is stored if the target is known to be unreachable
 */
import { replied, replyWhenFound } from '../../engine/decision.ts'
import type { Decision } from '../../engine/decision.ts'
import type { ReplicationPolicy } from '../../config/replication-binding.ts'
import type { ReplicationGauges } from '../counters.ts'
import type { Change } from '../frames/change.ts'
import { REPLICATION_ACKNOWLEDGE_MS_MAX, REPLICATION_BATCHES_MAX, REPLICATION_POLL_MS_MAX } from '../limits.ts'
import type { Caller } from '../operations.ts'
import type { TenantQuotas } from '../quotas.ts'
import { refuse } from '../refusals.ts'
import type { BrokerError } from '../refusals.ts'
import type * as wire from '../wire/types.ts'
import type { Core } from '../engine/core.ts'
import type { StreamState } from '../state/state.ts'
import { notAcknowledged } from './replication-worker.ts'
import type { ReplicationWorker } from './replication-worker.ts'
import { ReplicationWorkers } from './replication-workers.ts'
import type { ReplicationOptions } from './replication-workers.ts'

/** Most workers that one poll wakes; the others look by themselves. */
const POLLED_MAX = 1000
const INSPECT = { action: 'Inspect the replication status, then publish again.' }

export class Replication {
  readonly #core: Core
  readonly #nodeId: string
  /** Null: the node has no binding. */
  readonly #workers: ReplicationWorkers | null

  constructor(core: Core, quotas: TenantQuotas, nodeId: string, options: ReplicationOptions | null) {
    this.#core = core
    this.#nodeId = nodeId
    const takeEgress = (tenant: string, bytes: number): number => quotas.takeEgress(tenant, bytes)
    this.#workers = options && new ReplicationWorkers(core, takeEgress, options)
  }

  get gauges(): ReplicationGauges {
    return this.#workers?.gauges ?? NO_WORKERS
  }

  close(): void {
    this.#workers?.close()
  }

  /** Does nothing on a node without a binding. */
  replacePolicies(policies: readonly ReplicationPolicy[]): void {
    if (this.#workers === null) return
    this.#core.policies.replace(policies)
    this.#workers.policiesReplaced()
  }

  // Operators

  status(caller: Caller): Decision<wire.ReplicationStatusReply, Change> {
    const { state } = this.#core
    const targets: wire.ReplicationStatusReply['targets'] = []
    for (const stream of state.streamsOf(caller.tenant)) {
      for (const { link, next, skipped } of stream.replicated?.links() ?? []) {
        targets.push({
          tenant: stream.tenant,
          stream: stream.name,
          source_site: link.sourceSite,
          target_site: link.targetSite,
          policy: link.policy,
          next_expected_offset: next,
          target_watermark: stream.visibleNext,
          skipped_records: skipped,
        })
      }
    }
    const head = { api_version: 'v1', node_id: this.#nodeId, runtime_boundary: 'in-process' } as const
    if (this.#workers === null) {
      const none = { state: 'not_configured' }
      return replied({
        ...head,
        status: 'not_configured',
        scheduler: none,
        transport: none,
        workers: [],
        checkpoints: [],
        targets,
      })
    }
    const workers = this.#workersOf(caller)
    return replied({
      ...head,
      status: statusOf(workers),
      scheduler: { state: 'running', batches_under_way: this.#workers.underWay, batches_max: REPLICATION_BATCHES_MAX },
      transport: transportOf(workers),
      workers: workers.map(entryOf),
      checkpoints: workers.map((worker) => ({
        ...identityOf(worker),
        next_offset: worker.next,
        skipped_records: worker.stream.replicated?.shipment(worker.link).skippedRecords ?? 0,
      })),
      targets,
    })
  }

  poll(caller: Caller): Decision<wire.ReplicationPollReply, Change> {
    const workers = this.#workers
    return workers === null ? notConfigured() : replyWhenFound(() => this.#poll(caller, workers))
  }

  async #poll(caller: Caller, workers: ReplicationWorkers): Promise<wire.ReplicationPollReply> {
    const polled = this.#workersOf(caller).slice(0, POLLED_MAX)
    const countsOf = (): { batches: number; records: number } => ({
      batches: polled.reduce((sum, { shippedBatches }) => sum + shippedBatches, 0),
      records: polled.reduce((sum, { shippedRecords }) => sum + shippedRecords, 0),
    })
    const before = countsOf()
    await workers.settled(polled, REPLICATION_POLL_MS_MAX)
    const now = countsOf()
    return {
      api_version: 'v1',
      polled_workers: polled.length,
      shipped_batches: now.batches - before.batches,
      shipped_records: now.records - before.records,
      failed_workers: polled.filter(({ failure }) => failure !== null).length,
      workers: polled.map(entryOf),
      transport: transportOf(polled),
    }
  }

  pause(caller: Caller, body: wire.ReplicationControlBody): Decision<wire.ReplicationControlReply, Change> {
    return this.#control(caller, body, 'paused')
  }

  resume(caller: Caller, body: wire.ReplicationControlBody): Decision<wire.ReplicationControlReply, Change> {
    return this.#control(caller, body, 'resumed')
  }

  #control(
    caller: Caller,
    body: wire.ReplicationControlBody,
    state: 'paused' | 'resumed',
  ): Decision<wire.ReplicationControlReply, Change> {
    const core = this.#core
    const workers = this.#controlled(caller, body)
    if (workers instanceof Error) return workers
    const { stream } = workers[0]!
    const { tenant, principal } = caller
    const reason = body.reason ?? null
    const { before, frame, atMs } = core.audited(caller, 'finish', (event) => ({
      kind: `replication_${state}`,
      ...event,
      stream_number: stream.number,
      stream: stream.name,
      source_site: body.source_site,
      target_site: body.target_site,
      reason,
    }))
    const onTaken = (): void => {
      for (const worker of this.#workers!.of(stream)) {
        if (state === 'resumed') this.#workers!.resume(worker)
        else if (worker.isPaused) worker.giveUpWaiting(null, 'its worker is paused')
      }
    }
    return {
      kind: 'change',
      before,
      frame: { ...frame, onTaken },
      reply: () => ({
        api_version: 'v1',
        control: {
          tenant,
          stream: stream.name,
          source_site: body.source_site,
          target_site: body.target_site,
          state,
          reason,
          changed_by: principal,
          changed_at_ms: atMs,
        },
        summary: {
          message: state === 'paused' ? 'the stream is not shipped until it is resumed' : 'the stream is shipped again',
          lag_records: workers.reduce((most, { lagRecords }) => Math.max(most, lagRecords), 0),
          workers: workers.map(entryOf),
        },
        acknowledgement: core.acknowledgement,
      }),
    }
  }

  #controlled(caller: Caller, body: wire.ReplicationControlBody): readonly ReplicationWorker[] | BrokerError {
    const workers = this.#workers
    if (workers === null) return notConfigured()
    const isOwn = (body.tenant ?? caller.tenant) === caller.tenant
    const stream = isOwn ? this.#core.state.stream(caller.tenant, body.stream) : undefined
    const found = (stream ? workers.of(stream) : []).filter(
      ({ link }) => link.sourceSite === body.source_site && link.targetSite === body.target_site,
    )
    if (found.length > 0) return found
    return refuse('replication_worker_not_found', 'no policy replicates a stream of this name between these sites')
  }

  #workersOf(caller: Caller): ReplicationWorker[] {
    const found: ReplicationWorker[] = []
    for (const stream of this.#core.state.streamsOf(caller.tenant)) found.push(...(this.#workers?.of(stream) ?? []))
    return found
  }

  // Publishers

  /** C1. Why the policy cannot be met now; null: it can. */
  problemOf(stream: StreamState, name: string): BrokerError | null {
    const worker = this.#workerOf(stream, name)
    if (worker instanceof Error) return worker
    if (worker.isPaused) return unavailable('the worker of the policy is paused')
    if (worker.failure) return unavailable('the target of the policy cannot be reached at present')
    return worker.isThrottled ? unavailable('the tenant has sent as much to other sites as its quota allows') : null
  }

  /** Resolves when the target has the records [first, end), which are stored here. Rejects with a BrokerError when that takes too long. */
  acknowledged(stream: StreamState, name: string, first: number, end: number): Promise<wire.ReplicationReceipt> {
    if (!this.#core.isCurrent(stream)) return Promise.reject(notAcknowledged('the stream is gone'))
    const untilMs = this.#core.time.nowMs() + REPLICATION_ACKNOWLEDGE_MS_MAX
    const worker = this.#workerOf(stream, name)
    return worker instanceof Error ? Promise.reject(worker) : worker.acknowledged(first, end, untilMs)
  }

  #workerOf(stream: StreamState, name: string): ReplicationWorker | BrokerError {
    if (this.#workers === null)
      return unavailable('the stream asks for a replication policy, and the broker has no binding', NO_BINDING)
    const policy = this.#core.policies.of(stream).find((each): each is ReplicationPolicy => each.name === name)
    if (policy) return this.#workers.worker(stream, policy)
    return unavailable('the binding has no policy of this name for the stream', NO_BINDING)
  }
}

const NO_BINDING = {
  action:
    'Publish to a stream of another durability, or start the broker with a binding whose policy of this name names the stream.',
}

const NO_WORKERS: ReplicationGauges = { workers: 0, paused: 0, failing: 0, lagging: 0, lagRecords: 0, lagMs: 0 }

const notConfigured = (): BrokerError => refuse('replication_not_configured', 'this node has no replication binding')

const unavailable = (message: string, options = INSPECT): BrokerError =>
  refuse('replication_unavailable', message, options)

const identityOf = ({ stream, link }: ReplicationWorker) => ({
  tenant: stream.tenant,
  stream: stream.name,
  source_site: link.sourceSite,
  target_site: link.targetSite,
  policy: link.policy,
})

function entryOf(worker: ReplicationWorker): wire.ReplicationWorkerEntry {
  const { stream, link, failure } = worker
  const paused = stream.replicated?.paused(link) ?? null
  return {
    ...identityOf(worker),
    state: stateOf(worker),
    lagging: worker.isLagging,
    lag_records: worker.lagRecords,
    lag_millis: worker.lagMs,
    max_lag_records: worker.policy.maxLagRecords,
    shipped_records: worker.shippedRecords,
    shipped_batches: worker.shippedBatches,
    last_shipped_at_ms: worker.lastShippedAtMs,
    attempts: worker.attempts,
    last_error: failure && { code: failure.code, message: failure.message, at_ms: failure.atMs },
    paused: paused && { reason: paused.reason, by: paused.principal, at_ms: paused.atMs },
  }
}

function stateOf(worker: ReplicationWorker): string {
  if (worker.isPaused) return 'paused'
  if (worker.failure) return 'failing'
  if (worker.isThrottled) return 'throttled'
  return worker.isBehind ? 'shipping' : 'idle'
}

function statusOf(workers: readonly ReplicationWorker[]): string {
  if (workers.some(({ failure, isPaused }) => failure !== null && !isPaused)) return 'failing'
  if (workers.some(({ isLagging }) => isLagging)) return 'lagging'
  return workers.length > 0 && workers.every(({ isPaused }) => isPaused) ? 'paused' : 'running'
}

function transportOf(workers: readonly ReplicationWorker[]): wire.ReplicationPollReply['transport'] {
  const failures = workers.flatMap(({ failure }) => failure ?? [])
  const last = failures.toSorted((a, b) => b.atMs - a.atMs)[0]
  const isUsed = workers.some(({ lastShippedAtMs }) => lastShippedAtMs !== null)
  return {
    state: last ? 'failing' : isUsed ? 'ok' : 'idle',
    last_error: last ? { code: last.code, message: last.message, at_ms: last.atMs } : null,
  }
}
