import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { eventually } from '../../support/waiting.ts'
import { BreakableObjectStore, assertFailed } from './breakable.ts'

const store = await BreakableObjectStore.start()
const { server, faults } = store
after(() => server.kill())

const LARGE = Buffer.alloc(700_000, 'large')

describe('a digest lane that dies', () => {
  it('fails the bodies that it had, retryably, and nothing else; the next one gets another lane', async () => {
    const bucket = await server.newBucket()
    await bucket.put('kept', LARGE)
    const upload = await bucket.newUpload('parted')
    for (const put of [
      () => bucket.ask('PUT', '/kept', { body: Buffer.alloc(700_000, 'other') }),
      () => upload.ask('PUT', '&partNumber=1', { body: LARGE }),
      () => bucket.ask('PUT', '/copy', { headers: { 'x-obj-copy-source': `/${bucket.name}/kept` } }),
    ]) {
      faults.set('exit-digest', '1') // a lane looks for it after each piece of work
      await eventually(async () => {
        const [reply] = await Promise.all([put(), bucket.put('small', 'small')])
        if (reply.status === 200) return false
        assertFailed(reply, 'InternalError')
        return true
      })
      assert((await bucket.read('kept')).length === LARGE.length)
      assert.equal((await put()).status, 200)
    }
    assert.equal(await store.health(), 200)
    assert.equal(store.logged('a digest lane died'), 3)
  })
})

describe('a reader thread that dies', () => {
  it('fails what it read as retryable, unless main finds it in the page cache; it is replaced, and the next request is right', async () => {
    const bucket = await server.newBucket()
    await bucket.put('small', 'small')
    await bucket.put('large', LARGE)
    faults.set('exit-read', 'FrameReader.')
    assertFailed(await bucket.ask('GET', '/small'), 'ServiceUnavailable')
    assert.equal(await bucket.read('small'), 'small')
    await bucket.ask('HEAD', '/large')
    faults.set('exit-read', 'FrameReader.')
    const reply = await bucket.ask('GET', '/large')
    if (reply.status === 200) assert.equal(reply.text, String(LARGE))
    else assertFailed(reply, 'ServiceUnavailable')
    assert.equal(await bucket.read('large'), String(LARGE))
    assert.equal(await store.health(), 200)
  })
})

describe('a thread that dies under load', () => {
  it('costs nothing that was answered, whichever it is', async (context) => {
    const load = await store.load(context)
    load.scene.failures = 'undone'
    const { traffic } = load.scene
    for (const [name, content] of [
      ['exit-journal', String(load.random.between(1, 60))],
      ['exit-digest', String(load.random.between(1, 60))],
      ['exit-read', 'FrameReader.'],
    ] as const) {
      await load.untilWorked(100)
      await load.during(eventually(faults.hits(name, content, () => traffic.failures)))
      await load.during(eventually(async () => (await store.health()) === 200))
    }
    faults.set('exit-write', 'checkpoint-')
    const failed = (): boolean => store.logged('a checkpoint could not be written') > 0
    await load.during(eventually(failed))
    await load.untilWorked(100)
    await load.hold()
    await load.check()
    await load.checkAfterKill(server)
    await load.finish()
  })
})
