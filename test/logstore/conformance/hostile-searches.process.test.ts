/** Hostile searches on the real process: each is answered, refused as invalid_query, or ended by its deadline. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { SEARCH_LENGTH_MAX } from '../../../src/logstore/search/expression.ts'
import { policyTenant } from '../../support/logstore.ts'
import type { Reply, Rejection } from '../../support/logstore.ts'
import { COSTLY_SEARCHES, EXTREME_SEARCHES, HOSTILE_TEXTS, hostileSearches } from '../../support/search-texts.ts'
import { JSON_LOGS, LOGS, PROTOBUF, QUERY, TIME, accept, jsonLogs, protobufLogs, startForTests } from './batches.ts'

const DEADLINE_MS = 150
/** Far more than a search may go on beyond its deadline, and far less than a search takes that does not look at the deadline. */
const LATE_MS = 15_000
/** A URL with more than this is refused before a route reads it. */
const HEAD_BYTES_MAX = 48 * 1024

const server = await startForTests({
  policy: [policyTenant('local', 'local-dev-token', { records: null, bytes: null })],
})
const long = HOSTILE_TEXTS.map((text, i) => ({
  timeUnixNano: String(TIME + BigInt(i)),
  body: { stringValue: text.repeat(20_000) },
}))
// One frame of about 12 MB of texts, most of them beyond ASCII, and the same texts short in JSON.
assert.equal((await server.request(LOGS, protobufLogs(long, { dataset: 'long' }), PROTOBUF)).status, 200)
await accept(
  server,
  JSON_LOGS,
  jsonLogs(
    HOSTILE_TEXTS.map((stringValue) => ({ timeUnixNano: String(TIME), body: { stringValue } })),
    { dataset: 'short' },
  ),
)

const ROUTES = [QUERY, '/v1/query/histogram', '/v1/query/fields', '/v1/export']

function kindOf(reply: Reply): string {
  if (reply.status === 200) return 'ok'
  const { status, error } = JSON.parse(reply.text) as Rejection // compared below
  assert.equal(status, 'rejected')
  assert.equal(reply.status, error.kind === 'invalid_query' ? 400 : 504, reply.text)
  return error.kind
}

async function ask(path: string, dataset: string, search: string): Promise<string> {
  const histogram = path.endsWith('histogram') ? { buckets: 4 } : {}
  const startedMs = performance.now()
  const reply = await server.request(path, { dataset, filter: { search }, deadline_ms: DEADLINE_MS, ...histogram })
  const tookMs = performance.now() - startedMs
  assert(tookMs < DEADLINE_MS + LATE_MS, `${path} took ${tookMs} ms for ${JSON.stringify(search.slice(0, 80))}`)
  return kindOf(reply)
}

describe('searches from hell', () => {
  for (const path of ROUTES) {
    it(`the costliest of their kinds, over one frame of long texts, end with their deadline (${path})`, async () => {
      const kinds = new Set<string>()
      for (const search of COSTLY_SEARCHES) kinds.add(await ask(path, 'long', search))
      assert.deepEqual(
        [...kinds].filter((kind) => kind !== 'ok' && kind !== 'deadline_exceeded'),
        [],
      )
    })
  }

  it('any text is answered or refused as invalid_query, and the store goes on', async () => {
    const kinds = new Map<string, number>()
    await fc.assert(
      fc.asyncProperty(hostileSearches, fc.constantFrom(...ROUTES), async (search, path) => {
        const kind = await ask(path, 'short', search)
        kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
      }),
      { numRuns: 150 },
    )
    assert((kinds.get('ok') ?? 0) > 20 && (kinds.get('invalid_query') ?? 0) > 20, JSON.stringify([...kinds]))
    assert.equal((await server.request('/health', null)).text.trim(), '"Healthy"')
  })

  it('of each kind are so, too, at the bound of the length and beyond it', async () => {
    for (const [what, search] of EXTREME_SEARCHES) {
      const kind = await ask(QUERY, 'short', search)
      assert(kind === 'ok' || kind === 'invalid_query', `${what}: ${kind}`)
      if (search.length > SEARCH_LENGTH_MAX) assert.equal(kind, 'invalid_query', what)
    }
  })

  it('a tail refuses or follows each of them', async () => {
    await fc.assert(
      fc.asyncProperty(hostileSearches, async (search) => {
        const stop = new AbortController()
        const parameters = String(new URLSearchParams({ search }))
        const response = await fetch(`${server.url}/v1/tail?${parameters}`, {
          headers: { 'x-logstore-tenant': 'local', authorization: 'Bearer local-dev-token' },
          signal: stop.signal,
        })
        if (parameters.length > HEAD_BYTES_MAX) assert.equal(response.status, 431)
        else if (response.status !== 200) assert.match(await response.text(), /"kind":"invalid_query"/)
        stop.abort()
      }),
      { numRuns: 60 },
    )
  })
})
