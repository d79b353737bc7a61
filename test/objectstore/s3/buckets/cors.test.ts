/** CORS: the document, preflights, and the headers of actual answers. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { CorsRules, preflightHeaders } from '../../../../src/objectstore/s3/buckets/cors-answers.ts'
import type { CorsRequest } from '../../../../src/objectstore/s3/buckets/cors-answers.ts'
import {
  checkStorableRules,
  readCorsConfiguration,
  renderCorsConfiguration,
} from '../../../../src/objectstore/s3/buckets/cors-document.ts'
import type { CorsRule } from '../../../../src/objectstore/s3/buckets/cors-document.ts'
import { CORS_BODY_BYTES_MAX } from '../../../../src/objectstore/s3/document-limits.ts'
import { assertRefuses, bytes, xmlText } from '../../../support/documents.ts'

const RULE: CorsRule = {
  id: null,
  allowedOrigins: ['https://app.example'],
  allowedMethods: ['GET', 'PUT'],
  allowedHeaders: [],
  exposeHeaders: [],
  maxAgeSeconds: null,
}

describe('a CORS configuration', () => {
  const read = (rules: string) => readCorsConfiguration(bytes(`<CORSConfiguration>${rules}</CORSConfiguration>`))
  const rule = (more: string, methods = '<AllowedMethod>GET</AllowedMethod>') =>
    `<CORSRule><AllowedOrigin>*</AllowedOrigin>${methods}${more}</CORSRule>`

  it('has rules in their order', () => {
    const full = `<CORSRule><ID>first</ID><AllowedOrigin>https://*.example</AllowedOrigin><AllowedOrigin>http://b</AllowedOrigin>
      <AllowedMethod>PUT</AllowedMethod><AllowedMethod>POST</AllowedMethod><AllowedMethod>DELETE</AllowedMethod><AllowedMethod>HEAD</AllowedMethod>
      <AllowedHeader>x-amz-*</AllowedHeader><ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>3000</MaxAgeSeconds></CORSRule>`
    assert.deepEqual(read(full + rule('')), [
      {
        id: 'first',
        allowedOrigins: ['https://*.example', 'http://b'],
        allowedMethods: ['PUT', 'POST', 'DELETE', 'HEAD'],
        allowedHeaders: ['x-amz-*'],
        exposeHeaders: ['ETag'],
        maxAgeSeconds: 3000,
      },
      { ...RULE, allowedOrigins: ['*'], allowedMethods: ['GET'] },
    ])
  })

  it('has 1 to 100 rules in 64 KiB', () => {
    assert.equal(read(rule('').repeat(100)).length, 100)
    assertRefuses(() => read(rule('').repeat(101)), 'MalformedXML')
    assertRefuses(() => read(''), 'MalformedXML')
    assertRefuses(() => readCorsConfiguration(Buffer.alloc(CORS_BODY_BYTES_MAX + 1)), 'EntityTooLarge')
  })

  it('needs an origin and a method in each rule', () => {
    assertRefuses(() => read('<CORSRule><AllowedMethod>GET</AllowedMethod></CORSRule>'), 'MalformedXML')
    assertRefuses(() => read('<CORSRule><AllowedOrigin>*</AllowedOrigin></CORSRule>'), 'MalformedXML')
    assertRefuses(() => read(rule('<MaxAge>1</MaxAge>')), 'MalformedXML')
    assertRefuses(() => read(rule('<MaxAgeSeconds>-1</MaxAgeSeconds>')), 'MalformedXML')
    assertRefuses(() => read(rule('<MaxAgeSeconds>soon</MaxAgeSeconds>')), 'MalformedXML')
  })

  it('knows the methods of S3 only', () => {
    const message = 'Found unsupported HTTP method in CORS config. Unsupported method is PATCH'
    assertRefuses(() => read(rule('', '<AllowedMethod>PATCH</AllowedMethod>')), 'InvalidRequest', { message })
    assertRefuses(() => read(rule('', '<AllowedMethod>get</AllowedMethod>')), 'InvalidRequest')
  })

  it('has one wildcard at most in an origin and a header, none in an exposed one', () => {
    const message = 'AllowedOrigin "http://*.a.*" can not have more than one wildcard.'
    assertRefuses(() => read(rule('<AllowedOrigin>http://*.a.*</AllowedOrigin>')), 'InvalidRequest', { message })
    assertRefuses(() => read(rule('<AllowedHeader>*a*</AllowedHeader>')), 'InvalidRequest', {
      message: 'AllowedHeader "*a*" can not have more than one wildcard.',
    })
    assertRefuses(() => read(rule('<ExposeHeader>x-*</ExposeHeader>')), 'InvalidRequest')
  })

  it('is stored with IDs of at most 255 characters, and read with longer ones', () => {
    const withId = (length: number) => read(rule(`<ID>${'ä'.repeat(length)}</ID>`))
    checkStorableRules([...withId(255), ...read(rule(''))])
    assertRefuses(() => checkStorableRules(withId(256)), 'InvalidRequest')
  })

  it('never lets a header into an answer that would end it', () => {
    for (const name of ['a b', 'a&#13;&#10;Set-Cookie: x', 'a:b', '']) {
      assertRefuses(() => read(rule(`<ExposeHeader>${name}</ExposeHeader>`)), 'InvalidRequest')
      assertRefuses(() => read(rule(`<AllowedHeader>${name}</AllowedHeader>`)), 'InvalidRequest')
    }
  })

  it('is given back as it was', () => {
    const header = fc.constantFrom('x-amz-*', 'ETag', 'Content-Type')
    const exposed = fc.constantFrom('ETag', 'x-amz-request-id')
    const rules = fc
      .tuple(
        fc.option(xmlText),
        fc.array(
          xmlText.filter((text) => text.indexOf('*') === text.lastIndexOf('*')),
          { minLength: 1, maxLength: 3 },
        ),
        fc.array(fc.constantFrom('GET', 'PUT', 'POST', 'DELETE', 'HEAD'), { minLength: 1, maxLength: 5 }),
        fc.array(header, { maxLength: 2 }),
        fc.array(exposed, { maxLength: 2 }),
        fc.option(fc.nat({ max: 999_999_999 })),
      )
      .map(([id, allowedOrigins, allowedMethods, allowedHeaders, exposeHeaders, maxAgeSeconds]) => {
        return { id, allowedOrigins, allowedMethods, allowedHeaders, exposeHeaders, maxAgeSeconds }
      })
    fc.assert(
      fc.property(fc.array(rules, { minLength: 1, maxLength: 4 }), (rules) => {
        assert.deepEqual(readCorsConfiguration(bytes(renderCorsConfiguration(rules))), rules)
      }),
    )
  })
})

const VARY = ['Vary', 'Origin, Access-Control-Request-Headers, Access-Control-Request-Method']
const APP = 'https://app.example'

const request = (about: Partial<CorsRequest>): CorsRequest => ({
  origin: APP,
  method: 'OPTIONS',
  requestedMethod: null,
  requestedHeaders: null,
  ...about,
})

describe('a preflight', () => {
  const ask = (rules: readonly CorsRule[], about: Partial<CorsRequest>) =>
    preflightHeaders(new CorsRules(rules), request({ requestedMethod: 'PUT', ...about }))

  it('is answered with what the rule allows', () => {
    const rule = {
      ...RULE,
      allowedHeaders: ['X-Amz-*', 'Content-Type'],
      exposeHeaders: ['ETag', 'x'],
      maxAgeSeconds: 3000,
    }
    assert.deepEqual(ask([rule], { requestedHeaders: 'content-type, X-Amz-Date,,x-amz-acl' }), [
      ['Access-Control-Allow-Origin', APP],
      ['Access-Control-Allow-Methods', 'GET, PUT'],
      ['Access-Control-Allow-Headers', 'content-type, x-amz-date, x-amz-acl'],
      ['Access-Control-Expose-Headers', 'ETag, x'],
      ['Access-Control-Max-Age', '3000'],
      ['Access-Control-Allow-Credentials', 'true'],
      VARY,
    ])
  })

  it('allows any origin without credentials', () => {
    const expected = [['Access-Control-Allow-Origin', '*'], ['Access-Control-Allow-Methods', 'GET, PUT'], VARY]
    assert.deepEqual(ask([{ ...RULE, allowedOrigins: ['*'] }], {}), expected)
    assert.deepEqual(ask([{ ...RULE, allowedOrigins: ['http://other', '*'] }], {}), expected)
  })

  it('echoes an origin that a pattern allows', () => {
    const rules = [{ ...RULE, allowedOrigins: ['https://*.example'] }]
    assert.deepEqual(ask(rules, {})[0], ['Access-Control-Allow-Origin', APP])
    assertRefuses(() => ask(rules, { origin: 'https://app.example.evil' }), 'AccessDenied')
  })

  it('takes no other sign than a star for a wildcard, and a text once', () => {
    const rules = [
      { ...RULE, allowedOrigins: ['https://ap?.example', 'https://a.b*b.c'], allowedHeaders: ['x-?', 'a-*-a'] },
    ]
    const allowed = { requestedHeaders: 'x-?, a--a, A-b-A', origin: 'https://a.bb.c' }
    assert.deepEqual(ask(rules, allowed)[0], ['Access-Control-Allow-Origin', 'https://a.bb.c'])
    assert.deepEqual(ask(rules, { origin: 'https://ap?.example' })[0]?.[1], 'https://ap?.example')
    for (const about of [{}, { origin: 'https://a.b.c' }, { ...allowed, requestedHeaders: 'x-a' }]) {
      assertRefuses(() => ask(rules, about), 'AccessDenied')
    }
    assertRefuses(() => ask(rules, { ...allowed, requestedHeaders: 'a-a' }), 'AccessDenied')
  })

  it('is decided by the first rule that allows everything', () => {
    const rules = [
      { ...RULE, allowedMethods: ['GET'], maxAgeSeconds: 1 },
      { ...RULE, allowedHeaders: ['x-a'], maxAgeSeconds: 2 },
      { ...RULE, allowedHeaders: ['x-a', 'x-b'], maxAgeSeconds: 3 },
    ]
    const maxAge = (about: Partial<CorsRequest>) => new Map(ask(rules, about)).get('Access-Control-Max-Age')
    assert.equal(maxAge({ requestedMethod: 'GET' }), '1')
    assert.equal(maxAge({}), '2')
    assert.equal(maxAge({ requestedHeaders: 'x-b' }), '3')
  })

  it('is refused for an origin, a method or a header that no rule allows', () => {
    const fields = { Method: 'PUT', ResourceType: 'OBJECT' }
    const message = /^CORSResponse: This CORS request is not allowed\./
    assertRefuses(() => ask([RULE], { origin: 'https://other' }), 'AccessDenied', { message, fields })
    assertRefuses(() => ask([RULE], { requestedHeaders: 'x-a' }), 'AccessDenied', { message, fields })
    assertRefuses(() => ask([RULE], { requestedMethod: 'DELETE' }), 'AccessDenied', {
      fields: { Method: 'DELETE', ResourceType: 'OBJECT' },
    })
  })

  it('is refused without rules, and a bad request without an origin or a method', () => {
    assertRefuses(() => preflightHeaders(null, request({ requestedMethod: 'GET' })), 'AccessDenied', {
      message: 'CORSResponse: CORS is not enabled for this bucket.',
      fields: { Method: 'GET', ResourceType: 'BUCKET' },
    })
    for (const rules of [null, new CorsRules([RULE])]) {
      assertRefuses(() => preflightHeaders(rules, request({ origin: null })), 'BadRequest', {
        message: 'Insufficient information. Origin request header needed.',
      })
      for (const requestedMethod of [null, '']) {
        assertRefuses(() => preflightHeaders(rules, request({ requestedMethod })), 'BadRequest', {
          message: 'Invalid Access-Control-Request-Method: null',
        })
      }
    }
  })

  it('is refused when it names more headers than a request can have', () => {
    const rule = { ...RULE, allowedHeaders: ['*'] }
    assert.equal(ask([rule], { requestedHeaders: 'x,'.repeat(100) }).length, 5)
    assertRefuses(() => ask([rule], { requestedHeaders: 'x,'.repeat(101) }), 'AccessDenied')
  })
})

describe('an actual request', () => {
  const ask = (about: Partial<CorsRequest>) => new CorsRules([RULE]).headersFor(request({ method: 'GET', ...about }))

  it('gets the headers of the rule that allows it', () => {
    assert.deepEqual(ask({}), [
      ['Access-Control-Allow-Origin', APP],
      ['Access-Control-Allow-Methods', 'GET, PUT'],
      ['Access-Control-Allow-Credentials', 'true'],
      VARY,
    ])
  })

  it('goes on without them when no rule allows it, or it is not from another origin', () => {
    assert.deepEqual(ask({ method: 'DELETE' }), [])
    assert.deepEqual(ask({ origin: 'https://other' }), [])
    assert.deepEqual(ask({ origin: null }), [])
    assert.deepEqual(ask({ requestedHeaders: 'x-a' }), [])
  })

  it('is judged by the method it names, as a preflight is', () => {
    assert.deepEqual(ask({ requestedMethod: 'DELETE' }), [])
    assert.equal(ask({ method: 'DELETE', requestedMethod: 'PUT' }).length, 4)
  })
})
