/** Specification "States and transitions", and the contract's lines about buckets and principals. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { store } from './shared-store.ts'

const PREFLIGHT = { origin: 'https://a.example', 'access-control-request-method': 'GET' }

describe('states', () => {
  it('object current, DeleteObject: hidden by a delete marker, reads of the key then give NoSuchKey', async () => {
    const bucket = await store.newBucket()
    await bucket.put('key', 'content')
    const reply = await bucket.ask('DELETE', '/key')
    assert.deepEqual([reply.status, reply.header('x-obj-delete-marker')], [204, 'true'])
    ;(await bucket.ask('GET', '/key')).refused('NoSuchKey')
    assert.deepEqual(await bucket.keys(), [])
    await bucket.put('key', 'again')
    assert.equal(await bucket.read('key'), 'again')
  })
  it('DeleteObject of a missing key: 204', async () => {
    const bucket = await store.newBucket()
    for (const key of ['never', 'never']) (await bucket.ask('DELETE', `/${key}`)).succeeded(204)
  })
  it('bucket without visible objects, DeleteBucket: removed; with them BucketNotEmpty', async () => {
    const bucket = await store.newBucket()
    await bucket.put('key')
    ;(await bucket.ask('DELETE', '')).refused('BucketNotEmpty')
    await bucket.ask('DELETE', '/key')
    ;(await bucket.ask('DELETE', '')).succeeded(204)
    ;(await bucket.ask('GET', '/key')).refused('NoSuchBucket')
    ;(await bucket.ask('DELETE', '')).refused('NoSuchBucket')
  })
  it('a bucket that is made again has nothing of the former one', async () => {
    const bucket = await store.newBucket()
    const upload = await bucket.newUpload('key')
    await bucket.put('key', 'old')
    const policy = { Effect: 'Deny', Principal: '*', Action: 's3:PutObject', Resource: `arn:aws:s3:::${bucket.name}/*` }
    await bucket.ask('PUT', '?policy', { body: JSON.stringify({ Statement: [policy] }) })
    await bucket.ask('DELETE', '/key')
    ;(await bucket.ask('DELETE', '')).succeeded(204)
    ;(await bucket.ask('PUT', '')).succeeded(200)
    ;(await bucket.ask('GET', '?policy')).refused('NoSuchBucketPolicy')
    ;(await upload.ask('GET')).refused('NoSuchUpload')
    await bucket.put('key', 'new')
  })
  it('multipart uploads never block DeleteBucket', async () => {
    const bucket = await store.newBucket()
    const upload = await bucket.newUpload('key')
    await upload.part(1, 'part')
    ;(await bucket.ask('DELETE', '')).succeeded(204)
  })
})

describe('a bucket of another principal', () => {
  const owner = { 'x-obj-principal': 'owner' }
  const guest = { 'x-obj-principal': 'guest' }
  const name = 'owned-bucket'
  const ask = (method: string, rest: string, headers: object, body = '') =>
    store.request(method, `/${name}${rest}`, { headers: { ...headers }, body })
  const allow = (Action: string | string[], Resource: string, more: object = {}) =>
    ask(
      'PUT',
      '?policy',
      owner,
      JSON.stringify({ Statement: [{ Effect: 'Allow', Principal: '*', Action, Resource, ...more }] }),
    )

  it('is not there, and its name is taken: bucket names are one namespace', async () => {
    ;(await ask('PUT', '', owner)).succeeded(200)
    ;(await ask('PUT', '/public/key', owner, 'content')).succeeded(200)
    ;(await ask('GET', '/public/key', guest)).refused('NoSuchBucket')
    ;(await ask('PUT', '', guest)).refused('BucketAlreadyExists')
    const listed = (await store.request('GET', '/', { headers: guest })).document('ListAllMyBucketsResult')
    assert.deepEqual(listed.texts('Buckets/Bucket/Name'), [])
  })
  it('is there for the action that its policy allows, and for no other', async () => {
    ;(await allow('s3:GetObject', `arn:aws:s3:::${name}/public/*`)).succeeded(204)
    assert.equal((await ask('GET', '/public/key', guest)).succeeded(200).text, 'content')
    ;(await ask('GET', '/private', guest)).refused('NoSuchBucket')
    ;(await ask('PUT', '/public/key', guest, 'other')).refused('NoSuchBucket')
    ;(await ask('GET', '?list-type=2', guest)).refused('NoSuchBucket')
    ;(await ask('GET', '?policy', guest)).refused('NoSuchBucket')
  })
  it('a key that is absent is AccessDenied for who may not list it, NoSuchKey for who may', async () => {
    ;(await ask('GET', '/public/absent', guest)).refused('AccessDenied')
    ;(await allow(['s3:GetObject', 's3:ListBucket'], `arn:aws:s3:::${name}*`)).succeeded(204)
    ;(await ask('GET', '/public/absent', guest)).refused('NoSuchKey')
  })
  it('permissions are needed there as well', async () => {
    ;(await ask('GET', '/public/key', { ...guest, 'x-obj-permissions': 'write' })).refused('AccessDenied')
  })
  it('conditions count: prefix of a listing, tags of an object', async () => {
    const prefix = { Condition: { StringLike: { 's3:prefix': 'public/*' } } }
    ;(await allow('s3:ListBucket', `arn:aws:s3:::${name}`, prefix)).succeeded(204)
    ;(await ask('GET', '?list-type=2&prefix=public/', guest)).succeeded(200)
    ;(await ask('GET', '?list-type=2', guest)).refused('NoSuchBucket')
    const tagged = { Condition: { StringEquals: { 's3:ExistingObjectTag/open': 'yes' } } }
    ;(await allow('s3:GetObject', `arn:aws:s3:::${name}/*`, tagged)).succeeded(204)
    ;(await ask('GET', '/public/key', guest)).refused('NoSuchBucket')
    ;(
      await ask(
        'PUT',
        '/public/key?tagging',
        owner,
        '<Tagging><TagSet><Tag><Key>open</Key><Value>yes</Value></Tag></TagSet></Tagging>',
      )
    ).succeeded(200)
    ;(await ask('GET', '/public/key', guest)).succeeded(200)
  })
  it('its CORS rules tell browsers nothing before they know the bucket', async () => {
    const rule = '<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>'
    ;(await ask('PUT', '?cors', owner, `<CORSConfiguration>${rule}</CORSConfiguration>`)).succeeded(200)
    const refused = await ask('GET', '?list-type=2', { ...guest, ...PREFLIGHT })
    refused.refused('NoSuchBucket')
    assert.equal(refused.header('access-control-allow-origin'), null)
  })
})

describe('local principals', () => {
  it('are local by default, with all permissions', async () => {
    const bucket = await store.newBucket()
    const listing = (await bucket.ask('GET', '?list-type=2&fetch-owner=true')).document('ListBucketResult')
    assert.deepEqual(listing.texts('Contents/Owner/ID'), [])
    await bucket.put('key')
    const fetched = (await bucket.ask('GET', '?list-type=2&fetch-owner=true')).document('ListBucketResult')
    assert.deepEqual(fetched.texts('Contents/Owner/ID'), ['local'])
  })
  it('headers that say nothing possible are InvalidArgument', async () => {
    for (const headers of [
      { 'x-obj-principal': 'a b' },
      { 'x-obj-principal': 'x'.repeat(129) },
      { 'x-obj-permissions': 'all' },
    ]) {
      ;(await store.request('GET', '/', { headers })).refused('InvalidArgument')
    }
  })
})
