import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { clusterSettings, loadClusterSettings } from '../../src/config/cluster.ts'
import { loadConfig, loadNodeConfig } from '../../src/config/config.ts'
import { SettingProblems } from '../../src/config/settings.ts'
import { trilogCommand } from '../../src/cli/trilog-command.ts'
import { Authority, TlsFilesOnDisk } from '../support/certificates.ts'
import { temporaryDirectory } from '../support/directories.ts'

const SECRET = 'correct-horse-battery'
const LEAST = {
  TRILOG_CLUSTER_SERVERS: '10.0.0.1:4222, nats://nats-2,[fd00::3]:4333',
  TRILOG_CLUSTER_NAME: 'north',
  TRILOG_NODE_ID: 'a',
  TRILOG_CLUSTER_SECRET: SECRET,
}
const files = new TlsFilesOnDisk()
const authority = new Authority('an authority')
files.write(authority.certify([['CN', 'localhost']]), authority)
const RELEASE = { version: '1.0.0', node: '22.0.0' }

const clusterOf = (env: Record<string, string> = {}) => loadClusterSettings({ ...LEAST, ...env })!
const problemOf = (env: Record<string, string | undefined>): string => {
  try {
    loadClusterSettings({ ...LEAST, ...env })
    return ''
  } catch (error) {
    assert.ok(error instanceof Error)
    return error.message
  }
}

/** A credentials file as the tools of NATS write it. Its keys are not real. */
const CREDS = `-----BEGIN NATS USER JWT-----
eyJ0eXAi
------END NATS USER JWT------
-----BEGIN USER NKEY SEED-----
SUAKEYTHATISNONE
------END USER NKEY SEED------
`

describe('the settings of the cluster', () => {
  it('are none without servers, and any other one is a mistake then', () => {
    assert.equal(loadClusterSettings({}), null)
    assert.equal(loadConfig({}).cluster, null)
    assert.throws(() => loadConfig({ TRILOG_CLUSTER_NAME: 'north', TRILOG_NODE_ID: 'a' }), {
      message:
        'TRILOG_CLUSTER_NAME has no meaning without TRILOG_CLUSTER_SERVERS; TRILOG_NODE_ID has no meaning without TRILOG_CLUSTER_SERVERS',
    })
  })

  it('have defaults for all but servers, name, node and secret', () => {
    assert.deepEqual(clusterOf(), {
      servers: ['10.0.0.1:4222', 'nats-2:4222', '[fd00::3]:4333'],
      name: 'north',
      nodeId: 'a',
      credentials: { kind: 'none' },
      natsTls: false,
      replicas: 3,
      ack: 'cluster',
      keepBytes: 4 * 1024 ** 3,
      keepMs: null,
      leaseMs: 2000,
      listener: {
        bind: { host: '127.0.0.1', port: 7490 },
        tls: null,
        secret: SECRET,
        url: null,
        bytesPerSecond: 200 * 1024 ** 2,
      },
      authorities: null,
      urls: { logstore: null, objectstore: null, broker: null },
      unknownSettings: [],
    })
    const bare = { TRILOG_CLUSTER_NAME: undefined, TRILOG_NODE_ID: undefined, TRILOG_CLUSTER_SECRET: undefined }
    assert.equal(
      problemOf(bare),
      ['TRILOG_CLUSTER_NAME', 'TRILOG_NODE_ID', 'TRILOG_CLUSTER_SECRET']
        .map((name) => `${name} must be set, as TRILOG_CLUSTER_SERVERS is`)
        .join('; '),
    )
  })

  it('take one way to prove who the node is', () => {
    const file = `${temporaryDirectory()}/user.creds`
    writeFileSync(file, CREDS)
    const user = { TRILOG_CLUSTER_USER: 'u', TRILOG_CLUSTER_PASSWORD: 'p' }
    assert.deepEqual(clusterOf({ TRILOG_CLUSTER_CREDENTIALS_FILE: file }).credentials, {
      kind: 'creds',
      content: CREDS,
    })
    assert.deepEqual(clusterOf(user).credentials, { kind: 'user', user: 'u', password: 'p' })
    assert.deepEqual(clusterOf({ TRILOG_CLUSTER_TOKEN: 't' }).credentials, { kind: 'token', token: 't' })
    assert.equal(
      problemOf({ ...user, TRILOG_CLUSTER_TOKEN: 't' }),
      'TRILOG_CLUSTER_TOKEN excludes TRILOG_CLUSTER_USER: set one of them',
    )
    assert.match(problemOf({ TRILOG_CLUSTER_USER: 'u' }), /^TRILOG_CLUSTER_PASSWORD must be set/)
    assert.match(problemOf({ TRILOG_CLUSTER_PASSWORD: 'p' }), /^TRILOG_CLUSTER_USER must be set/)
  })

  it('name files that can be used', () => {
    const directory = temporaryDirectory()
    writeFileSync(`${directory}/none`, 'SUASECRETSEED')
    for (const name of ['TRILOG_CLUSTER_CREDENTIALS_FILE', 'TRILOG_CLUSTER_CA_FILE']) {
      assert.equal(
        problemOf({ [name]: `${directory}/missing` }),
        `${name} names a file that does not exist: ${directory}/missing`,
      )
      assert.match(problemOf({ [name]: `${directory}/none` }), new RegExp(`^${name} names a file without a [^;]*$`))
      assert.doesNotMatch(problemOf({ [name]: `${directory}/none` }), /SUASECRETSEED/)
    }
  })

  it('speak TLS with the NATS servers when an address or the switch says so', () => {
    assert.equal(clusterOf({ TRILOG_CLUSTER_SERVERS: 'tls://nats-1' }).natsTls, true)
    assert.equal(clusterOf({ TRILOG_CLUSTER_TLS: '1' }).natsTls, true)
    const { natsTls, authorities } = clusterOf({ TRILOG_CLUSTER_CA_FILE: files.clientCa })
    assert.equal(natsTls, false)
    assert.match(authorities!.pem, /BEGIN CERTIFICATE/)
  })

  for (const servers of ['', ',', 'http://a', 'a:0', 'a:70000', 'nats://user:password@a:4222', 'a b', 'a:4222,,b/x']) {
    it(`refuse the servers ${JSON.stringify(servers)}`, () => {
      const problem = problemOf({ TRILOG_CLUSTER_SERVERS: servers })
      if (servers === '') return assert.match(problem, /has no meaning without TRILOG_CLUSTER_SERVERS/)
      assert.match(problem, /^TRILOG_CLUSTER_SERVERS must be a comma-separated list of host:port/)
      assert.doesNotMatch(problem, /password/)
    })
  }

  for (const [name, value] of [
    ['TRILOG_CLUSTER_NAME', 'a.b'],
    ['TRILOG_CLUSTER_NAME', 'x'.repeat(65)],
    ['TRILOG_NODE_ID', 'a/b'],
    ['TRILOG_CLUSTER_REPLICAS', '0'],
    ['TRILOG_CLUSTER_REPLICAS', '6'],
    ['TRILOG_CLUSTER_ACK', 'local'],
    ['TRILOG_CLUSTER_KEEP_BYTES', String(2 ** 30 - 1)],
    ['TRILOG_CLUSTER_KEEP_HOURS', '0'],
    ['TRILOG_CLUSTER_LEASE_MS', '499'],
    ['TRILOG_CLUSTER_BIND', '7490'],
    ['TRILOG_CLUSTER_SECRET', 'too-short-secret'.slice(1)],
    ['TRILOG_CLUSTER_SECRET', 'a secret with spaces in it'],
    ['TRILOG_CLUSTER_BROKER_URL', '10.0.0.1:7400'],
    ['TRILOG_CLUSTER_COPY_BYTES_PER_SECOND', '1000'],
  ] as const) {
    it(`refuse ${name}=${value.slice(0, 20)} in one line that names it`, () => {
      const problem = problemOf({ [name]: value })
      assert.match(problem, new RegExp(`^${name} must be [^;\n]+$`))
      if (name === 'TRILOG_CLUSTER_SECRET') assert.doesNotMatch(problem, new RegExp(value))
    })
  }

  it('refuse a listener that gives everything in plain text to a network', () => {
    const open = { TRILOG_CLUSTER_BIND: '10.0.0.1:7490' }
    assert.match(problemOf(open), /^TRILOG_CLUSTER_BIND must be a loopback address while the listener speaks no TLS/)
    assert.equal(clusterOf({ ...open, TRILOG_ALLOW_INSECURE_BIND: '1' }).listener.bind.host, '10.0.0.1')
    const tls = { TRILOG_CLUSTER_TLS_CERT_FILE: files.cert, TRILOG_CLUSTER_TLS_KEY_FILE: files.key }
    assert.deepEqual(clusterOf({ ...open, ...tls }).listener.tls, {
      certFile: files.cert,
      keyFile: files.key,
      clientCaFile: null,
    })
    assert.equal(
      problemOf({ ...open, TRILOG_CLUSTER_TLS_CERT_FILE: files.cert }),
      'TRILOG_CLUSTER_TLS_KEY_FILE must name a file, as TRILOG_CLUSTER_TLS_CERT_FILE does',
    )
    assert.match(
      problemOf({ ...open, ...tls, TRILOG_CLUSTER_URL: 'http://10.0.0.1:7490' }),
      /^TRILOG_CLUSTER_URL must begin with https:/,
    )
  })

  it('say where others reach a listener that is on every address', () => {
    const open = { TRILOG_CLUSTER_BIND: '0.0.0.0:7490', TRILOG_ALLOW_INSECURE_BIND: '1' }
    assert.match(problemOf(open), /^TRILOG_CLUSTER_URL must be set/)
    const { listener, urls } = clusterOf({
      ...open,
      TRILOG_CLUSTER_URL: 'http://10.0.0.1:7490/',
      TRILOG_CLUSTER_BROKER_URL: 'http://10.0.0.1:7400/',
    })
    assert.equal(listener.url, 'http://10.0.0.1:7490')
    assert.equal(urls.broker, 'http://10.0.0.1:7400')
  })

  it('notice misspelt names', () => {
    assert.deepEqual(clusterOf({ TRILOG_CLUSTER_REPLICA: '1' }).unknownSettings, ['TRILOG_CLUSTER_REPLICA'])
  })

  it('are for all services, and for each of them alone', () => {
    for (const services of ['logstore,objectstore,broker', 'logstore', 'objectstore', 'broker'])
      assert.equal(loadConfig({ ...LEAST, TRILOG_SERVICES: services }).cluster?.nodeId, LEAST.TRILOG_NODE_ID)
    assert.equal(loadNodeConfig(LEAST, {}, new SettingProblems()).cluster?.nodeId, LEAST.TRILOG_NODE_ID)
  })

  it('end a start with replica directories with one line', () => {
    const env = { ...LEAST, TRILOG_SERVICES: 'broker', MQ_REPLICA_DIRS: '/replica' }
    const message = 'MQ_REPLICA_DIRS must be unset with TRILOG_CLUSTER_SERVERS: the other nodes have the copies'
    assert.throws(() => loadConfig(env), { message })
    assert.throws(() => loadNodeConfig(env, {}, new SettingProblems()), { message })
    const logStore = {
      ...LEAST,
      LOGSTORE_WAL_DURABILITY_MODE: 'replicated-local',
      LOGSTORE_WAL_REPLICA_PATHS: '/replica',
      LOGSTORE_WAL_WRITE_QUORUM: '2',
    }
    assert.throws(() => loadConfig(logStore), {
      message: message.replace('MQ_REPLICA_DIRS', 'LOGSTORE_WAL_REPLICA_PATHS'),
    })
  })

  it('end a start with a bucket to read from with one line', () => {
    const env = { ...LEAST, LOGSTORE_QUERY_STORE: 's3', LOGSTORE_QUERY_S3_BUCKET: 'logs' }
    const message =
      'LOGSTORE_QUERY_STORE must not be s3 with TRILOG_CLUSTER_SERVERS: queries are answered by the leader'
    assert.throws(() => loadConfig(env), { message })
  })
})

describe('trilog config', () => {
  it('shows the settings of the cluster without their secrets', () => {
    const secrets = { TRILOG_CLUSTER_PASSWORD: 'open-sesame', TRILOG_CLUSTER_TOKEN: 'token-of-mine' }
    for (const output of [[], ['--output', 'json']]) {
      const answer = trilogCommand(['config', ...output], { ...LEAST, ...secrets }, RELEASE)
      assert.ok(answer.kind === 'say')
      for (const name of Object.keys(clusterSettings).filter((each) => output.length > 0 || each in LEAST))
        assert.ok(answer.text.includes(name), name)
      for (const value of [SECRET, ...Object.values(secrets)]) assert.ok(!answer.text.includes(value))
      assert.ok(answer.text.includes('…'))
    }
  })
})
