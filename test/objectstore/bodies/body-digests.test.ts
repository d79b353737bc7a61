import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it, test } from 'node:test'
import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import { digestOfWhole } from '../../../src/objectstore/bodies/body-digests.ts'
import { checkBody, checksumsOfObject, digestPlan } from '../../../src/objectstore/s3/body/body-claims.ts'
import { loadChecksums } from '../../../src/objectstore/bodies/checksum-algorithms.ts'
import { BodyDigests } from '../../../src/objectstore/bodies/incremental-digests.ts'
import type { BodyDigest, DigestPlan } from '../../../src/objectstore/bodies/body-digests.ts'
import type { BodyClaims } from '../../../src/objectstore/s3/body/body-claims.ts'
import { CHECKSUM_ALGORITHMS } from '../../../src/objectstore/bodies/checksums.ts'
import type { ChecksumAlgorithm } from '../../../src/objectstore/bodies/checksums.ts'
import { S3Error } from '../../../src/objectstore/refusals.ts'

const NO_CLAIMS: BodyClaims = { contentMd5: null, sha256: null, checksum: null }
const SHA512_OF_DIGITS = '2eZ2LdHI6vbWGzxhkvxAjU1tXxF20MKRabwk5xw/J0rSf81YEbMT1oH35V7ALXPUmclUVba1u1A6z1dPuo/+hQ=='
const EVERYTHING: DigestPlan = { checksums: CHECKSUM_ALGORITHMS, sha256: true }

function digestOf(plan: DigestPlan, ...pieces: readonly Uint8Array[]): BodyDigest {
  const digests = new BodyDigests(plan)
  for (const piece of pieces) digests.update(piece)
  return digests.finish()
}

const hash = (name: string, bytes: Uint8Array, encoding: 'hex' | 'base64') =>
  createHash(name).update(bytes).digest(encoding)

await loadChecksums(CHECKSUM_ALGORITHMS)

describe('the digests of a body', () => {
  it('are the published ones', () => {
    assert.deepEqual(digestOf(EVERYTHING, Buffer.from('123456789')), {
      bytes: 9,
      md5: '25f9e794323b453885f5181f1b624d0b',
      checksums: [
        { algorithm: 'CRC32', value: 'y/Q5Jg==' },
        { algorithm: 'CRC32C', value: '4waSgw==' },
        { algorithm: 'CRC64NVME', value: 'rosUhgp5mIg=' },
        { algorithm: 'SHA1', value: '98O8HYCOBHMq32eZZczDTKeuNEE=' },
        { algorithm: 'SHA256', value: 'FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=' },
        { algorithm: 'SHA512', value: SHA512_OF_DIGITS },
        { algorithm: 'MD5', value: 'JfnnlDI7RTiF9RgfG2JNCw==' },
        { algorithm: 'XXHASH64', value: 'jLhB20DmroM=' },
        { algorithm: 'XXHASH3', value: 'ctyxi2ehff8=' },
        { algorithm: 'XXHASH128', value: 'MxGUd+3l3NXpcWQnaB1YYA==' },
      ],
      sha256: '15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225',
    })
  })

  it('of 66560 letters a are those in the example of the S3 documentation', () => {
    const { checksums } = digestOf({ checksums: ['CRC32C'], sha256: false }, Buffer.alloc(66_560, 'a'))
    assert.deepEqual(checksums, [{ algorithm: 'CRC32C', value: 'sOO8/Q==' }])
  })

  it('are those that are asked for, in plain data both ways', () => {
    const plan = structuredClone(digestPlan(NO_CLAIMS, ['CRC32C']))
    const digest = digestOf(plan, Buffer.from('a'))
    assert.deepEqual(structuredClone(digest), digest)
    assert.deepEqual(digest.checksums, [{ algorithm: 'CRC32C', value: 'wdBDMA==' }])
    assert.equal(digest.sha256, null)
  })

  it('always have one checksum: the declared one, or CRC64NVME', () => {
    const checksum = { algorithm: 'SHA1', value: null, trailerName: 'x-amz-checksum-sha1' } as const
    assert.deepEqual(checksumsOfObject(NO_CLAIMS), ['CRC64NVME'])
    assert.deepEqual(checksumsOfObject({ ...NO_CLAIMS, checksum }), ['SHA1'])
    assert.deepEqual(digestPlan({ ...NO_CLAIMS, checksum }, ['CRC64NVME']).checksums, ['CRC64NVME', 'SHA1'])
    assert.deepEqual(digestPlan({ ...NO_CLAIMS, checksum }, ['SHA1']).checksums, ['SHA1'])
  })
})

test('bodies that are fed in turns have the digests of each', () => {
  const plan: DigestPlan = { checksums: ['XXHASH64', 'XXHASH3', 'XXHASH128'], sha256: false }
  const bodies = ['a', 'b'].map((letter) => Buffer.alloc(5000, letter))
  const digests = bodies.map(() => new BodyDigests(plan))
  for (let at = 0; at < 5000; at += 700) {
    BodyDigests.update(bodies.map((body, i) => ({ digests: digests[i]!, bytes: body.subarray(at, at + 700) })))
  }
  assert.deepEqual(
    digests.map((each) => each.finish().checksums),
    bodies.map((body) => digestOf(plan, body).checksums),
  )
})

test('any body has the same digests however it is cut up, and in shared memory', () => {
  const plan = fc.record({ checksums: fc.subarray([...CHECKSUM_ALGORITHMS]), sha256: fc.boolean() })
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 3000 }), { maxLength: 5 }), plan, (pieces, plan) => {
      const whole = Buffer.concat(pieces)
      const shared = new Uint8Array(new SharedArrayBuffer(whole.length))
      shared.set(whole)
      const digest = digestOf(plan, ...pieces)
      assert.deepEqual(digest, digestOf(plan, shared))
      assert.deepEqual(digest, digestOfWhole(plan, whole))
      assert.equal(digest.bytes, whole.length)
      assert.equal(digest.md5, hash('md5', whole, 'hex'))
      assert.equal(digest.sha256, plan.sha256 ? hash('sha256', whole, 'hex') : null)
      const valueOf = (algorithm: ChecksumAlgorithm) =>
        digest.checksums.find((each) => each.algorithm === algorithm)?.value
      if (plan.checksums.includes('SHA1')) assert.equal(valueOf('SHA1'), hash('sha1', whole, 'base64'))
      if (plan.checksums.includes('SHA512')) assert.equal(valueOf('SHA512'), hash('sha512', whole, 'base64'))
      if (plan.checksums.includes('MD5')) assert.equal(valueOf('MD5'), hash('md5', whole, 'base64'))
      if (plan.checksums.includes('SHA256')) assert.equal(valueOf('SHA256'), hash('sha256', whole, 'base64'))
      if (plan.checksums.includes('CRC32')) {
        assert.equal(Buffer.from(valueOf('CRC32')!, 'base64').readUInt32BE(), crc32(whole))
      }
    }),
    { numRuns: 100 },
  )
})

describe('a body', () => {
  const bytes = Buffer.from('hello')
  const md5 = hash('md5', bytes, 'base64')
  const sha256 = hash('sha256', bytes, 'hex')

  function refusalOf(claims: BodyClaims, trailer: string | null = null): S3Error {
    try {
      checkBody(claims, digestOf(digestPlan(claims, ['CRC64NVME']), bytes), trailer)
    } catch (error) {
      assert.ok(error instanceof S3Error, String(error))
      return error
    }
    return assert.fail('not refused')
  }

  it('is taken when all that is claimed of it is so', () => {
    for (const algorithm of CHECKSUM_ALGORITHMS) {
      const [{ value } = assert.fail()] = digestOf({ checksums: [algorithm], sha256: false }, bytes).checksums
      const inHeader = { contentMd5: md5, sha256, checksum: { algorithm, value, trailerName: null } }
      checkBody(inHeader, digestOf(digestPlan(inHeader, [algorithm]), bytes), null)
      const inTrailer = { ...NO_CLAIMS, checksum: { algorithm, value: null, trailerName: 'x-amz-checksum-x' } }
      checkBody(inTrailer, digestOf(digestPlan(inTrailer, [algorithm]), bytes), value)
    }
  })

  it('is refused when its MD5 is another', () => {
    const refusal = refusalOf({ ...NO_CLAIMS, contentMd5: '1B2M2Y8AsgTpgAmY7PhCfg==' })
    assert.equal(refusal.code, 'BadDigest')
    assert.deepEqual(refusal.fields, { ExpectedDigest: '1B2M2Y8AsgTpgAmY7PhCfg==', CalculatedDigest: md5 })
  })

  it('is refused when its SHA-256 is another, and that is said first', () => {
    const refusal = refusalOf({ ...NO_CLAIMS, contentMd5: 'x', sha256: 'a'.repeat(64) })
    assert.equal(refusal.code, 'XAmzContentSHA256Mismatch')
    assert.deepEqual(refusal.fields, {
      ClientComputedContentSHA256: 'a'.repeat(64),
      S3ComputedContentSHA256: sha256,
    })
  })

  it('is refused when its checksum is another, in a header and in a trailer', () => {
    for (const checksum of [
      { algorithm: 'CRC32', value: 'AAAAAA==', trailerName: null },
      { algorithm: 'CRC32', value: null, trailerName: 'x-amz-checksum-crc32' },
    ] as const) {
      const refusal = refusalOf({ ...NO_CLAIMS, checksum }, 'AAAAAA==')
      assert.equal(refusal.code, 'BadDigest')
      assert.equal(refusal.message, 'The CRC32 you specified did not match the calculated checksum.')
    }
  })

  it('is refused when its trailer is no checksum', () => {
    const checksum = { algorithm: 'CRC32', value: null, trailerName: 'x-amz-checksum-crc32' } as const
    for (const trailer of ['', 'bad', 'AAAAAAAAAAA=']) {
      const refusal = refusalOf({ ...NO_CLAIMS, checksum }, trailer)
      assert.equal(refusal.code, 'InvalidRequest')
      assert.equal(refusal.message, 'Value for x-amz-checksum-crc32 trailing header is invalid.')
    }
  })
})
