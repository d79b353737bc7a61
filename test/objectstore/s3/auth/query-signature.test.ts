import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import { signedAuthenticator } from '../../../../src/objectstore/s3/auth/authenticator.ts'
import type { SignedRequest } from '../../../../src/objectstore/s3/auth/canonical-request.ts'
import { parseCredentials } from '../../../../src/objectstore/s3/auth/credentials.ts'
import { S3Error } from '../../../../src/objectstore/refusals.ts'
import { KEY_ID, NOW_MS, presign, REGION, SECRET, signHeader } from '../../../support/signer.ts'
import { refusalOf as refusalOfCall } from '../../../support/documents.ts'
import { codePoint } from '../../../support/code-point.ts'

const credentials = parseCredentials(
  JSON.stringify({
    keys: [{ access_key_id: KEY_ID, secret_access_key: SECRET, principal: 'alice', permissions: ['read'] }],
  }),
)
const authenticator = signedAuthenticator({ credentials, region: REGION })
const authenticate = (request: SignedRequest, nowMs = NOW_MS) => authenticator.authenticate(request, nowMs)

const refusalOf = (request: SignedRequest, nowMs = NOW_MS): S3Error => refusalOfCall(() => authenticate(request, nowMs))

const edited = (request: SignedRequest, from: RegExp, to: string): SignedRequest => {
  const query = request.query.replace(from, to)
  assert.notEqual(query, request.query)
  return { ...request, query }
}

const DAY_MS = 86_400_000

describe('a pre-signed URL', () => {
  it('of the S3 documentation is of its key’s principal', () => {
    const request = {
      method: 'GET',
      path: '/test.txt',
      query:
        'X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request' +
        '&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host' +
        '&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404',
      headers: new Map([['host', 'examplebucket.s3.amazonaws.com']]),
    }
    const caller = authenticate(request)
    assert.equal(caller.principal?.id, 'alice')
    assert.equal(caller.contentSha256, 'UNSIGNED-PAYLOAD')
  })

  it('holds from its date, with 15 minutes for clocks that are late, until it expires', () => {
    const request = presign({ expires: '3600' })
    for (const nowMs of [NOW_MS, NOW_MS - 15 * 60_000, NOW_MS + 3_600_000]) authenticate(request, nowMs)

    const early = refusalOf(request, NOW_MS - 15 * 60_000 - 1)
    assert.equal(early.code, 'AccessDenied')
    assert.equal(early.message, 'Request is not valid yet')

    const late = refusalOf(request, NOW_MS + 3_600_001)
    assert.equal(late.code, 'AccessDenied')
    assert.equal(late.message, 'Request has expired')
    assert.deepEqual(late.fields, {
      'X-Amz-Expires': 3600,
      Expires: '2013-05-24T01:00:00Z',
      ServerTime: '2013-05-24T01:00:00Z',
    })
  })

  it('may hold for 1 second to a week', () => {
    for (const expires of ['1', '604800']) assert.equal(authenticate(presign({ expires })).principal?.id, 'alice')
    assert.equal(authenticate(presign({ expires: '604800' }), NOW_MS + 7 * DAY_MS).principal?.id, 'alice')
    for (const [expires, message] of [
      ['0', /at least 1/],
      ['-1', /non-negative/],
      ['604801', /less than a week/],
      ['abc', /should be a number/],
      ['1.5', /should be a number/],
      ['99999999999999999999', /should be a number/],
    ] as const) {
      const refusal = refusalOf(presign({ expires }))
      assert.equal(refusal.code, 'AuthorizationQueryParametersError', expires)
      assert.equal(refusal.status, 400)
      assert.match(refusal.message, message)
    }
  })

  it('may be of any parameters, in any order, and with headers that are signed', () => {
    const request = presign({
      path: '/a b+c/ü',
      query: [
        ['response-content-type', 'text/plain; charset=utf-8'],
        ['a', ''],
        ['a-b', '2'],
        ['a', '1'],
      ],
      headers: { 'x-amz-meta-a': 'b', 'content-type': 'text/plain' },
    })
    const reversed = { ...request, query: request.query.split('&').reverse().join('&') }
    for (const each of [request, reversed]) assert.equal(authenticate(each).principal?.id, 'alice')
  })

  it('may say the hash of its body in the query', () => {
    const hash = 'a'.repeat(64)
    const request = presign({ payloadHash: hash, query: [['X-Amz-Content-Sha256', hash]] })
    assert.equal(authenticate(request).contentSha256, hash)
  })

  it('is refused when anything of it is changed', () => {
    const request = presign({ query: [['partNumber', '1']] })
    for (const changed of [
      { ...request, method: 'PUT' },
      { ...request, path: '/other' },
      edited(request, /partNumber=1/, 'partNumber=2'),
      edited(request, /Expires=86400/, 'Expires=86401'),
      edited(request, /$/, '&versionId=1'),
      { ...request, headers: new Map([['host', 'other']]) },
    ]) {
      assert.equal(refusalOf(changed).code, 'SignatureDoesNotMatch')
    }
  })

  it('is refused with headers of S3 that are not signed', () => {
    const request = presign({})
    const headers = new Map([...request.headers, ['x-amz-copy-source', '/b/k']])
    assert.deepEqual(refusalOf({ ...request, headers }).fields, { HeadersNotSigned: 'x-amz-copy-source' })
  })

  it('is refused when a parameter is missing, empty or not valid', () => {
    const request = presign({})
    for (const name of ['Algorithm', 'Credential', 'Date', 'Expires', 'SignedHeaders', 'Signature']) {
      const parameter = new RegExp(`&?X-Amz-${name}=[^&]*`)
      for (const to of ['', `&X-Amz-${name}=`]) {
        const refusal = refusalOf(edited(request, parameter, to))
        assert.equal(refusal.code, 'AuthorizationQueryParametersError')
        assert.match(refusal.message, /requires the X-Amz-Algorithm/)
      }
    }
    for (const [from, to, message] of [
      [/AWS4-HMAC-SHA256/, 'AWS4-ECDSA-P256-SHA256', /only supports "AWS4-HMAC-SHA256"/],
      [
        /Credential=[^&]*/,
        'Credential=A',
        /Error parsing the X-Amz-Credential parameter; the Credential is mal-formed/,
      ],
      [/Credential=[^&]*/, 'Credential=%zz', /percent-encoding/],
      [/SignedHeaders=[^&]*/, `SignedHeaders=host${';a'.repeat(200)}`, /more than 200 headers are signed/],
      [/SignedHeaders=[^&]*/, 'SignedHeaders=host%3B', /name of a signed header is empty/],
      [/%2Fs3%2F/, '%2Fiam%2F', /incorrect service "iam"/],
      [/Date=20130524/, 'Date=20130525', /Invalid credential date "20130524"/],
      [/Date=20130524T/, 'Date=20130524', /ISO8601 Long Format/],
    ] as const) {
      const refusal = refusalOf(edited(request, from, to))
      assert.equal(refusal.code, 'AuthorizationQueryParametersError')
      assert.match(refusal.message, message)
    }
  })

  it('is refused for another region, with the right one, and for an unknown key', () => {
    const refusal = refusalOf(presign({ region: 'eu-west-1' }))
    assert.equal(refusal.code, 'AuthorizationQueryParametersError')
    assert.deepEqual(refusal.fields, { Region: 'us-east-1' })
    assert.equal(refusalOf(presign({ keyId: 'AKIANOBODY' })).code, 'InvalidAccessKeyId')
  })

  it('is refused beside another signature: in a header, or of version 2', () => {
    const request = presign({})
    const authorization = signHeader({}).headers.get('authorization')!
    const both = refusalOf({ ...request, headers: new Map([...request.headers, ['authorization', authorization]]) })
    assert.equal(both.code, 'InvalidArgument')
    assert.match(both.message, /Only one auth mechanism allowed/)

    const query = `${request.query}&AWSAccessKeyId=A&Expires=1175139620&Signature=NpgCjnDzrM%2BWFzoENXmpNDUsSn8%3D`
    assert.equal(refusalOf({ ...request, query }).code, 'InvalidArgument')
  })
})

test('a URL that any client pre-signs is accepted until it expires, and not after', () => {
  const text = fc.string({ unit: 'grapheme', maxLength: 20 })
  const query = fc.array(
    fc.tuple(
      text.filter((name) => name !== ''),
      text,
    ),
    { maxLength: 5 },
  )
  fc.assert(
    fc.property(text, query, fc.integer({ min: 1, max: 604_800 }), (path, query, seconds) => {
      const request = presign({ path: `/${path}`, query, expires: String(seconds) })
      assert.equal(authenticate(request, NOW_MS + seconds * 1000).principal?.id, 'alice')
      assert.equal(refusalOf(request, NOW_MS + seconds * 1000 + 1).message, 'Request has expired')
    }),
    { numRuns: 100 },
  )
})

test('a URL that was used before is judged like one that was not, whatever else is changed in the request', () => {
  const used = presign({ path: '/a', query: [['a', 'b']], headers: { 'x-amz-meta-a': '1' }, expires: '3600' })
  const other = presign({ path: '/b', expires: '3600' })
  const headers = [...used.headers]
  const requests: readonly SignedRequest[] = [
    used,
    { ...used, headers: new Map([...headers, ['accept', '*/*']]) },
    { ...used, method: 'PUT' },
    { ...used, path: '/b' },
    { ...used, path: '/%61' },
    edited(used, /^a=b/, 'a=c'),
    edited(used, /&X-Amz-Signature=/, '&c=d&X-Amz-Signature='),
    edited(used, /Signature=.*/, `Signature=${'0'.repeat(64)}`),
    { ...used, headers: new Map([...headers, ['x-amz-acl', 'public-read']]) },
    { ...used, headers: new Map([...headers, ['x-amz-content-sha256', 'UNSIGNED-PAYLOAD']]) },
    { ...used, headers: new Map(headers.filter(([name]) => name !== 'x-amz-meta-a')) },
    ...headers.map(([name]) => ({ ...used, headers: new Map([...headers, [name, 'other']]) })),
    { ...other, query: used.query },
    other,
  ]
  const outcomeOf = (request: SignedRequest, nowMs: number, asked: typeof authenticator): unknown => {
    try {
      return asked.authenticate(request, nowMs)
    } catch (error) {
      assert.ok(error instanceof S3Error, String(error))
      return [error.code, error.message, error.fields]
    }
  }
  const times = [NOW_MS, NOW_MS - 15 * 60_000 - 1, NOW_MS + 3_600_000, NOW_MS + 3_600_001]
  for (const request of requests) {
    for (const nowMs of times) {
      const fresh = (): typeof authenticator => signedAuthenticator({ credentials, region: REGION })
      const warm = fresh()
      warm.authenticate(used, NOW_MS)
      assert.deepEqual(outcomeOf(request, nowMs, warm), outcomeOf(request, nowMs, fresh()))
    }
  }
  assert.ok(Array.isArray(outcomeOf({ ...used, method: 'PUT' }, NOW_MS, authenticator)))
})

test('no query makes anything but an answer of the client or a refusal', () => {
  const [, ...pairs] = presign({}).query.split('&')
  const name = fc.constantFrom('X-Amz-Algorithm', 'X-Amz-Credential', 'X-Amz-Date', 'X-Amz-Expires', 'X-Amz-Signature')
  const pair = fc.oneof(
    fc.constantFrom(...pairs),
    fc.tuple(name, fc.string({ unit: codePoint, maxLength: 30 })).map(([name, value]) => `${name}=${value}`),
    fc.string({ maxLength: 10 }),
  )
  fc.assert(
    fc.property(fc.array(pair, { maxLength: 9 }), (pairs) => {
      try {
        authenticate({ method: 'GET', path: '/', query: pairs.join('&'), headers: new Map([['host', 'h']]) })
      } catch (error) {
        assert.ok(error instanceof S3Error)
        assert.ok(error.status >= 400 && error.status < 500)
      }
    }),
    { numRuns: 300 },
  )
})
