/** The tables of metrics list what services show after some traffic. */
import assert from 'node:assert/strict'
import { globSync } from 'node:fs'
import { describe, it } from 'node:test'
import { registerBucket } from '../../src/logstore/metrics.ts'
import { Metrics } from '../../src/observability/metrics.ts'
import { BrokerServer } from '../support/broker.ts'
import { clusterMetricsText } from '../support/cluster-metrics.ts'
import { Exposition } from '../support/exposition.ts'
import type { Family } from '../support/exposition.ts'
import { LogStoreServer } from '../support/logstore.ts'
import { ObjectStoreServer } from '../support/objectstore.ts'
import { JSON_TYPE } from '../support/http.ts'
import { PAGES, codeOf, document, handbook, root, tableOf } from './markdown.ts'
import { promtool, promtoolOrSkip } from './promtool.ts'

const pages = handbook()
const OF_PROCESS = /^(process|trilog)_/

/** Name, type, labels, meaning. */
const rowOf = ({ name, type, help, samples }: Family): string[] => {
  const labels = new Set(samples.flatMap((sample) => Object.keys(sample.labels)))
  labels.delete('le')
  return [`\`${name}\``, type, [...labels].map((label) => `\`${label}\``).join(', '), help]
}

async function shownBy(
  start: () => Promise<{ metrics(): Promise<string>; kill(): Promise<unknown> }>,
): Promise<string> {
  const service = await start()
  const text = await service.metrics()
  await service.kill()
  return text
}

const services = {
  'Metrics of the log store': async () => {
    const store = await LogStoreServer.start()
    const log = { timeUnixNano: '1', body: { stringValue: 'hello' } }
    const attributes = ['service.name', 'tenant_id'].map((key) => ({ key, value: { stringValue: 'local' } }))
    const batch = { resourceLogs: [{ resource: { attributes }, scopeLogs: [{ logRecords: [log] }] }] }
    const post = (path: string, body: object) => store.request(path, Buffer.from(JSON.stringify(body)))
    assert.equal((await post('/v1/otlp/logs', batch)).status, 200)
    assert.equal((await post('/v1/query', { dataset: 'local' })).status, 200)
    assert.equal((await post('/v1/otlp/logs', {})).status, 400)
    assert.equal((await post('/v1/query', {})).status, 400)
    return { metrics: async () => (await store.request('/metrics', null)).text, kill: () => store.kill() }
  },
  'Metrics of the object store': async () => {
    const store = await ObjectStoreServer.start()
    await store.request('PUT', '/bucket')
    await store.request('PUT', '/bucket/key', { body: 'value' })
    assert.equal((await store.request('GET', '/bucket/key')).status, 200)
    assert.equal((await store.request('GET', '/bucket/nothing')).status, 404)
    return { metrics: async () => (await store.request('GET', '/v1/metrics')).text, kill: () => store.kill() }
  },
  'Metrics of the broker': async () => {
    const broker = await BrokerServer.start({ flags: ['--metrics-exposure', 'http'] })
    const stream = await broker.newStream()
    await stream.publish()
    await stream.group().claimOne()
    assert.equal((await broker.request('GET', '/nowhere', null, { accept: JSON_TYPE })).status, 404)
    return { metrics: async () => (await broker.request('GET', '/metrics')).text, kill: () => broker.kill() }
  },
}

describe('metrics that are named', () => {
  const headings = [
    ...Object.keys(services),
    'Metrics of the process',
    'Metrics of queries from a bucket',
    'Metrics of the cluster',
  ]
  const known = new Set(headings.flatMap((heading) => tableOf(pages, heading)).map(([name]) => codeOf(name)))
  const NAME = /\b(?:logstore|objstore|mq|process|trilog)_[a-z0-9_]+\b/g

  for (const name of [...PAGES, 'CHANGELOG.md', 'ARCHITECTURE.md']) {
    it(`in ${name} are in one of the tables`, () => {
      for (const [code] of document(name).matchAll(/`[a-z0-9_]+`/g)) {
        for (const [named] of code.matchAll(NAME)) assert(known.has(named), named)
      }
    })
  }

  for (const name of globSync('deploy/**/*.{yml,json}', { cwd: root })) {
    it(`in ${name} are in one of the tables`, () => {
      const named = Array.from(document(name).matchAll(NAME), ([each]) => each)
      assert(named.length > 5)
      for (const each of named) assert(known.has(each) || known.has(each.replace(/_(bucket|count|sum)$/, '')), each)
    })
  }
})

describe('the table', () => {
  for (const [heading, start] of Object.entries(services)) {
    let text = ''

    it(`${heading} names each with its type, its labels and its meaning`, async () => {
      text = await shownBy(start)
      const shown = [...new Exposition(text).families.values()]
      assert.deepEqual(tableOf(pages, heading), shown.filter(({ name }) => !OF_PROCESS.test(name)).map(rowOf))
      assert.deepEqual(
        tableOf(pages, 'Metrics of the process'),
        shown.filter(({ name }) => OF_PROCESS.test(name)).map(rowOf),
      )
    })

    const { name, skip } = promtoolOrSkip(`${heading}: promtool check metrics finds nothing wrong`)
    it(name, { skip }, () => {
      assert.notEqual(text, '', 'the test before has it')
      assert.equal(promtool(['check', 'metrics'], text), '')
    })
  }

  it('of the cluster names each likewise', () => {
    const { families } = new Exposition(clusterMetricsText())
    assert.deepEqual(tableOf(pages, 'Metrics of the cluster'), [...families.values()].map(rowOf))
  })

  const { name: checked, skip } = promtoolOrSkip('of the cluster: promtool check metrics finds nothing wrong')
  it(checked, { skip }, () => {
    assert.equal(promtool(['check', 'metrics'], clusterMetricsText()), '')
  })

  it('of queries from a bucket names each likewise', () => {
    const metrics = new Metrics()
    registerBucket(metrics, { bundles: 1, requests: 2, bytesRead: 3, failures: 4 })
    const { families } = new Exposition(metrics.text(undefined))
    assert.deepEqual(tableOf(pages, 'Metrics of queries from a bucket'), [...families.values()].map(rowOf))
  })
})
