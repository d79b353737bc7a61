/** Replays any stream from anywhere, reads the audit stream, and looks at retention, while all other actors work. */
import assert from 'node:assert/strict'
import type { Static } from 'typebox'
import type { AuditEvent } from '../../../src/broker/records/audit-event.ts'
import { ReplayReply } from '../../../src/broker/wire/record-answers.ts'
import { AuditPageReply, RetentionPlanReply } from '../../../src/broker/wire/storage-answers.ts'
import { Actor } from './actor.ts'
import type { Client } from './client.ts'
import type { StreamLedger } from './stream-ledger.ts'

export type Page = Static<typeof ReplayReply>

export class Reader extends Actor {
  protected async act(): Promise<void> {
    const { streams, workStreams } = this.scene
    const stream = streams[this.random.between(0, streams.length - 1)]!
    if (this.chance(10)) return this.#planRetention(workStreams[this.random.between(0, workStreams.length - 1)]!)
    if (this.chance(15)) return this.#readAudit()
    if (this.chance(20)) return this.#replayRecent(stream)
    const { storedEnd } = stream
    const start = this.random.between(0, storedEnd)
    const group = this.scene.groupsOf(stream)[0]
    const consumer = group && this.chance(20) ? `&consumer_group=${group.name}&consumer_id=reader` : ''
    const cap = this.chance(20) ? `&max_payload_bytes=${this.random.between(1, 20_000)}` : ''
    const query = `start_offset=${start}&max_records=${this.random.between(1, 500)}${consumer}${cap}`
    const page = await readPage(this.client, stream, query)
    assertPage(stream, page, start)
    if (page.end_of_stream) {
      assert(page.next_offset >= storedEnd, `${stream.name} ended at ${page.next_offset}, not at ${storedEnd}`)
    }
  }

  async #replayRecent(stream: StreamLedger): Promise<void> {
    const from = Date.now() - this.random.between(0, 2000)
    const page = await readPage(this.client, stream, `ingest_time_ms=${from}`)
    const [first] = page.records
    if (first === undefined) return
    assert(first.ingest_time_ms >= from, `${stream.name}: the first record since ${from} is of ${first.ingest_time_ms}`)
    assertPage(stream, page, first.offset)
  }

  async #readAudit(): Promise<void> {
    const { nextOffset } = this.scene.audit
    await readEvents(this.client, this.random.between(0, nextOffset), this.random.between(1, 200))
  }

  async #planRetention({ name }: StreamLedger): Promise<void> {
    const plan = await this.client.get(RetentionPlanReply, `/streams/${name}/retention/dry-run`)
    const { first_offset: first, planned_first_offset: planned, next_offset: next } = plan
    assert(first <= planned && planned <= next, JSON.stringify(plan))
    assert.equal(plan.removable_records, planned - first)
    assert.equal(plan.retained_records, next - planned)
  }
}

export const readPage = (client: Client, { name }: StreamLedger, query: string): Promise<Page> =>
  client.get(ReplayReply, `/v1/streams/${name}/records?${query}`)

/** Everything on it is as it was published and stands where it always stood, and nothing is left out. */
export function assertPage(
  stream: StreamLedger,
  { records, next_offset, end_of_stream, diagnostics }: Page,
  start: number,
): void {
  const { first_offset: floor } = diagnostics
  const where = `${stream.name} from ${start} on`
  const from = records[0]?.offset ?? next_offset
  assert(from === start || (from > start && from <= floor), `${where} begins at ${from}`) // retention may have come meanwhile
  stream.floorShown(floor)
  assert.equal(diagnostics.quarantined_records, 0, where)
  assert.equal(records.length, diagnostics.returned_records)
  assert.equal(next_offset, from + records.length, where)
  assert(records.length > 0 || end_of_stream, `${where} has nothing and does not end`)
  for (const [i, record] of records.entries()) {
    assert.equal(record.offset, from + i, where)
    if (stream.plan.groups.length > 0) stream.stored(record.offset, stream.maker.check(record))
  }
}

/** Events that follow each other from an offset on. */
export async function readEvents(client: Client, start: number, max: number): Promise<readonly AuditEvent[]> {
  const page = await client.get(AuditPageReply, `/v1/audit/events?start_offset=${start}&max_records=${max}`)
  for (const [i, { offset }] of page.events.entries()) assert.equal(offset, start + i, `audit events from ${start} on`)
  assert.equal(page.next_offset, start + page.events.length)
  assert(page.events.length > 0 || page.end_of_stream)
  return page.events
}
