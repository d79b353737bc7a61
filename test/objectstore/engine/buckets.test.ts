/** Buckets that other requests change while their creation is on its way to the disk. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { StoreWorld } from './world.ts'

describe('a bucket that is created', () => {
  it('is answered as created, though it is deleted before that is told', async () => {
    const world = await StoreWorld.open()
    const { store } = world
    const creating = store.createBucket('photos', 'ann')
    const deleting = store.deleteBucket(store.bucket('photos')!)
    const again = store.createBucket('photos', 'bob')
    await world.flush()
    assert.equal((await creating).owner, 'ann')
    await deleting
    assert.equal((await again).owner, 'bob')
    assert.equal(store.bucket('photos')?.number, (await again).number)
  })

  it('is answered as it was created, though it was given a policy meanwhile', async () => {
    const world = await StoreWorld.open()
    const { store } = world
    const creating = store.createBucket('photos', 'ann')
    const setting = store.setBucketDocument(store.bucket('photos')!, 'policy', Buffer.from('{}'))
    await world.flush()
    await setting
    assert.equal((await creating).policy, null)
    assert.equal(store.bucket('photos')?.policy?.toString(), '{}')
  })
})
