/** Specification "Stream creation body" and "Streams and records": creating, listing and describing streams. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { CreateStreamReply, StreamListReply } from '../../../../src/broker/wire/record-answers.ts'
import { assertRefused } from '../../../support/broker.ts'
import type { RequestBody } from '../../../support/http.ts'
import { broker } from './shared-node.ts'

const SYNCED = { durability: 'local-sync', durable: true, replicas: 1 }
const DEFAULTS = {
  default_durability: 'local-disk',
  retention: { max_age_millis: null, max_bytes: null, min_cursor_name: null },
  failure_policy: null,
}
const CONTROL = '\u0007'
const NOT_UNSIGNED = [-1, 1.5, '1', true, 2 ** 53, [], {}]

/** What the stream shows after it was created with this body. */
async function created(body: RequestBody): Promise<object> {
  const stream = broker.stream(`created ${JSON.stringify(body)}`.slice(0, 200).replaceAll('/', ''))
  ;(await stream.put('', body)).succeeded(CreateStreamReply, 201)
  const { default_durability, retention, failure_policy } = await stream.describe()
  return { default_durability, retention, failure_policy }
}

/** Asserts that the creation is refused and leaves nothing behind. */
async function assertCreationRefused(body: RequestBody, message?: RegExp): Promise<void> {
  const stream = broker.stream('refused')
  assertRefused(await stream.put('', body), 400, 'invalid_request', message)
  assertRefused(await broker.request('GET', stream.path), 404, 'stream_not_found')
}

describe('stream creation body', () => {
  it('stream (path): any name without slash, control characters and white space around it', async () => {
    for (const name of ['a', 'größe 😀', "a.b_c-d~!$&'()*,;=:@+%", 'x'.repeat(256), 'é'.repeat(128)]) {
      const stream = broker.stream(name)
      const reply = (await stream.put('')).succeeded(CreateStreamReply, 201)
      assert.deepEqual(reply, { api_version: 'v1', stream: name, created: true, acknowledgement: SYNCED })
      assert.equal((await stream.describe()).stream, name)
    }
  })
  it('stream (path): refused when it is blank, has slashes, control characters, outer white space or over 256 bytes', async () => {
    const bad = [' ', 'a/b', '/', 'a\tb', '\u0000', 'a\u007f', 'a\u0085', ' a', 'a ', '\u2003a', 'x'.repeat(257)]
    for (const name of [...bad, 'é'.repeat(129)]) {
      assertRefused(await broker.stream(name).put(''), 400, 'invalid_request', /^the stream must not be blank/)
    }
    for (const raw of ['%ff', '%C3', '%ED%A0%80', '%zz']) {
      assertRefused(await broker.request('PUT', `/v1/streams/${raw}`), 400, 'invalid_request')
    }
  })
  it('default_durability: each of the four, local-disk when it is null or left out', async () => {
    for (const durability of [
      'memory',
      'local-disk',
      'local-quorum',
      'replication-policy:dr',
      'replication-policy:a b/c',
    ]) {
      assert.deepEqual(await created({ default_durability: durability }), {
        ...DEFAULTS,
        default_durability: durability,
      })
    }
    assert.deepEqual(await created({ default_durability: null }), DEFAULTS)
  })
  it('default_durability: refused when it is none of them, or the name of its policy is blank, has a backslash or control characters', async () => {
    const names = ['', ' ', '\\', `a${CONTROL}`, 'a\u0085'].map((name) => `replication-policy:${name}`)
    for (const durability of [
      '',
      'disk',
      'LOCAL-DISK',
      'local-sync',
      'volatile',
      'replication-policy',
      1,
      {},
      ...names,
    ]) {
      await assertCreationRefused({ default_durability: durability }, /^default_durability must be /)
    }
  })
  it('retention: null or empty means the defaults', async () => {
    assert.deepEqual(await created({ retention: null }), DEFAULTS)
    assert.deepEqual(await created({ retention: {} }), DEFAULTS)
    assert.deepEqual(
      await created({ retention: { max_age_millis: null, max_bytes: null, min_cursor_name: null } }),
      DEFAULTS,
    )
    for (const retention of ['', 1, [], true]) await assertCreationRefused({ retention })
  })
  for (const field of ['max_age_millis', 'max_bytes'])
    it(`retention.${field}: an unsigned integer`, async () => {
      for (const value of [0, 1, Number.MAX_SAFE_INTEGER]) {
        const expected = { ...DEFAULTS, retention: { ...DEFAULTS.retention, [field]: value } }
        assert.deepEqual(await created({ retention: { [field]: value } }), expected)
      }
      for (const value of NOT_UNSIGNED)
        await assertCreationRefused({ retention: { [field]: value } }, new RegExp(`^retention.${field}`))
    })
  it('retention.min_cursor_name: not blank, without control characters', async () => {
    const expected = { ...DEFAULTS, retention: { ...DEFAULTS.retention, min_cursor_name: 'größe 1' } }
    assert.deepEqual(await created({ retention: { min_cursor_name: 'größe 1' } }), expected)
    const unusual = 'no cursor/has such a name'
    const { retention } = (await created({ retention: { min_cursor_name: unusual } })) as typeof expected
    assert.equal(retention.min_cursor_name, unusual)
    for (const name of ['', ' ', `a${CONTROL}`, 1, {}]) {
      await assertCreationRefused({ retention: { min_cursor_name: name } }, /^retention.min_cursor_name/)
    }
  })
  const policy = { max_attempts: 3, retry_delay_millis: 0, dead_letter_stream: null, apply_on_expiry: false }
  it('failure_policy: none when it is null or left out; without max_attempts refused', async () => {
    assert.deepEqual(await created({ failure_policy: null }), DEFAULTS)
    assert.deepEqual(await created({ failure_policy: { max_attempts: 3 } }), { ...DEFAULTS, failure_policy: policy })
    await assertCreationRefused({ failure_policy: {} }, /^failure_policy.max_attempts is missing$/)
    await assertCreationRefused(
      { failure_policy: { retry_delay_millis: 5 } },
      /^failure_policy.max_attempts is missing$/,
    )
    await assertCreationRefused({ failure_policy: { max_attempts: null } }, /^failure_policy.max_attempts/)
    for (const failure_policy of ['', 1, []]) await assertCreationRefused({ failure_policy })
  })
  it('failure_policy.max_attempts: 1 to 4294967295', async () => {
    for (const max_attempts of [1, 4_294_967_295]) {
      const expected = { ...DEFAULTS, failure_policy: { ...policy, max_attempts } }
      assert.deepEqual(await created({ failure_policy: { max_attempts } }), expected)
    }
    for (const max_attempts of [0, 4_294_967_296, ...NOT_UNSIGNED]) {
      await assertCreationRefused({ failure_policy: { max_attempts } }, /^failure_policy.max_attempts/)
    }
  })
  it('failure_policy.retry_delay_millis: an unsigned integer, 0 by default', async () => {
    for (const [given, kept] of [
      [0, 0],
      [86_400_000, 86_400_000],
      [null, 0],
    ]) {
      const expected = { ...DEFAULTS, failure_policy: { ...policy, retry_delay_millis: kept } }
      assert.deepEqual(await created({ failure_policy: { max_attempts: 3, retry_delay_millis: given } }), expected)
    }
    for (const retry_delay_millis of NOT_UNSIGNED) {
      await assertCreationRefused(
        { failure_policy: { max_attempts: 3, retry_delay_millis } },
        /^failure_policy.retry_delay_millis/,
      )
    }
  })
  it('failure_policy.dead_letter_stream: a stream name, which need not exist', async () => {
    const expected = { ...DEFAULTS, failure_policy: { ...policy, dead_letter_stream: 'not there yet' } }
    const body = { failure_policy: { max_attempts: 3, dead_letter_stream: 'not there yet' } }
    assert.deepEqual(await created(body), expected)
    assert.deepEqual(await created({ failure_policy: { max_attempts: 3, dead_letter_stream: null } }), {
      ...DEFAULTS,
      failure_policy: policy,
    })
    for (const name of ['', ' ', 'a/b', ' a', `a${CONTROL}`, 'x'.repeat(257), 1]) {
      const bad = { failure_policy: { max_attempts: 3, dead_letter_stream: name } }
      await assertCreationRefused(bad, /^failure_policy.dead_letter_stream/)
    }
    const own = broker.stream('its own dead-letter stream')
    const looping = { failure_policy: { max_attempts: 1, dead_letter_stream: own.name } }
    assertRefused(await broker.request('PUT', own.path, { body: looping }), 400, 'invalid_request')
  })
  it('failure_policy.apply_on_expiry (ours): a boolean, false by default', async () => {
    const expected = { ...DEFAULTS, failure_policy: { ...policy, apply_on_expiry: true } }
    assert.deepEqual(await created({ failure_policy: { max_attempts: 3, apply_on_expiry: true } }), expected)
    await assertCreationRefused(
      { failure_policy: { max_attempts: 3, apply_on_expiry: 1 } },
      /^failure_policy.apply_on_expiry/,
    )
  })
  it('an empty body creates with the defaults', async () => {
    const stream = broker.stream('empty body')
    ;(await stream.put('', '')).succeeded(CreateStreamReply, 201)
    const { created_at_ms, ...shown } = await stream.describe()
    assert(Math.abs(created_at_ms - Date.now()) < 60_000)
    assert.deepEqual(shown, {
      api_version: 'v1',
      stream: 'empty body',
      ...DEFAULTS,
      first_offset: 0,
      next_offset: 0,
      record_count: 0,
      payload_bytes: 0,
    })
  })
  it('what is no such object is invalid_request: unknown fields, other JSON, malformed JSON, not UTF-8', async () => {
    await assertCreationRefused({ durability: 'memory' }, /^the body has an unknown field; known are /)
    await assertCreationRefused({ retention: { max_age_ms: 1 } }, /^retention has an unknown field; known are /)
    await assertCreationRefused(
      { failure_policy: { max_attempts: 1, max_tries: 1 } },
      /^failure_policy has an unknown field; known are /,
    )
    for (const body of ['null', '[]', '1', '"a"', '{', '{}x', ' ']) await assertCreationRefused(body)
    await assertCreationRefused(Buffer.from('{"default_durability":"\xff"}', 'latin1'), /not valid JSON in UTF-8/)
  })
})

describe('PUT /v1/streams/{stream}', () => {
  it('is 409 stream_already_exists for a stream that exists, which stays as it is', async () => {
    const stream = await broker.newStream({ default_durability: 'memory' })
    assertRefused(await stream.put('', {}), 409, 'stream_already_exists')
    assertRefused(await stream.put('', { default_durability: 'memory' }), 409, 'stream_already_exists')
    assert.equal((await stream.describe()).default_durability, 'memory')
  })
  it('creates a stream once, however many ask at once', async () => {
    const stream = broker.stream('raced')
    const replies = await Promise.all(Array.from({ length: 8 }, () => stream.put('')))
    assert.deepEqual(replies.map(({ code }) => code ?? 'created').sort(), [
      'created',
      ...Array.from({ length: 7 }, () => 'stream_already_exists'),
    ])
  })
  it('takes no query', async () => {
    assertRefused(await broker.request('PUT', '/v1/streams/a?x=1'), 400, 'invalid_request')
  })
})

describe('GET /v1/streams', () => {
  it('shows every stream as its description does, by name, and not the reserved one', async () => {
    const stream = await broker.newStream()
    await stream.publish('12345')
    const list = await broker.get('/v1/streams', StreamListReply)
    const names = list.streams.map(({ stream }) => stream)
    assert.deepEqual(names, names.toSorted())
    assert(!names.includes('system.audit'))
    assert.equal(list.stream_count, names.length)
    const { api_version, ...description } = await stream.describe()
    assert.equal(list.api_version, api_version)
    assert.deepEqual(
      list.streams.find((each) => each.stream === stream.name),
      description,
    )
  })
  it('with a query is 400 invalid_query', async () => {
    assertRefused(await broker.request('GET', '/v1/streams?limit=1'), 400, 'invalid_query')
  })
})

describe('GET /v1/streams/{stream}', () => {
  it('counts records and payload bytes, never shows a payload', async () => {
    const stream = await broker.newStream()
    await stream.publish('secret one')
    await stream.publish({ payload_hex: '0000ff' })
    const reply = await broker.request('GET', stream.path)
    const { next_offset, record_count, payload_bytes } = await stream.describe()
    assert.deepEqual([next_offset, record_count, payload_bytes], [2, 2, 13])
    assert(!reply.text.includes('secret') && !reply.text.includes(Buffer.from('secret').toString('hex')))
  })
  it('is 404 stream_not_found for one that is not there, 400 invalid_request for what is no name', async () => {
    assertRefused(await broker.request('GET', '/v1/streams/nothing'), 404, 'stream_not_found')
    assertRefused(await broker.request('GET', '/v1/streams/%20'), 400, 'invalid_request')
    assertRefused(await broker.request('GET', '/v1/streams/nothing?x=1'), 400, 'invalid_query')
  })
})
