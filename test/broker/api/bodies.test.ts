/** The bodies that each route takes: the field tables of the specification, row by row, and the contract's rules for all of them. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { parseReplicaApply } from '../../../src/broker/api/replication.ts'
import { MAX_BODY_BYTES, TestBroker, assertRefused } from './support.ts'
import {
  APPLY,
  long,
  create,
  publish,
  batch,
  claim,
  nack,
  replicated,
  apply,
  ROUTES,
  NAMES,
  UNSIGNED,
  OFFSETS,
  HEX,
  FIELDS,
  shown,
} from './body-fields.ts'
import type { Route } from './body-fields.ts'

let broker: TestBroker

async function takes({ method, path, operation, good }: Route, fields: object): Promise<readonly unknown[]> {
  const body = { ...good, ...fields }
  const answer = await broker.ask(method, path, { body })
  assert(answer.status < 300, `${JSON.stringify(fields).slice(0, 200)}: ${answer.text}`)
  return broker.taken(operation)
}

async function refuses({ method, path, good, code }: Route, fields: object, message?: string | RegExp): Promise<void> {
  const answer = await broker.ask(method, path, { body: { ...good, ...fields } })
  assertRefused(answer, 400, code, message)
  assert.deepEqual(broker.calls, [])
}

describe('bodies that the broker takes', () => {
  before(async () => {
    broker = await TestBroker.start()
  })
  after(() => broker.stop())

  for (const each of ROUTES) {
    const { method, path, good, code, operation, optional } = each
    describe(`the body of ${method} ${path}`, () => {
      it('is JSON in UTF-8 of any media type, in any spelling of its numbers', async () => {
        for (const type of [
          'application/json',
          'application/x-www-form-urlencoded',
          'text/plain; charset=UTF-8',
          'a/b;charset="utf-8"',
          'nonsense',
        ]) {
          const answer = await broker.ask(method, path, { body: good, headers: { 'content-type': type } })
          assert(answer.status < 300, answer.text)
          broker.taken(operation)
        }
        const spelled = JSON.stringify(good).replaceAll(/:0\b/g, ':0e5').replaceAll(/:1\b/g, ':1.0')
        const answer = await broker.ask(method, path, {
          body: ` \r\n\t${spelled} `,
          headers: { 'content-encoding': 'Identity' },
        })
        assert(answer.status < 300, answer.text)
        broker.taken(operation)
      })

      it(`that is not is ${code}`, async () => {
        const text = JSON.stringify(good)
        for (const body of [
          '{',
          '[]',
          'null',
          '1',
          '"x"',
          'nothing',
          `${text},`,
          ' ',
          '\u0000',
          `\ufeff${text}`,
          "{'a':1}",
        ]) {
          assertRefused(await broker.ask(method, path, { body }), 400, code)
        }
        const notUtf8 = Buffer.concat([Buffer.from('{"'), Buffer.of(0xc3, 0x28), Buffer.from('":1}')])
        assertRefused(await broker.ask(method, path, { body: notUtf8 }), 400, code)
        assert.deepEqual(broker.calls, [])
      })

      it('in another charset or content encoding is invalid_request', async () => {
        for (const headers of [
          { 'content-type': 'application/json; charset=iso-8859-1' },
          { 'content-type': 'text/plain;Charset="UTF-16"' },
          { 'content-encoding': 'gzip' },
          { 'content-encoding': 'identity, br' },
        ]) {
          assertRefused(await broker.ask(method, path, { body: good, headers }), 400, 'invalid_request')
        }
        assert.deepEqual(broker.calls, [])
      })

      it(optional ? 'may be absent or empty' : `must be there: else ${code}`, async () => {
        for (const body of [undefined, '']) {
          const answer = await broker.ask(method, path, body === undefined ? {} : { body })
          if (!optional) assertRefused(answer, 400, code)
          else {
            assert(answer.status < 300, answer.text)
            broker.taken(operation)
          }
        }
      })

      it(`with an unknown field is ${code}, and so is one with a field given twice`, async () => {
        const message =
          each === publish
            ? /^the record has an unknown field; known are message_id, /
            : /^the body has an unknown field/
        await refuses(each, { unknown: null }, message)
        await refuses(each, JSON.parse('{"__proto__":{"a":1}}') as object)
        const text = JSON.stringify(good)
        if (text === '{}') return
        const name = Object.keys(good)[0]!
        const answer = await broker.ask(method, path, { body: `{"${name}":[[]],${text.slice(1)}` })
        assertRefused(answer, 400, code)
        assert.match(answer.text, /an object in the body has a name twice/)
      })

      it('with a query is refused: no query parameters are accepted', async () => {
        assertRefused(await broker.ask(method, `${path}?x=1`, { body: good }), 400, code)
        assertRefused(await broker.ask(method, `${path}?&`, { body: good }), 400, code)
      })
    })
  }

  for (const { route: each, field, good, bad } of FIELDS) {
    describe(`${field} of ${each.method} ${each.path}`, () => {
      it(`takes ${good.map(shown).join(' ')}`, async () => {
        for (const value of good) await takes(each, { [field]: value })
      })
      it(`refuses ${bad.map(shown).join(' ')}`, async () => {
        for (const value of bad) await refuses(each, { [field]: value })
      })
    })
  }

  describe('required fields', () => {
    for (const each of ROUTES) {
      for (const field of Object.keys(each.good).filter((name) => each.good[name] !== null && name !== 'payload'))
        it(`${field} of ${each.method} ${each.path}: absent is refused as missing`, async () => {
          const { [field]: _, ...rest } = each.good
          const answer = await broker.ask(each.method, each.path, { body: rest })
          assertRefused(answer, 400, each.code, `${field} is missing`)
        })
    }
  })

  describe('what is published', () => {
    const inputOf = async (fields: object): Promise<unknown> => {
      const answer = await broker.ask(publish.method, publish.path, { body: { message_id: 'm', ...fields } })
      assert.equal(answer.status, 201, answer.text)
      return broker.taken('publish')[1]
    }
    const utf8 = (text: string): object => ({ text, encoding: 'utf8' })
    const hex = (text: string): object => ({ text, encoding: 'hex' })

    it('has a payload in UTF-8 or hex, empty ones too, and hex wins', async () => {
      for (const [fields, payload] of [
        [{ payload: '' }, utf8('')],
        [{ payload: 'größe\u0000"' }, utf8('größe\u0000"')],
        [{ payload_hex: '' }, hex('')],
        [{ payload_hex: '00fF' }, hex('00fF')],
        [{ payload: 'text', payload_hex: '00' }, hex('00')],
        [{ payload: null, payload_hex: '00' }, hex('00')],
        [{ payload: 'text', payload_hex: null }, utf8('text')],
      ] as const) {
        assert.partialDeepStrictEqual(await inputOf(fields), { payload, key: null })
      }
    })
    it('has 128 headers and 64 KiB of them at most', async () => {
      const headersOf = (count: number, bytes: number): Record<string, string> =>
        Object.fromEntries(
          Array.from({ length: count }, (_, i) => [
            String(i).padStart(4, 'h'),
            i === 0 ? 'x'.repeat(bytes - 4 * count) : '',
          ]),
        )
      await inputOf({ payload: '', headers: headersOf(128, 64 << 10) })
      for (const headers of [headersOf(129, 1000), headersOf(128, (64 << 10) + 1), { h: 'é'.repeat(32 << 10) }]) {
        await refuses(publish, { headers }, /^the headers must not be more than 128, /)
      }
    })
    it('of another site may have those of a dead-letter copy on top', async () => {
      const headersOf = (count: number): Record<string, string> =>
        Object.fromEntries(Array.from({ length: count }, (_, i) => [`h-${i}`, '']))
      await refuses(
        apply,
        { records: [{ ...replicated, headers: headersOf(135) }] },
        /^records.0.headers must be strings/,
      )
      await takes(apply, { records: [{ ...replicated, headers: headersOf(134) }] })
    })
    it('is taken from a long body, and refused, by the same rules', async () => {
      const payload = 'größe"'.repeat(10_000) // longer than a body that is read in one slice
      assert.partialDeepStrictEqual(await inputOf({ payload }), { payload: utf8(payload) })
      for (const bad of [{ payload: `${payload}\ud800` }, { payload_hex: `${'00'.repeat(35_000)}zz` }]) {
        const answer = await broker.ask(publish.method, publish.path, { body: { message_id: 'm', ...bad } })
        assertRefused(answer, 400, 'invalid_payload')
      }
    })
    it('is refused with 800 000 headers or unknown fields before they are all read', async () => {
      const many = Array.from({ length: 800_000 }, (_, i) => `"h${i}":"v"`).join(',')
      for (const body of [`{"records":[{"headers":{${many}}}]}`, `{${many}}`]) {
        const answer = await broker.ask('POST', APPLY, { body })
        assertRefused(
          answer,
          400,
          'replica_apply_invalid',
          'an object in the body must not have more than 1024 members',
        )
      }
    })
    it('has a key by the same rules, or none', async () => {
      for (const [fields, key] of [
        [{ key: 'k' }, utf8('k')],
        [{ key: '' }, utf8('')],
        [{ key_hex: 'ab' }, hex('ab')],
        [{ key: 'k', key_hex: 'ab' }, hex('ab')],
        [{ key: null, key_hex: null }, null],
      ] as const) {
        assert.partialDeepStrictEqual(await inputOf({ payload: 'p', ...fields }), { key })
      }
    })
    it('is invalid_payload for what is wrong with payload or key', async () => {
      for (const fields of [
        { payload: undefined },
        { payload: null },
        { payload: null, payload_hex: null },
        { payload: 1 },
        { payload: {} },
        { payload: '\ud800' },
        { payload: 1, payload_hex: '00' },
        ...HEX.bad.map((value) => ({ payload_hex: value })),
        ...HEX.bad.map((value) => ({ key_hex: value })),
        { key: 1 },
        { key: [] },
        { key: 'a\udc00' },
        { key: 1, key_hex: '00' },
      ]) {
        const answer = await broker.ask(publish.method, publish.path, { body: { ...publish.good, ...fields } })
        assertRefused(answer, 400, 'invalid_payload')
      }
    })
    it('keeps its other fields: null is absent', async () => {
      const headers = { a: 'b', constructor: '' }
      assert.deepEqual(
        await inputOf({ payload: 'p', event_time_ms: 5, headers, durability_mode: 'volatile', key: null }),
        { messageId: 'm', payload: utf8('p'), key: null, eventTimeMs: 5, headers, durability: 'volatile' },
      )
      assert.deepEqual(await inputOf({ payload: 'p', event_time_ms: null, headers: null, durability_mode: null }), {
        messageId: 'm',
        payload: utf8('p'),
        key: null,
        eventTimeMs: null,
        headers: {},
        durability: null,
      })
    })
    it('may have a header of any name, __proto__ too', async () => {
      const body = '{"message_id":"m","payload":"p","headers":{"__proto__":"x"}}'
      assert.equal((await broker.ask(publish.method, publish.path, { body })).status, 201)
      const { headers } = broker.taken('publish')[1] as { headers: object }
      assert.deepEqual(Object.entries(headers), [['__proto__', 'x']])
    })
    it('in a batch is judged record by record, with the same codes', async () => {
      const records = [publish.good, 1, null, [], {}, { ...publish.good, payload: 1 }, { ...publish.good, x: 1 }]
      const answer = await broker.ask(batch.method, batch.path, { body: { records } })
      assert.equal(answer.status, 200)
      const inputs = broker.taken('publishBatch')[1] as { code?: string }[]
      assert.deepEqual(
        inputs.map(({ code }) => code ?? 'good'),
        ['good', ...Array<string>(4).fill('invalid_request'), 'invalid_payload', 'invalid_request'],
      )
    })
  })

  describe('records of a target apply', () => {
    const record: Route = { ...apply, good: replicated }
    const refusesRecord = async (fields: object): Promise<void> =>
      refuses(apply, { records: [{ ...record.good, ...fields }] })
    it('are taken with their optional fields null, absent or given', async () => {
      const { key_hex: _, headers: __, ...bare } = replicated
      await takes(apply, { records: [bare, { ...bare, key_hex: '00', headers: { a: 'b' } }, replicated] })
    })
    it('are refused for any bad field', async () => {
      for (const value of OFFSETS.bad) await refusesRecord({ origin_offset: value })
      for (const value of NAMES.bad) await refusesRecord({ message_id: value })
      for (const value of [...HEX.bad, null]) await refusesRecord({ payload_hex: value })
      for (const value of HEX.bad) await refusesRecord({ key_hex: value })
      for (const value of [[], { a: 1 }, { '': 'a' }, { a: '\ud800' }]) await refusesRecord({ headers: value })
      for (const value of [...UNSIGNED.bad, null]) await refusesRecord({ event_time_ms: value })
      for (const value of [...UNSIGNED.bad, null]) await refusesRecord({ ingest_time_ms: value })
      await refusesRecord({ unknown: 1 })
      await refuses(apply, { records: [] })
    })
    it('over 1000 are replica_apply_too_large', async () => {
      await takes(apply, { records: Array.from({ length: 1000 }, () => replicated) })
      const body = { ...apply.good, records: Array.from({ length: 1001 }, () => replicated) }
      assertRefused(await broker.ask('POST', APPLY, { body }), 413, 'replica_apply_too_large')
    })
    it('over 1000 and another mistake: code and message are both about the number of records', () => {
      const records = Array.from({ length: 1001 }, () => replicated)
      for (const mistake of [
        { policy: 7 },
        { unknown: 1 },
        { records: [...records, { ...replicated, key_hex: 'x' }] },
      ]) {
        assert.throws(() => parseReplicaApply({ ...apply.good, records, ...mistake }), {
          code: 'replica_apply_too_large',
          message: 'records must not be more than 1000',
        })
      }
    })
    it('over 64 MiB together are replica_apply_too_large', () => {
      const half = '00'.repeat(32 << 20)
      const of = (...payloads: string[]): object => ({
        ...apply.good,
        records: payloads.map((payload_hex) => ({ ...replicated, message_id: 'm', payload_hex })),
      })
      parseReplicaApply(of(half, half.slice(2 * 2)))
      assert.throws(() => parseReplicaApply(of(half, half)), { code: 'replica_apply_too_large', message: /67108864/ })
    })
  })

  describe('a refused field', () => {
    it('is named, its value is not', async () => {
      for (const [each, fields, message] of [
        [create, { retention: { max_bytes: -1 } }, 'retention.max_bytes must be >= 0 or null'],
        [create, { failure_policy: {} }, 'failure_policy.max_attempts is missing'],
        [create, { default_durability: 'secret' }, /^default_durability must be memory, local-disk, local-quorum or /],
        [nack, { reason: ' ' }, /^reason must not be blank/],
        [nack, { requeue: null }, 'requeue must be boolean'],
        [claim, { max_messages: 'secret' }, 'max_messages must be integer or null'],
        [publish, { durability_mode: 'secret' }, /^durability_mode must be one of volatile, /],
        [publish, { 'a secret': 1 }, /^the record has an unknown field; known are message_id, /],
      ] as const) {
        await refuses(each, fields, message)
      }
    })
  })

  describe('a body that is too large', () => {
    for (const { method, path } of ROUTES.filter((each) => each !== apply))
      it(`is payload_too_large for ${method} ${path}`, async () => {
        const client = await broker.connect()
        await client.send(
          `${method} ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${MAX_BODY_BYTES + 1}\r\n\r\n`,
        )
        const reply = await client.reply()
        client.destroy()
        assertRefused({ ...reply!, text: reply!.body }, 413, 'payload_too_large', /100000 bytes/)
      })
    it('is replica_apply_too_large for the target apply, which has a limit of its own', async () => {
      const client = await broker.connect()
      await client.send(`POST ${APPLY} HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${(160 << 20) + 1}\r\n\r\n`)
      const reply = await client.reply()
      client.destroy()
      assertRefused({ ...reply!, text: reply!.body }, 413, 'replica_apply_too_large')
    })
    it('of up to --max-body-bytes is a record', async () => {
      const overhead = JSON.stringify(publish.good).length - 1
      await takes(publish, { payload: long(MAX_BODY_BYTES - overhead) })
    })
  })

  describe('a body that stalls', () => {
    it('is request_timeout, which can be retried', async () => {
      const client = await broker.connect()
      await client.send(`POST ${publish.path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{`)
      await broker.untilBusy()
      broker.clock.advanceMs(60_000)
      const reply = await client.reply()
      client.destroy()
      assertRefused({ ...reply!, text: reply!.body }, 408, 'request_timeout')
      assert.match(reply!.body, /"retryable":true/)
    })
  })
})
