import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { after, before, beforeEach, describe, it } from 'node:test'
import * as fc from 'fast-check'
import { Type } from 'typebox'
import { EndpointHelper } from '../../src/endpoint-helper/endpoint-helper.ts'
import type { StoredObject } from '../../src/endpoint-helper/frames.ts'
import { BODY_BYTES_MAX } from '../../src/endpoint-helper/limits.ts'
import {
  ENDPOINT_HELPER_OPERATIONS,
  ENDPOINT_HELPER_PATH_PARAMETERS,
  endpointHelperRoutes,
} from '../../src/endpoint-helper/routes.ts'
import { StoreError } from '../../src/errors.ts'
import type { EndpointService } from '../../src/http/endpoint.ts'
import { openApiDocument } from '../../src/http/openapi.ts'
import { serve } from '../support/http-server.ts'
import type { TestServer } from '../support/http-server.ts'
import { codePoint } from '../support/code-point.ts'

/** A service that answers with the reason of a refusal, or the code of an error, in JSON. */
const service: EndpointService = {
  refuse: (exchange, { reason }) =>
    exchange.answer(
      reason === 'mediaType' || reason === 'contentEncoding' ? 415 : 400,
      'application/json',
      JSON.stringify({ reason }),
    ),
  fail: (exchange, error) =>
    exchange.answer(
      error instanceof StoreError ? 503 : 500,
      'application/json',
      JSON.stringify({ code: error instanceof StoreError ? error.code : 'unknown' }),
    ),
  errorSchema: Type.Object({ reason: Type.String() }),
}

/** The real helper. If a test sets `storing`, that stores instead. */
let helper: EndpointHelper
let storing: ((stored: StoredObject) => Promise<void>) | null = null
const routes = endpointHelperRoutes({
  helper: {
    store: (stored) => (storing ? storing(stored) : helper.store(stored)),
    newest: (id) => helper.newest(id),
    newestFirst: (id) => helper.newestFirst(id),
  },
  recentPath: '/v1/endpoint/:activation_id',
  service,
})
let directory: string
let web: TestServer

type Answer = readonly [status: number, body: unknown]

const at = (path: string): string => `http://127.0.0.1:${web.server.port}/v1/endpoint/${path}`

async function get(path: string): Promise<Answer> {
  const reply = await fetch(at(path))
  assert.match(reply.headers.get('content-type') ?? '', /^application\/json/)
  return [reply.status, await reply.json()]
}

async function post(path: string, body: string | object, contentType = 'application/json', more = {}): Promise<Answer> {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const reply = await fetch(at(path), { method: 'POST', body: text, headers: { 'content-type': contentType, ...more } })
  return [reply.status, await reply.json()]
}

const objectOf = (activation_id: string, latency = 1) => ({ url: 'http://example.test/a?b=c', latency, activation_id })

describe('the endpoint helper over HTTP', () => {
  before(async () => {
    directory = mkdtempSync(`${tmpdir()}/endpoint-`)
    helper = await EndpointHelper.open({
      directory: `${directory}/endpoint`,
      logger: { info: assert.fail, warn: assert.fail, error: assert.fail },
    })
    web = await serve(Object.fromEntries(routes.map(({ method, path, endpoint }) => [`${method} ${path}`, endpoint])))
  })
  after(async () => {
    await web[Symbol.asyncDispose]()
    await helper.close()
    rmSync(directory, { recursive: true })
  })
  beforeEach(() => {
    storing = null
  })

  describe('an object that was posted', () => {
    it('is stored and read back as it was', async () => {
      const object = { url: 'http://ü/😀"\\\n', latency: 12.5, activation_id: 'A.b_c-9' }
      assert.deepEqual(await post('A.b_c-9', object), [200, 'Data stored'])
      assert.deepEqual(await get('A.b_c-9'), [200, object])
      assert.deepEqual(await get('A.b_c-9/recent_100'), [200, [object]])
    })

    it('comes first, before 99 older ones', async () => {
      for (let n = 0; n <= 100; n++) assert.equal((await post('many', objectOf('many', n)))[0], 200)
      assert.deepEqual(await get('many'), [200, objectOf('many', 100)])
      const expected = Array.from({ length: 100 }, (_, i) => objectOf('many', 100 - i))
      assert.deepEqual(await get('many/recent_100'), [200, expected])
    })

    it('is not lost among others posted at the same time', async () => {
      const answers = await Promise.all(
        Array.from({ length: 60 }, (_, n) => post(`c${n % 3}`, objectOf(`c${n % 3}`, n))),
      )
      assert(answers.every(([status]) => status === 200))
      for (const id of [0, 1, 2]) {
        const [, found] = (await get(`c${id}/recent_100`)) as readonly [number, { latency: number }[]] // the form in which they were posted
        const expected = Array.from({ length: 20 }, (_, i) => 3 * i + id)
        assert.deepEqual(
          found.map(({ latency }) => latency).sort((a, b) => a - b),
          expected,
        )
      }
    })
  })

  describe('an activation id', () => {
    it('may be any segment of 1 to 128 letters, digits, dots, underscores and dashes', async () => {
      for (const id of ['a', 'A'.repeat(128), '...', '0', '-', '__proto__', 'recent_100', 'constructor']) {
        assert.deepEqual(await get(id), [404, 'No data found'])
        assert.deepEqual(await post(id, objectOf(id)), [200, 'Data stored'])
        assert.deepEqual(await get(id), [200, objectOf(id)])
      }
    })

    it('of another kind is refused on every route, before the body is looked at', async () => {
      const invalid = [400, 'Invalid activation id']
      for (const id of ['A'.repeat(129), 'a%20b', 'a%2Fb', 'a%00', '%ff', 'a+b', 'a~', 'ü', '%2e%2e%2f']) {
        assert.deepEqual(await get(id), invalid, id)
        assert.deepEqual(await get(`${id}/recent_100`), invalid, id)
        assert.deepEqual(await post(id, 'not JSON', 'text/plain'), invalid, id)
      }
    })

    it('may be written with escapes', async () => {
      assert.deepEqual(await post('%61%62', objectOf('ab')), [200, 'Data stored'])
      assert.deepEqual(await get('ab'), [200, objectOf('ab')])
    })

    it('in the body is the one in the path', async () => {
      assert.deepEqual(await post('one', objectOf('two')), [400, 'Invalid activation id'])
      assert.deepEqual(await get('one'), [404, 'No data found'])
      assert.deepEqual(await get('two'), [404, 'No data found'])
      assert.deepEqual(await get('one/recent_100'), [404, 'No data found'])
    })
  })

  describe('a body', () => {
    it('that is not such an object is refused in the words of the service', async () => {
      const object = objectOf('bad')
      for (const [body, reason] of [
        ['', 'bodyMalformed'],
        ['{', 'bodyMalformed'],
        ['null', 'bodyInvalid'],
        [[object], 'bodyInvalid'],
        [{ ...object, more: 1 }, 'bodyInvalid'],
        [{ ...object, url: 1 }, 'bodyInvalid'],
        [{ ...object, latency: '1' }, 'bodyInvalid'],
        [{ ...object, activation_id: 1 }, 'bodyInvalid'],
        [{ url: object.url, latency: 1 }, 'bodyInvalid'],
        ['{"url":"a","latency":1e999,"activation_id":"bad"}', 'bodyInvalid'],
        [{ ...object, url: 'x'.repeat(BODY_BYTES_MAX) }, 'bodyTooLarge'],
      ] as const) {
        assert.deepEqual(await post('bad', body), [400, { reason }])
      }
      assert.deepEqual(await post('bad', object, 'text/plain'), [415, { reason: 'mediaType' }])
      const gzip = { 'content-encoding': 'gzip' }
      assert.deepEqual(await post('bad', object, 'application/json', gzip), [415, { reason: 'contentEncoding' }])
      assert.deepEqual(await get('bad'), [404, 'No data found'])
    })

    it('of the largest size is stored, whatever it consists of', async () => {
      const around = Buffer.byteLength(JSON.stringify(objectOf('large')))
      const url = `${objectOf('large').url}${'\u0001'.repeat((BODY_BYTES_MAX - around) / 6)}`
      assert.deepEqual(await post('large', { ...objectOf('large'), url }), [200, 'Data stored'])
      assert.deepEqual(await get('large'), [200, { ...objectOf('large'), url }])
    })

    it('comes back equal, whatever its url and latency', async () => {
      let n = 0
      const latencies = fc.double({ noDefaultInfinity: true, noNaN: true }).map((value) => value + 0) // -0 is 0 in JSON
      await fc.assert(
        fc.asyncProperty(fc.string({ unit: codePoint }), latencies, async (url, latency) => {
          const id = `any-${n++}`
          assert.deepEqual(await post(id, { url, latency, activation_id: id }), [200, 'Data stored'])
          assert.deepEqual(await get(id), [200, { url, latency, activation_id: id }])
        }),
        { numRuns: 30 },
      )
    })
  })

  describe('an object that could not be stored', () => {
    it('is told in the words of the service', async () => {
      storing = () => Promise.reject(new StoreError('unavailable', 'wal_unavailable', 'the disk is full'))
      assert.deepEqual(await post('failing', objectOf('failing')), [503, { code: 'wal_unavailable' }])
      assert.deepEqual(await get('failing'), [404, 'No data found'])
    })
  })

  describe('the routes', () => {
    it('are in the OpenAPI document, with their parameters', () => {
      const parts = {
        operations: {
          ...ENDPOINT_HELPER_OPERATIONS,
          'GET /v1/endpoint/:activation_id': { id: 'getNewestObject', tag: 'endpoints' },
        },
        tags: { endpoints: 'e' },
        defaultUrl: 'http://x',
        pathParameters: ENDPOINT_HELPER_PATH_PARAMETERS,
      }
      const info = { title: 't', version: '1', description: 'd' }
      assert.partialDeepStrictEqual(openApiDocument(info, routes, parts), {
        paths: {
          '/v1/endpoint/{activation_id}': {
            post: {
              parameters: [{ name: 'activation_id', schema: { pattern: '^[A-Za-z0-9._-]{1,128}$' } }],
              responses: { 200: {}, 400: {} },
            },
            get: { responses: { 200: {}, 400: {}, 404: {} } },
          },
          '/v1/endpoint/{activation_id}/recent_100': { get: { responses: { 200: {}, 400: {}, 404: {} } } },
        },
      })
    })

    it('have the most recent object where the service wants it', () => {
      const elsewhere = endpointHelperRoutes({ helper, service, recentPath: '/v1/endpoint/:activation_id/recent' })
      assert.deepEqual(
        elsewhere.map(({ method, path }) => `${method} ${path}`),
        [
          'POST /v1/endpoint/:activation_id',
          'GET /v1/endpoint/:activation_id/recent',
          'GET /v1/endpoint/:activation_id/recent_100',
        ],
      )
    })
  })
})
