/**
 * Another site that ships a stream here: batches of consecutive records, again when they were not answered, sometimes twice, sometimes with a gap.
 *
 * S1  a record is applied once, in the order of the source, whatever was sent twice or not answered
 * S2  a gap is refused, unless the source says that it has lost what is in it
 */
import assert from 'node:assert/strict'
import { ReplicaApplyReply } from '../../../src/broker/wire/node-answers.ts'
import { ReplayReply } from '../../../src/broker/wire/record-answers.ts'
import { Actor } from './actor.ts'
import type { Client } from './client.ts'

const SHIPPED = 'shipped'
const BATCH_RECORDS_MAX = 30
const PAGE_RECORDS = 1000

interface Batch {
  readonly from: number
  readonly end: number
  /** S2: what the source has lost before it. */
  readonly skipped: readonly (readonly [from: number, end: number])[]
}

export class Shipper extends Actor {
  /** Origin offsets of what is here, in its order; what the source lost is not. */
  readonly #applied: number[] = []
  #next = 0
  /** The batch that was sent and not answered. */
  #asked: Batch | null = null

  /** S1, while no actor works. */
  async check(client: Client): Promise<void> {
    if (this.#next === 0 && this.#asked === null) return
    const ids: string[] = []
    for (let isOver = false; !isOver;) {
      const path = `/v1/streams/${SHIPPED}/records?max_records=${PAGE_RECORDS}&start_offset=${ids.length}`
      const page = await client.request(ReplayReply, 'GET', path, { expected: ['stream_not_found'] })
      if (page === null) continue
      if (page.kind === 'refused') break
      ids.push(...page.body.records.map(({ message_id }) => message_id))
      isOver = page.body.end_of_stream
    }
    const sure = this.#applied.map(idOf)
    const asked =
      this.#asked && Array.from({ length: this.#asked.end - this.#asked.from }, (_, i) => this.#asked!.from + i)
    const isWhole = asked !== null && ids.length === sure.length + asked.length
    assert.deepEqual(ids, isWhole ? [...sure, ...asked.map(idOf)] : sure, 'what another site shipped')
  }

  protected async act(): Promise<void> {
    if (this.#asked !== null) return this.#ship(this.#asked)
    const from = this.#next
    if (from > 0 && this.chance(10)) return this.#shipAgain()
    if (from > 0 && this.chance(10)) return this.#shipWithGap()
    await this.#ship({ from, end: from + this.random.between(1, BATCH_RECORDS_MAX), skipped: [] })
  }

  async #ship(batch: Batch): Promise<void> {
    const { from, end, skipped: skipped_ranges } = batch
    const isFirst = from === 0
    const { audit } = this.scene
    const answer = await this.client.request(ReplicaApplyReply, 'POST', '/v1/replication/target/apply', {
      body: { ...batchOf(from, end), ...(skipped_ranges.length > 0 && { skipped_ranges }) },
      onSend: () => {
        this.#asked = batch
        if (isFirst) audit.asked('stream_created', SHIPPED)
      },
    })
    if (answer?.kind !== 'ok') return
    if (isFirst) audit.answered('stream_created', SHIPPED)
    const { applied, skipped, next_expected_offset } = answer.body
    assert.deepEqual([applied + skipped, next_expected_offset], [end - from, end])
    assert(applied === end - from || applied === 0, 'a batch is applied as a whole')
    this.#asked = null
    for (let offset = from; offset < end; offset += 1) this.#applied.push(offset)
    this.#next = end
  }

  /** S1 */
  async #shipAgain(): Promise<void> {
    const last = this.#applied.slice(-BATCH_RECORDS_MAX)
    const asked = last.filter((offset, i) => this.#next - offset === last.length - i) // a batch has no gap in it
    const records = asked.map(recordOf)
    const answer = await this.client.request(ReplicaApplyReply, 'POST', '/v1/replication/target/apply', {
      body: { ...batchOf(0, 0), records },
    })
    if (answer?.kind !== 'ok') return
    const { applied, skipped, next_expected_offset } = answer.body
    assert.deepEqual([applied, skipped, next_expected_offset], [0, asked.length, this.#next])
  }

  /** S2 */
  async #shipWithGap(): Promise<void> {
    const from = this.#next + this.random.between(1, 5)
    const end = from + this.random.between(1, BATCH_RECORDS_MAX)
    const answer = await this.client.request(ReplicaApplyReply, 'POST', '/v1/replication/target/apply', {
      body: batchOf(from, end),
      expected: ['replica_apply_gap'],
    })
    if (answer === null) return
    assert.equal(answer.kind, 'refused', `records from ${from} on were taken, after ${this.#next}`)
    await this.#ship({ from, end, skipped: [[this.#next, from]] })
  }
}

const idOf = (offset: number): string => `far-${offset}`

const recordOf = (origin_offset: number) => ({
  origin_offset,
  message_id: idOf(origin_offset),
  payload_hex: Buffer.from(idOf(origin_offset)).toString('hex'),
  key_hex: null,
  headers: {},
  event_time_ms: origin_offset,
  ingest_time_ms: origin_offset,
})

function batchOf(from: number, end: number): object {
  return {
    source_site: 'far',
    target_site: 'here',
    policy: 'soak',
    tenant: 'local',
    stream: SHIPPED,
    records: Array.from({ length: end - from }, (_, i) => recordOf(from + i)),
  }
}
