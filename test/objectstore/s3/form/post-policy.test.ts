/** Policy documents of browser uploads: their form, and what they allow. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { FormFields, fieldName } from '../../../../src/objectstore/s3/form/form-fields.ts'
import { PostPolicy } from '../../../../src/objectstore/s3/form/post-policy.ts'
import { S3Error } from '../../../../src/objectstore/refusals.ts'
import { assertRefuses } from '../../../support/documents.ts'

const EXPIRATION = '2026-11-20T12:00:00.000Z'
const BEFORE_MS = Date.parse(EXPIRATION) - 1
const BUCKET = { bucket: 'photos' }

const base64 = (text: string): string => Buffer.from(text).toString('base64')
const parse = (policy: unknown): PostPolicy => PostPolicy.parse(base64(JSON.stringify(policy)))
const parseText = (text: string): PostPolicy => PostPolicy.parse(base64(text))
const withConditions = (...conditions: unknown[]): PostPolicy => parse({ expiration: EXPIRATION, conditions })

function check(policy: PostPolicy, fields: Readonly<Record<string, string>>, nowMs = BEFORE_MS): void {
  const named = Object.entries(fields).map(([name, value]) => [fieldName(name), value] as const)
  policy.check('photos', new FormFields(new Map(named), ''), nowMs)
}

describe('a policy document', () => {
  const assertInvalid = (run: () => unknown, message: string): void =>
    assertRefuses(run, 'InvalidPolicyDocument', { message: `Invalid Policy: ${message}` })

  it('is JSON in Base64', () => {
    assertInvalid(() => PostPolicy.parse(''), "Expecting '{' but found End-of-Input")
    assertInvalid(() => PostPolicy.parse('***'), 'invalid Base64 encoding.')
    assertInvalid(() => parseText('no json'), 'Invalid JSON.')
    assertInvalid(() => parseText('[]'), "Expecting '{'.")
    assertInvalid(() => parseText('null'), "Expecting '{'.")
    assertInvalid(() => parseText(`{"expiration":"${EXPIRATION}","conditions":[],"conditions":[]}`), 'Invalid JSON.')
    const encoded = base64(JSON.stringify({ expiration: EXPIRATION, conditions: [BUCKET] }))
    check(PostPolicy.parse(`${encoded.slice(0, 20)}\r\n${encoded.slice(20)}`), {})
    check(PostPolicy.parse(encoded.replaceAll('=', '')), {})
  })

  it('may escape a dollar sign', () => {
    check(parseText(`{"expiration":"${EXPIRATION}","conditions":[{"bucket":"photos"},["eq","$key","\\$a\\\\$b"]]}`), {
      key: '$a\\$b',
    })
  })

  it('has an expiration of ISO 8601', () => {
    assertInvalid(() => parse({ conditions: [] }), 'Policy missing expiration.')
    assertInvalid(() => parse({ EXPIRATION, conditions: [] }), 'Policy missing expiration.')
    for (const expiration of ['', 'soon', '2026-11-20 12:00:00+00:00', '2026-11-20', '2026-13-01T00:00:00Z', 5, null]) {
      assertInvalid(
        () => parse({ expiration, conditions: [] }),
        `Invalid 'expiration' value: ${JSON.stringify(expiration)}`,
      )
    }
    for (const expiration of ['2026-11-20T12:00:00Z', '2026-11-20T12:00:00.5Z', '2026-11-20T12:00:00+01:00']) {
      parse({ expiration, conditions: [] })
    }
  })

  it('has a list of conditions', () => {
    assertInvalid(() => parse({ expiration: EXPIRATION }), 'Policy missing conditions.')
    assertInvalid(() => parse({ expiration: EXPIRATION, CONDITIONS: [] }), 'Policy missing conditions.')
    assertInvalid(
      () => parse({ expiration: EXPIRATION, conditions: {} }),
      "Invalid 'conditions' value: must be a List.",
    )
    assertInvalid(() => withConditions('x'), 'Invalid condition test: must be a List or Object.')
    const one = 'Invalid Simple-Condition: Simple-Conditions must have exactly one property specified.'
    assertInvalid(() => withConditions({}), one)
    assertInvalid(() => withConditions({ a: '1', b: '2' }), one)
    assertInvalid(() => withConditions({ a: 1 }), 'Invalid Simple-Condition: value must be a string.')
    assertInvalid(() => withConditions([]), 'Invalid Condition: missing operation identifier.')
    assertInvalid(() => withConditions(['LIKE', '$key', 'k']), "Invalid Condition: unknown operation 'LIKE'.")
    assertInvalid(() => withConditions(['eq', '$key']), 'Invalid eq: wrong number of arguments.')
    assertInvalid(
      () => withConditions(['starts-with', '$key', 'k', 'l']),
      'Invalid starts-with: wrong number of arguments.',
    )
    assertInvalid(
      () => withConditions(['content-length-range', 0]),
      'Invalid content-length-range: wrong number of arguments.',
    )
    for (const field of ['key', '$', '', 1, null])
      assertInvalid(() => withConditions(['eq', field, 'k']), 'Invalid eq: not a field.')
    assertInvalid(() => withConditions(['eq', '$key', 1]), 'Invalid eq: value must be a string.')
    for (const size of [-1, 1.5, 'x', '', '-1', null, 1e300]) {
      assertInvalid(
        () => withConditions(['content-length-range', size, 1]),
        'Invalid content-length-range: not a size.',
      )
      assertInvalid(
        () => withConditions(['content-length-range', 0, size]),
        'Invalid content-length-range: not a size.',
      )
    }
  })

  it('ends with a policy or a refusal, whatever comes', () => {
    const parsed = (text: string): void => {
      try {
        parseText(text)
      } catch (error) {
        assert.ok(error instanceof S3Error && error.code === 'InvalidPolicyDocument', String(error))
      }
    }
    const words = fc.constantFrom('eq', 'starts-with', 'content-length-range', '$key', 'key', '', '$')
    const condition = fc.oneof(fc.jsonValue(), fc.array(fc.oneof(words, fc.nat())), fc.dictionary(words, words))
    fc.assert(
      fc.property(fc.array(condition), (conditions) => parsed(JSON.stringify({ expiration: EXPIRATION, conditions }))),
    )
    fc.assert(fc.property(fc.string(), (text) => parsed(text)))
    parsed('['.repeat(15_000))
  })
})

describe('a policy', () => {
  const assertDenied = (run: () => unknown, message: string): void =>
    assertRefuses(run, 'AccessDenied', { message: `Invalid according to Policy: ${message}` })

  it('holds until it expires', () => {
    const policy = withConditions(BUCKET)
    check(policy, {}, BEFORE_MS + 1)
    assertDenied(() => check(policy, {}, BEFORE_MS + 2), 'Policy expired.')
  })

  it('asks for fields that are the same', () => {
    for (const condition of [{ acl: 'private' }, ['eq', '$acl', 'private'], ['eq', '$ACL', 'private']]) {
      const policy = withConditions(BUCKET, condition)
      check(policy, { ACL: 'private' })
      const field = Array.isArray(condition) ? condition[1]!.slice(1) : 'acl'
      assertDenied(() => check(policy, { acl: 'Private' }), `Policy Condition failed: ["eq", "$${field}", "private"]`)
      assertDenied(() => check(policy, {}), `Policy Condition failed: ["eq", "$${field}", "private"]`)
    }
  })

  it('asks for fields that begin the same', () => {
    const policy = withConditions(BUCKET, ['starts-with', '$key', 'cats/'], ['starts-with', '$x-amz-meta-a', ''])
    check(policy, { key: 'cats/1', 'x-amz-meta-a': 'anything' })
    check(policy, { key: 'cats/' })
    assertDenied(() => check(policy, { key: 'dogs/' }), 'Policy Condition failed: ["starts-with", "$key", "cats/"]')
    assertDenied(() => check(policy, {}), 'Policy Condition failed: ["starts-with", "$key", "cats/"]')
  })

  it('asks each of several content types to begin the same', () => {
    const policy = withConditions(BUCKET, ['starts-with', '$Content-Type', 'image/'])
    check(policy, { 'Content-Type': 'image/png, image/jpeg' })
    assertDenied(
      () => check(policy, { 'Content-Type': 'image/png,text/html' }),
      'Policy Condition failed: ["starts-with", "$Content-Type", "image/"]',
    )
  })

  it('is for its bucket, and must say for which', () => {
    assertDenied(
      () => check(withConditions({ bucket: 'other' }), {}),
      'Policy Condition failed: ["eq", "$bucket", "other"]',
    )
    assertDenied(() => check(withConditions(), {}), 'Extra input fields: bucket')
    check(withConditions(['starts-with', '$bucket', 'pho']), {})
  })

  it('covers every field but those that carry it, its signature, checksums, and what is to be ignored', () => {
    const policy = withConditions(BUCKET, { key: 'k' })
    const uncovered = [
      'policy',
      'signature',
      'x-amz-signature',
      'AWSAccessKeyId',
      'x-ignore-me',
      'x-amz-checksum-crc32',
      'x-obj-checksum-sha256',
    ]
    check(policy, { key: 'k', ...Object.fromEntries(uncovered.map((name) => [name, 'v'])) })
    for (const name of ['acl', 'x-amz-meta-a', 'x-amz-credential', 'success_action_status']) {
      assertDenied(() => check(policy, { key: 'k', [name]: '' }), `Extra input fields: ${name}`)
    }
    assertDenied(() => check(policy, { key: 'k', b: '', a: '' }), 'Extra input fields: b, a')
  })

  it('takes the names of this service for those of S3', () => {
    check(withConditions(BUCKET, ['eq', '$x-obj-meta-a', '1']), { 'x-amz-meta-a': '1' })
    check(withConditions(BUCKET, { 'x-amz-meta-a': '1' }), { 'X-Obj-Meta-A': '1' })
  })

  it('bounds the size of the file', () => {
    const policy = withConditions(BUCKET, ['content-length-range', 2, '5'])
    assert.deepEqual(policy.fileSize, { minBytes: 2, maxBytes: 5 })
    policy.checkNotTooLarge(5)
    policy.checkNotTooSmall(2)
    assertRefuses(() => policy.checkNotTooLarge(6), 'EntityTooLarge', {
      fields: { ProposedSize: 6, MaxSizeAllowed: 5 },
    })
    assertRefuses(() => policy.checkNotTooSmall(1), 'EntityTooSmall', {
      fields: { ProposedSize: 1, MinSizeAllowed: 2 },
    })
    assert.deepEqual(withConditions(BUCKET).fileSize, { minBytes: 0, maxBytes: Infinity })
    const both = withConditions(['content-length-range', 0, 10], ['content-length-range', 3, 20])
    assert.deepEqual(both.fileSize, { minBytes: 3, maxBytes: 10 })
  })
})
