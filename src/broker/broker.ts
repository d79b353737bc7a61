/** The broker's operations, from their parts. Source: specification "Endpoints". */
import type { Core } from './engine/core.ts'
import { Cursors } from './engine/cursors.ts'
import { Inspection } from './engine/inspection.ts'
import { Queue } from './engine/queue.ts'
import { Reading } from './engine/reading.ts'
import { Replication } from './engine/replication.ts'
import { Storage } from './engine/storage.ts'
import { Streams } from './engine/streams.ts'
import type { BrokerOperations } from './operations.ts'
import type { TenantQuotas } from './quotas.ts'

const QUEUE_FAILURE = 'queue_state_persistence_failed'

export interface Broker extends BrokerOperations {
  readonly waitingClaims: number
  /** Claims that wait are answered; nothing is done on its own from here on. */
  close(): void
}

export function createBroker(core: Core, quotas: TenantQuotas, nodeId: string): Broker {
  const streams = new Streams(core, quotas)
  const queue = new Queue(core, quotas)
  const reading = new Reading(core)
  const inspection = new Inspection(core)
  const cursors = new Cursors(core)
  const storage = new Storage(core)
  const replication = new Replication(core, streams, nodeId)
  const changing = <T>(operation: () => Promise<T>): Promise<T> => core.confirmed('internal_error', operation)
  const queueing = <T>(operation: () => Promise<T>): Promise<T> => core.confirmed(QUEUE_FAILURE, operation)
  return {
    get waitingClaims() {
      return queue.waitingClaims
    },
    close: () => queue.close(),

    createStream: (...call) => changing(() => streams.create(...call)),
    listStreams: (...call) => streams.list(...call),
    describeStream: (...call) => streams.describe(...call),
    publish: (...call) => changing(() => streams.publish(...call)),
    publishBatch: (...call) => changing(() => streams.publishBatch(...call)),
    replay: (...call) => changing(() => reading.replay(...call)),

    claim: (...call) => queueing(() => queue.claim(...call)),
    ack: (...call) => queueing(() => queue.ack(...call)),
    batchAck: (...call) => queueing(() => queue.batchAck(...call)),
    nack: (...call) => queueing(() => queue.nack(...call)),
    renew: (...call) => queueing(() => queue.renew(...call)),
    retry: (...call) => queueing(() => queue.retry(...call)),
    deadLetter: (...call) => queueing(() => queue.deadLetter(...call)),

    describeGroup: (...call) => inspection.describeGroup(...call),
    leases: (...call) => inspection.leases(...call),
    delayed: (...call) => inspection.delayed(...call),
    replayConsumers: (...call) => inspection.replayConsumers(...call),
    cursors: (...call) => inspection.cursors(...call),
    commitCursor: (...call) => changing(() => cursors.commit(...call)),
    rewindCursor: (...call) => changing(() => cursors.rewind(...call)),

    audit: (...call) => changing(() => reading.audit(...call)),

    retentionPlan: (...call) => core.judged(() => storage.retentionPlan(...call)),
    tieringReadiness: (...call) => core.judged(() => storage.tieringReadiness(...call)),
    archiveManifest: (...call) => core.judged(() => storage.archiveManifest(...call)),
    quarantine: (...call) => storage.quarantine(...call),
    acknowledgeQuarantine: (...call) => changing(() => storage.acknowledgeQuarantine(...call)),

    replicationStatus: (...call) => replication.status(...call),
    applyReplica: (...call) => core.confirmed('replica_apply_failed', () => replication.apply(...call)),
  }
}
