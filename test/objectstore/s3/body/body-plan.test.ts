import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import type { Caller } from '../../../../src/objectstore/s3/auth/request-identity.ts'
import { demandIntegrity, planBody, storedContentEncoding } from '../../../../src/objectstore/s3/body/body-plan.ts'
import type { BodyPlan } from '../../../../src/objectstore/s3/body/body-plan.ts'
import { declaredChecksum } from '../../../../src/objectstore/s3/body/declared-checksum.ts'
import { S3Error } from '../../../../src/objectstore/refusals.ts'
import { codePoint } from '../../../support/code-point.ts'

type Headers = Readonly<Record<string, string>>

const chunkSigning = {
  accessKeyId: 'A',
  signingKey: new Uint8Array(32),
  timestamp: '20130524T000000Z',
  scope: '20130524/us-east-1/s3/aws4_request',
  seedSignature: '0'.repeat(64),
}

const callerOf = (contentSha256: string | null): Caller => ({ principal: null, contentSha256, chunkSigning })

function plan(contentSha256: string | null, given: Headers = {}, contentLength: number | null = 100): BodyPlan {
  const headers = new Map(Object.entries(given))
  return planBody(headers, callerOf(contentSha256), contentLength, declaredChecksum(headers))
}

function refusalOf(contentSha256: string | null, given: Headers = {}): S3Error {
  try {
    plan(contentSha256, given)
  } catch (error) {
    assert.ok(error instanceof S3Error, String(error))
    return error
  }
  return assert.fail('not refused')
}

const UNSIGNED_TRAILER = 'STREAMING-UNSIGNED-PAYLOAD-TRAILER'
const SIGNED = 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD'
const SIGNED_TRAILER = 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER'
const decoded = { 'x-amz-decoded-content-length': '66560' }
const trailer = { 'x-amz-trailer': 'x-amz-checksum-crc32' }

describe('a body', () => {
  it('is what comes on the wire when nothing says otherwise', () => {
    for (const contentSha256 of [null, 'UNSIGNED-PAYLOAD', 'A'.repeat(64)]) {
      const { framing, contentLength } = plan(contentSha256, { 'content-encoding': 'aws-chunked' })
      assert.equal(framing, null)
      assert.equal(contentLength, 100)
    }
    assert.equal(plan(null, {}, null).contentLength, null)
  })

  it('is framed when the hash of its content says so, its signatures checked when signed', () => {
    for (const [contentSha256, given, signatures, trailerName] of [
      [UNSIGNED_TRAILER, trailer, null, 'x-amz-checksum-crc32'],
      [UNSIGNED_TRAILER, {}, null, null],
      [SIGNED, {}, chunkSigning, null],
      [SIGNED_TRAILER, trailer, chunkSigning, 'x-amz-checksum-crc32'],
    ] as const) {
      const { framing, contentLength } = plan(contentSha256, { ...decoded, ...given })
      assert.deepEqual(framing, { decodedBytes: 66_560, signatures, trailerName })
      assert.equal(contentLength, 66_560)
    }
  })

  it('is framed when it has a decoded length, under either name of the header', () => {
    for (const name of ['x-amz-decoded-content-length', 'x-obj-decoded-content-length']) {
      const { framing } = plan(null, { [name]: '5', 'x-obj-trailer': 'X-Obj-Checksum-SHA1' })
      assert.deepEqual(framing, { decodedBytes: 5, signatures: null, trailerName: 'x-obj-checksum-sha1' })
    }
  })

  it('must have signatures, unchecked, when there is nothing to check them with', () => {
    const caller = { ...callerOf(SIGNED), chunkSigning: null }
    const { framing } = planBody(new Map(Object.entries(decoded)), caller, 100, null)
    assert.equal(framing?.signatures, 'unchecked')
  })

  it('has claims: MD5, SHA-256 and a checksum', () => {
    const given = { 'content-md5': '1B2M2Y8AsgTpgAmY7PhCfg==', 'x-amz-checksum-crc32': 'AAAAAA==' }
    assert.deepEqual(plan('A'.repeat(64), given).claims, {
      contentMd5: '1B2M2Y8AsgTpgAmY7PhCfg==',
      sha256: 'a'.repeat(64),
      checksum: { algorithm: 'CRC32', value: 'AAAAAA==', trailerName: null },
    })
    assert.deepEqual(plan('UNSIGNED-PAYLOAD').claims, { contentMd5: null, sha256: null, checksum: null })
  })

  it('can be demanded to have MD5 or a checksum', () => {
    demandIntegrity(plan(null, { 'content-md5': '1B2M2Y8AsgTpgAmY7PhCfg==' }))
    demandIntegrity(plan(null, { 'x-amz-checksum-crc32': 'AAAAAA==' }))
    demandIntegrity(plan(UNSIGNED_TRAILER, { ...decoded, ...trailer }))
    assert.throws(() => demandIntegrity(plan('a'.repeat(64))), { code: 'InvalidRequest', message: /Content-MD5 OR/ })
  })

  it('is refused when its headers do not fit', () => {
    for (const [contentSha256, given, code, status] of [
      [UNSIGNED_TRAILER, {}, 'MissingContentLength', 411],
      [UNSIGNED_TRAILER, { 'x-amz-decoded-content-length': '-1' }, 'InvalidArgument', 400],
      [UNSIGNED_TRAILER, { 'x-amz-decoded-content-length': '' }, 'InvalidArgument', 400],
      [UNSIGNED_TRAILER, { ...decoded, 'x-amz-trailer': 'x-amz-checksum-rot13' }, 'InvalidRequest', 400],
      [UNSIGNED_TRAILER, { ...decoded, 'x-amz-trailer': '' }, 'InvalidRequest', 400],
      [SIGNED, { ...decoded, ...trailer }, 'InvalidRequest', 400],
      ['UNSIGNED-PAYLOAD', trailer, 'MalformedTrailerError', 400],
      ['STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD', decoded, 'NotImplemented', 501],
      ['STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER', decoded, 'NotImplemented', 501],
      ['STREAMING-', decoded, 'InvalidArgument', 400],
      ['', {}, 'InvalidArgument', 400],
      ['a'.repeat(63), {}, 'InvalidArgument', 400],
      [null, { 'content-md5': '' }, 'InvalidDigest', 400],
      [null, { 'content-md5': 'YWJyYWNhZGFicmE=' }, 'InvalidDigest', 400],
      [null, { 'content-md5': '1B2M2Y8AsgTpgAmY7PhCfg' }, 'InvalidDigest', 400],
    ] as const) {
      const refusal = refusalOf(contentSha256, given)
      assert.equal(refusal.code, code, JSON.stringify({ contentSha256, given }))
      assert.equal(refusal.status, status)
    }
    assert.deepEqual(refusalOf(null, { 'content-md5': 'x' }).fields, { 'Content-MD5': 'x' })
  })
})

describe('the checksum a request declares', () => {
  const declared = (given: Headers) => declaredChecksum(new Map(Object.entries(given)))

  it('is in one header, under either name, or in a trailer', () => {
    const sha1 = Buffer.alloc(20).toString('base64')
    assert.equal(declared({}), null)
    assert.deepEqual(declared({ 'x-obj-checksum-sha1': sha1, 'x-amz-checksum-mode': 'ENABLED' }), {
      algorithm: 'SHA1',
      value: sha1,
      trailerName: null,
    })
    assert.deepEqual(declared({ 'x-amz-trailer': 'x-amz-checksum-crc64nvme' }), {
      algorithm: 'CRC64NVME',
      value: null,
      trailerName: 'x-amz-checksum-crc64nvme',
    })
  })

  it('may be announced by an SDK', () => {
    const given = { 'x-amz-sdk-checksum-algorithm': 'crc32', 'x-amz-checksum-crc32': 'AAAAAA==' }
    assert.equal(declared(given)?.algorithm, 'CRC32')
    assert.equal(declared({ 'x-amz-sdk-checksum-algorithm': 'CRC32', ...trailer })?.trailerName, 'x-amz-checksum-crc32')
  })

  it('is refused when it is not one, or is not what was announced', () => {
    const crc32 = { 'x-amz-checksum-crc32': 'AAAAAA==' }
    for (const [given, message] of [
      [{ 'x-amz-checksum-crc32': 'bad' }, /^Value for x-amz-checksum-crc32 header is invalid\.$/],
      [{ 'x-amz-checksum-crc32': 'AAAAAAA=' }, /^Value for x-amz-checksum-crc32 header is invalid\.$/],
      [{ 'x-amz-checksum-crc32': 'AAAAAA' }, /is invalid/],
      [{ 'x-amz-checksum-crc32': ' AAAAAA==' }, /is invalid/],
      [{ 'x-amz-checksum-sha256': 'AAAAAA==' }, /^Value for x-amz-checksum-sha256 header is invalid\.$/],
      [
        { 'x-amz-checksum-md4': 'AAAAAA==' },
        /^The algorithm type you specified in x-amz-checksum- header is invalid\.$/,
      ],
      [{ ...crc32, 'x-amz-checksum-crc32c': 'AAAAAA==' }, /^Expecting a single x-amz-checksum- header\./],
      [{ ...crc32, 'x-obj-checksum-crc32': 'AAAAAA==' }, /^Expecting a single/],
      [{ ...crc32, ...trailer }, /^Expecting a single/],
      [{ 'x-amz-trailer': 'x-amz-checksum-crc32,x-amz-checksum-sha1' }, /^Expecting a single/],
      [{ 'x-amz-trailer': 'x-amz-meta-a' }, /^The value specified in the x-amz-trailer header is not supported$/],
      [{ 'x-amz-sdk-checksum-algorithm': 'CRC32' }, /specified, but no corresponding x-amz-checksum-\*/],
      [
        { 'x-amz-sdk-checksum-algorithm': 'SHA1', ...crc32 },
        /^Value for x-amz-sdk-checksum-algorithm header is invalid\.$/,
      ],
      [
        { 'x-amz-sdk-checksum-algorithm': 'MD4', ...crc32 },
        /^Value for x-amz-sdk-checksum-algorithm header is invalid\.$/,
      ],
    ] as const) {
      assert.throws(
        () => declared(given),
        (error) => error instanceof S3Error && error.code === 'InvalidRequest' && message.test(error.message),
        JSON.stringify(given),
      )
    }
  })
})

test('the encoding that is stored with an object is without the framing', () => {
  for (const [header, stored] of [
    ['aws-chunked', null],
    ['AWS-Chunked', null],
    ['aws-chunked,gzip', 'gzip'],
    ['gzip, aws-chunked, br', 'gzip,br'],
    ['gzip,  br', 'gzip,  br'],
    ['', null],
  ] as const) {
    assert.equal(storedContentEncoding(new Map([['content-encoding', header]])), stored, header)
  }
  assert.equal(storedContentEncoding(new Map()), null)
})

test('no headers make anything but a plan or a refusal', () => {
  const name = fc.oneof(
    fc.constantFrom(
      'content-md5',
      'x-amz-trailer',
      'x-amz-sdk-checksum-algorithm',
      'x-amz-decoded-content-length',
      'content-encoding',
      'x-obj-trailer',
    ),
    fc.constantFrom('crc32', 'crc32c', 'crc64nvme', 'sha1', 'sha256', '', 'x').map((name) => `x-amz-checksum-${name}`),
  )
  const value = fc.oneof(
    fc.string({ unit: codePoint, maxLength: 20 }),
    fc.constantFrom('AAAAAA==', 'x-amz-checksum-crc32', 'CRC32', '5', 'aws-chunked'),
  )
  const content = fc.oneof(
    fc.constantFrom(null, UNSIGNED_TRAILER, SIGNED, SIGNED_TRAILER),
    fc.string({ maxLength: 10 }),
  )
  fc.assert(
    fc.property(fc.array(fc.tuple(name, value), { maxLength: 5 }), content, (headers, content) => {
      try {
        plan(content, Object.fromEntries(headers))
      } catch (error) {
        assert.ok(error instanceof S3Error, String(error))
        assert.ok(error.status >= 400 && error.status < 500)
      }
    }),
    { numRuns: 300 },
  )
})
