/** The contract's lines for all services that concern the object store's process: its start, its end, and what it keeps. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { failToStartObjectStore, ObjectStoreServer, TestBucket } from '../../support/objectstore.ts'
import type { ObjectReply } from '../../support/objectstore.ts'

const MIB = 1 << 20
const CORS =
  '<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>'

let store: ObjectStoreServer
before(async () => {
  store = await ObjectStoreServer.start()
})
after(() => store.stop())

describe('the ready line', () => {
  it('is the only thing on stdout, and says service, listener and pid', () => {
    const { http, ...rest } = store.readyLine
    assert.match(http, /^127\.0\.0\.1:[1-9]\d*$/)
    assert.deepEqual(rest, { service: 'objectstore', grpc: null, pid: store.pid })
    assert.equal(store.stdout.trim().split('\n').length, 1)
  })
})

describe('what was answered', () => {
  const large = Buffer.alloc(5 * MIB, 'large')
  const about = (reply: ObjectReply) =>
    ['etag', 'x-obj-meta-a', 'content-type', 'x-obj-tagging-count', 'x-obj-version-id', 'last-modified'].map((name) =>
      reply.header(name),
    )
  let bucket: TestBucket
  let uploadId = ''
  let former: (string | null)[]

  it('is there: buckets, objects, tags, documents, uploads', async () => {
    bucket = await store.newBucket()
    await bucket.put('small', 'small', { 'x-obj-meta-a': '1', 'content-type': 'a/b', 'x-obj-tagging': 't=1' })
    await bucket.put('large', large)
    await bucket.put('deleted', 'x')
    await bucket.ask('DELETE', '/deleted')
    ;(await bucket.ask('PUT', '?cors', { body: CORS })).succeeded(200)
    const upload = await bucket.newUpload('open')
    await upload.part(1, 'part')
    uploadId = upload.id
    former = about(await bucket.ask('HEAD', '/small'))
    await stillThere()
  })

  async function stillThere(): Promise<void> {
    const here = new TestBucket(store, bucket.name)
    assert.deepEqual(await here.keys(), ['large', 'small'])
    assert.deepEqual(about(await here.ask('HEAD', '/small')), former)
    assert((await here.ask('GET', '/large')).bytes.equals(large))
    ;(await here.ask('GET', '/deleted')).refused('NoSuchKey')
    ;(await here.ask('GET', '?cors')).succeeded(200)
    const parts = (await here.ask('GET', `/open?uploadId=${uploadId}`)).document('ListPartsResult')
    assert.deepEqual(parts.texts('Part/Size'), ['4'])
  }

  it('is still there after SIGTERM, which ends the process with 0, and a start', async () => {
    await store.restart()
    await stillThere()
  })
})

describe('SIGHUP', () => {
  it('without a credentials file changes nothing, and the log says so', async () => {
    store.signal('SIGHUP')
    await store.logged(/"level":"warn".*no credentials file is set/)
    assert.doesNotMatch(store.stderr, /credentials read again/)
    assert.equal((await store.request('GET', '/')).status, 200)
  })
})

describe('a start that cannot work', () => {
  const refused = async (setting: string, env: Readonly<Record<string, string>>): Promise<void> => {
    const { code, stdout, stderr } = await failToStartObjectStore(env)
    assert.deepEqual([code, stdout], [2, ''])
    assert(stderr.trim().split('\n').length === 1 && stderr.includes(setting), stderr)
  }
  it('names the setting in one line and exits with 2: a port that is taken, a data directory that another process has, a region that is none', async () => {
    await Promise.all([
      refused('OBJSTORE_BIND_ADDRESS', { OBJSTORE_BIND_ADDRESS: store.readyLine.http }),
      refused('OBJSTORE_DATA_DIR', { OBJSTORE_DATA_DIR: store.dataDirectory }),
      refused('OBJSTORE_REGION', { OBJSTORE_REGION: 'EU WEST' }),
    ])
    assert.equal((await store.request('GET', '/health')).json(), 'Healthy')
  })
})
