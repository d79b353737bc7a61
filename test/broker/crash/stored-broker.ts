/** A broker on simulated files that was used in every way and stopped, and what its damaged files may lead to. */
import assert from 'node:assert/strict'
import type { Random } from '../../../bench/load/random.ts'
import type { PublishInput } from '../../../src/broker/publish-input.ts'
import { BrokerError } from '../../../src/broker/refusals.ts'
import { StoreError } from '../../../src/errors.ts'
import type { CursorListReply, GroupReply, LeaseListReply } from '../../../src/broker/wire/group-answers.ts'
import type { ReplayDiagnostics, StreamSummary } from '../../../src/broker/wire/record-answers.ts'
import type { CreateStreamBody } from '../../../src/broker/wire/requests.ts'
import { BrokerWorld, CALLER, NEVER_ABANDONED, jsonOf, resultAfterFlush } from '../../support/broker-world.ts'

const SEGMENT_BYTES = 8192
const PAGE_RECORDS = 50
/** Longer than any lease or delay. */
const RUN_OUT_MS = 10_000
export const GROUPS = ['workers', 'others'] as const
const CURSOR = 'cursor'

const STREAMS: Readonly<Record<string, CreateStreamBody>> = {
  orders: { failure_policy: { max_attempts: 2, dead_letter_stream: 'dead' } },
  dead: {},
  short: { retention: { max_bytes: 4000 } },
}
const PUBLISHED = ['orders', 'short'] as const
/** Created last. */
const LATE = 'late'

interface ShownRecord {
  readonly offset: number
  readonly message_id: string
}

interface Delivery {
  readonly delivery_id: string
  readonly offset: number
  readonly attempt: number
  readonly record: ShownRecord
}

interface Claimed {
  readonly subscription_id: string
  readonly deliveries: readonly Delivery[]
}

/** What a broker shows of a stream. */
interface StreamFacts {
  readonly summary: StreamSummary
  /** Records as JSON, by offset. */
  readonly records: ReadonlyMap<number, string>
  readonly quarantined: number
  readonly incidents: number
  readonly groups: Readonly<Record<string, GroupFacts>>
}

interface GroupFacts {
  readonly described: GroupReply
  readonly leases: LeaseListReply['leases']
  readonly cursors: CursorListReply['cursors']
}

export interface Facts {
  readonly streams: ReadonlyMap<string, StreamFacts>
  /** Audit events as JSON, by offset. */
  readonly events: ReadonlyMap<number, string>
  readonly eventsEnd: number
  readonly incidents: number
}

/** Publishes, claims, retains and cleans, and ends with a new stream and a new group. @param rounds 16 fill many segments */
export async function storedBroker(random: Random, rounds: number): Promise<BrokerWorld> {
  const world = await BrokerWorld.open({ segmentBytes: SEGMENT_BYTES })
  for (const [name, body] of Object.entries(STREAMS)) {
    await resultAfterFlush(world, world.broker.createStream(CALLER, name, body))
  }
  for (let round = 0; round < rounds; round++) {
    for (const stream of PUBLISHED) await publish(world, stream, random.between(1, 12), random)
    for (const group of GROUPS) {
      await work(world, 'orders', group, random)
      await work(world, 'short', group, random)
    }
    await setCursors(world, round)
    await world.advance(random.between(0, 2000))
    await Promise.all([world.retainer.enforce(), world.flush()])
    await world.flush()
  }
  await resultAfterFlush(world, world.broker.createStream(CALLER, LATE, {}))
  await publish(world, LATE, 5, random)
  await work(world, LATE, GROUPS[0], random)
  await work(world, 'orders', GROUPS[0], random)
  await world.close()
  return world
}

async function publish(world: BrokerWorld, stream: string, count: number, random: Random): Promise<void> {
  const inputs = Array.from({ length: count }, (_, n) =>
    inputOf(`${stream}-${random.uint32()}-${n}`, random.between(0, 200)),
  )
  if (count > 6) await resultAfterFlush(world, world.broker.publishBatch(CALLER, stream, inputs))
  else for (const input of inputs) await resultAfterFlush(world, world.broker.publish(CALLER, stream, input))
}

const inputOf = (messageId: string, payloadBytes: number): PublishInput => ({
  messageId,
  payload: { text: ''.padEnd(payloadBytes, messageId), encoding: 'utf8' },
  key: null,
  eventTimeMs: null,
  headers: { from: 'test' },
  durability: null,
})

async function work(world: BrokerWorld, stream: string, group: string, random: Random): Promise<void> {
  const { subscription_id: subscriptionId, deliveries } = await claim(world, stream, group, 10)
  for (const { delivery_id: deliveryId } of deliveries) {
    const path = { stream, subscriptionId, deliveryId }
    const choice = random.between(1, 10)
    if (choice <= 6) await resultAfterFlush(world, world.broker.ack(CALLER, path))
    else if (choice <= 8)
      await resultAfterFlush(world, world.broker.nack(CALLER, path, { reason: 'failed', requeue: true }))
    else if (choice === 9)
      await resultAfterFlush(world, world.broker.retry(CALLER, path, { reason: 'later', delay_millis: 500 }))
  }
}

async function setCursors(world: BrokerWorld, round: number): Promise<void> {
  const path = { stream: 'orders', group: GROUPS[0] }
  await resultAfterFlush(world, world.broker.commitCursor(CALLER, path, CURSOR, round + 2))
  if (round % 5 === 0)
    await resultAfterFlush(world, world.broker.rewindCursor(CALLER, path, CURSOR, { offset: round, reason: 'again' }))
}

async function claim(world: BrokerWorld, stream: string, group: string, max: number): Promise<Claimed> {
  const body = { max_messages: max, lease_timeout_millis: 1500 }
  return jsonOf<Claimed>(
    await resultAfterFlush(world, world.broker.claim(CALLER, { stream, group }, body, NEVER_ABANDONED)),
  )
}

/** Everything that a broker shows. Changes nothing. */
export async function factsOf(world: BrokerWorld): Promise<Facts> {
  const { broker } = world
  const streams = new Map<string, StreamFacts>()
  const listed = await resultAfterFlush(world, broker.listStreams(CALLER))
  for (const { stream: name } of listed.streams) {
    const { records, quarantined } = await recordsOf(world, name)
    const groups: Record<string, GroupFacts> = {}
    for (const group of GROUPS) {
      const path = { stream: name, group }
      const described = await resultAfterFlush(world, broker.describeGroup(CALLER, path))
      const { leases } = await resultAfterFlush(world, broker.leases(CALLER, path, true))
      const { cursors } = await resultAfterFlush(world, broker.cursors(CALLER, path))
      groups[group] = { described, leases, cursors }
    }
    // Asked last, as reading may have found damage.
    const described = await resultAfterFlush(world, broker.describeStream(CALLER, name))
    const { incident_count: incidents } = await resultAfterFlush(world, broker.quarantine(CALLER, name))
    streams.set(name, { summary: described, records, quarantined, incidents, groups })
  }
  const { events, end } = await eventsOf(world)
  return { streams, events, eventsEnd: end, incidents: world.log.incidents.length }
}

async function recordsOf(
  world: BrokerWorld,
  stream: string,
): Promise<{ records: Map<number, string>; quarantined: number }> {
  const records = new Map<number, string>()
  let quarantined = 0
  for (let offset = 0; ;) {
    const page = jsonOf<{
      records: ShownRecord[]
      next_offset: number
      end_of_stream: boolean
      diagnostics: ReplayDiagnostics
    }>(
      await resultAfterFlush(
        world,
        world.broker.replay(CALLER, stream, {
          start: { by: 'offset', offset },
          maxRecords: PAGE_RECORDS,
          maxPayloadBytes: null,
          consumer: null,
          legacy: false,
        }),
      ),
    )
    for (const record of page.records) records.set(record.offset, JSON.stringify(record))
    quarantined += page.diagnostics.quarantined_records
    assert(page.next_offset >= offset)
    if (page.end_of_stream) return { records, quarantined }
    offset = page.next_offset
  }
}

async function eventsOf(world: BrokerWorld): Promise<{ events: Map<number, string>; end: number }> {
  const events = new Map<number, string>()
  for (let startOffset = 0; ;) {
    const request = { startOffset, maxRecords: PAGE_RECORDS, format: 'json' } as const
    const page = jsonOf<{ events: { offset: number }[]; next_offset: number; end_of_stream: boolean }>(
      await resultAfterFlush(world, world.broker.audit(CALLER, request)),
    )
    for (const event of page.events) events.set(event.offset, JSON.stringify(event))
    if (page.end_of_stream) return { events, end: page.next_offset }
    startOffset = page.next_offset
  }
}

/**
 * Asserts that everything shown is as it was, that nothing is missing without a sign, and that no offset can be given again.
 *
 * @param isCut the end of a file is missing, so a stream created there may be gone too
 * @returns 'right': everything is there
 */
export function compare(facts: Facts, pristine: Facts, isCut: boolean): 'right' | 'signed' {
  const gone = [...pristine.streams.keys()].filter((name) => !facts.streams.has(name))
  assert(gone.length === 0 || (isCut && facts.incidents > 0), `${gone.join(', ')} disappeared`)
  let isRight = assertAmong(facts.events, pristine.events, 'audit event')
  assert(facts.eventsEnd >= pristine.eventsEnd, 'audit offsets would be given again')
  for (const [name, stream] of facts.streams) {
    const before = pristine.streams.get(name)!
    const { first_offset: first, next_offset: next } = stream.summary
    const kept = new Map([...stream.records].filter(([offset]) => offset >= before.summary.first_offset))
    isRight = assertAmong(kept, before.records, `record of ${name}`) && isRight
    assert(next >= before.summary.next_offset, `offsets of ${name} would be given again`)
    const missing = next - first - stream.records.size
    assert.equal(
      stream.quarantined,
      missing,
      `${missing} records of ${name} are missing, and as many must be said to be`,
    )
    assert(missing === 0 || stream.incidents > 0, `${name} has no incident that says why`)
    for (const group of GROUPS) {
      const isGroupRight = compareGroups(stream.groups[group]!, before.groups[group]!, before.summary.first_offset)
      isRight = isRight && isGroupRight
    }
    isRight = isRight && isSame(stream.summary, before.summary)
  }
  if (isRight) return 'right'
  assert(facts.incidents > 0, 'something is missing, and there is no incident')
  return 'signed'
}

/** @param floor first offset before the damage: leases below it may be shown again, and are not compared */
function compareGroups(group: GroupFacts, before: GroupFacts, floor: number): boolean {
  const endings = new Map(before.leases.map(({ offset, state, attempt }) => [offset, { state, attempt }]))
  for (const { offset, state, attempt } of group.leases) {
    const isOpen = state === 'active' || state === 'expired' || state === 'released'
    if (isOpen || offset < floor) continue
    const ended = endings.get(offset)
    assert.deepEqual({ state, attempt }, ended, `offset ${offset} ended otherwise, or had not ended`)
  }
  return isSame(group, before)
}

/** Asserts that each found text was there before, unchanged. @returns whether all are there */
function assertAmong(found: ReadonlyMap<number, string>, expected: ReadonlyMap<number, string>, what: string): boolean {
  for (const [offset, text] of found)
    assert.equal(text, expected.get(offset), `the ${what} at offset ${offset} is another`)
  return found.size === expected.size
}

const isSame = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other)

/** Asserts that new records get new offsets and that claims show records as published. Then all leases and delays run out. */
export async function assertWorks(world: BrokerWorld, pristine: Facts): Promise<void> {
  for (const name of STREAM_NAMES) {
    const { records, summary } = pristine.streams.get(name)!
    for (const group of GROUPS) {
      const { deliveries } = await claim(world, name, group, 1000)
      for (const { offset, record } of deliveries) {
        assert.equal(JSON.stringify(record), records.get(offset), `a claim shows another record`)
      }
    }
    const { offset } = await resultAfterFlush(world, world.broker.publish(CALLER, name, inputOf('new', 10)))
    assert(offset >= summary.next_offset, `offset ${offset} of ${name} is given again`)
  }
  await world.advance(RUN_OUT_MS)
}

const STREAM_NAMES = Object.keys(STREAMS)

/** Null: the broker opened; else the one line with which it refused, which says what is wrong. */
export async function openDamaged(world: BrokerWorld): Promise<string | null> {
  try {
    await world.open()
    return null
  } catch (error) {
    if (!(error instanceof StoreError) || error instanceof BrokerError) throw error
    assert.match(error.message, /^[^\n]{10,}$/)
    return error.message
  }
}
