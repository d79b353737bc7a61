/**
 * The broker's operations: the function that decides each, and the refusal when the log did not keep the change. Source:
 * specification "Endpoints".
 *
 * An answer is sent when its change is stored (engine E2). Only two are sent earlier: pages, whose records are visible and so stored in their
 * class, and answers to publishes of volatile records. A publish that waits for another site is answered when that site has its records.
 */
import type { ReplicationPolicy } from '../config/replication-binding.ts'
import type { Operation } from '../engine/as-promises.ts'
import type { Decision } from '../engine/decision.ts'
import { FrameLost } from '../engine/appender.ts'
import { Claims } from './operations/claims.ts'
import { NOT_STORED } from './engine/core.ts'
import type { Core } from './engine/core.ts'
import { Cursors } from './operations/cursors.ts'
import { DeliveryOutcomes } from './operations/delivery-outcomes.ts'
import { GroupAges } from './operations/group-ages.ts'
import { Inspection } from './operations/inspection.ts'
import { LifeCycle } from './operations/life-cycle.ts'
import { Queue } from './operations/queue.ts'
import { Reading } from './operations/reading.ts'
import { Redriving } from './operations/redrive.ts'
import { ReplicaTarget } from './operations/replica-target.ts'
import { Replication } from './operations/replication.ts'
import type { ReplicationOptions } from './operations/replication-workers.ts'
import { Storage } from './operations/storage.ts'
import { Streams } from './operations/streams.ts'
import type { ReplicationGauges } from './counters.ts'
import type { Change } from './frames/change.ts'
import type { Operations } from './operations.ts'
import type { TenantQuotas } from './quotas.ts'

export interface Broker {
  readonly operations: Operations
  readonly groupAges: GroupAges
  readonly waitingClaims: number
  readonly replicationGauges: ReplicationGauges
  /** Replication follows these policies from now on, if the node has a binding. */
  replacePolicies(policies: readonly ReplicationPolicy[]): void
  /** Claims that wait are answered; nothing is done on its own from here on. */
  close(): void
}

type Decides<Call extends unknown[], Reply> = (...call: Call) => Decision<Reply, Change>

/** @param shipping null: the node has no replication binding */
export function createBroker(
  core: Core,
  quotas: TenantQuotas,
  nodeId: string,
  shipping: ReplicationOptions | null,
): Broker {
  const { engine } = core
  const outcomes = new DeliveryOutcomes(core, ({ stream, name }) => engine.parked.wake(stream.number, name))
  const queue = new Queue(core, outcomes)
  const claims = new Claims({ core, quotas, outcomes, expire: (group) => queue.expire(group) })
  const replication = new Replication(core, quotas, nodeId, shipping)
  const streams = new Streams(core, quotas, replication)
  const reading = new Reading(core)
  const groupAges = new GroupAges(core)
  const inspection = new Inspection(core, groupAges)
  const cursors = new Cursors(core)
  const lifeCycle = new LifeCycle(core)
  const redriving = new Redriving(core)
  const storage = new Storage(core)
  const target = new ReplicaTarget(core, streams)
  const refusingWith =
    (failure: keyof typeof NOT_STORED) =>
    <Call extends unknown[], Reply>(decide: Decides<Call, Reply>): Operation<Call, Reply> =>
    (answer, ...call) =>
      engine.run(() => decide(...call), answer, NOT_STORED[failure])
  const deciding = refusingWith('internal_error')
  /** The arguments are valid in the first decision only, because payloads may lie in the connection's memory. */
  const once = <Call extends unknown[], Reply>(decide: Decides<Call, Reply>): Operation<Call, Reply> => {
    const again = new FrameLost()
    return (answer, ...call) =>
      engine.run((turn) => (turn === 'first' ? decide(...call) : again), answer, NOT_STORED.internal_error)
  }
  const queueing = refusingWith('queue_state_persistence_failed')
  const quarantining = refusingWith('quarantine_storage_failed')
  return {
    groupAges,
    get waitingClaims() {
      return engine.parked.count
    },
    get replicationGauges() {
      return replication.gauges
    },
    replacePolicies: (policies) => replication.replacePolicies(policies),
    close() {
      replication.close()
      queue.close()
      engine.parked.close()
    },

    operations: {
      createStream: deciding((...call) => streams.create(...call)),
      listStreams: deciding((...call) => streams.list(...call)),
      describeStream: deciding((...call) => streams.describe(...call)),
      updateStream: deciding((...call) => lifeCycle.update(...call)),
      deleteStream: deciding((...call) => lifeCycle.delete(...call)),
      purgeStream: (answer, ...call) => engine.run(lifeCycle.purging(...call), answer, NOT_STORED.internal_error),
      redrive: deciding((...call) => redriving.redrive(...call)),
      publish: once((...call) => streams.publish(...call)),
      publishBatch: once((...call) => streams.publishBatch(...call)),
      replay: (...call) => reading.replay(...call),

      claim: (...call) => claims.claim(...call),
      ack: queueing((...call) => queue.ack(...call)),
      batchAck: queueing((...call) => queue.batchAck(...call)),
      nack: queueing((...call) => queue.nack(...call)),
      renew: queueing((...call) => queue.renew(...call)),
      retry: queueing((...call) => queue.retry(...call)),
      deadLetter: queueing((...call) => queue.deadLetter(...call)),

      publishRecords: once((...call) => streams.publishRecords(...call)),
      push: (...call) => claims.push(...call),
      ackPairs: queueing((...call) => queue.ackPairs(...call)),
      releaseClaims: (answer, pushed) => claims.releaseClaims(answer, pushed),
      firstLeased: (claim, from) => claims.firstLeased(claim, from),

      listGroups: deciding((...call) => inspection.groups(...call)),
      deleteGroup: deciding((...call) => lifeCycle.deleteGroup(...call)),
      seekGroup: deciding((...call) => lifeCycle.seek(...call)),
      deleteCursor: deciding((...call) => lifeCycle.deleteCursor(...call)),
      describeGroup: deciding((...call) => inspection.describeGroup(...call)),
      leases: deciding((...call) => inspection.leases(...call)),
      delayed: deciding((...call) => inspection.delayed(...call)),
      replayConsumers: deciding((...call) => inspection.replayConsumers(...call)),
      cursors: deciding((...call) => inspection.cursors(...call)),
      commitCursor: deciding((...call) => cursors.commit(...call)),
      rewindCursor: deciding((...call) => cursors.rewind(...call)),

      audit: deciding((...call) => reading.audit(...call)),

      retentionPlan: deciding((...call) => storage.retentionPlan(...call)),
      tieringReadiness: deciding((...call) => storage.tieringReadiness(...call)),
      archiveManifest: deciding((...call) => storage.archiveManifest(...call)),
      quarantine: quarantining((...call) => storage.quarantine(...call)),
      acknowledgeQuarantine: quarantining((...call) => storage.acknowledgeQuarantine(...call)),

      replicationStatus: deciding((...call) => replication.status(...call)),
      pollReplication: deciding((...call) => replication.poll(...call)),
      pauseReplication: deciding((...call) => replication.pause(...call)),
      resumeReplication: deciding((...call) => replication.resume(...call)),
      applyReplica: (answer, ...call) =>
        engine.run((turn) => target.apply(...call, turn !== 'last'), answer, NOT_STORED.replica_apply_failed),
    },
  }
}
