/** Specification "Record publish body", contract "Broker": publishing one by one and, as an extension, in batches. */
import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { PublishBatchReply, PublishReply } from '../../../../src/broker/wire/record-answers.ts'
import type { PublishBody } from '../../../../src/broker/wire/requests.ts'
import { assertRefused } from '../../../support/broker.ts'
import type { ReplayedRecord, Stream } from '../../../support/broker.ts'
import type { RequestBody } from '../../../support/http.ts'
import { eventually } from '../../../support/waiting.ts'
import { MAX_BODY_BYTES, broker } from './shared-node.ts'

let stream: Stream
before(async () => {
  stream = await broker.newStream()
})

const hexOf = (text: string): string => Buffer.from(text).toString('hex')

/** Publishes a record with these fields; returns it as stored. */
async function stored(fields: object): Promise<ReplayedRecord> {
  const reply = await stream.post('/records', { message_id: 'm', payload: 'p', ...fields })
  const { offset } = reply.succeeded(PublishReply, 201)
  const { records } = await stream.replay(`start_offset=${offset}&max_records=1`)
  assert.equal(records[0]?.offset, offset)
  return records[0]
}

/** Asserts that the record is refused, and takes no offset. */
async function assertFieldsRefused(
  fields: object,
  code: 'invalid_request' | 'invalid_payload',
  message?: RegExp,
): Promise<void> {
  await assertBodyRefused({ message_id: 'm', payload: 'p', ...fields }, code, message)
}
async function assertBodyRefused(
  body: RequestBody,
  code: 'invalid_request' | 'invalid_payload' = 'invalid_request',
  message?: RegExp,
): Promise<void> {
  const { next_offset } = await stream.describe()
  assertRefused(await stream.post('/records', body), 400, code, message)
  assert.equal((await stream.describe()).next_offset, next_offset)
}

describe('record publish body', () => {
  it('message_id: required, not blank, without control characters', async () => {
    for (const id of ['m', ' a ', 'größe 😀', '"\\', 'x'.repeat(65_535)]) {
      assert.equal((await stored({ message_id: id })).message_id, id)
    }
    await assertBodyRefused({ payload: 'p' }, 'invalid_request', /^message_id is missing$/)
    await assertFieldsRefused({ message_id: null }, 'invalid_request', /^message_id is missing$/)
    for (const id of ['', ' ', '\u2003', 'a\n', '\u0000', 'a\u007f', 'x'.repeat(65_536), 1, {}]) {
      await assertFieldsRefused({ message_id: id }, 'invalid_request', /^message_id must not be blank/)
    }
    await assertBodyRefused('{"message_id":"\\ud800","payload":"p"}')
  })
  it('message_id: duplicates are not suppressed, each has its own offset', async () => {
    const offsets = [await stream.publish(), await stream.publish(), await stream.publish()].map(({ offset }) => offset)
    assert.deepEqual(offsets, [offsets[0], offsets[0]! + 1, offsets[0]! + 2])
  })
  it('payload: UTF-8 text, shown as lower-case hex', async () => {
    for (const payload of ['p', 'größe 😀', '\u0000\n', '"\\', '']) {
      assert.equal((await stored({ payload })).payload_hex, hexOf(payload))
    }
  })
  it('payload_hex: an even count of hex digits', async () => {
    for (const payload_hex of ['00', 'fFfE0a', '']) {
      const record = await stored({ payload: undefined, payload_hex })
      assert.equal(record.payload_hex, payload_hex.toLowerCase())
    }
  })
  it('payload or payload_hex: payload_hex wins when both are given, null is not given', async () => {
    assert.equal((await stored({ payload: 'text', payload_hex: '00' })).payload_hex, '00')
    assert.equal((await stored({ payload: 'text', payload_hex: '' })).payload_hex, '')
    assert.equal((await stored({ payload: 'text', payload_hex: null })).payload_hex, hexOf('text'))
    assert.equal((await stored({ payload: null, payload_hex: '00' })).payload_hex, '00')
  })
  it('payload or payload_hex: at least one, else invalid_payload; so is what is no text and no hex', async () => {
    await assertBodyRefused({ message_id: 'm' }, 'invalid_payload', /^payload or payload_hex is missing$/)
    await assertFieldsRefused({ payload: null }, 'invalid_payload', /^payload or payload_hex is missing$/)
    await assertFieldsRefused({ payload: null, payload_hex: null }, 'invalid_payload')
    for (const payload of [1, true, {}, ['p']])
      await assertFieldsRefused({ payload }, 'invalid_payload', /^payload must be/)
    for (const payload_hex of ['0', 'zz', ' 00', '0x00', '00 00', 1, {}]) {
      await assertFieldsRefused({ payload_hex }, 'invalid_payload', /^payload_hex must be/)
    }
    await assertBodyRefused('{"message_id":"m","payload":"\\ud800"}', 'invalid_payload')
  })
  it('an empty payload is valid, and counts 0 bytes', async () => {
    assert.equal((await stream.publish('')).payload_bytes, 0)
    assert.equal((await stream.publish({ payload: null, payload_hex: '' })).payload_bytes, 0)
  })
  it('key or key_hex: no key by default, the rules of the payload, key_hex wins', async () => {
    for (const [fields, shown] of [
      [{}, null],
      [{ key: null, key_hex: null }, null],
      [{ key: 'größe' }, hexOf('größe')],
      [{ key: '' }, ''],
      [{ key_hex: 'fF' }, 'ff'],
      [{ key: 'text', key_hex: '00' }, '00'],
      [{ key: 'text', key_hex: null }, hexOf('text')],
    ] as const) {
      assert.equal((await stored(fields)).key_hex, shown, JSON.stringify(fields))
    }
    for (const fields of [{ key: 1 }, { key_hex: '0' }, { key_hex: 'zz' }, { key: 'a', key_hex: 5 }]) {
      await assertFieldsRefused(fields, 'invalid_payload', /^key/)
    }
  })
  it('event_time_ms: an unsigned integer, the time of the broker by default', async () => {
    for (const time of [0, 1, Number.MAX_SAFE_INTEGER]) {
      assert.equal((await stored({ event_time_ms: time })).event_time_ms, time)
    }
    for (const fields of [{}, { event_time_ms: null }]) {
      const { event_time_ms, ingest_time_ms } = await stored(fields)
      assert.equal(event_time_ms, ingest_time_ms)
      assert(Math.abs(ingest_time_ms - Date.now()) < 60_000)
    }
    for (const time of [-1, 0.5, '1', 2 ** 53, true, {}]) {
      await assertFieldsRefused({ event_time_ms: time }, 'invalid_request', /^event_time_ms must be/)
    }
  })
  it('headers: an object of strings, empty by default', async () => {
    for (const headers of [{}, { a: 'b', 'größe ': '', c: '\u0000\n😀' }, { constructor: 'x', toString: 'y' }]) {
      assert.deepEqual((await stored({ headers })).headers, headers)
    }
    for (const fields of [{}, { headers: null }]) assert.deepEqual((await stored(fields)).headers, {})
    const reply = await stream.post('/records', '{"message_id":"m","payload":"","headers":{"__proto__":"x"}}')
    const { offset } = reply.succeeded(PublishReply, 201)
    const { text } = await broker.request('GET', `${stream.path}/records?start_offset=${offset}`)
    assert(text.includes('"headers":{"__proto__":"x"}'), text)
  })
  it('headers: refused when a value is no string or a name is blank or has control characters', async () => {
    for (const headers of [{ a: 1 }, { a: null }, { a: {} }, { '': 'a' }, { ' ': 'a' }, { 'a\n': 'b' }, [], 'a', 1]) {
      await assertFieldsRefused({ headers }, 'invalid_request', /header/)
    }
  })
  it('durability_mode: volatile, local-append and local-sync, as the stream says by default', async () => {
    const acknowledged = {
      volatile: { durability: 'volatile', durable: false, replicas: 0 },
      'local-append': { durability: 'local-append', durable: false, replicas: 1 },
      'local-sync': { durability: 'local-sync', durable: true, replicas: 1 },
    } as const
    const memory = await broker.newStream({ default_durability: 'memory' })
    for (const durability_mode of ['volatile', 'local-append', 'local-sync'] as const) {
      for (const each of [stream, memory]) {
        assert.deepEqual((await each.publish({ durability_mode })).acknowledgement, acknowledged[durability_mode])
      }
    }
    for (const fields of [{}, { durability_mode: null }]) {
      assert.deepEqual((await stream.publish(fields)).acknowledgement, acknowledged['local-sync'])
      assert.deepEqual((await memory.publish(fields)).acknowledgement, acknowledged.volatile)
    }
    for (const durability_mode of ['', 'memory', 'local-disk', 'local-quorum', 'LOCAL-SYNC', 1, {}]) {
      await assertFieldsRefused({ durability_mode }, 'invalid_request', /^durability_mode must be/)
    }
  })
  it('what is volatile can be read and claimed like any other record', async () => {
    const memory = await broker.newStream({ default_durability: 'memory' })
    await memory.publish('soon')
    assert.deepEqual(
      (await memory.replay()).records.map(({ payload_hex }) => payload_hex),
      [hexOf('soon')],
    )
    assert.equal((await memory.group().claimOne()).fields.record.payload_hex, hexOf('soon'))
  })
  it('what is no such object is invalid_request: unknown fields, other JSON, malformed JSON, not UTF-8', async () => {
    await assertFieldsRefused(
      { Payload: 'p' },
      'invalid_request',
      /^the record has an unknown field; known are message_id, /,
    )
    for (const body of ['', 'null', '[]', '1', '"a"', '{', '{}x', '{"message_id":"m","payload":"p",}']) {
      await assertBodyRefused(body)
    }
    await assertBodyRefused(Buffer.from('{"message_id":"m","payload":"\xff"}', 'latin1'))
    await assertBodyRefused(Buffer.from('\ufeff{"message_id":"m","payload":"p"}'))
    await assertBodyRefused(Buffer.from('{"message_id":"m","payload":"p"}', 'utf16le'))
  })
})

describe('POST /v1/streams/{stream}/records', () => {
  it('answers api_version, stream, offset, next_offset, message_id, ingest_time_ms, payload_bytes and acknowledgement', async () => {
    const orders = await broker.newStream()
    for (const offset of [0, 1]) {
      const { ingest_time_ms, ...reply } = await orders.publish({ message_id: 'größe "1"', payload: 'größe' })
      assert.deepEqual(reply, {
        api_version: 'v1',
        stream: orders.name,
        offset,
        next_offset: offset + 1,
        message_id: 'größe "1"',
        payload_bytes: 7,
        acknowledgement: { durability: 'local-sync', durable: true, replicas: 1 },
      })
      assert(Math.abs(ingest_time_ms - Date.now()) < 60_000)
    }
  })
  it('gives offsets without gaps, in any company', async () => {
    const orders = await broker.newStream()
    const replies = await Promise.all(Array.from({ length: 50 }, (_, i) => orders.publish(`payload ${i}`)))
    const offsets = replies.map(({ offset }) => offset)
    assert.deepEqual(
      offsets.toSorted((a, b) => a - b),
      Array.from({ length: 50 }, (_, i) => i),
    )
    const { records } = await orders.replay()
    for (const [i, offset] of offsets.entries()) assert.equal(records[offset]!.payload_hex, hexOf(`payload ${i}`))
  })
  it('is 404 stream_not_found for a stream that is not there, and takes no query', async () => {
    const record = { message_id: 'm', payload: 'p' }
    assertRefused(await broker.stream('nothing').post('/records', record), 404, 'stream_not_found')
    assertRefused(await stream.post('/records?x=1', record), 400, 'invalid_request')
  })
  it('is 503 replication_unavailable where the stream asks for replicas that are not there; other modes are taken', async () => {
    for (const default_durability of ['local-quorum', 'replication-policy:dr']) {
      const replicated = await broker.newStream({ default_durability })
      const reply = await replicated.post('/records', { message_id: 'm', payload: 'p' })
      assertRefused(reply, 503, 'replication_unavailable')
      assert(reply.refusal().retryable && reply.headers.has('retry-after'))
      assert.equal((await replicated.describe()).next_offset, 0)
      assert.equal((await replicated.publish({ durability_mode: 'local-sync' })).offset, 0)
    }
  })
  it('is 413 payload_too_large over --max-body-bytes, declared or not', async () => {
    const wrapping = JSON.stringify({ message_id: 'm', payload: '' }).length
    const largest = { message_id: 'm', payload: 'x'.repeat(MAX_BODY_BYTES - wrapping) }
    assert.equal((await stream.publish(largest)).payload_bytes, MAX_BODY_BYTES - wrapping)
    const tooLarge = JSON.stringify({ ...largest, payload: `${largest.payload}x` })
    assertRefused(await stream.post('/records', tooLarge), 413, 'payload_too_large')
    const connection = await broker.connect()
    connection.write(`POST ${stream.path}/records HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n`)
    connection.write(`${tooLarge.length.toString(16)}\r\n${tooLarge}\r\n0\r\n\r\n`)
    assertRefused(await connection.reply(), 413, 'payload_too_large')
    connection.close()
  })
  it('with trailers is refused and not stored, or stored and answered', async () => {
    const body = JSON.stringify({ message_id: 'trailers', payload: 'p' })
    const head = `POST ${stream.path}/records HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n`
    const chunks = `\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n`
    const storedAs = async (request: string): Promise<readonly [status: number, stored: boolean]> => {
      const before = (await stream.describe()).next_offset
      const connection = await broker.connect()
      connection.write(request)
      const { status } = await connection.reply()
      connection.close()
      return [status, (await stream.describe()).next_offset > before]
    }
    assert.deepEqual(await storedAs(`${head}trailer: x-sum\r\n${chunks.slice(0, -3)}`), [400, false])
    assert.deepEqual(await storedAs(`${head}${chunks}x-sum: 1\r\n\r\n`), [505, false])
    assert.deepEqual(await storedAs(`${head}${chunks}\r\n`), [201, true])
  })
  it('to the reserved stream is 409 write_not_allowed', async () => {
    const audit = broker.stream('system.audit')
    assertRefused(await audit.post('/records', { message_id: 'm', payload: 'p' }), 409, 'write_not_allowed')
    assertRefused(await audit.put(''), 409, 'stream_already_exists')
  })
  it('reads JSON whatever the media type says, in UTF-8 and without a content encoding', async () => {
    const record = JSON.stringify({ message_id: 'm', payload: 'p' })
    const path = `${stream.path}/records`
    for (const type of ['application/x-www-form-urlencoded', 'application/json; charset=utf-8', 'text/plain']) {
      assert.equal((await broker.request('POST', path, record, { 'content-type': type })).status, 201)
    }
    const latin1 = { 'content-type': 'application/json; charset=latin1' }
    assertRefused(await broker.request('POST', path, record, latin1), 400, 'invalid_request')
    assertRefused(await broker.request('POST', path, record, { 'content-encoding': 'gzip' }), 400, 'invalid_request')
  })
})

describe('POST /v1/streams/{stream}/records/batch (extension)', () => {
  const publish = async (records: readonly unknown[], to = stream): Promise<PublishBatchReply> =>
    (await to.post('/records/batch', { records })).succeeded(PublishBatchReply)

  it('publishes all good records with one answer, each bad one has its refusal in its place', async () => {
    const orders = await broker.newStream()
    const good: PublishBody = { message_id: 'm', payload: 'p', headers: { a: 'b' } }
    const bad = [{ ...good, message_id: '' }, { message_id: 'm' }, null, 'text', { ...good, extra: 1 }]
    const { ingest_time_ms, ...reply } = await publish([good, ...bad, { ...good, message_id: 'last' }], orders)
    assert(ingest_time_ms > 0)
    const { results, ...rest } = reply
    assert.deepEqual(rest, {
      api_version: 'v1',
      stream: orders.name,
      next_offset: 2,
      published_count: 2,
      acknowledgement: { durability: 'local-sync', durable: true, replicas: 1 },
    })
    assert.deepEqual(results[0], { offset: 0, message_id: 'm' })
    assert.deepEqual(results.at(-1), { offset: 1, message_id: 'last' })
    const codes = results.slice(1, -1).map((result) => result.error?.code)
    assert.deepEqual(codes, [
      'invalid_request',
      'invalid_payload',
      'invalid_request',
      'invalid_request',
      'invalid_request',
    ])
    assert.deepEqual(
      (await orders.replay()).records.map(({ message_id, headers }) => [message_id, headers]),
      [
        ['m', { a: 'b' }],
        ['last', { a: 'b' }],
      ],
    )
  })
  it('of nothing but bad records publishes none', async () => {
    const orders = await broker.newStream()
    const { published_count, next_offset } = await publish([{}, {}], orders)
    assert.deepEqual([published_count, next_offset, (await orders.describe()).next_offset], [0, 0, 0])
  })
  it('is acknowledged as its strongest record asks', async () => {
    const record = (durability_mode: string) => ({ message_id: 'm', payload: 'p', durability_mode })
    const all = ['volatile', 'local-append', 'local-sync']
    for (const modes of [all.slice(0, 1), all.slice(0, 2), all, all.toReversed()]) {
      const strongest = all.findLast((mode) => modes.includes(mode))
      assert.equal((await publish(modes.map(record))).acknowledgement.durability, strongest)
    }
  })
  it('takes 1 to 1000 records', async () => {
    const orders = await broker.newStream()
    assert.equal((await orders.fill(1000)).next_offset, 1000)
    const record = { message_id: 'm', payload: '' }
    for (const records of [[], Array.from({ length: 1001 }, () => record), null, {}, 'a']) {
      assertRefused(await orders.post('/records/batch', { records }), 400, 'invalid_request', /^records/)
    }
    assertRefused(await orders.post('/records/batch', { records: [record], more: 1 }), 400, 'invalid_request')
    assert.equal((await orders.describe()).next_offset, 1000)
  })
  it('refuses as publishing one does: stream_not_found, write_not_allowed, payload_too_large', async () => {
    const body = { records: [{ message_id: 'm', payload: 'p' }] }
    assertRefused(await broker.stream('nothing').post('/records/batch', body), 404, 'stream_not_found')
    assertRefused(await broker.stream('system.audit').post('/records/batch', body), 409, 'write_not_allowed')
    const large = { records: [{ message_id: 'm', payload: 'x'.repeat(MAX_BODY_BYTES) }] }
    assertRefused(await stream.post('/records/batch', large), 413, 'payload_too_large')
  })
  it('has replication_unavailable for the records that need replicas that are not there, and takes the others', async () => {
    const replicated = await broker.newStream({ default_durability: 'local-quorum' })
    const records = [undefined, 'local-sync', undefined].map((durability_mode, i) => ({
      message_id: `m-${i}`,
      payload: 'p',
      durability_mode,
    }))
    const reply = (await replicated.post('/records/batch', { records })).succeeded(PublishBatchReply)
    assert.deepEqual([reply.published_count, reply.next_offset], [1, 1])
    assert.deepEqual(
      reply.results.map(({ error, offset }) => error?.code ?? offset),
      ['replication_unavailable', 0, 'replication_unavailable'],
    )
  })
  it('becomes visible as a whole', async () => {
    const orders = await broker.newStream()
    let done = false
    const writing = orders.fill(1000).then(() => (done = true))
    const seen = new Set<number>()
    await eventually(async () => {
      seen.add((await orders.replay('max_records=1000')).records.length)
      return done
    })
    await writing
    for (const count of seen) assert(count === 0 || count === 1000, String(count))
  })
})
