import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ClusterPart } from '../../src/log/cluster-part.ts'
import { LogShared } from '../../src/log/log-shared.ts'
import type { SegmentInfo } from '../../src/log/segment-list.ts'

const LEASE_MS = 100

const segment = (base: number, end: number, sealed = true): SegmentInfo => ({
  base,
  end,
  sealed,
  directory: '/data',
  recordsPath: '/data/records.log',
})

/** The part of a log. The test acts as its journal and lane. */
class Rig {
  nowMs = 0
  readonly shared = LogShared.create({ replicaCount: 1, writeQuorum: 1, logId: 7, clusterAck: 'cluster' })
  readonly part = new ClusterPart(
    { ack: 'cluster', logId: 7, keepUpTo: null, nowMs: () => this.nowMs, onSetAside: () => {} },
    this.shared,
    1 << 16,
  )

  constructor() {
    this.endsAt(1000)
  }

  /** Recovery found this end of the log, which is durable. */
  endsAt(tail: number): void {
    const found = { tail, base: 0, nextBase: 0, mustOpen: false, chain: tail, frameCount: 1 }
    this.shared.beginGeneration(found, 1)
  }

  settled(): readonly number[] {
    return this.part.takeReportable().map(({ end }) => end)
  }
}

describe('the part of a log in a cluster', () => {
  it('says where the log ends, also when it was cut', () => {
    const { part, ...rig } = new Rig()
    assert.deepEqual(part.end, { position: 1000, chain: 1000 })
    const cut = new Rig()
    cut.endsAt(600)
    assert.deepEqual(cut.part.end, { position: 600, chain: 600 })
    assert.equal(rig.shared.confirmed, 1000)
    assert.equal(cut.part.confirmed, 600)
  })

  it('may be told of under the lease of a leader alone', () => {
    const rig = new Rig()
    const { part, shared } = rig
    shared.publishLease(LEASE_MS)
    assert.deepEqual([part.mayAnswer, part.term], [false, null])
    part.lead(9)
    assert.deepEqual([part.leads, part.mayAnswer, part.term], [true, true, 9])
    rig.nowMs = LEASE_MS
    assert.deepEqual([part.leads, part.mayAnswer, part.term], [true, false, null])
    shared.publishLease(3 * LEASE_MS)
    assert.equal(part.term, 9)
    part.follow()
    assert.deepEqual([part.leads, part.term], [false, null])
  })

  it('begins a lead with a new segment, which is asked for before a frame can be', () => {
    const { part, shared } = new Rig()
    const before = shared.sealRequests
    part.lead(9)
    assert.equal(shared.sealRequests, before + 1)
    part.follow()
    assert.equal(shared.sealRequests, before + 1)
  })

  it('has everything committed that was there when the lead began, and nothing more until it is confirmed and synced', () => {
    const { part, shared } = new Rig()
    shared.publishConfirmed(400)
    assert.equal(shared.committed(), 400)
    part.lead(9)
    assert.equal(shared.committed(), 1000)
    shared.publishWritten(0, 1200)
    shared.publishConfirmed(1200)
    assert.equal(shared.committed(), 1000)
    shared.publishSynced(0, 1100)
    assert.equal(shared.committed(), 1100)
  })

  it('tells of a sealed segment when the anchor has reached its end', () => {
    const rig = new Rig()
    const { part, shared } = rig
    shared.publishAnchored(0)
    part.sealed(segment(0, 300))
    part.sealed(segment(300, 700))
    assert.deepEqual(rig.settled(), [])
    shared.publishAnchored(300)
    assert.deepEqual(rig.settled(), [300])
    assert.deepEqual(rig.settled(), [])
    shared.publishAnchored(900)
    assert.deepEqual(rig.settled(), [700])
  })

  it('forgets segments that were cut, or are not sealed any more', () => {
    const rig = new Rig()
    const { part, shared } = rig
    shared.publishAnchored(0)
    for (const [base, end] of [
      [0, 300],
      [300, 700],
      [700, 900],
    ] as const)
      part.sealed(segment(base, end))
    part.keep([segment(0, 300), segment(300, 500, false)])
    shared.publishAnchored(900)
    assert.deepEqual(rig.settled(), [300])
  })
})
