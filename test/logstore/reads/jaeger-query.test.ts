import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { traceSearchOf } from '../../../src/logstore/reads/jaeger-query.ts'
import { isRefusal } from '../../../src/logstore/tenants/caller.ts'

function searchOf(parameters: Readonly<Record<string, string>>) {
  const search = traceSearchOf(new URLSearchParams(parameters).toString())
  assert(!isRefusal(search))
  return search
}

describe('a trace search of Jaeger', () => {
  it('is about spans of a service, 20 traces unless it says so, 200 at most', () => {
    const { service, limit, filter } = searchOf({ service: 'shop', lookback: '1h', operation: '', tags: '' })
    assert.deepEqual([service, limit, filter.startTime, filter.endTime], ['shop', 20, null, null])
    assert.deepEqual(filter.search, { kind: 'and', of: [{ kind: 'signal', signal: 'trace' }] })
    assert.equal(searchOf({ service: 'shop', limit: '5' }).limit, 5)
    assert.equal(searchOf({ service: 'shop', limit: '1500' }).limit, 200)
  })

  it('has times in microseconds, the last of them whole', () => {
    const { filter } = searchOf({ service: 'shop', start: '1763721600000000', end: '1763721600000001' })
    assert.deepEqual([filter.startTime, filter.endTime], [1_763_721_600_000_000_000n, 1_763_721_600_000_002_000n])
  })

  it('has durations as Go writes them', () => {
    for (const [text, nanoseconds] of [
      ['1.2s', 1.2e9],
      ['100ms', 1e8],
      ['500us', 5e5],
      ['7µs', 7000],
      ['1m30s', 90e9],
      ['2h', 7200e9],
    ] as const) {
      const { search } = searchOf({ service: 'shop', minDuration: text, maxDuration: text }).filter
      assert(search?.kind === 'and')
      const compared = (by: string) => ({
        kind: 'name',
        name: 'duration',
        value: { kind: 'compare', by, number: nanoseconds },
      })
      assert.deepEqual(search.of.slice(1), [compared('>='), compared('<=')])
    }
  })

  it('takes what Jaeger shows as tags for the fields of a span, and all else for attributes', () => {
    const tags = JSON.stringify({ 'span.kind': 'server', 'otel.status_code': 'ERROR', 'http.status_code': 500 })
    const { search } = searchOf({ service: 'shop', operation: 'Checkout', tags }).filter
    assert(search?.kind === 'and')
    const names = JSON.stringify(search.of).matchAll(/"name":"([^"]+)"/g)
    assert.deepEqual(
      Array.from(names, ([, name]) => name),
      [
        'name',
        'kind',
        'status.code',
        'attributes.http.status_code',
        'scope.attributes.http.status_code',
        'resource.attributes.http.status_code',
      ],
    )
  })

  it('takes tags for attributes that are called like members of every object', () => {
    for (const name of ['constructor', 'toString', '__proto__', 'hasOwnProperty']) {
      const { search } = searchOf({ service: 'shop', tags: `{"${name}":"x"}` }).filter
      assert(search?.kind === 'and')
      const names = JSON.stringify(structuredClone(search.of)).matchAll(/"name":"([^"]+)"/g)
      assert.deepEqual(
        Array.from(names, ([, name]) => name),
        [`attributes.${name}`, `scope.attributes.${name}`, `resource.attributes.${name}`],
      )
    }
  })

  it('takes a whole number beyond 2^53 for what it is', () => {
    const searchBy = (tags: string) => searchOf({ service: 'shop', tags }).filter.search
    assert.deepEqual(searchBy('{"big":9007199254740993}'), searchBy('{"big":"9007199254740993"}'))
  })

  it('is refused with what is wrong', () => {
    for (const [parameters, message] of [
      [{}, /service is required/],
      [{ service: 'a', limit: '0' }, /limit/],
      [{ service: 'a', limit: 'x' }, /limit/],
      [{ service: 'a', tags: 'error=true' }, /tags/],
      [{ service: 'a', tags: '[]' }, /tags/],
      [{ service: 'a', tags: '{"a":{}}' }, /tags/],
      [{ service: 'a', start: 'now' }, /start and end/],
      [{ service: 'a', minDuration: '5' }, /minDuration/],
      [{ service: 'a', maxDuration: '-5s' }, /maxDuration/],
      [{ service: 'a', servcie: 'b' }, /there is no "servcie"/],
    ] as const) {
      const search = traceSearchOf(new URLSearchParams(parameters as Record<string, string>).toString())
      assert(isRefusal(search))
      assert.equal(search.kind, 'invalid_query')
      assert.match(search.message, message)
    }
    const twice = traceSearchOf('service=a&service=b')
    assert(isRefusal(twice))
    assert.match(twice.message, /twice/)
  })
})
