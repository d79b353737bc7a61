import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { describe, it } from 'node:test'
import { signedAuthenticator } from '../../../../src/objectstore/s3/auth/authenticator.ts'
import type { SignedRequest } from '../../../../src/objectstore/s3/auth/canonical-request.ts'
import { parseCredentials } from '../../../../src/objectstore/s3/auth/credentials.ts'
import { S3Error } from '../../../../src/objectstore/refusals.ts'
import { KEY_ID, REGION, SECRET } from '../../../support/signer.ts'

const credentials = parseCredentials(
  JSON.stringify({
    keys: [{ access_key_id: KEY_ID, secret_access_key: SECRET, principal: 'alice', permissions: ['read'] }],
  }),
)
const authenticator = signedAuthenticator({ credentials, region: REGION })
const EXPIRES = 1_175_139_620
const NOW_MS = (EXPIRES - 60) * 1000

/** A request whose signature is over `text`, the documentation's string to sign. `request` may change what is sent. */
function signed(text: string, request: Partial<SignedRequest> & { readonly parameters?: string } = {}): SignedRequest {
  const { parameters = '', ...rest } = request
  const signature = encodeURIComponent(createHmac('sha1', SECRET).update(text).digest('base64'))
  const query = `AWSAccessKeyId=${KEY_ID}&Signature=${signature}&Expires=${EXPIRES}${parameters}`
  return { method: 'GET', path: '/bucket/key', query, headers: new Map([['host', 'h']]), ...rest }
}

const principalOf = (request: SignedRequest, nowMs = NOW_MS) => authenticator.authenticate(request, nowMs).principal?.id

function refusedAs(code: string, request: SignedRequest, nowMs = NOW_MS): S3Error {
  try {
    principalOf(request, nowMs)
  } catch (error) {
    assert(error instanceof S3Error, String(error))
    assert.equal(error.code, code, error.message)
    return error
  }
  return assert.fail('not refused')
}

const headers = (...more: readonly (readonly [string, string])[]) => new Map([['host', 'h'] as const, ...more])

describe('a URL pre-signed by version 2', () => {
  it('of the S3 documentation is of its key’s principal', () => {
    const request = {
      method: 'GET',
      path: '/photos/puppy.jpg',
      query: `AWSAccessKeyId=${KEY_ID}&Signature=NpgCjnDzrM%2BWFzoENXmpNDUsSn8%3D&Expires=${EXPIRES}`,
      headers: new Map([['host', 'johnsmith.s3.amazonaws.com']]),
      bucketInHost: 'johnsmith',
    }
    assert.equal(principalOf(request), 'alice')
  })

  it('holds until it expires', () => {
    const request = signed(`GET\n\n\n${EXPIRES}\n/bucket/key`)
    assert.equal(principalOf(request, EXPIRES * 1000), 'alice')
    assert.equal(refusedAs('AccessDenied', request, EXPIRES * 1000 + 1).message, 'Request has expired')
  })

  it('may hold for a week, with 15 minutes for clocks that are late', () => {
    const request = signed(`GET\n\n\n${EXPIRES}\n/bucket/key`)
    const earliestMs = (EXPIRES - 604_800 - 15 * 60) * 1000
    assert.equal(principalOf(request, earliestMs), 'alice')
    const refusal = refusedAs('AuthorizationQueryParametersError', request, earliestMs - 1)
    assert.equal(refusal.status, 400)
    assert.match(refusal.message, /^Expires must be less than a week away/)
  })

  it('covers method, path, the bucket in the host and what selects something', () => {
    const text = `GET\n\n\n${EXPIRES}\n/bucket/key`
    refusedAs('SignatureDoesNotMatch', signed(text, { method: 'PUT' }))
    refusedAs('SignatureDoesNotMatch', signed(text, { path: '/bucket/other' }))
    refusedAs('SignatureDoesNotMatch', signed(text, { bucketInHost: 'other' }))
    refusedAs('SignatureDoesNotMatch', signed(text, { parameters: '&tagging' }))
    refusedAs('SignatureDoesNotMatch', signed(text, { parameters: '&response-content-type=a/b' }))
    assert.equal(principalOf(signed(text, { parameters: '&unknown=1' })), 'alice')
    const listing = `GET\n\n\n${EXPIRES}\n/bucket/key?response-content-type=a b&uploadId=1`
    assert.equal(principalOf(signed(listing, { parameters: '&uploadId=1&response-content-type=a%20b' })), 'alice')
    const uploads = `POST\n\n\n${EXPIRES}\n/bucket/key?uploads`
    assert.equal(principalOf(signed(uploads, { method: 'POST', parameters: '&uploads' })), 'alice')
  })

  it('covers Content-MD5, Content-Type and every x-amz- and x-obj- header, sent or in the query', () => {
    const text = `PUT\nmd5\na/b\n${EXPIRES}\nx-amz-acl:private\nx-amz-meta-a:b\n/bucket/key`
    const content = [
      ['content-md5', 'md5'],
      ['content-type', 'a/b'],
    ] as const
    const put = (sent: Map<string, string>, parameters: string): SignedRequest =>
      signed(text, { method: 'PUT', headers: sent, parameters })
    assert.equal(principalOf(put(headers(...content, ['x-amz-meta-a', ' b '], ['x-amz-acl', 'private']), '')), 'alice')
    assert.equal(principalOf(put(headers(...content), '&x-amz-meta-a=b&x-amz-acl=private')), 'alice')
    assert.equal(
      principalOf(put(headers(), '&x-amz-meta-a=b&x-amz-acl=private&content-type=a/b&content-md5=md5')),
      'alice',
    )
    for (const more of ['&x-amz-copy-source=c/d', '&x-obj-copy-source=c/d', '&X-Amz-Meta-B=c']) {
      refusedAs('SignatureDoesNotMatch', put(headers(...content), `&x-amz-meta-a=b&x-amz-acl=private${more}`))
    }
    const all = [...content, ['x-amz-meta-a', 'b'], ['x-amz-acl', 'private']] as const
    refusedAs('SignatureDoesNotMatch', put(headers(...all, ['x-obj-copy-source', 'c/d']), ''))
    refusedAs('SignatureDoesNotMatch', put(headers(...content), '&x-amz-acl=private&x-amz-meta-a=first&x-amz-meta-a=b'))
  })

  it('without a part of it, with a time that is none, or of an unknown key is refused', () => {
    const { query, ...request } = signed(`GET\n\n\n${EXPIRES}\n/bucket/key`)
    refusedAs('AccessDenied', { ...request, query: query.replace(/Expires=\d+/, 'Expires=') })
    refusedAs('AccessDenied', { ...request, query: query.replace(/Expires=\d+/, 'Expires=soon') })
    refusedAs('InvalidAccessKeyId', { ...request, query: query.replace(KEY_ID, 'AKIANOBODY') })
    refusedAs('InvalidURI', { ...request, query: `${query}&a=%ff` })
    const both = new Map([...request.headers, ['authorization', 'AWS4-HMAC-SHA256 a']])
    refusedAs('InvalidArgument', { ...request, query, headers: both })
  })
})
