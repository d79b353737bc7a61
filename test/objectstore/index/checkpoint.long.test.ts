import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { KeyIndex } from '../../../src/objectstore/index/key-index.ts'
import { bytesOf } from './naive-index.ts'
import { checkStructure } from './structure.ts'
import { contentOf, put, valueOf } from './support.ts'

const keyOf = (number: number): Buffer => bytesOf(`logs/${String((number * 7919) % 100_000).padStart(8, '0')}`)

function filled(keys: number): KeyIndex {
  const index = KeyIndex.create()
  for (let i = 0; i < keys; i++) index.put(i % 3, keyOf(i), valueOf(i))
  return index
}

const corrupt = { kind: 'corrupt', code: 'key_index_unreadable' }

describe('a checkpoint of the key index', () => {
  it('of an empty index gives an empty index', () => {
    const index = KeyIndex.decode(KeyIndex.create().encode())
    assert.deepEqual([index.size(0), index.pages, index.firstKey(0)], [0, 1, null])
    put(index, 0, 'a')
    assert.equal(index.size(0), 1)
  })

  it('comes in parts of up to a MiB that own their memory, and may be joined before they are read', () => {
    const index = filled(30_000)
    const parts = index.encode()
    assert.ok(parts.length > 2, `${parts.length} parts`)
    assert.equal(new Set(parts.map(({ buffer }) => buffer)).size, parts.length)
    assert.ok(parts.every(({ byteLength }) => byteLength <= 2 ** 20))
    const joined = KeyIndex.decode([Buffer.concat(parts)])
    for (const bucket of [0, 1, 2]) assert.deepEqual(contentOf(joined, bucket), contentOf(index, bucket))
  })

  it('is read from pieces cut anywhere, in memory that is used again', () => {
    const index = filled(6000)
    const whole = Buffer.concat(index.encode())
    const pieceBytes = fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1000, max: 200_000 }))
    fc.assert(
      fc.property(fc.array(pieceBytes, { minLength: 1, maxLength: 20 }), (cuts) => {
        const memory = Buffer.alloc(200_000)
        function* pieces(): Generator<Buffer> {
          for (let at = 0, i = 0; at < whole.length; i++) {
            const bytes = whole.copy(memory, 0, at, at + (i < cuts.length ? cuts[i]! : 150_000))
            yield memory.subarray(0, bytes)
            at += bytes
          }
        }
        const read = KeyIndex.decode(pieces())
        for (const bucket of [0, 1, 2]) assert.deepEqual(contentOf(read, bucket), contentOf(index, bucket))
      }),
      { numRuns: 25 },
    )
  })

  it('is the index as it was when it began, though all of it is deleted and put anew before the first part is taken', () => {
    const index = filled(20_000)
    const before = contentOf(index, 1)
    const writer = index.checkpoint()
    for (let i = 0; i < 20_000; i++) index.delete(i % 3, keyOf(i))
    for (let i = 0; i < 5000; i++) index.put(7, keyOf(i), valueOf(i))
    assert.ok(writer.bytes > 1_000_000, 'what changed is held')
    const parts: Uint8Array[] = []
    for (let part = writer.next(); part !== null; part = writer.next()) parts.push(part)
    checkStructure(parts)
    const restored = KeyIndex.decode(parts)
    assert.deepEqual(contentOf(restored, 1), before)
    assert.equal(restored.size(7), 0)
    assert.equal(writer.bytes, 0)
    assert.equal(writer.next(), null)
    assert.equal(index.size(7), 5000)
  })

  it('is one at a time, until it is done or abandoned', () => {
    const index = filled(10_000)
    const abandoned = index.checkpoint()
    abandoned.next()
    assert.throws(() => index.checkpoint(), /one checkpoint/)
    abandoned.abandon()
    for (let i = 0; i < 10_000; i++) index.put(i % 3, keyOf(i), valueOf(i + 1))
    assert.deepEqual([abandoned.bytes, abandoned.next()], [0, null])
    const second = index.checkpoint()
    abandoned.abandon() // too late: the second checkpoint goes on
    index.put(0, keyOf(0), valueOf(5))
    assert.ok(second.bytes > 0)
  })

  it('of another version or size of pages is refused, and so are parts that are missing, cut or twice there', () => {
    const index = filled(20_000)
    const parts = index.encode()
    const changed = (at: number): Uint8Array[] => {
      const header = Buffer.from(parts[0]!)
      header[at]! += 1
      return [header, ...parts.slice(1)]
    }
    for (const at of [0, 4, 6, 8, 12 + 3]) assert.throws(() => KeyIndex.decode(changed(at)), corrupt, `byte ${at}`)
    assert.throws(() => KeyIndex.decode([]), corrupt)
    assert.throws(() => KeyIndex.decode([parts[0]!.subarray(0, 10)]), corrupt)
    assert.throws(() => KeyIndex.decode([parts[0]!.subarray(0, 30)]), corrupt)
    assert.throws(() => KeyIndex.decode(parts.slice(0, -1)), corrupt)
    assert.throws(() => KeyIndex.decode([...parts, parts[1]!]), corrupt)
    for (const cutBytes of [1, 2, 8000]) {
      assert.throws(() => KeyIndex.decode([parts[0]!, parts[1]!.subarray(0, -cutBytes)]), corrupt)
    }
    assert.throws(() => KeyIndex.decode([parts[0]!, parts[1]!.subarray(0, 2)]), corrupt)
    assert.throws(() => KeyIndex.decode([parts[0]!, parts[1]!.subarray(0, 10)]), corrupt)
  })
})
