/**
 * Checks that everything is as the answers said, while no actor works, through the broker's own routes only.
 *
 * A1  no stream is gone, none is shorter than what was acknowledged, retention took nothing back (stream-ledger.ts)
 * A2  what came since the last check is read record by record; of what is older a block is read again, and is the same
 * A3  leases, finished records and the numbers of each group are what they were said to be (group-ledger.ts)
 * A4  cursors stand where they were set (cursor-ledger.ts)
 * A5  every act that is audited has its event; every dead letter has one event and one copy (audit-ledger.ts)
 * A7  streams that come and go, and what other sites shipped, are as their owners left them (life-keeper.ts, shipper.ts)
 * A6  each record of a stream is, for each group, finished, leased, delayed or available: there is no other, and none is missing
 */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Random } from '../../../bench/load/random.ts'
import { CursorListReply, GroupReply, LeaseListReply } from '../../../src/broker/wire/group-answers.ts'
import { BatchAckReply, ClaimReply } from '../../../src/broker/wire/queue-answers.ts'
import { StreamListReply, StreamReply } from '../../../src/broker/wire/record-answers.ts'
import { BLOCK_OFFSETS, digestOf } from './block-digests.ts'
import type { Client } from './client.ts'
import type { GroupLedger } from './group-ledger.ts'
import { assertPage, readEvents, readPage } from './reader.ts'
import type { Page } from './reader.ts'
import { isLifeName } from './scene.ts'
import type { Scene } from './scene.ts'
import type { StreamLedger } from './stream-ledger.ts'

/** With the largest payloads of the plan a page of these stays below what the client takes for an answer, 16 MiB. */
const PAGE_RECORDS = 400
const DRAIN_POLL_MS = 100

interface Owner {
  check(client: Client): Promise<void>
}

/** Offsets of each group that a failure policy ended meanwhile. */
type Moved = ReadonlyMap<GroupLedger, ReadonlySet<number>>

export class Checks {
  readonly #scene: Scene
  readonly #client: Client
  readonly #random: Random
  readonly #createdAtMs = new Map<string, number>()
  readonly #owners: readonly Owner[]

  /** @param owners actors that check streams which only they use */
  constructor(scene: Scene, random: Random, owners: readonly Owner[]) {
    this.#owners = owners
    this.#scene = scene
    this.#client = scene.newInspector()
    this.#random = random
  }

  /** A1 to A5. @param isFinal see `Load.check` */
  async run(isFinal = true): Promise<void> {
    const { workStreams, deadStreams, groups, audit } = this.#scene
    await this.#checkStreamList()
    for (const stream of workStreams) await this.#readOn(stream)
    const lists = new Map<GroupLedger, LeaseListReply>()
    for (const group of groups) lists.set(group, await this.#leasesOf(group))
    for (const stream of workStreams) await this.#describe(stream) // retention goes on by itself
    const copies = await this.#readCopies(deadStreams)
    const moved = await this.#readAudit()
    for (const owner of this.#owners) await owner.check(this.#client)
    for (const [stream, pages] of copies) this.#checkCopies(stream, pages)
    for (const [group, list] of lists) group.listed(list, moved.get(group) ?? new Set(), isFinal)
    for (const group of groups) assert.deepEqual(group.unaudited(), [], `${group.path}: ended without an audit event`)
    audit.assertComplete(isFinal)
    for (const group of groups) await this.#checkGroup(group, isFinal)
    for (const stream of workStreams) await this.#readAgain(stream)
    await this.#readAuditAgain()
    this.#forget()
  }

  /** A6. Works off everything that is left, after all actors have stopped. */
  async drain(): Promise<void> {
    const { groups, workStreams } = this.#scene
    for (const group of groups) await this.#untilIdle(group)
    await this.run()
    for (const group of groups) {
      const { lag_messages: available } = await this.#client.get(GroupReply, group.path)
      const taken = await this.#takeAll(group)
      if (group.stream.plan.body.retention === undefined) assert.equal(taken, available, `available in ${group.path}`)
      const { lag_messages, in_flight_count, delayed_count, progress_offset, highest_next_offset } =
        await this.#client.get(GroupReply, group.path)
      assert.deepEqual([lag_messages, in_flight_count, delayed_count], [0, 0, 0], group.path)
      assert.equal(progress_offset, highest_next_offset)
    }
    await this.run()
    for (const stream of workStreams) {
      for (const group of this.#scene.groupsOf(stream)) assert.equal(group.finishedEnd(), stream.storedEnd, group.path)
    }
    for (const [name, copies] of this.#scene.audit.copies) assert.deepEqual(copies, [], `copies missing in ${name}`)
  }

  // A1

  async #checkStreamList(): Promise<void> {
    const { streams } = await this.#client.get(StreamListReply, '/v1/streams')
    const names = new Set(streams.map(({ stream }) => stream))
    const expected = [...this.#scene.streams.map(({ name }) => name), ...this.#scene.extraStreams]
    assert.deepEqual(
      expected.filter((name) => !names.has(name)),
      [],
      'streams are gone',
    )
    for (const { stream, created_at_ms: at } of streams) {
      if (isLifeName(stream)) continue
      assert.equal(at, this.#createdAtMs.get(stream) ?? at, `${stream} was created again`)
      this.#createdAtMs.set(stream, at)
    }
  }

  async #describe(stream: StreamLedger): Promise<StreamReply> {
    const described = await this.#client.get(StreamReply, `/v1/streams/${stream.name}`)
    const { first_offset: floor, next_offset: next, record_count: count } = described
    assert(floor >= stream.floor, `${stream.name} begins at ${floor}, and began at ${stream.floor}`)
    assert(next >= stream.storedEnd, `${stream.name} ends at ${next}, and ended at ${stream.storedEnd}`)
    assert.equal(count, next - floor, `${stream.name} has ${count} records from ${floor} to ${next}`)
    if (stream.plan.body.retention === undefined) assert.equal(floor, 0)
    stream.floorShown(floor)
    return described
  }

  // A2

  async #readOn(stream: StreamLedger): Promise<void> {
    const { next_offset: end } = await this.#describe(stream)
    stream.verifiedEnd = Math.max(stream.verifiedEnd, stream.floor)
    while (stream.verifiedEnd < end) {
      const from = stream.verifiedEnd
      const page = await readPage(this.#client, stream, `start_offset=${from}&max_records=${PAGE_RECORDS}`)
      assertPage(stream, page, from)
      stream.verifiedEnd = page.next_offset
    }
    assert.equal(stream.storedEnd, end, `${stream.name} says it ends at ${end}, and is read up to ${stream.storedEnd}`)
  }

  async #readAgain(stream: StreamLedger): Promise<void> {
    const block = stream.oldBlock(this.#random)
    if (block === null) return
    const page = await readPage(this.#client, stream, `start_offset=${block.from}&max_records=${BLOCK_OFFSETS}`)
    if (page.diagnostics.first_offset > block.from) return // retention was faster
    assertPage(stream, page, block.from)
    const ids = page.records.map(({ message_id }) => message_id)
    assert.equal(digestOf(ids), block.digest, `${stream.name} has other records from ${block.from} on`)
  }

  // A5

  async #readAudit(): Promise<Moved> {
    const { audit, groups } = this.#scene
    const moved = new Map(groups.map((group) => [group, new Set<number>()]))
    for (;;) {
      const events = await readEvents(this.#client, audit.nextOffset, PAGE_RECORDS)
      if (events.length === 0) return moved
      for (const event of events) {
        const end = audit.event(event)
        if (end) moved.get(end.group)!.add(end.offset)
      }
    }
  }

  async #readAuditAgain(): Promise<void> {
    const block = this.#scene.audit.oldBlock(this.#random)
    if (block === null) return
    const events = await readEvents(this.#client, block.from, BLOCK_OFFSETS)
    const texts = events.map((event) => JSON.stringify(event))
    assert.equal(digestOf(texts), block.digest, `there are other audit events from ${block.from} on`)
  }

  async #readCopies(deadStreams: readonly StreamLedger[]): Promise<Map<StreamLedger, Page[]>> {
    const copies = new Map<StreamLedger, Page[]>()
    for (const stream of deadStreams) {
      const { next_offset: end } = await this.#describe(stream)
      const pages: Page[] = []
      for (let from = stream.verifiedEnd; from < end;) {
        const page = await readPage(this.#client, stream, `start_offset=${from}&max_records=${PAGE_RECORDS}`)
        assertPage(stream, page, from)
        pages.push(page)
        from = page.next_offset
      }
      copies.set(stream, pages)
    }
    return copies
  }

  #checkCopies(stream: StreamLedger, pages: readonly Page[]): void {
    const expected = this.#scene.audit.copies.get(stream.name) ?? []
    for (const record of pages.flatMap(({ records }) => records)) {
      const where = `the copy at offset ${record.offset} of ${stream.name}`
      const copy = expected.shift()
      assert(copy?.offset === record.offset, `${where} has no audit event`)
      const { source, sourceOffset, reason } = copy
      const number = source.maker.check(record, {
        'x-dead-letter-source-stream': source.name,
        'x-dead-letter-source-offset': String(sourceOffset),
        'x-dead-letter-reason': reason,
        'x-dead-letter-origin-stream': source.name, // no worker claims from the streams of dead letters
        'x-dead-letter-origin-offset': String(sourceOffset),
        'x-dead-letter-count': '1',
      })
      assert.equal(number, source.numberAt(sourceOffset), `${where} is not record ${sourceOffset} of ${source.name}`)
      stream.verifiedEnd = record.offset + 1
      stream.storedEnd = Math.max(stream.storedEnd, stream.verifiedEnd)
    }
  }

  // A3, A4

  #leasesOf(group: GroupLedger): Promise<LeaseListReply> {
    return this.#client.get(LeaseListReply, `${group.path}/leases?include_completed=true`)
  }

  async #checkGroup(group: GroupLedger, isFinal: boolean): Promise<void> {
    const { stream } = group
    const described = await this.#client.get(GroupReply, group.path)
    if (stream.plan.body.retention === undefined) {
      const { certain, possible } = group.countFinished(0, stream.storedEnd)
      const finished = described.highest_next_offset - described.lag_messages
      const moving = stream.plan.body.failure_policy?.apply_on_expiry === true
      assert(
        finished >= certain && (moving || finished <= certain + possible),
        `${group.path}: ${finished} records are finished, ${certain} certainly, ${possible} perhaps`,
      )
      const end = group.finishedEnd()
      const at = described.progress_offset
      assert(at >= end && (moving || possible > 0 || at === end), `${group.path} is at ${at}, not at ${end}`)
    }
    const { cursors } = await this.#client.get(CursorListReply, `${group.path}/cursors`)
    for (const cursor of this.#scene.cursors.filter((each) => each.group === group)) {
      cursor.shown(cursors.find((each) => each.cursor === cursor.name)?.offset ?? null, isFinal)
    }
  }

  // A6

  /** Resolves when no lease and no delay runs, and expired deliveries were dealt with. */
  async #untilIdle(group: GroupLedger): Promise<void> {
    for (let before = -1; ;) {
      const { in_flight_count, delayed_count, lag_messages: lag } = await this.#client.get(GroupReply, group.path)
      const isIdle = in_flight_count === 0 && delayed_count === 0
      if (isIdle && lag === before) return
      before = isIdle ? lag : -1
      await sleep(DRAIN_POLL_MS)
    }
  }

  async #takeAll(group: GroupLedger): Promise<number> {
    const { stream } = group
    for (let taken = 0; ;) {
      const body = { max_messages: 1000, lease_timeout_millis: 60_000 }
      const claim = await this.#client.request(ClaimReply, 'POST', `${group.path}/claims`, { body })
      assert(claim?.kind === 'ok')
      const { deliveries, subscription_id: subscription } = claim.body
      if (deliveries.length === 0) return taken
      for (const delivery of deliveries) {
        stream.stored(delivery.offset, stream.maker.check(delivery.record))
        group.delivered(delivery)
      }
      const path = `/v1/streams/${stream.name}/subscriptions/${subscription}/deliveries/batch-ack`
      const ids = { delivery_ids: deliveries.map(({ delivery_id }) => delivery_id) }
      const acked = await this.#client.request(BatchAckReply, 'POST', path, { body: ids })
      assert(acked?.kind === 'ok')
      if (stream.plan.body.retention === undefined) assert.equal(acked.body.acknowledged_count, deliveries.length)
      for (const { offset, attempt } of deliveries) group.finished(offset, attempt, 'acked')
      taken += deliveries.length
    }
  }

  #forget(): void {
    for (const stream of this.#scene.streams) {
      const groups = this.#scene.groupsOf(stream)
      if (groups.length === 0) continue
      stream.forgetBelow(Math.min(stream.verifiedEnd, ...groups.map((group) => group.finishedEnd())))
      for (const group of groups) group.forgetBelow(stream.base)
    }
  }
}
