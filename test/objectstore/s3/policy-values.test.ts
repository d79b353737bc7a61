/** What a policy is told of a request, where the request says things that it does not do. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { localAuthenticator } from '../../../src/objectstore/s3/auth/authenticator.ts'
import { formBody } from '../../support/form-body.ts'
import type { FormPart } from '../../support/form-body.ts'
import { TestGateway, assertRefused, textOf } from './support.ts'
import type { Reply } from './support.ts'

type Headers = Readonly<Record<string, string>>

const COPY = { 'x-obj-copy-source': 'of-bob/source' }
const SSE = { 'x-obj-server-side-encryption': 'AES256' }
const COMPLETION =
  '<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>E</ETag></Part></CompleteMultipartUpload>'

let gateway: TestGateway
before(async () => {
  gateway = await TestGateway.start({ authenticator: localAuthenticator })
  await gateway.ask('PUT', '/bkt')
  await gateway.askAs('bob', 'PUT', '/of-bob')
  await gateway.askAs('bob', 'PUT', '/of-bob/source', { body: 'x' })
})
after(() => gateway.stop())

async function policy(...statements: readonly object[]): Promise<void> {
  const defaults = { Effect: 'Allow', Principal: '*', Resource: 'arn:aws:s3:::bkt/*' }
  const Statement = statements.map((statement) => ({ ...defaults, ...statement }))
  const put = await gateway.ask('PUT', '/bkt?policy', { body: JSON.stringify({ Statement }) })
  assert.equal(put.status, 204, put.text)
}

const asBob = (method: string, target: string, headers: Headers = {}, body: Buffer | string = ''): Promise<Reply> =>
  gateway.askAs('bob', method, target, { headers, ...(body.length > 0 && { body }) })

describe('a policy', () => {
  it('counts the tags of a copy only if the copy takes them', async () => {
    await policy({
      Action: ['s3:PutObject', 's3:PutObjectTagging'],
      Condition: { StringEquals: { 's3:RequestObjectTag/colour': 'blue' } },
    })
    const tagged = { ...COPY, 'x-obj-tagging': 'colour=blue' }
    assertRefused(await asBob('PUT', '/bkt/copy', tagged), 404, 'NoSuchBucket')
    assertRefused(
      await asBob('PUT', '/bkt/copy', { ...tagged, 'x-obj-tagging-directive': 'COPY' }),
      404,
      'NoSuchBucket',
    )
    assert.equal((await asBob('PUT', '/bkt/copy', { ...tagged, 'x-obj-tagging-directive': 'REPLACE' })).status, 200)
  })

  it('sees the fields of a form, and no headers that a form ignores', async () => {
    await policy({
      Action: 's3:PutObject',
      Condition: { StringEquals: { 's3:x-amz-server-side-encryption': 'AES256' } },
    })
    const post = (headers: Headers, ...fields: readonly FormPart[]): Promise<Reply> => {
      const body = formBody('limit', [['key', 'form'], ...fields, ['file', 'x', 'a.txt']])
      return asBob('POST', '/bkt', { 'content-type': 'multipart/form-data; boundary=limit', ...headers }, body)
    }
    for (const name of ['x-obj-server-side-encryption', 'x-amz-server-side-encryption']) {
      assertRefused(await post({ [name]: 'AES256' }), 404, 'NoSuchBucket')
      assert.equal((await post({ [name]: 'aws:kms' }, [name, 'AES256'])).status, 204)
    }
  })

  it('tells of an absent key whoever may list what begins with it', async () => {
    await policy(
      { Action: 's3:GetObject' },
      {
        Action: 's3:ListBucket',
        Resource: 'arn:aws:s3:::bkt',
        Condition: { StringLike: { 's3:prefix': 'public/*' } },
      },
    )
    assertRefused(await asBob('GET', '/bkt/public/absent'), 404, 'NoSuchKey')
    assertRefused(await asBob('GET', '/bkt/absent'), 403, 'AccessDenied')
    assertRefused(await asBob('GET', '/bkt/absent?prefix=public/a'), 403, 'AccessDenied')
  })

  it('demands a condition where an object is put under its key, and not of the steps before', async () => {
    await policy(
      { Action: 's3:PutObject' },
      {
        Effect: 'Deny',
        Action: 's3:PutObject',
        Condition: { Null: { 's3:if-none-match': 'true' }, Bool: { 's3:ObjectCreationOperation': 'true' } },
      },
    )
    assertRefused(await asBob('PUT', '/bkt/once', {}, 'x'), 404, 'NoSuchBucket')
    assertRefused(await asBob('PUT', '/bkt/once', COPY), 404, 'NoSuchBucket')
    const begun = await asBob('POST', '/bkt/once?uploads')
    const upload = `uploadId=${textOf(begun.text, 'UploadId')}`
    const part = await asBob('PUT', `/bkt/once?partNumber=1&${upload}`, {}, 'x')
    const list = COMPLETION.replace('E<', `${part.headers['etag']}<`)
    assertRefused(await asBob('POST', `/bkt/once?${upload}`, {}, list), 404, 'NoSuchBucket')
    assert.equal((await asBob('POST', `/bkt/once?${upload}`, { 'if-none-match': '*' }, list)).status, 200)
  })

  it('judges what an object in parts is to be when its upload begins', async () => {
    const encrypted = { 's3:x-amz-server-side-encryption': 'AES256' }
    await policy(
      { Action: 's3:PutObject', Condition: { StringEquals: { 's3:x-amz-acl': 'private' } } },
      { Effect: 'Deny', Action: 's3:PutObject', Condition: { StringNotEquals: encrypted } },
      { Effect: 'Deny', Action: 's3:PutObject', Condition: { StringEquals: { 'aws:Referer': 'http://elsewhere/' } } },
    )
    const needed = { ...SSE, 'x-obj-acl': 'private' }
    for (const lacking of [SSE, { 'x-obj-acl': 'private' }]) {
      assertRefused(await asBob('POST', '/bkt/parts?uploads', lacking), 404, 'NoSuchBucket')
    }
    for (const put of [(part: string) => asBob('PUT', part, {}, 'x'), (part: string) => asBob('PUT', part, COPY)]) {
      const begun = await asBob('POST', '/bkt/parts?uploads', needed)
      const upload = `uploadId=${textOf(begun.text, 'UploadId')}`
      const part = `/bkt/parts?partNumber=1&${upload}`
      assertRefused(await asBob('PUT', part, { referer: 'http://elsewhere/' }, 'x'), 404, 'NoSuchBucket')
      const kept = await put(part)
      assert.equal(kept.status, 200, kept.text)
      const etag = kept.headers['etag'] ?? textOf(kept.text, 'ETag')!.replaceAll('&quot;', '"')
      const list = COMPLETION.replace('E<', `${etag}<`)
      const completed = await asBob('POST', `/bkt/parts?${upload}`, {}, list)
      assert.equal(completed.status, 200, completed.text)
    }
    const { headers } = await gateway.ask('HEAD', '/bkt/parts')
    assert.equal(headers['x-obj-server-side-encryption'], 'AES256')
  })
})
