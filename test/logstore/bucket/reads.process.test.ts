/** With the query store `s3`, exports and traces read the bucket, and there are no tails. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { segmentName } from '../../../src/log/segment-format.ts'
import { DEVELOPMENT_CREDENTIALS, LogStoreServer } from '../../support/logstore.ts'
import { ObjectStoreServer } from '../../support/objectstore.ts'
import { TRACES, TestStore } from '../../support/stored-segments.ts'
import type { QueryResponseBody } from '../../support/stored-segments.ts'
import { fillBundles } from './bundles.ts'
import {
  ACCESS_KEY_ID,
  BucketCopy,
  PATIENT,
  SECRET_ACCESS_KEY,
  askServer,
  pagesOf,
  queryOf,
  readsBucketAt,
  untilBundles,
} from './support.ts'

const KEYS = [
  {
    access_key_id: ACCESS_KEY_ID,
    secret_access_key: SECRET_ACCESS_KEY,
    principal: 'copies',
    permissions: ['read', 'write', 'list', 'delete', 'admin'],
  },
]

it('exports and traces are answered as those from the same bundles on disk; a tail is refused', async (context) => {
  const objects = await ObjectStoreServer.start({ keys: KEYS })
  context.after(() => objects.kill())
  const bucket = await BucketCopy.create(objects.url)
  context.after(() => bucket.close())
  const store = TestStore.open(context)
  fillBundles(store, 4)
  await bucket.sync(store.directory)
  const server = await LogStoreServer.start({ env: readsBucketAt(objects.url) })
  context.after(() => server.kill())
  await untilBundles(server, 4)

  const pages = await pagesOf({ dataset: 'orders', page: { limit: 500 } }, (body) => store.query('local', body))
  const expected = pages.flatMap(({ results }) => results.map(({ record }) => record))
  const lines = (await server.request('/v1/export', { dataset: 'orders', ...PATIENT })).text.split('\n').slice(0, -1)
  assert.deepEqual(JSON.parse(lines.pop()!), { export: { status: 'complete', records: expected.length } })
  assert.deepEqual(
    lines.map((line) => JSON.parse(line) as unknown),
    expected,
  )
  const trace = TRACES[0]!
  const matched = store.query('local', { filter: { trace_id: trace } }).matched_records
  assert.ok(matched > 0)
  const tree = (await server.request(`/v1/traces/${trace}`, null)).ok() as { matched_records: number }
  assert.equal(tree.matched_records, matched)
  const found = await server.request('/v1/query', { filter: { trace_id: trace }, ...PATIENT })
  assert.equal((found.ok() as QueryResponseBody).matched_records, matched)
  const tail = await server.request('/v1/tail', null)
  assert.deepEqual([tail.status, tail.kind], [501, 'tail_unavailable'])
})

it('an export ends without its last line, and a cursor is refused, when a bundle is removed meanwhile', async (context) => {
  const objects = await ObjectStoreServer.start({ keys: KEYS })
  context.after(() => objects.kill())
  const bucket = await BucketCopy.create(objects.url)
  context.after(() => bucket.close())
  const store = TestStore.open(context)
  // More than sockets and queues hold, so that the export waits for its reader.
  const text = 'x'.repeat(100_000)
  for (let bundle = 0; bundle < 6; bundle++) {
    for (let number = 0; number < 100; number++)
      store.add('local', [{ dataset: 'orders', time: BigInt(1000 * bundle + number), trace: null, text }])
    store.seal()
  }
  store.publish()
  await bucket.sync(store.directory)
  const server = await LogStoreServer.start({ env: readsBucketAt(objects.url) })
  context.after(() => server.kill())
  await untilBundles(server, 6)

  const page = { limit: 1 }
  const { next_cursor: cursor } = (await askServer(server)({ dataset: 'orders', page })).page
  const answer = await fetch(`${server.url}/v1/export`, {
    method: 'POST',
    headers: {
      'x-logstore-tenant': DEVELOPMENT_CREDENTIALS.tenant,
      authorization: `Bearer ${DEVELOPMENT_CREDENTIALS.token}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify({ dataset: 'orders', ...PATIENT }),
  })
  assert.equal(answer.status, 200)
  await bucket.remove(`${segmentName(store.segments[1]!.base)}/manifest.json`)
  await untilBundles(server, 5)
  await assert.rejects(answer.text(), /terminated/)
  assert.match(
    server.stderr,
    /"reason":"the bundles in the bucket have changed[^\n]*an export ended before it was complete/,
  )
  const refused = await queryOf(server, { dataset: 'orders', page: { ...page, cursor } })
  assert.deepEqual([refused.status, refused.kind], [400, 'invalid_cursor'])
  const again = await queryOf(server, { dataset: 'orders', page })
  assert.equal((again.ok() as QueryResponseBody).matched_records, 500)
})
