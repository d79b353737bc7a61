/** The steps of the pages, run like a reader would, against a real process. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { describe, it, test } from 'node:test'
import { parseBrokerCredentials } from '../../src/config/broker-credentials.ts'
import { ReplicationStatusReply } from '../../src/broker/wire/node-answers.ts'
import { parseQuotas } from '../../src/config/quotas.ts'
import { parseReplicationBinding } from '../../src/config/replication-binding.ts'
import { parseCredentials } from '../../src/objectstore/s3/auth/credentials.ts'
import { parseTenantPolicy } from '../../src/logstore/tenants/tenant-policy-file.ts'
import { BrokerServer } from '../support/broker.ts'
import { eventually } from '../support/waiting.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { RunningService, launch } from '../support/process.ts'
import type { Command, ReadyLine } from '../support/process.ts'
import { PAGES, blocksOf, document } from './markdown.ts'
import { runTour, shell } from './tour.ts'

const DEFAULT_ADDRESSES = { logstore: '127.0.0.1:4318', objectstore: '127.0.0.1:9000', broker: '127.0.0.1:7400' }
type Service = keyof typeof DEFAULT_ADDRESSES
/** Output of the step about health, metrics and OpenAPI, which the page does not show. */
const ABOUT: Readonly<Record<string, readonly RegExp[]>> = {
  'docs/start-log-store.md': [
    /^"Healthy"/,
    /^logstore_ingest_collapsed_records_total 1$/m,
    /^\{"openapi":"3.1.0",.*"\/v1\/query"/m,
  ],
  'docs/start-object-store.md': [/^"Healthy"/, /^objstore_buckets 1$/m],
}

/** All services in one process, like `npm start`. */
class Trilog extends RunningService {
  static async start(): Promise<Trilog> {
    const directory = temporaryDirectory()
    const command: Command = {
      entry: 'src/start.js',
      args: [],
      env: {
        LOGSTORE_BIND_ADDRESS: '127.0.0.1:0',
        LOGSTORE_DATA_DIR: `${directory}/logstore`,
        OBJSTORE_BIND_ADDRESS: '127.0.0.1:0',
        OBJSTORE_DATA_DIR: `${directory}/objectstore`,
        MQ_HTTP_BIND: '127.0.0.1:0',
        MQ_DATA_DIR: `${directory}/broker`,
      },
    }
    const trilog = new Trilog(command, await launch(command))
    await eventually(() => trilog.readyLines.length === Object.keys(DEFAULT_ADDRESSES).length)
    return trilog
  }

  get readyLines(): readonly ReadyLine[] {
    const lines = this.stdout.matchAll(/^ready (\{.*\})\n/gm)
    return Array.from(lines, ([, line]) => JSON.parse(line!) as ReadyLine) // the contract says so
  }

  /** The text with the addresses of this process instead of the default ones. */
  addressed(text: string): string {
    return this.readyLines.reduce((rest, { service, http }) => {
      assert(isService(service))
      return rest.replaceAll(DEFAULT_ADDRESSES[service], http)
    }, text)
  }
}

const isService = (name: string): name is Service => name in DEFAULT_ADDRESSES

/** Pages whose tours need other processes than `npm start`, or a listener beside it. Each has a test of its own. */
const WITH_OWN_TEST = new Set(['docs/backup.md', 'docs/cluster.md', 'docs/traces.md'])

describe('tours', () => {
  const hasTour = (page: string): boolean => blocksOf(document(page), 'tour').length > 0
  for (const page of PAGES.filter((each) => hasTour(each) && !WITH_OWN_TEST.has(each))) {
    it(`${page} runs block by block, and shows what it says`, async () => {
      const trilog = await Trilog.start()
      const { steps, outputs } = await runTour(blocksOf(trilog.addressed(document(page)), 'tour'))
      const about = steps.findIndex(({ text }) => text.includes('/openapi.json') || text.includes('/v1/metrics'))
      for (const pattern of ABOUT[page] ?? []) assert.match(outputs[about]!, pattern)
      await trilog.stop()
    })
  }
})

test('the example of a tenant policy is one, and its digest is made as shown', async () => {
  const [example, command] = blocksOf(document('docs/log-store.md'), 'policy')
  const { tenants } = parseTenantPolicy(example!.text, 1)
  const { id, credentials, limits } = tenants[0]!
  assert.equal(id, 'acme')
  assert.deepEqual(limits, { windowSeconds: 60, records: 600_000, bytes: Infinity, concurrentRequests: 32 })
  const digest = (await shell(command!.text, temporaryDirectory())).split(' ')[0]
  assert.equal(credentials[0]?.tokenDigest.toString('hex'), digest)
})

test('the example of a quotas file is one', () => {
  const [example] = blocksOf(document('docs/broker.md'), 'quotas')
  assert.deepEqual(parseQuotas(example!.text).tenants.get('local'), {
    publishRecordsPerSecond: 1000,
    publishBytesPerSecond: 1_048_576,
    consumersPerGroup: 16,
    replicationEgressBytesPerSecond: null,
  })
})

test('the example of a replication binding is one, and a node starts with it', async () => {
  const [example] = blocksOf(document('docs/replication.md'), 'binding')
  const [policy] = parseReplicationBinding(example!.text, { PARIS_KEY: 'k' })
  assert.deepEqual([policy?.name, policy?.streams, policy?.forward], ['dr', ['orders*'], false])
  assert.equal(policy?.applyUrl, 'http://10.0.0.2:7400/v1/replication/target/apply')
  const file = `${temporaryDirectory()}/binding.json`
  writeFileSync(file, example!.text)
  const flags = ['--replication-binding-file', file]
  const broker = await BrokerServer.start({ flags, env: { PARIS_KEY: 'k' } })
  assert.equal((await broker.get('/v1/replication/status', ReplicationStatusReply)).status, 'running')
  await broker.stop()
})

test('the example of a file of keys of the broker is one', () => {
  const [example] = blocksOf(document('docs/broker.md'), 'brokerkeys')
  const [key] = parseBrokerCredentials(example!.text, 'api-key')
  assert.deepEqual([key?.tenant, key?.principal, key?.grants.length], ['acme', 'shop', 3])
})

test('the example of a credentials file is one', () => {
  const [example] = blocksOf(document('docs/start-object-store.md'), 'credentials')
  const keys = Array.from(parseCredentials(example!.text).values(), ({ id, principal }) => [
    id,
    principal.id,
    [...principal.permissions],
  ])
  assert.deepEqual(keys, [
    ['AKIDSHOP', 'shop', ['read', 'write', 'list', 'delete', 'admin']],
    ['AKIDREPORT', 'report', ['read', 'list']],
  ])
})
