import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ALL_PERMISSIONS } from '../../../../src/objectstore/s3/auth/principal.ts'
import type { SignedRequest } from '../../../../src/objectstore/s3/auth/canonical-request.ts'
import { VerifiedUrls } from '../../../../src/objectstore/s3/auth/verified-urls.ts'
import type { VerifiedUrl } from '../../../../src/objectstore/s3/auth/verified-urls.ts'

const requestOf = (signature: string, host = 'store.test', path = '/photos/a'): SignedRequest => ({
  method: 'PUT',
  path,
  query: `X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=${signature}`,
  headers: new Map([['host', host]]),
})

const urlOf = (signedAtMs: number): VerifiedUrl => ({
  caller: { principal: null, contentSha256: null, chunkSigning: null },
  signedAtMs,
  expiresSeconds: 60,
  signedHeaders: ['Host'],
})

const SIGNATURE = 'a1b2c3d4e5f60718'.repeat(4)

describe('a URL that was verified', () => {
  it('is known as the very request that it was (U1)', () => {
    const urls = new VerifiedUrls()
    urls.add(requestOf(SIGNATURE), urlOf(1))
    assert.equal(urls.find(requestOf(SIGNATURE))?.signedAtMs, 1)
    assert.equal(urls.find(requestOf(SIGNATURE, 'other.test')), null)
    assert.equal(urls.find(requestOf(SIGNATURE, 'store.test', '/photos/b')), null)
    assert.equal(urls.find({ ...requestOf(SIGNATURE), method: 'GET' }), null)
    assert.equal(urls.find({ ...requestOf(SIGNATURE), query: `${requestOf(SIGNATURE).query}&x=1` }), null)
  })

  it('has the caller and the headers that it was added with, like others or not (U3)', () => {
    const urls = new VerifiedUrls()
    const principal = { id: 'somebody', permissions: ALL_PERMISSIONS }
    const added = [
      { ...urlOf(1), signedHeaders: ['host'] },
      { ...urlOf(2), caller: { principal, contentSha256: null, chunkSigning: null } },
      { ...urlOf(3), caller: { principal, contentSha256: 'UNSIGNED-PAYLOAD', chunkSigning: null } },
      { ...urlOf(4), signedHeaders: ['host', 'X-Amz-Date'] },
      urlOf(5),
    ]
    const requests = added.map((_, n) => requestOf(`${n}${SIGNATURE.slice(1)}`, n % 2 ? 'store.test' : 'other.test'))
    for (const [n, url] of added.entries()) urls.add(requests[n]!, url)
    for (const [n, { caller, signedHeaders }] of added.entries()) {
      const found = urls.find(requests[n]!)
      assert.deepEqual(found?.caller, caller)
      assert.deepEqual(
        found?.signedHeaders,
        signedHeaders.map((name) => name.toLowerCase()),
      )
      assert.equal(urls.find({ ...requests[n]!, headers: new Map([['host', 'third.test']]) }), null)
    }
  })

  it('is never taken for one whose signature begins alike', () => {
    const urls = new VerifiedUrls()
    const alike = `${SIGNATURE.slice(0, -1)}0`
    urls.add(requestOf(SIGNATURE), urlOf(1))
    assert.equal(urls.find(requestOf(alike)), null)
    urls.add(requestOf(alike), urlOf(2))
    assert.equal(urls.find(requestOf(alike))?.signedAtMs, 2)
    assert.equal(urls.find(requestOf(SIGNATURE)), null)
  })

  it('is found among many', () => {
    const urls = new VerifiedUrls()
    const signatures = Array.from({ length: 5000 }, (_, n) => `${n.toString(16).padStart(7, '0')}${SIGNATURE.slice(7)}`)
    for (const [n, signature] of signatures.entries()) urls.add(requestOf(signature), urlOf(n))
    for (const [n, signature] of signatures.entries()) assert.equal(urls.find(requestOf(signature))?.signedAtMs, n)
  })

  it('is found whatever form a signature has', () => {
    for (const [n, signature] of ['', 'Z', '%%%', 'ÄÖÜ', SIGNATURE.toUpperCase()].entries()) {
      const urls = new VerifiedUrls()
      urls.add(requestOf(signature), urlOf(n))
      assert.equal(urls.find(requestOf(signature))?.signedAtMs, n)
    }
  })
})
