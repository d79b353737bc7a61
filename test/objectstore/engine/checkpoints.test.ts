import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { readNewestCheckpoint } from '../../support/checkpoints.ts'
import { copyState, decodeState } from '../../../src/objectstore/engine/checkpoint-content.ts'
import { atOnce } from '../../../src/steps.ts'
import type { StoreState } from '../../../src/objectstore/engine/state.ts'
import { payloadOf } from '../../support/log-harness.ts'
import { StoreClient, settled } from './client.ts'
import { EXTENT_BYTES, StoreWorld } from './world.ts'
import { turn } from '../../support/turn.ts'

/** What `filled` puts into its bucket. */
const BUCKET_BYTES = `,"bytes":${100 + 3 * EXTENT_BYTES + 2000}`

/** Everything of a state, in plain data. */
function contentOf(state: StoreState): unknown {
  const buckets = [...state.buckets]
  const objects = buckets.map(({ number }) => state.index.scan(number, { max: Infinity }).keys)
  const bytes = buckets.map((bucket) => state.bytesOf(bucket))
  const { uploads, completed, nextBucketNumber, commitSequence, liveBytes, objectBytes } = state
  return { buckets, objects, bytes, uploads, completed, nextBucketNumber, commitSequence, liveBytes, objectBytes }
}

/** Objects, documents, uploads under way and completed. */
async function filled(): Promise<{ world: StoreWorld; client: StoreClient }> {
  const world = await StoreWorld.open()
  const client = await StoreClient.open(world)
  await client.put('small', payloadOf(1, 100))
  await client.putLarge('große Datei', payloadOf(2, 3 * EXTENT_BYTES))
  await settled(world, world.store.setBucketDocument(client.bucket, 'cors', Buffer.from([0, 255, 7])))
  const done = await client.begin('whole')
  await settled(world, client.completing(done, [await client.part(done, 1, payloadOf(3, 2000))]))
  const upload = await client.begin('under way')
  await client.part(upload, 2, payloadOf(4, 2500))
  await client.part(upload, 1, Buffer.alloc(0), 0)
  return { world, client }
}

const fill = async (client: StoreClient, from: number, count: number): Promise<void> => {
  for (let n = from; n < from + count; n += 1) await client.put(`key-${n % 40}`, payloadOf(n, 900))
}

const written = (world: StoreWorld) => readNewestCheckpoint(world.files, ['/data'], Infinity)

describe('the content of a checkpoint', () => {
  it('is the state, as it was when the copy began', async () => {
    const { world, client } = await filled()
    const { state } = world.core
    const before = contentOf(state)
    const copy = copyState(state)
    await client.put('later', payloadOf(5, 50))
    await client.delete('small')
    const parts = [copy.head]
    for (let part = copy.index.next(); part !== null; part = copy.index.next()) parts.push(part)
    assert.deepEqual(contentOf(atOnce(decodeState(parts.map((part) => Buffer.from(part))))), before)
    assert.notDeepEqual(contentOf(state), before)
  })

  for (const [what, now, then] of [
    ['kept no encryption of completed uploads', '"encryption":null,"atMs"', '"atMs"'],
    ['kept where the frames of parts are', '"extents":[', '"position":7,"extents":['],
    ['did not say what buckets hold', BUCKET_BYTES, ''],
  ] as const) {
    it(`of a version that ${what} is read`, async () => {
      const { world } = await filled()
      const { head, index } = copyState(world.core.state)
      const text = Buffer.from(head).toString('utf8', 8)
      assert.ok(text.includes(now))
      const json = Buffer.from(text.replaceAll(now, then))
      const older = Buffer.alloc(8 + json.length)
      older.writeUInt32LE(json.length, 0)
      json.copy(older, 8)
      const parts = [older]
      for (let part = index.next(); part !== null; part = index.next()) parts.push(Buffer.from(part))
      assert.deepEqual(contentOf(atOnce(decodeState(parts))), contentOf(world.core.state))
    })
  }

  it('is what a start finds, with the frames behind it', async () => {
    const { world, client } = await filled()
    await fill(client, 0, 30)
    const { position } = written(world)!
    assert.ok(position > 0 && position < world.log.committed)
    const before = contentOf(world.core.state)
    world.end('crash')
    await world.open()
    assert.deepEqual(contentOf(world.core.state), before)
  })
})

describe('a checkpoint that takes longer to write than a segment takes to fill', () => {
  it('is written once, whole', async () => {
    const { world, client } = await filled()
    const before = written(world)?.position ?? 0
    for (let n = 0; n < 24; n += 1) {
      const putting = client.putting(`key-${n}`, payloadOf(100 + n, 900))
      world.holdsWrites = true
      for (let step = 0; step < 4; step += 1) await world.step()
      await putting
    }
    assert.equal(written(world)?.position ?? 0, before)
    await world.flush()
    const checkpoint = written(world)!
    assert.ok(checkpoint.position > before)
    assert.ok(atOnce(decodeState(checkpoint.pieces())).commitSequence > 0)
    const now = contentOf(world.core.state)
    world.end('crash')
    await world.open()
    assert.deepEqual(contentOf(world.core.state), now)
  })
})

describe('a checkpoint whose end was lost', () => {
  it('is given up wherever it is written, and the next one is whole', async () => {
    for (const steps of [0, 1, 2, 3]) {
      const { world, client } = await filled()
      world.holdsWrites = true
      for (let n = 0; n < 8; n += 1) {
        const putting = client.putting(`key-${n}`, payloadOf(n, 900))
        for (let step = 0; step < 4; step += 1) await world.step()
        await putting
        if (n === 6) for (let step = 0; step < steps; step += 1) world.serveWrites()
      }
      const lost = client.putting('lost', payloadOf(9, 900))
      lost.catch(() => {}) // heard below
      await turn()
      await world.journalDies()
      await settled(world, Promise.allSettled([lost]))
      await fill(client, 100, 12)
      const now = contentOf(world.core.state)
      assert.ok(written(world) !== null)
      atOnce(decodeState(written(world)!.pieces()))
      world.end('crash')
      await world.open()
      assert.deepEqual(contentOf(world.core.state), now)
    }
  })
})

describe('a checkpoint that is damaged, or cannot be written', () => {
  it('is passed over: a start goes back to the one before, and reads more', async () => {
    const { world, client } = await filled()
    await fill(client, 0, 40)
    const now = contentOf(world.core.state)
    world.end('kill')
    const newest = world.files.paths().findLast((path) => path.includes('checkpoint-'))!
    world.files.damage(newest, (content) => {
      content[content.length >> 1]! ^= 1
      return content
    })
    await world.open()
    assert.deepEqual(contentOf(world.core.state), now)
    assert.ok(world.warnings.some((warning) => warning.includes('damaged')))
  })

  it('costs nothing but time at the next start', async () => {
    const { world, client } = await filled()
    world.failsWrites = true
    await fill(client, 0, 20)
    assert.ok(world.warnings.length > 0)
    const now = contentOf(world.core.state)
    world.end('crash')
    await world.open()
    assert.deepEqual(contentOf(world.core.state), now)
  })
})
