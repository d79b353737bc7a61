/** Steps that create streams, publish records and read them. */
import assert from 'node:assert/strict'
import type { PublishedRecords, ReplayRequest } from '../../../src/broker/operations.ts'
import type { PublishInput } from '../../../src/broker/publish-input.ts'
import { refuse } from '../../../src/broker/refusals.ts'
import type { ReplayDiagnostics } from '../../../src/broker/wire/record-answers.ts'
import type { CreateStreamBody } from '../../../src/broker/wire/requests.ts'
import { decodeChange } from '../../../src/broker/frames/change.ts'
import { FrameReader, FrameWriter, PUBLISH } from '../../../src/broker/wire/connection-frames.ts'
import { CALLER, jsonOf } from '../../support/broker-world.ts'
import { pick } from '../../support/random-history.ts'
import { GROUPS, Steps } from './asking.ts'
import type { Expected } from './asking.ts'
import { AUDIT_STREAM, payloadBytesOf } from './reference-streams.ts'
import type { RefRecord, RefStream } from './reference-streams.ts'

export const CONFIGS: readonly CreateStreamBody[] = [
  {},
  { failure_policy: { max_attempts: 2, dead_letter_stream: 'dead' } },
  { failure_policy: { max_attempts: 2, retry_delay_millis: 50, dead_letter_stream: 'dead', apply_on_expiry: true } },
  { failure_policy: { max_attempts: 1 } },
  { failure_policy: { max_attempts: 2, apply_on_expiry: true } },
  { retention: { max_bytes: 300 } },
  { retention: { max_age_millis: 500, min_cursor_name: 'c1' } },
  { default_durability: 'memory', retention: { max_age_millis: 200 } },
  { default_durability: 'local-quorum', failure_policy: { max_attempts: 2, dead_letter_stream: 'nowhere' } },
]

interface ReplayPage {
  readonly records: RefRecord[]
  readonly next_offset: number
  readonly end_of_stream: boolean
  readonly diagnostics: ReplayDiagnostics
}

export class RecordSteps extends Steps {
  #payloads = 0

  createStream(name: string, body: CreateStreamBody, elsewhere = false): void {
    const caller = elsewhere ? { ...CALLER, tenant: 'acme' } : CALLER
    const isOwnTarget = body.failure_policy?.dead_letter_stream === name
    this.ask({
      name: `create ${name}`,
      failure: 'internal_error',
      run: () => this.world.broker.createStream(caller, name, body),
      expected: () => {
        if (this.reference.stream(caller.tenant, name) !== undefined) return { code: 'stream_already_exists' }
        return isOwnTarget ? { code: 'invalid_request' } : 'effect'
      },
      check: (reply, frames) => {
        assert.equal(reply.created, true)
        assert.equal(this.auditedBy(frames), 1)
      },
    })
  }

  publish(name: string, b: number, c: number): void {
    const stream = this.stream(name)
    const input = this.#input(b, c)
    const isVolatile = (input.durability ?? stream?.config.default_durability) === 'volatile'
    const isMemory = input.durability === null && stream?.config.default_durability === 'memory'
    const offset = stream?.nextOffset ?? 0
    this.ask({
      name: `publish ${name}`,
      failure: 'internal_error',
      run: () => this.world.broker.publish(CALLER, name, input),
      expected: () => this.#publishable(name, [input]),
      unconfirmed: isVolatile || isMemory,
      check: (reply, frames) => {
        assert.deepEqual([reply.offset, reply.next_offset, reply.message_id], [offset, offset + 1, input.messageId])
        if (frames.some(({ state }) => state === 'lost')) return // a volatile publish was lost
        this.#checkRecord(stream!, offset, input, reply.ingest_time_ms)
      },
    })
  }

  publishBatch(name: string, b: number, c: number): void {
    const stream = this.stream(name)
    const inputs = Array.from({ length: 1 + (b % 5) }, (_, i) => this.#input(b + i, c + i))
    const bad = refuse('invalid_payload', 'bad')
    const isMemory = stream?.config.default_durability === 'memory'
    const good = inputs.filter((input) => {
      const expected = this.#publishable(name, [input])
      return typeof expected === 'string' || expected.code !== 'replication_unavailable'
    })
    const waits = good.some(({ durability }) => durability !== 'volatile' && !(isMemory && durability === null))
    const first = stream?.nextOffset ?? 0
    this.ask({
      name: `publish batch ${name}`,
      failure: 'internal_error',
      run: () => this.world.broker.publishBatch(CALLER, name, [inputs[0]!, bad, ...inputs.slice(1)]),
      expected: () => (good.length === 0 ? 'either' : this.#publishable(name, good)),
      unconfirmed: !waits,
      check: (reply, frames) => {
        assert.equal(reply.published_count, good.length)
        let next = first
        const results = inputs.map((input) => (good.includes(input) ? next++ : 'replication_unavailable'))
        assert.deepEqual(
          reply.results.map(({ offset, error }) => error?.code ?? offset),
          [results[0], 'invalid_payload', ...results.slice(1)],
        )
        if (frames.some(({ state }) => state === 'lost')) return
        for (const [i, input] of good.entries()) this.#checkRecord(stream!, first + i, input, reply.ingest_time_ms)
      },
    })
  }

  /** Publishes encoded records, like the streaming connection. */
  publishRecords(name: string, b: number, c: number): void {
    const stream = this.stream(name)
    const inputs = Array.from({ length: 1 + (b % 4) }, (_, i) => this.#input(b + i, c + i))
    const durability = pick([null, null, 'volatile', 'local-append', 'local-sync'] as const, c)
    const isMemory = durability === null && stream?.config.default_durability === 'memory'
    const first = stream?.nextOffset ?? 0
    const count = inputs.length
    this.ask<PublishedRecords>({
      name: `publish records ${name}`,
      failure: 'internal_error',
      run: () =>
        new Promise((answered, refused) => {
          const records = { bytes: encoded(inputs), count, payloadBytes: 0, durability }
          this.world.operations.publishRecords({ answered, refused }, CALLER, name, records)
        }),
      expected: () =>
        this.#publishable(
          name,
          inputs.map((input) => ({ ...input, durability })),
        ),
      unconfirmed: durability === 'volatile' || isMemory,
      check: ({ offset, ingestTimeMs }, frames) => {
        assert.equal(offset, first)
        if (frames.some(({ state }) => state === 'lost')) return // a volatile publish was lost
        for (const [i, input] of inputs.entries()) this.#checkRecord(stream!, first + i, input, ingestTimeMs)
      },
    })
  }

  replay(name: string, b: number, c: number, observed: boolean): void {
    const stream = this.stream(name)
    const by = pick(['offset', 'offset', 'event_time', 'ingest_time'] as const, b)
    const times = [...(stream?.records.values() ?? [])].map((record) =>
      by === 'event_time' ? record.event_time_ms : record.ingest_time_ms,
    )
    const start: ReplayRequest['start'] =
      by === 'offset'
        ? { by, offset: c % ((stream?.nextOffset ?? 0) + 2) }
        : { by, timeMs: times.length > 0 ? pick(times, c) + (c % 3) - 1 : c }
    const maxRecords = 1 + (b % 6)
    const maxPayloadBytes = b % 3 === 0 ? 1 + (c % 120) : null
    const consumer = observed ? { group: pick(GROUPS, c), id: `reader-${c % 3}` } : null
    const request = { start, maxRecords, maxPayloadBytes, consumer, legacy: b % 2 === 0 }
    const visible = stream?.visibleNext ?? 0
    this.ask({
      name: `replay ${name}`,
      failure: 'internal_error',
      run: () => this.world.broker.replay(CALLER, name, request),
      expected: () => this.#eitherOf(name),
      unconfirmed: stream !== undefined,
      check: (reply) => {
        this.#checkTold(stream!, jsonOf<ReplayPage>(reply).diagnostics.first_offset)
        this.#checkPage(jsonOf<ReplayPage>(reply), stream!, request, visible)
      },
    })
  }

  /** The stream and the first offset that a page shows must be stored. */
  #checkTold({ number }: RefStream, firstOffset: number): void {
    for (const { payload, end } of this.trace.waiting) {
      const change = decodeChange(payload)
      if (end <= this.world.log.committed || change === null) continue
      if (change.kind === 'stream_created') assert.notEqual(change.stream_number, number)
      if (change.kind === 'retained' && change.stream_number === number) assert.ok(change.floor > firstOffset)
    }
  }

  #checkPage(page: ReplayPage, stream: RefStream, request: Omit<ReplayRequest, 'legacy'>, visible: number): void {
    const { start, maxRecords, maxPayloadBytes } = request
    const { records, next_offset: next, end_of_stream: isEnd, diagnostics } = page
    for (const record of records) assert.deepEqual(record, stream.records.get(record.offset))
    const first = records[0]?.offset
    if (first !== undefined) {
      assert.deepEqual(
        records.map(({ offset }) => offset),
        records.map((_, i) => first + i),
        'a page has no gaps',
      )
      assert.equal(next, first + records.length)
    }
    assert.ok(records.length <= maxRecords && diagnostics.returned_records === records.length)
    assert.ok(isEnd ? next >= visible : next < stream.visibleNext)
    const bytes = records.reduce((sum, record) => sum + payloadBytesOf(record), 0)
    assert.equal(diagnostics.returned_payload_bytes, bytes)
    const cap = maxPayloadBytes ?? Infinity
    if (records.length > 1) assert.ok(bytes <= cap)
    assert.equal(diagnostics.first_record_exceeds_cap, payloadBytesOf(records[0]) > cap)
    if (records.length < maxRecords && !isEnd) assert.ok(diagnostics.payload_cap_reached)
    if (first === undefined) return
    if (start.by === 'offset') assert.ok(first === start.offset || (first >= start.offset && first <= stream.floor))
    else {
      const column = start.by === 'event_time' ? 'event_time_ms' : 'ingest_time_ms'
      assert.ok(records[0]![column] >= start.timeMs || first <= stream.floor)
    }
  }

  audit(a: number, asLines: boolean): void {
    const audit = this.stream(AUDIT_STREAM)!
    const startOffset = a % (audit.nextOffset + 2)
    const maxRecords = 1 + (a % 5)
    const visible = audit.visibleNext
    const request = { startOffset, maxRecords, format: asLines ? 'ndjson' : 'json' } as const
    this.ask({
      name: 'audit',
      failure: 'internal_error',
      run: () => this.world.broker.audit(CALLER, request),
      expected: () => 'either',
      unconfirmed: true,
      check: (reply) => {
        const { events } = this.stream(AUDIT_STREAM)!
        const expected = [...events.values()].filter(({ offset }) => offset >= startOffset && offset < visible)
        const lines = Buffer.from(reply).toString().split('\n')
        const found: { offset: number }[] = asLines
          ? lines.filter((line) => line !== '').map((line) => JSON.parse(line) as { offset: number })
          : jsonOf<{ events: { offset: number }[] }>(reply).events
        assert.deepEqual(found, expected.slice(0, maxRecords))
      },
    })
  }

  describe(name: string, group: string, c: number): void {
    const { broker } = this.world
    const stream = this.stream(name)
    const expected = (): Expected => this.#eitherOf(name)
    const failure = 'internal_error'
    const path = { stream: name, group }
    const next = stream?.nextOffset
    const floor = stream?.floor
    const questions = [
      () =>
        this.ask({
          name: `describe ${name}`,
          failure,
          run: () => broker.describeStream(CALLER, name),
          expected,
          check: (reply) => assert.deepEqual([reply.next_offset, reply.first_offset], [next, floor]),
        }),
      () =>
        this.ask({
          name: `describe group ${name}`,
          failure,
          run: () => broker.describeGroup(CALLER, path),
          expected,
          check: (reply) => assert.equal(reply.highest_next_offset, next),
        }),
      () =>
        this.ask({
          name: `leases ${name}`,
          failure,
          run: () => broker.leases(CALLER, path, true),
          expected,
        }),
      () =>
        this.ask({
          name: `cursors ${name}`,
          failure,
          run: () => broker.cursors(CALLER, path),
          expected,
        }),
    ]
    pick(questions, c)()
  }

  #eitherOf(name: string): Expected {
    return this.stream(name) ? 'either' : { code: 'stream_not_found' }
  }

  #publishable(name: string, inputs: readonly PublishInput[]): Expected {
    if (name === AUDIT_STREAM) return { code: 'write_not_allowed' }
    const stream = this.stream(name)
    if (stream === undefined) return { code: 'stream_not_found' }
    const byDefault = inputs.some(({ durability }) => durability === null)
    if (byDefault && stream.config.default_durability === 'local-quorum') return { code: 'replication_unavailable' }
    return 'effect'
  }

  #input(b: number, c: number): PublishInput {
    this.#payloads += 1
    const text = `${this.#payloads}:${'x'.repeat(pick([0, 20, 80, 600], b))}`
    return {
      messageId: c % 5 === 0 ? 'the same again' : `m-${this.#payloads}`,
      payload: { text, encoding: 'utf8' },
      key: c % 2 === 0 ? { text: '6b6579', encoding: 'hex' } : null,
      eventTimeMs: c % 3 === 0 ? 1000 + c : null,
      headers: c % 4 === 0 ? { trace: `t-${c}` } : {},
      durability: pick([null, null, 'volatile', 'local-append', 'local-sync'] as const, c),
    }
  }

  #checkRecord(stream: RefStream, offset: number, input: PublishInput, ingestTimeMs: number): void {
    assert.deepEqual(stream.records.get(offset), {
      offset,
      message_id: input.messageId,
      payload_hex: contentBytes(input.payload).toString('hex'),
      key_hex: input.key && contentBytes(input.key).toString('hex'),
      headers: input.headers,
      event_time_ms: input.eventTimeMs ?? ingestTimeMs,
      ingest_time_ms: ingestTimeMs,
    })
  }
}

/** The records as in the body of a PUBLISH frame. */
function encoded(inputs: readonly PublishInput[]): Buffer {
  const writer = new FrameWriter()
  writer.begin(PUBLISH, 0, 0, 'any')
  for (const { messageId, payload, key, headers, eventTimeMs } of inputs) {
    writer.record({ messageId, payload: contentBytes(payload), key: key && contentBytes(key), headers, eventTimeMs })
  }
  writer.end(inputs.length)
  const bytes = Buffer.from(writer.written)
  const frame = new FrameReader(bytes)
  frame.next()
  return bytes.subarray(frame.bodyAt, frame.end)
}

const contentBytes = (content: PublishInput['payload']): Buffer =>
  content instanceof Uint8Array ? Buffer.from(content) : Buffer.from(content.text, content.encoding)
