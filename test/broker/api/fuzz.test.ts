/** The broker takes any request or says what is wrong with it, but never fails itself. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import * as fc from 'fast-check'
import { brokerRoutes } from '../../../src/broker/api/routes.ts'
import type { BrokerHttpParts } from '../../../src/broker/api/parts.ts'
import { parsePublish, tryParsePublish } from '../../../src/broker/publish-input.ts'
import type { PublishInput } from '../../../src/broker/publish-input.ts'
import { BrokerError, REFUSALS } from '../../../src/broker/refusals.ts'
import { TestBroker, json } from './support.ts'
import type { Answer, Asked } from './support.ts'

let broker: TestBroker

const enough = { maxBodyBytes: 1, metrics: null } as BrokerHttpParts // for the route table alone: no endpoint is called
const routes = brokerRoutes(enough).map(([method, path]) => ({ method, path: path.replaceAll(/:\w+/g, 'x') }))
const withBody = routes.filter(({ method }) => method !== 'GET')
const withoutBody = routes.filter(({ method }) => method === 'GET')

/** The test operations answer 2xx; features that are off answer 404 and 409. */
const EXPECTED = new Set([200, 201, 404, 409])

async function ask(method: string, path: string, asked: Asked = {}): Promise<Answer> {
  const answer = await broker.ask(method, path, asked)
  assert.deepEqual(broker.logged, [])
  if (answer.status === 400 || answer.status === 413) {
    const { code } = (json(answer) as { error: { code: string } }).error
    assert(code in REFUSALS && !answer.text.includes('s3cret'), answer.text)
  } else assert(EXPECTED.has(answer.status), `${method} ${path}: ${answer.status} ${answer.text}`)
  return answer
}

const FIELDS = (
  'message_id payload payload_hex key key_hex event_time_ms headers durability_mode records offset reason requeue delay_millis ' +
  'extend_by_millis dead_letter_stream delivery_ids default_durability retention failure_policy max_attempts max_bytes stream ' +
  'start_offset max_messages lease_timeout_millis wait_millis note source_site target_site policy origin_offset ' +
  'ingest_time_ms __proto__ constructor nothing '
).split(' ')
/** Any string of UTF-16 code units, including lone surrogates and control characters. */
const anyText = fc
  .array(
    fc.oneof(
      fc.integer({ min: 0, max: 0xffff }),
      fc.integer({ min: 0xd800, max: 0xdfff }),
      fc.integer({ min: 0, max: 0xff }),
    ),
    { maxLength: 12 },
  )
  .map((units) => String.fromCharCode(...units))
const leaf = fc.oneof(
  fc.constantFrom(null, true, false, 0, 1, -1, 1.5, 2 ** 53, 1e300, -0, 's3cret', 'abc', '00', '', ' '),
  fc.integer(),
  anyText,
)
const { tree } = fc.letrec((tie) => ({
  tree: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    leaf,
    fc.array(tie('tree'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...FIELDS), tie('tree'), { maxKeys: 6 }),
  ),
}))
const object = fc.dictionary(fc.constantFrom(...FIELDS), tree, { maxKeys: 8 })
const text = fc.oneof(
  object.map((value) => JSON.stringify(value)),
  tree.map((value) => JSON.stringify(value) ?? ''),
  fc
    .array(
      fc.constantFrom('{', '}', '[', ']', '"', ',', ':', '\\u00', '\\ud800', '1e', '-', '"message_id"', 'null', ' '),
    )
    .map((pieces) => pieces.join('')),
)
const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 60 }),
  text.map((text) => Buffer.from(text)),
  fc.tuple(text, fc.nat(), fc.integer({ min: 0, max: 255 })).map(([text, at, byte]) => {
    const damaged = Buffer.from(`${text} `)
    damaged[at % damaged.byteLength] = byte
    return damaged
  }),
)

/** Values of a record's field, each with the code that refuses it; null: it is taken. */
const valuesOf = (
  good: readonly unknown[],
  code: string,
  bad: readonly unknown[],
): fc.Arbitrary<[unknown, string | null]> =>
  fc.oneof(
    { weight: 5, arbitrary: fc.constantFrom(...good).map((value): [unknown, null] => [value, null]) },
    { weight: 1, arbitrary: fc.constantFrom(...bad).map((value): [unknown, string] => [value, code]) },
  )
const REQUEST = 'invalid_request'
const PAYLOAD = 'invalid_payload'
const fields = fc.record(
  {
    message_id: valuesOf(['m', 'é', ' a '], REQUEST, [null, '', ' ', 'a\n', '\ud800', 1, undefined]),
    payload: valuesOf(['', 'text', 'é\u0000', null], PAYLOAD, [1, {}, []]),
    payload_hex: valuesOf(['', '00', 'aF', null], PAYLOAD, ['0', 'zz', 1]),
    key: valuesOf(['', 'k', null], PAYLOAD, [1, true]),
    key_hex: valuesOf(['', '0a', null], PAYLOAD, ['a', ' 0', {}]),
    event_time_ms: valuesOf([0, 1, 2 ** 53 - 1, null], REQUEST, [-1, 0.5, '1', 2 ** 53]),
    headers: valuesOf([{}, { a: 'b' }, null], REQUEST, [{ a: 1 }, { '': 'b' }, [], 'a']),
    durability_mode: valuesOf(['volatile', 'local-sync', null], REQUEST, ['memory', 1]),
    unknown: valuesOf([undefined], REQUEST, [1, null]),
  },
  { requiredKeys: ['message_id'] },
)
const bytesOf = (content: PublishInput['payload']): Buffer =>
  content instanceof Uint8Array ? Buffer.from(content) : Buffer.from(content.text, content.encoding)
const mapped = <T, U>(object: Record<string, T>, to: (value: T) => U): Record<string, U> =>
  Object.fromEntries(Object.entries(object).map(([name, value]) => [name, to(value)]))

describe('the broker over HTTP, whatever is sent,', () => {
  before(async () => {
    broker = await TestBroker.start()
  })
  after(() => broker.stop())

  describe('any request', () => {
    it('with any body is taken or refused', async () => {
      await fc.assert(
        fc.asyncProperty(fc.constantFrom(...withBody), bytes, async ({ method, path }, body) => {
          await ask(method, path, { body })
        }),
        { numRuns: 1500 },
      )
      broker.calls.length = 0
    })

    it('with any query is taken or refused, and what is taken was said once', async () => {
      const names = [
        'start_offset',
        'event_time_ms',
        'max_records',
        'max_payload_bytes',
        'consumer_group',
        'consumer_id',
      ]
      const pieces = fc.constantFrom(
        ...names,
        '=',
        '&',
        '1',
        '100',
        '-',
        '%',
        '%20',
        '%31',
        '%ff',
        '+',
        'a',
        'é',
        '/',
        '?',
        '',
      )
      await fc.assert(
        fc.asyncProperty(fc.constantFrom(...withoutBody), fc.array(pieces, { maxLength: 9 }), async (route, parts) => {
          const query = parts.join('')
          const answer = await ask(route.method, `${route.path}?${query}`)
          const [call] = broker.calls.splice(0)
          if (answer.status !== 200 || call?.name !== 'replay') return
          const said = [...new URLSearchParams(query).keys()]
          assert.equal(new Set(said).size, said.length)
          assert(said.every((name) => names.includes(name) || name === 'ingest_time_ms'))
        }),
        { numRuns: 1000 },
      )
    })

    it('with any name in its path is taken as decodeURIComponent reads it, or refused', async () => {
      const pieces = fc.oneof(
        fc.constantFrom('a', '%20', '%2F', '%00', '%C3%A9', '%C3', '%ff', '%', '%zz', '+', '.', '..', 'é', ';', '😀'),
        fc.integer({ min: 0, max: 255 }).map((byte) => `%${byte.toString(16).padStart(2, '0')}`),
      )
      await fc.assert(
        fc.asyncProperty(fc.array(pieces, { minLength: 1, maxLength: 6 }), async (parts) => {
          const raw = parts.join('')
          const answer = await ask('GET', `/v1/streams/${raw}`)
          const [call] = broker.calls.splice(0)
          assert.equal(answer.status === 200, call !== undefined)
          if (call) assert.equal(call.args[1], decodeURIComponent(raw))
        }),
        { numRuns: 800 },
      )
    })

    it('with any content type and encoding is taken or refused', async () => {
      const words = fc.constantFrom(
        'application/json',
        'text/plain',
        ';',
        'charset',
        '=',
        '"',
        'utf-8',
        'UTF8',
        'latin1',
        ' ',
        ',',
      )
      const value = fc.array(words, { maxLength: 6 }).map((words) => words.join(''))
      await fc.assert(
        fc.asyncProperty(value, fc.constantFrom('', 'identity', 'IDENTITY', 'gzip', 'x'), async (type, encoding) => {
          const headers = { 'content-type': type, 'content-encoding': encoding }
          await ask('POST', '/v1/streams/x/records', { body: { message_id: 'm', payload: '' }, headers })
        }),
        { numRuns: 200 },
      )
      broker.calls.length = 0
    })
  })

  describe('a published record', () => {
    it('is taken when all its fields are, and else refused by the code of one that is not', () => {
      fc.assert(
        fc.property(fields, (given) => {
          const body = JSON.parse(JSON.stringify(mapped(given, ([value]) => value))) as Record<string, unknown>
          const codes = Object.values(given).flatMap(([, code]) => code ?? [])
          const hasPayload = (body['payload'] ?? body['payload_hex'] ?? null) !== null
          if (!hasPayload) codes.push(PAYLOAD)
          const parsed = tryParsePublish(body)
          if (parsed instanceof BrokerError) assert(codes.includes(parsed.code), `${parsed.code}: ${parsed.message}`)
          else assert.deepEqual(codes, [])
        }),
        { numRuns: 3000 },
      )
    })

    it('has the bytes that were sent, in either form', () => {
      const record = fc.record({ payload: fc.uint8Array({ maxLength: 50 }), key: fc.uint8Array({ maxLength: 20 }) })
      fc.assert(
        fc.property(record, ({ payload, key }) => {
          const hex = { payload_hex: Buffer.from(payload).toString('hex'), key_hex: Buffer.from(key).toString('hex') }
          const parsed = parsePublish({ message_id: 'm', ...hex })
          assert.deepEqual(bytesOf(parsed.payload), Buffer.from(payload))
          assert.deepEqual(bytesOf(parsed.key!), Buffer.from(key))
        }),
      )
      fc.assert(
        fc.property(anyText, (text) => {
          const parsed = tryParsePublish({ message_id: 'm', payload: text })
          if (parsed instanceof BrokerError) assert.equal(text.isWellFormed(), false)
          else assert.equal(bytesOf(parsed.payload).toString('utf8'), text)
        }),
      )
    })
  })
})
