import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { GRAM_BYTES, gramHash, setGramBits } from '../../native-free-codecs/gram-bits.ts'
import { SCANNED_BYTES_MAX } from '../../native-free-codecs/text-scan.ts'
import { ByteFinder } from '../../src/logstore/search/byte-finder.ts'
import { ASCII_OF_WORD } from '../../src/logstore/search/words.ts'
import { testSeed } from '../support/seed.ts'

const lower = (bytes: Buffer): Buffer =>
  Buffer.from(
    bytes.toString('latin1').replaceAll(/[A-Z]/g, (c) => c.toLowerCase()),
    'latin1',
  )

/** Few different bytes, so that near matches are frequent. Some of them differ only by the bit of case. */
const bytesLike = fc
  .array(fc.constantFrom(...Buffer.from('aAbB_\x7f1\x11[{ é')), { maxLength: 60 })
  .map((bytes) => Buffer.from(bytes))
const text = fc.string({ unit: fc.constantFrom('a', 'b', '_', '1', '[', ' '), minLength: 1, maxLength: 7 })

describe('a text in bytes', () => {
  it('is found where it begins first, whatever the case, near and far', () => {
    fc.assert(
      fc.property(
        bytesLike,
        bytesLike,
        fc.nat(300),
        fc.nat(2 * SCANNED_BYTES_MAX),
        text,
        (before, behind, near, far, wanted) => {
          const bytes = Buffer.concat([
            before,
            Buffer.alloc(near),
            behind,
            Buffer.alloc(far),
            Buffer.from(wanted.toUpperCase()),
            behind,
          ])
          const finder = new ByteFinder(wanted)
          for (const from of [0, before.length, before.length + near])
            assert.equal(finder.next(bytes, from, bytes.length), lower(bytes).indexOf(wanted, from, 'latin1'))
          const end = bytes.length - behind.length - 1 // cuts the text off
          assert.equal(finder.next(bytes, 0, end), lower(bytes.subarray(0, end)).indexOf(wanted, 0, 'latin1'))
        },
      ),
      { numRuns: 500, seed: testSeed() },
    )
  })

  it('is found at every place around the ends of pieces', () => {
    const finder = new ByteFinder('needle')
    const bytes = Buffer.alloc(40_000)
    for (let at = 0; at + 6 <= bytes.length; at += at % 1000 > 300 ? 97 : 1) {
      bytes.write('NeEdLe', at)
      assert.equal(finder.next(bytes, 0, bytes.length), at)
      bytes.fill(0, at, at + 6)
    }
  })
})

describe('the bits of runs of four bytes', () => {
  it('are those of every run of bytes of words, and no others', () => {
    const word = fc.string({
      unit: fc.constantFrom('a', 'Z', '0', '_', ' ', '@', '[', '`', '{', '/', ':', 'é'),
      maxLength: 50,
    })
    fc.assert(
      fc.property(word, fc.nat(20_000), word, fc.constantFrom(8, 64, 4096), (one, apart, other, words) => {
        const bytes = Buffer.from(`${one}${'xY9'.repeat(apart / 3)}${other}`)
        const expected = new Uint32Array(words)
        const shift = Math.clz32(32 * words) + 1
        const folded = lower(bytes)
        for (let at = 0; at + GRAM_BYTES <= folded.length; at++) {
          if (folded.subarray(at, at + GRAM_BYTES).some((byte) => ASCII_OF_WORD[byte] === 0)) continue
          const bit = gramHash(folded.readInt32LE(at)) >>> shift
          expected[bit >>> 5]! |= 1 << (bit & 31)
        }
        const bits = new Uint32Array(new SharedArrayBuffer(4 * words)).fill(7)
        setGramBits(bits, bytes)
        assert.deepEqual([...bits], [...expected])
      }),
      { numRuns: 300, seed: testSeed() },
    )
  })
})
