import assert from 'node:assert/strict'
import { resolve } from 'node:path'
import { describe, it } from 'node:test'
import { brokerSettings } from '../../src/config/broker.ts'
import { loadConfig } from '../../src/config/config.ts'
import { loadLogStoreConfig, logStoreSettings } from '../../src/config/logstore.ts'
import { objectStoreSettings } from '../../src/config/objectstore.ts'
import { clusterSettings } from '../../src/config/cluster.ts'
import { processSettings, startSettings } from '../../src/config/process.ts'
import { isLoopback } from '../../src/addresses.ts'
import { BadConfiguration } from '../../src/config/settings.ts'
import type { SettingsTable } from '../../src/config/settings.ts'

const problemsOf = (env: Record<string, string>): readonly string[] => {
  try {
    loadLogStoreConfig(env)
  } catch (error) {
    assert(error instanceof BadConfiguration)
    return error.problems
  }
  return []
}

describe('the log store’s settings', () => {
  it('have the defaults of the contract', () => {
    assert.deepEqual(loadLogStoreConfig({}), {
      http: { host: '127.0.0.1', port: 4318 },
      tls: null,
      grpc: null,
      allowedHosts: [],
      dataDirectory: resolve('data/logstore'),
      tenantPolicyFile: null,
      durability: { mode: 'local' },
      segmentBytes: 134_217_728,
      bodyBytesMax: 16_777_216,
      gateway: { requestsMax: 64, recordsMax: 8192, bytesMax: 33_554_432 },
      decodeLanes: null,
      compaction: true,
      merging: true,
      concurrentQueriesMax: 16,
      retention: { ageSecondsMax: Infinity, bytesMax: Infinity },
      queryStore: { kind: 'local' },
      unknownSettings: [],
    })
    assert.ok(Object.isFrozen(loadLogStoreConfig({})))
  })

  it('take every value from the environment', () => {
    const config = loadLogStoreConfig({
      LOGSTORE_BIND_ADDRESS: '[::1]:0',
      LOGSTORE_OTLP_GRPC_BIND_ADDRESS: 'localhost:4317',
      LOGSTORE_DATA_DIR: '/var/lib/x/../logs',
      LOGSTORE_TENANT_POLICY_FILE: 'tenants.json',
      LOGSTORE_WAL_DURABILITY_MODE: 'replicated-local',
      LOGSTORE_WAL_REPLICA_PATHS: '/a, /b,',
      LOGSTORE_WAL_WRITE_QUORUM: '2',
      LOGSTORE_MAX_BODY_BYTES: '4096',
      LOGSTORE_GATEWAY_MAX_RECORDS: 'none',
      LOGSTORE_RETENTION_MAX_AGE_SECONDS: '3600',
      LOGSTORE_QUERY_STORE: 's3',
      LOGSTORE_QUERY_S3_BUCKET: 'bundles',
      LOGSTORE_QUERY_S3_PREFIX: 'logs/acme',
      LOGSTORE_QUERY_S3_REFRESH_SECONDS: '5',
      LOGSTORE_QUERY_S3_CACHE_BYTES: '16777216',
      LOGSTORE_QUERY_S3_REGION: 'eu-central-1',
      LOGSTORE_QUERY_S3_ENDPOINT: 'http://127.0.0.1:9000',
      LOGSTORE_QUERY_S3_FORCE_PATH_STYLE: 'true',
      LOGSTORE_MISSPELT: '1',
    })
    assert.deepEqual(config.http, { host: '::1', port: 0 })
    assert.deepEqual(config.grpc, { host: 'localhost', port: 4317 })
    assert.equal(config.dataDirectory, '/var/lib/logs')
    assert.equal(config.tenantPolicyFile, resolve('tenants.json'))
    assert.deepEqual(config.durability, { mode: 'replicated-local', replicaDirectories: ['/a', '/b'], writeQuorum: 2 })
    assert.deepEqual(
      [config.bodyBytesMax, config.gateway.recordsMax, config.retention.ageSecondsMax],
      [4096, Infinity, 3600],
    )
    assert.deepEqual(config.queryStore, {
      kind: 's3',
      bucket: 'bundles',
      prefix: 'logs/acme/',
      refreshSeconds: 5,
      cacheBytes: 16_777_216,
      region: 'eu-central-1',
      endpoint: 'http://127.0.0.1:9000',
      forcePathStyle: true,
    })
    assert.deepEqual(config.unknownSettings, ['LOGSTORE_MISSPELT'])
  })

  it('that are empty count as unset, except the region', () => {
    assert.deepEqual(
      problemsOf({ LOGSTORE_BIND_ADDRESS: '', LOGSTORE_OTLP_GRPC_BIND_ADDRESS: ' ', LOGSTORE_QUERY_STORE: '' }),
      [],
    )
    assert.deepEqual(problemsOf({ LOGSTORE_QUERY_S3_REGION: ' ' }), [
      'LOGSTORE_QUERY_S3_REGION must not be empty when it is supplied',
    ])
  })

  it('that are bad are all named, one sentence each', () => {
    assert.deepEqual(
      problemsOf({
        LOGSTORE_BIND_ADDRESS: '4318',
        LOGSTORE_WAL_DURABILITY_MODE: 'raid',
        LOGSTORE_MAX_BODY_BYTES: '1e9',
        LOGSTORE_GATEWAY_MAX_REQUESTS: '0',
        LOGSTORE_QUERY_S3_ENDPOINT: 'ftp://x',
        LOGSTORE_QUERY_S3_FORCE_PATH_STYLE: 'maybe',
      }),
      [
        'LOGSTORE_BIND_ADDRESS must be host:port, as in 127.0.0.1:8080 or [::1]:8080',
        'LOGSTORE_WAL_DURABILITY_MODE must be local or replicated-local',
        'LOGSTORE_MAX_BODY_BYTES must be a whole number from 1024 to 67108864',
        'LOGSTORE_GATEWAY_MAX_REQUESTS must be a whole number from 1 to 1000000000, or none for no limit',
        'LOGSTORE_QUERY_S3_ENDPOINT must be an http or https URL',
        'LOGSTORE_QUERY_S3_FORCE_PATH_STYLE must be 1 or 0',
      ],
    )
  })

  it('accept a bind address only as host:port', () => {
    for (const bad of ['::1:4318', '[1.2.3.4]:1', '[::1]', 'host:65536', ':80', 'http://a:1', 'a b:1', 'a:-1']) {
      assert.equal(problemsOf({ LOGSTORE_BIND_ADDRESS: bad }).length, 1, bad)
    }
  })

  it('need a bucket with the query store s3', () => {
    assert.match(problemsOf({ LOGSTORE_QUERY_STORE: 's3' })[0]!, /^LOGSTORE_QUERY_S3_BUCKET /)
    assert.deepEqual(problemsOf({ LOGSTORE_QUERY_STORE: 'S3' }), [])
  })

  it('of replicated-local need distinct directories and a quorum that they can give', () => {
    const replicated = (paths: string, quorum: string): string[] =>
      problemsOf({
        LOGSTORE_DATA_DIR: '/data',
        LOGSTORE_WAL_DURABILITY_MODE: 'replicated-local',
        LOGSTORE_WAL_REPLICA_PATHS: paths,
        LOGSTORE_WAL_WRITE_QUORUM: quorum,
      }).map((line) => line.split(' ')[0]!)
    assert.deepEqual(replicated('/a,/b', '1'), [])
    assert.deepEqual(replicated('/a,/b', '3'), [])
    assert.deepEqual(replicated('/a,/b', '4'), ['LOGSTORE_WAL_WRITE_QUORUM'])
    assert.deepEqual(replicated('/a,/b', ''), ['LOGSTORE_WAL_WRITE_QUORUM'])
    assert.deepEqual(replicated('/a,/x/../a', '2'), ['LOGSTORE_WAL_REPLICA_PATHS'])
    assert.deepEqual(replicated('/a,/data/', '2'), ['LOGSTORE_WAL_REPLICA_PATHS'])
    assert.deepEqual(replicated('/a,/data/bundles', '2'), ['LOGSTORE_WAL_REPLICA_PATHS'])
    assert.deepEqual(replicated('/a,/a/b', '2'), ['LOGSTORE_WAL_REPLICA_PATHS'])
    assert.deepEqual(replicated('/', '2'), ['LOGSTORE_WAL_REPLICA_PATHS'])
    assert.deepEqual(replicated('/database,/data.copy', '2'), [])
    assert.deepEqual(replicated('', '1'), ['LOGSTORE_WAL_REPLICA_PATHS'])
    // The quorum is checked only with valid paths.
    assert.deepEqual(replicated('', ''), ['LOGSTORE_WAL_REPLICA_PATHS'])
    assert.deepEqual(replicated('/a,/data/', '4'), ['LOGSTORE_WAL_REPLICA_PATHS'])
    assert.deepEqual(replicated('/1,/2,/3,/4,/5,/6,/7,/8,/9', '1'), ['LOGSTORE_WAL_REPLICA_PATHS'])
    assert.match(problemsOf({ LOGSTORE_WAL_REPLICA_PATHS: '/a' })[0]!, /^LOGSTORE_WAL_REPLICA_PATHS has no meaning/)
    assert.match(problemsOf({ LOGSTORE_WAL_WRITE_QUORUM: '1' })[0]!, /^LOGSTORE_WAL_WRITE_QUORUM has no meaning/)
  })
})

describe('an address that others can reach', () => {
  it('is refused with the development credentials, and accepted with a policy or an explicit word', () => {
    for (const name of ['LOGSTORE_BIND_ADDRESS', 'LOGSTORE_OTLP_GRPC_BIND_ADDRESS']) {
      const open = { [name]: '0.0.0.0:1' }
      assert.match(problemsOf(open)[0]!, new RegExp(`^${name} must be a loopback address`))
      assert.deepEqual(problemsOf({ ...open, TRILOG_ALLOW_INSECURE_BIND: '1' }), [])
      assert.deepEqual(problemsOf({ ...open, LOGSTORE_TENANT_POLICY_FILE: '/policy.json' }), [])
    }
  })

  it('is one that is not loopback', () => {
    assert.deepEqual(
      ['127.0.0.1', '127.9.9.9', 'localhost', 'LOCALHOST', '::1', '::ffff:127.0.0.1'].filter(isLoopback).length,
      6,
    )
    assert.deepEqual(
      ['0.0.0.0', '::', '10.0.0.1', 'example.org', '128.0.0.1', 'localhost.example.org'].filter(isLoopback),
      [],
    )
  })
})

describe('the process', () => {
  it('starts every service, or those of --services', () => {
    assert.equal(loadConfig({}).logLevel, 'info')
    const chosen = (services?: string): string[] =>
      Object.entries(loadConfig({ TRILOG_SERVICES: services }).services)
        .filter(([, config]) => config !== null)
        .map(([name]) => name)
    assert.deepEqual(chosen(), ['logstore', 'objectstore', 'broker'])
    assert.deepEqual(chosen('broker,logstore'), ['logstore', 'broker'])
    assert.deepEqual(chosen('logstore'), ['logstore'])
    assert.deepEqual(chosen('objectstore'), ['objectstore'])
    assert.deepEqual(chosen('broker'), ['broker'])
  })

  it('tells the problems of the process and of its services at once, in one line', () => {
    const env = {
      TRILOG_LOG_LEVEL: 'loud',
      LOGSTORE_MAX_BODY_BYTES: 'x',
      OBJSTORE_MAX_PUT_BYTES: 'z',
      MQ_MAX_BODY_BYTES: 'y',
    }
    assert.throws(() => loadConfig(env), {
      kind: 'invalid',
      code: 'bad_configuration',
      message:
        /^TRILOG_LOG_LEVEL must be [^;]+; LOGSTORE_MAX_BODY_BYTES must be [^;]+; OBJSTORE_MAX_PUT_BYTES must be [^;]+; MQ_MAX_BODY_BYTES must be .+$/,
    })
  })

  it('tells which list of hosts or proxies is bad, whichever services start', () => {
    for (const services of ['logstore', 'objectstore', 'broker']) {
      const start = (env: Record<string, string>) => () => loadConfig({ ...env, TRILOG_SERVICES: services })
      for (const bad of ['broker:7400', 'http://broker', 'a b', '-a', 'a,*']) {
        assert.throws(start({ TRILOG_ALLOWED_HOSTS: bad }), { message: /^TRILOG_ALLOWED_HOSTS must be [^;]+$/ }, bad)
      }
      for (const bad of ['proxy', '10.0.0.0/33', '10.0.0.1:80', '::1/129']) {
        assert.throws(
          start({ TRILOG_TRUSTED_PROXIES: bad }),
          { message: /^TRILOG_TRUSTED_PROXIES must be [^;]+$/ },
          bad,
        )
      }
      assert.doesNotThrow(start({ TRILOG_ALLOWED_HOSTS: ' a , B.c,', TRILOG_TRUSTED_PROXIES: '10.0.0.1, ::/0,' }))
    }
  })

  it('tells a problem that several services have once', () => {
    assert.throws(() => loadConfig({ TRILOG_ALLOW_INSECURE_BIND: 'perhaps' }), {
      message: 'TRILOG_ALLOW_INSECURE_BIND must be 1 or 0',
    })
  })

  it('does not mind the settings of services that it does not start', () => {
    assert.doesNotThrow(() => loadConfig({ MQ_MAX_BODY_BYTES: 'y', TRILOG_SERVICES: 'logstore' }))
  })

  it('refuses unknown services, and none', () => {
    for (const services of ['logstore,cache', ',', 'log store']) {
      assert.throws(() => loadConfig({ TRILOG_SERVICES: services }), { code: 'bad_configuration' }, services)
    }
  })
})

describe('every setting', () => {
  it('says what it is for, and its default is a value it accepts', () => {
    const settings: SettingsTable = {
      ...startSettings,
      ...processSettings,
      ...clusterSettings,
      ...logStoreSettings,
      ...objectStoreSettings,
      ...brokerSettings,
    }
    for (const [name, setting] of Object.entries(settings)) {
      assert.ok(setting.description.length > 10, name)
      if (setting.default !== undefined) assert.doesNotThrow(() => setting.parse(setting.default!), name)
    }
  })
})
