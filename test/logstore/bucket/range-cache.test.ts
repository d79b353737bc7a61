import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { RangeCache } from '../../../src/logstore/bucket/range-cache.ts'
import type { Piece } from '../../../src/logstore/bucket/range-cache.ts'
import type { ListedObject } from '../../../src/logstore/bucket/object-client.ts'

const NEVER = new AbortController().signal

/** A client whose reads end when the test says. */
class PlayedClient {
  readonly reads: { key: string; etag: string; signal: AbortSignal; end(): void; fail(error: Error): void }[] = []

  read({ key, etag }: ListedObject, from: number, to: number, signal: AbortSignal): Promise<Uint8Array> {
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>()
    this.reads.push({ key, etag, signal, end: () => resolve(new Uint8Array(to - from)), fail: reject })
    return promise
  }
}

const pieceOf = (key: string, etag = '1', bytes = 10): Piece => ({ object: { key, etag, bytes }, from: 0, to: bytes })

async function cacheWith(bytesMax: number, readsMax = 8): Promise<{ cache: RangeCache; client: PlayedClient }> {
  const client = new PlayedClient()
  return { cache: new RangeCache(client, { bytesMax, readsMax }), client }
}

describe('pieces of objects', () => {
  it('are read once for all who ask, and kept', async () => {
    const { cache, client } = await cacheWith(100)
    const asked = [cache.get(pieceOf('a'), NEVER), cache.get(pieceOf('a'), NEVER)]
    assert.equal(client.reads.length, 1)
    client.reads[0]!.end()
    const [first, second] = await Promise.all(asked)
    assert.equal(first, second)
    assert.equal(await cache.get(pieceOf('a'), NEVER), first)
    assert.equal(client.reads.length, 1)
  })

  it('are those of one version of their object', async () => {
    const { cache, client } = await cacheWith(100)
    for (const etag of ['1', '2']) {
      const asked = cache.get(pieceOf('a', etag), NEVER)
      client.reads.at(-1)!.end()
      await asked
    }
    assert.deepEqual(
      client.reads.map(({ etag }) => etag),
      ['1', '2'],
    )
  })

  it('leave, the least recently used first, when there is no room, or when they are told to', async () => {
    const { cache, client } = await cacheWith(20)
    const get = async (key: string): Promise<boolean> => {
      const before = client.reads.length
      const asked = cache.get(pieceOf(key), NEVER)
      if (client.reads.length > before) client.reads.at(-1)!.end()
      await asked
      return client.reads.length > before
    }
    assert.deepEqual([await get('a'), await get('b'), await get('a'), await get('c')], [true, true, false, true])
    assert.deepEqual([await get('a'), await get('b')], [false, true])
    cache.forget(['b'])
    assert.deepEqual([await get('a'), await get('b')], [false, true])
    const large = cache.get(pieceOf('large', '1', 50), NEVER)
    client.reads.at(-1)!.end()
    assert.equal((await large).byteLength, 50)
    assert.deepEqual([await get('a'), await get('b')], [false, false])
  })

  it('are given up when nobody waits for them any more, and read anew for who asks then', async () => {
    const { cache, client } = await cacheWith(100)
    const [one, other] = [new AbortController(), new AbortController()]
    const asked = [cache.get(pieceOf('a'), one.signal), cache.get(pieceOf('a'), other.signal)]
    one.abort(new Error('over'))
    await assert.rejects(asked[0]!, /over/)
    assert(!client.reads[0]!.signal.aborted)
    other.abort(new Error('over'))
    await assert.rejects(asked[1]!, /over/)
    assert(client.reads[0]!.signal.aborted)
    const again = cache.get(pieceOf('a'), NEVER)
    client.reads[0]!.fail(new Error('aborted'))
    client.reads[1]!.end()
    assert.equal((await again).byteLength, 10)
  })

  it('fail for all who wait, and are read again for the next', async () => {
    const { cache, client } = await cacheWith(100)
    const asked = [cache.get(pieceOf('a'), NEVER), cache.get(pieceOf('a'), NEVER)]
    client.reads[0]!.fail(new Error('500'))
    for (const each of asked) await assert.rejects(each, /500/)
    const again = cache.get(pieceOf('a'), NEVER)
    client.reads[1]!.end()
    await again
  })

  it('are read so many at a time, in the order in which they were asked for', async () => {
    const { cache, client } = await cacheWith(100, 2)
    const asked = ['a', 'b', 'c', 'd'].map((key) => cache.get(pieceOf(key), NEVER))
    assert.equal(client.reads.length, 2)
    client.reads[0]!.end()
    await asked[0]
    client.reads[1]!.fail(new Error('500'))
    await assert.rejects(asked[1]!, /500/)
    client.reads[2]!.end()
    await asked[2]
    client.reads[3]!.end()
    await asked[3]
    assert.deepEqual(
      client.reads.map(({ key }) => key),
      ['a', 'b', 'c', 'd'],
    )
  })
})
