import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import { deleteObject } from '../../../../src/objectstore/s3/objects/delete-object.ts'
import { deleteObjects } from '../../../../src/objectstore/s3/objects/delete-objects.ts'
import { TestGateway, assertRefusal, textOf } from '../../../support/object-handlers.ts'

describe('DeleteObject', () => {
  it('hides an object, and says so', async () => {
    const gateway = await TestGateway.open()
    await gateway.put('k', 'hello')
    const answer = await gateway.object(deleteObject, 'k')
    assert.equal(answer.status, 204)
    assert.deepEqual(answer.headers, [
      ['x-obj-delete-marker', 'true'],
      ['x-obj-bucket-id', 'bkt-00000001'],
      ['x-obj-version-id', 'ver-000000000002'],
      ['x-obj-commit-sequence', '2'],
      ['x-obj-durability', 'synced'],
    ])
    assert.equal(await gateway.bytesOf('k'), null)
  })

  it('is as good for a key that is not there', async () => {
    const gateway = await TestGateway.open()
    assert.equal((await gateway.object(deleteObject, 'k')).status, 204)
  })

  it('leaves an object that is another by now', async () => {
    const gateway = await TestGateway.open()
    const etag = await gateway.put('k', 'hello')
    await gateway.put('k', 'world')
    await assertRefusal(gateway.object(deleteObject, 'k', { headers: { 'if-match': etag } }), 'PreconditionFailed')
    assert.equal(await gateway.bytesOf('k'), 'world')
  })
})

const objectElement = (key: string, more = ''): string => `<Object><Key>${key}</Key>${more}</Object>`

function deletion(objects: string, before = '') {
  const body = `<Delete>${before}${objects}</Delete>`
  return { body, headers: { 'content-md5': createHash('md5').update(body).digest('base64') } }
}

const PREFIX = '<?xml version="1.0" encoding="UTF-8"?>\n<DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'

describe('DeleteObjects', () => {
  it('deletes every key, there or not, and answers in their order', async () => {
    const gateway = await TestGateway.open()
    await gateway.put('a', '1')
    await gateway.put('b', '2')
    await gateway.put('c', '3')
    const answer = await gateway.ofBucket(
      deleteObjects,
      deletion(['b', 'x', 'a'].map((key) => objectElement(key)).join('')),
    )
    assert.equal(answer.status, 200)
    const deleted = ['b', 'x', 'a'].map(
      (key) => `<Deleted><Key>${key}</Key><DeleteMarker>true</DeleteMarker></Deleted>`,
    )
    assert.equal(await textOf(answer), `${PREFIX}${deleted.join('')}</DeleteResult>`)
    assert.deepEqual(await Promise.all(['a', 'b', 'c'].map((key) => gateway.bytesOf(key))), [null, null, '3'])
  })

  it('shows no more of a key and of a version that are too long than could be one', async () => {
    const gateway = await TestGateway.open()
    const long = '&quot;'.repeat(50_000)
    const answer = await gateway.ofBucket(
      deleteObjects,
      deletion(objectElement(long) + objectElement('k', `<VersionId>${long}</VersionId>`)),
    )
    const text = await textOf(answer)
    const shown = '&quot;'.repeat(1024)
    assert.ok(text.includes(`<Error><Key>${shown}</Key><Code>KeyTooLongError</Code>`), text.slice(0, 200))
    assert.ok(text.includes(`<Key>k</Key><VersionId>${shown}</VersionId><Code>NotImplemented</Code>`))
    assert.ok(text.length < 15_000, `${text.length} characters`)
  })

  it('asks for each key whether the caller may, and goes on with the others', async () => {
    const gateway = await TestGateway.open()
    await gateway.put('mine', '1')
    await gateway.put('yours', '2')
    gateway.refused.add('s3:DeleteObject yours')
    const answer = await gateway.ofBucket(deleteObjects, deletion(objectElement('mine') + objectElement('yours')))
    assert.equal(
      await textOf(answer),
      `${PREFIX}<Deleted><Key>mine</Key><DeleteMarker>true</DeleteMarker></Deleted>` +
        '<Error><Key>yours</Key><Code>AccessDenied</Code><Message>Access Denied</Message></Error></DeleteResult>',
    )
    assert.deepEqual(gateway.asked, ['s3:DeleteObject photos/mine alice', 's3:DeleteObject photos/yours alice'])
    assert.equal(await gateway.bytesOf('yours'), '2')
  })

  it('answers a quiet request with what failed only', async () => {
    const gateway = await TestGateway.open()
    const etag = await gateway.put('a', '1')
    await gateway.put('b', '2')
    const objects = objectElement('a', `<ETag>${etag}</ETag>`) + objectElement('b', '<ETag>"no"</ETag>')
    const answer = await gateway.ofBucket(deleteObjects, deletion(objects, '<Quiet>true</Quiet>'))
    const text = await textOf(answer)
    assert.match(text, /<Error><Key>b<\/Key><Code>PreconditionFailed<\/Code>/)
    assert.doesNotMatch(text, /<Deleted>/)
    assert.deepEqual([await gateway.bytesOf('a'), await gateway.bytesOf('b')], [null, '2'])
  })

  it('has no versions to delete', async () => {
    const gateway = await TestGateway.open()
    await gateway.put('a', '1')
    await gateway.put('b', '2')
    const version = (id: string): string => `<VersionId>${id}</VersionId>`
    const objects = objectElement('a', version('null')) + objectElement('b', version('ver-1'))
    const text = await textOf(await gateway.ofBucket(deleteObjects, deletion(objects)))
    assert.match(text, /<Deleted><Key>a<\/Key><VersionId>null<\/VersionId>/)
    assert.match(text, /<Error><Key>b<\/Key><VersionId>ver-1<\/VersionId><Code>NotImplemented<\/Code>/)
  })

  it('refuses a key that can be of no object beside the others', async () => {
    const gateway = await TestGateway.open()
    const objects = objectElement('k'.repeat(1025)) + objectElement('k'.repeat(1024))
    const text = await textOf(await gateway.ofBucket(deleteObjects, deletion(objects)))
    assert.equal([...text.matchAll(/<Code>KeyTooLongError<\/Code>/g)].length, 1)
    assert.equal([...text.matchAll(/<Deleted>/g)].length, 1)
  })

  it('fails as a whole when what goes wrong is no refusal', async () => {
    const gateway = await TestGateway.open()
    gateway.store.deleteObject = async () => assert.fail('a bug')
    await assert.rejects(gateway.ofBucket(deleteObjects, deletion(objectElement('a'))), /a bug/)
  })

  it('must be whole', async () => {
    const gateway = await TestGateway.open()
    await gateway.put('a', '1')
    const { body, headers } = deletion(objectElement('a'))
    await assertRefusal(gateway.ofBucket(deleteObjects, { body }), 'InvalidRequest')
    await assertRefusal(gateway.ofBucket(deleteObjects, { body: `${body} `, headers }), 'BadDigest')
    await assertRefusal(gateway.ofBucket(deleteObjects, deletion('')), 'MalformedXML')
    const many = Array.from({ length: 1001 }, (_, i) => objectElement(`k${i}`)).join('')
    await assertRefusal(gateway.ofBucket(deleteObjects, deletion(many)), 'MalformedXML')
    await assertRefusal(gateway.ofBucket(deleteObjects, deletion(' '.repeat(1 << 20))), 'EntityTooLarge')
    assert.equal(await gateway.bytesOf('a'), '1')
  })
})
