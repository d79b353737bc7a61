import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  FRAME_CHANGE,
  FRAME_DEAD_LETTER,
  deadLetterBytes,
  encodeDeadLetter,
  encodeRecord,
  recordBytes,
} from '../../../src/broker/frames.ts'
import type { Place } from '../../../src/broker/state/state.ts'
import { encodeChange } from '../../../src/broker/frames/change.ts'
import type { Change } from '../../../src/broker/frames/change.ts'
import { Places } from '../../../src/broker/records/places.ts'
import {
  PAGE_BEGIN,
  PAGE_CONSIDERED,
  PAGE_END,
  PAGE_RETURNED,
  READ_DELIVERIES,
  READ_EVENTS,
  READ_TIMES,
} from '../../../src/broker/records/read-protocol.ts'
import { INGEST_TIME_MS, StoredStream, encoded, plainRecord, shownRecord } from './support.ts'
import { taskOf, placesOf, textOf, delivered, read, shown } from './reading.ts'
import type { Ask } from './reading.ts'

describe('audited frames', () => {
  const created = (name: string, auditOffset: number | null): Change => ({
    kind: 'stream_created',
    at_ms: 100,
    tenant: 'acme',
    principal: 'ci',
    audit_offset: auditOffset,
    stream_number: 1,
    stream: name,
    default_durability: 'local-disk',
    retention: { max_age_millis: null, max_bytes: null, min_cursor_name: null },
    failure_policy: null,
  })
  const about = { at_ms: 300, tenant: 'acme', principal: 'ops' }
  const changes: Change[] = [
    created('orders "1"', 0),
    {
      ...about,
      kind: 'cursor_rewound',
      audit_offset: 1,
      stream: 'orders',
      group: 'g',
      group_number: 0,
      cursor: 'c',
      offset: 1,
      previous_offset: 9,
      reason: 'replay',
    },
    {
      ...about,
      kind: 'quarantine_acknowledged',
      audit_offset: 2,
      stream: 'orders',
      stream_number: 1,
      incident_id: 'q-1',
      acknowledged_by: 'ann',
      note: null,
    },
    {
      ...about,
      kind: 'delivery_stopped',
      audit_offset: 3,
      stream: 'orders',
      group: 'g',
      group_number: 0,
      offset: 5,
      attempt: 3,
      reason: 'bad',
    },
    {
      ...about,
      kind: 'audit',
      audit_offset: 4,
      event_kind: 'replication_control',
      event_id: 'evt-000000000abc',
      stream: null,
      detail: { paused: true },
    },
  ]

  /** The changes above and a dead letter are the first six events of an audit stream. The dead letter is also record 0 of stream 1. */
  async function audited(): Promise<{ stream: StoredStream; places: Places; events: object[] }> {
    const stream = await StoredStream.open()
    const places = new Places(6)
    const ids: string[] = []
    const store = (type: number, payload: Buffer): Place => {
      const at = stream.store(type, payload)
      places.add(places.count, at.segmentBase, at.place)
      ids.push(`evt-${(at.segmentBase + at.place).toString(16).padStart(12, '0')}`)
      return at
    }
    for (const change of changes) store(FRAME_CHANGE, encodeChange(change))
    const original = plainRecord(7)
    const bytes = encoded(recordBytes(original), (into, at) => encodeRecord(into, at, original))
    const deadLetter = {
      cause: 'policy' as const,
      groupNumber: 0,
      offset: 7,
      attempt: 3,
      targetNumber: 1,
      targetOffset: 0,
      auditOffset: 5,
      atMs: 400,
      ingestTimeMs: INGEST_TIME_MS,
      tenant: 'acme',
      principal: 'worker',
      sourceStream: 'orders',
      consumerGroup: 'g',
      targetStream: 'dead',
      reason: 'broken',
      record: { bytes },
    }
    const payload = encoded(deadLetterBytes(deadLetter), (into, at) => encodeDeadLetter(into, at, deadLetter))
    const place = store(FRAME_DEAD_LETTER, payload)
    stream.index.append(
      place,
      0,
      1,
      INGEST_TIME_MS,
      () => original.eventTimeMs,
      () => 8,
    )
    const event = (offset: number, kind: string, stream: string | null, detail: object): object => ({
      event_id: ids[offset],
      kind,
      at_ms: offset === 0 ? 100 : offset === 5 ? INGEST_TIME_MS : 300,
      tenant: 'acme',
      principal: offset === 0 ? 'ci' : offset === 5 ? 'worker' : 'ops',
      stream,
      detail,
      offset,
    })
    const events = [
      event(0, 'stream_created', 'orders "1"', {
        default_durability: 'local-disk',
        retention: { max_age_millis: null, max_bytes: null, min_cursor_name: null },
        failure_policy: null,
      }),
      event(1, 'cursor_rewound', 'orders', {
        consumer_group: 'g',
        cursor: 'c',
        offset: 1,
        previous_offset: 9,
        reason: 'replay',
      }),
      event(2, 'quarantine_acknowledged', 'orders', { incident_id: 'q-1', acknowledged_by: 'ann', note: null }),
      event(3, 'delivery_stopped', 'orders', { consumer_group: 'g', offset: 5, attempt: 3, reason: 'bad' }),
      { ...event(4, 'replication_control', null, { paused: true }), event_id: 'evt-000000000abc' },
      event(5, 'delivery_dead_lettered', 'orders', {
        consumer_group: 'g',
        offset: 7,
        attempt: 3,
        cause: 'policy',
        reason: 'broken',
        dead_letter_stream: 'dead',
        dead_letter_offset: 0,
      }),
    ]
    return { stream, places, events }
  }

  it('are events, as a page and as lines', async () => {
    const { stream, places, events } = await audited()
    const asks = [0, 1].map((argument) => ({ kind: READ_EVENTS, audited: true, argument, places }) satisfies Ask)
    const result = stream.reader.run(taskOf(stream, asks))
    const [page, lines] = [result.numbers.subarray(0, 7), result.numbers.subarray(7)]
    assert.deepEqual(JSON.parse(`[${textOf(result, page[PAGE_BEGIN]!, page[PAGE_END]!)}]`), events)
    const text = textOf(result, lines[PAGE_BEGIN]!, lines[PAGE_END]!)
    assert.ok(text.endsWith('}\n'))
    assert.deepEqual(
      text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown),
      events,
    )
    assert.deepEqual([page[PAGE_RETURNED], page[PAGE_CONSIDERED], result.unreadable], [6, 6, []])
  })

  it('are records of the audit stream: the event is the payload', async () => {
    const { stream, places, events } = await audited()
    const result = stream.reader.run(
      taskOf(stream, [
        { kind: READ_DELIVERIES, audited: true, places },
        { kind: READ_TIMES, audited: true, places },
      ]),
    )
    const records = delivered(result, 6) as { payload_hex: string; message_id: string; event_time_ms: number }[]
    assert.deepEqual(
      records.map(({ payload_hex }) => JSON.parse(Buffer.from(payload_hex, 'hex').toString()) as unknown),
      events,
    )
    const { payload_hex, ...rest } = records[5]!
    assert.deepEqual(rest, {
      offset: 5,
      message_id: (events[5] as { event_id: string }).event_id,
      key_hex: null,
      headers: {},
      event_time_ms: INGEST_TIME_MS,
      ingest_time_ms: INGEST_TIME_MS,
    })
    const times = result.numbers.subarray(7)
    assert.deepEqual([times[5], times[11], times[17]], [INGEST_TIME_MS, INGEST_TIME_MS, payload_hex.length / 2])
  })

  it('that are dead letters are records of their target stream as well', async () => {
    const { stream } = await audited()
    assert.deepEqual(read(stream, [0]), [
      {
        ...shownRecord(plainRecord(7), 0, INGEST_TIME_MS),
        headers: {
          'x-dead-letter-source-stream': 'orders',
          'x-dead-letter-source-offset': '7',
          'x-dead-letter-reason': 'broken',
          'x-dead-letter-origin-stream': 'orders',
          'x-dead-letter-origin-offset': '7',
          'x-dead-letter-count': '1',
        },
      },
    ])
  })

  it('do not disturb records that are read between them, however many', async () => {
    const stream = await StoredStream.open(1 << 25)
    stream.publish([plainRecord(0), plainRecord(1)])
    const places = new Places(150)
    const detail = { text: 'x'.repeat(40_000) }
    for (let offset = 0; offset < 150; offset++) {
      const change = { ...changes[4]!, audit_offset: offset, detail } as Change
      const { segmentBase, place } = stream.store(FRAME_CHANGE, encodeChange(change))
      places.add(offset, segmentBase, place)
    }
    const deliveries = [0, 1].map((offset) => ({ kind: READ_DELIVERIES, places: placesOf(stream, [offset]) }) as const)
    const events = { kind: READ_EVENTS, audited: true, places } as const
    const result = stream.reader.run(taskOf(stream, [deliveries[0]!, events, deliveries[1]!]))
    assert.deepEqual(result.unreadable, [])
    assert.deepEqual(
      JSON.parse(textOf(result, ...(result.numbers.slice(-2) as unknown as [number, number]))),
      shown([plainRecord(0), plainRecord(1)])[1],
    )
  })

  it('without an event are none', async () => {
    const stream = await StoredStream.open()
    const place = stream.store(FRAME_CHANGE, encodeChange(created('system.audit', null)))
    const places = new Places(1)
    places.add(0, place.segmentBase, place.place)
    const { unreadable } = stream.reader.run(taskOf(stream, [{ kind: READ_EVENTS, audited: true, places }]))
    assert.equal(unreadable.length, 1)
  })
})
