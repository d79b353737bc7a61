import { finishBody } from '../../../src/objectstore/finish-body.ts'
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { frameBytes } from '../../../native-free-codecs/frame.ts'
import { replaySegment } from '../../../src/log/read.ts'
import { FRAME_OBJECT, decodeCommit } from '../../../src/objectstore/engine/frames.ts'
import { ExtentList } from '../../../src/objectstore/engine/extent-list.ts'
import { extentsOf } from '../../../src/objectstore/engine/state.ts'
import { PAGE_BYTES } from '../../../src/objectstore/index/page-memory.ts'
import { payloadOf } from '../../support/log-harness.ts'
import { StoreClient, factsOf, resultAfterFlush } from './client.ts'
import { nextTurn } from '../../support/next-turn.ts'
import { RESERVE_BYTES } from '../../support/engine-world.ts'
import { EXTENT_BYTES, SEGMENT_BYTES, StoreWorld, UPLOAD_TTL_MS } from './world.ts'

const BODY = payloadOf(1, 3 * EXTENT_BYTES + 300)

const open = async (): Promise<{ world: StoreWorld; client: StoreClient }> => {
  const world = await StoreWorld.open()
  return { world, client: await StoreClient.open(world) }
}

const clean = (world: StoreWorld): Promise<void> => resultAfterFlush(world, world.engine.cleaner.enforce())

/** Bytes of the frames that are needed, with their headers and padding. */
function liveBytesOf({ core, log, files }: StoreWorld): number {
  const needed = new Set<number>()
  for (const { number } of core.state.buckets)
    for (const { value } of core.state.index.scan(number, { max: Infinity }).keys) needed.add(value.position)
  let bytes = 0
  const extents: number[] = []
  const lengths = new Map<number, number>()
  for (const segment of log.segments) {
    const { end: to } = segment
    replaySegment(files, segment, {
      logId: log.id,
      to,
      onFrame({ position, type, payload, payloadBytes }) {
        lengths.set(position, frameBytes(payloadBytes))
        if (type !== FRAME_OBJECT || !needed.has(position)) return
        bytes += frameBytes(payloadBytes)
        for (const { position } of extentsOf(decodeCommit(payload).content)) extents.push(position)
      },
      onDamage: () => assert.fail('damaged'),
    })
  }
  return extents.reduce((sum, position) => sum + (lengths.get(position) ?? 0), bytes)
}

/** Fills segments with garbage. */
async function litter({ world, client }: { world: StoreWorld; client: StoreClient }, segments: number): Promise<void> {
  const { end } = world.log.segments.at(-1)!
  for (let n = 0; world.log.written - end < segments * SEGMENT_BYTES; n += 1)
    await client.put('litter', payloadOf(n, 1000))
}

describe('cleaning', () => {
  it('gives back the space of what was overwritten, and what lives is read as before', async () => {
    const store = await open()
    const { world, client } = store
    await client.putLarge('large', BODY)
    await client.put('small', BODY.subarray(0, 700))
    const before = await client.found('large')
    await litter(store, 20)
    await clean(world)
    const { liveBytes } = world.core.state
    assert.ok(world.counters.segmentsCleaned > 5)
    assert.ok(world.logBytes < 2 * liveBytes + 8 * SEGMENT_BYTES)
    assert.ok((await client.get('large')).equals(BODY))
    assert.ok((await client.get('small')).equals(BODY.subarray(0, 700)))
    assert.deepEqual(factsOf(await client.found('large')), factsOf(before))
  })

  for (const [what, isDeleted] of [
    ['everything', () => true],
    ['every second object', (n: number) => n % 2 === 0],
    ['a third', (n: number) => n % 3 === 0],
  ] as const) {
    it(`makes room on a full disk when ${what} is deleted`, async () => {
      const { world, client } = await open()
      world.limitDisk(60 * SEGMENT_BYTES)
      let count = 0
      const fill = async (): Promise<void> => {
        for (; ; count += 1) await client.put(`${count}`, payloadOf(count, 1000))
      }
      await assert.rejects(fill(), { code: 'ServiceUnavailable' })
      assert.ok(count > 100)
      const isLeft = (n: number): boolean => !isDeleted(n)
      for (let n = 0; n < count; n += 1) if (isDeleted(n)) await client.delete(`${n}`)
      await assert.rejects(client.put('new', BODY.subarray(0, 1000)), { code: 'ServiceUnavailable' })
      await clean(world)
      world.lookAtSpace()
      const { liveBytes } = world.core.state
      assert.ok(world.logBytes < 1.2 * liveBytes + 8 * SEGMENT_BYTES, `${world.logBytes} of ${liveBytes}`)
      await client.put('new', BODY.subarray(0, 1000))
      for (let n = 0; n < count; n += 1) if (isLeft(n)) assert.ok((await client.get(`${n}`)).equals(payloadOf(n, 1000)))
    })
  }

  for (const [what, keys, sizes, keyOf] of [
    ['of a few objects', 8, [700, 900, 1000], String],
    ['of large objects', 6, [2500, 3 * EXTENT_BYTES + 300], String],
    ['of objects that take more than is estimated', 8, [0, 10], (n: number) => `${n}`.padStart(500, 'k')],
  ] as const) {
    it(`keeps the log below twice what lives and six segments beside steady overwrites ${what}`, async () => {
      const { world, client } = await open()
      const bound = (): number => 2 * liveBytesOf(world) + 6 * SEGMENT_BYTES
      let most = 0
      let cleaning = Promise.resolve()
      let isCleaning = false
      const putting: Promise<unknown>[] = []
      for (let n = 0; n < 500; n += 1) {
        putting.push(client.putting(keyOf(n % keys), payloadOf(n, sizes[n % sizes.length]!), 1 << 20))
        if (!isCleaning) {
          isCleaning = true
          cleaning = world.engine.cleaner.enforce().finally(() => (isCleaning = false))
        }
        for (let step = 0; step < 6; step += 1) await world.step()
        if (n >= 2 * keys && n % 5 === 0) most = Math.max(most, world.logBytes - bound())
      }
      await resultAfterFlush(world, Promise.all([...putting, cleaning]))
      assert.ok(world.counters.segmentsCleaned > 60)
      assert.ok(most <= 0, `${most} bytes more than the bound`)
      const { written } = world.log
      for (let round = 0; round < 5; round += 1) await clean(world)
      assert.ok(world.log.written - written < 2 * liveBytesOf(world) + SEGMENT_BYTES, 'cleaning comes to an end')
    })
  }

  for (const [what, isLeft] of [
    ['everything', () => false],
    ['half', (n: number) => n % 2 === 0],
  ] as const) {
    it(`makes room on a full disk after two restarts, when ${what} is deleted`, async () => {
      const segmentBytes = 32 * 1024 // the deletes do not fill a segment
      const world = await StoreWorld.open({ segmentBytes, extents: 24, ringBytes: 1 << 16 })
      const client = await StoreClient.open(world)
      world.limitDisk(40 * segmentBytes)
      const bodyOf = (n: number): Buffer => payloadOf(n, 12 * EXTENT_BYTES)
      let count = 0
      const fill = async (): Promise<void> => {
        for (; ; count += 1) await client.putLarge(`${count}`, bodyOf(count))
      }
      await assert.rejects(fill(), { code: 'ServiceUnavailable' })
      assert.ok(count > 40)
      for (let restart = 0; restart < 2; restart += 1) {
        await world.close()
        await world.open()
      }
      const again = new StoreClient(world, world.store.bucket('photos')!)
      const { written } = world.log
      for (let n = 0; n < count; n += 1) if (!isLeft(n)) await again.delete(`${n}`)
      assert.ok(world.log.written - written < segmentBytes / 2)
      for (let round = 0; round < 5; round += 1) {
        await clean(world)
        world.lookAtSpace()
      }
      const { liveBytes } = world.core.state
      assert.ok(world.logBytes < 1.2 * liveBytes + 3 * segmentBytes, `${world.logBytes} of ${liveBytes}`)
      await again.put('new', BODY.subarray(0, 1000))
      const assertWhole = async (client: StoreClient): Promise<void> => {
        assert.ok((await client.get('new')).equals(BODY.subarray(0, 1000)))
        for (let n = 0; n < count; n += 1) if (isLeft(n)) assert.ok((await client.get(`${n}`)).equals(bodyOf(n)))
      }
      await assertWhole(again)
      world.end('crash')
      await world.open()
      await assertWhole(new StoreClient(world, world.store.bucket('photos')!))
    })
  }

  it('keeps room for a checkpoint, which grows with the keys', async () => {
    const { world, client } = await open()
    world.limitDisk(2 << 20)
    for (let n = 0; n < 60; n += 1) await client.put(`${n}`.padEnd(900, 'k'), Buffer.alloc(0))
    await clean(world)
    world.lookAtSpace()
    const bytes = PAGE_BYTES * world.engine.core.state.index.pages
    assert.ok(bytes > 30_000)
    const freeBytes = world.files.freeBytes('/') - RESERVE_BYTES - (1 << 15)
    assert.equal(world.log.roomFor('admit'), freeBytes - bytes)
    assert.ok(world.log.roomFor('finish') > freeBytes)
  })

  it('goes on after a restart before anything was written', async () => {
    const store = await open()
    await store.client.put('kept', BODY.subarray(0, 700))
    await litter(store, 20)
    const { world } = store
    await world.close()
    await world.open()
    const { written } = world.log
    await clean(world)
    assert.ok(world.logBytes < 2 * world.core.state.liveBytes + 6 * SEGMENT_BYTES, `${world.logBytes}`)
    assert.ok(world.log.written - written < SEGMENT_BYTES)
    assert.ok((await new StoreClient(world, world.store.bucket('photos')!).get('kept')).equals(BODY.subarray(0, 700)))
  })

  it('leaves room to delete when the disk is too full to move what lives', async () => {
    const { world, client } = await open()
    await client.putLarge('large', BODY)
    const large = await client.found('large')
    const source = large.read(0, large.size)
    await resultAfterFlush(world, source.next()) // the reader keeps its segments, so moving objects out of them frees nothing
    world.limitDisk(60 * SEGMENT_BYTES)
    const bodyOf = (n: number): Buffer => payloadOf(n, n % 2 === 0 ? 1000 : 10)
    let count = 0
    const fill = async (): Promise<void> => {
      for (; ; count += 1) await client.put(`${count}`, bodyOf(count))
    }
    await assert.rejects(fill(), { code: 'ServiceUnavailable' })
    for (let n = 0; n < count; n += 2) await client.delete(`${n}`)
    world.limitDisk(-RESERVE_BYTES + (1 << 20) + SEGMENT_BYTES) // another program has taken the rest
    await clean(world)
    const deleted = [1, 3, 5, 7, 9, 11, 13, 15, 17] // more deletes than fit between two objects that are moved
    for (const n of deleted) await client.delete(`${n}`)
    const assertWhole = async (): Promise<void> => {
      for (let n = 19; n < count; n += 2) assert.ok((await client.get(`${n}`)).equals(bodyOf(n)))
    }
    await assertWhole()

    source.close()
    world.limitDisk(10 * SEGMENT_BYTES)
    await clean(world)
    assert.ok(world.logBytes < 1.2 * world.core.state.liveBytes + 8 * SEGMENT_BYTES)
    await assertWhole()
  })

  it('looks at an object once for all its extents in a segment, however many there are', async () => {
    const world = await StoreWorld.open({ segmentBytes: 64 * 1024, extents: 40 })
    const client = await StoreClient.open(world)
    const bodies = [1, 2, 3].map((seed) => payloadOf(seed, 20 * EXTENT_BYTES))
    for (const body of bodies) await client.putLarge('large', body) // the first two are garbage at the same key
    const upload = await client.begin('in parts')
    const parts = [await client.part(upload, 1, bodies[0]!)]
    await resultAfterFlush(world, client.completing(upload, parts))
    for (let n = 0; world.log.written < 9 * 64 * 1024; n += 1) await client.put('litter', payloadOf(n, 1000))
    const { objects } = world.store
    const load = objects.load.bind(objects)
    let loads = 0
    objects.load = (...asked) => {
      loads += 1
      return load(...asked)
    }
    await clean(world)
    assert.ok(world.counters.segmentsCleaned > 1)
    assert.ok(loads <= 2 * world.counters.segmentsCleaned, `${loads}`)
    assert.ok((await client.get('large')).equals(bodies[2]!))
    assert.ok((await client.get('in parts')).equals(bodies[0]!))
  })

  it('looks through the extents of a part once or twice for a segment, however many frames it has there', async (t) => {
    const world = await StoreWorld.open({ segmentBytes: 64 * 1024, extents: 40 })
    const client = await StoreClient.open(world)
    const bodies = [1, 2].map((seed) => payloadOf(seed, 20 * EXTENT_BYTES))
    const upload = await client.begin('in parts')
    await client.part(upload, 1, bodies[0]!) // garbage, once the next part replaces it
    const parts = [await client.part(upload, 1, bodies[1]!)]
    for (let n = 0; world.log.written < 9 * 64 * 1024; n += 1) await client.put('litter', payloadOf(n, 1000))
    const { mock } = t.mock.method(ExtentList.prototype, 'nextWithin')
    await clean(world)
    const looks = mock.calls.filter(({ arguments: [, , number] }) => number === 0).length
    assert.ok(world.counters.segmentsCleaned > 1)
    assert.ok(looks <= world.counters.segmentsCleaned, `${looks} in ${world.counters.segmentsCleaned}`)
    await resultAfterFlush(world, client.completing(upload, parts))
    assert.ok((await client.get('in parts')).equals(bodies[1]!))
  })

  it('leaves alone what somebody reads, until they are done', async () => {
    const store = await open()
    const { world, client } = store
    await client.putLarge('large', BODY)
    const object = await client.found('large')
    const source = object.read(0, object.size)
    const pieces = [await resultAfterFlush(world, source.next())]
    await litter(store, 20)
    await client.delete('large')
    await clean(world)
    const held = world.logBytes
    for (
      let piece = await resultAfterFlush(world, source.next());
      piece;
      piece = await resultAfterFlush(world, source.next())
    ) {
      pieces.push(piece)
    }
    assert.ok(Buffer.concat(pieces as Uint8Array[]).equals(BODY))
    await clean(world)
    assert.ok(world.logBytes < held - SEGMENT_BYTES)
  })

  it('leaves alone what a body has written that is still open', async () => {
    const store = await open()
    const { world, client } = store
    const writer = client.large('slow')
    writer.write(BODY.subarray(0, 2 * EXTENT_BYTES))
    await litter(store, 20)
    await clean(world)
    writer.write(BODY.subarray(2 * EXTENT_BYTES))
    await resultAfterFlush(
      world,
      finishBody(writer).then((body) => client.commit('slow', body)),
    )
    await clean(world)
    assert.ok((await client.get('slow')).equals(BODY))
  })

  it('moves the parts of an upload, also when it is completed meanwhile', async () => {
    for (const steps of [0, 1, 2, 3, 4, 5, 6]) {
      const store = await open()
      const { world, client } = store
      const upload = await client.begin('whole')
      const parts = [await client.part(upload, 1, BODY), await client.part(upload, 2, BODY.subarray(0, 900), 900)]
      await litter(store, 20)
      const cleaning = world.engine.cleaner.enforce()
      for (let step = 0; step < steps; step += 1) await world.step()
      const completing = client.completing(upload, parts)
      await resultAfterFlush(world, Promise.all([completing, cleaning]))
      await clean(world)
      assert.ok(
        (await client.get('whole')).equals(Buffer.concat([BODY, BODY.subarray(0, 900)])),
        `after ${steps} steps`,
      )
      assert.ok(world.counters.segmentsCleaned > 5)
    }
  })

  it('waits for a change that is on its way, and never takes it for damage', async () => {
    const store = await open()
    const { world, client } = store
    await client.putLarge('large', BODY)
    await litter(store, 20)
    world.holdsScans = true
    const cleaning = world.engine.cleaner.enforce()
    await nextTurn()
    const tagging = world.store.setTags(client.bucket, 'large', [{ key: 'k', value: 'v' }])
    world.serveReads()
    await nextTurn() // the tags are appended, but not written
    world.serveScans()
    await nextTurn()
    world.serveReads()
    await resultAfterFlush(world, Promise.all([cleaning, tagging]))
    assert.deepEqual(world.log.incidents, [])
    assert.deepEqual((await client.found('large')).tags, [{ key: 'k', value: 'v' }])
    assert.ok((await client.get('large')).equals(BODY))
  })

  it('needs nothing that was lost while it went on', async () => {
    for (const steps of [0, 1, 2, 3, 4, 5, 6, 7, 8]) {
      const store = await open()
      const { world, client } = store
      await client.put('small', BODY.subarray(0, 700))
      await client.putLarge('large', BODY)
      await litter(store, 20)
      const deleting = world.store.deleteObject(client.bucket, 'small', () => null)
      deleting.catch(() => {}) // awaited below
      const cleaning = world.engine.cleaner.enforce()
      for (let step = 0; step < steps; step += 1) {
        world.serveReads()
        world.serveScans()
        await nextTurn()
      }
      await world.journalDies()
      const [deleted] = await resultAfterFlush(world, Promise.allSettled([deleting, cleaning]))
      assert.equal(deleted.status, 'rejected')
      await clean(world)
      assert.ok((await client.get('small')).equals(BODY.subarray(0, 700)))
      assert.ok((await client.get('large')).equals(BODY))
    }
  })

  it('goes on where something is damaged: an incident, and the object stays an error', async () => {
    const store = await open()
    const { world, client } = store
    await client.putLarge('large', BODY)
    await client.put('small', payloadOf(9, 500))
    await litter(store, 20)
    const { base, recordsPath: path } = world.log.segments[0]!
    const at = world.files.contentOf(path).indexOf(BODY.subarray(10, 60))
    world.files.damage(path, (content) => {
      content[at]! ^= 1
      return content
    })
    await clean(world)
    assert.ok(world.counters.segmentsCleaned > 5)
    const { incidents } = world.log
    assert.ok(incidents.length > 0 && incidents.every(({ segmentBase }) => segmentBase === base))
    await assert.rejects(client.get('large'), { code: 'InternalError' })
    assert.ok((await client.get('small')).equals(payloadOf(9, 500)))
  })

  it('ends early when it is closed, loses nothing, and is over by then', async () => {
    const store = await open()
    const { world, client } = store
    await client.putLarge('large', BODY)
    await litter(store, 20)
    const cleaning = world.engine.cleaner.enforce()
    await world.step()
    let isClosed = false
    const closing = world.engine.cleaner.close().then(() => (isClosed = true))
    await nextTurn()
    assert.equal(isClosed, false)
    await resultAfterFlush(world, closing)
    await cleaning
    const { segmentsCleaned } = world.counters
    assert.ok(segmentsCleaned < 2)
    await clean(world)
    assert.equal(world.counters.segmentsCleaned, segmentsCleaned)
    assert.ok((await client.get('large')).equals(BODY))
  })

  it('gives up uploads whose time is over, and forgets when they were completed', async () => {
    const { world, client } = await open()
    const stays = await client.begin('stays')
    world.advance(UPLOAD_TTL_MS - 1)
    await clean(world)
    assert.notEqual(world.store.upload(client.bucket, 'stays', stays.uploadId), null)
    const part = await client.part(stays, 1, BODY)
    await resultAfterFlush(world, client.completing(stays, [part]))
    const goes = await client.begin('goes')
    await client.part(goes, 1, BODY)
    world.advance(UPLOAD_TTL_MS)
    await clean(world)
    assert.equal(world.store.upload(client.bucket, 'goes', goes.uploadId), null)
    assert.notEqual(await world.store.completedUpload(client.bucket, 'stays', stays.uploadId), null)
    world.advance(24 * 3_600_000)
    await clean(world)
    assert.equal(await world.store.completedUpload(client.bucket, 'stays', stays.uploadId), null)
  })
})
