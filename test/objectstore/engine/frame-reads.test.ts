import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { emptyFrameHeader } from '../../../native-free-codecs/frame.ts'
import { ReadMemory } from '../../../src/libc.ts'
import { SEGMENT_HEADER_BYTES } from '../../../src/log/segment-format.ts'
import { FrameReader } from '../../../src/objectstore/engine/frame-reader.ts'
import { FrameReads } from '../../../src/objectstore/engine/frame-reads.ts'
import { commitFrameBytes } from '../../../src/objectstore/engine/frames.ts'
import { RUN_BYTES } from '../../../src/objectstore/engine/run-memory.ts'
import { RUNS_MAX } from '../../../src/objectstore/engine/run-reads.ts'
import { COPIED_BODY_BYTES_MIN } from '../../../src/objectstore/engine/written-runs.ts'
import type { ByteSource } from '../../../src/objectstore/operations.ts'
import { payloadOf, replay } from '../../support/log-harness.ts'
import { PLAN, StoreClient, resultAfterFlush } from './client.ts'
import { nextTurn } from '../../support/next-turn.ts'
import { EXTENT_BYTES, StoreWorld } from './world.ts'

const BODY = payloadOf(1, 3 * EXTENT_BYTES + 300)

/** A reopened store with one small and one large object, neither of them in memory. */
async function stored(): Promise<{ world: StoreWorld; client: StoreClient }> {
  const world = await StoreWorld.open()
  const client = await StoreClient.open(world)
  await client.put('small', BODY.subarray(0, 500))
  await client.putLarge('large', BODY)
  return { world, client: await reopened(world) }
}

/** Reopens the store, so that nothing is in memory. */
async function reopened(world: StoreWorld): Promise<StoreClient> {
  await world.close()
  await world.open()
  return new StoreClient(world, world.store.bucket('photos')!)
}

/** Flips a bit at the first place in the log where these bytes are. */
function damage(world: StoreWorld, bytes: Buffer): void {
  for (const path of world.files.paths().filter((each) => each.endsWith('.log'))) {
    const at = world.files.contentOf(path).indexOf(bytes)
    if (at < 0) continue
    world.files.damage(path, (content) => {
      content[at]! ^= 1
      return content
    })
    return
  }
  assert.fail('what is to be damaged is stored')
}

describe('a thread that reads', () => {
  it('opens files anew when the log was cut: others may stand under their names', async (t) => {
    const { world } = await stored()
    const reader = new FrameReader(world.files, { segmentsDirectory: '/data/segments', logId: world.log.id }, null)
    const opened = t.mock.method(world.files, 'open')
    const place = { segmentBase: world.log.segments[0]!.base, place: SEGMENT_HEADER_BYTES, expectBytes: 100 }
    const frames = [{ ...place, target: null, isAgain: false }]
    const outcomes = [1, 1, 2].map((generation) => reader.run({ oldestBase: 0, generation, frames })[0]!)
    assert.ok(outcomes.every((outcome) => 'payload' in outcome))
    assert.equal(opened.mock.callCount(), 2)
  })
})

describe('an object whose stored bytes changed', () => {
  it('is refused, for good, and there is an incident of its frame; others are read', async () => {
    const { world, client } = await stored()
    damage(world, BODY.subarray(100, 200)) // these bytes are in both objects: the small one comes first in the log
    await assert.rejects(client.get('small'), { code: 'InternalError', retryable: false })
    assert.equal(world.counters.damagedReads, 1)
    const [incident, ...others] = world.log.incidents
    const { damage: damaged } = replay(world.log, world.files)
    assert.deepEqual([incident!.from, incident!.to, others], [damaged[0]!.from, damaged[0]!.to, []])
    assert.ok((await client.get('large')).equals(BODY))
    await assert.rejects(client.get('small'), { code: 'InternalError' })
    assert.equal(world.log.incidents.length, 1)
  })

  it('gives out the pieces before the damage and never the wrong one', async () => {
    const { world, client } = await stored()
    damage(world, BODY.subarray(2 * EXTENT_BYTES + 10, 2 * EXTENT_BYTES + 60))
    const object = await client.found('large')
    const source = object.read(0, object.size)
    for (let at = 0; at < 2 * EXTENT_BYTES; at += EXTENT_BYTES) {
      const piece = await resultAfterFlush(world, source.next())
      assert.ok(Buffer.from(piece!).equals(BODY.subarray(at, at + EXTENT_BYTES)))
    }
    await assert.rejects(resultAfterFlush(world, source.next()), { code: 'InternalError', retryable: false })
    assert.equal(await resultAfterFlush(world, source.next()), null)
    assert.equal(world.store.objects.oldestRead, Infinity)
    const behind = object.read(3 * EXTENT_BYTES, object.size)
    assert.ok(Buffer.from((await resultAfterFlush(world, behind.next()))!).equals(BODY.subarray(3 * EXTENT_BYTES)))
    behind.close()
  })

  it('is read when only the reading went wrong, once', async () => {
    const { world, client } = await stored()
    let flips = 1
    world.files.faults = {
      read(path, _at, bytes) {
        if (!path.endsWith('.log') || bytes.byteLength < 100 || flips === 0) return
        flips -= 1
        bytes[60]! ^= 1
      },
    }
    assert.ok((await client.get('small')).equals(BODY.subarray(0, 500)))
    assert.equal(flips, 0)
    assert.deepEqual(world.log.incidents, [])
  })
})

describe('a disk that cannot be read', () => {
  it('is no damage: whoever asks is told to try again', async () => {
    const { world, client } = await stored()
    world.files.faults = {
      read(path) {
        if (path.endsWith('.log')) throw Object.assign(new Error('simulated'), { code: 'EIO' })
      },
    }
    await assert.rejects(client.get('large'), { code: 'ServiceUnavailable', retryable: true })
    assert.deepEqual(world.log.incidents, [])
    world.files.faults = {}
    assert.ok((await client.get('large')).equals(BODY))
  })
})

describe('an object that is stored before main has heard of its segment', () => {
  it('is read when it has', async () => {
    const { world, client } = await stored()
    const filling = client.putting('filling', payloadOf(2, 2900))
    await nextTurn()
    const next = client.putting('next', payloadOf(3, 2900))
    await nextTurn()
    world.stepWithoutNotice()
    const reading = client.world.store.object(client.bucket, 'next')
    await nextTurn()
    await resultAfterFlush(world, Promise.all([filling, next]))
    assert.equal((await reading)?.size, 2900)
    assert.deepEqual(world.log.incidents, [])
  })
})

describe('an object that was read', () => {
  it('counts for what its parts take as well, in the memory of objects that were read', async () => {
    const world = await StoreWorld.open()
    const client = await StoreClient.open(world)
    const besideFrame = async (parts: number): Promise<number> => {
      const key = `of ${parts}`
      const upload = await client.begin(key)
      const sent = []
      for (let n = 1; n <= parts; n++) sent.push(await client.part(upload, n, BODY.subarray(0, 10)))
      await resultAfterFlush(world, client.completing(upload, sent))
      const value = world.core.state.index.get(client.bucket.number, Buffer.from(key))!
      const { bytes, frame } = await resultAfterFlush(world, world.store.objects.load(value, key.length))
      return bytes - commitFrameBytes(frame)
    }
    assert.ok((await besideFrame(20)) >= (await besideFrame(1)) + 19 * 80)
  })
})

describe('a small object that the page cache has', () => {
  async function cached(): Promise<StoreClient> {
    const world = await StoreWorld.open({ inPageCache: 1 })
    const client = await StoreClient.open(world)
    await client.put('opens the file', BODY.subarray(0, 10))
    await client.put('small', BODY.subarray(0, 500))
    await client.put('other', BODY.subarray(500, 900))
    await client.get('opens the file')
    world.holdsReads = true
    return client
  }

  it('is read without a thread', async () => {
    const { world, bucket } = await cached()
    const [small, other] = await Promise.all([world.store.object(bucket, 'small'), world.store.object(bucket, 'other')])
    assert.deepEqual(small?.read(0, 500).whole, BODY.subarray(0, 500))
    assert.deepEqual(other?.read(0, 400).whole, BODY.subarray(500, 900))
  })

  it('is refused when its stored bytes changed, after a thread has looked again', async () => {
    const client = await cached()
    damage(client.world, BODY.subarray(100, 200))
    await assert.rejects(client.get('small'), { code: 'InternalError', retryable: false })
    assert.equal(client.world.log.incidents.length, 1)
    assert.ok((await client.get('other')).equals(BODY.subarray(500, 900)))
  })
})

it('main reads a bounded number of bytes in one turn of the event loop', async () => {
  const { log, counters, readErrors } = await StoreWorld.open()
  const deferred: (() => void)[] = []
  const frame = { type: 1, payload: Buffer.alloc(0), memory: new ReadMemory(1) }
  const reads = new FrameReads({
    log,
    cached: { read: () => frame, readToKeep: () => ({ ...emptyFrameHeader(), ...frame }), release() {} },
    jobs: { run: () => assert.fail('nothing is asked of a thread') },
    threads: 1,
    defer: (run) => deferred.push(run),
    counters,
    readErrors,
  })
  for (let turns = 0; turns < 3; turns++) {
    for (let n = 0; n < 2; n++) {
      assert.notEqual(reads.readNow(0, 1 << 20), null)
      assert.notEqual(reads.readToKeepNow(0, 1 << 20), null)
    }
    assert.equal(reads.readNow(0, 1), null)
    assert.equal(reads.readToKeepNow(0, 1), null)
    assert.equal(deferred.length, 1)
    deferred.pop()!()
  }
})

describe('a range', () => {
  it('is exactly the bytes that were asked for, wherever extents end', async () => {
    const { client, world } = await stored()
    const object = await client.found('large')
    const ends = [0, 1, EXTENT_BYTES - 1, EXTENT_BYTES, EXTENT_BYTES + 1, 3 * EXTENT_BYTES, BODY.byteLength]
    for (const from of ends) {
      for (const to of ends.filter((end) => end >= from)) {
        const source = object.read(from, to)
        const pieces: Uint8Array[] = []
        for (
          let piece = await resultAfterFlush(world, source.next());
          piece;
          piece = await resultAfterFlush(world, source.next())
        ) {
          pieces.push(piece)
        }
        assert.ok(Buffer.concat(pieces).equals(BODY.subarray(from, to)), `[${from}, ${to})`)
      }
    }
    assert.equal(world.store.objects.oldestRead, Infinity)
    assert.equal(world.store.objects.runs.taken, 0)
  })
})

describe('what is read ahead of a body', () => {
  const LARGE = payloadOf(4, 9 * EXTENT_BYTES + 5000)

  async function withLarge(): Promise<{ world: StoreWorld; client: StoreClient }> {
    const { world, client } = await stored()
    await client.putLarge('larger', LARGE)
    return { world, client: await reopened(world) }
  }

  it('comes in runs of four extents, to the end of what was asked for', async () => {
    const { world, client } = await withLarge()
    const object = await client.found('larger')
    const source = object.read(10, 7 * EXTENT_BYTES + 1)
    const lengths: number[] = []
    const pieces: Buffer[] = []
    for (
      let piece = await resultAfterFlush(world, source.next());
      piece;
      piece = await resultAfterFlush(world, source.next())
    ) {
      lengths.push(piece.byteLength)
      pieces.push(Buffer.from(piece))
    }
    assert.deepEqual(lengths, [4 * EXTENT_BYTES - 10, 3 * EXTENT_BYTES + 1])
    assert.ok(Buffer.concat(pieces).equals(LARGE.subarray(10, 7 * EXTENT_BYTES + 1)))
  })

  it('has a bound for all bodies together, behind which pieces are read when they are wanted', async () => {
    const { world, client } = await stored()
    const sources: ByteSource[] = []
    for (let n = 0; n < RUNS_MAX + 3; n++) await client.putLarge(`larger ${n}`, LARGE)
    const reader = await reopened(world)
    for (let n = 0; n < RUNS_MAX + 3; n++) {
      const object = await reader.found(`larger ${n}`)
      sources.push(object.read(0, object.size))
    }
    for (const source of sources) await resultAfterFlush(world, source.next())
    await resultAfterFlush(world, nextTurn())
    assert.equal(world.store.objects.runs.taken, RUNS_MAX)
    const second = await Promise.all(
      sources.map(async (source) => (await resultAfterFlush(world, source.next()))?.byteLength),
    )
    assert.deepEqual(second, [
      ...Array.from({ length: RUNS_MAX / 2 }, () => 4 * EXTENT_BYTES), // readers that hold one run and the next
      ...Array.from({ length: RUNS_MAX / 2 + 3 }, () => EXTENT_BYTES),
    ])
    for (const source of sources) source.close()
    await resultAfterFlush(world, nextTurn())
    assert.equal(world.store.objects.runs.taken, 0)
  })

  it('is read once for all who read the same', async () => {
    const { world, client } = await withLarge()
    const object = await client.found('larger')
    const sources = Array.from({ length: RUNS_MAX + 3 }, () => object.read(0, LARGE.byteLength))
    for (const source of sources) await resultAfterFlush(world, source.next())
    assert.equal(world.store.objects.runs.taken, 2)
    for (const source of sources) {
      const run = await resultAfterFlush(world, source.next())
      assert.ok(Buffer.from(run!).equals(LARGE.subarray(4 * EXTENT_BYTES, 8 * EXTENT_BYTES)))
      source.close()
    }
    await resultAfterFlush(world, nextTurn())
    assert.equal(world.store.objects.runs.taken, 0)
  })

  it('is in memory when the body was just stored, and goes when the object is replaced', async () => {
    const { world, client } = await stored()
    await client.putLarge('larger', LARGE)
    const { runs } = world.store.objects
    assert.equal(runs.keptBytes, 4 * RUN_BYTES, 'three of four extents, and one of two')
    const object = await client.found('larger')
    world.holdsReads = true
    const source = object.read(0, LARGE.byteLength)
    const pieces: Buffer[] = []
    for (let piece = await source.next(); piece !== null; piece = await source.next()) pieces.push(Buffer.from(piece))
    assert.ok(Buffer.concat(pieces).equals(LARGE))
    world.holdsReads = false
    await client.putLarge('larger', LARGE.subarray(0, 4 * EXTENT_BYTES))
    assert.equal(runs.keptBytes, RUN_BYTES)
    await client.put('larger', LARGE.subarray(0, 10))
    assert.equal(runs.keptBytes, 0)
    assert.equal(runs.memory.usedBytes, 0)
  })

  it('is not in memory when the body became no object', async () => {
    const { world, client } = await stored()
    const { runs } = world.store.objects
    const large = world.store.receive(COPIED_BODY_BYTES_MIN, PLAN, client.target('larger'))
    large.write(LARGE.subarray(0, 6 * EXTENT_BYTES))
    await world.flush()
    assert.equal(runs.memory.usedBytes, 2 * RUN_BYTES)
    assert.equal(runs.keptBytes, 0)
    large.abandon()
    assert.equal(runs.memory.usedBytes, 0)
  })

  it('is given back by whoever goes away while it is read', async () => {
    const { world, client } = await withLarge()
    const object = await client.found('larger')
    const source = object.read(0, LARGE.byteLength)
    await resultAfterFlush(world, source.next())
    const waiting = source.next()
    assert.equal(world.store.objects.runs.taken, 1)
    source.close()
    assert.equal(await resultAfterFlush(world, waiting), null)
    assert.equal(world.store.objects.runs.taken, 0)
    assert.equal(world.store.objects.oldestRead, Infinity)
  })
})
