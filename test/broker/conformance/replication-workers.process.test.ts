/** Specification "Replication", contract "Broker": two nodes, where one ships its streams to the other. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { PublishReply } from '../../../src/broker/wire/record-answers.ts'
import { BrokerServer, assertRefused } from '../../support/broker.ts'
import { Site, boundTo, numbered, policyTo } from '../../support/site.ts'
import { eventually } from '../../support/waiting.ts'

describe('a node with a binding', () => {
  let source: Site
  let target: Site
  before(async () => {
    target = new Site(await BrokerServer.start())
    const binding = boundTo([policyTo(target.node.url, { streams: ['orders*', 'held', 'waiting*'] })])
    const flags = [...binding, '--metrics-exposure', 'http']
    source = new Site(await BrokerServer.start({ flags }))
  })
  after(async () => {
    await source.node.stop()
    await target.node.stop()
  })

  it('ships the streams that its policies match, in order, once, and no others', async () => {
    await source.create('orders-1')
    await source.create('private')
    await source.publish('orders-1', numbered(0, 300))
    await source.publish('private', numbered(0, 3))
    await eventually(async () => (await target.ids('orders-1')).length === 300)
    assert.deepEqual(await target.ids('orders-1'), numbered(0, 300))
    assert.deepEqual(await target.ids('private'), [])
    assert.equal((await source.status()).status, 'running')
    await eventually(async () => (await source.worker('orders-1')).state === 'idle')
    const { checkpoints, scheduler, transport } = await source.status()
    assert.deepEqual(
      checkpoints.filter(({ stream }) => stream === 'orders-1'),
      [
        {
          tenant: 'local',
          stream: 'orders-1',
          source_site: 'a',
          target_site: 'b',
          policy: 'dr',
          next_offset: 300,
          skipped_records: 0,
        },
      ],
    )
    assert.deepEqual([scheduler.state, transport.state], ['running', 'ok'])
    const metrics = (await source.node.request('GET', '/metrics')).text
    assert.match(metrics, /^mq_replication_shipped_records_total [3-9]\d\d/m)
    assert.match(metrics, /^mq_replication_lag_records \d/m)
  })

  it('a poll answers when what was there has arrived', async () => {
    await source.create('orders-2')
    await source.publish('orders-2', numbered(0, 5))
    const polled = await source.poll()
    assert.deepEqual(await target.ids('orders-2'), numbered(0, 5))
    assert.equal(polled.failed_workers, 0)
    assert.equal(polled.transport.state, 'ok')
    assertRefused(await source.node.request('POST', '/v1/replication/workers/poll', { a: 1 }), 400, 'invalid_payload')
  })

  it('a paused worker ships nothing, also after a restart, until it is resumed; both are audited', async () => {
    await source.create('held')
    const { control, summary } = await source.control('pause', 'held')
    assert.deepEqual([control.state, control.stream, control.reason], ['paused', 'held', 'maintenance'])
    assert.equal(summary.workers.length, 1)
    await source.publish('held', numbered(0, 2))
    await source.poll()
    assert.deepEqual(await target.ids('held'), [])
    await source.node.restart()
    assert.equal((await source.worker('held')).state, 'paused')
    await source.poll()
    assert.deepEqual(await target.ids('held'), [])
    assert.equal((await source.control('resume', 'held')).control.state, 'resumed')
    await source.poll()
    assert.deepEqual(await target.ids('held'), numbered(0, 2))
    assert.equal((await source.events('replication_paused')).length, 1)
    assert.equal((await source.events('replication_resumed')).length, 1)
  })

  it('a worker that there is not is 404 replication_worker_not_found', async () => {
    await source.create('other')
    const good = { stream: 'orders-1', source_site: 'a', target_site: 'b' }
    for (const more of [{ stream: 'other' }, { stream: 'unknown' }, { source_site: 'x' }, { tenant: 'acme' }]) {
      for (const verb of ['pause', 'resume']) {
        const reply = await source.node.request('POST', `/v1/replication/workers/${verb}`, { ...good, ...more })
        assertRefused(reply, 404, 'replication_worker_not_found')
      }
    }
  })

  it('publishes of replication-policy:<name> are answered when the target has them, with a receipt', async () => {
    await source.create('waiting', { default_durability: 'replication-policy:dr' })
    const published = (
      await source.node.request('POST', '/v1/streams/waiting/records', { message_id: 'm-0', payload: 'x' })
    ).succeeded(PublishReply, 201)
    assert.deepEqual(await target.ids('waiting'), ['m-0'])
    assert.deepEqual(published.acknowledgement, { durability: 'local-sync', durable: true, replicas: 1 })
    const { acknowledged_at_ms, ...receipt } = published.replication_receipt!
    assert(acknowledged_at_ms >= published.ingest_time_ms)
    assert.deepEqual(receipt, {
      policy: 'dr',
      source_site: 'a',
      target_site: 'b',
      next_expected_offset: 1,
      target_watermark: 1,
    })
    const batch = await source.publish('waiting', numbered(1, 4))
    assert.equal(batch.replication_receipt?.next_expected_offset, 4)
    assert.deepEqual(await target.ids('waiting'), numbered(0, 4))
  })

  it('and 503 replication_unavailable where the policy is unknown, not of the stream, or its worker paused: nothing is stored', async () => {
    await source.create('waiting-unknown', { default_durability: 'replication-policy:none' })
    await source.create('not-matched', { default_durability: 'replication-policy:dr' })
    await source.create('waiting-paused', { default_durability: 'replication-policy:dr' })
    await source.control('pause', 'waiting-paused')
    for (const stream of ['waiting-unknown', 'not-matched', 'waiting-paused']) {
      const record = { message_id: 'm', payload: 'x' }
      const reply = await source.node.request('POST', `/v1/streams/${stream}/records`, record)
      assertRefused(reply, 503, 'replication_unavailable')
      assert.deepEqual(await source.ids(stream), [])
    }
    const explicit = { message_id: 'm', payload: 'x', durability_mode: 'local-sync' }
    const reply = await source.node.request('POST', '/v1/streams/waiting-paused/records', explicit)
    assert.equal(reply.succeeded(PublishReply, 201).replication_receipt, undefined)
  })
})
