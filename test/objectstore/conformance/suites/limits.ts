/** Specification "Limits": values at a limit pass, values above it are refused in the specified way. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import { store } from './shared-store.ts'

const MIB = 1 << 20
const bucket = await store.newBucket()
await bucket.put('key', 'content')

const md5 = (body: string): string => createHash('md5').update(body).digest('base64')
const deleteMany = (body: string) => bucket.ask('POST', '?delete', { body, headers: { 'content-md5': md5(body) } })
const tagsIn = (tags: readonly (readonly [string, string])[]): string =>
  `<Tagging><TagSet>${tags.map(([key, value]) => `<Tag><Key>${key}</Key><Value>${value}</Value></Tag>`).join('')}</TagSet></Tagging>`
const putTags = (tags: readonly (readonly [string, string])[]) =>
  bucket.ask('PUT', '/key?tagging', { body: tagsIn(tags) })
const putMetadata = (headers: Readonly<Record<string, string>>) => bucket.ask('PUT', '/meta', { body: '', headers })
const padded = (document: string, bytes: number): string =>
  document.replace('><', `>${' '.repeat(bytes - document.length)}<`)

describe('limits', () => {
  it('request target: 8192 bytes', async () => {
    const target = `/${bucket.name}/key?x=`
    ;(await store.request('GET', target.padEnd(8192, 'y'))).succeeded(200)
    ;(await store.request('GET', target.padEnd(8193, 'y'))).refused('InvalidURI')
  })
  it('aggregate headers: 32768 bytes', async () => {
    const big = (bytes: number) => bucket.ask('GET', '/key', { headers: { 'x-big': 'x'.repeat(bytes) } })
    ;(await big(32_500)).succeeded(200)
    ;(await big(32_769)).refused('RequestHeaderSectionTooLarge')
  })
  it('query parameters: 64', async () => {
    const query = (count: number): string => Array.from({ length: count }, (_, i) => `p${i}=`).join('&')
    ;(await bucket.ask('GET', `/key?${query(64)}`)).succeeded(200)
    ;(await bucket.ask('GET', `/key?${query(65)}`)).refused('InvalidURI')
  })
  it('key: 1024 bytes of UTF-8', async () => {
    const key = 'é'.repeat(512)
    await bucket.put(key, 'long')
    assert.equal(await bucket.read(key), 'long')
    const refused = (await bucket.ask('PUT', `/${encodeURIComponent(`${key}x`)}`, { body: '' })).refused(
      'KeyTooLongError',
    )
    assert.deepEqual([refused.text('Size'), refused.text('MaxSizeAllowed')], ['1025', '1024'])
  })
  it('key of the source of a copy: 1024 bytes of UTF-8', async () => {
    const key = 'é'.repeat(512)
    await bucket.put(key, 'long')
    const upload = await bucket.newUpload('copied')
    for (const target of ['/copied', `/copied?partNumber=1&uploadId=${upload.id}`]) {
      const copyOf = (name: string) =>
        bucket.ask('PUT', target, { headers: { 'x-obj-copy-source': `${bucket.name}/${name}` } })
      ;(await copyOf(encodeURIComponent(key))).succeeded(200)
      for (const name of [encodeURIComponent(`${key}x`), 'k'.repeat(1025)]) {
        const refused = (await copyOf(name)).refused('KeyTooLongError')
        assert.deepEqual([refused.text('Size'), refused.text('MaxSizeAllowed')], ['1025', '1024'])
      }
    }
  })
  it('PutObject local payload: 16 MiB, refused by its declared length before it is sent', async () => {
    await bucket.put('largest', Buffer.alloc(16 * MIB, 'x'))
    assert.equal((await bucket.ask('HEAD', '/largest')).header('content-length'), String(16 * MIB))
    const connection = await store.connect()
    connection.write(
      `PUT /${bucket.name}/larger HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${16 * MIB + 1}\r\n\r\n`,
    )
    const refused = (await connection.reply()).refused('EntityTooLarge')
    assert.deepEqual(
      [refused.text('ProposedSize'), refused.text('MaxSizeAllowed')],
      [String(16 * MIB + 1), String(16 * MIB)],
    )
    connection.close()
    ;(await bucket.ask('HEAD', '/larger')).refused('NoSuchKey')
  })
  it('PutObject local payload: 16 MiB in chunked encoding too, refused when it is exceeded', async () => {
    const headers = { 'transfer-encoding': 'chunked' }
    ;(await bucket.ask('PUT', '/chunked', { body: Buffer.alloc(16 * MIB + 1), headers })).refused('EntityTooLarge')
    ;(await bucket.ask('PUT', '/chunked', { body: 'chunked', headers })).succeeded(200)
    assert.equal(await bucket.read('chunked'), 'chunked')
  })
  it('a part: as large as an object of one PUT', async () => {
    const upload = await bucket.newUpload('parts')
    const connection = await store.connect()
    const target = `/${bucket.name}/parts?partNumber=1&uploadId=${upload.id}`
    connection.write(`PUT ${target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${16 * MIB + 1}\r\n\r\n`)
    ;(await connection.reply()).refused('EntityTooLarge')
    connection.close()
  })
  it('DeleteObjects body: 1 MiB', async () => {
    const body = '<Delete><Object><Key>a</Key></Object></Delete>'
    ;(await deleteMany(padded(body, MIB))).succeeded(200)
    ;(await deleteMany(padded(body, MIB + 1))).refused('EntityTooLarge')
  })
  it('DeleteObjects keys: 1000', async () => {
    const body = (count: number): string => `<Delete>${'<Object><Key>a</Key></Object>'.repeat(count)}</Delete>`
    const document = (await deleteMany(body(1000))).document('DeleteResult')
    assert.equal(document.all('Deleted').length, 1000)
    ;(await deleteMany(body(1001))).refused('MalformedXML')
  })
  it('object tags: 10', async () => {
    const tags = (count: number) => Array.from({ length: count }, (_, i) => [`k${i}`, ''] as const)
    ;(await putTags(tags(10))).succeeded(200)
    ;(await putTags(tags(11))).refused('InvalidTag')
    const header = tags(11)
      .map(([key]) => key)
      .join('&')
    ;(await bucket.ask('PUT', '/tagged', { body: '', headers: { 'x-obj-tagging': header } })).refused('InvalidTag')
  })
  it('object tags: keys of 128 bytes, values of 256 bytes, in UTF-8', async () => {
    ;(await putTags([['é'.repeat(64), 'é'.repeat(128)]])).succeeded(200)
    ;(await putTags([[`${'é'.repeat(64)}x`, '']])).refused('InvalidTag')
    ;(await putTags([['k', `${'é'.repeat(128)}x`]])).refused('InvalidTag')
    ;(await putTags([['', 'v']])).refused('InvalidTag')
  })
  it('object tags: 2 KiB in total', async () => {
    const tags = (bytes: number) =>
      Array.from({ length: 8 }, (_, i) => [`${i}`, 'v'.repeat(i === 0 ? bytes - 7 * 256 - 1 : 255)] as const)
    ;(await putTags(tags(2048))).succeeded(200)
    ;(await putTags(tags(2049))).refused('InvalidTag')
  })
  it('user metadata: keys of 128 bytes', async () => {
    ;(await putMetadata({ [`x-obj-meta-${'k'.repeat(128)}`]: 'v' })).succeeded(200)
    ;(await putMetadata({ [`x-obj-meta-${'k'.repeat(129)}`]: 'v' })).refused('MetadataTooLarge')
  })
  it('user metadata: values of 2 KiB, 2 KiB in total, keys and values counted', async () => {
    ;(await putMetadata({ 'x-obj-meta-k': 'v'.repeat(2047) })).succeeded(200)
    ;(await putMetadata({ 'x-obj-meta-k': 'v'.repeat(2048) })).refused('MetadataTooLarge')
    ;(await putMetadata({ 'x-obj-meta-k': 'v'.repeat(1023), 'x-amz-meta-l': 'v'.repeat(1023) })).succeeded(200)
    ;(await putMetadata({ 'x-obj-meta-k': 'v'.repeat(1023), 'x-amz-meta-l': 'v'.repeat(1024) })).refused(
      'MetadataTooLarge',
    )
  })
  it('bucket CORS: 64 KiB, 100 rules', async () => {
    const rule = '<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>'
    const put = (body: string) => bucket.ask('PUT', '?cors', { body })
    const rules = (count: number): string => `<CORSConfiguration>${rule.repeat(count)}</CORSConfiguration>`
    ;(await put(rules(100))).succeeded(200)
    ;(await put(rules(101))).refused('MalformedXML')
    ;(await put(padded(rules(1), 65_536))).succeeded(200)
    ;(await put(padded(rules(1), 65_537))).refused('EntityTooLarge')
    await bucket.ask('DELETE', '?cors')
  })
  it('bucket policy: 20 KiB', async () => {
    const limited = await store.newBucket()
    const policy = (bytes: number): string => {
      const statement = {
        Effect: 'Allow',
        Principal: '*',
        Action: 's3:GetObject',
        Resource: `arn:aws:s3:::${limited.name}/*`,
      }
      return JSON.stringify({ Version: '2012-10-17', Statement: [statement] }).padEnd(bytes)
    }
    ;(await limited.ask('PUT', '?policy', { body: policy(20_480) })).succeeded(204)
    ;(await limited.ask('PUT', '?policy', { body: policy(20_481) })).refused('EntityTooLarge')
  })
  it('what was refused left nothing behind', async () => {
    assert.equal(
      (await bucket.ask('GET', '?list-type=2&prefix=tagged')).document('ListBucketResult').text('KeyCount'),
      '0',
    )
  })
})

describe('bucket names', () => {
  const create = (name: string) => store.request('PUT', `/${name}`)
  it('3 to 63 characters of a-z, 0-9, dot and dash, with a letter or digit at both ends', async () => {
    for (const name of ['abc', 'x'.repeat(63), 'a.b-c.d', '0-9']) (await create(name)).succeeded(200)
    for (const name of [
      'ab',
      'x'.repeat(64),
      'Upper',
      'under_score',
      '-ab',
      'ab-',
      '.ab',
      'a..b',
      'a.-b',
      '1.2.3.4',
      'caf%C3%A9',
    ]) {
      ;(await create(name)).refused('InvalidBucketName')
    }
  })
})
