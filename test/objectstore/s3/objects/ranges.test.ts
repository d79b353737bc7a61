import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import { contentRange, selectionOf } from '../../../../src/objectstore/s3/objects/ranges.ts'
import type { Selection } from '../../../../src/objectstore/s3/objects/ranges.ts'
import type { ObjectPart, StoredObject } from '../../../../src/objectstore/operations.ts'
import { assertRefuses } from '../../../support/documents.ts'
import { httpDate } from '../../../../src/objectstore/s3/objects/http-date.ts'
import { PLAIN } from '../../../support/object-attributes.ts'

const LAST_MODIFIED_MS = 1_790_000_000_250

const objectOf = (size: number, parts: readonly ObjectPart[] | null = null): StoredObject => ({
  key: 'k',
  size,
  lastModifiedMs: LAST_MODIFIED_MS,
  etag: 'abc',
  commitSequence: 1,
  ...PLAIN,
  checksums: [],
  parts,
  read: () => assert.fail('nothing is read'),
})

function select(
  object: StoredObject,
  headers: Readonly<Record<string, string>>,
  query: Readonly<Record<string, string>> = {},
): Selection {
  return selectionOf({ headers: new Map(Object.entries(headers)), query: new Map(Object.entries(query)) }, object)
}

const placeOf = ({ kind, from, to }: Selection): string => `${kind} ${from}-${to}`

describe('a range of ten bytes', () => {
  const ten = objectOf(10)

  it('is one of bytes', () => {
    for (const [range, place] of [
      ['bytes=0-4', 'range 0-5'],
      ['bytes=9-9', 'range 9-10'],
      ['bytes=3-', 'range 3-10'],
      ['bytes=-3', 'range 7-10'],
      ['bytes=-99', 'range 0-10'],
      ['bytes=5-99', 'range 5-10'],
      ['bytes=5-99999999999999999999', 'range 5-10'],
      ['BYTES=0-0', 'range 0-1'],
    ]) {
      assert.equal(placeOf(select(ten, { range: range! })), place, range)
    }
    assert.equal(contentRange(select(ten, { range: 'bytes=-3' }), 10), 'bytes 7-9/10')
  })

  it('is the whole when it is nothing that S3 takes for a range', () => {
    for (const range of ['bytes=1-0', 'bytes=0-1,3-4', 'bytes=-', 'bytes=a-b', 'bytes=0--1', 'lines=0-1', '0-1', '']) {
      assert.equal(placeOf(select(ten, { range })), 'whole 0-10', range)
    }
    assert.equal(placeOf(select(ten, {})), 'whole 0-10')
  })

  it('is refused when it has no byte of the object', () => {
    for (const range of ['bytes=10-', 'bytes=10-20', 'bytes=-0']) {
      assertRefuses(() => select(ten, { range }), 'InvalidRange', {
        fields: { RangeRequested: range, ActualObjectSize: 10 },
      })
    }
    for (const range of ['bytes=0-', 'bytes=0-0', 'bytes=-1']) {
      assertRefuses(() => select(objectOf(0), { range }), 'InvalidRange')
    }
  })

  it('counts only for the object that If-Range is about', () => {
    const range = 'bytes=0-4'
    for (const same of ['"abc"', httpDate(LAST_MODIFIED_MS)]) {
      assert.equal(placeOf(select(ten, { range, 'if-range': same })), 'range 0-5', same)
    }
    for (const other of ['"abd"', 'W/"abc"', httpDate(LAST_MODIFIED_MS + 1000), 'soon']) {
      assert.equal(placeOf(select(ten, { range: 'bytes=99-', 'if-range': other })), 'whole 0-10', other)
    }
  })
})

test('a range selects the bytes that slicing would', () => {
  const bound = fc.option(fc.nat(25), { nil: null })
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 20 }), bound, bound, (size, first, last) => {
      fc.pre((first !== null || last !== null) && !(first !== null && last !== null && last < first))
      const bytes = Array.from({ length: size }, (_, i) => i)
      const expected = first === null ? bytes.slice(Math.max(0, size - last!)) : bytes.slice(first, (last ?? size) + 1)
      const range = `bytes=${first ?? ''}-${last ?? ''}`
      if (expected.length === 0) return assertRefuses(() => select(objectOf(size), { range }), 'InvalidRange')
      const { kind, from, to } = select(objectOf(size), { range })
      assert.equal(kind, 'range')
      assert.deepEqual(bytes.slice(from, to), expected)
    }),
  )
})

describe('a part of an object', () => {
  const part = (partNumber: number, size: number): ObjectPart => ({ partNumber, size, checksum: null })
  const inParts = objectOf(10, [part(1, 4), part(3, 5), part(4, 1)])

  it('is found by its number, gaps or not', () => {
    for (const [partNumber, place] of [
      ['1', 'part 0-4'],
      ['3', 'part 4-9'],
      ['4', 'part 9-10'],
    ]) {
      const selection = select(inParts, {}, { partNumber: partNumber! })
      assert.equal(placeOf(selection), place)
      assert.equal(selection.part?.partNumber, Number(partNumber))
    }
  })

  it('is the whole of an object that came in one piece', () => {
    assert.deepEqual(select(objectOf(10), {}, { partNumber: '1' }), { kind: 'part', from: 0, to: 10, part: null })
  })

  it('must be there', () => {
    assertRefuses(() => select(inParts, {}, { partNumber: '2' }), 'InvalidPartNumber', {
      fields: { ActualPartCount: 3, PartNumberRequested: 2 },
    })
    assertRefuses(() => select(objectOf(10), {}, { partNumber: '2' }), 'InvalidPartNumber', {
      fields: { ActualPartCount: 1, PartNumberRequested: 2 },
    })
  })

  it('has a number that parts can have', () => {
    for (const partNumber of ['0', '10001', 'x', '', '-1', '1.0']) {
      assertRefuses(() => select(inParts, {}, { partNumber }), 'InvalidArgument')
    }
  })

  it('does not go with a range', () => {
    assertRefuses(() => select(inParts, { range: 'bytes=0-1' }, { partNumber: '1' }), 'InvalidRequest')
  })
})
