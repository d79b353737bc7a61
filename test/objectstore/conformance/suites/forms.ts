/** PostObject, a browser's upload: fields, policy conditions, answers. Signatures are checked in `signed.test.ts`. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { formBody } from '../../../support/form-body.ts'
import type { FormPart } from '../../../support/form-body.ts'
import { store } from './shared-store.ts'

const bucket = await store.newBucket()
const FORM = { 'content-type': 'multipart/form-data; boundary=limit' }
const FILE: FormPart = ['file', 'content', 'path\\to/file.txt']

const post = (...parts: readonly FormPart[]) =>
  bucket.ask('POST', '', { body: formBody('limit', parts), headers: FORM })
const policyOf = (conditions: readonly unknown[], expiration = '2099-01-01T00:00:00Z'): FormPart => [
  'policy',
  Buffer.from(JSON.stringify({ expiration, conditions })).toString('base64'),
]
const BUCKET = { bucket: bucket.name }

describe('a browser form', () => {
  it('204 by default, with ETag and Location; the key takes the name of the file', async () => {
    const reply = (
      await post(['key', 'up/${filename}'], ['Content-Type', 'a/b'], ['x-amz-meta-by', 'form'], FILE)
    ).succeeded(204)
    assert.equal(reply.header('etag'), '"9a0364b9e99bb480dd25e1f0284c8555"')
    assert.match(reply.header('location')!, new RegExp(`/${bucket.name}/up/file.txt$`))
    const stored = await bucket.ask('GET', '/up/file.txt')
    assert.deepEqual(
      [stored.text, stored.header('content-type'), stored.header('x-obj-meta-by')],
      ['content', 'a/b', 'form'],
    )
  })
  it('success_action_status: 200, 201 with a document, anything else 204', async () => {
    const withStatus = (status: string) => post(['key', 'status'], ['success_action_status', status], FILE)
    ;(await withStatus('200')).succeeded(200)
    ;(await withStatus('404')).succeeded(204)
    const created = (await withStatus('201')).succeeded(201)
    assert.match(
      created.text,
      /<PostResponse><Location>.*<\/Location><Bucket>.*<\/Bucket><Key>status<\/Key><ETag>.*<\/ETag><\/PostResponse>$/,
    )
  })
  it('success_action_redirect: 303 to it, with bucket, key and etag', async () => {
    const reply = (
      await post(['key', 'a b'], ['success_action_redirect', 'https://a.example/done?x=1'], FILE)
    ).succeeded(303)
    assert.equal(
      reply.header('location'),
      `https://a.example/done?x=1&bucket=${bucket.name}&key=a%20b&etag=%229a0364b9e99bb480dd25e1f0284c8555%22`,
    )
  })
  it('tags come as a document', async () => {
    const tagging = '<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>'
    ;(await post(['key', 'tagged'], ['tagging', tagging], FILE)).succeeded(204)
    assert.deepEqual((await bucket.ask('GET', '/tagged?tagging')).document('Tagging').texts('TagSet/Tag/Key'), ['k'])
  })
  it('a policy that covers all fields and holds: stored', async () => {
    const conditions = [
      BUCKET,
      ['starts-with', '$key', 'p/'],
      ['eq', '$x-amz-meta-a', '1'],
      ['content-length-range', 1, 7],
    ]
    ;(await post(['key', 'p/1'], ['x-amz-meta-a', '1'], policyOf(conditions), FILE)).succeeded(204)
    ;(await post(['key', 'p/1'], ['x-ignore-me', '1'], ['x-amz-meta-a', '1'], policyOf(conditions), FILE)).succeeded(
      204,
    )
  })
  it('a policy that does not: AccessDenied; by the size of the file EntityTooLarge, EntityTooSmall', async () => {
    const key = ['eq', '$key', 'denied']
    const named: FormPart = ['key', 'denied']
    for (const parts of [
      [named, policyOf([BUCKET, ['eq', '$key', 'other']])],
      [named, policyOf([key])],
      [named, policyOf([{ bucket: 'other-bucket' }, key])],
      [named, ['x-amz-meta-extra', '1'], policyOf([BUCKET, key])],
      [named, policyOf([BUCKET, key], '2000-01-01T00:00:00Z')],
    ] as const) {
      ;(await post(...(parts as readonly FormPart[]), FILE)).refused('AccessDenied')
    }
    ;(await post(named, policyOf([BUCKET, key, ['content-length-range', 0, 6]]), FILE)).refused('EntityTooLarge')
    ;(await post(named, policyOf([BUCKET, key, ['content-length-range', 8, 9]]), FILE)).refused('EntityTooSmall')
    ;(await bucket.ask('GET', '/denied')).refused('NoSuchKey')
  })
  it('a policy that is none: InvalidPolicyDocument', async () => {
    for (const policy of ['nonsense!', 'e30=', Buffer.from('[]').toString('base64')]) {
      ;(await post(['key', 'denied'], ['policy', policy], FILE)).refused('InvalidPolicyDocument')
    }
    ;(await post(['key', 'denied'], policyOf([['like', '$key', 'a']]), FILE)).refused('InvalidPolicyDocument')
  })
  it('without key or file: InvalidArgument; two files too', async () => {
    ;(await post(FILE)).refused('InvalidArgument')
    ;(await post(['key', 'denied'])).refused('InvalidArgument')
    ;(await post(['key', 'denied'], FILE, FILE)).refused('InvalidArgument')
    ;(await bucket.ask('GET', '/denied')).refused('NoSuchKey')
  })
  it('what is no form: PreconditionFailed by its type, MalformedPOSTRequest by its body', async () => {
    ;(await bucket.ask('POST', '', { body: 'x' })).refused('PreconditionFailed')
    ;(await bucket.ask('POST', '', { body: 'x', headers: { 'content-type': 'text/plain' } })).refused(
      'PreconditionFailed',
    )
    for (const body of [
      '',
      'nonsense',
      '--limit\r\n\r\n',
      '--limit\r\nnonsense\r\n\r\n',
      formBody('limit', [['key', 'a']]).subarray(0, -8),
    ]) {
      ;(await bucket.ask('POST', '', { body, headers: FORM })).refused('MalformedPOSTRequest')
    }
  })
  it('fields together above 20 KB: MaxPostPreDataLengthExceededError', async () => {
    ;(await post(['key', 'k'], ['x-ignore-a', 'x'.repeat(20_480)], FILE)).refused('MaxPostPreDataLengthExceededError')
  })
})
