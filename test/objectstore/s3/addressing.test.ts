import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Addressing } from '../../../src/objectstore/s3/addressing.ts'
import type { Address } from '../../../src/objectstore/s3/addressing.ts'

function addressOf(host: string, path: string, { isSecure = false } = {}, base: string | null = 'S3.local'): Address {
  return new Addressing(base).addressOf({ path, headers: new Map([['host', host]]), isSecure })
}

const named = ({ style, bucket, key }: Address): unknown => [style, bucket, key]

describe('path-style addressing', () => {
  it('takes the first segment for the bucket, and all behind its slash for the key', () => {
    assert.deepEqual(named(addressOf('localhost:9000', '/')), ['path', null, null])
    assert.deepEqual(named(addressOf('localhost', '/bkt')), ['path', 'bkt', null])
    assert.deepEqual(named(addressOf('localhost', '/bkt/')), ['path', 'bkt', null])
    assert.deepEqual(named(addressOf('localhost', '/my.bkt/a/b')), ['path', 'my.bkt', 'a/b'])
  })

  it('holds for the base domain itself, for addresses, and without a base domain', () => {
    assert.deepEqual(named(addressOf('s3.local:9000', '/bkt/key')), ['path', 'bkt', 'key'])
    assert.deepEqual(named(addressOf('[::1]:9000', '/bkt/key')), ['path', 'bkt', 'key'])
    assert.deepEqual(named(addressOf('localhost:65535', '/bkt/key')), ['path', 'bkt', 'key'])
    assert.deepEqual(named(addressOf('bkt.s3.local', '/a/b', {}, null)), ['path', 'a', 'b'])
    assert.deepEqual(named(addressOf('bkts3.local', '/a/b')), ['path', 'a', 'b'])
  })

  it('leaves dot segments and empty segments in keys as they are', () => {
    for (const key of ['.', '..', '../x', 'a//b', '/', '//', 'a/', 'a/./b/../c']) {
      assert.equal(addressOf('localhost', `/bkt/${key}`).key, key)
    }
  })

  it('decodes keys once, and plus signs not at all', () => {
    assert.equal(addressOf('localhost', '/bkt/a%20b%2Fc%252F+%C3%BC%E2%82%AC').key, 'a b/c%2F+ü€')
    assert.equal(addressOf('localhost', '/b%6Bt/k').bucket, 'bkt')
    assert.equal(addressOf('localhost', '/bkt/%EF%BF%BD').key, '\ufffd')
  })
})

describe('virtual-host addressing', () => {
  it('takes what stands before the base domain for the bucket, and the path for the key', () => {
    assert.deepEqual(named(addressOf('bkt.s3.local', '/')), ['virtual-host', 'bkt', null])
    assert.deepEqual(named(addressOf('BKT.S3.Local:9000', '/a/b')), ['virtual-host', 'bkt', 'a/b'])
  })

  it('takes a host with the dot of the DNS root for the host that it is', () => {
    assert.deepEqual(named(addressOf('bkt.s3.local.:9000', '/a/b')), ['virtual-host', 'bkt', 'a/b'])
    assert.deepEqual(named(addressOf('s3.local.', '/bkt/key')), ['path', 'bkt', 'key'])
    assert.throws(() => addressOf('my.bkt.s3.local.', '/key', { isSecure: true }), { code: 'InvalidURI' })
    const headers = new Map([['host', 'bkt.s3.local.']])
    assert.deepEqual(new Addressing('s3.local').placeOf({ path: '/a', headers }), {
      style: 'virtual-host',
      bucket: 'bkt',
    })
  })

  it('wins over the path when both name a bucket', () => {
    assert.deepEqual(named(addressOf('bkt.s3.local', '/other/key')), ['virtual-host', 'bkt', 'other/key'])
  })

  it('takes a bucket with dots, but not over TLS', () => {
    const secure = { isSecure: true }
    assert.equal(addressOf('my.bkt.s3.local', '/key').bucket, 'my.bkt')
    assert.throws(() => addressOf('my.bkt.s3.local', '/key', secure), { code: 'InvalidURI' })
    assert.equal(addressOf('bkt.s3.local', '/key', secure).bucket, 'bkt')
    assert.equal(addressOf('s3.local', '/my.bkt/key', secure).bucket, 'my.bkt')
  })
})

describe('the URL of an address', () => {
  it('is what the client used, without a slash behind a bucket', () => {
    assert.equal(addressOf('localhost:9000', '/').url, 'http://localhost:9000')
    assert.equal(addressOf('localhost:9000', '/bkt/').url, 'http://localhost:9000/bkt')
    assert.equal(addressOf('localhost', '/bkt/a%20b').url, 'http://localhost/bkt/a%20b')
    assert.equal(addressOf('bkt.s3.local', '/').url, 'http://bkt.s3.local')
    assert.equal(addressOf('bkt.s3.local', '/k', { isSecure: true }).url, 'https://bkt.s3.local/k')
  })
})

describe('an address is an invalid URI', () => {
  for (const host of [
    '',
    'a b',
    'host:port',
    'host:65536',
    'host:123456',
    '[::1]:99999',
    '[::1',
    'user@host',
    'a/b',
    '.s3.local',
  ]) {
    it(`with the authority ${JSON.stringify(host)}`, () => {
      assert.throws(() => addressOf(host, '/bkt/key'), { code: 'InvalidURI', status: 400 })
    })
  }

  for (const path of [
    '//',
    '//key',
    '/bkt/%',
    '/bkt/%f',
    '/bkt/%zz',
    '/bkt/%ff',
    '/bkt/%C3',
    '/bkt/\ufffd',
    '/%ff/key',
    '*',
  ]) {
    it(`with the path ${path}`, () => {
      assert.throws(() => addressOf('localhost', path), { code: 'InvalidURI' })
    })
  }
})

describe('what can be told of a request that is refused', () => {
  const placeOf = (host: string, path: string) => {
    const { style, bucket } = new Addressing('s3.local').placeOf({
      path,
      headers: new Map([['host', host]]),
    })
    return [style, bucket]
  }

  it('is the bucket in the host, whatever is wrong with the path', () => {
    for (const path of ['/', '/%zz', '//', '/\ufffd', '*', `/${'k'.repeat(1025)}`]) {
      assert.deepEqual(placeOf('BKT.s3.local:9000', path), ['virtual-host', 'bkt'], path)
    }
    assert.deepEqual(placeOf('my.bkt.s3.local', '/'), ['virtual-host', 'my.bkt'])
    assert.deepEqual(placeOf('.s3.local', '/bkt'), ['virtual-host', null])
  })

  it('is the bucket in the path, whatever is wrong behind it', () => {
    for (const path of ['/bkt', '/b%6Bt/', '/bkt/%zz', '/bkt/\ufffd', `/bkt/${'k'.repeat(1025)}`]) {
      assert.deepEqual(placeOf('s3.local', path), ['path', 'bkt'], path)
    }
  })

  it('is no bucket where none can be read', () => {
    for (const path of ['/', '//key', '/%zz/key', '/\ufffd', '*']) {
      assert.deepEqual(placeOf('localhost', path), ['path', null], path)
    }
    assert.deepEqual(placeOf('user@bkt.s3.local', '/bkt'), ['path', null])
    assert.deepEqual(placeOf('', '/bkt'), ['path', null])
  })
})

describe('a key', () => {
  it('has 1024 bytes of UTF-8 at most', () => {
    assert.equal(addressOf('localhost', `/bkt/${'%C3%BC'.repeat(512)}`).key, 'ü'.repeat(512))
    assert.throws(() => addressOf('localhost', `/bkt/${'%C3%BC'.repeat(512)}a`), {
      code: 'KeyTooLongError',
      fields: { Size: 1025, MaxSizeAllowed: 1024 },
    })
  })
})
