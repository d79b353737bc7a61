import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import { crc32 as crc32OfZlib } from 'node:zlib'
import fc from 'fast-check'
import type { CrcDefinition } from '../../native-free-codecs/crc.ts'
import { combineCrc32, CRC32, crc32 } from '../../native-free-codecs/crc32.ts'
import { combineCrc32c, CRC32C, crc32c } from '../../native-free-codecs/crc32c.ts'
import { combineCrc64nvme, CRC64NVME, crc64nvme } from '../../native-free-codecs/crc64nvme.ts'

interface Checked {
  readonly name: string
  readonly definition: CrcDefinition
  readonly of: (bytes: Uint8Array, before?: bigint) => bigint
  readonly combine: (first: bigint, second: bigint, secondBytes: number) => bigint
  /** The published CRC of '123456789'. */
  readonly check: bigint
}

const CRCS: readonly Checked[] = [
  { name: 'CRC64NVME', definition: CRC64NVME, of: crc64nvme, combine: combineCrc64nvme, check: 0xae8b_1486_0a79_9888n },
  {
    name: 'CRC32',
    definition: CRC32,
    of: (bytes, before = 0n) => BigInt(crc32(bytes, Number(before))),
    combine: (first, second, secondBytes) => BigInt(combineCrc32(Number(first), Number(second), secondBytes)),
    check: 0xcbf4_3926n,
  },
  {
    name: 'CRC32C',
    definition: CRC32C,
    of: (bytes, before = 0n) => BigInt(crc32c(bytes, Number(before))),
    combine: (first, second, secondBytes) => BigInt(combineCrc32c(Number(first), Number(second), secondBytes)),
    check: 0xe306_9283n,
  },
]

/** The CRC by its definition: a long division, bit by bit. */
function dividedOut({ widthBits, polynomial }: CrcDefinition, bytes: Uint8Array): bigint {
  const width = BigInt(widthBits)
  const ones = (1n << width) - 1n
  let remainder = ones
  for (const byte of bytes) {
    for (let bit = 0; bit < 8; bit++) {
      const carry = (remainder >> (width - 1n)) ^ BigInt((byte >> bit) & 1)
      remainder = ((remainder << 1n) & ones) ^ (carry === 1n ? polynomial : 0n)
    }
  }
  let reflected = 0n
  for (let bit = 0n; bit < width; bit++) reflected = (reflected << 1n) | ((remainder >> bit) & 1n)
  return reflected ^ ones
}

/** x^exponent modulo the generator. */
function power({ widthBits, polynomial }: CrcDefinition, exponent: number): bigint {
  let value = 1n
  for (let i = 0; i < exponent; i++) {
    value <<= 1n
    if (value >> BigInt(widthBits)) value = (value ^ polynomial) & ((1n << BigInt(widthBits)) - 1n)
  }
  return value
}

/** Bytes without a pattern, so that a read at a wrong address gives other bytes. */
function noise(bytes: number, seed: number): Uint8Array {
  let state = seed | 1
  return Uint8Array.from({ length: bytes }, () => (state = Math.imul(state, 0x2c1b_3c6d) + 0x3d4d) >>> 24)
}

for (const { name, definition, of, combine, check } of CRCS) {
  describe(name, () => {
    it('has the published value', () => {
      assert.equal(of(Buffer.from('123456789')), check)
    })

    it('of nothing is 0, and nothing more changes nothing', () => {
      assert.equal(of(new Uint8Array()), 0n)
      assert.equal(of(new Uint8Array(), check), check)
    })

    it('is what long division gives, at every length around those where the loop changes', () => {
      const longest = Math.max(...definition.distances)
      const turns = [0, 1, 7, 8, 9, longest, 2 * longest, 2 * longest + 64, 2 * longest + 128]
      for (const length of turns.flatMap((around) => [around - 1, around, around + 1, around + 63])) {
        const bytes = noise(Math.max(0, length), length)
        assert.equal(of(bytes), dividedOut(definition, bytes), `${bytes.length} bytes`)
      }
    })

    it('moves bytes along a multiple of the generator', () => {
      const longest = Math.max(...definition.distances)
      const terms = definition.distances.map((distance) => power(definition, 8 * (longest - distance)))
      assert.equal(
        terms.reduce((sum, term) => sum ^ term),
        power(definition, 8 * longest),
      )
    })

    it('of a message longer than the memory is that of its pieces', () => {
      const bytes = noise(400_000, 3)
      const inPieces = [0, 1, 1000, 140_000, 399_999, 400_000].reduce(
        (before, from, i, cuts) => of(bytes.subarray(from, cuts[i + 1] ?? from), before),
        0n,
      )
      assert.equal(of(bytes), inPieces)
    })

    it('of bytes in shared memory is the same wherever they begin, and whatever came before', () => {
      const bytes = noise(5000, 4)
      const expected = dividedOut(definition, bytes)
      const shared = new Uint8Array(new SharedArrayBuffer(5010))
      for (let shift = 0; shift < 10; shift++) {
        of(new Uint8Array(200_000).fill(0xff)) // fills the memory of the codec with ones
        shared.set(bytes, shift)
        assert.equal(of(shared.subarray(shift, shift + 5000)), expected)
        assert.equal(of(bytes), expected)
      }
    })
  })

  test(`${name} of any bytes, cut anywhere, is what long division gives`, () => {
    const length = fc.oneof(fc.nat({ max: 300 }), fc.nat({ max: 6000 }))
    fc.assert(
      fc.property(length, fc.nat(), fc.array(fc.nat({ max: 6000 }), { maxLength: 5 }), (bytes, seed, places) => {
        const message = noise(bytes, seed)
        const cuts = [0, ...places.filter((place) => place < bytes).sort((a, b) => a - b), bytes]
        let crc = 0n
        cuts.forEach((from, i) => (crc = of(message.subarray(from, cuts[i + 1] ?? from), crc)))
        assert.equal(crc, dividedOut(definition, message))
      }),
      { numRuns: 60 },
    )
  })

  test(`${name} of two messages comes from theirs: crc(a · b) = combine(crc(a), crc(b), |b|)`, () => {
    const length = fc.oneof(fc.nat({ max: 20 }), fc.nat({ max: 70_000 }))
    fc.assert(
      fc.property(length, length, fc.nat(), (first, second, seed) => {
        const a = noise(first, seed)
        const b = noise(second, ~seed)
        assert.equal(combine(of(a), of(b), second), of(Buffer.concat([a, b])))
      }),
      { numRuns: 100 },
    )
  })

  test(`${name} combines over lengths beyond 2^32 as over their halves`, () => {
    const half = 3 * 2 ** 31 + 5 // zeros, whose CRC without the initial and final ones is 0
    assert.equal(combine(check, 0n, 2 * half), combine(combine(check, 0n, half), 0n, half))
  })
}

test('CRC32 is that of zlib, of short messages and long', () => {
  const bytes = noise(20_000, 5)
  for (const length of [0, 1, 4095, 4096, 4097, 20_000]) {
    assert.equal(crc32(bytes.subarray(0, length)), crc32OfZlib(bytes.subarray(0, length)))
  }
})
