/** Hostile requests: each is refused in the specified way, at once, and the store goes on. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { afterEach, describe, it } from 'node:test'
import { formBody } from '../../../support/form-body.ts'
import { store } from './shared-store.ts'

const MIB = 1 << 20
const bucket = await store.newBucket()
await bucket.put('key', 'content')

afterEach(async () => {
  assert.equal((await store.request('GET', '/health')).json(), 'Healthy')
  assert.equal(await bucket.read('key'), 'content')
})

/** The answer to these bytes, on a new connection. */
async function rawReply(...pieces: readonly (Uint8Array | string)[]) {
  const connection = await store.connect()
  for (const piece of pieces) connection.write(piece)
  try {
    return await connection.reply()
  } finally {
    connection.close()
  }
}

describe('XML', () => {
  const LAUGHS = Array.from({ length: 9 }, (_, i) => `<!ENTITY l${i + 1} "${`&l${i};`.repeat(10)}">`).join('')
  const BOMB = `<!DOCTYPE lolz [<!ENTITY l0 "lol">${LAUGHS}]>`
  const FILE = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
  const documents: readonly (readonly [string, string, (content: string) => string])[] = [
    [
      '?cors',
      'PUT',
      (text) =>
        `<CORSConfiguration><CORSRule><AllowedOrigin>${text}</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>`,
    ],
    ['?delete', 'POST', (text) => `<Delete><Object><Key>${text}</Key></Object></Delete>`],
    ['/key?tagging', 'PUT', (text) => `<Tagging><TagSet><Tag><Key>${text}</Key><Value/></Tag></TagSet></Tagging>`],
  ]
  for (const [rest, method, documentOf] of documents) {
    const ask = (body: string) =>
      bucket.ask(method, rest, { body, headers: { 'content-md5': createHash('md5').update(body).digest('base64') } })
    it(`${method} ${rest}: entities, external ones, bombs and DOCTYPEs are MalformedXML`, async () => {
      for (const body of [
        BOMB + documentOf('&l9;'),
        FILE + documentOf('&x;'),
        documentOf('&undefined;'),
        `<!DOCTYPE a SYSTEM "http://127.0.0.1:1/a.dtd">${documentOf('a')}`,
        documentOf('a').slice(0, -1),
        documentOf('a') + documentOf('a'),
        documentOf('<![CDATA[a'),
        documentOf('&#0;'),
        documentOf('&#xFFFFFFFF;'),
      ]) {
        ;(await ask(body)).refused('MalformedXML')
      }
    })
    it(`${method} ${rest}: depth without end is MalformedXML`, async () => {
      ;(await ask('<a>'.repeat(5000))).refused('MalformedXML')
      ;(await ask(documentOf('<a>'.repeat(5000)))).refused('MalformedXML')
    })
  }
  it('bytes that are not UTF-8 are MalformedXML', async () => {
    const body = Buffer.from('<Tagging><TagSet><Tag><Key>\xff\xfe</Key><Value/></Tag></TagSet></Tagging>', 'latin1')
    ;(await bucket.ask('PUT', '/key?tagging', { body })).refused('MalformedXML')
  })
})

describe('paths', () => {
  it('that climb never leave the data directory, and are keys like any other', async () => {
    const climb = '../'.repeat(12)
    for (const key of [`${climb}tmp/trilog-escaped`, `%2e%2e/%2e%2e/trilog-escaped`, `..%2f..%2ftrilog-escaped`]) {
      ;(await store.request('PUT', `/${bucket.name}/${key}`, { body: 'escaped' })).succeeded(200)
    }
    assert(!existsSync('/tmp/trilog-escaped') && !existsSync(`${store.dataDirectory}/../trilog-escaped`))
    ;(await store.request('GET', '/../health')).refused('NoSuchBucket')
  })
  it('do not reach management routes by another writing', async () => {
    for (const path of ['/%68ealth', '/health/', '//health', '/./health', '/v1//platform/capabilities']) {
      const reply = await store.request('GET', path)
      assert(reply.status >= 400, path)
      assert.notEqual(reply.header('x-obj-error-code'), null, path)
    }
  })
  it('NUL bytes and bytes that are not UTF-8: kept or InvalidURI, never cut', async () => {
    await bucket.put('nul\0behind', 'nul')
    assert.equal(await bucket.read('nul\0behind'), 'nul')
    ;(await bucket.ask('GET', '/nul')).refused('NoSuchKey')
    ;(
      await rawReply(Buffer.from(`GET /${bucket.name}/\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n`, 'latin1'))
    ).refused('InvalidURI')
  })
})

describe('headers', () => {
  it('floods are refused: many, large, and without end', async () => {
    const many = Array.from({ length: 500 }, (_, i) => `x-h${i}: a\r\n`).join('')
    const large = `x-large: ${'a'.repeat(40_000)}\r\n`
    const metadata = Array.from({ length: 60 }, (_, i) => `x-amz-meta-${i}: ${'a'.repeat(100)}\r\n`).join('')
    for (const lines of [many, large]) {
      assert((await rawReply(`GET /${bucket.name}/key HTTP/1.1\r\nHost: localhost\r\n${lines}\r\n`)).status >= 400)
    }
    ;(
      await rawReply(`PUT /${bucket.name}/meta HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n${metadata}\r\n`)
    ).refused('MetadataTooLarge')
  })
  it('that disagree about the length of the body, or smuggle, are refused by the connection', async () => {
    for (const lines of [
      'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n',
      'Content-Length: 5\r\nContent-Length: 6\r\n',
      'Content-Length: -1\r\n',
      'Content-Length: 1e3\r\n',
    ]) {
      const reply = await rawReply(
        `PUT /${bucket.name}/smuggled HTTP/1.1\r\nHost: localhost\r\n${lines}\r\n`,
        '0\r\n\r\n',
      )
      assert(reply.status >= 400 && reply.status < 500, `${lines}: ${reply.status}`)
    }
    ;(await bucket.ask('GET', '/smuggled')).refused('NoSuchKey')
  })
  it('of metadata that are not UTF-8 are refused, not stored as something else', async () => {
    const head = `PUT /${bucket.name}/latin HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nx-amz-meta-a: `
    ;(await rawReply(Buffer.from(`${head}caf\xe9 b\r\n\r\n`, 'latin1'))).refused('InvalidArgument')
    ;(await rawReply(Buffer.from(`${head}café b\r\n\r\n`))).succeeded(200)
  })
  it('cannot be added to answers', async () => {
    await bucket.put('plain', '', { 'content-type': 'a/b' })
    const query = `?response-content-disposition=${encodeURIComponent('a\r\nset-cookie: b=c')}`
    const reply = await bucket.ask('GET', `/plain${query}`)
    assert.equal(reply.header('set-cookie'), null)
    const body = formBody('b', [
      ['key', 'k'],
      ['x-amz-meta-a', 'b\r\nset-cookie: c=d'],
      ['file', 'x', 'f'],
    ])
    ;(await bucket.ask('POST', '', { body, headers: { 'content-type': 'multipart/form-data; boundary=b' } })).refused(
      'InvalidArgument',
    )
  })
})

describe('bodies', () => {
  it('that end short leave nothing', async () => {
    const connection = await store.connect()
    connection.write(`PUT /${bucket.name}/short HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nonly this`)
    connection.close()
    ;(await bucket.ask('GET', '/short')).refused('NoSuchKey')
  })
  it('a form without end is cut off: fields, headers, preamble', async () => {
    const head = `POST /${bucket.name} HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\nTransfer-Encoding: chunked\r\n\r\n`
    const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`
    const field = '--b\r\nContent-Disposition: form-data; name="key"\r\n\r\n'
    for (const begin of ['x', '--b\r\nx', field]) {
      const endless = chunk('y'.repeat(30_000))
      ;(await rawReply(head, chunk(begin), endless)).refused('MaxPostPreDataLengthExceededError')
    }
  })
  it('a file without end is cut off at the largest object', async () => {
    const begin =
      '--b\r\nContent-Disposition: form-data; name="key"\r\n\r\nendless\r\n--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n'
    const body = Buffer.concat([Buffer.from(begin), Buffer.alloc(16 * MIB + 1)])
    const headers = { 'content-type': 'multipart/form-data; boundary=b', 'transfer-encoding': 'chunked' }
    ;(await bucket.ask('POST', '', { body, headers })).refused('EntityTooLarge')
    ;(await bucket.ask('GET', '/endless')).refused('NoSuchKey')
  })
  it('aws-chunked framing that lies is IncompleteBody, MalformedTrailerError or InvalidChunkSizeError, and stores nothing', async () => {
    const put = (body: string, decoded: string, more: Readonly<Record<string, string>> = {}) =>
      bucket.ask('PUT', '/lie', {
        body,
        headers: {
          'x-amz-content-sha256': 'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
          'x-amz-decoded-content-length': decoded,
          ...more,
        },
      })
    const trailer = { 'x-amz-trailer': 'x-amz-checksum-crc32' }
    for (const body of [
      '4\r\nabcd\r\n0\r\n\r\n', // shorter than the declared length
      '6\r\nabcdef\r\n0\r\n\r\n', // longer than the declared length
      '5\r\nabcde',
      '5\r\nabcdeXX0\r\n\r\n',
      'ffffffffffffff\r\nabcde\r\n',
      '-5\r\nabcde\r\n0\r\n\r\n',
      '5;chunk-signature=nonsense\r\nabcde\r\n0\r\n\r\n',
      `${'0'.repeat(5000)}5\r\nabcde\r\n0\r\n\r\n`,
      '',
    ]) {
      ;(await put(body, '5')).refused('IncompleteBody')
    }
    ;(await put('5\r\nabcde\r\n0\r\nx-amz-checksum-crc32:AAAA\r\n\r\n', '5')).refused('MalformedTrailerError')
    ;(await put('5\r\nabcde\r\n0\r\n\r\n', '5', trailer)).refused('MalformedTrailerError')
    ;(await put('5\r\nabcde\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n', '5', trailer)).refused('BadDigest')
    ;(await put('1\r\na\r\n4\r\nbcde\r\n0\r\n\r\n', '5')).refused('InvalidChunkSizeError')
    ;(await put('5\r\nabcde\r\n0\r\n\r\n', 'nonsense')).refused('InvalidArgument')
    ;(await put('5\r\nabcde\r\n0\r\n\r\n', String(16 * MIB + 1))).refused('EntityTooLarge')
    ;(await bucket.ask('GET', '/lie')).refused('NoSuchKey')
    ;(await put('5\r\nabcde\r\n0\r\n\r\n', '5')).succeeded(200)
    assert.equal(await bucket.read('lie'), 'abcde')
  })
})

describe('queries', () => {
  it('names of prototypes and repeated parameters are nothing special', async () => {
    ;(await bucket.ask('GET', '/key?__proto__=1&constructor=2')).succeeded(200)
    const listing = (await bucket.ask('GET', '?list-type=2&prefix=ke&prefix=x')).document('ListBucketResult')
    assert.deepEqual(listing.texts('Contents/Key'), ['key'])
    await bucket.put('proto', '', { 'x-obj-meta-__proto__': 'kept' })
    assert.equal((await bucket.ask('HEAD', '/proto')).header('x-obj-meta-__proto__'), 'kept')
  })
})
