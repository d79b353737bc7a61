/** Specification "What the service does" 4, contract "Log store": queries from a bucket that external tools copy bundles into. */
import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { after, describe, it } from 'node:test'
import type { TestContext } from 'node:test'
import { mergedName } from '../../../src/log/merged.ts'
import { segmentName } from '../../../src/log/segment-format.ts'
import { STAND_IN_NAME } from '../../../src/log/stand-in.ts'
import { LogStoreServer } from '../../support/logstore.ts'
import { ObjectStoreServer } from '../../support/objectstore.ts'
import { eventually } from '../../support/waiting.ts'
import { TestStore, textsOf } from '../../support/stored-segments.ts'
import type { QueryResponseBody } from '../../support/stored-segments.ts'
import { fillBundles } from './bundles.ts'
import {
  ACCESS_KEY_ID,
  BUCKET,
  BucketCopy,
  QUESTIONS,
  SECRET_ACCESS_KEY,
  askServer,
  copyFiles,
  findPeer,
  metricOf,
  pagesOf,
  queryOf,
  readsBucketAt,
  startPeer,
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

const ownObjects = await ObjectStoreServer.start({ keys: KEYS })
after(() => ownObjects.kill())
const urlOfOwn = (): Promise<string> => Promise.resolve(ownObjects.url)

async function startOther(context: TestContext, name: 'minio' | 'versitygw'): Promise<string> {
  const server = await startPeer(name, findPeer(name)!)
  context.after(() => server.stop())
  return server.url
}

let buckets = 0

/** An empty bucket of this test. */
async function openBucket(context: TestContext, url = ownObjects.url): Promise<BucketCopy> {
  buckets += 1
  const bucket = await BucketCopy.create(url, `${BUCKET}-${buckets}`)
  context.after(() => bucket.close())
  return bucket
}

type Place = Pick<BucketCopy, 'endpoint' | 'name'>

async function startReader(context: TestContext, { endpoint, name }: Place, env = {}): Promise<LogStoreServer> {
  const server = await LogStoreServer.start({
    env: readsBucketAt(endpoint, { LOGSTORE_QUERY_S3_BUCKET: name, ...env }),
  })
  context.after(() => server.kill())
  return server
}

const servers = [
  { name: 'trilog’s own object store', missing: false, start: urlOfOwn },
  ...(['minio', 'versitygw'] as const).map((name) => ({
    name,
    missing: findPeer(name) === null,
    start: (context: TestContext) => startOther(context, name),
  })),
]

for (const { name, missing, start } of servers) {
  const title = missing
    ? `queries from ${name}: skipped, as there is no such program in the path`
    : `queries from ${name}`
  describe(title, { skip: missing }, () => {
    it('are answered as those from the same bundles on disk, page by page', async (context) => {
      const bucket = await openBucket(context, await start(context))
      const store = TestStore.open(context)
      fillBundles(store, 4)
      store.isBucket = true // its cursors are then those of a bucket
      await bucket.sync(store.directory, 'logs/acme/')
      const server = await startReader(context, bucket, { LOGSTORE_QUERY_S3_PREFIX: 'logs/acme' })
      const [first] = store.query('local', QUESTIONS[0]!).results
      const byId = { dataset: 'orders', filter: { record_id: first!.record.record_id } }
      for (const question of [...QUESTIONS, byId]) {
        const expected = await pagesOf(question, (body) => store.query('local', body))
        assert.deepEqual(await pagesOf(question, askServer(server)), expected)
      }
      assert.equal(await metricOf(server, 'query_s3_bundles'), 4)
    })
  })
}

describe('a bucket', () => {
  it('with merged bundles answers as the same on disk, and refuses while the merged file is on its way', async (context) => {
    const bucket = await openBucket(context)
    const store = TestStore.open(context)
    fillBundles(store, 5)
    store.isBucket = true
    store.compact()
    await bucket.sync(store.directory)
    const server = await startReader(context, bucket)
    assert.equal(await metricOf(server, 'query_s3_bundles'), 5)
    const expected = await Promise.all(
      QUESTIONS.map((question) => pagesOf(question, (body) => store.query('local', body))),
    )
    assert(store.merge(0, 4))
    const [first] = store.segments
    const merged = `${segmentName(first!.base)}/${mergedName(store.segments[3]!.end)}`
    // The stand-ins of moved segments arrive first: `sync --delete` and the like keep no order.
    for (const { base } of store.segments.slice(0, 4)) {
      const key = `${segmentName(base)}/${STAND_IN_NAME}`
      await bucket.put(key, readFileSync(`${store.directory}/${key}`))
    }
    await eventually(async () => (await queryOf(server)).status === 502)
    const refused = await queryOf(server)
    assert.equal(refused.rejection().error.kind, 'object_storage_read_failed')
    await bucket.put(merged, readFileSync(`${store.directory}/${merged}`))
    await untilBundles(server, 2)
    for (const [number, question] of QUESTIONS.entries()) {
      const pages = await pagesOf(question, askServer(server))
      const results = (each: readonly QueryResponseBody[]) => each.map(({ results, page }) => ({ results, page }))
      assert.deepEqual(results(pages), results(expected[number]!))
    }
  })

  it('counts a bundle once its manifest and all it names are there, in whatever order they arrive', async (context) => {
    const bucket = await openBucket(context)
    const store = TestStore.open(context)
    fillBundles(store, 2)
    const server = await startReader(context, bucket)
    assert.equal((await askServer(server)({ dataset: 'orders' })).matched_records, 0)

    const [early, late] = readdirSync(store.directory).toSorted()
    const fileOf = (segment: string, file: string): Buffer => readFileSync(`${store.directory}/${segment}/${file}`)
    for (const file of ['manifest.json', 'index.bin']) await bucket.put(`${late}/${file}`, fileOf(late!, file))
    // The files of a segment that was copied while it was being written.
    await bucket.put(`${late}/records.log`, fileOf(late!, 'records.log').subarray(0, 100))
    await bucket.put('spare-0.log', Buffer.alloc(64))
    await bucket.put(`${late}/deeper/manifest.json`, Buffer.from('{}'))
    await bucket.sync(`${store.directory}/${early}`, `${early}/`)
    await untilBundles(server, 1)
    const { matched_records: matched, results } = await askServer(server)({ dataset: 'orders' })
    assert.deepEqual([matched, results.length], [3, 3])

    await bucket.put(`${late}/records.log`, fileOf(late!, 'records.log'))
    await untilBundles(server, 2)
    const all = await askServer(server)({ dataset: 'orders' })
    assert.deepEqual(textsOf(all), textsOf(store.query('local', { dataset: 'orders' })))
  })

  it('is all that queries read: what is ingested is stored locally, and found when the store is local again', async (context) => {
    const bucket = await openBucket(context)
    const server = await startReader(context, bucket)
    const attributes = [
      { key: 'tenant_id', value: { stringValue: 'local' } },
      { key: 'service.name', value: { stringValue: 'orders' } },
    ]
    const logRecords = [{ timeUnixNano: '5', body: { stringValue: 'local' } }]
    const batch = { resourceLogs: [{ resource: { attributes }, scopeLogs: [{ logRecords }] }] }
    ;(await server.request('/v1/otlp/logs', JSON.stringify(batch))).ok()
    assert.equal((await askServer(server)({ dataset: 'orders' })).matched_records, 0)
    await server.stop()
    await server.startAgain({ LOGSTORE_QUERY_STORE: 'local' })
    assert.deepEqual(textsOf(await askServer(server)({ dataset: 'orders' })), ['local'])
  })

  it('serves the bundles of a real log store, copied while it runs', async (context) => {
    const bucket = await openBucket(context)
    const source = await LogStoreServer.start({
      env: { LOGSTORE_SEGMENT_BYTES: String(1 << 20), LOGSTORE_COMPACTION: 'off' },
    })
    context.after(() => source.kill())
    const attributes = [
      { key: 'tenant_id', value: { stringValue: 'local' } },
      { key: 'service.name', value: { stringValue: 'orders' } },
    ]
    const body = { stringValue: 'x'.repeat(100_000) }
    for (let batch = 0; (await metricOf(source, 'bundles')) < 2; batch++) {
      const logRecords = [{ timeUnixNano: String(batch + 1), body }]
      const logs = { resourceLogs: [{ resource: { attributes }, scopeLogs: [{ logRecords }] }] }
      ;(await source.request('/v1/otlp/logs', JSON.stringify(logs))).ok()
    }
    await bucket.sync(`${source.dataDirectory}/bundles`)
    const reader = await startReader(context, bucket)
    const bundled = await askServer(reader)({ dataset: 'orders' })
    const stored = await askServer(source)({ dataset: 'orders' })
    assert(bundled.matched_records > 2 && bundled.matched_records < stored.matched_records)
    assert.deepEqual(bundled.results, stored.results.slice(0, bundled.matched_records))
  })
})

describe('requests to the object store', () => {
  it('are one to open a bundle, before it is asked for, and then at most 2 for a record, 20 for a look-up by id over 1000 bundles', async (context) => {
    const objects = await ObjectStoreServer.start()
    context.after(() => objects.kill())
    const put = async (target: string, body?: Buffer): Promise<void> =>
      void (await objects.request('PUT', target, body && { body })).succeeded(200)
    const store = TestStore.open(context)
    const BUNDLES = 1000
    fillBundles(store, BUNDLES, 1)
    await put(`/${BUCKET}`)
    await copyFiles(store.directory, (path, body) => put(`/${BUCKET}/${path}`, body)) // an SDK would take far longer
    const server = await startReader(
      context,
      { endpoint: objects.url, name: BUCKET },
      { LOGSTORE_QUERY_S3_REFRESH_SECONDS: '86400' },
    )
    const opened = 3 + BUNDLES + BUNDLES // pages of the listing, manifests, and what opens an index
    await eventually(async () => (await metricOf(server, 'query_s3_requests_total')) >= opened)
    const requestsOf = async (body: object): Promise<[requests: number, answer: QueryResponseBody]> => {
      const before = await metricOf(server, 'query_s3_requests_total')
      const answer = (await queryOf(server, body)).ok() as QueryResponseBody // compared below
      return [(await metricOf(server, 'query_s3_requests_total')) - before, answer]
    }
    // One bundle has times in this range: its tables are read, then the frame.
    const range = { start_time_unix_nano: 1000, end_time_unix_nano: 1001 }
    const ofOne = { dataset: 'orders', filter: range }
    const [cold, one] = await requestsOf(ofOne)
    assert.deepEqual(one, store.query('local', ofOne))
    assert(cold <= 2, `${cold} requests`)

    const nothing = { dataset: 'orders', filter: { record_id: `logstore_${'a'.repeat(32)}` } }
    const [forNothing] = await requestsOf(nothing)
    assert(forNothing <= 20, `${forNothing} requests`)
    const { results } = store.query('local', { dataset: 'orders', page: { limit: 500 } })
    for (const number of [0, 250, 499]) {
      const byId = { dataset: 'orders', filter: { record_id: results[number]!.record.record_id } }
      const [requests, answer] = await requestsOf(byId)
      assert.deepEqual(answer, store.query('local', byId))
      assert(requests <= 20, `${requests} requests`)
    }
  })
})
