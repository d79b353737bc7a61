/** Tags and metadata, and the specification's limits for them. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { checkMetadata } from '../../../../src/objectstore/s3/objects/metadata.ts'
import { parseTaggingHeader, readTagging, renderTagging } from '../../../../src/objectstore/s3/objects/tagging.ts'
import type { Tag } from '../../../../src/objectstore/operations.ts'
import { assertRefuses, bytes } from '../../../support/documents.ts'

const FORMS: readonly (readonly [form: string, read: (tags: readonly Tag[]) => readonly Tag[]])[] = [
  ['XML', (tags) => readTagging(bytes(renderTagging(tags)))],
  [
    'the header',
    (tags) =>
      parseTaggingHeader(
        tags.map(({ key, value }) => `${encodeURIComponent(key)}=${encodeURIComponent(value)}`).join('&'),
      ),
  ],
]

const tag = (key: string, value = ''): Tag => ({ key, value })
const tags = (count: number, keyLength: number, valueLength: number): readonly Tag[] =>
  Array.from({ length: count }, (_, i) => tag(String(i).padEnd(keyLength, 'k'), 'v'.repeat(valueLength)))

for (const [form, read] of FORMS) {
  describe(`tags in ${form}`, () => {
    it('come sorted by key', () => {
      assert.deepEqual(read([tag('b', '2'), tag('a'), tag('B', '3')]), [tag('B', '3'), tag('a'), tag('b', '2')])
      assert.deepEqual(read([]), [])
    })

    it('may have letters of any script, digits, white space and a few signs', () => {
      const allowed = [tag('Größe_1.0:/=+-@', 'значение 值'), tag('x', ' ')]
      assert.deepEqual(read(allowed), allowed)
      assertRefuses(() => read([tag('a&b')]), 'InvalidTag', { fields: { TagKey: 'a&b' } })
      assertRefuses(() => read([tag('k', 'a,b')]), 'InvalidTag', { fields: { TagKey: 'k', TagValue: 'a,b' } })
    })

    it('are 10 at most', () => {
      assert.equal(read(tags(10, 3, 3)).length, 10)
      assertRefuses(() => read(tags(11, 3, 3)), 'InvalidTag')
      assertRefuses(() => read(tags(500, 3, 3)), 'InvalidTag')
    })

    it('have keys of 1 to 128 bytes and values of at most 256', () => {
      assert.equal(read(tags(1, 128, 256)).length, 1)
      assertRefuses(() => read(tags(1, 129, 0)), 'InvalidTag')
      assertRefuses(() => read(tags(1, 1, 257)), 'InvalidTag')
      assertRefuses(() => read([tag('')]), 'InvalidTag')
      assert.equal(read([tag('ж'.repeat(64), 'ж'.repeat(128))]).length, 1)
      assertRefuses(() => read([tag('ж'.repeat(65))]), 'InvalidTag')
      assertRefuses(() => read([tag('k', 'ж'.repeat(129))]), 'InvalidTag')
    })

    it('are 2 KiB in all at most', () => {
      const most = [...tags(5, 128, 256), tag('x'.repeat(128))]
      assert.equal(read(most).length, 6)
      assertRefuses(() => read([...most, tag('y')]), 'InvalidTag')
    })

    it('have different keys, and none of the system', () => {
      assertRefuses(() => read([tag('k', '1'), tag('k', '2')]), 'InvalidTag', { fields: { TagKey: 'k' } })
      assertRefuses(() => read([tag('aws:k')]), 'InvalidTag', { message: 'Your TagKey cannot be prefixed with aws:' })
      assertRefuses(() => read([tag('AWS:k')]), 'InvalidTag')
    })

    it('are given back as they were', () => {
      const text = (maxLength: number) =>
        fc.string({ unit: fc.constantFrom(...Array.from('aZ09 _.:/=+-@äж值')), maxLength })
      const anyTag = fc
        .tuple(
          text(20).filter((key) => key !== ''),
          text(30),
        )
        .map(([key, value]) => tag(key, value))
      const distinct = fc.uniqueArray(anyTag, { maxLength: 10, selector: ({ key }) => key })
      fc.assert(
        fc.property(distinct, (given) => {
          assert.deepEqual(
            read(given),
            given.toSorted((a, b) => (a.key < b.key ? -1 : 1)),
          )
        }),
      )
    })
  })
}

describe('the tagging header', () => {
  it('may leave out values and the equals sign', () => {
    assert.deepEqual(parseTaggingHeader('foo=bar&bar'), [tag('bar'), tag('foo', 'bar')])
    assert.deepEqual(parseTaggingHeader('a=b=c&&d=x+y%20z'), [tag('a', 'b=c'), tag('d', 'x y z')])
    assert.deepEqual(parseTaggingHeader(''), [])
  })

  it('is an invalid argument when it is not URL-encoded UTF-8', () => {
    for (const header of ['a=%zz', 'a=%', '%ff=1']) {
      const fields = { ArgumentName: 'x-amz-tagging', ArgumentValue: header }
      assertRefuses(() => parseTaggingHeader(header), 'InvalidArgument', { fields })
    }
  })
})

describe('a tagging body', () => {
  it('is malformed without a set, a key or a value, and with anything else', () => {
    for (const inner of [
      '',
      '<TagSet><Tag><Key>k</Key></Tag></TagSet>',
      '<TagSet><Tag><Value>v</Value></Tag></TagSet>',
      '<TagSet></TagSet><TagSet></TagSet>',
      '<TagSet><Label/></TagSet>',
    ]) {
      assertRefuses(() => readTagging(bytes(`<Tagging>${inner}</Tagging>`)), 'MalformedXML')
    }
    assertRefuses(() => readTagging(Buffer.alloc(40_000)), 'EntityTooLarge')
  })
})

describe('user metadata', () => {
  it('has names of at most 128 bytes, values of at most 2 KiB, 2 KiB in all', () => {
    checkMetadata({})
    checkMetadata({ ['n'.repeat(128)]: 'v'.repeat(1920) })
    checkMetadata({ '': 'v'.repeat(2048) })
    assertRefuses(() => checkMetadata({ ['n'.repeat(129)]: '' }), 'MetadataTooLarge', {
      fields: { Size: 129, MaxSizeAllowed: 128 },
    })
    assertRefuses(() => checkMetadata({ a: 'v'.repeat(2049) }), 'MetadataTooLarge', {
      fields: { Size: 2049, MaxSizeAllowed: 2048 },
    })
    assertRefuses(() => checkMetadata({ a: 'v'.repeat(1024), b: 'v'.repeat(1023) }), 'MetadataTooLarge', {
      fields: { Size: 2049, MaxSizeAllowed: 2048 },
    })
    assertRefuses(() => checkMetadata({ ['ж'.repeat(65)]: '' }), 'MetadataTooLarge')
  })
})
