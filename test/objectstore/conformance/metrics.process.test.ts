/** What a scrape of an object store shows after real traffic. */
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { Exposition } from '../../support/exposition.ts'
import { ObjectStoreServer } from '../../support/objectstore.ts'

const DURATION = 'objstore_http_request_duration_seconds'

const scrape = async (store: ObjectStoreServer): Promise<Exposition> =>
  new Exposition((await store.request('GET', '/v1/metrics')).succeeded(200).text)

describe('metrics of an object store', () => {
  it('say what buckets hold, now and after a start, and how long operations and syncs took', async () => {
    const store = await ObjectStoreServer.start({ env: { TRILOG_METRICS_SERIES_MAX: '2' } })
    after(() => store.kill())
    const put = async (path: string, body: string): Promise<void> => {
      assert.equal((await store.request('PUT', path, { body })).status, 200)
    }
    for (const bucket of ['alpha', 'other', 'gamma', 'delta']) await put(`/${bucket}`, '')
    await put('/alpha/a', 'x'.repeat(1000))
    await put('/alpha/b', 'x'.repeat(70_000))
    await put('/alpha/a', 'x'.repeat(100))
    await put('/other/a', 'x'.repeat(7))
    await put('/gamma/a', 'x'.repeat(30))
    await put('/delta/a', 'x'.repeat(4))
    await put('/delta/b', 'x'.repeat(4))
    assert.equal((await store.request('DELETE', '/delta/a')).status, 204)
    assert.equal((await store.request('GET', '/alpha/b')).status, 200)
    assert.equal((await store.request('GET', '/alpha/nothing')).status, 404)

    const usage = (shown: Exposition) =>
      shown
        .labelsOf('objstore_bucket_objects')
        .map((labels) => [
          labels,
          shown.value('objstore_bucket_objects', labels),
          shown.value('objstore_bucket_bytes', labels),
        ])
    const expected = [
      [{ bucket: 'alpha' }, 2, 70_100],
      [{ bucket: 'other' }, 1, 7],
      [{ bucket: 'other', summed: 'true' }, 2, 34],
    ]
    const shown = await scrape(store)
    assert.deepEqual(usage(shown), expected)
    const countOf = (route: string, status: string) => shown.value(`${DURATION}_count`, { route, status })
    assert.deepEqual([countOf('PutObject', '2xx'), countOf('GetObject', '2xx'), countOf('GetObject', '4xx')], [7, 1, 1])
    assert.equal(shown.value('objstore_http_request_body_bytes_sum', { route: 'PutObject' }), 71_145)
    assert(shown.value('objstore_http_response_body_bytes_sum', { route: 'GetObject' })! > 70_000)
    assert(shown.value('objstore_log_sync_duration_seconds_count', { directory: '0' })! > 0)
    assert(shown.value('process_open_fds')! > 0)

    await store.restart()
    assert.deepEqual(usage(await scrape(store)), expected)
  })
})
