/** A start that cannot work says why in one line: against real NATS servers, and against a fake one. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { after, describe, it } from 'node:test'
import { connect } from '@nats-io/transport-node'
import { StoreError } from '../../../src/errors.ts'
import { connectionOptionsOf } from '../../../src/cluster/nats/connection.ts'
import type { NatsAccess } from '../../../src/cluster/nats/connection.ts'
import { NatsStream } from '../../../src/cluster/nats/nats-stream.ts'
import { Authority, TlsFilesOnDisk } from '../../support/certificates.ts'
import { systemClock } from '../../../src/observability/system-clock.ts'
import { natsOrSkip, startNatsServers } from '../../support/nats-server.ts'
import type { NatsServer } from '../../support/nats-server.ts'
import { eventually } from '../../support/waiting.ts'

const PLAIN: NatsAccess = { servers: [], credentials: { kind: 'none' }, natsTls: null }

const open = (access: NatsAccess, replicas = 1): Promise<NatsStream> =>
  NatsStream.open({
    connection: { ...connectionOptionsOf(access), timeout: 5000 },
    cluster: 'test',
    service: 'broker',
    replicas,
    keepBytes: 16 << 20,
    keepMs: null,
    log: null,
    randomUint32: () => 1,
    nowMs: () => performance.now(),
    after: (delayMs, run) => systemClock.wait(delayMs, run),
  })

async function refusalOf(access: NatsAccess, replicas = 1): Promise<StoreError> {
  const outcome = await open(access, replicas).then(
    async (stream) => stream.close(),
    (error: unknown) => error,
  )
  assert.ok(outcome instanceof StoreError, String(outcome))
  assert.ok(!outcome.message.includes('\n'))
  return outcome
}

describe('a server that says it is older than 2.10', () => {
  it('is refused by its version', async () => {
    const info = { server_id: 'x', version: '2.9.25', headers: true, max_payload: 1 << 20, jetstream: true, proto: 1 }
    const server = createServer((socket) => {
      socket.write(`INFO ${JSON.stringify(info)}\r\n`)
      socket.on('data', (data) => data.includes('PING') && socket.write('PONG\r\n'))
      socket.on('error', () => {}) // the client hangs up
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const refusal = await refusalOf({ ...PLAIN, servers: [`127.0.0.1:${port}`] })
    assert.equal(refusal.message, 'TRILOG_CLUSTER_SERVERS: NATS server 2.9.25 is too old: upgrade it to 2.10 or newer')
    assert.equal(refusal.kind, 'invalid')
    server.close()
  })
})

describe('no server at all', () => {
  it('is unavailable, as it may come yet', async () => {
    const refusal = await refusalOf({ ...PLAIN, servers: ['127.0.0.1:1'] })
    assert.match(refusal.message, /^TRILOG_CLUSTER_SERVERS: no NATS server can be used: connection refused$/)
    assert.equal(refusal.kind, 'unavailable')
  })
})

const { name, skip } = natsOrSkip('a start against real NATS servers')

describe(name, { skip }, () => {
  const servers: NatsServer[] = []
  after(async () => Promise.all(servers.map((server) => server.kill())))

  const tls = new TlsFilesOnDisk()
  const authority = new Authority('an authority')
  tls.write(authority.certify([['CN', 'localhost']]), authority)

  /** @param access for a connection that tells when the servers are ready */
  async function start(settings: string, access: NatsAccess = PLAIN, hasJetStream = true): Promise<readonly string[]> {
    const started = await startNatsServers(1, settings, hasJetStream)
    servers.push(...started)
    const addresses = started.map(({ url }) => url.replace('nats://', ''))
    const options = connectionOptionsOf({ ...access, servers: addresses })
    await eventually(async () => (await connect(options).catch(() => null))?.close() !== undefined)
    return addresses
  }

  it('names the credentials that are wrong, and never says them', async () => {
    const good = { kind: 'user', user: 'u', password: 'open-sesame' } as const
    const authorization = 'authorization { user: "u", password: "open-sesame" }'
    const addresses = await start(authorization, { ...PLAIN, credentials: good })
    const access = { ...PLAIN, servers: addresses }
    await (await open({ ...access, credentials: good })).close()
    for (const [credentials, message] of [
      [{ kind: 'none' }, /^TRILOG_CLUSTER_SERVERS: the NATS servers ask for credentials: set TRILOG_CLUSTER_CRED/],
      [{ ...good, password: 'other-secret' }, /^TRILOG_CLUSTER_USER and TRILOG_CLUSTER_PASSWORD: .* refuse/],
      [{ kind: 'token', token: 'other-secret' }, /^TRILOG_CLUSTER_TOKEN: the NATS servers refuse these credentials$/],
    ] as const) {
      const refusal = await refusalOf({ ...access, credentials })
      assert.match(refusal.message, message)
      assert.doesNotMatch(refusal.message, /other-secret/)
      assert.equal(refusal.kind, 'invalid')
    }
  })

  it('says that JetStream is off, and what a message may have', async () => {
    const off = await start('', PLAIN, false)
    assert.match((await refusalOf({ ...PLAIN, servers: off })).message, /^TRILOG_CLUSTER_SERVERS: JetStream is off/)
    const small = await start('max_payload: 32KB')
    assert.match(
      (await refusalOf({ ...PLAIN, servers: small })).message,
      /^TRILOG_CLUSTER_SERVERS: max_payload of the NATS server is 32768 bytes, and must be at least 69632/,
    )
  })

  it('says which of the settings of TLS is wrong', async () => {
    const natsTls = { ca: authority.cert }
    const addresses = await start(
      `tls { cert_file: ${JSON.stringify(tls.cert)}, key_file: ${JSON.stringify(tls.key)} }`,
      { ...PLAIN, natsTls },
    )
    const access = { ...PLAIN, servers: addresses }
    await (await open({ ...access, natsTls })).close()
    assert.match((await refusalOf(access)).message, /^TRILOG_CLUSTER_TLS must be 1, with TRILOG_CLUSTER_CA_FILE/)
    const foreign = { ca: new Authority('another').cert }
    assert.match(
      (await refusalOf({ ...access, natsTls: foreign })).message,
      /^TRILOG_CLUSTER_CA_FILE: these authorities signed no certificate/,
    )
    const plain = await start('')
    assert.match(
      (await refusalOf({ ...PLAIN, servers: plain, natsTls })).message,
      /^TRILOG_CLUSTER_TLS: the NATS server speaks no TLS/,
    )
  })

  it('counts the servers', async () => {
    const alone = await start('')
    const message = /^TRILOG_CLUSTER_REPLICAS is 3, and the NATS servers cannot keep so many/
    assert.match((await refusalOf({ ...PLAIN, servers: alone }, 3)).message, message)
  })
})
