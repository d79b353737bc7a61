/** Tests with settings of their own: signatures (contract `sigv4`, Amazon S3), extensions, another limit of a PUT, credentials read again. */
import assert from 'node:assert/strict'
import { createHash, createHmac } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { formBody } from '../../support/form-body.ts'
import { ObjectStoreServer } from '../../support/objectstore.ts'
import type { FormPart } from '../../support/form-body.ts'
import type { AccessKey, ObjectReply } from '../../support/objectstore.ts'
import { eventually } from '../../support/waiting.ts'
import { frameSigned, KEY_ID, presign, REGION, SECRET, signHeader, signingKey } from '../../support/signer.ts'
import type { Draft } from '../../support/signer.ts'

const ALL = ['read', 'write', 'list', 'delete', 'admin']
const KEYS: readonly AccessKey[] = [
  { access_key_id: KEY_ID, secret_access_key: SECRET, principal: 'alice', permissions: ALL },
  { access_key_id: 'AKIDREADER', secret_access_key: 'reader+/=', principal: 'alice', permissions: ['read', 'list'] },
  { access_key_id: 'AKIDOTHER', secret_access_key: 'other', principal: 'bob', permissions: ALL },
]
const READER = { keyId: 'AKIDREADER', secret: 'reader+/=' }
const OTHER = { keyId: 'AKIDOTHER', secret: 'other' }
const PUT_BYTES_MAX = 6 << 20

const sha256 = (body: Uint8Array | string): string => createHash('sha256').update(body).digest('hex')
const md5 = (body: string): string => createHash('md5').update(body).digest('base64')
/** A time in the form `20130524T000000Z`. */
const timestampAt = (ms: number): string => new Date(ms).toISOString().replaceAll(/[-:]|\.\d+/g, '')
const now = (): string => timestampAt(Date.now())

let store: ObjectStoreServer
before(async () => {
  store = await ObjectStoreServer.start({
    keys: KEYS,
    env: { OBJSTORE_EXTENSIONS: 'list-v1,ignore-acl-headers', OBJSTORE_MAX_PUT_BYTES: String(PUT_BYTES_MAX) },
  })
  ;(await ask('PUT', '/signed')).succeeded(200)
  ;(await ask('PUT', '/signed/key', 'content')).succeeded(200)
})
after(() => store.stop())

/** A request with its signature in a header. */
function ask(method: string, path: string, body: Uint8Array | string = '', draft: Draft = {}): Promise<ObjectReply> {
  const signed = signHeader({
    method,
    path,
    timestamp: now(),
    payloadHash: sha256(body),
    ...draft,
    headers: { host: store.readyLine.http, ...draft.headers },
  })
  const target = signed.query === '' ? signed.path : `${signed.path}?${signed.query}`
  return store.request(method, target, { headers: Object.fromEntries(signed.headers), body })
}

/** A request to a pre-signed URL. */
function follow(draft: Parameters<typeof presign>[0], body?: string): Promise<ObjectReply> {
  const host = store.readyLine.http
  const { method, path, query } = presign({ timestamp: now(), ...draft, headers: { host } })
  return store.request(method, `${path}?${query}`, { headers: { host }, ...(body !== undefined && { body }) })
}

describe('a signature in the header', () => {
  it('says who asks: the key’s principal, with the key’s permissions', async () => {
    assert.equal((await ask('GET', '/signed/key')).succeeded(200).text, 'content')
    assert.equal((await ask('GET', '/signed/key', '', READER)).succeeded(200).text, 'content')
    ;(await ask('PUT', '/signed/key', 'x', READER)).refused('AccessDenied')
    ;(await ask('GET', '/signed/key', '', OTHER)).refused('NoSuchBucket')
    ;(await ask('PUT', '/signed', '', OTHER)).refused('BucketAlreadyExists')
  })
  it('covers odd keys and queries', async () => {
    for (const key of ['a b+c', 'é/../ü', "~!*'()", '%41', 'a//b']) {
      ;(await ask('PUT', `/signed/${key}`, key)).succeeded(200)
      assert.equal((await ask('GET', `/signed/${key}`)).succeeded(200).text, key)
    }
    const query = [
      ['list-type', '2'],
      ['prefix', 'a b+'],
      ['delimiter', '/'],
    ] as const
    const listing = (await ask('GET', '/signed', '', { query })).document('ListBucketResult')
    assert.deepEqual(listing.texts('Contents/Key'), ['a b+c'])
  })
  it('wrong: SignatureDoesNotMatch with what was signed; unknown key: InvalidAccessKeyId', async () => {
    const wrong = (await ask('GET', '/signed/key', '', { secret: 'wrong' })).refused('SignatureDoesNotMatch')
    for (const name of ['AWSAccessKeyId', 'StringToSign', 'SignatureProvided', 'CanonicalRequest'])
      assert(wrong.text(name), name)
    ;(await ask('GET', '/signed/key', '', { keyId: 'AKIDNOBODY' })).refused('InvalidAccessKeyId')
  })
  it('of another time: RequestTimeTooSkewed beyond 15 minutes; of another region: AuthorizationHeaderMalformed', async () => {
    for (const minutes of [-16, 16]) {
      const timestamp = timestampAt(Date.now() + minutes * 60_000)
      ;(await ask('GET', '/signed/key', '', { timestamp })).refused('RequestTimeTooSkewed')
    }
    ;(await ask('GET', '/signed/key', '', { timestamp: timestampAt(Date.now() - 14 * 60_000) })).succeeded(200)
    const region = (await ask('GET', '/signed/key', '', { region: 'eu-central-1' })).refused(
      'AuthorizationHeaderMalformed',
    )
    assert.equal(region.text('Region'), REGION)
  })
  it('that leaves out an x-amz- header, or that is none, is refused', async () => {
    const unsigned = { headers: { 'x-amz-meta-a': 'b' }, unsigned: ['x-amz-meta-a'] }
    ;(await ask('PUT', '/signed/key', 'x', unsigned)).refused('AccessDenied')
    for (const [authorization, code] of [
      ['Bearer token', 'InvalidArgument'],
      ['AWS4-HMAC-SHA256 nonsense', 'AuthorizationHeaderMalformed'],
      ['AWS4-HMAC-SHA256 Credential=a/b,SignedHeaders=host,Signature=0', 'AuthorizationHeaderMalformed'],
    ] as const) {
      ;(await store.request('GET', '/signed/key', { headers: { authorization } })).refused(code)
    }
  })
  it('never tells a secret: neither ours nor the sender’s', async () => {
    const customer = { 'x-amz-server-side-encryption-customer-key': 'c2VjcmV0', 'x-amz-security-token': 'token-secret' }
    const { text } = await ask('GET', '/signed/key', '', { secret: 'wrong', headers: customer })
    assert(!text.includes(SECRET) && !text.includes('c2VjcmV0') && !text.includes('token-secret'), text)
  })
  it('covers the body: XAmzContentSHA256Mismatch for another one', async () => {
    ;(await ask('PUT', '/signed/key', 'other', { payloadHash: sha256('content') })).refused('XAmzContentSHA256Mismatch')
    ;(await ask('PUT', '/signed/key', 'content', { payloadHash: 'UNSIGNED-PAYLOAD' })).succeeded(200)
  })
  it('covers a form: another one is not stored', async () => {
    const body = formBody('limit', [
      ['key', 'form'],
      ['file', 'content', 'a.txt'],
    ])
    const headers = { 'content-type': 'multipart/form-data; boundary=limit' }
    ;(await ask('POST', '/signed', body, { headers, payloadHash: sha256('content') })).refused(
      'XAmzContentSHA256Mismatch',
    )
    ;(await ask('GET', '/signed/form')).refused('NoSuchKey')
    ;(await ask('POST', '/signed', body, { headers })).succeeded(204)
    assert.equal((await ask('GET', '/signed/form')).succeeded(200).text, 'content')
  })
})

describe('chunks that are signed', () => {
  const payload = Buffer.alloc(20_000, 'chunk')
  const chunks = [payload.subarray(0, 8192), payload.subarray(8192, 16_384), payload.subarray(16_384)]

  async function put(
    tamper: (framed: Buffer) => Buffer,
    withTrailer = false,
    decoded = payload.length,
  ): Promise<ObjectReply> {
    const timestamp = now()
    const host = store.readyLine.http
    const signed = signHeader({
      method: 'PUT',
      path: '/signed/chunks',
      timestamp,
      payloadHash: `STREAMING-AWS4-HMAC-SHA256-PAYLOAD${withTrailer ? '-TRAILER' : ''}`,
      headers: {
        host,
        'x-amz-decoded-content-length': String(decoded),
        ...(withTrailer && { 'x-amz-trailer': 'x-amz-checksum-sha256' }),
      },
    })
    const sum = createHash('sha256').update(payload).digest('base64')
    const trailer = withTrailer ? (['x-amz-checksum-sha256', sum] as const) : null
    const { bytes } = frameSigned(signed.signature, chunks, trailer, timestamp)
    return store.request('PUT', '/signed/chunks', { headers: Object.fromEntries(signed.headers), body: tamper(bytes) })
  }
  const replaced = (from: string | RegExp, to: string) => (framed: Buffer) =>
    Buffer.from(framed.toString('latin1').replace(from, to), 'latin1')

  it('are stored as their payload, with and without a trailer', async () => {
    for (const withTrailer of [false, true]) {
      ;(await put((framed) => framed, withTrailer)).succeeded(200)
      assert((await ask('GET', '/signed/chunks')).bytes.equals(payload))
    }
    ;(await ask('DELETE', '/signed/chunks')).succeeded(204)
  })
  it('that were changed on their way are refused, and nothing is stored', async () => {
    const moved = (framed: Buffer): Buffer => {
      const size = framed.indexOf('\r\n') + 2 + 8192 + 2
      return Buffer.concat([framed.subarray(size, 2 * size), framed.subarray(0, size), framed.subarray(2 * size)])
    }
    const dropped = (framed: Buffer): Buffer => framed.subarray(framed.indexOf('\r\n') + 2 + 8192 + 2)
    for (const [tamper, withTrailer, code, decoded] of [
      [replaced('chunkchunk', 'chunkchunK'), false, 'SignatureDoesNotMatch'],
      [replaced(/chunk-signature=[0-9a-f]{4}/, 'chunk-signature=0000'), false, 'SignatureDoesNotMatch'],
      [moved, false, 'SignatureDoesNotMatch'],
      [dropped, false, 'SignatureDoesNotMatch', payload.length - 8192],
      [replaced(/;chunk-signature=[0-9a-f]{64}/, ''), false, 'IncompleteBody'],
      [replaced(/0;chunk-signature=[0-9a-f]{64}\r\n\r\n$/, ''), false, 'IncompleteBody'],
      [replaced(/(trailer-signature:)[0-9a-f]{4}/, '$10000'), true, 'SignatureDoesNotMatch'],
      [replaced(/x-amz-trailer-signature:[0-9a-f]{64}\r\n/, ''), true, 'MalformedTrailerError'],
      [replaced(/(checksum-sha256:)..../, '$1AAAA'), true, 'SignatureDoesNotMatch'],
    ] as const) {
      ;(await put(tamper, withTrailer, decoded)).refused(code)
      ;(await ask('GET', '/signed/chunks')).refused('NoSuchKey')
    }
  })
})

describe('a URL that was signed', () => {
  it('is good for what it was signed for', async () => {
    ;(await follow({ method: 'PUT', path: '/signed/by url' }, 'by url')).succeeded(200)
    const query = [['response-content-type', 'a/b']] as const
    const reply = (await follow({ path: '/signed/by url', query })).succeeded(200)
    assert.deepEqual(
      [reply.text, reply.header('content-type'), reply.header('x-amz-request-id') === null],
      ['by url', 'a/b', false],
    )
    ;(await follow({ method: 'DELETE', path: '/signed/by url' })).succeeded(204)
  })
  it('brings headers in its query, as SDKs put them there: metadata, tags, the source of a copy; not the checksum of no body', async () => {
    const put = [
      ['x-amz-meta-colour', 'green x'],
      ['x-amz-tagging', 'k=v'],
      ['x-amz-checksum-crc32', 'AAAAAA=='],
      ['x-amz-sdk-checksum-algorithm', 'CRC32'],
    ] as const
    ;(await follow({ method: 'PUT', path: '/signed/hoisted', query: put }, 'hoisted')).succeeded(200)
    const head = await ask('HEAD', '/signed/hoisted')
    assert.deepEqual([head.header('x-amz-meta-colour'), head.header('x-amz-tagging-count')], ['green x', '1'])
    const copy = [['x-amz-copy-source', 'signed/hoisted']] as const
    const copied = await follow({ method: 'PUT', path: '/signed/hoisted copy', query: copy })
    assert.equal(copied.header('x-obj-operation'), 'CopyObject')
    assert.equal((await ask('GET', '/signed/hoisted copy')).text, 'hoisted')
    const plain = await ask('PUT', '/signed/plain', '', { query: [['x-amz-meta-a', 'b']] })
    assert.equal(plain.succeeded(200).header('x-obj-operation'), 'PutObject')
    assert.equal((await ask('HEAD', '/signed/plain')).header('x-amz-meta-a'), null, 'only of a URL that was signed')
  })
  it('by version 2, which boto3 and s3cmd still make: good for what it was signed for', async () => {
    const followV2 = (method: string, target: string, signedTarget = target, seconds = 60, body?: string) => {
      const expires = Math.floor(Date.now() / 1000) + seconds
      const text = `${method}\n\n\n${expires}\n${signedTarget}`
      const signature = encodeURIComponent(createHmac('sha1', SECRET).update(text).digest('base64'))
      const query = `AWSAccessKeyId=${KEY_ID}&Expires=${expires}&Signature=${signature}`
      return store.request(
        method,
        `${target}${target.includes('?') ? '&' : '?'}${query}`,
        body === undefined ? {} : { body },
      )
    }
    ;(await followV2('PUT', '/signed/v2', '/signed/v2', 60, 'by v2')).succeeded(200)
    const reply = (await followV2('GET', '/signed/v2?response-content-type=a/b')).succeeded(200)
    assert.deepEqual(
      [reply.text, reply.header('content-type'), reply.header('x-amz-request-id') === null],
      ['by v2', 'a/b', false],
    )
    ;(await followV2('GET', '/signed/v2', '/signed/key')).refused('SignatureDoesNotMatch')
    assert.equal(
      (await followV2('GET', '/signed/v2', undefined, -1)).refused('AccessDenied').text('Message'),
      'Request has expired',
    )
    ;(await followV2('GET', '/signed/v2', undefined, 8 * 86_400)).refused('AuthorizationQueryParametersError')
  })
  it('expired, not yet valid, of another target, or with parameters that are none: refused', async () => {
    const hourAgo = timestampAt(Date.now() - 3_600_000)
    const expired = (await follow({ path: '/signed/key', timestamp: hourAgo, expires: '60' })).refused('AccessDenied')
    assert.equal(expired.text('Message'), 'Request has expired')
    const inAnHour = timestampAt(Date.now() + 3_600_000)
    ;(await follow({ path: '/signed/key', timestamp: inAnHour })).refused('AccessDenied')
    for (const expires of ['0', '-1', '604801', 'x']) {
      ;(await follow({ path: '/signed/key', expires })).refused('AuthorizationQueryParametersError')
    }
    const { query } = presign({ path: '/signed/other', timestamp: now(), headers: { host: store.readyLine.http } })
    ;(await store.request('GET', `/signed/key?${query}`)).refused('SignatureDoesNotMatch')
    ;(await store.request('GET', '/signed/key?X-Amz-Signature=0')).refused('AuthorizationQueryParametersError')
  })
})

describe('who signs nothing', () => {
  it('is nobody: AccessDenied everywhere, whether the bucket is there or not', async () => {
    for (const [method, target] of [
      ['GET', '/'],
      ['PUT', '/anonymous-bucket'],
      ['GET', '/signed/key'],
      ['GET', '/absent-bucket/key'],
      ['GET', '/signed?list-type=2'],
      ['POST', '/signed?delete'],
    ] as const) {
      ;(await store.request(method, target)).refused('AccessDenied')
    }
  })
  it('may do what a policy allows everybody; x-obj-principal makes nobody somebody', async () => {
    const statement = { Effect: 'Allow', Principal: '*', Action: 's3:GetObject', Resource: 'arn:aws:s3:::signed/*' }
    ;(await ask('PUT', '/signed', JSON.stringify({ Statement: [statement] }), { query: [['policy', '']] })).succeeded(
      204,
    )
    assert.equal((await store.request('GET', '/signed/key')).succeeded(200).text, 'content')
    ;(await store.request('PUT', '/signed/key', { body: 'x', headers: { 'x-obj-principal': 'alice' } })).refused(
      'AccessDenied',
    )
    ;(await ask('DELETE', '/signed', '', { query: [['policy', '']] })).succeeded(204)
    ;(await store.request('GET', '/signed/key', { headers: { 'x-obj-principal': 'alice' } })).refused('AccessDenied')
  })
  it('reaches the management routes', async () => {
    assert.equal((await store.request('GET', '/health')).status, 200)
  })
})

describe('a form that is signed', () => {
  function parts(
    secret = SECRET,
    keyId = KEY_ID,
    expiration = new Date(Date.now() + 60_000).toISOString(),
  ): FormPart[] {
    const date = now()
    const credential = `${keyId}/${date.slice(0, 8)}/${REGION}/s3/aws4_request`
    const named: FormPart[] = [
      ['key', 'posted'],
      ['x-amz-algorithm', 'AWS4-HMAC-SHA256'],
      ['x-amz-credential', credential],
      ['x-amz-date', date],
    ]
    const conditions = [{ bucket: 'signed' }, ...named.map(([name, value]) => ({ [name]: value }))]
    const policy = Buffer.from(JSON.stringify({ expiration, conditions })).toString('base64')
    const signature = createHmac('sha256', signingKey(date.slice(0, 8), REGION, secret))
      .update(policy)
      .digest('hex')
    return [...named, ['policy', policy], ['x-amz-signature', signature], ['file', 'from a form', 'f']]
  }
  const post = (form: readonly FormPart[]) =>
    store.request('POST', '/signed', {
      body: formBody('b', form),
      headers: { 'content-type': 'multipart/form-data; boundary=b' },
    })

  it('is of whoever signed its policy', async () => {
    ;(await post(parts())).succeeded(204)
    assert.equal((await ask('GET', '/signed/posted')).text, 'from a form')
    ;(await post(parts(READER.secret, READER.keyId))).refused('AccessDenied')
    ;(await post(parts(OTHER.secret, OTHER.keyId))).refused('NoSuchBucket')
  })
  it('wrongly, by nobody, too late, or not at all: refused', async () => {
    ;(await post(parts('wrong'))).refused('SignatureDoesNotMatch')
    ;(await post(parts(SECRET, 'AKIDNOBODY'))).refused('InvalidAccessKeyId')
    ;(await post(parts(SECRET, KEY_ID, '2020-01-01T00:00:00Z'))).refused('AccessDenied')
    ;(
      await post([
        ['key', 'posted'],
        ['file', 'x', 'f'],
      ])
    ).refused('AccessDenied')
    ;(await post(parts().filter(([name]) => name !== 'policy'))).refused('InvalidArgument')
  })
})

describe('OBJSTORE_EXTENSIONS', () => {
  it('list-v1: ListObjects version 1 with markers', async () => {
    ;(await ask('PUT', '/version-1')).succeeded(200)
    for (const key of ['a', 'b/1', 'b/2', 'c']) await ask('PUT', `/version-1/${key}`)
    const list = async (query: readonly (readonly [string, string])[]) =>
      (await ask('GET', '/version-1', '', { query })).document('ListBucketResult')
    const first = await list([
      ['delimiter', '/'],
      ['max-keys', '2'],
    ])
    assert.deepEqual(
      [first.texts('Contents/Key'), first.texts('CommonPrefixes/Prefix'), first.text('NextMarker')],
      [['a'], ['b/'], 'b/'],
    )
    assert.deepEqual(
      (
        await list([
          ['delimiter', '/'],
          ['marker', 'b/'],
        ])
      ).texts('Contents/Key'),
      ['c'],
    )
    const all = await list([])
    assert.deepEqual(
      [all.texts('Contents/Key'), all.texts('Contents/Owner/ID')[0]],
      [['a', 'b/1', 'b/2', 'c'], 'alice'],
    )
  })
  it('ignore-acl-headers: ACLs of requests and of forms are passed over', async () => {
    ;(await ask('PUT', '/signed/acl', '', { headers: { 'x-amz-acl': 'public-read' } })).succeeded(200)
    const form: readonly FormPart[] = [
      ['key', 'acl'],
      ['acl', 'public-read'],
      ['file', 'from a form', 'f'],
    ]
    const headers = { 'content-type': 'multipart/form-data; boundary=b' }
    ;(await ask('POST', '/signed', formBody('b', form), { headers })).succeeded(204)
    assert.equal((await ask('GET', '/signed/acl')).text, 'from a form')
    ;(await ask('GET', '/signed/acl', '', { query: [['acl', '']] })).refused('NotImplemented')
  })
})

describe('OBJSTORE_MAX_PUT_BYTES', () => {
  it('caps a PUT, and by multipart objects are larger', async () => {
    ;(await ask('PUT', '/signed/large', Buffer.alloc(PUT_BYTES_MAX + 1))).refused('EntityTooLarge')
    ;(await ask('PUT', '/signed/large', Buffer.alloc(PUT_BYTES_MAX))).succeeded(200)
  })
})

describe('batch delete', () => {
  it('of somebody who may delete some: an error for each of the others', async () => {
    const statement = {
      Effect: 'Allow',
      Principal: { AWS: 'bob' },
      Action: 's3:DeleteObject',
      Resource: 'arn:aws:s3:::signed/bobs/*',
    }
    ;(await ask('PUT', '/signed', JSON.stringify({ Statement: [statement] }), { query: [['policy', '']] })).succeeded(
      204,
    )
    const body = '<Delete><Object><Key>bobs/1</Key></Object><Object><Key>key</Key></Object></Delete>'
    const reply = await ask('POST', '/signed', body, {
      ...OTHER,
      query: [['delete', '']],
      headers: { 'content-md5': md5(body) },
    })
    const result = reply.document('DeleteResult')
    assert.deepEqual([result.texts('Deleted/Key'), result.texts('Error/Key')], [['bobs/1'], ['key']])
    assert.equal((await ask('GET', '/signed/key')).succeeded(200).text, 'content')
  })
})

describe('SIGHUP', () => {
  it('reads the credentials again; a bad file keeps the old ones', async () => {
    store.writeKeys('nonsense')
    store.signal('SIGHUP')
    await store.logged('the credentials file was refused: the credentials before stay in force')
    ;(await ask('GET', '/signed/key')).succeeded(200)
    store.writeKeys(KEYS.slice(0, 1))
    store.signal('SIGHUP')
    await eventually(
      async () => (await ask('GET', '/signed/key', '', OTHER)).header('x-obj-error-code') === 'InvalidAccessKeyId',
    )
    ;(await ask('GET', '/signed/key')).succeeded(200)
    assert(!store.stderr.includes(SECRET))
  })
})
