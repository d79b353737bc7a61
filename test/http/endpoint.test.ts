import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { StoreError } from '../../src/errors.ts'
import { answerWith, endpoint } from '../../src/http/endpoint.ts'
import type { EndpointService } from '../../src/http/endpoint.ts'
import { mediaTypeOf } from '../../src/http/media-type.ts'
import { openApiDocument } from '../../src/http/openapi.ts'
import { RawClient, ask, until, withServer } from '../support/http-server.ts'

const service: EndpointService = {
  errorSchema: Type.Object({ error: Type.String() }),
  refuse: (exchange, { reason, message }) => exchange.answer(400, 'text/plain', `${reason}: ${message}`),
  fail: (exchange, error) => exchange.answer(error instanceof StoreError ? 409 : 500, 'text/plain', String(error)),
}

const claim = endpoint(service, {
  summary: 'Claim messages',
  body: Type.Object(
    {
      count: Type.Integer({ minimum: 1, maximum: 10 }),
      page: Type.Optional(
        Type.Object(
          { cursor: Type.Union([Type.String({ maxLength: 8 }), Type.Null()]) },
          { additionalProperties: false },
        ),
      ),
    },
    { additionalProperties: false },
  ),
  reply: Type.Object({ stream: Type.String(), count: Type.Integer() }),
  errors: ['invalid_request'],
  bodyLimitBytes: 200,
  admit(head, exchange) {
    if (head.header('authorization') !== '') return { stream: head.param(0) ?? '' }
    exchange.answer(401, null, 'who are you?')
    return null
  },
  handle({ admitted, body }, answer) {
    if (body.count === 9) throw new StoreError('conflict', 'nine', 'nine is taken')
    if (body.count === 10) throw new Error('bug')
    const reply = { stream: admitted.stream, count: body.count, secret: 'not in the schema' }
    answer.answered(reply)
  },
})
const list = endpoint(service, {
  summary: 'List streams',
  reply: Type.Array(Type.String()),
  status: 203,
  errors: [],
  admit: () => ({}),
  handle: (_call, answer) => answerWith(answer, Promise.resolve(['a', '"b"'])),
})

const table = { 'POST /streams/:stream/claims': claim, 'GET /streams': list }
const post = (
  body: string,
  headers = 'Content-Type: application/json; charset=utf-8\r\nAuthorization: x\r\n',
): string =>
  `POST /streams/orders/claims HTTP/1.1\r\nHost: a\r\n${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`

describe('a JSON endpoint', () => {
  it('hands its handler a checked body and sends what the reply schema names', () =>
    withServer(table, async ({ server }) => {
      const reply = await ask(server, post('{"count":3,"page":{"cursor":null}}'))
      assert.deepEqual([reply!.status, reply!.body], [200, '{"stream":"orders","count":3}'])
      assert.equal(reply!.headers['content-type'], 'application/json')
      const listed = await ask(server, 'GET /streams HTTP/1.1\r\nHost: a\r\n\r\n')
      assert.deepEqual([listed!.status, listed!.body], [203, '["a","\\"b\\""]'])
    }))

  it('names the first bad field of its schema and never echoes what was sent', () =>
    withServer(table, async ({ server }) => {
      for (const [body, message] of [
        ['{"count":0}', 'bodyInvalid: count must be >= 1'],
        ['{"count":"s3cret"}', 'bodyInvalid: count must be integer'],
        ['{}', 'bodyInvalid: count is missing'],
        ['{"count":1,"s3cret":1}', 'bodyInvalid: the body has an unknown field; known are count, page'],
        ['{"count":1,"page":{"cursor":null,"s3/cret":1}}', 'bodyInvalid: page has an unknown field; known are cursor'],
        ['{"count":1,"page":{}}', 'bodyInvalid: page.cursor is missing'],
        ['{"count":1,"page":{"cursor":7}}', 'bodyInvalid: page.cursor must be string or null'],
        ['[]', 'bodyInvalid: the body must be object'],
        ['{"count":1', 'bodyMalformed: the body is not valid JSON in UTF-8'],
        ['', 'bodyMalformed: the body is empty, and must be JSON'],
        [`{"count":1}${' '.repeat(200)}`, 'bodyTooLarge: the body must not exceed 200 bytes'],
      ] as const) {
        assert.equal((await ask(server, post(body)))!.body, message)
      }
    }))

  it('refuses bytes that are not UTF-8', () =>
    withServer(table, async ({ server }) => {
      const request = Buffer.concat([Buffer.from(post('{"count":1,"page":{"cursor":"??"}}'))])
      request[request.indexOf('??')] = 0xff
      assert.match((await ask(server, request))!.body, /^bodyMalformed/)
    }))

  it('refuses another media type or none, after its own look at the headers', () =>
    withServer(table, async ({ server }) => {
      assert.equal((await ask(server, post('{"count":1}', '')))!.status, 401)
      for (const type of ['', 'Content-Type: text/json\r\n']) {
        const reply = await ask(server, post('{"count":1}', `${type}Authorization: x\r\n`))
        assert.equal(reply!.body, 'mediaType: the content type must be application/json')
      }
    }))

  it('refuses a body in a content encoding, after its media type', () =>
    withServer(table, async ({ server }) => {
      const json = 'Content-Type: application/json\r\nAuthorization: x\r\n'
      for (const encoding of ['gzip', 'br', 'identity, gzip']) {
        const reply = await ask(server, post('{"count":1}', `${json}Content-Encoding: ${encoding}\r\n`))
        assert.equal(reply!.body, 'contentEncoding: the body must come without a content encoding')
      }
      for (const encoding of ['', ' Identity ']) {
        const reply = await ask(server, post('{"count":1}', `${json}Content-Encoding: ${encoding}\r\n`))
        assert.equal(reply!.status, 200)
      }
      const neither = post('{"count":1}', 'Authorization: x\r\nContent-Encoding: gzip\r\n')
      assert.match((await ask(server, neither))!.body, /content type/)
    }))

  it('leaves what its handler throws to the service', () =>
    withServer(table, async ({ server }) => {
      const statuses = [await ask(server, post('{"count":9}')), await ask(server, post('{"count":10}'))].map(
        (r) => r!.status,
      )
      assert.deepEqual(statuses, [409, 500])
    }))

  it('with a body but no limit for it fails when it is made', () => {
    const options = {
      summary: 'x',
      body: Type.Object({}),
      reply: Type.Object({}),
      errors: [],
      admit: () => null,
      handle: () => {},
    }
    assert.throws(() => endpoint(service, options), /bodyLimitBytes/)
  })
})

describe('a JSON endpoint with options', () => {
  const options = {
    summary: 'Echo',
    reply: Type.Object({ got: Type.Unknown() }),
    errors: [],
    bodyLimitBytes: 100,
    admit: () => ({}),
  }
  const of = (body: string): string =>
    `POST /e HTTP/1.1\r\nHost: a\r\nContent-Type: a/b\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
  const anyType: EndpointService = { ...service, anyMediaType: true }

  it('takes any media type when its service does, and an empty body as an empty object when it may be absent', () => {
    const echo = endpoint(anyType, {
      ...options,
      body: Type.Object({ a: Type.Optional(Type.Integer()) }, { additionalProperties: false }),
      bodyOptional: true,
      handle: ({ body }, answer) => answer.answered({ got: body }),
    })
    return withServer({ 'POST /e': echo }, async ({ server }) => {
      assert.equal((await ask(server, of('{"a":1}')))!.body, '{"got":{"a":1}}')
      assert.equal((await ask(server, of('')))!.body, '{"got":{}}')
      assert.equal((await ask(server, 'POST /e HTTP/1.1\r\nHost: a\r\n\r\n'))!.body, '{"got":{}}')
      assert.match((await ask(server, of(' ')))!.body, /^bodyMalformed/)
    })
  })

  it('hands its handler what it parsed by hand; what parsing or admission throws is left to the service', () => {
    const doubling = endpoint(anyType, {
      ...options,
      body: Type.Number(),
      parse(value) {
        if (typeof value === 'number') return value * 2
        throw new StoreError('invalid', 'number', 'must be a number')
      },
      handle: ({ body }, answer) => answer.answered({ got: body }),
    })
    const refusing = endpoint(anyType, {
      ...options,
      admit: (): object => {
        throw new StoreError('invalid', 'nobody', 'not you')
      },
      handle: (_call, answer) => answer.answered({ got: null }),
    })
    return withServer({ 'POST /e': doubling, 'GET /e': refusing }, async ({ server }) => {
      assert.equal((await ask(server, of('21')))!.body, '{"got":42}')
      assert.equal((await ask(server, of('{}')))!.body, 'StoreError: must be a number')
      assert.equal((await ask(server, 'GET /e HTTP/1.1\r\nHost: a\r\n\r\n'))!.body, 'StoreError: not you')
    })
  })

  it('sends finished bytes as they are, under its own content type', () => {
    const lines = endpoint(service, {
      ...options,
      replyType: 'application/x-ndjson',
      handle: (_call, answer) => answer.answered(Buffer.from('{"a":1}\n{"a":2}\n')),
    })
    return withServer({ 'GET /e': lines }, async ({ server }) => {
      const reply = await ask(server, 'GET /e HTTP/1.1\r\nHost: a\r\n\r\n')
      assert.deepEqual([reply!.body, reply!.headers['content-type']], ['{"a":1}\n{"a":2}\n', 'application/x-ndjson'])
    })
  })

  it('frees the memory of finished bytes when they are sent, or nobody is there to take them, and not before', () => {
    const MEBIBYTE = 1 << 20
    const given: Uint8Array[] = []
    const large = endpoint(service, {
      ...options,
      replyType: 'text/plain',
      handle(_call, answer) {
        const bytes = Buffer.alloc(24 * MEBIBYTE, 'a') // more than the buffers of a connection take
        given.push(bytes)
        answer.answered(bytes)
      },
    })
    return withServer({ 'GET /e': large }, async ({ server }) => {
      const ask = async (): Promise<RawClient> => {
        const client = await RawClient.connect(server)
        client.socket.pause()
        await client.send('GET /e HTTP/1.1\r\nHost: a\r\n\r\n')
        return client
      }
      const slow = await ask()
      await until(() => given.length === 1)
      assert.equal(given[0]!.byteLength, 24 * MEBIBYTE)
      slow.socket.resume()
      assert.equal((await slow.reply())!.body, 'a'.repeat(24 * MEBIBYTE))
      assert.equal(given[0]!.byteLength, 0)
      slow.destroy()

      const leaving = await ask()
      await until(() => given.length === 2)
      leaving.destroy()
      await until(() => given[1]!.byteLength === 0)
    })
  })
})

describe('the OpenAPI document', () => {
  it('lists the documented operations of a route table with their parameters, bodies and replies', () => {
    const group = { type: 'string', minLength: 1 }
    const routes = [
      { method: 'POST', path: '/streams/:stream/:group/claims', endpoint: claim },
      { method: 'GET', path: '/streams', endpoint: list },
      { method: 'GET', path: '/hidden', endpoint: { begin: () => {} } },
    ]
    const operations = {
      'POST /streams/:stream/:group/claims': { id: 'claimRecords', tag: 'queue' },
      'GET /streams': { id: 'listStreams', tag: 'streams' },
    }
    const parts = { operations, tags: { queue: 'q', streams: 's' }, defaultUrl: 'http://x', pathParameters: { group } }
    const document = openApiDocument({ title: 'test', version: '1', description: 'd' }, routes, parts)
    const { paths, openapi, components } = JSON.parse(JSON.stringify(document)) as {
      openapi: string
      components: object
      paths: Record<string, Record<string, Record<string, unknown>>>
    }
    assert.equal(openapi, '3.1.0')
    assert.deepEqual(Object.keys(paths), ['/streams/{stream}/{group}/claims', '/streams'])
    const operation = paths['/streams/{stream}/{group}/claims']!['post']!
    assert.equal(operation['operationId'], 'claimRecords')
    assert.deepEqual(operation['parameters'], [
      { name: 'stream', in: 'path', required: true, schema: { type: 'string' } },
      { name: 'group', in: 'path', required: true, schema: group },
    ])
    assert.deepEqual(Object.keys(operation['responses'] as object), ['200', 'default'])
    assert.match(
      JSON.stringify(operation['requestBody']),
      /"application\/json":\{"schema":\{"\$ref":"#\/components\/schemas\/ClaimRecordsRequest"\}/,
    )
    assert.match(JSON.stringify(components), /"ClaimRecordsRequest":\{"type":"object","required":\["count"\]/)
    assert.equal(paths['/streams']!['get']!['requestBody'], undefined)
    assert.throws(
      () => openApiDocument({ title: 't', version: '1', description: 'd' }, routes, { ...parts, operations: {} }),
      /has no name/,
    )
  })
})

describe('a document with security schemes', () => {
  it('says which operations need them, and which headers', () => {
    const schema = { type: 'string' }
    const document = {
      summary: 'x',
      security: ['bearer'],
      headers: [{ name: 'x-tenant', required: true, schema }],
      replies: [],
    }
    const routes = [{ method: 'GET', path: '/mine', endpoint: { document } }]
    const securitySchemes = { bearer: { type: 'http', scheme: 'bearer' } }
    const operations = { 'GET /mine': { id: 'getMine', tag: 't' } }
    const parts = { operations, tags: { t: 't' }, defaultUrl: 'http://x', securitySchemes }
    assert.partialDeepStrictEqual(openApiDocument({ title: 'test', version: '1', description: 'd' }, routes, parts), {
      components: { securitySchemes },
      paths: {
        '/mine': {
          get: {
            security: [{ bearer: [] }],
            parameters: [{ name: 'x-tenant', in: 'header', required: true, schema }],
          },
        },
      },
    })
  })
})

describe('a media type', () => {
  it('is read without parameters, case and white space', () => {
    assert.deepEqual(['Application/JSON; charset=utf-8', ' text/plain ', '', 'a/b, c/d', ';x'].map(mediaTypeOf), [
      'application/json',
      'text/plain',
      '',
      'a/b',
      '',
    ])
  })
})
