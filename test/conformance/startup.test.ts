/** Contract "All three": a start that cannot work prints one line that names the setting, and exits with code 2. */
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { crc32 } from 'node:zlib'
import { after, before, describe, it } from 'node:test'
import { LogStoreServer, failToStart, policyTenant, temporaryDirectory } from '../support/server.ts'

const STARTS_AT_ONCE = 2

async function refused(names: RegExp, env: Readonly<Record<string, string>>, args?: readonly string[]): Promise<void> {
  const { code, stdout, stderr } = await failToStart(env, args)
  assert.deepEqual([code, stdout], [2, ''], stderr)
  assert.match(stderr, names)
  assert.equal(stderr.trimEnd().split('\n').length, 1, stderr)
}

describe('a start', { concurrency: STARTS_AT_ONCE }, () => {
  const replicas = { LOGSTORE_WAL_DURABILITY_MODE: 'replicated-local' }
  const SETTINGS: readonly Readonly<Record<string, string>>[] = [
    { LOGSTORE_BIND_ADDRESS: 'localhost' },
    { LOGSTORE_OTLP_GRPC_BIND_ADDRESS: '127.0.0.1:65536' },
    { LOGSTORE_MAX_BODY_BYTES: '16MiB' },
    { LOGSTORE_GATEWAY_MAX_REQUESTS: '0' },
    { LOGSTORE_WAL_DURABILITY_MODE: 'none' },
    { LOGSTORE_WAL_REPLICA_PATHS: '', ...replicas, LOGSTORE_WAL_WRITE_QUORUM: '1' },
    { LOGSTORE_WAL_WRITE_QUORUM: '3', ...replicas, LOGSTORE_WAL_REPLICA_PATHS: '/tmp/trilog-never-made' },
    { LOGSTORE_QUERY_S3_BUCKET: '', LOGSTORE_QUERY_STORE: 's3' },
    { LOGSTORE_QUERY_S3_REGION: '' },
    { LOGSTORE_RETENTION_MAX_BYTES: '-1' },
    { TRILOG_LOG_LEVEL: 'loud' },
    { LOGSTORE_BIND_ADDRESS: '0.0.0.0:0' },
    { LOGSTORE_OTLP_GRPC_BIND_ADDRESS: '[::]:0' },
    { LOGSTORE_TENANT_POLICY_FILE: '/nowhere/policy.json' },
  ]
  for (const env of SETTINGS) {
    const [[name, value]] = Object.entries(env) as [[string, string]] // none of them is empty
    it(`with ${name}='${value}' names ${name}`, () => refused(new RegExp(`\\b${name}\\b`), env))
  }
  it('with a replica directory equal to the data directory names LOGSTORE_WAL_REPLICA_PATHS', () => {
    const directory = `${temporaryDirectory()}/data`
    const paths = { LOGSTORE_DATA_DIR: directory, LOGSTORE_WAL_REPLICA_PATHS: `${directory}/../data` }
    return refused(/LOGSTORE_WAL_REPLICA_PATHS/, { ...replicas, ...paths, LOGSTORE_WAL_WRITE_QUORUM: '2' })
  })
  it('with a replica directory that cannot be written names LOGSTORE_WAL_REPLICA_PATHS', () => {
    const paths = { LOGSTORE_WAL_REPLICA_PATHS: `${fileIn(temporaryDirectory())}/replica` }
    return refused(/LOGSTORE_WAL_REPLICA_PATHS/, { ...replicas, ...paths, LOGSTORE_WAL_WRITE_QUORUM: '1' })
  })
  it('with a data directory that cannot be written names LOGSTORE_DATA_DIR', async () => {
    const file = fileIn(temporaryDirectory())
    for (const directory of [file, `${file}/data`, '/proc/trilog'])
      await refused(/LOGSTORE_DATA_DIR/, { LOGSTORE_DATA_DIR: directory })
  })
  it('with a policy file that is damaged names LOGSTORE_TENANT_POLICY_FILE and the field', async () => {
    const file = `${temporaryDirectory()}/policy.json`
    const policies: [text: string, says: RegExp][] = [
      ['{', /LOGSTORE_TENANT_POLICY_FILE.*not valid JSON/],
      ['{"tenants":[]}', /LOGSTORE_TENANT_POLICY_FILE.*tenants/],
      [
        JSON.stringify({ tenants: [{ id: 'a', credentials: [{ token_sha256: 'secret', datasets: ['*'] }] }] }),
        /LOGSTORE_TENANT_POLICY_FILE.*token_sha256/,
      ],
      [
        JSON.stringify({ tenants: [policyTenant('a', 't'), policyTenant('a', 't')] }),
        /LOGSTORE_TENANT_POLICY_FILE.*twice/,
      ],
    ]
    for (const [text, says] of policies) {
      writeFileSync(file, text)
      await refused(says, { LOGSTORE_TENANT_POLICY_FILE: file })
    }
  })
  it('with a flag or a service that does not exist names it', async () => {
    await refused(/--port/, {}, ['--port', '1'])
    await refused(/--services/, {}, ['--services', 'logstores'])
  })
  it('with two bad settings tells both', async () => {
    const { code, stderr } = await failToStart({ LOGSTORE_MAX_BODY_BYTES: 'x', LOGSTORE_GATEWAY_MAX_BYTES: 'y' })
    assert.equal(code, 2)
    assert.match(stderr, /^LOGSTORE_MAX_BODY_BYTES .+\nLOGSTORE_GATEWAY_MAX_BYTES .+\n$/)
  })
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
  it('on an address that is not of this machine names the setting', () =>
    refused(/LOGSTORE_BIND_ADDRESS/, { LOGSTORE_BIND_ADDRESS: '192.0.2.1:4318', TRILOG_ALLOW_INSECURE_BIND: '1' }))
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
  it('of something else is refused', async () => {
    const directory = temporaryDirectory()
    writeFileSync(`${directory}/FORMAT`, 'something else')
    await refused(/LOGSTORE_DATA_DIR/, { LOGSTORE_DATA_DIR: directory })
  })
  it('that holds segments of unknown format is refused', async () => {
    const directory = temporaryDirectory()
    mkdirSync(`${directory}/bundles/0000000000000000`, { recursive: true })
    writeFileSync(`${directory}/bundles/0000000000000000/records.log`, 'records')
    await refused(/LOGSTORE_DATA_DIR/, { LOGSTORE_DATA_DIR: directory })
  })

  const crcOf = (version: number, id: string): string =>
    crc32(`trilog-log ${version} ${id}`).toString(16).padStart(8, '0')
})

describe('an address that is not loopback', { concurrency: STARTS_AT_ONCE }, () => {
  const everywhere = { LOGSTORE_BIND_ADDRESS: '0.0.0.0:0' }
  it('is fine with a policy of ones own', async () => {
    const server = await LogStoreServer.start({ env: everywhere, policy: [policyTenant('acme', 'token')] })
    await server.stop()
  })
  it('is fine with the development credentials where TRILOG_ALLOW_INSECURE_BIND=1', async () => {
    const server = await LogStoreServer.start({ env: { ...everywhere, TRILOG_ALLOW_INSECURE_BIND: '1' } })
    await server.stop()
  })
})

function fileIn(directory: string): string {
  writeFileSync(`${directory}/file`, 'not a directory')
  return `${directory}/file`
}
