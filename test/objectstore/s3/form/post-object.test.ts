import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import type { GatewayContext } from '../../../../src/objectstore/s3/handler.ts'
import { postObject } from '../../../../src/objectstore/s3/form/post-object.ts'
import { FakeBody, TestGateway, assertRefusal, headerOf, requestOf, textOf } from '../../../support/object-handlers.ts'
import type { RequestParts } from '../../../support/object-handlers.ts'
import { formBody } from '../../../support/form-body.ts'
import { nextTurn } from '../../../support/next-turn.ts'

type Fields = Readonly<Record<string, string>>

const ETAG_OF_HELLO = '5d41402abc4b2a76b9719d911017c592'

function form(fields: Fields, file: string | null, { filename = 'a.txt', pieceBytes = 13 } = {}): RequestParts {
  const part = (disposition: string, value: string): string =>
    `--limit\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n${value}\r\n`
  const parts = Object.entries(fields).map(([name, value]) => part(`name="${name}"`, value))
  if (file !== null) parts.push(part(`name="file"; filename="${filename}"`, file))
  return {
    headers: { 'content-type': 'multipart/form-data; boundary=limit' },
    body: new FakeBody(Buffer.from(`${parts.join('')}--limit--\r\n`), { pieceBytes }),
  }
}

const FORM = { 'content-type': 'multipart/form-data; boundary=limit' }
const helloUnder = (key: string): Buffer =>
  formBody('limit', [
    ['key', key],
    ['file', 'hello', 'a.txt'],
  ])

const post = (gateway: TestGateway, fields: Fields, file: string | null = 'hello', options = {}) =>
  gateway.form(postObject, form(fields, file, options))

function policyOf(gateway: TestGateway, conditions: readonly unknown[], expiresInMs = 60_000): string {
  const expiration = new Date(gateway.store.nowMs + expiresInMs).toISOString()
  return Buffer.from(JSON.stringify({ expiration, conditions: [{ bucket: 'photos' }, ...conditions] })).toString(
    'base64',
  )
}

describe('PostObject', () => {
  it('keeps the file of a form as its fields say', async () => {
    const gateway = await TestGateway.open()
    const answer = await post(gateway, {
      key: 'in/${filename}',
      'Content-Type': 'text/plain',
      'x-amz-meta-a': '1',
      acl: 'private',
      tagging: '<Tagging><TagSet><Tag><Key>t</Key><Value>1</Value></Tag></TagSet></Tagging>',
    })
    assert.equal(answer.status, 204)
    assert.equal(headerOf(answer, 'etag'), `"${ETAG_OF_HELLO}"`)
    assert.equal(headerOf(answer, 'location'), 'http://store.test/photos/in/a.txt')
    assert.equal(headerOf(answer, 'x-obj-durability'), 'synced')
    const object = await gateway.store.object(gateway.bucket, 'in/a.txt')
    assert.deepEqual(
      [object?.contentType, object?.metadata, object?.tags],
      ['text/plain', { a: '1' }, [{ key: 't', value: '1' }]],
    )
    assert.equal(await gateway.bytesOf('in/a.txt'), 'hello')
    gateway.assertClean()
  })

  it('takes a large file at the pace of the store, however the body is cut', async () => {
    const gateway = await TestGateway.open()
    const file = 'x'.repeat(400_000)
    for (const pieceBytes of [70_001, 1_000_000]) {
      await post(gateway, { key: `k${pieceBytes}` }, file, { pieceBytes })
      assert.equal(await gateway.bytesOf(`k${pieceBytes}`), file)
    }
    gateway.assertClean()
  })

  it('waits once for a store that is full when one chunk has several pieces of the file', async () => {
    const gateway = await TestGateway.open()
    const fullBytes = 96 << 10
    const file = `${'x'.repeat(fullBytes - 3)}\r\n--lim${'y'.repeat(200_000)}`
    const begin = '--limit\r\nContent-Disposition: form-data; name="key"\r\n\r\nk\r\n--limit\r\n'
    const head = `${begin}Content-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n`
    const pieceBytes = head.length + file.indexOf('y') // the rest of a possible boundary comes with the next chunk
    await post(gateway, { key: 'k' }, file, { pieceBytes })
    assert.equal(await gateway.bytesOf('k'), file)
    gateway.assertClean()
  })

  it('answers as the form wants it', async () => {
    const gateway = await TestGateway.open()
    const ok = await post(gateway, { key: 'k', success_action_status: '200' })
    assert.deepEqual([ok.status, await textOf(ok)], [200, ''])

    const created = await post(gateway, { key: 'a b', success_action_status: '201' })
    assert.equal(created.status, 201)
    assert.equal(
      await textOf(created),
      '<?xml version="1.0" encoding="UTF-8"?>\n<PostResponse><Location>http://store.test/photos/a%20b</Location>' +
        `<Bucket>photos</Bucket><Key>a b</Key><ETag>&quot;${ETAG_OF_HELLO}&quot;</ETag></PostResponse>`,
    )

    const elsewhere = await post(gateway, { key: 'k', success_action_redirect: 'http://site.test/done' })
    assert.equal(elsewhere.status, 303)
    assert.equal(
      headerOf(elsewhere, 'location'),
      `http://site.test/done?bucket=photos&key=k&etag=%22${ETAG_OF_HELLO}%22`,
    )
    const nowhere = await post(gateway, { key: 'k', success_action_redirect: 'javascript:alert(1)' })
    assert.equal(nowhere.status, 204)
    const unknown = await post(gateway, { key: 'k', success_action_status: '418' })
    assert.equal(unknown.status, 204)
  })

  it('asks whether who signed the form may put this key', async () => {
    const gateway = await TestGateway.open()
    gateway.formPrincipal = 'bob'
    await post(gateway, { key: 'k' })
    assert.deepEqual(gateway.asked, ['s3:PutObject photos/k bob'])

    gateway.formPrincipal = null
    gateway.refused.add('s3:PutObject')
    for (const pieceBytes of [13, 10_000]) {
      await assertRefusal(post(gateway, { key: 'other' }, 'hello', { pieceBytes }), 'AccessDenied')
    }
    assert.equal(await gateway.bytesOf('other'), null)
    gateway.assertClean()
  })

  it('asks whether its sender may set tags, and know what its conditions tell', async () => {
    const gateway = await TestGateway.open()
    const etag = await gateway.put('k', 'hello')
    gateway.formPrincipal = 'bob'
    const tagging = '<Tagging><TagSet><Tag><Key>t</Key><Value>1</Value></Tag></TagSet></Tagging>'
    await post(gateway, { key: 'k', tagging })
    const conditional = form({ key: 'k' }, 'hello')
    const headers = { ...conditional.headers, 'if-match': etag }
    await gateway.form(postObject, { ...conditional, headers })
    assert.deepEqual(gateway.asked, [
      's3:PutObject photos/k bob',
      's3:PutObjectTagging photos/k bob',
      's3:PutObject photos/k bob',
      's3:GetObject photos/k bob',
    ])

    gateway.refused.add('s3:PutObjectTagging')
    await assertRefusal(post(gateway, { key: 'other', tagging }), 'AccessDenied')
    assert.equal(await gateway.bytesOf('other'), null)
    gateway.assertClean()
  })

  it('tells who may not put it nothing of what is there', async () => {
    const gateway = await TestGateway.open()
    await gateway.put('k', 'hello')
    gateway.refused.add('s3:PutObject')
    const { body, headers } = form({ key: 'k' }, 'hello')
    const conditional = { body: body!, headers: { ...headers, 'if-none-match': '*' } }
    await assertRefusal(gateway.form(postObject, conditional), 'AccessDenied')
  })

  it('leaves nothing when it turns out bad while its sender is being judged', async () => {
    const gateway = await TestGateway.open()
    const text = '--limit\r\nContent-Disposition: form-data; name="key"\r\n\r\nk\r\n--limit\r\n'
    const file = 'Content-Disposition: form-data; name="file"\r\n\r\nhello\r\n--limit??'
    const headers = { 'content-type': 'multipart/form-data; boundary=limit' }
    await assertRefusal(gateway.form(postObject, { headers, body: text + file }), 'MalformedPOSTRequest')
    await nextTurn()
    gateway.assertClean()
  })

  it('stops at once when the caller may not', async () => {
    const gateway = await TestGateway.open()
    gateway.refused.add('s3:PutObject')
    const { headers, body } = form({ key: 'k' }, 'x'.repeat(10_000))
    await assertRefusal(gateway.form(postObject, { headers: headers!, body: body! }), 'AccessDenied')
    assert(body instanceof FakeBody && body.given < 20, 'the rest was not asked for')
  })

  it('does what its policy allows, while it does', async () => {
    const gateway = await TestGateway.open()
    const policy = policyOf(gateway, [
      ['starts-with', '$key', 'in/'],
      ['content-length-range', 2, 8],
    ])
    assert.equal((await post(gateway, { key: 'in/k', policy })).status, 204)
    await assertRefusal(post(gateway, { key: 'out/k', policy }), 'AccessDenied', {
      message: /^Invalid according to Policy/,
    })
    await assertRefusal(post(gateway, { key: 'in/k', policy, 'x-amz-meta-a': '1' }), 'AccessDenied')
    await assertRefusal(post(gateway, { key: 'in/small', policy }, 'h'), 'EntityTooSmall')
    await assertRefusal(post(gateway, { key: 'in/large', policy }, 'hello you'), 'EntityTooLarge')
    await assertRefusal(
      post(gateway, { key: 'k', policy: policyOf(gateway, [['eq', '$key', 'k']], -1) }),
      'AccessDenied',
    )
    await assertRefusal(post(gateway, { key: 'k', policy: 'e30=' }), 'InvalidPolicyDocument')
    for (const key of ['in/small', 'in/large', 'k', 'out/k']) assert.equal(await gateway.bytesOf(key), null)
    gateway.assertClean()
  })

  it('is no larger than a put', async () => {
    const gateway = await TestGateway.open()
    const file = 'x'.repeat((1 << 20) + 1)
    await assertRefusal(post(gateway, { key: 'k' }, file, { pieceBytes: 1 << 16 }), 'EntityTooLarge')
    const declared = new FakeBody(Buffer.alloc(3 << 20))
    const headers = { 'content-type': 'multipart/form-data; boundary=limit' }
    await assertRefusal(gateway.form(postObject, { headers, body: declared }), 'EntityTooLarge')
    assert(!declared.wasTaken)
    gateway.assertClean()
  })

  it('keeps the checksum in its fields, when it is right', async () => {
    const gateway = await TestGateway.open()
    const value = createHash('sha256').update('hello').digest('base64')
    const answer = await post(gateway, { key: 'k', 'x-amz-checksum-sha256': value })
    assert.equal(headerOf(answer, 'x-obj-checksum-sha256'), value)
    await assertRefusal(post(gateway, { key: 'other', 'x-amz-checksum-sha256': value }, 'world'), 'BadDigest')
    assert.equal(await gateway.bytesOf('other'), null)
    gateway.assertClean()
  })

  it('has the file that the field Content-MD5 names', async () => {
    const gateway = await TestGateway.open()
    const md5 = createHash('md5').update('hello').digest('base64')
    assert.equal((await post(gateway, { key: 'k', 'Content-MD5': md5 })).status, 204)
    await assertRefusal(post(gateway, { key: 'other', 'Content-MD5': md5 }, 'world'), 'BadDigest')
    await assertRefusal(post(gateway, { key: 'other', 'Content-MD5': 'none' }), 'InvalidDigest')
    assert.equal(await gateway.bytesOf('other'), null)
    gateway.assertClean()
  })

  it('is the body that its headers describe', async () => {
    const gateway = await TestGateway.open()
    const digestOf = (name: string, encoding: 'hex' | 'base64'): string =>
      createHash(name).update(helloUnder('k')).digest(encoding)
    const send = (key: string, claims: Fields) =>
      gateway.form(postObject, { headers: { ...FORM, ...claims }, body: helloUnder(key) })
    const wrong = [
      ['XAmzContentSHA256Mismatch', { 'x-amz-content-sha256': digestOf('sha256', 'hex') }],
      ['BadDigest', { 'content-md5': digestOf('md5', 'base64') }],
      ['BadDigest', { 'x-amz-checksum-sha1': digestOf('sha1', 'base64') }],
    ] as const
    for (const [code, claims] of wrong) {
      assert.equal((await send('k', claims)).status, 204)
      await assertRefusal(send('other', claims), code)
    }
    assert.equal((await send('k', { 'x-amz-content-sha256': 'UNSIGNED-PAYLOAD' })).status, 204)
    for (const [code, claims] of [
      ['InvalidDigest', { 'content-md5': 'none' }],
      ['InvalidArgument', { 'x-amz-content-sha256': 'none' }],
    ] as const) {
      await assertRefusal(send('other', claims), code)
    }
    assert.equal(await gateway.bytesOf('other'), null)
    gateway.assertClean()
  })

  it('may come in chunks', async () => {
    const gateway = await TestGateway.open()
    const bytes = helloUnder('k')
    const headers = {
      ...FORM,
      'x-amz-content-sha256': 'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
      'x-amz-decoded-content-length': String(bytes.length),
    }
    const framed = `${bytes.length.toString(16)}\r\n${bytes.toString()}\r\n0\r\n\r\n`
    await gateway.form(postObject, { headers, body: framed })
    assert.equal(await gateway.bytesOf('k'), 'hello')
    await assertRefusal(gateway.form(postObject, { headers, body: bytes }), 'IncompleteBody')
    gateway.assertClean()
  })

  it('must be a whole form with a key and a file', async () => {
    const gateway = await TestGateway.open()
    await assertRefusal(post(gateway, {}), 'InvalidArgument', { fields: { ArgumentName: 'key', ArgumentValue: '' } })
    await assertRefusal(post(gateway, { key: 'k'.repeat(1025) }), 'KeyTooLongError')
    await assertRefusal(post(gateway, { key: 'k' }, null), 'InvalidArgument', {
      fields: { ArgumentName: 'file', ArgumentValue: 0 },
    })
    const headers = { 'content-type': 'multipart/form-data; boundary=limit' }
    const cut = Buffer.from(
      '--limit\r\nContent-Disposition: form-data; name="key"\r\n\r\nk\r\n--limit\r\n' +
        'Content-Disposition: form-data; name="file"\r\n\r\nhel',
    )
    await assertRefusal(gateway.form(postObject, { headers, body: cut }), 'MalformedPOSTRequest')
    await assertRefusal(gateway.form(postObject, { body: 'k=v' }), 'PreconditionFailed')
    assert.equal(await gateway.bytesOf('k'), null)
    gateway.assertClean()
  })

  it('passes over ACLs where they are ignored, but policies get to see them', async () => {
    const gateway = await TestGateway.open()
    const authorized: ReadonlyMap<string, string>[] = []
    const context: GatewayContext = {
      ...gateway.context,
      ignoresAcls: true,
      authorize: async ({ headers }) => {
        authorized.push(headers)
        return gateway.bucket
      },
    }
    for (const fields of [{ acl: 'public-read' }, { 'x-amz-acl': 'public-read' }, { 'x-amz-grant-read': 'id=a' }]) {
      const answer = await postObject(requestOf(form({ key: 'k', ...fields }, 'hello')), 'photos', context)
      assert.equal(answer.status, 204)
    }
    assert.deepEqual(
      authorized.map((headers) => [headers.get('x-amz-acl'), headers.get('x-amz-grant-read')]),
      [
        ['public-read', undefined],
        ['public-read', undefined],
        [undefined, 'id=a'],
      ],
    )
    gateway.assertClean()
  })

  it('cannot put what would break the header of an answer', async () => {
    const gateway = await TestGateway.open()
    await assertRefusal(post(gateway, { key: 'k', 'Content-Type': 'a\r\nset-cookie: b' }), 'InvalidArgument')
    await assertRefusal(post(gateway, { key: 'k', acl: 'public-read' }), 'NotImplemented')
    gateway.assertClean()
  })
})
