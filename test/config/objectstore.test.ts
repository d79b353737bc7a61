import assert from 'node:assert/strict'
import { resolve } from 'node:path'
import { describe, it } from 'node:test'
import { loadObjectStoreConfig } from '../../src/config/objectstore.ts'
import { BadConfiguration } from '../../src/config/settings.ts'
import { EXTENSIONS } from '../../src/objectstore/s3/operations-table.ts'

function problemsOf(env: Record<string, string>): readonly string[] {
  try {
    loadObjectStoreConfig(env)
  } catch (error) {
    assert(error instanceof BadConfiguration)
    return error.problems
  }
  return []
}

describe('the object store’s settings', () => {
  it('have the defaults of the contract', () => {
    assert.deepEqual(loadObjectStoreConfig({}), {
      http: { host: '127.0.0.1', port: 9000 },
      tls: null,
      allowedHosts: [],
      trustedProxies: [],
      dataDirectory: resolve('data/objectstore'),
      baseDomain: null,
      auth: { mode: 'local' },
      region: 'us-east-1',
      extensions: new Set(),
      putBytesMax: 16_777_216,
      multipartTtlHours: 168,
      segmentBytes: 134_217_728,
      readCacheBytes: null,
      objectCacheBytes: null,
      unknownSettings: [],
    })
    assert.ok(Object.isFrozen(loadObjectStoreConfig({})))
  })

  it('take every value from the environment', () => {
    const config = loadObjectStoreConfig({
      OBJSTORE_BIND_ADDRESS: '0.0.0.0:0',
      OBJSTORE_DATA_DIR: '/var/lib/x/../objects',
      OBJSTORE_BASE_DOMAIN: 'S3.Example.com',
      OBJSTORE_AUTH_MODE: 'sigv4',
      OBJSTORE_CREDENTIALS_FILE: '/etc/keys.json',
      OBJSTORE_REGION: 'eu-central-1',
      OBJSTORE_EXTENSIONS: 'ignore-acl-headers, list-v1,',
      OBJSTORE_MAX_PUT_BYTES: '5368709120',
      OBJSTORE_MULTIPART_TTL_HOURS: '1',
      OBJSTORE_SEGMENT_BYTES: '1048576',
      OBJSTORE_READ_CACHE_BYTES: '0',
      OBJSTORE_OBJECT_CACHE_BYTES: '1048576',
      OBJSTORE_MISSPELT: '1',
      TRILOG_ALLOWED_HOSTS: 'Store.LAN, my_store ,[2001:DB8:0::1],10.1.2.3,',
      TRILOG_TRUSTED_PROXIES: '10.0.0.1, 10.1.0.0/16,::ffff:10.2.0.0/112,2001:db8::/32',
    })
    assert.deepEqual(config, {
      http: { host: '0.0.0.0', port: 0 },
      tls: null,
      allowedHosts: ['store.lan', 'my_store', '2001:db8::1', '10.1.2.3'],
      trustedProxies: [
        { network: '10.0.0.1', prefixBits: 32 },
        { network: '10.1.0.0', prefixBits: 16 },
        { network: '10.2.0.0', prefixBits: 16 },
        { network: '2001:db8::', prefixBits: 32 },
      ],
      dataDirectory: '/var/lib/objects',
      baseDomain: 's3.example.com',
      auth: { mode: 'sigv4', credentialsFile: '/etc/keys.json' },
      region: 'eu-central-1',
      extensions: new Set(EXTENSIONS),
      putBytesMax: 5_368_709_120,
      multipartTtlHours: 1,
      segmentBytes: 1_048_576,
      readCacheBytes: 0,
      objectCacheBytes: 1_048_576,
      unknownSettings: ['OBJSTORE_MISSPELT'],
    })
  })

  it('are refused together, each by its name', () => {
    const problems = problemsOf({
      OBJSTORE_BIND_ADDRESS: 'nowhere',
      OBJSTORE_BASE_DOMAIN: '10.0.0.1',
      OBJSTORE_AUTH_MODE: 'none',
      OBJSTORE_REGION: 'EU WEST',
      OBJSTORE_EXTENSIONS: 'list-v1,list-v3',
      OBJSTORE_MAX_PUT_BYTES: '5368709121',
      OBJSTORE_MULTIPART_TTL_HOURS: '0',
    })
    assert.deepEqual(problems, [
      'OBJSTORE_BIND_ADDRESS must be host:port, as in 127.0.0.1:8080 or [::1]:8080',
      'OBJSTORE_BASE_DOMAIN must be a domain name, as in s3.example.com',
      'OBJSTORE_AUTH_MODE must be local or sigv4',
      'OBJSTORE_REGION must be a region, as in us-east-1: 1 to 64 letters, digits and hyphens',
      'OBJSTORE_EXTENSIONS must be a comma-separated list of: list-v1, ignore-acl-headers',
      'OBJSTORE_MAX_PUT_BYTES must be a whole number from 1024 to 5368709120',
      'OBJSTORE_MULTIPART_TTL_HOURS must be a whole number from 1 to 87600',
    ])
    for (const domain of ['a..b', '-a.b', 'a b', 'a'.repeat(64), '.a']) {
      assert.equal(problemsOf({ OBJSTORE_BASE_DOMAIN: domain }).length, 1, domain)
    }
    for (const region of ['a/b', 'a\tb', 'a,b', 'ü', 'a'.repeat(65)]) {
      assert.equal(problemsOf({ OBJSTORE_REGION: region }).length, 1, region)
    }
    for (const region of ['garage', 'EU', 'r1', 'a'.repeat(64)]) {
      assert.deepEqual(problemsOf({ OBJSTORE_REGION: region }), [], region)
    }
  })

  it('need a file of access keys where requests are signed, and only there', () => {
    assert.deepEqual(problemsOf({ OBJSTORE_AUTH_MODE: 'sigv4' }), [
      'OBJSTORE_CREDENTIALS_FILE must name a file of access keys, as OBJSTORE_AUTH_MODE is sigv4',
    ])
    assert.deepEqual(problemsOf({ OBJSTORE_CREDENTIALS_FILE: 'keys.json' }), [
      'OBJSTORE_CREDENTIALS_FILE has no meaning unless OBJSTORE_AUTH_MODE is sigv4',
    ])
  })

  it('keep everybody else out while requests need no credentials', () => {
    const bind = { OBJSTORE_BIND_ADDRESS: '0.0.0.0:9000' }
    const [problem] = problemsOf(bind)
    assert.match(problem!, /^OBJSTORE_BIND_ADDRESS must be a loopback address/)
    assert.deepEqual(problemsOf({ ...bind, TRILOG_ALLOW_INSECURE_BIND: '1' }), [])
    assert.deepEqual(problemsOf({ ...bind, OBJSTORE_AUTH_MODE: 'sigv4', OBJSTORE_CREDENTIALS_FILE: 'k' }), [])
    assert.deepEqual(problemsOf({ OBJSTORE_BIND_ADDRESS: '[::1]:0' }), [])
  })
})
