/** Specification "Audit, metrics, storage administration": quarantine, after bytes really changed on the disk. */
import assert from 'node:assert/strict'
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import type { Static } from 'typebox'
import { HealthReply } from '../../../src/broker/wire/node-answers.ts'
import { NackReply } from '../../../src/broker/wire/queue-answers.ts'
import {
  AuditPageReply,
  QuarantineAcknowledgeReply,
  QuarantineListReply,
  TieringReadinessReply,
} from '../../../src/broker/wire/storage-answers.ts'
import { BrokerServer, assertRefused } from '../../support/broker.ts'
import type { Delivery, Stream } from '../../support/broker.ts'
import type { RequestBody } from '../../support/http.ts'

type Incident = Static<typeof QuarantineListReply>['incidents'][number]

let broker: BrokerServer
/** Offsets 0 to 3, of which 1 is damaged, in a sealed segment. */
let sealed: Stream
/** Offsets 0 to 6, of which 2 to 4, one frame, are damaged, in the active segment. */
let active: Stream
/** No record is damaged. */
let whole: Stream
/** Deliveries of the damaged records 2 and 3 of `active`. */
let leased: Delivery[]

before(async () => {
  broker = await BrokerServer.start({ flags: ['--segment-bytes', String(1 << 20), '--metrics-exposure', 'http'] })
  sealed = await broker.newStream()
  active = await broker.newStream({ failure_policy: { max_attempts: 1, dead_letter_stream: sealed.name } })
  whole = await broker.newStream()
  for (const name of ['one', 'two', 'three', 'four']) await sealed.publish(`sealed ${name}`)
  await whole.fill(3)
  const filler = await broker.newStream()
  for (let i = 0; i < 6; i++) await filler.publish('x'.repeat(300_000))
  await active.fill(2, (i) => `active before ${i}`)
  await active.fill(3, (i) => `active damaged ${i}`)
  await active.fill(2, (i) => `active behind ${i}`)
  leased = await active.group('leased').claim({ start_offset: 2, max_messages: 2, lease_timeout_millis: 3_600_000 })
  const rewound = whole.group()
  await rewound.rewind('main', { offset: 2, reason: 'harmless' })
  await rewound.rewind('main', { offset: 1, reason: 'event that gets lost' })
  await broker.stop()
  damage('sealed two')
  damage('active damaged 1')
  damage('event that gets lost')
  await broker.startAgain()
})
after(() => broker.stop())

/** Flips a bit at the only place in the log where the text stands. */
function damage(text: string): void {
  const places = globSync(`${broker.dataDirectory}/segments/*/records.log`).flatMap((file) => {
    const at = readFileSync(file).indexOf(text)
    return at < 0 ? [] : [{ file, at }]
  })
  assert.equal(places.length, 1, text)
  const { file, at } = places[0]!
  const bytes = readFileSync(file)
  bytes[at]! ^= 1
  writeFileSync(file, bytes)
}

const incidentsOf = async ({ unversionedPath }: Pick<Stream, 'unversionedPath'>): Promise<readonly Incident[]> => {
  const list = await broker.get(`${unversionedPath}/quarantine`, QuarantineListReply)
  assert.equal(list.incident_count, list.incidents.length)
  return list.incidents
}
const acknowledge = ({ unversionedPath }: Stream, incident: string, body: RequestBody = null) =>
  broker.request('POST', `${unversionedPath}/quarantine/${incident}/acknowledge`, body)
const audit = () => broker.stream('system.audit')
const textsOf = (records: readonly { readonly payload_hex: string }[]): string[] =>
  records.map(({ payload_hex }) => Buffer.from(payload_hex, 'hex').toString())

describe('a damaged frame of a sealed segment', () => {
  it('is left out of a claim; the other records are given out, and it never is', async () => {
    const group = sealed.group()
    const claimed = await group.claim({ max_messages: 9 })
    assert.deepEqual(textsOf(claimed.map(({ fields }) => fields.record)), ['sealed one', 'sealed three', 'sealed four'])
    assert.deepEqual(await group.claim({ max_messages: 9 }), [])
    for (const delivery of claimed) assert.equal((await delivery.ack()).status, 200)
    const { progress_offset, lag_messages, in_flight_count, highest_next_offset } = await group.describe()
    assert.deepEqual([progress_offset, lag_messages, in_flight_count, highest_next_offset], [4, 0, 0, 4])
  })
  it('is an open incident of its stream, without payload', async () => {
    const [incident, ...more] = await incidentsOf(sealed)
    assert.deepEqual(more, [])
    const { incident_id, segment, damaged_bytes, reason, ...rest } = incident!
    assert.match(incident_id, /^inc-[0-9a-f]+$/)
    assert.match(segment, /^[0-9a-f]{16}$/)
    assert(damaged_bytes > 0 && damaged_bytes < 1000, String(damaged_bytes))
    assert.notEqual(reason, '')
    assert.deepEqual(rest, {
      stream: sealed.name,
      state: 'open',
      first_offset: 1,
      last_offset: 1,
      acknowledged_at_ms: null,
      acknowledged_by: null,
      note: null,
    })
    const { text } = await broker.request('GET', `${sealed.unversionedPath}/quarantine`)
    assert(!text.includes('sealed one') && !text.includes(Buffer.from('sealed').toString('hex')))
  })
  it('keeps its segment from being archived', async () => {
    const path = `${sealed.unversionedPath}/tiering/readiness`
    const { ready, blocked } = await broker.get(path, TieringReadinessReply)
    assert.equal(ready, false)
    assert.deepEqual(
      blocked.map(({ reason }) => reason),
      ['the segment has a quarantine incident'],
    )
  })
})

describe('a damaged frame of the segment that was written to last', () => {
  it('is an open incident of its stream, with all the offsets it held', async () => {
    const [incident, ...more] = await incidentsOf(active)
    assert.deepEqual(more, [])
    assert.deepEqual([incident?.state, incident?.first_offset, incident?.last_offset], ['open', 2, 4])
  })
  it('is left out of replay and of claims', async () => {
    const { records } = await active.replay()
    const expected = ['active before 0', 'active before 1', 'active behind 0', 'active behind 1']
    assert.deepEqual(textsOf(records), expected)
    const claimed = await active.group().claim({ max_messages: 9 })
    assert.deepEqual(
      claimed.map(({ offset }) => offset),
      [0, 1, 5, 6],
    )
    assert.deepEqual((await active.group().claim({ max_messages: 9 })).length, 0)
  })
  it('can still be acknowledged by who had claimed it, and not be copied: the failure policy stops it', async () => {
    const [first, second] = leased
    const target = await broker.newStream()
    assertRefused(await first!.deadLetter(target.name), 500, 'queue_state_persistence_failed', /damaged/)
    assert.equal((await target.describe()).next_offset, 0)
    assert.equal((await first!.ack()).status, 200)
    assert.equal((await second!.nack(true)).succeeded(NackReply).policy_action, 'stopped')
  })
})

describe('records beside damage', () => {
  it('are served, and the pages say what is missing', async () => {
    for (const [stream, offsets, missing] of [
      [sealed, [0, 2, 3], 1],
      [active, [0, 1, 5, 6], 3],
      [whole, [0, 1, 2], 0],
    ] as const) {
      const { records, next_offset, end_of_stream, diagnostics } = await stream.replay()
      assert.deepEqual(
        records.map(({ offset }) => offset),
        offsets,
      )
      const end = offsets.at(-1)! + 1
      assert.deepEqual([next_offset, end_of_stream, diagnostics.quarantined_records], [end, true, missing])
      const { record_count } = await stream.describe()
      assert.equal(record_count, offsets.length)
    }
    assert.deepEqual((await sealed.replay('start_offset=1&max_records=1')).records[0]?.offset, 2)
    assert.deepEqual(await incidentsOf(whole), [])
  })
  it('keep their offsets: none is given again', async () => {
    assert.equal((await sealed.publish('sealed five')).offset, 4)
    assert.equal((await active.publish('active last')).offset, 7)
  })
  it('degrade the health of the node', async () => {
    const { status, storage } = await broker.get('/health', HealthReply)
    assert.deepEqual([status, storage.status], ['degraded', 'degraded'])
    assert.match(
      storage.message!,
      /^3 quarantine incidents are not acknowledged: inc-.+: list the incidents with GET \/streams\/\{stream\}\/quarantine, /,
    )
  })
})

describe('a damaged audit event', () => {
  it('is an incident of the reserved stream; the other events are there, and the page goes on behind it', async () => {
    const { events, end_of_stream, next_offset } = await broker.get('/v1/audit/events?max_records=1000', AuditPageReply)
    assert(end_of_stream)
    const rewinds = events.filter(({ kind }) => kind === 'cursor_rewound')
    assert.deepEqual(
      rewinds.map(({ detail }) => detail['reason']),
      ['harmless'],
    )
    const [incident] = await incidentsOf(audit())
    assert.equal(incident?.first_offset, rewinds[0]!.offset + 1)
    assert.equal((await audit().describe()).next_offset, next_offset)
  })
})

describe('POST …/quarantine/{incident}/acknowledge', () => {
  const reasonsOf = async (kind: string) =>
    (await broker.get('/v1/audit/events?max_records=1000', AuditPageReply)).events.filter(
      (event) => event.kind === kind,
    )

  it('acknowledges an incident once, with who and why, audited; again is 409 write_not_allowed', async () => {
    const [open] = await incidentsOf(sealed)
    const body = { acknowledged_by: 'ops größe', note: 'restored from "backup"' }
    const reply = (await acknowledge(sealed, open!.incident_id, body)).succeeded(QuarantineAcknowledgeReply)
    const { acknowledged_at_ms, acknowledgement, ...incident } = reply
    assert(Math.abs(acknowledged_at_ms! - Date.now()) < 60_000)
    assert.equal(acknowledgement.durable, true)
    assert.deepEqual({ ...incident, acknowledged_at_ms: null }, { ...open, state: 'acknowledged', ...body })
    assert.deepEqual(await incidentsOf(sealed), [{ ...incident, acknowledged_at_ms }])
    assertRefused(await acknowledge(sealed, open!.incident_id, body), 409, 'write_not_allowed')
    const events = await reasonsOf('quarantine_acknowledged')
    assert.deepEqual(
      events.map(({ stream, detail }) => [stream, detail]),
      [[sealed.name, { incident_id: open!.incident_id, ...body }]],
    )
  })
  it('takes no body, an empty one or null fields', async () => {
    const [first] = await incidentsOf(active)
    const body = { acknowledged_by: null, note: null }
    const done = (await acknowledge(active, first!.incident_id, body)).succeeded(QuarantineAcknowledgeReply)
    assert.deepEqual([done.state, done.acknowledged_by, done.note], ['acknowledged', null, null])
    const [event] = await incidentsOf(audit())
    const { storage } = await broker.get('/health', HealthReply)
    assert.match(storage.message!, /^1 quarantine incident is not acknowledged: /)
    assert.equal((await acknowledge(audit(), event!.incident_id)).status, 200)
  })
  it('of the last open one makes the health of the node ok again, and the metric goes on counting', async () => {
    const { status, storage } = await broker.get('/health', HealthReply)
    assert.deepEqual([status, storage], ['ok', { status: 'ok' }])
    assert.match((await broker.request('GET', '/metrics')).text, /^mq_log_quarantine_incidents 3$/m)
  })
  it('of an incident that is not one of the stream is 404 quarantine_not_found', async () => {
    const [incident] = await incidentsOf(sealed)
    assertRefused(await acknowledge(sealed, 'inc-000000000000'), 404, 'quarantine_not_found')
    assertRefused(await acknowledge(sealed, 'nothing'), 404, 'quarantine_not_found')
    assertRefused(await acknowledge(whole, incident!.incident_id), 404, 'quarantine_not_found')
  })
  it('is refused: invalid_request, missing_stream', async () => {
    for (const body of [{ acknowledged_by: 1 }, { note: 1 }, { by: 'me' }, '[]', '{']) {
      assertRefused(await acknowledge(sealed, 'inc-1', body), 400, 'invalid_request')
    }
    assertRefused(await acknowledge(sealed, ' '), 400, 'invalid_request')
    assertRefused(await acknowledge(broker.stream('nothing'), 'inc-1'), 404, 'missing_stream')
  })
})

describe('GET /streams/{stream}/quarantine', () => {
  it('is refused: missing_stream, invalid_query, invalid_request', async () => {
    assertRefused(await broker.request('GET', '/streams/nothing/quarantine'), 404, 'missing_stream')
    assertRefused(await broker.request('GET', `${whole.unversionedPath}/quarantine?x=1`), 400, 'invalid_query')
    assertRefused(await broker.request('GET', '/streams/%20/quarantine'), 400, 'invalid_request')
  })
  it('shows the same after a restart, acknowledged as before', async () => {
    const before = await Promise.all([sealed, active, audit()].map(incidentsOf))
    await broker.restart()
    assert.deepEqual(await Promise.all([sealed, active, audit()].map(incidentsOf)), before)
    assert.deepEqual(
      before.flat().map(({ state }) => state),
      ['acknowledged', 'acknowledged', 'acknowledged'],
    )
    const [incident] = before[0]!
    assertRefused(await acknowledge(sealed, incident!.incident_id), 409, 'write_not_allowed')
  })
})

describe('bytes that change while the node runs', () => {
  it('are found by who reads them next: the record is left out, and the incident is there', async () => {
    damage('sealed three')
    const { records } = await sealed.replay('start_offset=1&max_records=1')
    assert.deepEqual(textsOf(records), ['sealed four'])
    const { records: all, diagnostics } = await sealed.replay()
    assert.deepEqual([textsOf(all), diagnostics.quarantined_records], [['sealed one', 'sealed four', 'sealed five'], 2])
    const incidents = (await incidentsOf(sealed)).map(({ state, first_offset, last_offset }) => [
      state,
      first_offset,
      last_offset,
    ])
    assert.deepEqual(incidents, [
      ['acknowledged', 1, 1],
      ['open', 2, 2],
    ])
    assert.equal((await active.replay()).diagnostics.quarantined_records, 3)
  })
})
