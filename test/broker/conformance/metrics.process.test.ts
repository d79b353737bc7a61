/** What a scrape of a node shows after real traffic. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { after, describe, it } from 'node:test'
import { BrokerServer } from '../../support/broker.ts'
import { temporaryDirectory } from '../../support/directories.ts'
import { Exposition } from '../../support/exposition.ts'

const FLAGS = ['--metrics-exposure', 'http']
const DURATION = 'mq_http_request_duration_seconds'

async function scrape(broker: BrokerServer, headers: Readonly<Record<string, string>> = {}): Promise<Exposition> {
  const { status, text } = await broker.request('GET', '/metrics', null, headers)
  assert.equal(status, 200, text)
  return new Exposition(text)
}

/** Lag, in flight, delayed, dead letters. */
const countsOf = (shown: Exposition, labels: Readonly<Record<string, string>>) =>
  ['lag', 'in_flight', 'delayed', 'dead_letters'].map((name) => shown.value(`mq_group_${name}`, labels))

describe('metrics of a node', () => {
  it('say of each group what it has still to do, and how long requests, syncs and work took; a start brings groups back', async () => {
    const broker = await BrokerServer.start({ flags: FLAGS, env: { TRILOG_METRICS_SERIES_MAX: '2' } })
    after(() => broker.kill())
    const dead = await broker.newStream()
    const orders = await broker.newStream()
    await orders.fill(10)
    const workers = orders.group('workers')
    const [acked, held, delayed, poison] = await workers.claim({ max_messages: 4, lease_timeout_millis: 3_600_000 })
    assert.equal((await acked!.ack()).status, 200)
    assert.equal((await delayed!.retry(3_600_000)).status, 200)
    assert.equal((await poison!.deadLetter(dead.name)).status, 200)
    const labels = { stream: orders.name, group: 'workers' }
    const before = await scrape(broker)
    assert.deepEqual(countsOf(before, labels), [8, 1, 1, 1])
    const oldest = before.value('mq_group_oldest_unfinished_seconds', labels)!
    assert(oldest > 0 && oldest < 3600, String(oldest))
    assert(oldest <= (await scrape(broker)).value('mq_group_oldest_unfinished_seconds', labels)!)

    for (const group of ['second', 'third', 'fourth']) await orders.group(group).claim()
    const rest = { stream: 'other', group: 'other', summed: 'true' }
    const more = await scrape(broker)
    assert.deepEqual(countsOf(more, rest), [20, 2, 0, 0])
    assert.deepEqual(more.labelsOf('mq_group_lag'), [labels, { ...labels, group: 'second' }, rest])

    const published = { route: 'POST /v1/streams/{stream}/records/batch', status: '2xx' }
    assert.equal(more.value(`${DURATION}_count`, published), 1)
    assert.equal(more.value('mq_http_request_body_bytes_count', { route: published.route }), 1)
    assert.equal(more.value('mq_publish_duration_seconds_count'), 1)
    assert.equal(more.value('mq_queue_claim_to_ack_seconds_count'), 1)
    const syncs = more.value('mq_log_syncs_total')!
    assert(syncs > 0 && more.value('mq_log_sync_duration_seconds_count', { directory: '0' })! >= syncs)
    assert(more.value('process_cpu_seconds_total')! > 0)
    assert.equal(more.labelsOf('trilog_build_info').length, 1)
    assert.equal(held!.attempt, 1)

    await broker.restart()
    assert.deepEqual(countsOf(await scrape(broker), labels), [8, 1, 1, 1])
  })

  it('name routes, never paths', async () => {
    const broker = await BrokerServer.start({ flags: FLAGS })
    after(() => broker.kill())
    for (const path of ['/secret-path', '/v1/streams/secret-stream', '/health?secret'])
      await broker.request('GET', path)
    await broker.request('DELETE', '/health')
    const shown = await scrape(broker)
    const routes = shown.labelsOf(DURATION).map(({ route, status }) => `${route} ${status}`)
    assert.deepEqual([...new Set(routes)].toSorted(), ['GET /health 2xx', 'GET /v1/streams/{stream} 4xx', 'other 4xx'])
  })

  it('show a caller the groups of its tenant, and the process', async () => {
    const keys = ['acme', 'globex'].map((tenant) => ({
      key_sha256: createHash('sha256').update(`${tenant}-key`).digest('hex'),
      tenant,
      principal: tenant,
      grants: ['tenant.inspect', 'create_stream', 'stream.publish', 'stream.consume'].map((permission) => ({
        permission,
      })),
    }))
    const file = `${temporaryDirectory()}/keys.json`
    writeFileSync(file, JSON.stringify({ keys }))
    const flags = [...FLAGS, '--auth-mode', 'api-key', '--credentials-file', file]
    const broker = await BrokerServer.start({ flags })
    after(() => broker.kill())
    for (const [i, tenant] of ['acme', 'globex'].entries()) {
      const ask = (method: string, path: string, body: object | null = null) =>
        broker.request(method, path, body, { authorization: `Bearer ${tenant}-key` })
      const stream = `/v1/streams/of-${tenant}`
      assert.equal((await ask('PUT', stream)).status, 201)
      const records = Array.from({ length: 3 + i }, (_, number) => ({ message_id: `m-${number}`, payload: 'p' }))
      assert.equal((await ask('POST', `${stream}/records/batch`, { records })).status, 200)
      assert.equal((await ask('POST', `${stream}/consumer-groups/g/claims`, {})).status, 200)
    }
    for (const [i, tenant] of ['acme', 'globex'].entries()) {
      const shown = await scrape(broker, { authorization: `Bearer ${tenant}-key` })
      const labels = { stream: `of-${tenant}`, group: 'g' }
      assert.deepEqual(shown.labelsOf('mq_group_lag'), [labels])
      assert.deepEqual(countsOf(shown, labels), [3 + i, 1, 0, 0])
      assert.deepEqual([shown.value('mq_groups'), shown.value('mq_publish_records_total')], [2, 7])
    }
    assert.equal((await broker.request('GET', '/metrics')).status, 401)
  })
})
