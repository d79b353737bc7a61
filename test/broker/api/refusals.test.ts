/** The specification's "Errors": status, code, shape, and the action that a client is told. */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { StoreError } from '../../../src/errors.ts'
import { BrokerError, REFUSALS, refuse } from '../../../src/broker/refusals.ts'
import type { RefusalCode } from '../../../src/broker/refusals.ts'
import { TestBroker, assertRefused, json } from './support.ts'
import type { Answer } from './support.ts'

let broker: TestBroker

const ROWS: readonly (readonly [status: number, ...codes: RefusalCode[]])[] = [
  [400, 'invalid_request'],
  [400, 'invalid_query'],
  [400, 'invalid_payload', 'invalid_start', 'invalid_page_size', 'invalid_start_offset'],
  [400, 'invalid_retention_policy', 'invalid_tiering_policy', 'replica_apply_invalid'],
  [401, 'authentication_required', 'authentication_failed'],
  [403, 'authorization_denied'],
  [404, 'stream_not_found', 'missing_stream', 'not_found', 'delivery_not_found', 'quarantine_not_found'],
  [404, 'replication_worker_not_found', 'metrics_disabled'],
  [405, 'method_not_allowed'],
  [408, 'request_timeout'],
  [409, 'stream_already_exists'],
  [409, 'lease_expired', 'lease_not_active'],
  [409, 'replication_not_configured'],
  [409, 'write_not_allowed', 'replica_apply_gap'],
  [413, 'payload_too_large', 'replica_apply_too_large'],
  [429, 'quota_exceeded'],
  [503, 'replication_unavailable', 'node_recovering', 'not_leading'],
  [500, 'internal_error', 'queue_state_persistence_failed', 'tiering_manifest_failed'],
  [500, 'quarantine_storage_failed', 'replica_apply_failed'],
]
const RETRYABLE: ReadonlySet<RefusalCode> = new Set([
  'request_timeout',
  'quota_exceeded',
  'replication_unavailable',
  'node_recovering',
  'not_leading',
])

async function answerTo(error: unknown): Promise<Answer> {
  broker.instead = () => {
    throw error
  }
  return broker.ask('GET', '/v1/streams')
}

describe('the broker’s refusals', () => {
  before(async () => {
    broker = await TestBroker.start()
  })
  after(() => broker.stop())
  afterEach(() => {
    broker.instead = null
    broker.calls.length = 0
  })

  describe('a refusal', () => {
    for (const [status, ...codes] of ROWS) {
      for (const code of codes)
        it(`${code} is ${status}`, async () => {
          const answer = await answerTo(refuse(code, 'what "is" wrong'))
          const retryable = RETRYABLE.has(code)
          assert.equal(answer.status, status)
          assert.deepEqual(json(answer), {
            api_version: 'v1',
            error: { code, message: 'what "is" wrong', action: REFUSALS[code].action, retryable },
          })
          const saysWhen = retryable && status !== 408
          assert.equal(answer.headers['retry-after'], saysWhen ? '1' : undefined)
        })
    }

    it('is in the table when it is anywhere', () => {
      assert.deepEqual(ROWS.flatMap(([, ...codes]) => codes).sort(), Object.keys(REFUSALS).sort())
    })

    it('says how long to wait, in whole seconds and 1 at least', async () => {
      for (const [retryAfterSeconds, header] of [
        [0, '1'],
        [0.2, '1'],
        [7.1, '8'],
      ] as const) {
        const answer = await answerTo(refuse('quota_exceeded', 'wait', { retryAfterSeconds }))
        assert.equal(answer.headers['retry-after'], header)
      }
    })

    it('may know better than its code whether it can be retried', async () => {
      const never = await answerTo(refuse('quota_exceeded', 'can never fit', { retryable: false }))
      assert.match(never.text, /"retryable":false/)
      assert.equal(never.headers['retry-after'], undefined)
      const once = await answerTo(refuse('internal_error', 'did not happen', { retryable: true }))
      assert.match(once.text, /"retryable":true/)
      assert.equal(once.headers['retry-after'], undefined)
    })

    it('is a StoreError whose kind says what a caller inside the process should do', () => {
      const kinds = (
        ['invalid_request', 'missing_stream', 'lease_expired', 'quota_exceeded', 'internal_error'] as const
      ).map((code) => refuse(code, 'x').kind)
      assert.deepEqual(kinds, ['invalid', 'notFound', 'conflict', 'overloaded', 'unavailable'])
      assert(refuse('not_found', 'x') instanceof BrokerError)
    })

    it('is counted by its code', async () => {
      const before = broker.counters.refusals.get('lease_expired') ?? 0
      await answerTo(refuse('lease_expired', 'late'))
      assert.equal(broker.counters.refusals.get('lease_expired'), before + 1)
    })

    it('of the credentials comes first', async () => {
      const closed = await TestBroker.start({
        access: {
          identify() {
            throw refuse('authentication_required', 'who are you?')
          },
        },
      })
      for (const [method, path] of [
        ['GET', '/v1/streams/%ff?x'],
        ['POST', '/v1/streams/a/records'],
        ['GET', '/metrics'],
      ] as const) {
        assertRefused(await closed.ask(method, path), 401, 'authentication_required')
      }
      await closed.stop()
    })
  })

  it('an answer that people read in a terminal ends with a newline', async () => {
    for (const path of ['/health', '/openapi.json', '/metrics', '/nowhere', '/v1/streams?x']) {
      assert.match((await broker.ask('GET', path)).text, /[^\n]\n$/, path)
    }
    assert.match((await broker.ask('PATCH', '/health')).text, /[^\n]\n$/)
  })

  describe('a web page', () => {
    const EVIL = { 'content-type': 'text/plain', origin: 'http://evil.example' }

    it('whose name was made to point here (DNS rebinding) is refused on every route but the health', async () => {
      const headers = { host: 'evil.example:7400' }
      for (const [method, path] of [
        ['GET', '/v1/streams'],
        ['PUT', '/v1/streams/a'],
        ['POST', '/v1/streams/a/records'],
        ['GET', '/streams/a/records'],
        ['GET', '/metrics'],
        ['GET', '/openapi.json'],
      ] as const) {
        assertRefused(await broker.ask(method, path, { headers }), 403, 'authorization_denied', /TRILOG_ALLOWED_HOSTS/)
      }
      assert.equal((await broker.ask('GET', '/health', { headers })).status, 200)
      assert.deepEqual(broker.calls, [])
    })

    it('of another site can neither change nor ask anything', async () => {
      const body = '{"message_id":"m","payload":"p"}'
      const path = '/v1/streams/a/records'
      assertRefused(await broker.ask('POST', path, { body, headers: EVIL }), 403, 'authorization_denied')
      for (const method of ['GET', 'POST']) {
        const headers = { 'sec-fetch-site': 'cross-site' }
        assertRefused(await broker.ask(method, path, { body, headers }), 403, 'authorization_denied')
      }
      assert.deepEqual(broker.calls, [])
      const own = { 'content-type': 'text/plain', origin: 'http://localhost:3000', 'sec-fetch-site': 'same-site' }
      assert.equal((await broker.ask('POST', path, { body, headers: own })).status, 201)
    })

    it('is let in where requests need credentials, which it does not have', async () => {
      const keyed = await TestBroker.start({ guard: null })
      const headers = { ...EVIL, host: 'evil.example', 'sec-fetch-site': 'cross-site' }
      assert.equal((await keyed.ask('PUT', '/v1/streams/a', { headers })).status, 201)
      await keyed.stop()
    })
  })

  it('a request that does not say clearly where its body ends is invalid_request, and its connection closed', async () => {
    const client = await broker.connect()
    await client.send('GET /v1/streams HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked, identity\r\n\r\n')
    const { status, headers, body } = (await client.reply())!
    assertRefused({ status, headers, text: body }, 400, 'invalid_request', 'Transfer-Encoding must be chunked, once')
    await client.closed()
    assert.deepEqual(broker.calls, [])
  })

  describe('a failure that is our own', () => {
    for (const error of [
      new TypeError('no such thing'),
      new StoreError('corrupt', 'checkpoint_unreadable', 'details'),
      'text',
    ])
      it(`(${String(error)}) is internal_error, and logged by the id of the request`, async () => {
        broker.logged.length = 0
        broker.instead = () => Promise.reject(error) // oxlint-disable-line prefer-promise-reject-errors -- also values that are no Error
        const answer = await broker.ask('GET', '/v1/streams', { headers: { 'x-request-id': 'id-1' } })
        assertRefused(answer, 500, 'internal_error', 'the broker failed to handle the request; its log says more')
        assert.deepEqual(broker.logged, [{ details: { request_id: 'id-1', err: error }, message: 'request failed' }])
      })

    it('of a thread or a disk may pass: internal_error that can be repeated, and logged', async () => {
      broker.logged.length = 0
      broker.instead = () => Promise.reject(new StoreError('unavailable', 'job_failed', 'details'))
      const answer = await broker.ask('GET', '/v1/streams')
      assertRefused(answer, 500, 'internal_error', 'the broker cannot serve this now: repeat the request', true)
      assert.equal(broker.logged.length, 1)
    })

    it('by too much work at once passes too, and is nothing to log', async () => {
      broker.logged.length = 0
      broker.instead = () => Promise.reject(new StoreError('overloaded', 'reads_queue_full', 'details'))
      const answer = await broker.ask('GET', '/v1/streams')
      assertRefused(answer, 500, 'internal_error', 'the broker cannot serve this now: repeat the request', true)
      assert.equal(broker.logged.length, 0)
    })

    it('while a request begins is answered as well', async () => {
      const broken = await TestBroker.start({
        access: {
          identify() {
            throw new Error('bug')
          },
        },
      })
      assertRefused(await broken.ask('GET', '/v1/streams'), 500, 'internal_error')
      assert.equal(broken.logged.length, 1)
      await broken.stop()
    })
  })
})
