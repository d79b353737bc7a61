import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import { MD5_LANES, Md5Hasher, Md5Message } from '../../native-free-codecs/md5.ts'

const hasher = new Md5Hasher() // one for all tests, like in a thread: leftovers of a call must not matter

const digestOf = (message: Md5Message): string => hasher.digests([message])[0]!.toString('hex')

/** Bytes without a pattern, so that a read at a wrong address gives other bytes. */
function noise(bytes: number, seed: number): Buffer {
  let state = seed | 1
  return Buffer.from(Uint8Array.from({ length: bytes }, () => (state = Math.imul(state, 0x2c1b_3c6d) + 0x3d4d) >>> 24))
}

describe('MD5', () => {
  it('has the published values', () => {
    for (const [text, digest] of [
      ['', 'd41d8cd98f00b204e9800998ecf8427e'],
      ['a', '0cc175b9c0f1b6a831c399e269772661'],
      ['message digest', 'f96b697d7cb7938d525a2f31aaf161d0'],
      ['1234567890'.repeat(8), '57edf4a22be3c955ac49da2e2107b67a'],
    ] as const) {
      const message = new Md5Message()
      hasher.update([{ message, bytes: Buffer.from(text) }])
      assert.equal(digestOf(message), digest)
      assert.deepEqual(hasher.ofWhole([Buffer.from(text)]), [digest])
    }
  })

  it('is that of node:crypto at every length around the ends of blocks and of pieces, alone and beside others', () => {
    for (const around of [0, 56, 64, 120, 128, 16 * 1024, 32 * 1024]) {
      for (let length = Math.max(0, around - 2); length <= around + 2; length++) {
        for (let count = 1; count <= MD5_LANES; count++) {
          const updates = Array.from({ length: count }, (_, i) => {
            return { message: new Md5Message(), bytes: noise(length + 61 * i, length + i) }
          })
          hasher.update(updates)
          for (const { message, bytes } of updates) assert.equal(digestOf(message), hash('md5', bytes))
          const messages = updates.map(({ bytes }) => bytes)
          assert.deepEqual(
            hasher.ofWhole(messages),
            messages.map((bytes) => hash('md5', bytes)),
          )
        }
      }
    }
  })

  it('of bytes in shared memory is the same wherever they begin', () => {
    const bytes = noise(5000, 4)
    const shared = new Uint8Array(new SharedArrayBuffer(5010))
    for (let shift = 0; shift < 10; shift++) {
      shared.set(bytes, shift)
      const message = new Md5Message()
      hasher.update([{ message, bytes: shared.subarray(shift, shift + 5000) }])
      assert.equal(digestOf(message), hash('md5', bytes))
    }
  })

  it('takes no more messages at a time than it has lanes, and none twice', () => {
    const bytes = noise(64, 1)
    const message = new Md5Message()
    assert.throws(
      () =>
        hasher.update([
          { message, bytes },
          { message, bytes },
        ]),
      assert.AssertionError,
    )
    const many = Array.from({ length: MD5_LANES + 1 }, () => ({ message: new Md5Message(), bytes }))
    assert.throws(() => hasher.update(many), assert.AssertionError)
  })
})

test('MD5 of any messages, cut anywhere, together in any order, is that of node:crypto', () => {
  const length = fc.oneof(fc.nat({ max: 200 }), fc.nat({ max: 40_000 }))
  const numbers = Array.from({ length: MD5_LANES + 2 }, (_, i) => String(i))
  /** The messages that go on in one call, by number, and their bytes. */
  const turn = fc.dictionary(fc.constantFrom(...numbers), length, { maxKeys: MD5_LANES })
  fc.assert(
    fc.property(fc.array(turn, { maxLength: 6 }), fc.nat(), (turns, seed) => {
      const messages = numbers.map(() => new Md5Message())
      const all: Buffer[][] = messages.map(() => [])
      for (const [i, next] of turns.entries()) {
        const updates = Object.entries(next).map(([number, bytes]) => {
          const piece = noise(bytes, seed + i + Number(number))
          all[Number(number)]!.push(piece)
          return { message: messages[Number(number)]!, bytes: piece }
        })
        hasher.update(updates)
      }
      messages.forEach((message, i) => assert.equal(digestOf(message), hash('md5', Buffer.concat(all[i]!))))
    }),
  )
})
