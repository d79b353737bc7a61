import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { StateCopy } from '../../../src/engine/checkpoints.ts'
import type { Checkpoint } from '../../../src/log/checkpoint.ts'
import { PLAIN } from '../../support/object-attributes.ts'
import { readNewestCheckpoint } from '../../support/checkpoints.ts'
import { copyState, decodeState } from '../../../src/objectstore/engine/checkpoint-content.ts'
import { CheckpointPlan } from '../../../src/objectstore/engine/checkpoint-plan.ts'
import { CheckpointReader } from '../../../src/objectstore/index/checkpoint.ts'
import { atOnce } from '../../../src/steps.ts'
import { ExtentList } from '../../../src/objectstore/engine/extent-list.ts'
import { StoreState } from '../../../src/objectstore/engine/state.ts'
import { payloadOf } from '../../support/log-harness.ts'
import { StoreClient, resultAfterFlush } from './client.ts'
import { EXTENT_BYTES, StoreWorld } from './world.ts'
import { nextTurn } from '../../support/next-turn.ts'

/** The bytes that `filled` puts into its bucket, as a checkpoint shows them. */
const BUCKET_BYTES = `,"bytes":${100 + 3 * EXTENT_BYTES + 2000}`

/** Everything in a state, as plain data. */
function contentOf(state: StoreState): unknown {
  const buckets = [...state.buckets]
  const objects = buckets.map(({ number }) => state.index.scan(number, { max: Infinity }).keys)
  const bytes = buckets.map((bucket) => state.bytesOf(bucket))
  const uploads = Array.from(state.uploads.values(), (upload) => ({ ...upload, parts: [...upload.parts] }))
  const completed = [...state.completed]
  const { nextBucketNumber, commitSequence, liveBytes, objectBytes } = state
  return { buckets, objects, bytes, uploads, completed, nextBucketNumber, commitSequence, liveBytes, objectBytes }
}

/** A store with objects, a document, an upload under way and a completed one. */
async function filled(): Promise<{ world: StoreWorld; client: StoreClient }> {
  const world = await StoreWorld.open()
  const client = await StoreClient.open(world)
  await client.put('small', payloadOf(1, 100))
  await client.putLarge('große Datei', payloadOf(2, 3 * EXTENT_BYTES))
  await resultAfterFlush(world, world.store.setBucketDocument(client.bucket, 'cors', Buffer.from([0, 255, 7])))
  const done = await client.begin('whole')
  await resultAfterFlush(world, client.completing(done, [await client.part(done, 1, payloadOf(3, 2000))]))
  const upload = await client.begin('under way')
  await client.part(upload, 2, payloadOf(4, 2500))
  await client.part(upload, 1, Buffer.alloc(0), 0)
  return { world, client }
}

/** Copies of the parts as they come, as another thread would have them. */
async function partsOf(copy: StateCopy): Promise<Buffer[]> {
  const parts: Buffer[] = []
  for (let part = await copy.next(); part !== null; part = await copy.next()) parts.push(Buffer.from(part))
  return parts
}

/** The content of a checkpoint in version 0 of the format. */
function olderContent(state: StoreState): string {
  const ofUploads = Array.from(state.uploads.values(), (upload) => {
    const parts = Array.from(upload.parts.values(), (part) => ({
      ...part,
      extents: Array.from(part.extents, ({ position, bytes }) => [position, bytes]).flat(),
    }))
    return { ...upload, key: upload.key.toString('base64'), parts }
  })
  const ofBuckets = Array.from(state.buckets, (bucket) => ({
    ...bucket,
    cors: bucket.cors?.toString('base64') ?? null,
    policy: null,
    bytes: state.bytesOf(bucket),
  }))
  return JSON.stringify({
    next_bucket_number: state.nextBucketNumber,
    commit_sequence: state.commitSequence,
    live_bytes: state.liveBytes,
    buckets: ofBuckets,
    uploads: ofUploads,
    completed: [...state.completed.values()],
  })
}

/** A state of many uploads, each with metadata of 1000 bytes. One of them has a part of many extents. */
function manyUploads(count: number): StoreState {
  const state = new StoreState()
  state.addBucket({ number: 1, name: 'photos', owner: 'ann', createdMs: 1, cors: null, policy: null })
  const checksum = { algorithm: 'CRC32', type: 'FULL_OBJECT', isChosen: false } as const
  const attributes = { ...PLAIN, metadata: { long: 'x'.repeat(1000) } }
  for (let n = 0; n < count; n += 1) {
    const count = n === 7 ? 30_000 : 1
    const extents = ExtentList.of(Array.from({ length: count }, (_, i) => ({ position: 2 ** 40 + i, bytes: 2000 })))
    const part = {
      partNumber: 1,
      size: 2000,
      etag: `${n}`,
      lastModifiedMs: n,
      checksum: { value: 'a', bytes: 1 },
      extents,
    }
    const about = { uploadId: `u${n}`, bucketNumber: 1, key: Buffer.from(`k${n}`), initiator: 'ann', initiatedMs: n }
    state.uploads.set(`u${n}`, { ...about, attributes, checksum, parts: new Map([[1, part]]) })
    const completed = { uploadId: `c${n}`, bucketNumber: 1, key: `k${n}`, etag: 'e-1', checksums: [] }
    state.completed.set(`c${n}`, { ...completed, commitSequence: n, encryption: null, atMs: n })
  }
  return state
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
    const [upload] = world.store.uploads(client.bucket, Buffer.alloc(0), null)
    await client.part(upload!, 3, payloadOf(6, 20))
    await resultAfterFlush(world, world.store.abortUpload(upload!))
    await resultAfterFlush(world, world.store.setBucketDocument(client.bucket, 'cors', null))
    assert.deepEqual(contentOf(atOnce(decodeState(await partsOf(copy)))), before)
    assert.notDeepEqual(contentOf(state), before)
  })

  it('is read however it is cut, and not where its end is missing', async () => {
    const { world } = await filled()
    const whole = Buffer.concat(await partsOf(copyState(world.core.state)))
    for (const pieceBytes of [1, 3, 100, 4096]) {
      const pieces = Array.from({ length: Math.ceil(whole.length / pieceBytes) }, (_, i) =>
        whole.subarray(i * pieceBytes, (i + 1) * pieceBytes),
      )
      assert.deepEqual(contentOf(atOnce(decodeState(pieces))), contentOf(world.core.state))
    }
    for (const cut of [0, 4, 20, 500, whole.length - 1]) {
      assert.throws(() => atOnce(decodeState([whole.subarray(0, cut)])), { kind: 'corrupt' })
    }
  })

  it('comes in parts of which none is long, however many uploads and extents there are', async () => {
    const state = manyUploads(3000)
    const parts = await partsOf(copyState(state))
    const longest = Math.max(...parts.map(({ byteLength }) => byteLength))
    assert.ok(longest < 200_000, `${longest}`)
    assert.deepEqual(contentOf(atOnce(decodeState(parts))), contentOf(state))
  })

  it('of a later version is refused, and one of this version by programs that know only the first', async () => {
    const { world } = await filled()
    const whole = Buffer.concat(await partsOf(copyState(world.core.state)))
    const first = new CheckpointReader()
    assert.throws(() => first.push(whole.subarray(8 + whole.readUInt32LE(0))), { code: 'key_index_unreadable' })
    whole.writeUInt32LE(2, 4)
    assert.throws(() => atOnce(decodeState([whole])), { code: 'objectstore_checkpoint_unreadable' })
  })

  for (const [what, now, then] of [
    ['wrote all but the index at once', '', ''],
    ['kept no encryption of completed uploads', '"encryption":null,"atMs"', '"atMs"'],
    ['kept where the frames of parts are', '"extents":[', '"position":7,"extents":['],
    ['did not say what buckets hold', BUCKET_BYTES, ''],
  ] as const) {
    it(`of a version that ${what} is read`, async () => {
      const { world } = await filled()
      const { state } = world.core
      const text = olderContent(state)
      assert.ok(text.includes(now))
      const json = Buffer.from(now === '' ? text : text.replaceAll(now, then))
      const older = Buffer.alloc(8 + json.length)
      older.writeUInt32LE(json.length, 0)
      json.copy(older, 8)
      const index = state.index.checkpoint()
      const parts = [older]
      for (let part = index.next(); part !== null; part = index.next()) parts.push(Buffer.from(part))
      assert.deepEqual(contentOf(atOnce(decodeState(parts))), contentOf(state))
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

describe('when a checkpoint is due', () => {
  it('depends on all that one takes, uploads included, also after a start', async () => {
    const state = manyUploads(300)
    const recovered = { state, checkpointSequence: 0, position: 0, positionBefore: 0, checkpoint: null }
    const plan = new CheckpointPlan(() => state, recovered)
    const copy = plan.copy()
    const bytes = (await partsOf(copy)).reduce((sum, part) => sum + part.byteLength, 0)
    copy.written!()
    assert.ok(bytes > 300_000)
    assert.equal(plan.bytes, bytes)
    assert.equal(plan.isWorthwhile(bytes / 2 - 1, 0), false)
    assert.equal(plan.isWorthwhile(bytes / 2, 0), true)
    const checkpoint = { contentBytes: bytes } as Checkpoint // the plan reads nothing else
    assert.equal(new CheckpointPlan(() => state, { ...recovered, checkpoint }).bytes, bytes)
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
      lost.catch(() => {}) // awaited below
      await nextTurn()
      await world.journalDies()
      await resultAfterFlush(world, Promise.allSettled([lost]))
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

  it('whose copy fails costs a warning: what is appended goes on, and the next one is written', async () => {
    const { world, client } = await filled()
    const before = written(world)?.position ?? 0
    const { index } = world.core.state
    index.checkpoint = () => {
      throw new RangeError('Invalid string length')
    }
    await fill(client, 0, 20)
    assert.equal(written(world)?.position ?? 0, before)
    assert.ok(world.warnings.some((warning) => warning.includes('Invalid string length')))
    Reflect.deleteProperty(index, 'checkpoint')
    await fill(client, 20, 20)
    assert.ok(written(world)!.position > before)
    const now = contentOf(world.core.state)
    world.end('crash')
    await world.open()
    assert.deepEqual(contentOf(world.core.state), now)
  })
})
