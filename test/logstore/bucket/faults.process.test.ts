/** Contract "Log store": a failed read of the bucket is object_storage_read_failed, and never an answer that leaves something out. */
import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { after, afterEach, before, describe, it } from 'node:test'
import { LogStoreServer } from '../../support/logstore.ts'
import type { Rejection, Reply } from '../../support/logstore.ts'
import { ObjectStoreServer } from '../../support/objectstore.ts'
import { TestStore } from '../../support/stored-segments.ts'
import type { QueryResponseBody } from '../../support/stored-segments.ts'
import { eventually } from '../../support/waiting.ts'
import { Relay } from './relay.ts'
import type { Fault, RelayedRequest } from './relay.ts'
import { fillBundles } from './bundles.ts'
import {
  ACCESS_KEY_ID,
  BucketCopy,
  SECRET_ACCESS_KEY,
  askServer,
  metricOf,
  queryOf,
  readsBucketAt,
  untilBundles,
} from './support.ts'

const PERMISSIONS = ['read', 'write', 'list', 'delete', 'admin']
const KEY = {
  access_key_id: ACCESS_KEY_ID,
  secret_access_key: SECRET_ACCESS_KEY,
  principal: 'p',
  permissions: PERMISSIONS,
}
const ALL = { dataset: 'orders' }
/** The log store's clock is two hours ahead. */
const SKEWED = 'data:text/javascript,const now=Date.now;Date.now=()=>now.call(Date)+7200000'

interface Ready {
  readonly status: string
  readonly reasons: readonly { readonly kind: string; readonly reason: string }[]
}

/** The bundles, the bucket that they are in, and the answer that has all of them. */
class Scene {
  readonly store = new TestStore()
  readonly objects: ObjectStoreServer
  readonly relay: Relay
  readonly bucket: BucketCopy
  readonly whole: QueryResponseBody
  #reader: LogStoreServer | null = null

  static async open(): Promise<Scene> {
    const objects = await ObjectStoreServer.start({ keys: [KEY] })
    return new Scene(objects, await Relay.open(objects.url), await BucketCopy.create(objects.url))
  }

  private constructor(objects: ObjectStoreServer, relay: Relay, bucket: BucketCopy) {
    this.objects = objects
    this.relay = relay
    this.bucket = bucket
    fillBundles(this.store, 3)
    this.whole = this.store.query('local', ALL)
  }

  /** Starts a log store that has read nothing yet, on a bucket without faults. */
  async startReader(env = {}): Promise<LogStoreServer> {
    this.relay.faultOf = () => null
    await this.bucket.sync(this.store.directory)
    this.#reader = await LogStoreServer.start({ env: readsBucketAt(this.relay.url, env) })
    return this.#reader
  }

  async endReader(): Promise<void> {
    await this.#reader?.kill()
    this.#reader = null
    this.relay.requests.length = 0
  }

  async close(): Promise<void> {
    this.relay.close()
    this.bucket.close()
    this.store.close()
    await this.objects.stop()
  }
}

function rejectionOf(reply: Reply, status: number, kind: string): Rejection {
  assert.equal(reply.status, status, reply.text)
  const rejection = reply.rejection()
  assert.equal(rejection.error.kind, kind)
  return rejection
}

const isRead = ({ key, range }: RelayedRequest): boolean => range !== null && !key!.endsWith('.json')

describe('a query of a bucket', () => {
  let scene: Scene
  before(async () => (scene = await Scene.open()))
  afterEach(() => scene.endReader())
  after(() => scene.close())
  const [first, second] = ['0000000000000000', () => readdirSync(scene.store.directory).toSorted()[1]!] as const

  async function refused(server: LogStoreServer, kind: string, status: number, body: object = ALL): Promise<string> {
    const reply = await queryOf(server, body)
    const rejection = rejectionOf(reply, status, kind)
    assert.equal(rejection.retryable, true)
    return rejection.error.message
  }

  for (const fault of [500, 503, 'cut', 'short'] as const) {
    it(`is answered in spite of one ${fault}, and refused while every read ends so`, async () => {
      const server = await scene.startReader()
      const met = new Set<string>()
      scene.relay.faultOf = (request) => {
        const name = `${request.key} ${request.range}`
        if (!isRead(request) || met.has(name)) return null
        met.add(name)
        return fault
      }
      assert.deepEqual(await askServer(server)(ALL), scene.whole)
      assert(met.size > 3)

      await scene.endReader()
      const again = await scene.startReader()
      scene.relay.faultOf = (request) => (isRead(request) ? fault : null)
      const message = await refused(again, 'object_storage_read_failed', 502)
      assert.match(message, /^bundle 0{16}: index\.bin cannot be read from object storage \(.+\); retry later$/)
      assert(await metricOf(again, 'query_s3_failures_total'))
      // One unreadable bundle is enough: the records of the others are no answer.
      scene.relay.faultOf = ({ key }) => (key === `${second()}/records.log` ? fault : null)
      await refused(again, 'object_storage_read_failed', 502)
      scene.relay.faultOf = () => null
      assert.deepEqual(await askServer(again)(ALL), scene.whole)
    })
  }

  it('ends with its deadline while the object store says nothing, and goes on with the next one', async () => {
    const server = await scene.startReader()
    const silent: Fault = 'silence'
    scene.relay.faultOf = (request) => (isRead(request) ? silent : null)
    await refused(server, 'deadline_exceeded', 504, { ...ALL, deadline_ms: 300 })
    scene.relay.faultOf = () => null
    assert.deepEqual(await askServer(server)(ALL), scene.whole)
  })

  it('is refused when an object is missing, until the bundle is seen to be gone', async () => {
    const server = await scene.startReader()
    await scene.bucket.remove(`${first}/records.log`)
    // The bundle may be listed as it was, be known to be gone, or be in between; or nothing was listed yet.
    const reply = await queryOf(server)
    if (reply.status !== 200) {
      const { message } = rejectionOf(reply, 502, 'object_storage_read_failed').error
      assert.match(message, /is missing|not in the bucket|was not looked at yet/)
    }
    await untilBundles(server, 2)
    const rest = await askServer(server)(ALL)
    assert.deepEqual([rest.matched_records, rest.scanned_bundles], [6, 2])
  })

  it('notices an object that was replaced since it was listed, and one whose bytes are not what its manifest says', async () => {
    const server = await scene.startReader({ LOGSTORE_QUERY_S3_REFRESH_SECONDS: '86400' })
    // Reading ahead may notice this before the query does, and have the bucket listed again. Listings fail, so that this does not happen yet.
    scene.relay.faultOf = ({ key }) => (key === null ? 403 : null)
    const index = readFileSync(`${scene.store.directory}/${first}/index.bin`)
    await scene.bucket.put(`${first}/index.bin`, Buffer.from(index).fill(1, index.byteLength - 8))
    const message = await refused(server, 'object_storage_read_failed', 502)
    assert.match(message, /index\.bin cannot be read from object storage \(the object was replaced\)/)
    // Once it is listed again, the object is an index whose last block is wrong.
    scene.relay.faultOf = () => null
    await eventually(async () => {
      const reply = await queryOf(server)
      const { message } = rejectionOf(reply, 502, 'object_storage_read_failed').error
      return /index\.bin is damaged: checksum mismatch/.test(message)
    })
    const records = readFileSync(`${scene.store.directory}/${second()}/records.log`)
    const damaged = Buffer.from(records)
    damaged[200]! ^= 1
    await scene.bucket.put(`${second()}/records.log`, damaged)
    await scene.bucket.put(`${first}/index.bin`, index)
    await eventually(async () => {
      const reply = await queryOf(server)
      const { message } = rejectionOf(reply, 502, 'object_storage_read_failed').error
      return /the frame at position \d+ is damaged/.test(message)
    })
    assert.equal(await metricOf(server, 'quarantine_incidents'), 0)
    await scene.bucket.put(`${second()}/records.log`, records)
    await eventually(async () => (await queryOf(server)).status === 200)
    assert.deepEqual(await askServer(server)(ALL), scene.whole)
  })

  it('is refused by a reader that finds a bundle damaged with nothing beside it, until that is whole', async (context) => {
    await scene.startReader()
    await scene.endReader()
    const compacted = TestStore.open(context)
    fillBundles(compacted, 3)
    compacted.compact()
    const whole = readFileSync(`${compacted.directory}/${first}/compact.bin`)
    const names = readdirSync(`${scene.store.directory}/${first}`)
    for (const name of names) await scene.bucket.remove(`${first}/${name}`)
    await scene.bucket.put(`${first}/compact.bin`, Buffer.from(whole).fill(1, 20, 24))
    const server = await LogStoreServer.start({ env: readsBucketAt(scene.relay.url) })
    try {
      await untilBundles(server, 3)
      const message = await refused(server, 'object_storage_read_failed', 502)
      assert.match(message, /^bundle 0{16}: compact\.bin cannot be read .+ \(its files in the bucket are damaged/)
      await scene.bucket.put(`${first}/compact.bin`, whole)
      await eventually(async () => (await queryOf(server)).status === 200)
      assert.deepEqual(await askServer(server)(ALL), scene.whole)
    } finally {
      await server.stop()
      await scene.bucket.remove(`${first}/compact.bin`)
    }
  })

  it('is answered although the clock of this machine is wrong by two hours', async () => {
    const server = await scene.startReader({ NODE_OPTIONS: `--import "${SKEWED}"` })
    assert.deepEqual(await askServer(server)(ALL), scene.whole)
  })

  it('is refused from the start while the bucket cannot be reached, health names it, and ingest goes on', async () => {
    const unreachable = readsBucketAt('http://127.0.0.1:9')
    const server = await LogStoreServer.start({ env: unreachable })
    try {
      assert.match(await refused(server, 'object_storage_read_failed', 502), /ECONNREFUSED/)
      const health = await server.request('/health', null)
      assert.deepEqual([health.status, health.json()], [200, 'Healthy'])
      assert.match(health.headers.get('x-trilog-degraded')!, /ECONNREFUSED/)
      const ready = (await server.request('/readyz', null)).ok() as Ready // checked field by field
      assert.deepEqual([ready.status, ready.reasons.map(({ kind }) => kind)], ['degraded', ['query_store']])
      const attributes = [{ key: 'tenant_id', value: { stringValue: 'local' } }]
      const logs = { resourceLogs: [{ resource: { attributes }, scopeLogs: [{ logRecords: [{}] }] }] }
      ;(await server.request('/v1/otlp/logs', JSON.stringify(logs))).ok()
    } finally {
      await server.stop()
    }
  })

  it('goes on with what was seen when the bucket cannot be listed any more, and names it until it can', async () => {
    const server = await scene.startReader()
    assert.deepEqual(await askServer(server)(ALL), scene.whole)
    const readiness = async (): Promise<Ready> => (await server.request('/readyz', null)).ok() as Ready // looked at below
    scene.relay.faultOf = ({ key }) => (key === null ? 403 : null)
    await eventually(async () => (await readiness()).status === 'degraded')
    assert.match((await readiness()).reasons[0]!.reason, /403 AccessDenied/)
    assert.deepEqual(await askServer(server)(ALL), scene.whole)
    scene.relay.faultOf = () => null
    await eventually(async () => (await readiness()).status === 'ok')
  })
})
