/** What the console shows of a record in OTLP JSON, in which null stands for an absent member. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { durationNano, isComparable, nanoOf, valueText } from '../../../../src/console/page/logs/otlp.ts'

const NONE = {
  stringValue: null,
  boolValue: null,
  intValue: null,
  doubleValue: null,
  bytesValue: null,
  arrayValue: null,
  kvlistValue: null,
}

describe('the text of a value', () => {
  const values = [
    [{ stringValue: 'a' }, 'a'],
    [{ boolValue: false }, 'false'],
    [{ intValue: 5 }, '5'],
    [{ intValue: '9223372036854775807' }, '9223372036854775807'],
    [{ doubleValue: 'NaN' }, 'NaN'],
    [{ bytesValue: 'AAE=' }, 'AAE='],
    [{ arrayValue: { values: [{ ...NONE, intValue: '7' }, NONE] } }, '[7,null]'],
    [{ kvlistValue: { values: [{ key: 'k', value: { ...NONE, boolValue: true } }] } }, '{"k":true}'],
  ] as const
  for (const [value, text] of values) {
    it(`is ${text}, whatever nulls are beside it`, () => {
      assert.equal(valueText(value), text)
      assert.equal(valueText({ ...NONE, ...value }), text)
    })
  }

  it('is empty without a value', () => {
    for (const none of [undefined, null, {}, NONE]) assert.equal(valueText(none), '')
  })
})

it('a value beside nulls can be searched for, a list or an absent value can not', () => {
  assert.equal(isComparable({ key: 'k', value: { ...NONE, intValue: 5 } }), true)
  assert.equal(isComparable({ key: 'k', value: { ...NONE, arrayValue: { values: null } } }), false)
  assert.equal(isComparable({ key: 'k', value: null }), false)
})

it('a time is read in every form that the log store takes', () => {
  const exact = 1_790_000_000_000_000_001n
  for (const sent of [
    '1790000000000000001',
    '1790000000000000001e0',
    '1790000000000000001.0',
    '1.790000000000000001E+18',
  ])
    assert.equal(nanoOf(sent), exact)
  for (const sent of ['1e3', 1e3, '1000', '0001.0e3', '10000e-1']) assert.equal(nanoOf(sent), 1000n)
  for (const none of [undefined, null, '0', 0, '0e999999999', '', 'soon']) assert.equal(nanoOf(none), 0n)
  assert.equal(nanoOf('18446744073709551615'), 2n ** 64n - 1n)
  assert.equal(durationNano({ startTimeUnixNano: '1e3', endTimeUnixNano: 3000 }), 2000)
})

it('a span without a start or an end has no duration', () => {
  assert.equal(durationNano({ startTimeUnixNano: '5', endTimeUnixNano: '7' }), 2)
  assert.equal(durationNano({ startTimeUnixNano: '7', endTimeUnixNano: '5' }), 0)
  assert.equal(durationNano({}), null)
  for (const none of [null, '0']) {
    assert.equal(durationNano({ startTimeUnixNano: '5', endTimeUnixNano: none }), null)
    assert.equal(durationNano({ startTimeUnixNano: none, endTimeUnixNano: '5' }), null)
  }
})
