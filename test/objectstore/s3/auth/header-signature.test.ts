import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import { signedAuthenticator } from '../../../../src/objectstore/s3/auth/authenticator.ts'
import type { SignedRequest } from '../../../../src/objectstore/s3/auth/canonical-request.ts'
import { parseCredentials } from '../../../../src/objectstore/s3/auth/credentials.ts'
import { S3Error } from '../../../../src/objectstore/refusals.ts'
import { EMPTY_SHA256, KEY_ID, NOW_MS, REGION, SECRET, signHeader, TIMESTAMP } from '../../../support/signer.ts'
import type { Draft } from '../../../support/signer.ts'
import { refusalOf as refusalOfCall } from '../../../support/documents.ts'
import { codePoint } from '../../../support/code-point.ts'

const credentials = parseCredentials(
  JSON.stringify({
    keys: [{ access_key_id: KEY_ID, secret_access_key: SECRET, principal: 'alice', permissions: ['read', 'write'] }],
  }),
)
const authenticator = signedAuthenticator({ credentials, region: REGION })
const authenticate = (request: SignedRequest, nowMs = NOW_MS) => authenticator.authenticate(request, nowMs)

const refusalOf = (request: SignedRequest, nowMs = NOW_MS): S3Error => refusalOfCall(() => authenticate(request, nowMs))

const withHeader = (request: SignedRequest, name: string, value: string | null): SignedRequest => {
  const headers = new Map(request.headers)
  if (value === null) headers.delete(name)
  else headers.set(name, value)
  return { ...request, headers }
}

const withAuthorization = (authorization: string): SignedRequest =>
  withHeader(signHeader({}), 'authorization', authorization)

const scoped = (scope: string): SignedRequest =>
  withAuthorization(`AWS4-HMAC-SHA256 Credential=${scope}, SignedHeaders=host, Signature=0`)

/** A request of the documentation's examples, with its signature. */
const documented = (
  method: string,
  target: string,
  headers: Readonly<Record<string, string>>,
  signature: string,
): SignedRequest => {
  const all = new Map(Object.entries({ host: 'examplebucket.s3.amazonaws.com', 'x-amz-date': TIMESTAMP, ...headers }))
  const names = [...all.keys()].sort().join(';')
  all.set(
    'authorization',
    `AWS4-HMAC-SHA256 Credential=${KEY_ID}/20130524/us-east-1/s3/aws4_request,SignedHeaders=${names},Signature=${signature}`,
  )
  const [path = '', query = ''] = target.split('?')
  return { method, path, query, headers: all }
}

const empty = { 'x-amz-content-sha256': EMPTY_SHA256 }

describe('the examples of the S3 documentation', () => {
  for (const [name, request] of [
    [
      'GET of a range',
      documented(
        'GET',
        '/test.txt',
        { ...empty, range: 'bytes=0-9' },
        'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
      ),
    ],
    [
      'PUT of a key with a character that had to be encoded',
      documented(
        'PUT',
        '/test$file.text',
        {
          date: 'Fri, 24 May 2013 00:00:00 GMT',
          'x-amz-storage-class': 'REDUCED_REDUNDANCY',
          'x-amz-content-sha256': '44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072',
        },
        '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
      ),
    ],
    [
      'GET of a bucket’s lifecycle',
      documented('GET', '/?lifecycle', empty, 'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543'),
    ],
    [
      'GET of a listing',
      documented(
        'GET',
        '/?max-keys=2&prefix=J',
        empty,
        '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
      ),
    ],
  ] as const) {
    it(`${name} is of its key's principal`, () => {
      const caller = authenticate(request)
      assert.equal(caller.principal?.id, 'alice')
      assert.deepEqual(caller.principal?.permissions, new Set(['read', 'write']))
      assert.equal(caller.contentSha256, request.headers.get('x-amz-content-sha256'))
    })
  }

  it('fail when anything signed is changed', () => {
    const request = signHeader({ path: '/a/b', query: [['prefix', 'x']], headers: { 'content-type': 'text/plain' } })
    authenticate(request)
    for (const changed of [
      { ...request, method: 'PUT' },
      { ...request, path: '/a/B' },
      { ...request, path: '/a//b' },
      { ...request, path: '/a/./b' },
      { ...request, query: 'prefix=y' },
      { ...request, query: 'prefix=x&acl' },
      { ...request, query: '' },
      withHeader(request, 'content-type', 'text/html'),
      withHeader(request, 'content-type', null),
      withHeader(request, 'host', 'examplebucket.s3.amazonaws.com:9000'),
      withHeader(request, 'x-amz-content-sha256', 'UNSIGNED-PAYLOAD'),
      withHeader(request, 'x-amz-date', '20130524T000001Z'),
    ]) {
      assert.equal(refusalOf(changed).code, 'SignatureDoesNotMatch', JSON.stringify(changed))
    }
  })
})

describe('a signed request', () => {
  it('may be written as its sender likes, as long as it names the same', () => {
    const key = signHeader({ path: '/a (1)~é', query: [['prefix', 'x y/~']] })
    assert.equal(key.path, '/a%20%281%29~%C3%A9')
    for (const path of [key.path, '/a%20(1)~%c3%a9', '/%61%20%281%29%7E%C3%A9']) {
      for (const query of ['prefix=x%20y%2F~', 'prefix=x%20y%2f%7e', 'prefix=x+y/~']) {
        assert.equal(authenticate({ ...key, path, query }).principal?.id, 'alice', `${path}?${query}`)
      }
    }
    for (const path of ['/a%20%281%29~%C3%A8', '/a%2520%281%29~%C3%A9', '/a%20%281%29~é%']) {
      assert.equal(refusalOf({ ...key, path }).code, 'SignatureDoesNotMatch')
    }
  })

  it('may have the slashes of a key encoded, which its signature has not', () => {
    const request = signHeader({ path: '/a/b' })
    assert.equal(authenticate({ ...request, path: '/a%2Fb' }).principal?.id, 'alice')
    assert.equal(authenticate({ ...request, path: '/a%2fb' }).principal?.id, 'alice')
    assert.equal(refusalOf({ ...request, path: '/a%252Fb' }).code, 'SignatureDoesNotMatch')
  })

  it('may be signed over its target as it stands, as curl does', () => {
    const request = signHeader({ rawPath: '/a(b)//./c' })
    assert.equal(authenticate(request).principal?.id, 'alice')
    assert.equal(refusalOf({ ...request, path: '/a%28b%29//./c' }).code, 'SignatureDoesNotMatch')
  })

  it('counts its headers under the names they came with, spaces run together, repeated values joined', () => {
    const request = signHeader({
      headers: { 'x-obj-meta-a': '  one   two ', 'x-amz-meta-b': 'c,d', 'x-obj-storage-class': 'STANDARD' },
    })
    assert.equal(authenticate(request).principal?.id, 'alice')
    assert.equal(refusalOf(withHeader(request, 'x-obj-meta-a', 'one twotwo')).code, 'SignatureDoesNotMatch')
  })

  it('has its date and content hash under either name', () => {
    const headers = { 'x-obj-date': TIMESTAMP, 'x-obj-content-sha256': EMPTY_SHA256 }
    const request = signHeader({ headers, unsigned: ['x-amz-date', 'x-amz-content-sha256'] })
    const ours = withHeader(withHeader(request, 'x-amz-date', null), 'x-amz-content-sha256', null)
    assert.equal(authenticate(ours).principal?.id, 'alice')
  })

  it('may have its date as an HTTP date', () => {
    const request = signHeader({ headers: { date: 'Fri, 24 May 2013 00:00:00 GMT' }, unsigned: ['x-amz-date'] })
    assert.equal(authenticate(withHeader(request, 'x-amz-date', null)).principal?.id, 'alice')
  })

  it('hands on what its chunks are signed with', () => {
    const request = signHeader({ payloadHash: 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD' })
    const { chunkSigning, contentSha256 } = authenticate(request)
    assert.equal(contentSha256, 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD')
    assert.equal(chunkSigning?.seedSignature, request.signature)
    assert.equal(chunkSigning?.scope, '20130524/us-east-1/s3/aws4_request')
    assert.deepEqual(structuredClone(chunkSigning)?.timestamp, TIMESTAMP)
  })

  it('is good for 15 minutes before and after its date', () => {
    const request = signHeader({})
    const quarter = 15 * 60_000
    authenticate(request, NOW_MS + quarter)
    authenticate(request, NOW_MS - quarter)
    for (const nowMs of [NOW_MS + quarter + 1, NOW_MS - quarter - 1]) {
      const refusal = refusalOf(request, nowMs)
      assert.equal(refusal.code, 'RequestTimeTooSkewed')
      assert.equal(refusal.status, 403)
      assert.deepEqual(refusal.fields, {
        RequestTime: TIMESTAMP,
        ServerTime: new Date(nowMs).toISOString().replace(/\.\d+/, ''),
        MaxAllowedSkewMilliseconds: 900_000,
      })
    }
  })

  it('is judged by its key again on another day', () => {
    for (const day of ['20130525', '20130526', '20130524']) {
      const timestamp = `${day}T120000Z`
      const nowMs = Date.parse(`${day.replace(/(....)(..)(..)/, '$1-$2-$3')}T12:00:00Z`)
      assert.equal(authenticate(signHeader({ timestamp }), nowMs).principal?.id, 'alice')
    }
  })
})

describe('refused is a request', () => {
  it('without a valid date', () => {
    for (const date of ['', 'Bad Date', '19500707T215304Z', '20130230T000000Z', '2013-05-24T00:00:00Z']) {
      const refusal = refusalOf(signHeader({ headers: { 'x-amz-date': date } }))
      assert.equal(refusal.code, 'AccessDenied', date)
      assert.equal(refusal.message, 'AWS authentication requires a valid Date or x-amz-date header')
    }
    assert.equal(refusalOf(withHeader(signHeader({}), 'x-amz-date', null)).code, 'AccessDenied')
  })

  it('without x-amz-content-sha256', () => {
    const refusal = refusalOf(withHeader(signHeader({}), 'x-amz-content-sha256', null))
    assert.equal(refusal.code, 'InvalidRequest')
    assert.match(refusal.message, /x-amz-content-sha256/)
  })

  it('whose key is unknown', () => {
    const refusal = refusalOf(signHeader({ keyId: 'AKIANOBODY' }))
    assert.equal(refusal.code, 'InvalidAccessKeyId')
    assert.equal(refusal.status, 403)
    assert.deepEqual(refusal.fields, { AWSAccessKeyId: 'AKIANOBODY' })
  })

  it('signed with another secret, with what it was signed over and never the secret', () => {
    const refusal = refusalOf(signHeader({ secret: 'wrong', headers: { 'x-amz-meta-a': 'b' } }))
    assert.equal(refusal.code, 'SignatureDoesNotMatch')
    assert.equal(refusal.status, 403)
    const { StringToSign, CanonicalRequest, StringToSignBytes } = refusal.fields
    assert.match(String(StringToSign), /^AWS4-HMAC-SHA256\n20130524T000000Z\n20130524\/us-east-1\/s3\/aws4_request\n/)
    assert.match(String(CanonicalRequest), /^GET\n\/\n\nhost:examplebucket[^]*x-amz-meta-a:b\n/)
    assert.match(String(StringToSignBytes), /^41 57 53 34 2d 48/)
    assert.doesNotMatch(JSON.stringify(refusal.fields) + refusal.message, new RegExp(SECRET))
  })

  it('without telling back its encryption key', () => {
    const name = 'x-amz-server-side-encryption-customer-key'
    const refusal = refusalOf(signHeader({ secret: 'wrong', headers: { [name]: 'c2VjcmV0', [`${name}-md5`]: 'bWQ1' } }))
    assert.match(String(refusal.fields['CanonicalRequest']), /customer-key:\(not shown\)\n.*-md5:bWQ1/)
    assert.doesNotMatch(JSON.stringify(refusal.fields), /c2VjcmV0|63 32 56 6a/)
  })

  it('for another region, with the right one', () => {
    const refusal = refusalOf(signHeader({ region: 'eu-west-1' }))
    assert.equal(refusal.code, 'AuthorizationHeaderMalformed')
    assert.equal(refusal.status, 400)
    assert.deepEqual(refusal.fields, { Region: 'us-east-1' })
    assert.equal(
      refusal.message,
      "The authorization header is malformed; the region 'eu-west-1' is wrong; expecting 'us-east-1'",
    )
  })

  it('with headers that change its meaning and are not signed', () => {
    const request = signHeader({})
    const added = withHeader(withHeader(request, 'x-amz-acl', 'private'), 'x-obj-copy-source', '/b/k')
    const refusal = refusalOf(added)
    assert.equal(refusal.code, 'AccessDenied')
    assert.deepEqual(refusal.fields, { HeadersNotSigned: 'x-amz-acl, x-obj-copy-source' })
    for (const name of ['content-language', 'x-amzn-trace-id', 'x-obj-request-id']) {
      assert.equal(authenticate(withHeader(request, name, 'any')).principal?.id, 'alice', name)
    }
    assert.deepEqual(refusalOf(signHeader({ unsigned: ['host'] })).fields, { HeadersNotSigned: 'host' })
  })

  it('with more signed headers than a request can have, before their names are looked at', (t) => {
    const scope = `${KEY_ID}/20130524/us-east-1/s3/aws4_request`
    const names = (count: number): string => Array.from({ length: count }, (_, i) => `X-Amz-Meta-${i}`).join(';')
    const signed = (list: string): SignedRequest =>
      Array.from({ length: 80 }, (_, i) => `x-amz-other-${i}`).reduce(
        (request, name) => withHeader(request, name, 'v'),
        withAuthorization(`AWS4-HMAC-SHA256 Credential=${scope}, SignedHeaders=${list}, Signature=0`),
      )
    const most = signed(names(200))
    const malformed = [names(201), names(30_000), 'host;', ';host', 'host;;x-amz-date'].map(signed)
    const lowered = t.mock.method(String.prototype, 'toLowerCase')
    assert.equal(refusalOf(most).code, 'AccessDenied')
    assert.ok(lowered.mock.callCount() <= 300, `${lowered.mock.callCount()} names`)
    lowered.mock.resetCalls()
    for (const request of malformed) {
      const refusal = refusalOf(request)
      assert.equal(refusal.code, 'AuthorizationHeaderMalformed')
      assert.match(refusal.message, /more than 200 headers are signed|name of a signed header is empty/)
    }
    assert.equal(lowered.mock.callCount(), 0)
  })

  it('with a credential of another day, service, end or form', () => {
    for (const [scope, message] of [
      [`${KEY_ID}/20130523/us-east-1/s3/aws4_request`, /Invalid credential date "20130523".*X-Amz-Date: "20130524"/],
      [`${KEY_ID}/20130524/us-east-1/ec2/aws4_request`, /incorrect service "ec2"/],
      [`${KEY_ID}/20130524/us-east-1/s3/aws5_request`, /incorrect terminal "aws5_request"/],
      [`${KEY_ID}/2013/us-east-1/s3/aws4_request`, /incorrect date format "2013"/],
      ['HAHAHA', /Credential is mal-formed/],
      ['/20130524/us-east-1/s3/aws4_request', /Credential is mal-formed/],
    ] as const) {
      const refusal = refusalOf(scoped(scope))
      assert.equal(refusal.code, 'AuthorizationHeaderMalformed')
      assert.match(refusal.message, message)
    }
  })

  it('with another kind of authorization, which is not told back', () => {
    for (const [authorization, code] of [
      ['AWS4-HMAC-SHA256 Credential=HAHAHA', 'AuthorizationHeaderMalformed'],
      ['AWS4-HMAC-SHA256 ', 'AuthorizationHeaderMalformed'],
      ['AWS4 HAHAHA', 'InvalidArgument'],
      ['Bearer very-secret-token', 'InvalidArgument'],
      ['very-secret-token', 'InvalidArgument'],
      ['AWS AKIAIGR7ZNNBHC5BKSUB:FWeDfwojDSdS2Ztmpfeubhd9isU=', 'InvalidRequest'],
    ] as const) {
      const refusal = refusalOf(withAuthorization(authorization))
      assert.equal(refusal.code, code, authorization)
      assert.equal(refusal.status, 400)
      assert.doesNotMatch(JSON.stringify(refusal.fields) + refusal.message, /secret-token|FWeDfw/)
    }
  })
})

test('a request without a signature is anonymous, also with an empty authorization header', () => {
  for (const headers of [new Map<string, string>(), new Map([['authorization', '']])]) {
    const caller = authenticate({ method: 'GET', path: '/b/k', query: 'list-type=2', headers })
    assert.deepEqual(caller, { principal: null, contentSha256: null, chunkSigning: null })
  }
})

const text = fc.string({ unit: 'grapheme', maxLength: 20 })
const headerValue = fc.string({ maxLength: 20 })

test('what any client signs is accepted, and with one header or parameter changed it is not', () => {
  const draft = fc.record({
    method: fc.constantFrom('GET', 'PUT', 'DELETE'),
    path: text.map((path) => `/${path}`),
    query: fc.array(
      fc.tuple(
        text.filter((name) => name !== ''),
        text,
      ),
      { maxLength: 5 },
    ),
    headers: fc.dictionary(
      fc.stringMatching(/^x-(amz|obj)-meta-[a-z0-9]{1,8}$/),
      headerValue.map((value) => value.trim().replaceAll(/\s+/g, ' ')),
      { maxKeys: 4 },
    ),
  })
  fc.assert(
    fc.property(draft, text, (draft: Draft, other) => {
      const request = signHeader(draft)
      assert.equal(authenticate(request).principal?.id, 'alice')
      const query = `${request.query}&added=${encodeURIComponent(other)}`
      assert.equal(refusalOf({ ...request, query }).code, 'SignatureDoesNotMatch')
      const [name] = Object.keys(draft.headers ?? {})
      if (name) assert.equal(refusalOf(withHeader(request, name, `${other}!?`)).code, 'SignatureDoesNotMatch')
    }),
    { numRuns: 100 },
  )
})

test('no header makes anything but an answer of the client or a refusal', () => {
  const names = fc.constantFrom('authorization', 'x-amz-date', 'date', 'x-amz-content-sha256', 'host', 'x-obj-date')
  const part = fc.constantFrom(
    'AWS4-HMAC-SHA256',
    'AWS',
    ' ',
    ',',
    '=',
    '/',
    ';',
    'Credential',
    'Signature',
    'SignedHeaders',
    KEY_ID,
  )
  const value = fc.oneof(
    fc.string({ unit: codePoint, maxLength: 60 }),
    fc.array(part, { maxLength: 20 }).map((parts) => parts.join('')),
    fc.constantFrom(signHeader({}).headers.get('authorization')!, TIMESTAMP, EMPTY_SHA256),
  )
  const query = fc.oneof(
    fc.string({ maxLength: 40 }),
    fc.string({ maxLength: 9 }).map((v) => `X-Amz-Credential=${v}`),
  )
  fc.assert(
    fc.property(fc.array(fc.tuple(names, value)), fc.string(), query, (headers, path, query) => {
      try {
        authenticate({ method: 'GET', path, query, headers: new Map(headers) })
      } catch (error) {
        assert.ok(error instanceof S3Error)
        assert.ok(error.status >= 400 && error.status < 500)
      }
    }),
    { numRuns: 300 },
  )
})
