/** Operators and keys of policy conditions. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { parseCondition } from '../../../../src/objectstore/s3/policy/conditions.ts'
import { atOnce } from '../../../../src/steps.ts'
import { assertRefuses } from '../../../support/documents.ts'

const KEY = 's3:prefix'
const holds = (operator: string, wanted: readonly string[], asked: readonly string[], key = KEY): boolean =>
  atOnce(parseCondition(operator, key, wanted).holds(asked))

type Case = readonly [operator: string, wanted: string, asked: string, holds: boolean]

const CASES: readonly Case[] = [
  ['StringEquals', 'a', 'a', true],
  ['StringEquals', 'a', 'A', false],
  ['StringEquals', 'a*', 'ab', false],
  ['StringNotEquals', 'a', 'b', true],
  ['StringNotEquals', 'a', 'a', false],
  ['StringEqualsIgnoreCase', 'Ab', 'aB', true],
  ['StringNotEqualsIgnoreCase', 'Ab', 'aB', false],
  ['StringLike', 'a*c?', 'abbcd', true],
  ['StringLike', 'a*', 'b', false],
  ['StringNotLike', 'a*', 'b', true],
  ['StringNotLike', 'a*', 'ab', false],
  ['NumericEquals', '10', '10.0', true],
  ['NumericNotEquals', '10', '11', true],
  ['NumericLessThan', '10', '9', true],
  ['NumericLessThan', '10', '10', false],
  ['NumericLessThanEquals', '10', '10', true],
  ['NumericGreaterThan', '10', '9', false],
  ['NumericGreaterThan', '10', '100', true],
  ['NumericGreaterThanEquals', '10', '10', true],
  ['NumericLessThan', '10', 'x', false],
  ['NumericNotEquals', '10', 'x', true],
  ['DateEquals', '2026-11-20', '2026-11-20T00:00:00Z', true],
  ['DateNotEquals', '2026-11-20', '2026-11-21', true],
  ['DateLessThan', '2026-11-20T10:00:00Z', '2026-11-20T09:59:59.999Z', true],
  ['DateLessThanEquals', '2026-11-20T10:00:00+01:00', '2026-11-20T09:00:00Z', true],
  ['DateGreaterThan', '2026-11-20T10:00:00Z', '1795168801', true],
  ['DateGreaterThanEquals', '1795168800', '2026-11-20T10:00:00Z', true],
  ['DateGreaterThan', '2026-11-20T10:00:00Z', 'tomorrow', false],
  ['Bool', 'true', 'true', true],
  ['Bool', 'TRUE', 'true', true],
  ['Bool', 'false', 'true', false],
  ['Null', 'true', 'a', false],
  ['Null', 'false', 'a', true],
]

const ADDRESSES: readonly Case[] = [
  ['IpAddress', '10.0.0.0/8', '10.1.2.3', true],
  ['IpAddress', '10.0.0.0/8', '11.1.2.3', false],
  ['IpAddress', '10.0.0.1', '10.0.0.1', true],
  ['IpAddress', '10.0.0.1', '10.0.0.2', false],
  ['IpAddress', '0.0.0.0/0', '203.0.113.9', true],
  ['IpAddress', '2001:db8::/32', '2001:db8:1::5', true],
  ['IpAddress', '2001:db8::/32', '2001:db9::5', false],
  ['IpAddress', '10.0.0.0/8', '::ffff:10.1.2.3', true],
  ['IpAddress', '10.0.0.0/8', 'not an address', false],
  ['NotIpAddress', '10.0.0.0/8', '10.1.2.3', false],
  ['NotIpAddress', '10.0.0.0/8', '::ffff:10.1.2.3', false],
  ['NotIpAddress', '10.0.0.0/8', '11.1.2.3', true],
]

describe('a condition', () => {
  for (const [operator, wanted, asked, expected] of CASES) {
    it(`${operator} ${wanted} ${expected ? 'holds' : 'does not hold'} for ${asked}`, () => {
      assert.equal(holds(operator, [wanted], [asked]), expected)
      if (operator !== 'Null') assert.equal(holds(`${operator}IfExists`, [wanted], [asked]), expected)
    })
  }
  for (const [operator, wanted, asked, expected] of ADDRESSES) {
    it(`${operator} ${wanted} ${expected ? 'holds' : 'does not hold'} for ${asked}`, () => {
      assert.equal(holds(operator, [wanted], [asked], 'aws:SourceIp'), expected)
    })
  }

  it('holds when one of several values matches, a negated one when none does', () => {
    assert.ok(holds('StringEquals', ['a', 'b'], ['b']))
    assert.ok(!holds('StringEquals', ['a', 'b'], ['c']))
    assert.ok(holds('StringNotEquals', ['a', 'b'], ['c']))
    assert.ok(!holds('StringNotEquals', ['a', 'b'], ['b']))
    assert.ok(holds('StringEquals', ['a'], ['b', 'a']))
    assert.ok(!holds('StringNotEquals', ['a'], ['b', 'a']))
  })

  it('can ask for any or for all values of a request', () => {
    assert.ok(holds('ForAnyValue:StringEquals', ['a'], ['a', 'c']))
    assert.ok(!holds('ForAllValues:StringEquals', ['a', 'b'], ['a', 'c']))
    assert.ok(holds('ForAllValues:StringEquals', ['a', 'b'], ['b', 'a', 'a']))
    assert.ok(holds('ForAnyValue:StringNotEquals', ['a'], ['a', 'c']))
    assert.ok(!holds('ForAllValues:StringNotEquals', ['a'], ['a', 'c']))
  })

  it('does not hold for a key that is not there, but when it is negated, asks if it exists, or for all values', () => {
    assert.ok(!holds('StringEquals', ['a'], []))
    assert.ok(holds('StringNotEquals', ['a'], []))
    assert.ok(holds('StringEqualsIfExists', ['a'], []))
    assert.ok(holds('StringNotEqualsIfExists', ['a'], []))
    assert.ok(holds('ForAllValues:StringEquals', ['a'], []))
    assert.ok(!holds('ForAnyValue:StringEquals', ['a'], []))
    assert.ok(!holds('ForAnyValue:StringNotEquals', ['a'], []))
    assert.ok(holds('Null', ['true'], []))
    assert.ok(!holds('Null', ['false'], []))
  })

  it('is the opposite of its negation for any one value', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'b', '*'), maxLength: 4 })
    const operators = fc.constantFrom<readonly [string, string]>(
      ['StringEquals', 'StringNotEquals'],
      ['StringLike', 'StringNotLike'],
      ['StringEqualsIgnoreCase', 'StringNotEqualsIgnoreCase'],
    )
    fc.assert(
      fc.property(operators, fc.array(text, { minLength: 1 }), text, ([operator, negated], wanted, asked) => {
        assert.notEqual(holds(operator, wanted, [asked]), holds(negated, wanted, [asked]))
      }),
    )
  })

  it('is refused with an operator that is not known', () => {
    for (const operator of [
      'ArnLike',
      'Equals',
      '',
      'stringequals',
      'NullIfExists',
      'ForAnyValue:Null',
      'constructor',
    ]) {
      const message = `Invalid Condition type : ${operator}`
      assertRefuses(() => parseCondition(operator, KEY, ['a']), 'MalformedPolicy', { message })
    }
  })

  it('is refused with a value that the operator cannot compare', () => {
    for (const [operator, value] of [
      ['NumericEquals', 'ten'],
      ['NumericEquals', ''],
      ['DateLessThan', '20 Nov 2026'],
      ['DateLessThan', '2026-13-01'],
      ['Bool', 'yes'],
      ['Null', ''],
    ] as const) {
      assertRefuses(() => parseCondition(operator, KEY, [value]), 'MalformedPolicy')
    }
    for (const value of ['10.0.0.0/33', '10.0.0/8', 'x', '', '10.0.0.0/8/8x', '::1/129', '10.0.0.0/-1', '10.0.0.0/']) {
      const run = () => parseCondition('IpAddress', 'aws:SourceIp', [value])
      assertRefuses(run, 'MalformedPolicy', { message: 'Invalid IP address in Conditions' })
    }
    assertRefuses(() => parseCondition('IpAddress', KEY, ['10.0.0.0/8']), 'MalformedPolicy')
  })
})

describe('a condition key', () => {
  const keyOf = (key: string) => parseCondition('StringEquals', key, ['a']).key

  it('is known in any case, under the names of S3 and of this service', () => {
    assert.deepEqual(keyOf('aws:sourceIP'), { name: 'aws:sourceip', tag: '' })
    assert.deepEqual(keyOf('s3:x-amz-acl'), { name: 's3:x-amz-acl', tag: '' })
    assert.deepEqual(keyOf('obj:x-obj-acl'), { name: 's3:x-amz-acl', tag: '' })
    assert.deepEqual(keyOf('S3:RequestObjectTag/Team/A'), { name: 's3:requestobjecttag/', tag: 'Team/A' })
  })

  it('is refused when it is not enforced', () => {
    for (const key of [
      'aws:MultiFactorAuthPresent',
      's3:prefix/x',
      's3:ExistingObjectTag/',
      's3:ExistingObjectTag',
      'prefix',
      '',
    ]) {
      assertRefuses(() => keyOf(key), 'MalformedPolicy', { message: 'Policy has an invalid condition key' })
    }
  })
})
