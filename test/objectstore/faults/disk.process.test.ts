import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { after, describe, it } from 'node:test'
import { ObjectStoreServer } from '../../support/objectstore.ts'
import type { ObjectReply, TestBucket, TestUpload } from '../../support/objectstore.ts'
import { eventually } from '../../support/waiting.ts'
import { HASTENED } from '../../support/process.ts'
import { WHERE_MOUNTED, mountSmallDisk } from '../../support/small-disk.ts'
import { BreakableObjectStore, assertFailed } from './breakable.ts'

const store = await BreakableObjectStore.start()
const { server, faults } = store
after(() => server.kill())

const LARGE = Buffer.alloc(700_000, 'large')

/** Tries every kind of change that stores something new. */
async function newThings(bucket: TestBucket, upload: TestUpload): Promise<Record<string, ObjectReply>> {
  const tagging = '<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>'
  const copy = { 'x-obj-copy-source': `/${bucket.name}/kept` }
  const etag = `"${createHash('md5').update('part').digest('hex')}"`
  return {
    bucket: await bucket.server.request('PUT', '/another-bucket'),
    object: await bucket.ask('PUT', '/new', { body: 'new' }),
    large: await bucket.ask('PUT', '/new', { body: LARGE }),
    overwrite: await bucket.ask('PUT', '/kept', { body: 'other' }),
    copy: await bucket.ask('PUT', '/new', { headers: copy }),
    tags: await bucket.ask('PUT', '/kept?tagging', { body: tagging }),
    upload: await bucket.ask('POST', '/new?uploads'),
    part: await upload.ask('PUT', '&partNumber=2', { body: 'part' }),
    largePart: await upload.ask('PUT', '&partNumber=2', { body: LARGE }),
    completion: await upload.complete([[1, etag]]),
  }
}

async function assertTakesNothingNew(bucket: TestBucket, upload: TestUpload): Promise<void> {
  const replies = Object.values(await newThings(bucket, upload))
  for (const reply of replies) assertFailed(reply, 'ServiceUnavailable')
}

const deleteTogether = (bucket: TestBucket, key: string): Promise<ObjectReply> => {
  const body = `<Delete><Object><Key>${key}</Key></Object></Delete>`
  return bucket.ask('POST', '?delete', {
    body,
    headers: { 'content-md5': createHash('md5').update(body).digest('base64') },
  })
}

/** Bytes of the log that are needed, counting all applied frames, also those that are not durable yet. */
async function neededBytes(): Promise<number> {
  const { text } = await server.request('GET', '/v1/metrics')
  return Number(/^objstore_live_bytes (\d+)$/m.exec(text)![1])
}

/** Name of the newest segment. */
function newestSegment(): string {
  const names = readdirSync(`${server.dataDirectory}/segments`).filter((name) => /^[0-9a-f]{16}$/.test(name))
  return names.sort().at(-1)!
}

describe('a disk that fails', () => {
  it('makes the store read-only until a restart when fdatasync of the log fails: changes are refused retryably, reads go on, nothing answered is missing', async (context) => {
    const bucket = await server.newBucket()
    await bucket.put('kept', 'kept')
    const upload = await bucket.newUpload('parted')
    await upload.part(1, 'part')
    const load = await store.load(context)
    await load.untilWorked(150)
    load.scene.failures = 'unknown'
    faults.set('fdatasync-eio', 'records.log')
    await load.during(eventually(async () => (await store.health()) === 503))
    assert.match((await server.request('GET', '/health')).text, /log: read-only: .*EIO/)
    assert.equal(store.logged('"msg":"the log is read-only"'), 1)
    await load.hold()
    await assertTakesNothingNew(bucket, upload)
    assertFailed(await bucket.ask('DELETE', '/kept'), 'ServiceUnavailable')
    await load.check(false)

    faults.clear('fdatasync-eio') // a sync that succeeds after one that failed proves nothing
    await load.hold()
    await assertTakesNothingNew(bucket, upload)
    assert.equal(await bucket.read('kept'), 'kept')
    assert.equal(await store.health(), 503)
    await load.checkAfterKill(server)
    assert.equal(await bucket.read('kept'), 'kept')
    await load.untilWorked(50)
    await load.finish()
  })

  it('that is slow delays what is stored, and whoever is told of it, not what is read', async () => {
    const bucket = await server.newBucket()
    await bucket.put('other', 'other')
    const upload = await bucket.newUpload('parted')
    const part = await upload.part(1, 'part')
    const before = await neededBytes()
    faults.set('fdatasync-slow', '1500')
    const order: string[] = []
    const tell = (what: 'read' | 'stored' | 'told', asking: Promise<ObjectReply>): Promise<ObjectReply> => {
      void asking.then(() => order.push(what))
      return asking
    }
    const put = tell('stored', bucket.ask('PUT', '/new', { body: 'new', headers: { 'if-none-match': '*' } }))
    await eventually(async () => (await neededBytes()) > before)
    const completed = tell('stored', upload.complete([[1, part]]))
    const told = [
      tell('told', bucket.ask('PUT', '/new', { body: 'other', headers: { 'if-none-match': '*' } })),
      tell('told', bucket.ask('GET', '?uploads')),
      tell('told', bucket.ask('HEAD', '/new')),
      tell('told', upload.complete([[1, part]])),
    ]
    await tell('read', bucket.ask('GET', '/other'))
    const [again] = await Promise.all(told)
    again!.refused('PreconditionFailed')
    await Promise.all([put, completed])
    assert.equal(order[0], 'read') // it was sent last; the others come together, on connections of their own
    faults.clear('fdatasync-slow')
    assert.equal(await bucket.read('new'), 'new')
  })

  it('that cannot read a segment fails the reads that need it, retryably, and nothing else', async () => {
    const bucket = await server.newBucket()
    await bucket.put('first', 'first')
    const segment = newestSegment()
    await bucket.put('large', Buffer.concat([LARGE, LARGE, LARGE])) // fills more than a segment
    await bucket.put('last', 'last')
    faults.set('read-eio', `/${segment}/`)
    assertFailed(await bucket.ask('GET', '/first'), 'ServiceUnavailable')
    const headers = { 'x-obj-copy-source': `/${bucket.name}/first` }
    assertFailed(await bucket.ask('PUT', '/copy', { headers }), 'ServiceUnavailable')
    assert.equal(await bucket.read('last'), 'last')
    assert.deepEqual(await bucket.keys(), ['first', 'large', 'last'])
    await bucket.put('new')
    faults.clear('read-eio')
    assert.equal(await bucket.read('first'), 'first')
    assert.equal(await bucket.read('large'), String(LARGE).repeat(3))
    const health = await server.request('GET', '/health')
    assert.deepEqual([health.status, health.text], [200, '"Healthy"\n'])
    assert.match(health.header('x-trilog-degraded')!, new RegExp(`reads .* failed, .*${segment}: EIO`))
    assert.match((await server.request('GET', '/readyz')).text, /"status":"degraded".*"kind":"read_errors"/)
    assert.match((await server.request('GET', '/v1/metrics')).text, /^objstore_read_errors_total [1-9]/m)
    await server.logged(/"reason":"[^"]*EIO[^"]*"[^\n]*"msg":"stored data could not be read"/)
  })
})

describe('a disk that is nearly full', () => {
  it(`gets its room back when everything is deleted after two restarts${WHERE_MOUNTED}`, async (context) => {
    const disk = mountSmallDisk(context, 160)
    if (disk === null) return
    const small = await ObjectStoreServer.start({
      env: { ...HASTENED, OBJSTORE_DATA_DIR: `${disk}/data`, OBJSTORE_SEGMENT_BYTES: String(8 << 20) },
    })
    context.after(() => small.kill())
    const bucket = await small.newBucket()
    const body = Buffer.alloc(1 << 20, 'body')
    const keys: string[] = []
    for (;;) {
      const key = `/${keys.length}`
      if ((await bucket.ask('PUT', key, { body })).status !== 200) break
      keys.push(key)
    }
    assert.ok(keys.length > 40, `${keys.length} MiB`)
    for (let restart = 0; restart < 2; restart += 1) {
      await small.stop()
      await small.startAgain()
    }
    for (const key of keys) assert.equal((await bucket.ask('DELETE', key)).status, 204)
    for (const key of ['/new', ...keys.slice(8)]) {
      await eventually(async () => (await bucket.ask('PUT', key, { body })).status === 200) // while the cleaner works
    }
  })

  it('takes nothing new, and still what deletes; when it is full, nothing changes, and with room all goes on', async () => {
    const bucket = await server.newBucket()
    for (const key of ['kept', 'deleted', 'together', 'later']) await bucket.put(key, key)
    await bucket.put('large', LARGE)
    const upload = await bucket.newUpload('parted')
    const part = await upload.part(1, 'part')
    const aborted = await bucket.newUpload('aborted')
    const failures = store.logged('request failed')
    faults.set('disk-full', String(16 << 20))
    await eventually(async () => (await bucket.ask('PUT', '/probe', { body: 'probe' })).status === 503)
    await assertTakesNothingNew(bucket, upload)
    assert.equal((await bucket.ask('DELETE', '/deleted')).status, 204)
    assert.deepEqual((await deleteTogether(bucket, 'together')).document('DeleteResult').texts('Deleted/Key'), [
      'together',
    ])
    assert.equal((await aborted.ask('DELETE')).status, 204)
    assert.equal(await store.health(), 200)
    assert.equal(store.logged('request failed'), failures)

    faults.set('disk-full', '0')
    await eventually(async () => (await bucket.ask('DELETE', '/later')).status === 503)
    assertFailed(await bucket.ask('DELETE', '/later'), 'ServiceUnavailable')
    const failed = (await deleteTogether(bucket, 'later')).document('DeleteResult')
    assert.deepEqual(failed.texts('Error/Code'), ['ServiceUnavailable'])
    assertFailed(await upload.ask('DELETE'), 'ServiceUnavailable')
    await assertTakesNothingNew(bucket, upload)
    const left = ['kept', 'large', ...(await bucket.keys('&prefix=later')), ...(await bucket.keys('&prefix=probe'))]
    assert.deepEqual(await bucket.keys(), left.sort())
    assert.equal(await bucket.read('large'), String(LARGE))

    faults.clear('disk-full')
    await eventually(async () => (await bucket.ask('PUT', '/new', { body: 'new' })).status === 200)
    await bucket.put('new-large', LARGE)
    assert.equal((await upload.complete([[1, part]])).status, 200)
    await server.kill()
    await server.startAgain()
    assert.deepEqual(await bucket.keys(), [...left, 'new', 'new-large', 'parted'].sort())
    assert.equal(await bucket.read('new-large'), String(LARGE))
    assert.equal(await bucket.read('parted'), 'part')
  })
})
