/** Surveys of a bucket: they answer as from the same bundles on disk, or refuse with object_storage_read_failed. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { it } from 'node:test'
import {
  parseDatasetsRequest,
  parseFieldsRequest,
  parseHistogramRequest,
} from '../../../src/logstore/survey/request.ts'
import { LogStoreServer } from '../../support/logstore.ts'
import type { Reply } from '../../support/logstore.ts'
import { ObjectStoreServer } from '../../support/objectstore.ts'
import { TestStore } from '../../support/stored-segments.ts'
import { fillBundles } from './bundles.ts'
import { ACCESS_KEY_ID, BucketCopy, SECRET_ACCESS_KEY, readsBucketAt, untilBundles } from './support.ts'

const DEADLINE_MS = 60_000
const ABOUT = { dataset: 'orders', deadline_ms: DEADLINE_MS }
const HISTOGRAM = { ...ABOUT, interval_nano: 2 }
const READING = [
  ['/v1/query/histogram', { ...ABOUT, split_by: 'service.name' }],
  ['/v1/query/fields', { ...ABOUT, filter: { search: 'order' } }],
] as const

/** The answer of the store on disk. */
function expectedOf(store: TestStore, path: string, body: object): unknown {
  const bytes = Buffer.from(JSON.stringify(body))
  const question =
    path === '/v1/datasets'
      ? parseDatasetsRequest('', null)
      : path === '/v1/query/histogram'
        ? parseHistogramRequest(bytes)
        : parseFieldsRequest(bytes)
  assert(!('message' in question))
  const answer = store.askSurvey('local', question)
  assert(answer.kind === 'ok')
  return JSON.parse(Buffer.from(answer.body).toString())
}

it('datasets, histograms and fields of a bucket are those of the bundles in it, and never those of a part of them', async (context) => {
  const key = { access_key_id: ACCESS_KEY_ID, secret_access_key: SECRET_ACCESS_KEY, principal: 'copies' }
  const objects = await ObjectStoreServer.start({
    keys: [{ ...key, permissions: ['read', 'write', 'list', 'delete', 'admin'] }],
  })
  context.after(() => objects.kill())
  const bucket = await BucketCopy.create(objects.url)
  context.after(() => bucket.close())
  const store = TestStore.open(context)
  fillBundles(store, 4)
  await bucket.sync(store.directory)
  const server = await LogStoreServer.start({ env: readsBucketAt(objects.url) })
  context.after(() => server.kill())
  await untilBundles(server, 4)
  const ask = (path: string, body: object): Promise<Reply> =>
    path === '/v1/datasets' ? server.request(`${path}?deadline_ms=${DEADLINE_MS}`, null) : server.request(path, body)

  for (const [path, body] of [['/v1/datasets', {}], ['/v1/query/histogram', HISTOGRAM], ...READING] as const) {
    const expected = expectedOf(store, path, body)
    // The second round reads what each thread has kept.
    for (let round = 0; round < 2; round++) assert.deepEqual((await ask(path, body)).ok(), expected, path)
  }

  const [segment] = store.segments
  const name = `${store.directoryOf(segment!.base).split('/').at(-1)}/records.log`
  const damaged = readFileSync(`${store.directory}/${name}`)
  damaged[200]! ^= 1
  await bucket.put(name, damaged)
  await server.restart() // threads keep what they have read and verified
  await untilBundles(server, 4)
  for (const [path, body] of READING) {
    const reply = await ask(path, body)
    assert.deepEqual([reply.status, reply.kind], [502, 'object_storage_read_failed'])
    assert.match(reply.text, /is damaged/)
  }
  // Indexes alone say what was acknowledged.
  assert.deepEqual(
    (await ask('/v1/query/histogram', HISTOGRAM)).ok(),
    expectedOf(store, '/v1/query/histogram', HISTOGRAM),
  )
})
