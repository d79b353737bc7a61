/** Everything that a broker shows, and what it should show by the reference. */
import assert from 'node:assert/strict'
import type { RetentionLimits } from '../../../src/broker/operations.ts'
import type {
  DelayedListReply,
  GroupReply,
  LeaseListReply,
  ReplayConsumerListReply,
} from '../../../src/broker/wire/group-answers.ts'
import type { ReplicationStatusReply } from '../../../src/broker/wire/node-answers.ts'
import type { StreamSummary } from '../../../src/broker/wire/record-answers.ts'
import { AUDIT_STREAM, payloadBytesOf } from './reference-streams.ts'
import type { Reference } from './reference.ts'
import type { RefEvent, RefGroup, RefRecord, RefStream } from './reference-streams.ts'
import { CALLER, jsonOf, resultAfterFlush } from '../../support/broker-world.ts'
import type { BrokerWorld } from '../../support/broker-world.ts'

export const TENANTS = ['local', 'acme'] as const

interface GroupDump {
  readonly described: Omit<GroupReply, 'api_version' | 'stream' | 'consumer_group'>
  readonly leases: LeaseListReply['leases']
  readonly delayed: DelayedListReply['delayed']
  readonly consumers: ReplayConsumerListReply['replay_consumers']
}

interface StreamDump {
  readonly summary: StreamSummary
  readonly records: readonly RefRecord[]
  readonly groups: Readonly<Record<string, GroupDump>>
}

export interface Dump {
  readonly streams: Readonly<Record<string, StreamDump>>
  readonly events: Readonly<Record<string, readonly RefEvent[]>>
  readonly targets: ReplicationStatusReply['targets']
}

interface ReplayPage {
  readonly records: RefRecord[]
  readonly next_offset: number
  readonly end_of_stream: boolean
}

/** Asks the broker for everything that it shows. Flushes what is on its way to the disk. */
export async function dumpOf(world: BrokerWorld, groupNames: readonly string[]): Promise<Dump> {
  const streams: Record<string, StreamDump> = {}
  const events: Record<string, readonly RefEvent[]> = {}
  const targets: ReplicationStatusReply['targets'] = []
  assertTotals(world)
  for (const tenant of TENANTS) {
    const caller = { ...CALLER, tenant }
    const { broker } = world
    const { streams: summaries } = await resultAfterFlush(world, broker.listStreams(caller))
    for (const summary of summaries) {
      const stream = summary.stream
      const groups: Record<string, GroupDump> = {}
      for (const group of groupNames) {
        const path = { stream, group }
        const {
          api_version: _version,
          stream: _stream,
          consumer_group: _group,
          ...described
        } = await resultAfterFlush(world, broker.describeGroup(caller, path))
        groups[group] = {
          described,
          leases: (await resultAfterFlush(world, broker.leases(caller, path, true))).leases,
          delayed: (await resultAfterFlush(world, broker.delayed(caller, path))).delayed,
          consumers: (await resultAfterFlush(world, broker.replayConsumers(caller, path))).replay_consumers,
        }
      }
      const records = await replayAll(world, tenant, stream)
      streams[`${tenant}/${stream}`] = { summary, records, groups }
    }
    if (world.core.state.stream(tenant, AUDIT_STREAM) === undefined) continue
    events[tenant] = await auditAll(world, tenant)
    targets.push(...(await resultAfterFlush(world, broker.replicationStatus(caller))).targets)
  }
  return { streams, events, targets: targets.toSorted(byNames) }
}

const byNames = (a: object, b: object): number => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)

/** The counts that the state updates as groups change are those that a walk over all groups finds. */
export function assertTotals({ core: { state } }: BrokerWorld): void {
  const counted = { leased: 0, delayed: 0 }
  const nothing = { groups: 0, lag: 0, leased: 0, delayed: 0, deadLetters: 0 }
  const walked = new Map(TENANTS.map((tenant) => [tenant as string, { ...nothing }]))
  for (const group of state.groups) {
    if (group === undefined) continue
    const { stream, queue } = group
    counted.leased += queue.leasedCount
    counted.delayed += queue.delayedCount
    const ofTenant = walked.get(stream.tenant)!
    ofTenant.groups += 1
    ofTenant.leased += queue.leasedCount
    ofTenant.delayed += queue.delayedCount
    for (let offset = stream.floor; offset < stream.nextOffset; offset++) {
      if (!stream.holes.has(offset) && queue.finishedBetween(offset, offset + 1) === 0) ofTenant.lag += 1
    }
    const { entries } = queue.leases(Infinity, true, Infinity)
    ofTenant.deadLetters += entries.filter(({ state: outcome }) => outcome === 'dead_lettered').length
  }
  assert.deepEqual(state.totals, counted)
  for (const [tenant, expected] of walked) {
    const groups = state.groupsOf(tenant).size
    assert.deepEqual({ groups, ...state.groupSums(tenant) }, expected, `totals of ${tenant}`)
  }
}

export function expectedDump(reference: Reference, nowMs: number, groupNames: readonly string[]): Dump {
  const streams: Record<string, StreamDump> = {}
  const events: Record<string, readonly RefEvent[]> = {}
  const targets: ReplicationStatusReply['targets'] = []
  for (const tenant of TENANTS) {
    const ofTenant = reference.livingStreams.filter((stream) => stream.tenant === tenant)
    ofTenant.sort((a, b) => (a.name < b.name ? -1 : 1))
    for (const stream of ofTenant) {
      if (stream.name === AUDIT_STREAM) continue
      const groups: Record<string, GroupDump> = {}
      for (const name of groupNames) groups[name] = groupDump(reference, stream, stream.groups.get(name), nowMs)
      streams[`${tenant}/${stream.name}`] = { summary: summaryOf(stream), records: recordsOf(stream), groups }
    }
    const audit = reference.stream(tenant, AUDIT_STREAM)
    if (audit) events[tenant] = [...audit.events.values()]
    for (const { stream, names, next } of reference.links.values()) {
      if (stream.tenant !== tenant || stream.isDeleted) continue
      const [source_site, target_site, policy] = names as [string, string, string]
      targets.push({
        tenant,
        stream: stream.name,
        source_site,
        target_site,
        policy,
        next_expected_offset: next,
        target_watermark: stream.nextOffset,
        skipped_records: 0,
      })
    }
  }
  return { streams, events, targets: targets.toSorted(byNames) }
}

function recordsOf(stream: RefStream): RefRecord[] {
  return [...stream.records.values()].filter(({ offset }) => offset >= stream.floor)
}

function summaryOf(stream: RefStream): StreamSummary {
  return {
    stream: stream.name,
    ...stream.config,
    first_offset: stream.floor,
    next_offset: stream.nextOffset,
    record_count: stream.nextOffset - stream.floor,
    payload_bytes: stream.payloadBytesBetween(stream.floor, stream.nextOffset),
    created_at_ms: stream.createdAtMs,
  }
}

function groupDump(reference: Reference, stream: RefStream, group: RefGroup | undefined, nowMs: number): GroupDump {
  const { floor, nextOffset } = stream
  const queue = group?.queue
  const cursors = Array.from(group?.cursors ?? [], ([cursor, { offset, atMs }]) => ({
    cursor,
    offset,
    updated_at_ms: atMs,
  }))
  const delayed = (queue?.delayed() ?? []).map(({ offset, attempt, availableAtMs }) => ({
    offset,
    attempt,
    available_at_ms: availableAtMs,
  }))
  const leases = (queue?.leases(nowMs, true) ?? []).map((entry) => ({
    offset: entry.offset,
    attempt: entry.attempt,
    state: entry.state,
    subscription_id:
      entry.claimNumber === null ? null : reference.tokens.subscription(group!.number, entry.claimNumber),
    delivery_id: reference.tokens.delivery(group!.number, entry.offset, entry.attempt),
    leased_at_ms: entry.leasedAtMs,
    lease_expires_at_ms: entry.expiresAtMs,
    lease_remaining_millis: entry.expiresAtMs === null ? null : Math.max(0, entry.expiresAtMs - nowMs),
    reason: entry.reason,
  }))
  return {
    described: {
      mode: 'shared_queue',
      highest_next_offset: nextOffset,
      progress_offset: Math.min(queue?.progressOffset() ?? floor, nextOffset),
      lag_messages: nextOffset - floor - (queue?.finishedBetween(floor, nextOffset) ?? 0),
      in_flight_count: queue?.leases(nowMs, false).length ?? 0,
      delayed_count: delayed.length,
      cursors,
      delayed_retries: delayed,
    },
    leases,
    delayed,
    consumers: Array.from(group?.observations.values() ?? [], (seen) => ({
      consumer_id: seen.consumer_id,
      returned_records: seen.returned_records,
      end_of_stream: seen.end_of_stream,
      next_offset: seen.next_offset,
      observed_at_ms: seen.at_ms,
    })),
  }
}

const PAGE = 7

export async function replayAll(
  world: BrokerWorld,
  tenant: string,
  stream: string,
  first: { by: 'offset'; offset: number } | { by: 'event_time' | 'ingest_time'; timeMs: number } = {
    by: 'offset',
    offset: 0,
  },
): Promise<RefRecord[]> {
  const records: RefRecord[] = []
  for (let start: typeof first = first; ;) {
    const page = jsonOf<ReplayPage>(
      await resultAfterFlush(
        world,
        world.broker.replay({ ...CALLER, tenant }, stream, {
          start,
          maxRecords: PAGE,
          maxPayloadBytes: null,
          consumer: null,
          legacy: false,
        }),
      ),
    )
    records.push(...page.records)
    if (page.end_of_stream) return records
    start = { by: 'offset', offset: page.next_offset }
  }
}

export async function auditAll(world: BrokerWorld, tenant: string): Promise<RefEvent[]> {
  const events: RefEvent[] = []
  for (let startOffset = 0; ;) {
    const request = { startOffset, maxRecords: PAGE, format: 'json' } as const
    const page = jsonOf<{ events: RefEvent[]; next_offset: number; end_of_stream: boolean }>(
      await resultAfterFlush(world, world.broker.audit({ ...CALLER, tenant }, request)),
    )
    events.push(...page.events)
    if (page.end_of_stream) return events
    startOffset = page.next_offset
  }
}

/** The plan that the dry run should show. */
export function expectedPlan(
  reference: Reference,
  stream: RefStream,
  wallMs: number,
  limits: RetentionLimits,
): { planned_first_offset: number; removable_bytes: number; retained_bytes: number; removable_records: number } {
  const { max_age_millis, max_bytes } = stream.config.retention
  const floor = reference.retentionFloor(stream, wallMs, {
    maxAgeMs: limits.maxAgeMs ?? max_age_millis,
    maxBytes: limits.maxBytes ?? max_bytes,
  })
  const bytes = (from: number, to: number): number => {
    let sum = 0
    for (let offset = from; offset < to; offset += 1) sum += payloadBytesOf(stream.records.get(offset))
    return sum
  }
  return {
    planned_first_offset: floor,
    removable_records: floor - stream.floor,
    removable_bytes: bytes(stream.floor, floor),
    retained_bytes: bytes(floor, stream.visibleNext),
  }
}
