/** Contract "All three": a start that cannot work prints one line that names the setting, and exits with code 2. */
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { crc32 } from 'node:zlib'
import { after, before, describe, it } from 'node:test'
import { temporaryDirectory } from '../../support/directories.ts'
import { LogStoreServer, failToStart, policyTenant } from '../../support/logstore.ts'

const STARTS_AT_ONCE = 2

async function refused(names: RegExp, env: Readonly<Record<string, string>>, args?: readonly string[]): Promise<void> {
  const { code, stdout, stderr } = await failToStart(env, args)
  assert.deepEqual([code, stdout], [2, ''], stderr)
  const lines = stderr.trimEnd().split('\n')
  assert.equal(lines.length, 1, stderr)
  assert.match(lines[0]!, names)
}

describe('a start', { concurrency: STARTS_AT_ONCE }, () => {
  it('with bad values names every one of them', async () => {
    const settings = {
      TRILOG_LOG_LEVEL: 'loud',
      LOGSTORE_BIND_ADDRESS: 'localhost',
      LOGSTORE_OTLP_GRPC_BIND_ADDRESS: '127.0.0.1:65536',
      LOGSTORE_WAL_DURABILITY_MODE: 'none',
      LOGSTORE_MAX_BODY_BYTES: '16MiB',
      LOGSTORE_GATEWAY_MAX_REQUESTS: '0',
      LOGSTORE_RETENTION_MAX_BYTES: '-1',
      LOGSTORE_QUERY_S3_REGION: '',
    }
    const { code, stdout, stderr } = await failToStart(settings)
    assert.deepEqual([code, stdout], [2, ''])
    assert.match(stderr, /^[^\n]+\n$/)
    const named = stderr.split('; ').map((problem) => /^[A-Z_0-9]+/.exec(problem)?.[0])
    assert.deepEqual(named, Object.keys(settings))
  })
  for (const [service, settings] of [
    ['objectstore', { OBJSTORE_AUTH_MODE: 'none', OBJSTORE_REGION: 'EU WEST' }],
    ['broker', { MQ_HTTP_BIND: '7400', MQ_FLUSH_POLICY: 'never' }],
  ] as const)
    it(`of the ${service} with bad values names every one of them, too`, () =>
      refused(new RegExp(`^${Object.keys(settings).join(' must be [^;]+; ')} must be [^;]+$`), settings, [
        '--services',
        service,
      ]))
  it('with development credentials on an address that is not loopback names the setting of the address', () =>
    refused(/^LOGSTORE_BIND_ADDRESS .*loopback/, { LOGSTORE_BIND_ADDRESS: '0.0.0.0:0' }))
  it('with a query store whose region is named nowhere, or whose bucket or prefix cannot be one, names the setting', async () => {
    const store = {
      LOGSTORE_QUERY_STORE: 's3',
      AWS_REGION: '',
      AWS_CONFIG_FILE: '/dev/null',
      HOME: temporaryDirectory(),
    }
    await refused(/^LOGSTORE_QUERY_S3_REGION must be set/, { ...store, LOGSTORE_QUERY_S3_BUCKET: 'bundles' })
    await refused(/^LOGSTORE_QUERY_S3_BUCKET must name a bucket/, store)
    await refused(
      /^LOGSTORE_QUERY_S3_BUCKET must be [^;]+; LOGSTORE_QUERY_S3_PREFIX must not begin with a slash[^;]+$/,
      {
        ...store,
        LOGSTORE_QUERY_S3_BUCKET: 's3://bundles',
        LOGSTORE_QUERY_S3_PREFIX: '/logs',
      },
    )
  })
  const replicas = { LOGSTORE_WAL_DURABILITY_MODE: 'replicated-local' }
  it('that is to be replicated and has nothing for it is told what to begin with', () =>
    refused(/^LOGSTORE_WAL_REPLICA_PATHS must name 1 to 7 directories, separated by commas$/, replicas))
  it('with a replica directory equal to the data directory names LOGSTORE_WAL_REPLICA_PATHS', () => {
    const directory = `${temporaryDirectory()}/data`
    const paths = { LOGSTORE_DATA_DIR: directory, LOGSTORE_WAL_REPLICA_PATHS: `${directory}/../data` }
    return refused(/LOGSTORE_WAL_REPLICA_PATHS/, { ...replicas, ...paths, LOGSTORE_WAL_WRITE_QUORUM: '2' })
  })
  it('with a replica directory inside or around the data directory, or the same by a link, creates nothing', async () => {
    const root = temporaryDirectory()
    mkdirSync(`${root}/data`)
    symlinkSync(`${root}/data`, `${root}/link`)
    for (const replica of ['data/bundles', 'link', 'link/copy', '']) {
      const paths = { LOGSTORE_DATA_DIR: `${root}/data`, LOGSTORE_WAL_REPLICA_PATHS: `${root}/${replica}` }
      await refused(/^LOGSTORE_WAL_REPLICA_PATHS .*LOGSTORE_DATA_DIR/, {
        ...replicas,
        ...paths,
        LOGSTORE_WAL_WRITE_QUORUM: '2',
      })
    }
    assert.deepEqual([readdirSync(root).length, readdirSync(`${root}/data`)], [2, []])
  })
  it('with a replica directory that cannot be written names LOGSTORE_WAL_REPLICA_PATHS', () => {
    const paths = { LOGSTORE_WAL_REPLICA_PATHS: `${fileIn(temporaryDirectory())}/replica` }
    return refused(/LOGSTORE_WAL_REPLICA_PATHS/, { ...replicas, ...paths, LOGSTORE_WAL_WRITE_QUORUM: '1' })
  })
  it('with a data directory that cannot be written names LOGSTORE_DATA_DIR', () =>
    refused(/LOGSTORE_DATA_DIR/, { LOGSTORE_DATA_DIR: fileIn(temporaryDirectory()) }))
  it('with a policy file that does not exist names LOGSTORE_TENANT_POLICY_FILE', () =>
    refused(/^LOGSTORE_TENANT_POLICY_FILE names a file that does not exist: \/nowhere\/policy\.json$/, {
      LOGSTORE_TENANT_POLICY_FILE: '/nowhere/policy.json',
    }))
  it('with a policy file that is damaged names LOGSTORE_TENANT_POLICY_FILE and the field', async () => {
    const file = `${temporaryDirectory()}/policy.json`
    const policies: [text: string, says: RegExp][] = [
      ['{', /LOGSTORE_TENANT_POLICY_FILE.*not valid JSON/],
      [
        JSON.stringify({ tenants: [{ id: 'a', credentials: [{ token_sha256: 'secret', datasets: ['*'] }] }] }),
        /LOGSTORE_TENANT_POLICY_FILE.*token_sha256/,
      ],
      ['{"tenants":[],"tenant":[]}', /LOGSTORE_TENANT_POLICY_FILE.*unknown field; known are tenants/],
    ]
    for (const [text, says] of policies) {
      writeFileSync(file, text)
      await refused(says, { LOGSTORE_TENANT_POLICY_FILE: file })
    }
  })
  it('of a service that does not exist names the setting', () =>
    refused(/^TRILOG_SERVICES /, {}, ['--services', 'logstores']))
  it('on a port that is taken names the setting of the address', async () => {
    const taken = createServer()
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
    const { port } = taken.address() as AddressInfo // of a TCP server
    const address = `127.0.0.1:${port}`
    try {
      await refused(/LOGSTORE_BIND_ADDRESS.*taken/, { LOGSTORE_BIND_ADDRESS: address })
      await refused(/LOGSTORE_OTLP_GRPC_BIND_ADDRESS/, { LOGSTORE_OTLP_GRPC_BIND_ADDRESS: address })
    } finally {
      taken.close()
    }
  })
})

describe('a data directory', { concurrency: STARTS_AT_ONCE }, () => {
  let server: LogStoreServer
  before(async () => {
    server = await LogStoreServer.start()
  })
  after(() => server.stop())

  it('is taken by one process: the second one refuses to start, and the first goes on', async () => {
    await refused(/LOGSTORE_DATA_DIR.*in use/, { LOGSTORE_DATA_DIR: server.dataDirectory })
    assert.equal((await server.request('/health', null)).status, 200)
  })
  it('of a newer format is refused and left as it is', async () => {
    const directory = temporaryDirectory()
    const text = JSON.stringify({ format: 'trilog-log', version: 2, id: '89abcdef', crc32: crcOf(2, '89abcdef') })
    writeFileSync(`${directory}/FORMAT`, text)
    await refused(/LOGSTORE_DATA_DIR.*newer/, { LOGSTORE_DATA_DIR: directory })
    assert.equal(readFileSync(`${directory}/FORMAT`, 'utf8'), text)
  })
  const crcOf = (version: number, id: string): string =>
    crc32(`trilog-log ${version} ${id}`).toString(16).padStart(8, '0')
})

describe('an address that is not loopback', () => {
  it('is fine with a policy of ones own', async () => {
    const env = { LOGSTORE_BIND_ADDRESS: '0.0.0.0:0' }
    const server = await LogStoreServer.start({ env, policy: [policyTenant('acme', 'token')] })
    await server.stop()
  })
})

function fileIn(directory: string): string {
  writeFileSync(`${directory}/file`, 'not a directory')
  return `${directory}/file`
}
