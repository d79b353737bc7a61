import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  deleteObjectTagging,
  getObjectTagging,
  putObjectTagging,
} from '../../../../src/objectstore/s3/objects/object-tagging.ts'
import { TestGateway, assertRefusal, headerOf, textOf } from '../../../support/object-handlers.ts'

const tagSet = (tags: Readonly<Record<string, string>>): string => {
  const elements = Object.entries(tags).map(([key, value]) => `<Tag><Key>${key}</Key><Value>${value}</Value></Tag>`)
  return `<TagSet>${elements.join('')}</TagSet>`
}
const tagging = (tags: Readonly<Record<string, string>>): string => `<Tagging>${tagSet(tags)}</Tagging>`

async function tagsOf(gateway: TestGateway, key: string): Promise<string> {
  const answer = await gateway.object(getObjectTagging, key)
  assert.equal(answer.status, 200)
  assert.equal(answer.body?.contentType, 'application/xml')
  return /<TagSet>.*<\/TagSet>/.exec(await textOf(answer))![0]
}

describe('tags of an object', () => {
  it('are none, then those that were put last, then none', async () => {
    const gateway = await TestGateway.open()
    await gateway.put('k', 'hello')
    assert.equal(await tagsOf(gateway, 'k'), tagSet({}))

    const put = await gateway.object(putObjectTagging, 'k', { body: tagging({ b: '2', a: '1' }) })
    assert.equal(put.status, 200)
    assert.equal(headerOf(put, 'x-obj-durability'), 'synced')
    assert.equal(await tagsOf(gateway, 'k'), tagSet({ a: '1', b: '2' }))
    await gateway.object(putObjectTagging, 'k', { body: tagging({ c: '3' }) })
    assert.equal(await tagsOf(gateway, 'k'), tagSet({ c: '3' }))

    const removed = await gateway.object(deleteObjectTagging, 'k')
    assert.equal(removed.status, 204)
    assert.equal(headerOf(removed, 'x-obj-durability'), 'synced')
    assert.equal(await tagsOf(gateway, 'k'), tagSet({}))
    assert.equal(await gateway.bytesOf('k'), 'hello')
  })

  it('come with the object as well', async () => {
    const gateway = await TestGateway.open()
    await gateway.put('k', 'hello', { 'x-amz-tagging': 'a=1' })
    assert.equal(await tagsOf(gateway, 'k'), tagSet({ a: '1' }))
  })

  it('are of an object that is there', async () => {
    const gateway = await TestGateway.open()
    const body = tagging({})
    for (const handler of [getObjectTagging, putObjectTagging, deleteObjectTagging]) {
      await assertRefusal(gateway.object(handler, 'k', { body }), 'NoSuchKey', { fields: { Key: 'k' } })
    }
    gateway.refused.add('s3:ListBucket')
    for (const handler of [getObjectTagging, putObjectTagging, deleteObjectTagging]) {
      await assertRefusal(gateway.object(handler, 'k', { body, principal: 'bob' }), 'AccessDenied')
    }
  })

  it('stay as they are when new ones are refused', async () => {
    const gateway = await TestGateway.open()
    await gateway.put('k', 'hello', { 'x-amz-tagging': 'a=1' })
    const eleven = Object.fromEntries(Array.from({ length: 11 }, (_, i) => [`k${i}`, 'v']))
    await assertRefusal(gateway.object(putObjectTagging, 'k', { body: tagging(eleven) }), 'InvalidTag')
    await assertRefusal(gateway.object(putObjectTagging, 'k', { body: '<Tagging>' }), 'MalformedXML')
    const headers = { 'content-md5': 'AAAAAAAAAAAAAAAAAAAAAA==' }
    await assertRefusal(gateway.object(putObjectTagging, 'k', { body: tagging({}), headers }), 'BadDigest')
    assert.equal(await tagsOf(gateway, 'k'), tagSet({ a: '1' }))
  })
})
