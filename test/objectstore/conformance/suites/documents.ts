/** Bucket CORS, bucket policy and tag documents: what they do, and which are refused. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { store } from './shared-store.ts'

const bucket = await store.newBucket()
await bucket.put('key', 'content')

const putCors = (rules: string) =>
  bucket.ask('PUT', '?cors', { body: `<CORSConfiguration>${rules}</CORSConfiguration>` })
const preflight = (origin: string, method: string, requested?: string) =>
  bucket.ask('OPTIONS', '/key', {
    headers: {
      origin,
      'access-control-request-method': method,
      ...(requested !== undefined && { 'access-control-request-headers': requested }),
    },
  })
const RULE =
  '<CORSRule><ID>one</ID><AllowedOrigin>https://*.example</AllowedOrigin><AllowedMethod>GET</AllowedMethod><AllowedMethod>PUT</AllowedMethod>' +
  '<AllowedHeader>X-Test-*</AllowedHeader><ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>60</MaxAgeSeconds></CORSRule>'
const ANY = '<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>HEAD</AllowedMethod></CORSRule>'

describe('CORS', () => {
  it('a preflight that a rule allows: 200 with what is allowed', async () => {
    ;(await putCors(RULE + ANY)).succeeded(200)
    const reply = (await preflight('https://a.example', 'PUT', 'X-Test-One, x-test-two')).succeeded(200)
    const names = ['origin', 'methods', 'headers', 'credentials'].map((name) => `access-control-allow-${name}`)
    assert.deepEqual(
      names.map((name) => reply.header(name)),
      ['https://a.example', 'GET, PUT', 'x-test-one, x-test-two', 'true'],
    )
    assert.deepEqual(
      ['access-control-max-age', 'access-control-expose-headers', 'vary'].map((name) => reply.header(name)),
      ['60', 'ETag', 'Origin, Access-Control-Request-Headers, Access-Control-Request-Method'],
    )
  })
  it('an origin that any rule for all allows is told *, without credentials', async () => {
    const reply = (await preflight('https://other', 'HEAD')).succeeded(200)
    assert.equal(reply.header('access-control-allow-origin'), '*')
    assert.equal(reply.header('access-control-allow-credentials'), null)
  })
  it('a preflight that none allows: AccessDenied; without Origin or method: BadRequest', async () => {
    ;(await preflight('https://evil', 'PUT')).refused('AccessDenied')
    ;(await preflight('https://a.example', 'DELETE')).refused('AccessDenied')
    ;(await preflight('https://a.example', 'GET', 'x-other')).refused('AccessDenied')
    ;(await bucket.ask('OPTIONS', '/key')).refused('BadRequest')
    ;(await bucket.ask('OPTIONS', '/key', { headers: { origin: 'https://a.example' } })).refused('BadRequest')
    const headers = { origin: 'https://a', 'access-control-request-method': 'GET' }
    ;(await store.request('OPTIONS', '/absent-bucket/key', { headers })).refused('AccessDenied')
  })
  it('an actual request has the headers, on errors too, and is never refused', async () => {
    for (const [rest, status] of [
      ['/key', 200],
      ['/absent', 404],
    ] as const) {
      const allowed = await bucket.ask('GET', rest, { headers: { origin: 'https://a.example' } })
      assert.deepEqual([allowed.status, allowed.header('access-control-allow-origin')], [status, 'https://a.example'])
      const other = await bucket.ask('GET', rest, { headers: { origin: 'https://evil' } })
      assert.deepEqual([other.status, other.header('access-control-allow-origin')], [status, null])
    }
  })
  it('documents: methods and wildcards that are none are InvalidRequest, others MalformedXML', async () => {
    const rule = (origin: string, method: string, more = '') =>
      `<CORSRule><AllowedOrigin>${origin}</AllowedOrigin><AllowedMethod>${method}</AllowedMethod>${more}</CORSRule>`
    for (const rules of [rule('*', 'PATCH'), rule('*.*', 'GET'), rule('*', 'GET', '<ExposeHeader>*</ExposeHeader>')]) {
      ;(await putCors(rules)).refused('InvalidRequest')
    }
    for (const rules of [
      '',
      '<CORSRule/>',
      rule('*', 'GET', '<Other/>'),
      rule('*', 'GET', '<MaxAgeSeconds>x</MaxAgeSeconds>'),
    ]) {
      ;(await putCors(rules)).refused('MalformedXML')
    }
  })
})

describe('bucket policy', () => {
  const put = (policy: unknown) =>
    bucket.ask('PUT', '?policy', { body: typeof policy === 'string' ? policy : JSON.stringify(policy) })
  const statement = {
    Effect: 'Allow',
    Principal: '*',
    Action: 's3:GetObject',
    Resource: `arn:aws:s3:::${bucket.name}/*`,
  }
  it('documents that say nothing possible are MalformedPolicy', async () => {
    for (const policy of [
      '',
      'nonsense',
      '[]',
      ' {}',
      {},
      { Version: '2020-01-01', Statement: [statement] },
      { Statement: [] },
      { Statement: [{ ...statement, Effect: 'Perhaps' }] },
      { Statement: [{ ...statement, Action: 'GetObject' }] },
      { Statement: [{ ...statement, Resource: 'arn:aws:s3:::other-bucket/*' }] },
      { Statement: [{ ...statement, Resource: `arn:aws:s3:::${bucket.name}` }] },
      { Statement: [{ ...statement, NotPrincipal: '*', Principal: undefined }] },
      { Statement: [{ ...statement, Condition: { Nonsense: { 's3:prefix': 'a' } } }] },
      { Statement: [{ ...statement, Other: 1 }] },
    ]) {
      ;(await put(policy)).refused('MalformedPolicy')
    }
    ;(await bucket.ask('GET', '?policy')).refused('NoSuchBucketPolicy')
  })
  it('Deny wins over Allow and over the owner, who can always see and remove the policy', async () => {
    const deny = {
      ...statement,
      Effect: 'Deny',
      Action: 's3:*',
      Resource: [`arn:aws:s3:::${bucket.name}`, `arn:aws:s3:::${bucket.name}/*`],
    }
    ;(await put({ Statement: [statement, deny] })).succeeded(204)
    ;(await bucket.ask('GET', '/key')).refused('AccessDenied')
    ;(await bucket.ask('GET', '?list-type=2')).refused('AccessDenied')
    ;(await bucket.ask('GET', '?policy')).succeeded(200)
    ;(await bucket.ask('DELETE', '?policy')).succeeded(204)
    ;(await bucket.ask('GET', '/key')).succeeded(200)
  })
})

describe('tags', () => {
  const put = (body: string) => bucket.ask('PUT', '/key?tagging', { body })
  it('come back sorted by key, from header and document', async () => {
    await bucket.put('tagged', '', { 'x-obj-tagging': 'b=2&a=1&c%20d=%C3%A9' })
    const tags = (await bucket.ask('GET', '/tagged?tagging')).document('Tagging')
    assert.deepEqual(tags.texts('TagSet/Tag/Key'), ['a', 'b', 'c d'])
    assert.deepEqual(tags.texts('TagSet/Tag/Value'), ['1', '2', 'é'])
  })
  it('twice the same key, the prefix aws: and characters outside of the set are InvalidTag', async () => {
    const tag = (key: string, value = '') => `<Tag><Key>${key}</Key><Value>${value}</Value></Tag>`
    for (const tags of [tag('a') + tag('a'), tag('aws:a'), tag('a;b'), tag('a', '&lt;')]) {
      ;(await put(`<Tagging><TagSet>${tags}</TagSet></Tagging>`)).refused('InvalidTag')
    }
    for (const header of ['a=1&a=2', 'aws:a=1', 'a%3Bb=1']) {
      ;(await bucket.ask('PUT', '/tagged', { body: '', headers: { 'x-obj-tagging': header } })).refused('InvalidTag')
    }
  })
  it('a document that is none is MalformedXML', async () => {
    for (const body of [
      '',
      '<Tagging/>',
      '<TagSet/>',
      '<Tagging><TagSet><Tag><Key>a</Key></Tag></TagSet></Tagging>',
      '<Tagging><TagSet></Tagging>',
    ]) {
      ;(await put(body)).refused('MalformedXML')
    }
  })
})

describe('CreateBucket documents', () => {
  const create = (name: string, region: string) =>
    store.request('PUT', `/${name}`, {
      body: `<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><LocationConstraint>${region}</LocationConstraint></CreateBucketConfiguration>`,
    })
  it('the region must be ours', async () => {
    ;(await create('region-bucket', 'us-east-1')).succeeded(200)
    ;(await create('region-other', 'eu-central-1')).refused('IllegalLocationConstraintException')
    ;(await create('region-other', 'nowhere')).refused('InvalidLocationConstraint')
    ;(await store.request('PUT', '/region-other', { body: 'nonsense' })).refused('MalformedXML')
  })
})
