import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import type { ChunkSigning } from '../../../../src/objectstore/s3/auth/chunk-signatures.ts'
import { AwsChunkedDecoder, TRAILERS_BYTES_MAX } from '../../../../src/objectstore/s3/body/aws-chunked.ts'
import type { AwsChunkedFraming } from '../../../../src/objectstore/s3/body/aws-chunked.ts'
import { S3Error } from '../../../../src/objectstore/refusals.ts'
import { frameSigned, KEY_ID, signingKey, TIMESTAMP } from '../../../support/signer.ts'

interface Decoded {
  readonly payload: Buffer
  readonly trailer: string | null
}

/** @param cuts positions that split the body into pushes */
function decode(framing: AwsChunkedFraming, body: Uint8Array, cuts: readonly number[] = []): Decoded {
  const pieces: Buffer[] = []
  const decoder = new AwsChunkedDecoder(framing, (payload) => pieces.push(Buffer.from(payload)))
  const places = [0, ...cuts.filter((cut) => cut < body.length).sort((a, b) => a - b), body.length]
  places.slice(1).forEach((to, i) => {
    const pushed = Uint8Array.prototype.slice.call(body, places[i], to)
    decoder.push(pushed)
    pushed.fill(0xff) // the decoder must not read a pushed chunk again
  })
  const trailer = decoder.finish()
  return { payload: Buffer.concat(pieces), trailer }
}

function refusalOf(framing: AwsChunkedFraming, body: Uint8Array, cuts: readonly number[] = []): S3Error {
  try {
    decode(framing, body, cuts)
  } catch (error) {
    assert.ok(error instanceof S3Error, String(error))
    return error
  }
  return assert.fail('not refused')
}

const unsigned = (decodedBytes: number, trailerName: string | null = null): AwsChunkedFraming => ({
  decodedBytes,
  signatures: null,
  trailerName,
})

const SEED = '4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9'
const TRAILER_SEED = '106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e'

const signing = (seedSignature: string): ChunkSigning => ({
  accessKeyId: KEY_ID,
  signingKey: signingKey(),
  timestamp: TIMESTAMP,
  scope: '20130524/us-east-1/s3/aws4_request',
  seedSignature,
})

const ofLetters = Buffer.alloc(66_560, 'a')
const documentedBody = (signatures: readonly [string, string, string], trailers: string): Buffer =>
  Buffer.concat([
    Buffer.from(`10000;chunk-signature=${signatures[0]}\r\n`),
    ofLetters.subarray(0, 65_536),
    Buffer.from(`\r\n400;chunk-signature=${signatures[1]}\r\n`),
    ofLetters.subarray(0, 1024),
    Buffer.from(`\r\n0;chunk-signature=${signatures[2]}\r\n${trailers}\r\n`),
  ])

describe('a signed body of the S3 documentation', () => {
  const body = documentedBody(
    [
      'ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648',
      '0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497',
      'b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9',
    ],
    '',
  )
  const framing = { decodedBytes: 66_560, signatures: signing(SEED), trailerName: null }

  it('has the length the example says, and decodes', () => {
    assert.equal(body.length, 66_824)
    assert.deepEqual(decode(framing, body), { payload: ofLetters, trailer: null })
  })

  it('decodes the same when signatures cannot be checked', () => {
    const unchecked = { ...framing, signatures: 'unchecked' } as const
    assert.deepEqual(decode(unchecked, body).payload, ofLetters)
    assert.equal(refusalOf(unchecked, Buffer.from('1\r\na\r\n0\r\n\r\n')).code, 'IncompleteBody')
  })

  it('with a trailer decodes, and its signature counts', () => {
    const signatures = [
      'b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2',
      '1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7',
      '2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992',
    ] as const
    const withTrailer = { ...framing, signatures: signing(TRAILER_SEED), trailerName: 'x-amz-checksum-crc32c' }
    const signature = 'd81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435'
    const trailers = `x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:${signature}\r\n`
    assert.equal(decode(withTrailer, documentedBody(signatures, trailers)).trailer, 'sOO8/Q==')
    const other = trailers.replace('sOO8', 'sOO9')
    assert.equal(refusalOf(withTrailer, documentedBody(signatures, other)).code, 'SignatureDoesNotMatch')
  })
})

describe('an unsigned body', () => {
  it('is its chunks one behind the other', () => {
    const big = 'x'.repeat(8192)
    const body = Buffer.from(`2000\r\n${big}\r\n00A\r\n0123456789\r\n0\r\n\r\n`)
    assert.equal(decode(unsigned(8202), body).payload.toString(), `${big}0123456789`)
  })

  it('may be empty', () => {
    assert.deepEqual(decode(unsigned(0), Buffer.from('0\r\n\r\n')), { payload: Buffer.alloc(0), trailer: null })
  })

  it('may have signatures, which then mean nothing', () => {
    const { bytes, payload } = frameSigned(SEED, [Buffer.from('abc')])
    assert.deepEqual(decode(unsigned(3), bytes).payload, payload)
  })

  it('has the trailer that was announced, however clients end its line', () => {
    for (const trailers of [
      'x-amz-checksum-crc32:AAAAAA==\r\n\r\n',
      'X-Amz-Checksum-CRC32: AAAAAA==\r\n\r\n',
      'x-amz-checksum-crc32:AAAAAA==\n\r\n\r\n', // minio-go
      '\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n',
    ]) {
      const { trailer } = decode(unsigned(1, 'x-amz-checksum-crc32'), Buffer.from(`1\r\na\r\n0\r\n${trailers}`))
      assert.equal(trailer, 'AAAAAA==', JSON.stringify(trailers))
    }
  })

  it('is refused with a trailer that is missing, another, twice, not announced, or no trailer', () => {
    const announced = unsigned(0, 'x-amz-checksum-crc32')
    const line = 'x-amz-checksum-crc32:AAAAAA==\r\n'
    for (const [framing, trailers] of [
      [announced, ''],
      [announced, 'x-amz-checksum-sha1:AAAAAA==\r\n'],
      [announced, line + line],
      [announced, `${line}x-amz-meta-a:b\r\n`],
      [announced, `${line}x-amz-trailer-signature:${'0'.repeat(64)}\r\n`],
      [announced, 'x-amz-checksum-crc32\r\n'],
      [announced, 'x-amz-checksum-crc32:AA AA==\r\n'],
      [announced, 'x-amz-checksum-crc32:AAAAAA==\0\r\n'],
      [announced, `${line}\r\n${line}`],
      [unsigned(0), line],
      [unsigned(0), `x-amz-trailer-signature:${'0'.repeat(64)}\r\n`],
    ] as const) {
      const refusal = refusalOf(framing, Buffer.from(`0\r\n${trailers}\r\n`))
      assert.equal(refusal.code, 'MalformedTrailerError', JSON.stringify(trailers))
      assert.equal(refusal.status, 400)
    }
  })

  it('is refused with trailers without end, in any pieces', () => {
    const body = Buffer.from(`0\r\n${'x'.repeat(TRAILERS_BYTES_MAX + 1)}`)
    for (const cuts of [[], [500], Array.from({ length: 1000 }, (_, i) => i)]) {
      assert.equal(refusalOf(unsigned(0, 'x-amz-checksum-crc32'), body, cuts).code, 'MalformedTrailerError')
    }
  })

  it('is refused when it is longer, shorter or cut off', () => {
    const body = Buffer.from('3\r\nabc\r\n0\r\n\r\n')
    assert.deepEqual(decode(unsigned(3), body).payload.toString(), 'abc')
    for (const decodedBytes of [0, 2, 4, 1000]) {
      const refusal = refusalOf(unsigned(decodedBytes), body)
      assert.equal(refusal.code, 'IncompleteBody')
      assert.equal(refusal.status, 400)
    }
    for (let length = 0; length < body.length; length++) {
      assert.equal(refusalOf(unsigned(3), body.subarray(0, length)).code, 'IncompleteBody', `${length}`)
    }
  })

  it('is refused with a chunk header that is none', () => {
    for (const header of [
      '',
      ' 3',
      '3 ',
      '-3',
      '+3',
      '0x3',
      '3;',
      '3;a=b',
      '3;chunk-signature=',
      `3;chunk-signature=${'g'.repeat(64)}`,
      `3;chunk-signature=${'0'.repeat(63)}`,
      `3;chunk-signature=${'0'.repeat(65)}`,
      'fffffffffffffffff',
      '20000000000000',
      '3'.repeat(200),
      '\0',
    ]) {
      const body = Buffer.from(`${header}\r\nabc\r\n0\r\n\r\n`, 'latin1')
      assert.equal(refusalOf(unsigned(3), body).code, 'IncompleteBody', JSON.stringify(header))
      assert.equal(refusalOf(unsigned(3), body, [1, 2, 3]).code, 'IncompleteBody', JSON.stringify(header))
    }
    for (const framed of [
      '3\nabc\r\n0\r\n\r\n',
      '3\r\nabc\n0\r\n\r\n',
      '3\r\nabc0\r\n\r\n',
      '3\r\nabcd\r\n0\r\n\r\n',
    ]) {
      assert.equal(refusalOf(unsigned(3), Buffer.from(framed)).code, 'IncompleteBody', JSON.stringify(framed))
    }
  })

  it('is refused as soon as a chunk goes beyond the declared length, before its payload came', () => {
    const decoder = new AwsChunkedDecoder(unsigned(10), () => assert.fail('payload'))
    assert.throws(() => decoder.push(Buffer.from('fffffffffffff\r\n')), { code: 'IncompleteBody' })
  })

  it('is refused with a short chunk that is not the last one', () => {
    const refusal = refusalOf(unsigned(8), Buffer.from('4\r\nabcd\r\n4\r\nabcd\r\n0\r\n\r\n'))
    assert.equal(refusal.code, 'InvalidChunkSizeError')
    assert.deepEqual(refusal.fields, { Chunk: 2, BadChunkSize: 4 })
  })
})

describe('the decoder', () => {
  it('hands on views of what was pushed, not copies', () => {
    const body = Buffer.from('3\r\nabc\r\n0\r\n\r\n')
    const payloads: Uint8Array[] = []
    new AwsChunkedDecoder(unsigned(3), (payload) => payloads.push(payload)).push(body)
    assert.equal(payloads.length, 1)
    assert.equal(payloads[0]!.buffer, body.buffer)
    assert.equal(payloads[0]!.byteOffset, body.byteOffset + 3)
  })

  it('reads shared memory', () => {
    const text = Buffer.from('3\r\nabc\r\n0\r\n\r\n')
    const shared = new Uint8Array(new SharedArrayBuffer(text.length))
    shared.set(text)
    let payload = ''
    const decoder = new AwsChunkedDecoder(unsigned(3), (bytes) => (payload += Buffer.from(bytes).toString()))
    decoder.push(shared)
    decoder.finish()
    assert.equal(payload, 'abc')
  })
})

const payloadChunks = fc
  .tuple(fc.array(fc.integer({ min: 8192, max: 9000 }), { maxLength: 3 }), fc.nat({ max: 300 }), fc.nat())
  .map(([sizes, last, seed]) =>
    [...sizes, ...(last > 0 ? [last] : [])].map((bytes, i) =>
      Uint8Array.from({ length: bytes }, (_, at) => Math.imul(at + seed + 7 * i, 0x9e37_79b1) >>> 24),
    ),
  )
const maybeTrailer = fc.constantFrom(null, ['x-amz-checksum-crc32', 'AAAAAA=='] as const)

const framingOf = (chunks: readonly Uint8Array[], trailer: readonly [string, string] | null): AwsChunkedFraming => ({
  decodedBytes: chunks.reduce((bytes, chunk) => bytes + chunk.length, 0),
  signatures: signing(SEED),
  trailerName: trailer?.[0] ?? null,
})

test('a signed body decodes to the same, however it is cut up', () => {
  fc.assert(
    fc.property(
      payloadChunks,
      maybeTrailer,
      fc.array(fc.nat({ max: 30_000 })),
      fc.boolean(),
      (chunks, trailer, cuts, fine) => {
        const { bytes, payload } = frameSigned(SEED, chunks, trailer)
        const places = fine
          ? Array.from({ length: 400 }, (_, i) => i + bytes.length - 400).filter((at) => at > 0)
          : cuts
        const decoded = decode(framingOf(chunks, trailer), bytes, places)
        assert.ok(decoded.payload.equals(payload))
        assert.equal(decoded.trailer, trailer?.[1] ?? null)
      },
    ),
    { numRuns: 60 },
  )
})

test('a signed body with one byte changed is refused, or means the same', () => {
  fc.assert(
    fc.property(
      payloadChunks,
      maybeTrailer,
      fc.nat(),
      fc.integer({ min: 1, max: 255 }),
      (chunks, trailer, place, change) => {
        const { bytes, payload } = frameSigned(SEED, chunks, trailer)
        // Half of the changes are in the last 300 bytes, to hit more of the few that are not payload.
        const at = place % 2 === 0 ? bytes.length - 1 - (place % Math.min(bytes.length, 300)) : place % bytes.length
        bytes[at]! ^= change
        let decoded: Decoded
        try {
          decoded = decode(framingOf(chunks, trailer), bytes)
        } catch (error) {
          assert.ok(error instanceof S3Error)
          assert.ok(error.status === 400 || error.code === 'SignatureDoesNotMatch')
          return
        }
        assert.ok(decoded.payload.equals(payload))
        assert.equal(decoded.trailer, trailer?.[1] ?? null)
      },
    ),
    { numRuns: 300 },
  )
})

test('a signed body with chunks left out, swapped or repeated is refused', () => {
  const chunk = (letter: string): Buffer => Buffer.alloc(8192, letter)
  const { bytes } = frameSigned(SEED, [chunk('a'), chunk('b'), chunk('c')])
  const framedBytes = 8192 + '2000;chunk-signature='.length + 64 + 4
  const [a, b, c] = [0, 1, 2].map((i) => bytes.subarray(i * framedBytes, (i + 1) * framedBytes))
  const end = bytes.subarray(3 * framedBytes)
  for (const chunks of [[b!, a!, c!], [a!, a!, c!], [a!, c!], [a!, b!], []]) {
    const framing = { decodedBytes: 8192 * chunks.length, signatures: signing(SEED), trailerName: null }
    assert.equal(refusalOf(framing, Buffer.concat([...chunks, end])).code, 'SignatureDoesNotMatch')
  }
})

test('no body makes anything but payload of the declared length or a refusal', () => {
  const part = fc.constantFrom(
    '3',
    '0',
    'a',
    '\r\n',
    '\n',
    '\r',
    ';chunk-signature=',
    ':',
    'x-amz-checksum-crc32:',
    'abc',
    '2000',
  )
  const body = fc.oneof(
    fc.array(part, { maxLength: 20 }).map((parts) => Buffer.from(parts.join(''))),
    fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
  )
  const framing = fc.record({
    decodedBytes: fc.nat({ max: 20 }),
    signatures: fc.constantFrom(null, 'unchecked' as const, signing(SEED)),
    trailerName: fc.constantFrom(null, 'x-amz-checksum-crc32'),
  })
  fc.assert(
    fc.property(framing, body, fc.array(fc.nat({ max: 200 })), (framing, body, cuts) => {
      try {
        assert.equal(decode(framing, body, cuts).payload.length, framing.decodedBytes)
      } catch (error) {
        assert.ok(error instanceof S3Error, String(error))
        assert.ok(error.status >= 400 && error.status < 500)
      }
    }),
    { numRuns: 500 },
  )
})
