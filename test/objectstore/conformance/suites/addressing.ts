/** Specification "What the service does", 4, and the contract: paths, hosts, keys as they are. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { BASE_DOMAIN, store } from './shared-store.ts'

describe('addressing', () => {
  it('path-style: the first segment of the path is the bucket', async () => {
    const bucket = await store.newBucket()
    await bucket.put('key', 'content')
    ;(await store.request('GET', `/${bucket.name}/?list-type=2`)).succeeded(200)
    assert.equal((await store.request('GET', `/%62${bucket.name.slice(1)}/key`)).text, 'content')
  })
  it('virtual-host style: the left part of the host under the base domain, in any case, with or without a port', async () => {
    const bucket = await store.newBucket()
    await bucket.put('a/key', 'content')
    for (const host of [
      `${bucket.name}.${BASE_DOMAIN}`,
      `${bucket.name}.${BASE_DOMAIN}:9000`,
      `${bucket.name}.${BASE_DOMAIN.toUpperCase()}`,
    ]) {
      assert.equal((await store.request('GET', '/a/key', { headers: { host } })).text, 'content')
      const listing = await store.request('GET', '/?list-type=2', { headers: { host } })
      assert.deepEqual(listing.document('ListBucketResult').texts('Contents/Key'), ['a/key'])
    }
  })
  it('when both name a bucket, the host bucket wins', async () => {
    const [inHost, inPath] = [await store.newBucket(), await store.newBucket()]
    const headers = { host: `${inHost.name}.${BASE_DOMAIN}` }
    ;(await store.request('PUT', `/${inPath.name}/key`, { headers, body: 'x' })).succeeded(200)
    assert.deepEqual(await inHost.keys(), [`${inPath.name}/key`])
    assert.deepEqual(await inPath.keys(), [])
  })
  it('the base domain itself and every other host are path-style', async () => {
    const bucket = await store.newBucket()
    for (const [host, status] of [
      [BASE_DOMAIN, 200],
      ['127.0.0.1:1', 200],
      ['[::1]:9000', 200],
      // These hosts are not allowed in requests without credentials.
      ['other.example', 403],
      [`evil${BASE_DOMAIN}`, 403],
      [`${BASE_DOMAIN}.evil.example`, 403],
    ] as const) {
      const reply = await store.request('GET', `/${bucket.name}?location`, { headers: { host } })
      assert.deepEqual([reply.status, reply.header('x-obj-endpoint-style')], [status, 'path'], host)
    }
  })
  it('a dotted bucket in the host is InvalidURI over TLS, and fine without', async () => {
    ;(await store.request('PUT', '/dotted.bucket')).succeeded(200)
    const host = `dotted.bucket.${BASE_DOMAIN}`
    ;(await store.request('HEAD', '/', { headers: { host } })).succeeded(200)
    ;(await store.request('HEAD', '/', { headers: { host, 'x-forwarded-proto': 'https' } })).refused('InvalidURI')
    ;(await store.request('HEAD', '/dotted.bucket', { headers: { 'x-forwarded-proto': 'https' } })).succeeded(200)
  })
  it('dot segments and empty segments of keys are literal', async () => {
    const bucket = await store.newBucket()
    const keys = ['../../etc/passwd', './a', 'a/../b', 'a//b', '/lead', 'end/', '..', '.', 'a/./b', '%2e%2e', '\\..\\x']
    for (const key of keys) {
      const target = `/${bucket.name}/${key.replaceAll('%', '%25').replaceAll('\\', '%5C')}`
      ;(await store.request('PUT', target, { body: key })).succeeded(200)
    }
    assert.deepEqual(await bucket.keys(), keys.toSorted())
    for (const key of keys) assert.equal(await bucket.read(key), key)
  })
  it('keys are any UTF-8: listed byte by byte in order, url-encoded when asked', async () => {
    const bucket = await store.newBucket()
    const keys = ['a b', 'a+b', 'a&b<>"\'', 'é', '\u{1f600}', '\uffee', 'z', '~!*()']
    for (const key of keys) await bucket.put(key, key)
    const ordered = keys.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    assert.deepEqual(await bucket.keys(), ordered)
    const encoded = await bucket.keys('&encoding-type=url')
    assert.deepEqual(encoded.map(decodeURIComponent), ordered)
    assert(encoded.includes('a%20b') && encoded.includes('a%2Bb'), encoded.join(' '))
  })
  it('control characters in keys are kept; a page that XML cannot carry shows them url-encoded', async () => {
    const bucket = await store.newBucket()
    await bucket.put('a\u0001b\nc', 'control')
    assert.equal(await bucket.read('a\u0001b\nc'), 'control')
    assert.deepEqual(await bucket.keys('&encoding-type=url'), ['a%01b%0Ac'])
  })
})
