/** Steps of operators and other sites: retention, replicated records, incidents. */
import assert from 'node:assert/strict'
import { CALLER, resultAfterFlush } from '../../support/broker-world.ts'
import { pick } from '../../support/random-history.ts'
import { Steps } from './asking.ts'
import { expectedPlan } from './dump.ts'
import { AUDIT_STREAM } from './reference-streams.ts'

export class UpkeepSteps extends Steps {
  #holds = 0

  /** Called when readers are held from now on. */
  onHold(): void {
    this.#holds += 1
  }

  retentionPlan(name: string, b: number, c: number): void {
    const stream = this.stream(name)
    const limits = { maxBytes: b % 2 === 0 ? c : null, maxAgeMs: b % 3 === 0 ? c : null }
    const plan = stream && expectedPlan(this.reference, stream, this.world.wallMs, limits)
    const isQuiet = !this.world.holdsReads && this.trace.waiting.length === 0
    this.ask({
      name: `retention plan ${name}`,
      failure: 'internal_error',
      run: () => this.world.broker.retentionPlan(CALLER, name, limits),
      expected: () => (this.stream(name) ? 'either' : { code: 'missing_stream' }),
      check: (reply) => {
        if (!isQuiet) return // other frames may have been applied first
        const { planned_first_offset, removable_bytes, retained_bytes, removable_records } = reply
        assert.deepEqual({ planned_first_offset, removable_bytes, retained_bytes, removable_records }, plan)
      },
    })
  }

  enforceRetention(): void {
    const { world } = this
    const holds = world.holdsReads ? -1 : this.#holds
    const isHeld = (): boolean => this.#holds !== holds
    const cause = {
      frames: [],
      get retainedAtWallMs() {
        return isHeld() ? undefined : world.wallMs // no time passes between plan and frame, unless retention waits for readers
      },
    }
    void this.trace.causedBy(cause, () => world.retainer.enforce())
  }

  applyReplica(name: string, link: string, b: number, c: number): void {
    const stream = this.stream(name)
    const key = JSON.stringify([stream?.number, 'a', 'b', link])
    const nextNow = (): number => this.reference.links.get(key)?.next ?? 0
    const next = nextNow()
    const first = Math.max(0, next + (b % 4) - 2)
    const count = 1 + (c % 4)
    const records = Array.from({ length: count }, (_, i) => ({
      origin_offset: first + i,
      message_id: `origin-${link}-${first + i}`,
      payload_hex: Buffer.from(`of ${link} ${first + i}`).toString('hex'),
      event_time_ms: 5000 + first + i,
      ingest_time_ms: 6000 + first + i,
    }))
    const fresh = Math.max(0, first + count - next)
    this.ask({
      name: `apply to ${name}`,
      failure: 'replica_apply_failed',
      run: () =>
        this.world.broker.applyReplica(CALLER, {
          source_site: 'a',
          target_site: 'b',
          policy: link,
          stream: name,
          records,
        }),
      expected: () => {
        if (first > nextNow()) return { code: 'replica_apply_gap' }
        return first + count > nextNow() ? 'effect' : 'either'
      },
      check: (reply) => {
        assert.deepEqual([reply.applied, reply.skipped], [Math.min(count, fresh), count - Math.min(count, fresh)])
        assert.equal(reply.next_expected_offset, Math.max(next, first + count))
        assert.ok(reply.target_watermark <= (this.stream(name)?.visibleNext ?? Infinity))
      },
    })
  }

  /** Reports damage where no record is: in the segment header, which is no longer needed. */
  acknowledgeIncident(a: number, isNew: boolean): void {
    const { log, broker } = this.world
    const sealed = log.segments.filter((segment) => segment.sealed)
    if (isNew && sealed.length > 0) {
      const segment = pick(sealed, a)
      log.reportDamage(segment, { from: segment.base, to: segment.base + 64, reason: 'the segment header is damaged' })
    }
    const incident = log.incidents.at(a % (log.incidents.length + 1))
    const id = incident ? `inc-${incident.from.toString(16).padStart(12, '0')}` : 'inc-none'
    this.ask({
      name: `acknowledge ${id}`,
      failure: 'quarantine_storage_failed',
      run: () => broker.acknowledgeQuarantine(CALLER, AUDIT_STREAM, id, { note: 'seen' }),
      expected: () => {
        if (!incident) return { code: 'quarantine_not_found' }
        return this.reference.acknowledgedIncidents.has(id) ? { code: 'write_not_allowed' } : 'effect'
      },
      check: (reply, frames) => {
        assert.deepEqual([reply.incident_id, reply.state, reply.note], [id, 'acknowledged', 'seen'])
        assert.equal(this.auditedBy(frames), 1)
      },
    })
  }

  async checkIncidents(): Promise<void> {
    const { incidents } = await resultAfterFlush(this.world, this.world.broker.quarantine(CALLER, AUDIT_STREAM))
    for (const { incident_id, state } of incidents) {
      const isAcknowledged = this.reference.acknowledgedIncidents.has(incident_id)
      assert.equal(state, isAcknowledged ? 'acknowledged' : 'open')
    }
    assert.equal(incidents.length, this.world.log.incidents.length)
  }
}
