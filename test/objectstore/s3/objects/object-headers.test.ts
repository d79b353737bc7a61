import assert from 'node:assert/strict'
import { it } from 'node:test'
import fc from 'fast-check'
import { CHECKSUM_ALGORITHMS } from '../../../../src/objectstore/bodies/checksums.ts'
import { headerText } from '../../../../src/objectstore/s3/header-text.ts'
import { WrittenHeaders } from '../../../../src/objectstore/s3/objects/object-headers.ts'
import { PLAIN } from '../../../support/object-attributes.ts'

const checksum = fc.record({
  algorithm: fc.constantFrom(...CHECKSUM_ALGORITHMS),
  type: fc.constantFrom('FULL_OBJECT' as const, 'COMPOSITE' as const),
  value: fc.base64String({ minLength: 4, maxLength: 24 }),
})
const bucket = fc.record({
  number: fc.nat(0xffff),
  name: fc.constant('photos'),
  owner: fc.constant('alice'),
  createdMs: fc.constant(0),
  cors: fc.constant(null),
  policy: fc.constant(null),
})
const attributes = fc.constantFrom(PLAIN, { ...PLAIN, encryption: { kind: 'AES256' as const } })

it('the text of the headers of a written object is that of their lines, under both names', () => {
  const object = fc.record({ bucket, attributes, checksums: fc.array(checksum, { maxLength: 2 }) })
  const summary = fc.record({
    size: fc.nat(),
    lastModifiedMs: fc.nat(),
    commitSequence: fc.nat(2 ** 40),
    etag: fc.constantFrom('0'.repeat(32), `${'a1'.repeat(16)}-3`),
  })
  fc.assert(
    fc.property(object, summary, fc.boolean(), (object, summary, speaksS3) => {
      const headers = new WrittenHeaders(object, summary)
      assert.equal(headers.textFor(speaksS3), headerText(headers.lines, speaksS3))
    }),
  )
})
