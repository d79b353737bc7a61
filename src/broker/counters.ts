/** What a broker counted since it started; exposed at /metrics. The engine counts what it did, the HTTP front what was refused. */
import { Histogram, LATENCY_BOUNDS } from '../pipeline/histogram.ts'
import type { RefusalCode } from './refusals.ts'

/** Bounds of the time from claim to acknowledgement: from a millisecond to an hour, in seconds. */
const WORK_BOUNDS: readonly number[] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600]

export class BrokerCounters {
  publishedRecords = 0
  /** Bytes of payloads. */
  publishedBytes = 0
  /** Pages, and the records in them. */
  replays = 0
  replayedRecords = 0
  /** Answered claims, empty ones included, and the records they gave out. */
  claims = 0
  deliveries = 0
  acks = 0
  nacks = 0
  renewals = 0
  retries = 0
  deadLetters = 0
  redrivenDeadLetters = 0
  expiredLeases = 0
  /** Sent to other sites; the bytes are those of the batches. */
  shippedRecords = 0
  shippedBytes = 0
  /** Batches that did not arrive, or whose outcome is unknown. */
  shipFailures = 0
  /** Records that were gone before they were sent. */
  unshippedRecords = 0
  /** Received from other sites. */
  appliedRecords = 0
  readonly publishSeconds = Histogram.create(LATENCY_BOUNDS)
  readonly claimToAckSeconds = Histogram.create(WORK_BOUNDS)
  /** Requests refused, by code. */
  readonly refusals = new Map<RefusalCode, number>()

  published(records: number, bytes: number): void {
    this.publishedRecords += records
    this.publishedBytes += bytes
  }

  replayed(records: number): void {
    this.replays++
    this.replayedRecords += records
  }

  claimed(deliveries: number): void {
    this.claims++
    this.deliveries += deliveries
  }

  /** @param claimedMs how long ago the delivery was claimed */
  acked(claimedMs: number): void {
    this.acks++
    this.claimToAckSeconds.observe(Math.max(0, claimedMs) / 1000)
  }

  nacked(): void {
    this.nacks++
  }

  renewed(): void {
    this.renewals++
  }

  retried(): void {
    this.retries++
  }

  deadLettered(): void {
    this.deadLetters++
  }

  redriven(records: number): void {
    this.redrivenDeadLetters += records
  }

  expired(leases: number): void {
    this.expiredLeases += leases
  }

  shipped(records: number, bytes: number): void {
    this.shippedRecords += records
    this.shippedBytes += bytes
  }

  shipFailed(): void {
    this.shipFailures++
  }

  unshipped(records: number): void {
    this.unshippedRecords += records
  }

  applied(records: number): void {
    this.appliedRecords += records
  }

  refused(code: RefusalCode): void {
    this.refusals.set(code, (this.refusals.get(code) ?? 0) + 1)
  }
}

/** What a broker holds now: read when /metrics is asked for. */
export interface BrokerGauges {
  /** Pauses of the whole process. */
  readonly acceptPauses: () => number
  readonly streams: () => number
  readonly groups: () => number
  readonly activeLeases: () => number
  readonly delayedRetries: () => number
  readonly waitingClaims: () => number
  readonly connections: () => number
  /** How far broker time is ahead of the wall clock. */
  readonly clockOffsetMs: () => number
  /** Time that the machine has slept since the start. */
  readonly sleptMs: () => number
  /** Frames appended and not yet stored in their class. */
  readonly framesInFlight: () => number
  /** Kinds of trouble that the node works in spite of. */
  readonly degraded: () => number
  readonly readErrors: () => number
  readonly replication: () => ReplicationGauges
}

/** State of the workers that ship streams to other sites. */
export interface ReplicationGauges {
  readonly workers: number
  readonly paused: number
  /** Workers whose last batch did not arrive. */
  readonly failing: number
  /** Workers that are further behind than their policy allows. */
  readonly lagging: number
  /** Records that are to be sent. */
  readonly lagRecords: number
  /** Lag of the worker that waits longest. */
  readonly lagMs: number
}
