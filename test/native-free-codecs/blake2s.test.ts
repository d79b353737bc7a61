import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import { BATCH_BYTES_MAX, BatchHasher, HEAD_BYTES, RECORD_BYTES_MAX } from '../../native-free-codecs/blake2s.ts'

interface Range {
  readonly start: number
  readonly bytes: number
  readonly head: number
}

const hasher = new BatchHasher() // one for all tests, like in a thread: leftovers of a batch must not matter

/** Ids as hexadecimal text. */
function idsOf(body: Uint8Array, ranges: readonly Range[], heads: Uint8Array): string[] {
  const ids = new Uint32Array(4 * ranges.length)
  hasher.idsInto(
    ids,
    body,
    Uint32Array.from(ranges, ({ start }) => start),
    Uint32Array.from(ranges, ({ start, bytes }) => start + bytes),
    Uint16Array.from(ranges, ({ head }) => head),
    heads,
    heads.length / HEAD_BYTES,
    ranges.length,
  )
  return ranges.map((_, i) =>
    [...ids.subarray(4 * i, 4 * i + 4)].map((word) => word.toString(16).padStart(8, '0')).join(''),
  )
}

function expectedIds(body: Uint8Array, ranges: readonly Range[], heads: Uint8Array): string[] {
  return ranges.map(({ start, bytes, head }) => {
    const message = [heads.subarray(head * HEAD_BYTES, (head + 1) * HEAD_BYTES), body.subarray(start, start + bytes)]
    return hash('blake2s256', Buffer.concat(message)).slice(0, 32)
  })
}

/** Bytes without a pattern, so that a read at a wrong address gives other bytes. */
function noise(bytes: number, seed: number): Buffer {
  let state = seed | 1
  return Buffer.from(Uint8Array.from({ length: bytes }, () => (state = Math.imul(state, 0x2c1b_3c6d) + 0x3d4d) >>> 24))
}

/** Records back to back, with `headCount` heads in turn. */
function rangesOf(lengths: readonly number[], headCount: number): Range[] {
  let start = 0
  return lengths.map((bytes, i) => {
    const range = { start, bytes, head: i % headCount }
    start += bytes
    return range
  })
}

const sum = (lengths: readonly number[]) => lengths.reduce((total, bytes) => total + bytes, 0)

function assertIds(lengths: readonly number[], headCount: number, seed = 1): void {
  const body = noise(sum(lengths), seed)
  const heads = noise(HEAD_BYTES * headCount, ~seed)
  const ranges = rangesOf(lengths, headCount)
  assert.deepEqual(idsOf(body, ranges, heads), expectedIds(body, ranges, heads))
}

describe('ids of a batch', () => {
  it('are checked against a hash that gives the digest of RFC 7693, appendix B', () => {
    assert.equal(hash('blake2s256', 'abc'), '508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982')
  })

  it('are right for every length up to five blocks', () => {
    assertIds(
      Array.from({ length: 321 }, (_, bytes) => bytes),
      1,
    )
  })

  it('are right around the longest record that takes the fast way', () => {
    assertIds([RECORD_BYTES_MAX - 1, 5, RECORD_BYTES_MAX, RECORD_BYTES_MAX + 1, 64, 0, 3], 2)
  })

  it('are right around the largest batch that takes the fast way', () => {
    for (const spareBytes of [1, 0, -1, -1000]) {
      const body = noise(BATCH_BYTES_MAX - HEAD_BYTES - spareBytes + 7, 3).subarray(7)
      const heads = noise(HEAD_BYTES, 4)
      const ranges = [
        { start: 0, bytes: 100, head: 0 },
        { start: body.length - 129, bytes: 129, head: 0 },
        { start: body.length, bytes: 0, head: 0 },
      ]
      assert.deepEqual(idsOf(body, ranges, heads), expectedIds(body, ranges, heads))
    }
  })

  it('are right when each record has a head of its own', () => {
    const lengths = Array.from({ length: 512 }, (_, i) => (i * 37) % 700)
    assertIds(lengths, 512)
  })

  it('of a body in shared memory are the same', () => {
    const lengths = [400, 64, 0, 129, 17_000]
    const body = noise(sum(lengths), 5)
    const shared = new Uint8Array(new SharedArrayBuffer(body.length + 3), 3)
    shared.set(body)
    const heads = noise(HEAD_BYTES, 6)
    const ranges = rangesOf(lengths, 1)
    assert.deepEqual(idsOf(shared, ranges, heads), expectedIds(body, ranges, heads))
  })

  it('are none when there is no record', () => {
    assert.deepEqual(idsOf(Buffer.alloc(0), [], Buffer.alloc(0)), [])
  })

  it('leave the words after the last record alone', () => {
    const ids = new Uint32Array(8).fill(7)
    hasher.idsInto(ids, noise(9, 1), Uint32Array.of(0), Uint32Array.of(9), Uint16Array.of(0), noise(64, 2), 1, 1)
    assert.deepEqual([...ids.subarray(4)], [7, 7, 7, 7])
  })

  it('are refused when a record is not inside the body or has no head', () => {
    const heads = noise(HEAD_BYTES, 1)
    for (const range of [
      { start: 5, bytes: 6, head: 0 },
      { start: 5, bytes: -1, head: 0 },
      { start: 0, bytes: 1, head: 1 },
    ]) {
      assert.throws(() => idsOf(noise(10, 1), [range], heads), { name: 'AssertionError' })
    }
  })
})

test('ids agree with node:crypto, batch after batch, for any ranges, lengths and heads', () => {
  const nearBlocks = fc.tuple(fc.nat({ max: 40 }), fc.integer({ min: -1, max: 1 }))
  const length = fc.oneof(
    fc.nat({ max: 3000 }),
    fc.nat({ max: 130 }),
    nearBlocks.map(([blocks, more]) => Math.max(0, 64 * blocks + more)),
  )
  const range = fc.record({ start: fc.nat({ max: 5000 }), bytes: length, head: fc.nat({ max: 4 }) })
  fc.assert(
    fc.property(
      fc.nat(),
      fc.nat({ max: 9 }),
      fc.array(range, { maxLength: 40 }),
      fc.integer({ min: 5, max: 9 }),
      (seed, offset, ranges, headCount) => {
        const body = noise(8000 + offset, seed).subarray(offset)
        const heads = noise(HEAD_BYTES * headCount, ~seed)
        assert.deepEqual(idsOf(body, ranges, heads), expectedIds(body, ranges, heads))
      },
    ),
    { numRuns: 200 },
  )
})
