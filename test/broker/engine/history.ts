/**
 * Moves a broker step by step beside the reference. Checks whether each answer is allowed (`asking.ts`) and, whenever nothing is under way,
 * whether the broker shows what its frames say.
 *
 * H3  the broker shows this in whatever order disks, readers and clients move
 * H4  each record that was published and is kept is available, leased, delayed or finished for a group, and only one of these
 */
import assert from 'node:assert/strict'
import { lagOf } from '../../../src/broker/state/group-totals.ts'
import { BrokerWorld, CALLER, NEVER_ABANDONED, Pending, jsonOf } from '../../support/broker-world.ts'
import { RandomHistory, pick } from '../../support/random-history.ts'
import type { Step, WorldKind } from '../../support/random-history.ts'
import { Asking, GROUPS } from './asking.ts'
import { StreamingSteps } from './streaming-steps.ts'
import type { ClaimAnswer } from './delivery-steps.ts'
import { assertTotals, dumpOf, expectedDump, replayAll } from './dump.ts'
import type { Dump } from './dump.ts'
import { LifeCycleSteps } from './life-cycle-steps.ts'
import { CONFIGS, RecordSteps } from './record-steps.ts'
import { AUDIT_STREAM } from './reference-streams.ts'
import { Trace } from './trace.ts'
import { UpkeepSteps } from './upkeep-steps.ts'

export const STEP_KINDS = [
  ['publish', 10],
  ['publishBatch', 8],
  ['publishRecords', 6],
  ['fill', 5],
  ['createStream', 1],
  ['claim', 20],
  ['push', 6],
  ['abandon', 2],
  ['giveBack', 3],
  ['ackPairs', 4],
  ['ack', 6],
  ['batchAck', 2],
  ['nack', 10],
  ['renew', 2],
  ['retry', 4],
  ['deadLetter', 4],
  ['commitCursor', 2],
  ['rewindCursor', 1],
  ['replay', 3],
  ['audit', 1],
  ['describe', 2],
  ['retentionPlan', 1],
  ['enforceRetention', 5],
  ['applyReplica', 2],
  ['acknowledgeIncident', 1],
  ['updateStream', 1],
  ['deleteStream', 1],
  ['purgeStream', 1],
  ['seekGroup', 1],
  ['deleteGroup', 1],
  ['deleteCursor', 1],
  ['redrive', 2],
  ['time', 8],
  ['wallClock', 1],
  ['step', 30],
  ['stepWithoutNotice', 2],
  ['hold', 3],
  ['serve', 4],
  ['journalDies', 2],
  ['failSync', 1],
  ['fillDisk', 1],
  ['freeDisk', 1],
  ['reopen', 3],
  ['quiesce', 1],
] as const

export type StepKind = (typeof STEP_KINDS)[number][0]

const STREAMS = ['orders', 'jobs', 'dead', 'bulk', 'passing'] as const
/** Streams of the steps: most of them go to a few. */
const BUSY = ['orders', 'orders', 'orders', 'orders', 'jobs', 'dead', 'bulk', 'orders'] as const
const CURSORS = ['c1', 'c2'] as const
const LINKS = ['dr', 'backup'] as const
const HOUR_MS = 3_600_000

const TIME_COLUMNS = [
  ['event_time', 'event_time_ms'],
  ['ingest_time', 'ingest_time_ms'],
] as const

export class History extends RandomHistory<StepKind> {
  readonly world: BrokerWorld
  readonly trace: Trace
  protected readonly timeSteps = [1, 10, 25, 60, 200, 1000, 11_000, 25, 60]
  readonly #asking: Asking
  readonly #records: RecordSteps
  readonly #deliveries: StreamingSteps
  readonly #upkeep: UpkeepSteps
  readonly #lifeCycle: LifeCycleSteps
  /** A sync was made to fail since the start: written frames may be lost. */
  #failing = false

  constructor(seed: number) {
    super()
    this.world = new BrokerWorld({
      seed,
      segmentBytes: 2048,
      localDisk: seed % 4 === 0 ? 'append' : 'sync',
      readsRecent: seed % 2 === 0,
    })
    this.trace = new Trace(this.world)
    this.#asking = new Asking(this.world, this.trace)
    this.#records = new RecordSteps(this.#asking)
    this.#deliveries = new StreamingSteps(this.#asking)
    this.#upkeep = new UpkeepSteps(this.#asking)
    this.#lifeCycle = new LifeCycleSteps(this.#asking)
  }

  async begin(firstConfig: number): Promise<void> {
    await this.world.open()
    this.trace.attach()
    this.#records.createStream('orders', pick(CONFIGS, firstConfig))
    this.#records.createStream('dead', {})
    this.#records.createStream('passing', { retention: { max_bytes: 400 } })
    await this.world.flush()
  }

  /** Checks the state as it is, with frames on their way. */
  check(): void {
    this.trace.check()
    const { core } = this.world
    for (const stream of this.trace.reference.livingStreams) {
      const { nextOffset, visibleNext, floor } = core.state.streams[stream.number]!
      const expected = [stream.nextOffset, stream.visibleNext, stream.floor]
      assert.deepEqual([nextOffset, visibleNext, floor], expected, `of ${stream.name}: next, visible, floor`)
    }
    const nowMs = core.time.nowMs()
    for (const { number, queue, stream } of this.trace.reference.livingGroups) {
      const group = core.state.groups[number]!
      const leases = group.queue.leases(nowMs, true, Infinity).entries
      assert.deepEqual(leases, queue.leases(nowMs, true))
      const finished = queue.finishedBetween(stream.floor, stream.nextOffset)
      assert.equal(lagOf(group), stream.nextOffset - stream.floor - finished, `lag of group ${number}`)
    }
    assertTotals(this.world)
  }

  /** Brings everything that is under way to its end, then compares the broker with the reference. */
  async quiesce(): Promise<Dump> {
    const { world } = this
    this.#serveAll()
    for (let before = ''; before !== `${this.trace.frames.length} ${this.trace.losses}`;) {
      before = `${this.trace.frames.length} ${this.trace.losses}`
      await world.flush()
      await world.advance(25) // everything due happens, failure policies included
      await world.flush()
      this.check()
    }
    const stuck = this.#asking.pending.filter((name) => !name.startsWith('waiting'))
    assert.deepEqual(stuck, [], 'every operation is answered')
    this.#deliveries.checkWaiting()
    const nowMs = world.nowMs
    for (const group of this.trace.reference.livingGroups) group.meet(nowMs)
    this.#checkCounts()
    const dump = await dumpOf(world, GROUPS)
    assert.deepEqual(dump, expectedDump(this.trace.reference, nowMs, GROUPS))
    await this.#checkTimes(dump)
    await this.#upkeep.checkIncidents()
    return dump
  }

  /** At the end of a history: every record that is not finished can still be claimed once, at a later attempt. */
  async drain(): Promise<void> {
    await this.reopen('kill')
    await this.world.advance(HOUR_MS)
    await this.quiesce()
    await this.world.advance(HOUR_MS)
    await this.quiesce()
    for (const group of this.trace.reference.livingGroups) {
      const path = { stream: group.stream.name, group: group.name }
      const caller = { ...CALLER, tenant: group.stream.tenant }
      const { queue, stream } = group
      const left = queue.plan(stream.floor, stream.nextOffset, Infinity, new Set())
      const count = left.reduce((sum, run) => sum + run.count, 0)
      assert.equal(count + queue.finishedBetween(stream.floor, stream.nextOffset), stream.nextOffset - stream.floor)
      const claim = new Pending(this.world.broker.claim(caller, path, { max_messages: 1000 }, NEVER_ABANDONED))
      await this.world.flush()
      const { deliveries } = jsonOf<ClaimAnswer>(claim.value)
      assert.equal(deliveries.length, count)
      const ids = deliveries.map(({ delivery_id }) => delivery_id)
      if (count === 0) continue
      const { subscription_id } = jsonOf<ClaimAnswer>(claim.value)
      const acked = new Pending(this.world.broker.batchAck(caller, path.stream, subscription_id, { delivery_ids: ids }))
      await this.world.flush()
      assert.equal(acked.value.acknowledged_count, count)
    }
    this.check()
    await this.quiesce()
    for (const { stream, queue } of this.trace.reference.livingGroups)
      assert.equal(queue.progressOffset(), stream.nextOffset)
  }

  protected attach(certain: number): void {
    this.trace.attach(certain)
  }

  protected certainAt(how: 'close' | 'kill' | 'crash'): number {
    const { committed, written } = this.world.log
    return how === 'crash' || this.#failing ? committed : written
  }

  protected forgetClients(how: 'close' | 'kill' | 'crash'): void {
    this.#asking.forget()
    this.#deliveries.forget(how === 'crash' && this.world.options.localDisk === 'append')
    this.#failing = false
  }

  protected override mayBreak(kind: 'journalDies' | 'failSync' | 'fillDisk'): boolean {
    if (kind !== 'failSync') return true
    if (this.world.options.localDisk === 'append') return false // frames that were only written would be lost, the audit stream too
    this.#failing = true
    return true
  }

  protected async take({ kind, a, b, c, yes }: Step<Exclude<StepKind, WorldKind>>): Promise<void> {
    const { world } = this
    switch (kind) {
      case 'createStream':
        return this.#records.createStream(pick(STREAMS, a), pick(CONFIGS, b), yes)
      case 'publish':
        return this.#records.publish(pick([...BUSY, ...BUSY, 'nowhere', AUDIT_STREAM], a), b, c)
      case 'publishBatch':
        return this.#records.publishBatch(pick(BUSY, a), b, c)
      case 'publishRecords':
        return this.#records.publishRecords(pick([...BUSY, 'nowhere', AUDIT_STREAM], a), b, c)
      case 'fill':
        for (let i = 0; i < 1 + (a % 5); i += 1) this.#records.publish('passing', 3, 1)
        return world.step()
      case 'replay':
        return this.#records.replay(pick(BUSY, a), b, c, yes)
      case 'claim':
        return this.#deliveries.claim(pick(BUSY, a), pick(['g1', 'g1', 'g1', 'g2'], b), c, yes && c % 3 === 0)
      case 'push':
        return this.#deliveries.push(pick(BUSY, a), pick(['g1', 'g1', 'g1', 'g2'], b), c, yes && c % 3 === 0)
      case 'abandon':
        return this.#deliveries.abandon(a)
      case 'giveBack':
        return this.#deliveries.giveBack(a, b)
      case 'ackPairs':
        return this.#deliveries.ackPairs(a, b, c)
      case 'ack':
      case 'nack':
      case 'renew':
      case 'retry':
      case 'deadLetter':
        return this.#deliveries.resolve(kind, a, b, yes)
      case 'batchAck':
        return this.#deliveries.batchAck(a, b)
      case 'commitCursor':
      case 'rewindCursor':
        return this.#deliveries.setCursor(kind, pick(STREAMS, a), pick(GROUPS, b), pick(CURSORS, b >> 1), c)
      case 'audit':
        return this.#records.audit(a, yes)
      case 'describe':
        return this.#records.describe(pick(STREAMS, a), pick(GROUPS, b), c)
      case 'retentionPlan':
        return this.#upkeep.retentionPlan(pick(STREAMS, a), b, c)
      case 'enforceRetention':
        return this.#upkeep.enforceRetention()
      case 'applyReplica':
        return this.#upkeep.applyReplica(pick(STREAMS, a), pick(LINKS, b), b >> 1, c)
      case 'acknowledgeIncident':
        return this.#upkeep.acknowledgeIncident(a, yes)
      case 'updateStream':
        return this.#lifeCycle.update(pick(BUSY, a), b)
      case 'deleteStream':
        return this.#lifeCycle.delete(pick(STREAMS, a), yes)
      case 'purgeStream':
        return this.#lifeCycle.purge(pick(BUSY, a), b, yes)
      case 'seekGroup':
        return this.#lifeCycle.seek(pick(BUSY, a), pick(GROUPS, b), c)
      case 'deleteGroup':
        return this.#lifeCycle.deleteGroup(pick(BUSY, a), pick(GROUPS, b), yes)
      case 'deleteCursor':
        return this.#lifeCycle.deleteCursor(pick(BUSY, a), pick(GROUPS, b), pick(CURSORS, c), yes)
      case 'redrive':
        return this.#lifeCycle.redrive(b, c)
      case 'step':
        return world.step()
      case 'hold':
        this.#upkeep.onHold()
        if (yes) world.holdsReads = true
        else world.holdsWrites = true
        return
      case 'serve':
        return this.#serveAll()
    }
  }

  #serveAll(): void {
    const { world } = this
    world.holdsReads = false
    world.holdsWrites = false
    world.serveReads()
    world.serveWrites()
  }

  /** H4 */
  #checkCounts(): void {
    for (const group of this.world.core.state.groups) {
      if (group === undefined) continue
      const { queue, stream } = group
      const runs = queue.plan(0, stream.nextOffset, Infinity, null)
      const available = runs.reduce((sum, { count }) => sum + count, 0)
      const finished = queue.finishedBetween(0, stream.nextOffset)
      const reported = this.trace.reference.groups[group.number]!.queue.reportedCount
      const sum = available + queue.leasedCount + queue.delayedCount + finished + reported
      assert.equal(sum, stream.nextOffset - stream.floor, `H4: of ${group.name} of ${stream.name}`)
    }
  }

  /** H3: replay by event time or by ingest time finds the same records as by offset. */
  async #checkTimes({ streams }: Dump): Promise<void> {
    for (const stream of this.trace.reference.livingStreams) {
      if (stream.name === AUDIT_STREAM || stream.tenant !== CALLER.tenant) continue
      const records = streams[`${stream.tenant}/${stream.name}`]!.records
      const middle = records[Math.floor(records.length / 2)]
      if (middle === undefined) continue
      for (const [by, column] of TIME_COLUMNS) {
        const timeMs = middle[column]
        const found = await replayAll(this.world, stream.tenant, stream.name, { by, timeMs })
        const first = stream.firstAtOrAbove(column, timeMs, stream.nextOffset)
        assert.deepEqual(found, records.slice(first - stream.floor))
      }
    }
  }
}
