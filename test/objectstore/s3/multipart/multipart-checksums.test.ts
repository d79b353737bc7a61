import assert from 'node:assert/strict'
import { STEPS_AT_ONCE } from '../../../../src/objectstore/s3/slices.ts'
import { atOnce } from '../../../../src/steps.ts'
import { createHash } from 'node:crypto'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import { loadChecksums } from '../../../../src/objectstore/bodies/checksum-algorithms.ts'
import { BodyDigests } from '../../../../src/objectstore/bodies/incremental-digests.ts'
import {
  checkObjectChecksum,
  checksumsOfPart,
  chosenAlgorithm,
  objectChecksum,
  uploadChecksum,
} from '../../../../src/objectstore/s3/multipart/multipart-checksums.ts'
import { CHECKSUM_ALGORITHMS } from '../../../../src/objectstore/bodies/checksums.ts'
import type { ChecksumAlgorithm } from '../../../../src/objectstore/bodies/checksums.ts'

const MIB = 1 << 20

type Headers = Readonly<Record<string, string>>

const mapOf = (headers: Headers): Map<string, string> => new Map(Object.entries(headers))
const uploadOf = (headers: Headers) => uploadChecksum(mapOf(headers))
const chosen = (algorithm: string, type?: string) =>
  uploadOf({ 'x-amz-checksum-algorithm': algorithm, ...(type !== undefined && { 'x-amz-checksum-type': type }) })

function checksumOf(algorithm: ChecksumAlgorithm, bytes: Uint8Array): string {
  const digests = new BodyDigests({ checksums: [algorithm], sha256: false })
  digests.update(bytes)
  return digests.finish().checksums[0]!.value
}

const declared = (algorithm: ChecksumAlgorithm) => ({ algorithm, value: 'AAAAAA==', trailerName: null })

await loadChecksums(CHECKSUM_ALGORITHMS)

describe('an upload in parts', () => {
  it('has a CRC64NVME of the whole when nothing is chosen', () => {
    assert.deepEqual(uploadOf({}), { algorithm: 'CRC64NVME', type: 'FULL_OBJECT', isChosen: false })
  })

  it('takes the types that S3 has for each algorithm, and these by default', () => {
    for (const [algorithm, byDefault, types] of [
      ['CRC64NVME', 'FULL_OBJECT', ['FULL_OBJECT']],
      ['CRC32', 'COMPOSITE', ['FULL_OBJECT', 'COMPOSITE']],
      ['CRC32C', 'COMPOSITE', ['FULL_OBJECT', 'COMPOSITE']],
      ...(['SHA1', 'SHA256', 'SHA512', 'MD5', 'XXHASH64', 'XXHASH3', 'XXHASH128'] as const).map(
        (algorithm) => [algorithm, 'COMPOSITE', ['COMPOSITE']] as const,
      ),
    ] as const) {
      assert.deepEqual(chosen(algorithm), { algorithm, type: byDefault, isChosen: true })
      for (const type of ['FULL_OBJECT', 'COMPOSITE'] as const) {
        if ((types as readonly string[]).includes(type)) assert.equal(chosen(algorithm, type).type, type)
        else {
          const message = `The ${type} checksum type cannot be used with the ${algorithm.toLowerCase()} checksum algorithm.`
          assert.throws(() => chosen(algorithm, type), { code: 'InvalidRequest', message })
        }
      }
    }
  })

  it('may be chosen under either name, in either case', () => {
    const upload = uploadOf({ 'x-obj-checksum-algorithm': 'crc32c', 'x-obj-checksum-type': 'full_object' })
    assert.deepEqual(upload, { algorithm: 'CRC32C', type: 'FULL_OBJECT', isChosen: true })
    assert.equal(chosenAlgorithm(mapOf({})), null)
  })

  it('is refused with an algorithm or a type that is none, or a type alone', () => {
    for (const [headers, message] of [
      [
        { 'x-amz-checksum-algorithm': 'ROT13' },
        /\[CRC32, CRC32C, CRC64NVME, SHA1, SHA256, SHA512, MD5, XXHASH64, XXHASH3, XXHASH128\]$/,
      ],
      [{ 'x-amz-checksum-type': 'COMPOSITE' }, /can only be used with the x-amz-checksum-algorithm header/],
      [{ 'x-amz-checksum-algorithm': 'CRC32', 'x-amz-checksum-type': 'HALF' }, /x-amz-checksum-type header is invalid/],
    ] as const) {
      assert.throws(() => uploadOf(headers), { code: 'InvalidRequest', message })
    }
  })
})

test('the checksum of 10 000 parts is made in slices, whatever its type', () => {
  for (const upload of [uploadOf({}), chosen('SHA256')]) {
    const value = checksumOf(upload.algorithm, Buffer.from('part'))
    const parts = Array.from({ length: 10_000 }, (_, i) => ({ value, bytes: MIB + i }))
    const steps = [...objectChecksum(upload, parts)]
    assert.ok(steps.length >= parts.length - 1)
    assert.ok(Math.max(...steps) <= STEPS_AT_ONCE)
  }
})

describe('a part', () => {
  it('has the checksum of its upload computed, whatever else it declares', () => {
    assert.deepEqual(checksumsOfPart(uploadOf({}), null), ['CRC64NVME'])
    assert.deepEqual(checksumsOfPart(uploadOf({}), declared('SHA1')), ['CRC64NVME'])
    assert.deepEqual(checksumsOfPart(chosen('CRC32', 'FULL_OBJECT'), null), ['CRC32'])
    assert.deepEqual(checksumsOfPart(chosen('SHA256'), declared('SHA256')), ['SHA256'])
  })

  it('is refused with another than was chosen, or with none for a composite', () => {
    const message = (expected: string, actual: string) =>
      `Checksum Type mismatch occurred, expected checksum Type: ${expected}, actual checksum Type: ${actual}`
    for (const [algorithm, part, actual] of [
      ['CRC64NVME', declared('SHA256'), 'sha256'],
      ['SHA256', declared('CRC32'), 'crc32'],
      ['SHA256', null, 'null'],
    ] as const) {
      assert.throws(() => checksumsOfPart(chosen(algorithm), part), {
        code: 'InvalidRequest',
        message: message(algorithm.toLowerCase(), actual),
      })
    }
  })
})

describe('an object of parts', () => {
  it('has a composite of the digests of its parts, and their number', () => {
    const parts = ['one', 'two', 'three'].map((text) => Buffer.from(text))
    const digests = parts.map((part) => createHash('sha256').update(part).digest())
    const expected = createHash('sha256').update(Buffer.concat(digests)).digest('base64')
    const checksum = atOnce(
      objectChecksum(
        chosen('SHA256'),
        digests.map((digest, i) => ({ value: digest.toString('base64'), bytes: parts[i]!.length })),
      ),
    )
    assert.deepEqual(checksum, { algorithm: 'SHA256', type: 'COMPOSITE', value: `${expected}-3` })
  })

  it('is refused when the request that completes it says another checksum, algorithm or type', () => {
    const upload = chosen('CRC32')
    const checksum = atOnce(objectChecksum(upload, [{ value: 'y/Q5Jg==', bytes: 9 }]))
    const check = (headers: Headers, of = upload) => checkObjectChecksum(mapOf(headers), of, checksum)
    assert.match(checksum.value, /^.{8}-1$/)

    check({})
    check({ 'x-amz-checksum-type': 'COMPOSITE', 'x-amz-checksum-crc32': checksum.value })
    check({ 'x-obj-checksum-crc32': checksum.value.slice(0, -2) })
    check({ 'x-amz-checksum-sha1': 'any' }, uploadOf({}))

    assert.throws(() => check({ 'x-amz-checksum-crc32': 'AAAAAA==-1' }), {
      code: 'BadDigest',
      message: 'The CRC32 you specified did not match the calculated checksum.',
    })
    assert.throws(() => check({ 'x-amz-checksum-type': 'FULL_OBJECT' }), {
      code: 'InvalidRequest',
      message:
        'The upload was created using the COMPOSITE checksum mode. The complete request must use the same checksum mode.',
    })
    assert.throws(() => check({ 'x-amz-checksum-sha1': 'any' }), {
      code: 'InvalidRequest',
      message: /actual checksum Type: sha1/,
    })
  })
})

test('the CRC of a whole object comes from those of its parts, wherever it was cut', () => {
  const crcs = CHECKSUM_ALGORITHMS.filter((algorithm) => algorithm.startsWith('CRC'))
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 500 }), { minLength: 1, maxLength: 6 }), (parts) => {
      for (const algorithm of crcs) {
        const checksum = atOnce(
          objectChecksum(
            chosen(algorithm, 'FULL_OBJECT'),
            parts.map((part) => ({ value: checksumOf(algorithm, part), bytes: part.length })),
          ),
        )
        assert.equal(checksum.value, checksumOf(algorithm, Buffer.concat(parts)))
      }
    }),
  )
})
