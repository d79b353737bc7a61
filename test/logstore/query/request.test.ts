import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { inspect } from 'node:util'
import fc from 'fast-check'
import { parseQueryRequest } from '../../../src/logstore/query/request.ts'

const parse = (body: unknown) => parseQueryRequest(Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)))
const TRACE = '0123456789abcdefABCDEF0123456789'

describe('a query request', () => {
  it('has defaults for everything but the dataset; null is absent', () => {
    const defaults = {
      dataset: 'orders',
      filter: { recordId: null, traceId: null, startTime: null, endTime: null, search: null },
      order: 'asc',
      limit: 100,
      hasPage: false,
      cursor: null,
      deadlineMs: 10_000,
    }
    assert.deepEqual(parse({ dataset: 'orders' }), defaults)
    assert.deepEqual(parse({ dataset: 'orders', filter: {}, page: {} }), { ...defaults, hasPage: true })
    assert.deepEqual(parse({ dataset: 'orders', filter: null, page: null, deadline_ms: null }), defaults)
    const nothing = { record_id: null, trace_id: null, start_time_unix_nano: null, end_time_unix_nano: null }
    const page = { limit: null, cursor: null }
    assert.deepEqual(parse({ dataset: 'orders', filter: nothing, page }), { ...defaults, hasPage: true })
    const ofTrace = parse({ filter: { trace_id: TRACE } })
    assert.ok(!('kind' in ofTrace) && ofTrace.dataset === null)
  })

  it('takes all its fields, a trace id in either case', () => {
    const filter = {
      record_id: 'logstore_x',
      trace_id: TRACE,
      start_time_unix_nano: '0',
      end_time_unix_nano: '18446744073709551615',
      search: 'Timeout',
    }
    const body = { dataset: 'orders', filter, order: 'desc', page: { limit: 500, cursor: 'abc' }, deadline_ms: 60_000 }
    assert.deepEqual(parse(body), {
      dataset: 'orders',
      filter: {
        recordId: 'logstore_x',
        traceId: TRACE.toLowerCase(),
        startTime: 0n,
        endTime: (1n << 64n) - 1n,
        search: { kind: 'text', words: ['timeout'], prefix: false },
      },
      order: 'desc',
      limit: 500,
      hasPage: true,
      cursor: 'abc',
      deadlineMs: 60_000,
    })
  })

  it('keeps whole numbers among attributes exact, and takes no text for a number elsewhere', () => {
    const ofAttributes = (attributes: string) => {
      const request = parse(`{"dataset":"app","filter":{"search":{"attributes":${attributes}}}}`)
      assert(!('kind' in request))
      return request.filter.search
    }
    for (const digits of [
      '9007199254740993',
      '-9223372036854775808',
      '18446744073709551615',
      '123456789012345678901',
    ]) {
      for (const name of ['n', '__proto__', 'attributes']) {
        assert.deepEqual(ofAttributes(`{"${name}":${digits},"b":1}`), ofAttributes(`{"${name}":"${digits}","b":1}`))
        assert(inspect(ofAttributes(`{"${name}":${digits}}`), { depth: 9 }).includes(`text: '${digits}'`))
      }
    }
    for (const body of [
      '{"dataset":9007199254740993}',
      '{"dataset":"a","filter":{"record_id":9007199254740993}}',
      '{"dataset":"a","filter":{"search":9007199254740993}}',
      '{"dataset":"a","filter":{"search":{"attributes":[9007199254740993]}}}',
      '{"dataset":"a","filter":{"search":{"attributes":{"a":[9007199254740993]}}}}',
    ]) {
      assert('kind' in parse(body), body)
    }
  })

  it('keeps a time exact, as a string and as an integer', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }), fc.boolean(), (time, asString) => {
        const text = asString ? `"${time}"` : `${time}`
        const request = parse(`{"dataset":"orders","filter":{"start_time_unix_nano":${text}}}`)
        assert.ok('filter' in request)
        assert.equal(request.filter.startTime, time)
      }),
    )
  })

  const refused: readonly [kind: string, body: unknown, names: RegExp][] = [
    ['invalid_query', '', /JSON/],
    ['invalid_query', '{', /JSON/],
    ['invalid_query', 'null', /JSON object/],
    ['invalid_query', '[]', /JSON object/],
    ['invalid_query', '"orders"', /JSON object/],
    ['invalid_query', {}, /dataset/],
    ['invalid_query', { dataset: null }, /dataset/],
    ['invalid_query', { dataset: '' }, /dataset/],
    ['invalid_query', { dataset: null, filter: { record_id: 'logstore_1' } }, /dataset .*trace_id/],
    ['invalid_query', { dataset: 'a', order: 'up' }, /order/],
    ['invalid_query', { dataset: 'a', filter: { search: 7 } }, /filter\.search/],
    ['invalid_query', { dataset: 'a', filter: { search: 'a (b' } }, /filter\.search.*column 3/],
    ['invalid_query', { dataset: 'a', filter: { search: 'x'.repeat(10_241) } }, /10240/],
    ['invalid_query', { dataset: 'a', filter: { search: { word: 'x' } } }, /search|word/],
    ['invalid_query', { dataset: 'a', filter: { search: { status_code: 'fine' } } }, /filter\.search/],
    ['invalid_query', { dataset: 7 }, /dataset/],
    ['invalid_query', { dataset: 'x'.repeat(1025) }, /dataset/],
    [
      'invalid_query',
      { dataset: 'orders', limit: 5 },
      /^the body has an unknown field; known are dataset, filter, order, page, deadline_ms$/,
    ],
    [
      'invalid_query',
      { dataset: 'orders', limit: null },
      /^the body has an unknown field; known are dataset, filter, order, page, deadline_ms$/,
    ],
    [
      'invalid_query',
      { dataset: 'orders', page: { dataset: null } },
      /^page has an unknown field; known are limit, cursor$/,
    ],
    [
      'invalid_query',
      { dataset: 'orders', filter: { level: 'x' } },
      /^filter has an unknown field; known are record_id, trace_id, start_time_unix_nano, end_time_unix_nano, search$/,
    ],
    ['invalid_query', { dataset: 'orders', page: { size: 1 } }, /^page has an unknown field; known are limit, cursor$/],
    [
      'invalid_query',
      '{"dataset":"orders","__proto__":{"limit":1}}',
      /^the body has an unknown field; known are dataset, filter, order, page, deadline_ms$/,
    ],
    ['invalid_query', { dataset: 'orders', filter: [] }, /filter must be an object/],
    ['invalid_query', { dataset: 'orders', filter: 'x' }, /filter must be an object/],
    ['invalid_query', { dataset: 'orders', page: 5 }, /page must be an object/],
    ['invalid_query', { dataset: 'orders', filter: { record_id: 5 } }, /record_id/],
    ['invalid_query', { dataset: 'orders', filter: { trace_id: TRACE.slice(1) } }, /trace_id/],
    ['invalid_query', { dataset: 'orders', filter: { trace_id: `${TRACE}\n` } }, /trace_id/],
    ['invalid_query', { dataset: 'orders', filter: { trace_id: 'z'.repeat(32) } }, /trace_id/],
    ['invalid_query', { dataset: 'orders', filter: { trace_id: 12 } }, /trace_id/],
    ['invalid_query', { dataset: 'orders', filter: { start_time_unix_nano: -1 } }, /start_time/],
    ['invalid_query', { dataset: 'orders', filter: { start_time_unix_nano: 1.5 } }, /start_time/],
    ['invalid_query', '{"dataset":"orders","filter":{"start_time_unix_nano":1e18}}', /start_time/],
    ['invalid_query', { dataset: 'orders', filter: { start_time_unix_nano: '' } }, /start_time/],
    ['invalid_query', { dataset: 'orders', filter: { start_time_unix_nano: '0x10' } }, /start_time/],
    ['invalid_query', { dataset: 'orders', filter: { start_time_unix_nano: true } }, /start_time/],
    ['invalid_query', { dataset: 'orders', filter: { end_time_unix_nano: '18446744073709551616' } }, /end_time/],
    ['invalid_query', { dataset: 'orders', filter: { end_time_unix_nano: '9'.repeat(21) } }, /end_time/],
    ['invalid_query', { dataset: 'orders', deadline_ms: 0 }, /deadline_ms/],
    ['invalid_query', { dataset: 'orders', deadline_ms: 60_001 }, /deadline_ms/],
    ['invalid_query', { dataset: 'orders', deadline_ms: 1.5 }, /deadline_ms/],
    ['invalid_query', { dataset: 'orders', deadline_ms: '5' }, /deadline_ms/],
    ['invalid_page_limit', { dataset: 'orders', page: { limit: 0 } }, /limit/],
    ['invalid_page_limit', { dataset: 'orders', page: { limit: 501 } }, /limit/],
    ['invalid_page_limit', { dataset: 'orders', page: { limit: -1 } }, /limit/],
    ['invalid_page_limit', { dataset: 'orders', page: { limit: 1.5 } }, /limit/],
    ['invalid_page_limit', { dataset: 'orders', page: { limit: '10' } }, /limit/],
    ['invalid_cursor', { dataset: 'orders', page: { cursor: '' } }, /cursor/],
    ['invalid_cursor', { dataset: 'orders', page: { cursor: 5 } }, /cursor/],
  ]
  for (const [kind, body, names] of refused) {
    const shown = typeof body === 'string' ? body : JSON.stringify(body)
    it(`is ${kind}: ${shown.slice(0, 90)}`, () => {
      const problem = parse(body)
      assert.ok('kind' in problem)
      assert.equal(problem.kind, kind)
      assert.match(problem.message, names)
    })
  }

  it('is refused when it is not UTF-8', () => {
    const problem = parseQueryRequest(Buffer.from([...Buffer.from('{"dataset":"'), 0xff, ...Buffer.from('"}')]))
    assert.deepEqual('kind' in problem && problem.kind, 'invalid_query')
  })

  it('of any other shape is refused, never thrown at', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        const request = parse(text)
        assert.ok('kind' in request || typeof request.dataset === 'string')
      }),
    )
  })
})
