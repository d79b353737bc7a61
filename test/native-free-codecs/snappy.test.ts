/** Decompressing Snappy: blocks and streams that Go's library (github.com/golang/snappy v1.0.0) wrote, and generated blocks of a known text. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { inflateSync } from 'node:zlib'
import fc from 'fast-check'
import { decompressSnappy } from '../../native-free-codecs/snappy.ts'
import { SNAPPY_IDENTIFIER, littleEndian, snappyBlock, snappyChunk, snappyStream, varint } from '../support/snappy.ts'

const LINES = Buffer.from(
  Array.from({ length: 40 }, (_, i) => `GET /orders/${(i * i) % 97} 200 ${(i * 7) % 31}ms\n`).join(''),
)
let state = 1
const NOISE = Buffer.from(
  Array.from({ length: 100 }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state >>> 24
  }),
)

/** Text, and the block and the stream that the library wrote of it, in base64. */
const WRITTEN: readonly (readonly [name: string, text: Buffer, block: string, stream: string])[] = [
  ['nothing', Buffer.alloc(0), 'AA==', ''],
  ['one byte', Buffer.from('x'), 'AQB4', '/wYAAHNOYVBwWQEFAABQPapheA=='],
  [
    'lines',
    LINES,
    'rAdUR0VUIC9vcmRlcnMvMCAyMDAgMG1zCi4WAAAxBRYANzoWAAA0BRYEMTQ6FwAAOQUXBDIxOhcABDE2CRgAODoYAAQyNQUYPkYAADMJLwAxPkcAADQJXwAxPkcAADYJjgQyNTpfAAA4Cbw+RwAAMwV1PkUAADIJRQAxPkUABDQ3BS8EMjI6XQAENzIJGAA5OhgACRc+RgAAMw2LPkYAADYJLwAxPkYAADkpGgQyNjpeAAAzCb0+RwAANym8PkYAADENXj5GAAA1DUYAMzpeAAA5KXkAMz4EAgA0KRw+RwAAOQ3VPkcAADQNXz5HAAA5CUcAMj5NAgA1Cb4+RwAAOCVhADE+RgAANikbADE+RgAAMi2pPk4CADgJSD5HAAA1CY1CRgAtM0JGAAA5BY5C2wIENjEJGD5PAgAzCaY+RwAAMQkvQtsCADgpekbbAig2IDIwMCAyNW1zCg==',
    '/wYAAHNOYVBwWQBeAQCC8iYkrAdUR0VUIC9vcmRlcnMvMCAyMDAgMG1zCi4WAAAxBRYANzoWAAA0BRYEMTQ6FwAAOQUXBDIxOhcABDE2CRgAODoYAAQyNQUYPkYAADMJLwAxPkcAADQJXwAxPkcAADYJjgQyNTpfAAA4Cbw+RwAAMwV1PkUAADIJRQAxPkUABDQ3BS8EMjI6XQAENzIJGAA5OhgACRc+RgAAMw2LPkYAADYJLwAxPkYAADkpGgQyNjpeAAAzCb0+RwAANym8PkYAADENXj5GAAA1DUYAMzpeAAA5KXkAMz4EAgA0KRw+RwAAOQ3VPkcAADQNXz5HAAA5CUcAMj5NAgA1Cb4+RwAAOCVhADE+RgAANikbADE+RgAAMi2pPk4CADgJSD5HAAA1CY1CRgAtM0JGAAA5BY5C2wIENjEJGD5PAgAzCaY+RwAAMQkvQtsCADgpekbbAig2IDIwMCAyNW1zCg==',
  ],
  [
    'a text that repeats itself',
    Buffer.from('ab'.repeat(1000)),
    '0A8EYWL+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgA2AgA=',
    '/wYAAHNOYVBwWQBpAADoPn6e0A8EYWL+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgD+AgA2AgA=',
  ],
  [
    'noise',
    NOISE,
    'ZPBjPF6BtAxexo4Eo0Bsl9Y8+9xTrog3GhJRIbWVYUPA7i1V+2OMd/7gtvX5J1+vKX4sl99UBPM71AZiC1ghz2glnMvuAgf/zXRkq/e7fWol5r+ilIkNa5DyVsZG6fBubloFqb9xfw==',
    '/wYAAHNOYVBwWQFoAAAfQxwKPF6BtAxexo4Eo0Bsl9Y8+9xTrog3GhJRIbWVYUPA7i1V+2OMd/7gtvX5J1+vKX4sl99UBPM71AZiC1ghz2glnMvuAgf/zXRkq/e7fWol5r+ilIkNa5DyVsZG6fBubloFqb9xfw==',
  ],
]
/** A long text. Its block and stream are deflated to keep this file short. */
const LONG = Buffer.concat(Array.from({ length: 80 }, () => [LINES, NOISE]).flat())
const LONG_BLOCK =
  'eNpr6GINcXcNUdDPL0pJLSrWN1AwMjBQMMgt5tITY2AwZBVjMLcCMkxYxVgMTazEGRgsWcVZjAyBLBZDM04JBgsrCQYWI1NWCTs3BgZjTn0GQzt3oHLOeAjDjLMPKGsVz8BgwbkHJGDMWmrnysBgxOkKVODKwGJizqrPYmRkFcvAYm4ENM8SaB6nONgw3m4QZQY2E8iw1JRiMTKzigNZsxdklLnmHpC4IW8ciDLldWMwBslaalYyGNuxMDGYaMqAlFnyXgU7iTcezON0ZzCy82ViMOXcB+JbqCZCjDfTlIYwjHRX2vkxAd3rAZI35ex1cmPQNQYSnjVOt5mA6lhAlDHnMpC0Iac+iGehWeV2m4lTwvX2h1SbuMYtPHHH+lgWO+RMv2bz+07wug5zKaFAxa1TE50PvNMN/Z3cU/7vwbavP9Xj12vW6Uy/H8Ly2foKWxJ3hOL5DNU5p98xsf8/W5Ky+vvu2izVZ/sXTenkzZ7wKeyY28sPeXlRrCv3F9a7u/4TYBlFo2gUjaJRNIpG0SgaRaNoFA1FtE2AJQHS6ULuihmCu2KDtfvFYm7A2kuF/hfrlSHZ/6r8pTnNzoKR86CdOaOmr5MZY5Qp42hCHkWjKE2ABQBDti4N'
const LONG_STREAM =
  'eNr7z8bAUOyXGFAQydDDy3DlditfQwNLiLtriIJ+flFKalGxvoGCkYGBgkFuMZeeGAODIasYg7kVkGHCKsZiaGIlzsBgySrOYmQIZLEYmnFKMFhYSTCwGJmySti5MTAYc+ozGNq5A5VzxkMYZpx9QFmreAYGC849IAFj1lI7VwYGI05XoAJXBhYTc1Z9FiMjq1gGFnMjoHmWQPM4xcGG8XaDKDOwmUCGpaYUi5GZVRzImr0go8w194DEDXnjQJQprxuDMUjWUrOSwdiOhYnBRFMGpMyS9yrYSbzxYB6nO4ORnS8TgynnPhDfQjURYryZpjSEYaS70s6PCeheD5C8KWevkxuDrjGQ8Kxxus0EVMcCoow5l4GkDTn1QTwLzSq320ycEq63P6TaxDVu4Yk71sey2CFn+jWb33eC13WYSwkFKm6dmuh84J1u6O/knvJ/D7Z9/akev16zTmf6/RCWz9ZX2JK4IxTPZ6jOOf2Oif3/2ZKU1d9312apPtu/aEonb/aET2HH3F5+yMuLYl25v7De3fWfAMsoGkWjaBSNolE0ikbRKBpFo2goom0CLAxXWBi6Qn9zNnQxJkD6X8i9MkNwr2yw9sRYzA1Ye6nQFWO9MiS7YpW/NKfZWTByHrQzZ9T0dTJjjDJlHE3To2gUpQmwAAA9Rzfj'
const inflated = (text: string): Buffer => inflateSync(Buffer.from(text, 'base64'))

const ENOUGH = 1 << 20

describe('Snappy', () => {
  for (const [name, text, ...written] of WRITTEN) {
    it(`reads ${name} as Go wrote it, as a block and as a stream`, () => {
      for (const each of written) {
        const bytes = Buffer.from(each, 'base64')
        // An empty stream has no chunk, not even the identifier. A block has at least its length.
        if (bytes.byteLength > 0) assert.deepEqual(Buffer.from(textOf(decompressSnappy(bytes, ENOUGH))), text)
      }
    })
  }

  it('reads what is longer than a chunk', () => {
    for (const each of [LONG_BLOCK, LONG_STREAM]) {
      assert.deepEqual(Buffer.from(textOf(decompressSnappy(inflated(each), ENOUGH))), LONG)
    }
  })

  it('reads any elements as a plain reader does, in both formats', () => {
    fc.assert(
      fc.property(fc.array(elements, { maxLength: 40 }), (given) => {
        const [text, bytes] = written(given)
        assert.deepEqual(Buffer.from(textOf(decompressSnappy(bytes, text.byteLength))), text)
        if (text.byteLength > 0) assert.equal(decompressSnappy(bytes, text.byteLength - 1), 'too large')
        if (text.byteLength > 65_536) return
        const stream = Buffer.concat([
          SNAPPY_IDENTIFIER,
          snappyChunk(0, bytes, text),
          snappyChunk(0xfe, Buffer.from('padding'), null),
        ])
        assert.deepEqual(Buffer.from(textOf(decompressSnappy(stream, text.byteLength))), text)
        const twice = Buffer.concat([stream, SNAPPY_IDENTIFIER, snappyChunk(1, text, text)])
        assert.deepEqual(Buffer.from(textOf(decompressSnappy(twice, 2 * text.byteLength))), Buffer.concat([text, text]))
      }),
    )
  })

  it('reads what the tests of the service compress', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat({ max: 3 }), fc.nat({ max: 9000 })), { maxLength: 20 }), (runs) => {
        const text = Buffer.concat(runs.map(([byte, count]) => Buffer.alloc(count, byte)))
        for (const compress of [snappyBlock, snappyStream]) {
          assert.deepEqual(Buffer.from(textOf(decompressSnappy(compress(text), text.byteLength))), text)
        }
      }),
    )
  })

  it('refuses what is cut off, and a stream of which a bit is another', () => {
    const block = Buffer.from(WRITTEN[2]![2], 'base64')
    const stream = Buffer.from(WRITTEN[2]![3], 'base64')
    for (let end = 0; end < block.byteLength; end++)
      assert.equal(decompressSnappy(block.subarray(0, end), ENOUGH), 'invalid')
    for (let end = 11; end < stream.byteLength; end++)
      assert.equal(decompressSnappy(stream.subarray(0, end), ENOUGH), 'invalid')
    for (let bit = 8 * 10; bit < 8 * stream.byteLength; bit++) {
      const other = Buffer.from(stream)
      other[bit >> 3]! ^= 1 << (bit & 7)
      // This bit makes the chunk one that is skipped, so nothing is read.
      const read = decompressSnappy(other, ENOUGH)
      assert.ok(read === 'invalid' || (bit === 8 * 10 + 7 && textOf(read).byteLength === 0), `bit ${bit}`)
    }
  })

  it('takes no memory for a length that its bytes cannot hold, and no more than is allowed', () => {
    const claims = Buffer.from([0xff, 0xff, 0xff, 0xff, 0x0f, 0, 1])
    assert.equal(decompressSnappy(claims, 2 ** 32), 'invalid')
    assert.equal(decompressSnappy(claims, ENOUGH), 'too large')
    assert.equal(decompressSnappy(Buffer.from([0xff, 0xff, 0xff, 0xff, 0x7f, 0, 1]), 2 ** 40), 'invalid')
  })

  it('never fails on arbitrary bytes, and never holds more than is allowed', () => {
    const bytes = fc.uint8Array({ maxLength: 200 })
    fc.assert(
      fc.property(bytes, fc.boolean(), fc.nat({ max: 300 }), (given, isStream, max) => {
        const read = decompressSnappy(isStream ? Buffer.concat([SNAPPY_IDENTIFIER, given]) : given, max)
        assert.ok(typeof read === 'string' || read.byteLength <= max)
      }),
      { numRuns: 3000 },
    )
  })
})

function textOf(read: ReturnType<typeof decompressSnappy>): Uint8Array {
  assert.ok(typeof read !== 'string', `it is ${read as string}`)
  return read
}

type Element =
  | { readonly literal: Uint8Array; readonly extra: number }
  /** A copy. `offset` is the distance back, in thousandths of the text so far. */
  | { readonly kind: 1 | 2 | 3; readonly offset: number; readonly length: number }

const elements: fc.Arbitrary<Element> = fc.oneof(
  fc.record({ literal: fc.uint8Array({ minLength: 1, maxLength: 400 }), extra: fc.integer({ min: 0, max: 4 }) }),
  fc.record({
    kind: fc.constantFrom(1 as const, 2 as const, 3 as const),
    offset: fc.nat({ max: 999 }),
    length: fc.integer({ min: 1, max: 64 }),
  }),
)

/** The text of the elements, and the block that holds it. */
function written(given: readonly Element[]): readonly [text: Buffer, block: Buffer] {
  const text: number[] = []
  const bytes: number[] = []
  for (const element of given) {
    if ('literal' in element) {
      const { literal } = element
      const long = literal.byteLength > 60 ? Math.max(2, element.extra) : element.extra
      if (long === 0) bytes.push((literal.byteLength - 1) << 2)
      else bytes.push((59 + long) << 2, ...littleEndian(literal.byteLength - 1, long))
      bytes.push(...literal)
      text.push(...literal)
    } else if (text.length > 0) {
      const { kind } = element
      const bound = kind === 1 ? 2047 : kind === 2 ? 65_535 : Infinity
      const offset = Math.min(bound, 1 + Math.floor((element.offset / 1000) * text.length))
      const length = kind === 1 ? 4 + (element.length % 8) : element.length
      if (kind === 1) bytes.push(1 | ((length - 4) << 2) | ((offset >> 8) << 5), offset & 0xff)
      else bytes.push(kind | ((length - 1) << 2), ...littleEndian(offset, kind === 2 ? 2 : 4))
      for (let i = 0; i < length; i++) text.push(text[text.length - offset]!)
    }
  }
  return [Buffer.from(text), Buffer.concat([varint(text.length), Buffer.from(bytes)])]
}
