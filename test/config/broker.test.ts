import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { resolve } from 'node:path'
import { after, describe, it } from 'node:test'
import { brokerSettings, loadBrokerConfig } from '../../src/config/broker.ts'
import type { BrokerFlags } from '../../src/config/broker.ts'
import { Authority, TlsFilesOnDisk } from '../support/certificates.ts'
import { BadConfiguration } from '../../src/config/settings.ts'

const directory = mkdtempSync(`${tmpdir()}/trilog-config-`)

function problemsOf(env: Record<string, string>, flags: BrokerFlags | null = null): readonly string[] {
  try {
    loadBrokerConfig(env, flags)
  } catch (error) {
    assert(error instanceof BadConfiguration)
    return error.problems
  }
  return []
}

describe('the broker’s settings', () => {
  after(() => rmSync(directory, { recursive: true }))

  it('have the defaults of the contract', () => {
    const { names, quotas, ...config } = loadBrokerConfig({})
    assert.deepEqual(config, {
      http: { host: '127.0.0.1', port: 7400 },
      tls: null,
      allowedHosts: [],
      dataDirectory: resolve('data/broker'),
      nodeId: 'node-1',
      flushPolicy: 'group-sync',
      auth: { mode: 'insecure-local' },
      metricsExposure: 'disabled',
      replicaDirectories: [],
      replication: null,
      readReplication: null,
      writeQuorum: 1,
      bodyBytesMax: 16_777_216,
      connection: {
        connectionsMax: 10_000,
        tenantConnectionsMax: 5000,
        inFlightMax: 10_000,
        creditMax: 100_000,
        messageBytesMax: 16_777_216,
      },
      segmentBytes: 67_108_864,
      clock: 'slew',
      auditRetentionDays: null,
      quotasFile: null,
      unknownSettings: [],
    })
    assert.equal(quotas.tenants.size, 0)
    assert.equal(names.MQ_DATA_DIR, 'MQ_DATA_DIR')
    assert.ok(Object.isFrozen(loadBrokerConfig({})))
  })

  it('take every value from the environment', () => {
    const config = loadBrokerConfig({
      MQ_NODE_ID: 'eu-1',
      MQ_HTTP_BIND: '[::1]:0',
      MQ_DATA_DIR: '/var/lib/x/../broker',
      MQ_FLUSH_POLICY: 'append-only',
      MQ_AUTH_MODE: 'insecure-local',
      MQ_METRICS_EXPOSURE: 'http',
      MQ_REPLICA_DIRS: '/a, /b,',
      MQ_WRITE_QUORUM: '3',
      MQ_MAX_BODY_BYTES: '4096',
      MQ_SEGMENT_BYTES: '1048576',
      MQ_CLOCK: 'reset',
      MQ_MISSPELT: '1',
    })
    assert.deepEqual(config.http, { host: '::1', port: 0 })
    assert.equal(config.clock, 'reset')
    assert.deepEqual(
      [config.nodeId, config.dataDirectory, config.flushPolicy, config.metricsExposure],
      ['eu-1', '/var/lib/broker', 'append-only', 'http'],
    )
    assert.deepEqual([config.replicaDirectories, config.writeQuorum], [['/a', '/b'], 3])
    assert.deepEqual([config.bodyBytesMax, config.segmentBytes], [4096, 1_048_576])
    assert.deepEqual(config.unknownSettings, ['MQ_MISSPELT'])
  })

  it('take the value of a flag before that of a variable, and are named by what was given', () => {
    const env = { MQ_NODE_ID: 'of the variable', MQ_DATA_DIR: '/variable' }
    const { nodeId, dataDirectory, names } = loadBrokerConfig(env, { MQ_NODE_ID: 'of the flag' })
    assert.deepEqual([nodeId, dataDirectory], ['of the flag', '/variable'])
    assert.deepEqual(
      [names.MQ_NODE_ID, names.MQ_DATA_DIR, names.MQ_HTTP_BIND],
      ['--node-id', 'MQ_DATA_DIR', '--http-bind'],
    )
    assert.equal(loadBrokerConfig(env).names.MQ_HTTP_BIND, 'MQ_HTTP_BIND')
  })

  it('that are bad are all named, one sentence each', () => {
    const env = {
      MQ_NODE_ID: 'x'.repeat(129),
      MQ_HTTP_BIND: '7400',
      MQ_FLUSH_POLICY: 'never',
      MQ_METRICS_EXPOSURE: 'grpc',
      MQ_WRITE_QUORUM: '0',
      MQ_MAX_BODY_BYTES: '16MiB',
      MQ_SEGMENT_BYTES: '1',
      MQ_QUOTAS_FILE: `${directory}/absent.json`,
    }
    assert.deepEqual(problemsOf(env, { MQ_FLUSH_POLICY: 'always' }), [
      'MQ_NODE_ID must be at most 128 characters, none of them a control character',
      'MQ_HTTP_BIND must be host:port, as in 127.0.0.1:8080 or [::1]:8080',
      '--flush-policy must be group-sync or append-only',
      'MQ_METRICS_EXPOSURE must be http or disabled',
      'MQ_WRITE_QUORUM must be a whole number from 1 to 8',
      'MQ_MAX_BODY_BYTES must be a whole number from 1024 to 67108864',
      'MQ_SEGMENT_BYTES must be a whole number from 1048576 to 1073741824',
      `MQ_QUOTAS_FILE names a file that does not exist: ${directory}/absent.json`,
    ])
    assert.equal(problemsOf({ MQ_NODE_ID: 'a\u0007b' }).length, 1)
  })

  it('have the modes of authentication that this version has', () => {
    assert.deepEqual(problemsOf({ MQ_AUTH_MODE: 'none' }), [
      'MQ_AUTH_MODE must be insecure-local or api-key or mtls or external',
    ])
  })

  it('let the node listen on every address exactly when credentials are asked for', () => {
    const files = new TlsFilesOnDisk()
    const authority = new Authority('servers')
    files.write(authority.certify([['CN', 'localhost']]), authority)
    const tls = { MQ_TLS_CERT_FILE: files.cert, MQ_TLS_KEY_FILE: files.key, MQ_TLS_CLIENT_CA_FILE: files.clientCa }
    const credentials = `${files.directory}/credentials.json`
    const key = { tenant: 'acme', principal: 'ci', grants: [] }
    const keys = [
      { ...key, subject: 'CN=ci' },
      { ...key, key_sha256: 'a'.repeat(64) },
    ]
    writeFileSync(credentials, JSON.stringify({ keys }))
    const byFile = { MQ_CREDENTIALS_FILE: credentials }
    const proxy = {
      MQ_IDENTITY_HEADER: 'tenant=X-Tenant,principal=X-Principal,permissions=X-Permissions',
      MQ_TRUSTED_PROXY: '10.0.0.1',
    }
    for (const [mode, settings, isFree] of [
      ['insecure-local', {}, false],
      ['insecure-local', tls, false],
      ['api-key', byFile, true],
      ['mtls', { ...byFile, ...tls }, true],
      ['external', proxy, true],
    ] as const) {
      const problems = problemsOf({ ...settings, MQ_AUTH_MODE: mode, MQ_HTTP_BIND: '0.0.0.0:7400' })
      assert.deepEqual(
        problems.map((problem) => problem.split(',')[0]),
        isFree ? [] : ['MQ_HTTP_BIND must be a loopback address'],
        mode,
      )
    }
  })

  it('need what their mode of authentication asks for, and nothing of another', () => {
    assert.deepEqual(problemsOf({}, { MQ_AUTH_MODE: 'api-key' }), [
      '--credentials-file must name a file with keys, as the mode is api-key',
    ])
    assert.deepEqual(problemsOf({}, { MQ_AUTH_MODE: 'mtls' }), [
      '--tls-client-ca must name the authorities of clients, as the mode is mtls',
      '--credentials-file must name a file with subjects, as the mode is mtls',
    ])
    assert.deepEqual(problemsOf({ MQ_AUTH_MODE: 'external' }), [
      'MQ_IDENTITY_HEADER must name three headers, as the mode is external',
      'MQ_TRUSTED_PROXY must name an address at least, as the mode is external',
    ])
    const headers = 'tenant=X-Auth-Tenant,principal=X-Auth-Principal,permissions=X-Auth-Permissions'
    const external = { MQ_IDENTITY_HEADER: headers, MQ_TRUSTED_PROXY: '127.0.0.1,10.0.0.0/8' }
    assert.deepEqual(problemsOf({ ...external, MQ_CREDENTIALS_FILE: 'keys.json' }), [
      'MQ_CREDENTIALS_FILE is for the modes api-key and mtls: leave it out',
      'MQ_IDENTITY_HEADER is for the mode external: leave it out',
      'MQ_TRUSTED_PROXY is for the mode external: leave it out',
    ])
    const { auth } = loadBrokerConfig({ ...external, MQ_AUTH_MODE: 'external' })
    assert(auth.mode === 'external')
    assert.deepEqual(auth.headers, {
      tenant: 'x-auth-tenant',
      principal: 'x-auth-principal',
      permissions: 'x-auth-permissions',
    })
    assert.equal(auth.trustedProxies.length, 2)
    for (const bad of [
      '',
      'tenant=a',
      `${headers},more=x`,
      'tenant=a,principal=b,tenant=c',
      'tenant=a,principal=a,permissions=a',
      'tenant=a b,principal=c,permissions=d',
    ]) {
      const problems = problemsOf({ ...external, MQ_AUTH_MODE: 'external', MQ_IDENTITY_HEADER: bad })
      assert.equal(problems.length, 1, bad)
    }
  })

  it('may be bound to any address when they ask for credentials', () => {
    const bound = { MQ_HTTP_BIND: '0.0.0.0:7400' }
    assert.equal(problemsOf(bound).length, 1)
    const external = { MQ_IDENTITY_HEADER: 'tenant=a,principal=b,permissions=c', MQ_TRUSTED_PROXY: '127.0.0.1' }
    assert.deepEqual(problemsOf({ ...bound, ...external, MQ_AUTH_MODE: 'external' }), [])
  })

  it('need distinct directories and a quorum that they can give', () => {
    const replicated = (replicas: string, quorum: string): readonly string[] =>
      problemsOf({ MQ_DATA_DIR: '/data', MQ_REPLICA_DIRS: replicas, MQ_WRITE_QUORUM: quorum })
    assert.deepEqual(replicated('', '1'), [])
    assert.deepEqual(replicated('/a,/b', '3'), [])
    const distinct = [
      'MQ_REPLICA_DIRS must name distinct directories, none of them MQ_DATA_DIR, and none inside another, with symbolic links followed',
    ]
    assert.deepEqual(replicated('/a,/x/../a', '2'), distinct)
    assert.deepEqual(replicated('/a,/data/', '2'), distinct)
    assert.deepEqual(replicated('/a,/data/', '4'), distinct) // the quorum is checked only with valid directories
    assert.deepEqual(replicated('/a,/data/copy', '2'), distinct)
    assert.deepEqual(replicated('/1,/2,/3,/4,/5,/6,/7,/8', '1'), ['MQ_REPLICA_DIRS must name at most 7 directories'])
    assert.deepEqual(replicated('/a,/b', '4'), [
      'MQ_WRITE_QUORUM must be 1 to 3: the data directory and the directories of MQ_REPLICA_DIRS',
    ])
    assert.deepEqual(problemsOf({}, { MQ_WRITE_QUORUM: '2' }), [
      '--write-quorum must be 1 to 1: the data directory and the directories of --replica-dir',
    ])
  })

  it('have more than half of the directories as the write quorum, unless another is given', () => {
    const quorums = ['', '/a', '/a,/b', '/a,/b,/c'].map((replicas) => loadBrokerConfig({ MQ_REPLICA_DIRS: replicas }))
    assert.deepEqual(
      quorums.map(({ writeQuorum }) => writeQuorum),
      [1, 2, 2, 3],
    )
  })

  it('bind an address that others can reach only with an explicit word', () => {
    const open = { MQ_HTTP_BIND: '0.0.0.0:7400' }
    assert.match(problemsOf(open)[0]!, /^MQ_HTTP_BIND must be a loopback address.*TRILOG_ALLOW_INSECURE_BIND=1$/)
    assert.match(problemsOf({}, open)[0]!, /^--http-bind must be a loopback address/)
    assert.deepEqual(problemsOf({ ...open, TRILOG_ALLOW_INSECURE_BIND: '1' }), [])
  })

  it('take the quotas from their file', () => {
    const path = `${directory}/quotas.json`
    writeFileSync(path, JSON.stringify({ tenants: [{ tenant: 'local', consumers_per_group: 16 }] }))
    const { quotas, quotasFile } = loadBrokerConfig({}, { MQ_QUOTAS_FILE: path })
    assert.deepEqual([quotas.tenants.get('local')?.consumersPerGroup, quotasFile], [16, path])
    writeFileSync(path, '{')
    assert.deepEqual(problemsOf({}, { MQ_QUOTAS_FILE: path }), ['--quotas-file names a file that is not valid JSON'])
  })

  it('have a flag each', () => {
    const flags = Object.values(brokerSettings).map(({ flag }) => flag)
    assert.equal(new Set(flags).size, flags.length)
    for (const flag of flags) assert.match(flag, /^--[a-z-]+$/)
  })
})
