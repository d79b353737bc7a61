import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { describe, it } from 'node:test'
import { signedAuthenticator } from '../../../../src/objectstore/s3/auth/authenticator.ts'
import { parseCredentials } from '../../../../src/objectstore/s3/auth/credentials.ts'
import { S3Error } from '../../../../src/objectstore/refusals.ts'
import { KEY_ID, REGION, SECRET, signingKey } from '../../../support/signer.ts'

const credentials = parseCredentials(
  JSON.stringify({
    keys: [{ access_key_id: KEY_ID, secret_access_key: SECRET, principal: 'alice', permissions: ['write'] }],
  }),
)
const authenticator = signedAuthenticator({ credentials, region: REGION })
const anonymous = { principal: null, contentSha256: null, chunkSigning: null }

type Form = Readonly<Record<string, string | undefined>>

const principalOf = (form: Form) => authenticator.authenticateForm((name) => form[name], anonymous)

function refusalOf(form: Form): S3Error {
  try {
    principalOf(form)
  } catch (error) {
    assert.ok(error instanceof S3Error, String(error))
    return error
  }
  return assert.fail('not refused')
}

const policy = Buffer.from('{"expiration":"2015-12-30T12:00:00.000Z","conditions":[{"bucket":"b"}]}').toString('base64')

const version4: Form = {
  policy,
  'x-amz-algorithm': 'AWS4-HMAC-SHA256',
  'x-amz-credential': `${KEY_ID}/20151229/us-east-1/s3/aws4_request`,
  'x-amz-date': '20151229T000000Z',
  'x-amz-signature': createHmac('sha256', signingKey('20151229')).update(policy).digest('hex'),
}

const version2: Form = {
  policy,
  awsaccesskeyid: KEY_ID,
  signature: createHmac('sha1', SECRET).update(policy).digest('base64'),
}

describe('a form', () => {
  it('of the S3 documentation is of its key’s principal', () => {
    const documentedPolicy = [
      '{ "expiration": "2015-12-30T12:00:00.000Z",',
      '  "conditions": [',
      '    {"bucket": "sigv4examplebucket"},',
      '    ["starts-with", "$key", "user/user1/"],',
      '    {"acl": "public-read"},',
      '    {"success_action_redirect": "http://sigv4examplebucket.s3.amazonaws.com/successful_upload.html"},',
      '    ["starts-with", "$Content-Type", "image/"],',
      '    {"x-amz-meta-uuid": "14365123651274"},',
      '    {"x-amz-server-side-encryption": "AES256"},',
      '    ["starts-with", "$x-amz-meta-tag", ""],',
      '',
      '    {"x-amz-credential": "AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/s3/aws4_request"},',
      '    {"x-amz-algorithm": "AWS4-HMAC-SHA256"},',
      '    {"x-amz-date": "20151229T000000Z" }',
      '  ]',
      '}',
    ].join('\r\n')
    const form = {
      ...version4,
      policy: Buffer.from(documentedPolicy).toString('base64'),
      'x-amz-signature': '8afdbf4008c03f22c2cd3cdb72e4afbb1f6a588f3255ac628749a66d7f09699e',
    }
    assert.equal(principalOf(form)?.id, 'alice')
  })

  it('is of its key’s principal in version 4 and in version 2', () => {
    assert.equal(principalOf(version4)?.id, 'alice')
    assert.equal(principalOf(version2)?.id, 'alice')
  })

  it('is anonymous with neither policy nor signature, or whose the request already is', () => {
    assert.equal(principalOf({}), null)
    const principal = { id: 'bob', permissions: new Set<never>() }
    assert.equal(authenticator.authenticateForm(() => undefined, { ...anonymous, principal })?.id, 'bob')
  })

  it('is refused when its policy, its signature or its key is another', () => {
    for (const form of [version4, version2]) {
      const other = Buffer.from('{"expiration":"2099-01-01T00:00:00Z","conditions":[]}').toString('base64')
      const refusal = refusalOf({ ...form, policy: other })
      assert.equal(refusal.code, 'SignatureDoesNotMatch')
      assert.equal(refusal.status, 403)
      assert.equal(refusal.fields['StringToSign'], other)
      assert.doesNotMatch(JSON.stringify(refusal.fields), new RegExp(SECRET))
    }
    assert.equal(refusalOf({ ...version2, signature: 'AAAA' }).code, 'SignatureDoesNotMatch')
    assert.equal(refusalOf({ ...version2, awsaccesskeyid: 'AKIANOBODY' }).code, 'InvalidAccessKeyId')
    const credential = 'AKIANOBODY/20151229/us-east-1/s3/aws4_request'
    assert.equal(refusalOf({ ...version4, 'x-amz-credential': credential }).code, 'InvalidAccessKeyId')
  })

  it('is refused without one of its fields, with its name', () => {
    for (const [form, names] of [
      [version4, ['policy', 'x-amz-algorithm', 'x-amz-credential', 'x-amz-date', 'x-amz-signature']],
      [version2, ['policy', 'AWSAccessKeyId', 'signature']],
    ] as const) {
      for (const name of names) {
        const refusal = refusalOf({ ...form, [name.toLowerCase()]: undefined })
        assert.equal(refusal.code, 'InvalidArgument')
        assert.equal(refusal.status, 400)
        assert.deepEqual(refusal.fields, { ArgumentName: name, ArgumentValue: '' })
        assert.match(refusal.message, new RegExp(`^Bucket POST must contain a field named '${name}'\\.`))
      }
    }
  })

  it('is refused with a credential or a date that does not fit', () => {
    for (const [change, message] of [
      [{ 'x-amz-algorithm': 'AWS4-HMAC-SHA1' }, /Only AWS4-HMAC-SHA256 is supported/],
      [{ 'x-amz-credential': 'A/B' }, /the Credential is mal-formed/],
      [{ 'x-amz-credential': `${KEY_ID}/20151229/eu-west-1/s3/aws4_request` }, /the region 'eu-west-1' is wrong/],
      [{ 'x-amz-date': '20151230T000000Z' }, /X-Amz-Date/],
      [{ 'x-amz-date': 'today' }, /X-Amz-Date/],
    ] as const) {
      const refusal = refusalOf({ ...version4, ...change })
      assert.equal(refusal.code, 'InvalidArgument')
      assert.match(refusal.message, message)
    }
  })
})
