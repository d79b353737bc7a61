/** Objects like those of Amazon S3 (contract "Object store"): headers, ranges, conditions, checksums, copies, tags. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import { crc32 } from 'node:zlib'
import { xxhash128, xxhash3, xxhash64 } from 'hash-wasm'
import type { ObjectReply } from '../../../support/objectstore.ts'
import { store } from './shared-store.ts'

const bucket = await store.newBucket()
await bucket.put('ten', '0123456789')
const etag = `"${createHash('md5').update('0123456789').digest('hex')}"`
const get = (headers: Readonly<Record<string, string>> = {}, query = '') =>
  bucket.ask('GET', `/ten${query}`, { headers })
const shown = (reply: ObjectReply, names: readonly string[]) => names.map((name) => reply.header(name))

describe('what is kept of an object', () => {
  const kept = {
    'content-type': 'text/x-test; charset=utf-8',
    'cache-control': 'max-age=5',
    'content-disposition': 'attachment; filename="a b"',
    'content-encoding': 'gzip',
    'content-language': 'de, en',
    expires: 'Wed, 21 Oct 2026 07:28:00 GMT',
    'x-obj-meta-colour': 'green',
    'x-obj-meta-empty': '',
  }
  it('its headers and user metadata come back with GET and HEAD as they were sent', async () => {
    await bucket.put('kept', 'content', kept)
    for (const method of ['GET', 'HEAD']) {
      const reply = (await bucket.ask(method, '/kept')).succeeded(200)
      assert.deepEqual(shown(reply, Object.keys(kept)), Object.values(kept))
    }
  })
  it('response-… parameters replace them in one answer', async () => {
    const query = '?response-content-type=a/b&response-cache-control=no-store&response-content-disposition=inline'
    const reply = await bucket.ask(
      'GET',
      `/kept${query}&response-content-encoding=x&response-content-language=fr&response-expires=0`,
    )
    const names = [
      'content-type',
      'cache-control',
      'content-disposition',
      'content-encoding',
      'content-language',
      'expires',
    ]
    assert.deepEqual(shown(reply, names), ['a/b', 'no-store', 'inline', 'x', 'fr', '0'])
    ;(await bucket.ask('GET', '/kept?response-content-type=a%0d%0aset-cookie:b')).refused('InvalidArgument')
  })
  it('overwriting replaces all of it', async () => {
    await bucket.put('kept', 'other')
    const reply = await bucket.ask('GET', '/kept')
    assert.deepEqual(shown(reply, ['x-obj-meta-colour', 'cache-control', 'content-type']), [
      null,
      null,
      'binary/octet-stream',
    ])
  })
  it('the framing aws-chunked is not part of the encoding', async () => {
    await bucket.put('encoded', 'content', { 'content-encoding': 'aws-chunked, gzip' })
    assert.equal((await bucket.ask('HEAD', '/encoded')).header('content-encoding'), 'gzip')
  })
  it('storage classes that promise what STANDARD does are given back, others are InvalidStorageClass', async () => {
    const classOf = async (key: string) => {
      const headers = await Promise.all(['GET', 'HEAD'].map((method) => bucket.ask(method, `/${key}`)))
      assert.equal(headers[0]!.header('x-obj-storage-class'), headers[1]!.header('x-obj-storage-class'))
      const listing = await bucket.ask('GET', `?list-type=2&prefix=${key}&max-keys=1`)
      return [
        headers[0]!.header('x-obj-storage-class'),
        listing.document('ListBucketResult').text('Contents/StorageClass'),
      ]
    }
    for (const name of ['STANDARD', 'STANDARD_IA', 'ONEZONE_IA', 'INTELLIGENT_TIERING', 'GLACIER_IR']) {
      const headers = { 'x-amz-storage-class': name }
      const expected = [name === 'STANDARD' ? null : name, name]
      await bucket.put('class', 'x', headers)
      assert.deepEqual(await classOf('class'), expected)
      const upload = await bucket.newUpload('class-parts', headers)
      const parts = (await upload.ask('GET', '')).document('ListPartsResult')
      assert.equal(parts.text('StorageClass'), name)
      const uploads = (await bucket.ask('GET', '?uploads&prefix=class-parts')).document('ListMultipartUploadsResult')
      assert.equal(uploads.text('Upload/StorageClass'), name)
      await upload.complete([[1, await upload.part(1, 'x')]])
      assert.deepEqual(await classOf('class-parts'), expected)
    }
    const copy = async (headers: Readonly<Record<string, string>>) =>
      (await bucket.ask('PUT', '/class-copy', { headers: { 'x-amz-copy-source': `${bucket.name}/class`, ...headers } }))
        .status
    assert.equal(await copy({}), 200)
    assert.deepEqual(await classOf('class-copy'), [null, 'STANDARD'], 'a copy is of the default class')
    assert.equal(await copy({ 'x-obj-storage-class': 'ONEZONE_IA' }), 200)
    assert.deepEqual(await classOf('class-copy'), ['ONEZONE_IA', 'ONEZONE_IA'])
    for (const name of ['FROZEN', 'GLACIER', 'DEEP_ARCHIVE']) {
      ;(await bucket.ask('PUT', '/class', { body: '', headers: { 'x-amz-storage-class': name } })).refused(
        'InvalidStorageClass',
      )
    }
  })
  it('the only version has the id null, wherever S3 takes one', async () => {
    await bucket.put('version', 'content')
    assert.equal((await bucket.ask('GET', '/version?versionId=null')).succeeded(200).text, 'content')
    const source = { 'x-obj-copy-source': `${bucket.name}/version?versionId=null` }
    ;(await bucket.ask('PUT', '/version-copy', { headers: source })).succeeded(200)
    ;(await bucket.ask('GET', '/version?versionId=ver-000000000001')).refused('NotImplemented')
    ;(await bucket.ask('DELETE', '/version?versionId=null')).succeeded(204)
    ;(await bucket.ask('GET', '/version')).refused('NoSuchKey')
  })
  it('encryption requests are validated and come back', async () => {
    await bucket.put('sse', 'x', {
      'x-amz-server-side-encryption': 'aws:kms',
      'x-amz-server-side-encryption-aws-kms-key-id': 'key-1',
      'x-amz-server-side-encryption-context': Buffer.from('{"of":"tests"}').toString('base64'),
      'x-amz-server-side-encryption-bucket-key-enabled': 'false',
    })
    const head = await bucket.ask('HEAD', '/sse')
    assert.deepEqual(shown(head, ['x-obj-server-side-encryption', 'x-obj-server-side-encryption-aws-kms-key-id']), [
      'aws:kms',
      'key-1',
    ])
    const customer = 'x-amz-server-side-encryption-customer-'
    for (const [headers, code] of [
      [{ 'x-amz-server-side-encryption': 'nonsense' }, 'InvalidArgument'],
      [{ 'x-amz-server-side-encryption-context': 'nonsense' }, 'InvalidArgument'],
      [{ 'x-amz-server-side-encryption-bucket-key-enabled': 'perhaps' }, 'InvalidArgument'],
      [{ [`${customer}algorithm`]: 'AES256' }, 'InvalidArgument'],
      [{ [`${customer}algorithm`]: 'DES', [`${customer}key`]: 'a' }, 'InvalidEncryptionAlgorithmError'],
      [
        { [`${customer}algorithm`]: 'AES256', [`${customer}key`]: 'c2hvcnQ=', [`${customer}key-md5`]: 'x' },
        'InvalidArgument',
      ],
    ] as const) {
      ;(await bucket.ask('PUT', '/sse', { body: '', headers })).refused(code)
    }
  })
})

describe('ranges', () => {
  for (const [range, text, shownRange] of [
    ['bytes=2-4', '234', 'bytes 2-4/10'],
    ['bytes=7-', '789', 'bytes 7-9/10'],
    ['bytes=-3', '789', 'bytes 7-9/10'],
    ['bytes=-99', '0123456789', 'bytes 0-9/10'],
    ['bytes=5-99', '56789', 'bytes 5-9/10'],
  ] as const)
    it(`${range}: 206`, async () => {
      const reply = (await get({ range })).succeeded(206)
      assert.deepEqual([reply.text, reply.header('content-range')], [text, shownRange])
      const head = (await bucket.ask('HEAD', '/ten', { headers: { range } })).succeeded(206)
      assert.deepEqual(shown(head, ['content-range', 'content-length']), [shownRange, String(text.length)])
    })
  for (const range of ['bytes=0-1,3-4', 'bytes=4-2', 'bytes=a-b', 'bytes', 'lines=0-1', 'bytes=--1', 'bytes=-'])
    it(`${range} is no range: 200 and all of it`, async () => {
      assert.equal((await get({ range })).succeeded(200).text, '0123456789')
    })
  for (const range of ['bytes=10-', 'bytes=10-20', 'bytes=-0'])
    it(`${range}: InvalidRange`, async () => {
      const reply = await get({ range })
      const refused = reply.refused('InvalidRange')
      assert.deepEqual([refused.text('RangeRequested'), refused.text('ActualObjectSize')], [range, '10'])
      assert.equal(reply.header('content-range'), 'bytes */10')
    })
  it('of an object without bytes: InvalidRange', async () => {
    await bucket.put('empty', '')
    ;(await bucket.ask('GET', '/empty', { headers: { range: 'bytes=0-' } })).refused('InvalidRange')
  })
  it('If-Range: another object by now is sent whole', async () => {
    ;(await get({ range: 'bytes=0-0', 'if-range': etag })).succeeded(206)
    ;(await get({ range: 'bytes=0-0', 'if-range': '"0"' })).succeeded(200)
  })
  it('partNumber: 1 is all of an object that came in one piece, others InvalidPartNumber, none together with a range', async () => {
    assert.equal((await get({}, '?partNumber=1')).succeeded(206).text, '0123456789')
    ;(await get({}, '?partNumber=2')).refused('InvalidPartNumber')
    assert.equal((await get({}, '?partNumber=1')).header('x-obj-mp-parts-count'), null)
    ;(await get({}, '?partNumber=0')).refused('InvalidArgument')
    ;(await get({ range: 'bytes=0-0' }, '?partNumber=1')).refused('InvalidRequest')
  })
})

describe('conditional reads', () => {
  const past = 'Sat, 01 Jan 2000 00:00:00 GMT'
  const future = 'Thu, 01 Jan 2099 00:00:00 GMT'
  for (const [headers, status] of [
    [{ 'if-match': etag }, 200],
    [{ 'if-match': etag.slice(1, -1) }, 200],
    [{ 'if-match': `"0", ${etag}` }, 200],
    [{ 'if-match': '*' }, 200],
    [{ 'if-match': '"0"' }, 412],
    [{ 'if-none-match': '"0"' }, 200],
    [{ 'if-none-match': etag }, 304],
    [{ 'if-none-match': '*' }, 304],
    [{ 'if-modified-since': past }, 200],
    [{ 'if-modified-since': future }, 200],
    [{ 'if-unmodified-since': past }, 412],
    [{ 'if-unmodified-since': future }, 200],
    [{ 'if-match': etag, 'if-unmodified-since': past }, 200],
    [{ 'if-none-match': '"0"', 'if-modified-since': future }, 200],
    [{ 'if-modified-since': 'nonsense' }, 200],
  ] as const)
    it(`${JSON.stringify(headers)}: ${status}`, async () => {
      for (const method of ['GET', 'HEAD']) {
        const reply = (await bucket.ask(method, '/ten', { headers })).succeeded(status)
        if (status !== 304) continue
        assert.deepEqual([reply.text, reply.header('etag')], ['', etag])
        assert.equal(reply.header('x-obj-error-code'), 'NotModified')
      }
    })
  it('If-Modified-Since of its own time: 304', async () => {
    const time = (await get()).header('last-modified')!
    ;(await get({ 'if-modified-since': time })).succeeded(304)
    ;(await get({ 'if-unmodified-since': time })).succeeded(200)
  })
})

describe('conditional writes', () => {
  /** Asserts that one attempt succeeds, and that the others fail by their condition. */
  async function oneOf(attempts: readonly Promise<ObjectReply>[]): Promise<void> {
    const replies = await Promise.all(attempts)
    const failed = replies.filter(({ status }) => status !== 200)
    assert.equal(failed.length, attempts.length - 1)
    for (const reply of failed) reply.refused('PreconditionFailed')
  }
  it('If-None-Match: * creates once, however many ask at once', async () => {
    const attempts = Array.from({ length: 10 }, (_, i) =>
      bucket.ask('PUT', '/once', { body: `from ${i}`, headers: { 'if-none-match': '*' } }),
    )
    await oneOf(attempts)
  })
  it('If-Match replaces once, however many ask at once; of a missing key NoSuchKey', async () => {
    const current = (await bucket.put('cas', '0')).header('etag')!
    const attempts = Array.from({ length: 10 }, (_, i) =>
      bucket.ask('PUT', '/cas', { body: `${i + 1}`, headers: { 'if-match': current } }),
    )
    await oneOf(attempts)
    ;(await bucket.ask('PUT', '/never', { body: '', headers: { 'if-match': etag } })).refused('NoSuchKey')
  })
  it('of DeleteObject: If-Match', async () => {
    await bucket.put('deleted', 'x')
    ;(await bucket.ask('DELETE', '/deleted', { headers: { 'if-match': '"0"' } })).refused('PreconditionFailed')
    ;(await bucket.ask('DELETE', '/deleted', { headers: { 'if-match': '*' } })).succeeded(204)
  })
})

function base64OfCrc(value: number): string {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes.toString('base64')
}

describe('checksums', async () => {
  const values = {
    crc32: base64OfCrc(crc32('0123456789')),
    sha1: createHash('sha1').update('0123456789').digest('base64'),
    sha256: createHash('sha256').update('0123456789').digest('base64'),
    sha512: createHash('sha512').update('0123456789').digest('base64'),
    md5: createHash('md5').update('0123456789').digest('base64'),
    xxhash64: Buffer.from(await xxhash64('0123456789'), 'hex').toString('base64'),
    xxhash3: Buffer.from(await xxhash3('0123456789'), 'hex').toString('base64'),
    xxhash128: Buffer.from(await xxhash128('0123456789'), 'hex').toString('base64'),
  }
  it('of a request are checked, kept, and shown when they are asked for', async () => {
    for (const [algorithm, value] of Object.entries(values)) {
      const name = `x-obj-checksum-${algorithm}`
      const put = await bucket.put('sum', '0123456789', { [name]: value })
      assert.deepEqual(shown(put, [name, 'x-obj-checksum-type']), [value, 'FULL_OBJECT'])
      assert.equal((await bucket.ask('GET', '/sum')).header(name), null, 'nobody asked')
      const headers = { 'x-obj-checksum-mode': 'ENABLED' }
      for (const method of ['GET', 'HEAD']) {
        assert.equal((await bucket.ask(method, '/sum', { headers })).header(name), value)
      }
    }
  })
  it('of a large body are computed as it comes, in headers and trailers', async () => {
    const body = Buffer.alloc(300_000, 'large ')
    const digests: Readonly<Record<string, string>> = {
      sha512: createHash('sha512').update(body).digest('hex'),
      md5: createHash('md5').update(body).digest('hex'),
      xxhash64: await xxhash64(body),
      xxhash3: await xxhash3(body),
      xxhash128: await xxhash128(body),
    }
    for (const [algorithm, hex] of Object.entries(digests)) {
      const [name, value] = [`x-amz-checksum-${algorithm}`, Buffer.from(hex, 'hex').toString('base64')]
      const put = await bucket.put('large-sum', body, { [name]: value })
      assert.equal(put.header(name), value)
      const wrong = Buffer.from(value, 'base64')
      wrong[0]! ^= 1
      const headers = { [name]: wrong.toString('base64') }
      ;(await bucket.ask('PUT', '/large-sum', { body, headers })).refused('BadDigest')
      const framed = (trailer: string) =>
        bucket.ask('PUT', '/trailer-sum', {
          body: Buffer.concat([
            Buffer.from(`${body.length.toString(16)}\r\n`),
            body,
            Buffer.from(`\r\n0\r\n${name}:${trailer}\r\n\r\n`),
          ]),
          headers: {
            'x-amz-content-sha256': 'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
            'x-amz-decoded-content-length': String(body.length),
            'x-amz-trailer': name,
          },
        })
      assert.equal((await framed(value)).succeeded(200).header(name), value)
      ;(await framed(headers[name]!)).refused('BadDigest')
      const copy = { 'x-amz-copy-source': `${bucket.name}/ten`, 'x-amz-checksum-algorithm': algorithm.toUpperCase() }
      const copied = (await bucket.ask('PUT', '/copy-sum', { headers: copy })).document('CopyObjectResult')
      assert.equal(copied.text(`Checksum${algorithm.toUpperCase()}`), values[algorithm as keyof typeof values])
      const listed = (await bucket.ask('GET', '?list-type=2&prefix=copy-sum')).document('ListBucketResult')
      assert.equal(listed.text('Contents/ChecksumAlgorithm'), algorithm.toUpperCase())
    }
  })
  it('of the whole are never on ranges and errors', async () => {
    const headers = { 'x-obj-checksum-mode': 'ENABLED' }
    const replies = [await get({ ...headers, range: 'bytes=0-1' }), await get({ ...headers, 'if-match': '"0"' })]
    for (const reply of replies)
      assert.equal(
        [...reply.headers.keys()].find((name) => name.includes('checksum')),
        undefined,
      )
  })
  it('what is none is InvalidRequest, InvalidDigest for Content-MD5; two are InvalidRequest', async () => {
    for (const [headers, code] of [
      [{ 'x-obj-checksum-crc32': 'nonsense' }, 'InvalidRequest'],
      [{ 'x-obj-checksum-md4': 'AAAA' }, 'InvalidRequest'],
      [{ 'x-obj-checksum-crc32': values.crc32, 'x-obj-checksum-sha1': values.sha1 }, 'InvalidRequest'],
      [{ 'x-obj-sdk-checksum-algorithm': 'CRC32' }, 'InvalidRequest'],
      [{ 'content-md5': 'nonsense' }, 'InvalidDigest'],
    ] as const) {
      ;(await bucket.ask('PUT', '/sum', { body: 'x', headers })).refused(code)
    }
  })
})

describe('copies', () => {
  const copy = (headers: Readonly<Record<string, string>>, to = '/copy', from = 'source') =>
    bucket.ask('PUT', to, { headers: { 'x-obj-copy-source': `${bucket.name}/${from}`, ...headers } })
  const source = { 'content-type': 'a/b', 'x-obj-meta-kept': 'yes', 'x-obj-tagging': 't=1' }

  it('keep metadata and tags, or replace them, by their directives', async () => {
    await bucket.put('source', 'copied', source)
    ;(await copy({})).succeeded(200)
    assert.deepEqual(shown(await bucket.ask('HEAD', '/copy'), Object.keys(source).slice(0, 2)), ['a/b', 'yes'])
    ;(await copy({ 'x-obj-metadata-directive': 'REPLACE', 'x-obj-meta-new': '1' })).succeeded(200)
    const replaced = await bucket.ask('HEAD', '/copy')
    assert.deepEqual(shown(replaced, ['x-obj-meta-kept', 'x-obj-meta-new', 'x-obj-tagging-count']), [null, '1', '1'])
    ;(await copy({ 'x-obj-tagging-directive': 'REPLACE', 'x-obj-tagging': 'a=1&b=2' })).succeeded(200)
    const tags = (await bucket.ask('GET', '/copy?tagging')).document('Tagging')
    assert.deepEqual(tags.texts('TagSet/Tag/Key'), ['a', 'b'])
    ;(await copy({ 'x-obj-metadata-directive': 'nonsense' })).refused('InvalidArgument')
  })
  it('to itself must change something', async () => {
    ;(await copy({}, '/source')).refused('InvalidRequest')
    ;(await copy({ 'x-obj-metadata-directive': 'REPLACE', 'x-obj-meta-b': '2' }, '/source')).succeeded(200)
    assert.equal(await bucket.read('source'), 'copied')
  })
  it('take conditions on their source', async () => {
    const now = (await bucket.ask('HEAD', '/source')).header('etag')!
    ;(await copy({ 'x-obj-copy-source-if-match': now })).succeeded(200)
    const refused = (await copy({ 'x-obj-copy-source-if-none-match': now })).refused('PreconditionFailed')
    assert.equal(refused.text('Condition'), 'x-amz-copy-source-If-None-Match')
  })
  it('of what names no object are InvalidArgument', async () => {
    for (const name of ['', '/', bucket.name, `${bucket.name}/`, '%zz/key']) {
      ;(await bucket.ask('PUT', '/copy', { headers: { 'x-obj-copy-source': name } })).refused('InvalidArgument')
    }
  })
})

describe('DeleteObjects', () => {
  const deleteMany = (body: string, headers: Readonly<Record<string, string>> = {}) => {
    const md5 = { 'content-md5': createHash('md5').update(body).digest('base64') }
    return bucket.ask('POST', '?delete', { body, headers: { ...md5, ...headers } })
  }
  it('quiet tells failures only', async () => {
    await bucket.put('q')
    const body =
      '<Delete><Quiet>true</Quiet><Object><Key>q</Key></Object><Object><Key>ten</Key><ETag>"0"</ETag></Object></Delete>'
    const result = (await deleteMany(body)).document('DeleteResult')
    assert.deepEqual(
      [result.names, result.text('Error/Key'), result.text('Error/Code')],
      [['Error'], 'ten', 'PreconditionFailed'],
    )
  })
  it('needs Content-MD5 or a checksum', async () => {
    const body = '<Delete><Object><Key>a</Key></Object></Delete>'
    ;(await bucket.ask('POST', '?delete', { body })).refused('InvalidRequest')
    const sha256 = { 'x-amz-checksum-sha256': createHash('sha256').update(body).digest('base64') }
    ;(await bucket.ask('POST', '?delete', { body, headers: sha256 })).succeeded(200)
    ;(await deleteMany(body, { 'content-md5': Buffer.alloc(16).toString('base64') })).refused('BadDigest')
  })
  it('a document that is none is MalformedXML', async () => {
    for (const body of [
      '',
      '<Delete/>',
      '<Delete><Object/></Delete>',
      '<Delete><Object><Key/></Object></Delete>',
      '{"a":1}',
    ]) {
      ;(await deleteMany(body)).refused('MalformedXML')
    }
  })
})
