import { finishBody } from '../../../src/objectstore/finish-body.ts'
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { BodyWriter, ReceivedBody } from '../../../src/objectstore/operations.ts'
import { payloadOf, replay } from '../../support/log-harness.ts'
import { StoreClient, resultAfterFlush } from './client.ts'
import { nextTurn } from '../../support/next-turn.ts'
import { EXTENT_BYTES, StoreWorld } from './world.ts'
import { FRAME_EXTENT } from '../../../src/objectstore/engine/frames.ts'

const open = async (extents: number): Promise<{ world: StoreWorld; client: StoreClient }> => {
  const world = await StoreWorld.open({ extents })
  return { world, client: await StoreClient.open(world) }
}

/** The state of a promise. */
function watched<T>(promise: Promise<T>): { state: 'pending' | 'resolved' | 'rejected'; error: unknown } {
  const seen: ReturnType<typeof watched<T>> = { state: 'pending', error: null }
  promise.then(
    () => (seen.state = 'resolved'),
    (error: unknown) => Object.assign(seen, { state: 'rejected', error }),
  )
  return seen
}

describe('a body that comes faster than the disk takes it', () => {
  it('is asked to wait, hears when there is room, and is whole', async () => {
    const { world, client } = await open(4)
    const bytes = payloadOf(1, 20 * EXTENT_BYTES + 77)
    const writer = client.large('a')
    let waits = 0
    const room = { isThere: true }
    for (let at = 0; at < bytes.byteLength; at += 700) {
      room.isThere = writer.write(bytes.subarray(at, at + 700))
      if (room.isThere) continue
      waits += 1
      writer.onDrain(() => (room.isThere = true))
      while (!room.isThere) await world.step()
    }
    assert.ok(waits > 3)
    await resultAfterFlush(
      world,
      finishBody(writer).then((body) => client.commit('a', body)),
    )
    assert.ok((await client.get('a')).equals(bytes))
  })
})

describe('many fast bodies that wait when they are asked to', () => {
  it('find room for all they bring, each in its turn, and are whole', async () => {
    const { world, client } = await open(32)
    let refused = 0
    const allocate = world.arena.allocate.bind(world.arena)
    world.arena.allocate = (bytes) => {
      const offset = allocate(bytes)
      if (offset < 0) refused += 1
      return offset
    }
    const bodies = Array.from({ length: 4 }, (_, n) => ({
      key: `k${n}`,
      bytes: payloadOf(n, 60 * EXTENT_BYTES + n),
      sent: 0,
      mayWrite: true,
      writer: client.large(`k${n}`),
    }))
    let stops = 0
    const pieceBytes = 2 * EXTENT_BYTES
    while (bodies.some(({ sent, bytes }) => sent < bytes.byteLength)) {
      for (const body of bodies) {
        if (!body.mayWrite || body.sent >= body.bytes.byteLength) continue
        body.mayWrite = body.writer.write(body.bytes.subarray(body.sent, body.sent + pieceBytes))
        body.sent += pieceBytes
        if (body.mayWrite) continue
        stops += 1
        body.writer.onDrain(() => (body.mayWrite = true))
      }
      if (bodies.every(({ mayWrite, sent, bytes }) => !mayWrite || sent >= bytes.byteLength)) await world.step()
    }
    const puts = bodies.map(async ({ key, writer }) => client.commit(key, await finishBody(writer)))
    await resultAfterFlush(world, Promise.all(puts))
    for (const { key, bytes } of bodies) assert.ok((await client.get(key)).equals(bytes))
    assert.ok(stops > 12, `${stops}`)
    assert.equal(refused, 0)
    assert.equal(world.arena.usedBytes, 0)
  })
})

/** A client that sends pieces of a body whenever the writer has room. */
class Sender {
  readonly key: string
  readonly bytes: Buffer
  readonly writer: BodyWriter
  #sent = 0
  #mayWrite = true

  constructor(client: StoreClient, key: string, bytes: Buffer) {
    this.key = key
    this.bytes = bytes
    this.writer = client.large(key)
    this.writer.onDrain(() => (this.#mayWrite = true))
  }

  get isDone(): boolean {
    return this.#sent >= this.bytes.byteLength
  }

  send(pieceBytes: number): void {
    if (!this.#mayWrite || this.isDone) return
    this.#mayWrite = this.writer.write(this.bytes.subarray(this.#sent, this.#sent + pieceBytes))
    this.#sent += pieceBytes
  }
}

/** Records the sizes of the extents that are appended from now on. */
function watchedExtents(world: StoreWorld): number[] {
  const sizes: number[] = []
  const append = world.core.engine.append.bind(world.core.engine)
  world.core.engine.append = (frame, heard) => {
    if (frame.type === FRAME_EXTENT) sizes.push(frame.external!.bytes)
    return append(frame, heard)
  }
  return sizes
}

describe('more slow bodies than there are blocks', () => {
  for (const [count, blocks, pieceBytes] of [
    [130, 9, 60],
    [40, 3, 17],
    [500, 2.3, 300],
  ] as const) {
    it(`of ${count} clients all come to their end, in extents of a quarter of a block at least`, async () => {
      const { world, client } = await open(12)
      const sizes = watchedExtents(world)
      const senders = Array.from(
        { length: count },
        (_, n) => new Sender(client, `k${n}`, payloadOf(n, Math.floor(blocks * EXTENT_BYTES) + n)),
      )
      for (let rounds = 0; senders.some(({ isDone }) => !isDone); rounds += 1) {
        for (const sender of senders) sender.send(pieceBytes)
        await world.step()
        assert.ok(rounds < 20_000, 'they get on')
      }
      const puts = senders.map(async ({ key, writer }) => client.commit(key, await finishBody(writer)))
      await resultAfterFlush(world, Promise.all(puts))
      for (const { key, bytes } of senders.slice(0, 50)) assert.ok((await client.get(key)).equals(bytes))
      const small = sizes.filter((bytes) => bytes < EXTENT_BYTES / 4).length
      assert.ok(small <= count, `${small} of ${sizes.length}`) // only the last extent of each body may be small
      assert.equal(world.arena.usedBytes, 0)
    })
  }
})

describe('many slow bodies with too little memory', () => {
  it('all come to their end, whole', async () => {
    const { world, client } = await open(3)
    const bodies = Array.from({ length: 40 }, (_, n) => ({
      bytes: payloadOf(n, 1500 + 31 * n),
      writer: client.large(`k${n}`),
    }))
    for (let at = 0; at < 3000; at += 100) {
      for (const { bytes, writer } of bodies) writer.write(bytes.subarray(at, at + 100))
      if (at % 300 === 0) await world.step()
    }
    const puts = bodies.map(async ({ writer }, n) => client.commit(`k${n}`, await finishBody(writer)))
    await resultAfterFlush(world, Promise.all(puts))
    for (const [n, { bytes }] of bodies.entries()) assert.ok((await client.get(`k${n}`)).equals(bytes))
    assert.equal(world.arena.usedBytes, 0)
  })

  it('do not keep a small one from being stored', async () => {
    const { world, client } = await open(2)
    const slow = Array.from({ length: 5 }, (_, n) => client.large(`slow${n}`))
    for (const writer of slow) writer.write(payloadOf(1, 300))
    await client.put('quick', payloadOf(2, 100))
    assert.ok((await client.get('quick')).equals(payloadOf(2, 100)))
    for (const writer of slow) writer.abandon()
    await world.flush()
    assert.equal(world.arena.usedBytes, 0)
  })
})

describe('a digest lane that dies', () => {
  it('fails the bodies that it had and no others, and leaves nothing behind', async () => {
    const { world, client } = await open(8)
    const writers = [client.large('a'), client.large('b'), client.large('c'), client.large('d')]
    for (const writer of writers) writer.write(payloadOf(3, 1500))
    world.digestLaneDies(0)
    const results = await resultAfterFlush(world, Promise.allSettled(writers.map((writer) => finishBody(writer))))
    const failed = results.filter(({ status }) => status === 'rejected')
    assert.equal(failed.length, 2)
    for (const result of failed) assert.equal((result as PromiseRejectedResult).reason.code, 'InternalError')
    for (const result of results) if (result.status === 'fulfilled') result.value.abandon()
    await world.flush()
    assert.equal(world.arena.usedBytes, 0)
  })

  it('is replaced: the next bodies are taken', async () => {
    const { world, client } = await open(8)
    client.large('a').write(payloadOf(4, 1500))
    client.large('b').write(payloadOf(4, 1500))
    world.digestLaneDies(0)
    world.digestLaneDies(0)
    for (const key of ['c', 'd', 'e']) await client.putLarge(key, payloadOf(5, 2500))
    assert.ok((await client.get('e')).equals(payloadOf(5, 2500)))
  })

  it('leaves no space taken by a body that waited for some, and goes on when it fails', async () => {
    const { world, client } = await open(2)
    world.holdsDigests = true
    const writer = client.large('a')
    writer.onDrain(() => writer.write(payloadOf(6, 500)))
    assert.equal(writer.write(payloadOf(6, 3 * EXTENT_BYTES)), false)
    world.digestLaneDies(0)
    await assert.rejects(resultAfterFlush(world, finishBody(writer)), { code: 'InternalError' })
    assert.equal(world.arena.usedBytes, 0)
  })
})

describe('a body that is abandoned', () => {
  const stages: readonly [string, (world: StoreWorld, writer: BodyWriter) => Promise<unknown>][] = [
    ['while it fills', async () => {}],
    ['while it is digested', async (world) => void (world.holdsDigests = true)],
    ['while it is written', async (world) => world.serveDigests()],
    ['when it was written', (world) => world.flush()],
    ['twice', async (_, writer) => writer.abandon()],
  ]
  for (const [when, arrange] of stages) {
    it(`${when} leaves no space taken`, async () => {
      const { world, client } = await open(6)
      const writer = client.large('a')
      writer.write(payloadOf(7, 3 * EXTENT_BYTES + 100))
      await arrange(world, writer)
      writer.abandon()
      await world.flush()
      assert.equal(world.arena.usedBytes, 0)
      assert.equal(world.store.bodies.oldestExtent, Infinity)
    })
  }

  it('while it is finished is refused', async () => {
    const { world, client } = await open(6)
    const writer = client.large('a')
    writer.write(payloadOf(8, 2000))
    const finishing = watched(finishBody(writer))
    writer.abandon()
    await world.flush()
    assert.equal(finishing.state, 'rejected')
  })

  it('after it was finished frees what it held, and no change takes it', async () => {
    const { world, client } = await open(6)
    const writer = client.large('a')
    writer.write(payloadOf(9, 2000))
    const body: ReceivedBody = await resultAfterFlush(world, finishBody(writer))
    writer.abandon()
    await assert.rejects(resultAfterFlush(world, client.commit('a', body)), { code: 'InternalError' })
    assert.equal(world.arena.usedBytes, 0)
  })
})

describe('when the journal dies with all memory on its way to the disk', () => {
  it('what is lost is free again: bodies that wait for it go on', async () => {
    const { world, client } = await open(2)
    const lost = client.large('lost')
    lost.write(payloadOf(10, 2 * EXTENT_BYTES))
    world.serveDigests() // appends the extents, which are not written yet
    const waits = client.large('waits')
    waits.write(payloadOf(11, EXTENT_BYTES))
    await world.journalDies()
    const lostBody = watched(finishBody(lost))
    const put = finishBody(waits).then((body) => client.commit('waits', body))
    await resultAfterFlush(world, put)
    assert.equal(lostBody.state, 'rejected')
    assert.ok((await client.get('waits')).equals(payloadOf(11, EXTENT_BYTES)))
    assert.equal(world.arena.usedBytes, 0)
  })

  it('a journal that still writes when the quorum is lost writes what it was given', async () => {
    const world = new StoreWorld({ extents: 4 })
    await world.open({ replicas: ['/replica'], writeQuorum: 2 })
    const client = await StoreClient.open(world)
    const lost = client.large('lost')
    lost.write(payloadOf(10, 2 * EXTENT_BYTES))
    world.serveDigests() // appends the extents, which are not written yet
    world.files.faults = { write: (path) => (path.startsWith('/replica/') ? 'EIO' : null) }
    world.world.lanes[1]!.step()
    await nextTurn()
    assert.equal(world.log.state.kind, 'read-only')
    const late = client.large('late')
    late.write(payloadOf(11, 4 * EXTENT_BYTES))
    world.world.lanes[0]!.step()
    const { damage } = replay(world.log, world.files)
    assert.deepEqual(damage, [])
    await resultAfterFlush(world, Promise.allSettled([finishBody(lost), finishBody(late)]))
    assert.equal(world.arena.usedBytes, 0)
  })

  it('nothing waits for a log that takes nothing any more', async () => {
    const { world, client } = await open(2)
    const first = client.large('first')
    first.write(payloadOf(10, 2 * EXTENT_BYTES))
    world.serveDigests()
    const second = client.large('second')
    second.write(payloadOf(11, EXTENT_BYTES))
    world.files.faults = { sync: (path) => (path.endsWith('.log') ? 'EIO' : null) }
    const put = async (writer: BodyWriter) => client.commit('a', await finishBody(writer))
    const results = await resultAfterFlush(world, Promise.allSettled([put(first), put(second)]))
    assert.deepEqual(
      results.map(({ status }) => status),
      ['rejected', 'rejected'],
    )
    assert.equal(world.arena.usedBytes, 0)
  })
})

describe('more changes at once than the way to the disk has room for', () => {
  it('wait for each other, and none is refused', async () => {
    const world = await StoreWorld.open({ ringBytes: 1 << 13 })
    const client = await StoreClient.open(world)
    const keys = Array.from({ length: 120 }, (_, n) => `key-${n}`.padEnd(200, '.'))
    await resultAfterFlush(world, Promise.all(keys.map((key, n) => client.putting(key, payloadOf(n, 300)))))
    const tags = keys.map((key) => world.store.setTags(client.bucket, key, [{ key: 'k', value: 'v' }]))
    await resultAfterFlush(world, Promise.all(tags))
    await resultAfterFlush(
      world,
      Promise.all(keys.map((key) => world.store.deleteObject(client.bucket, key, () => null))),
    )
    assert.equal(world.core.state.index.size(client.bucket.number), 0)
    await nextTurn()
  })

  it('go on when one that was let in is refused', async () => {
    const world = await StoreWorld.open({ ringBytes: 1 << 12 })
    const client = await StoreClient.open(world)
    const first = client.putting('first', payloadOf(1, 1200))
    await nextTurn()
    const { store } = world
    const key = 'k'.repeat(900)
    const deletes = Array.from({ length: 6 }, () => store.deleteObject(client.bucket, key, refuseAll))
    const last = store.deleteObject(client.bucket, key, () => null)
    await resultAfterFlush(world, Promise.allSettled([first, ...deletes, last]))
    await last
  })
})

function refuseAll(): never {
  throw new Error('not this one')
}
