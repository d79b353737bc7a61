/** Contract "Broker": the replication binding is read again on SIGHUP, against targets in the modes mtls and api-key over TLS. */
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { renameSync, writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { HttpNativeClient } from '../../../src/client/index.ts'
import { PERMISSIONS } from '../../../src/broker/grants.ts'
import { BrokerServer } from '../../support/broker.ts'
import { Authority, TlsFilesOnDisk } from '../../support/certificates.ts'
import { temporaryDirectory } from '../../support/directories.ts'
import { Site, numbered, policyTo } from '../../support/site.ts'
import { eventually } from '../../support/waiting.ts'

const ALL = PERMISSIONS.map((permission) => ({ permission }))
const servers = new Authority('servers')
const clients = new Authority('clients')

/** Files that are whole at every moment, as each is written under another name first. */
class Files {
  readonly #directory = temporaryDirectory()

  write(name: string, text: string): string {
    const path = `${this.#directory}/${name}`
    writeFileSync(`${path}.new`, text)
    renameSync(`${path}.new`, path)
    return path
  }
}

async function startTarget(mode: 'api-key' | 'mtls', keys: readonly object[]): Promise<BrokerServer> {
  const files = new Files()
  const tls = new TlsFilesOnDisk()
  tls.write(servers.certify([['CN', 'localhost']]), clients)
  const credentials = files.write('keys.json', JSON.stringify({ keys }))
  const flags = ['--tls-cert', tls.cert, '--tls-key', tls.key, '--auth-mode', mode, '--credentials-file', credentials]
  return BrokerServer.start({ flags: mode === 'mtls' ? [...flags, '--tls-client-ca', tls.clientCa] : flags })
}

const owner = { tenant: 'local', principal: 'site-a', grants: ALL }

/** Number of records at the target; 0 while the stream does not exist or cannot be read. */
async function countAt(target: BrokerServer, credentials: object): Promise<number> {
  const tls = { ca: servers.cert, ...credentials }
  const client = await HttpNativeClient.connect(target.url, { producerId: 't', tls, ...credentials })
  try {
    return (await client.fetch('orders', { max_records: 1000 })).records.length
  } catch {
    return 0
  } finally {
    await client.close()
  }
}

const hangUp = async (source: BrokerServer, says: string): Promise<void> => {
  const before = source.stderr.split(says).length
  source.signal('SIGHUP')
  await eventually(() => source.stderr.split(says).length > before)
}
const READ_AGAIN = 'replication binding read again'
const STAYS = 'the replication binding was refused: the policies before stay in force'

describe('SIGHUP', () => {
  it('reads the binding again: another certificate for an mtls target, another endpoint with a key; a wrong one changes nothing', async (context) => {
    const files = new Files()
    const known = clients.certify([['CN', 'site-a']])
    const unknown = clients.certify([['CN', 'nobody']])
    const first = await startTarget('mtls', [{ subject: 'CN=site-a', ...owner }])
    const second = await startTarget('api-key', [{ key_sha256: hash('sha256', 'the-key'), ...owner }])
    context.after(() => Promise.all([first.kill(), second.kill()]))
    const ca = files.write('ca.pem', servers.cert)
    const target_cert_file = files.write('me.pem', unknown.cert)
    const target_key_file = files.write('me.key', unknown.key)
    const bind = (more: object): string =>
      files.write('binding.json', JSON.stringify({ policies: [policyTo(first.url, { target_ca_file: ca, ...more })] }))
    const binding = bind({ target_cert_file, target_key_file })
    const source = await BrokerServer.start({ flags: ['--replication-binding-file', binding] })
    context.after(() => source.kill())
    const site = new Site(source)
    await site.create('orders')
    await site.publish('orders', numbered(0, 5))
    await eventually(async () => (await site.worker('orders')).last_error?.code === 'authentication_failed')

    // Another certificate, but the same binding.
    files.write('me.pem', known.cert)
    files.write('me.key', known.key)
    await hangUp(source, READ_AGAIN)
    await eventually(async () => (await site.worker('orders')).lag_records === 0)
    assert.equal(await countAt(first, known), 5)
    assert.equal((await site.events('replication_binding_reloaded')).length, 1)

    // A binding that is wrong leaves the old one in force. The log says why, without the content of the files.
    const wrong: readonly (readonly [() => unknown, RegExp])[] = [
      [() => files.write('binding.json', '{'), /is not valid JSON/],
      [
        () => bind({ target_cert_file, target_key_file: `${target_key_file}.none` }),
        /target_key_file names a file that/,
      ],
      [() => bind({ api_key_file: files.write('key', '') }), /api_key_file names a file that holds no key/],
      [() => bind({ target_ca_file: target_key_file }), /target_ca_file names a file without a certificate/],
    ]
    for (const [spoil, says] of wrong) {
      spoil()
      await hangUp(source, STAYS)
      const line = source.stderr.split('\n').findLast((each) => each.includes(STAYS))!
      assert.match(line, says)
      assert.match(line, /--replication-binding-file names/)
    }
    assert.doesNotMatch(source.stderr, /PRIVATE KEY/)
    await site.publish('orders', numbered(5, 7))
    await eventually(async () => (await site.worker('orders')).lag_records === 0)
    assert.equal(await countAt(first, known), 7)
    assert.equal((await site.events('replication_binding_reloaded')).length, 1)

    // Another endpoint, which has no records yet, gets all of them. Its key comes a moment later.
    const api_key_file = files.write('key', 'another-key\n')
    bind({ target_url: second.url, api_key_file })
    await hangUp(source, READ_AGAIN)
    await site.publish('orders', numbered(7, 8))
    await eventually(async () => (await site.worker('orders')).last_error?.code === 'authentication_failed')
    files.write('key', 'the-key\n')
    await hangUp(source, READ_AGAIN)
    await eventually(async () => (await countAt(second, { apiKey: 'the-key' })) === 8)
    assert.equal(await countAt(first, known), 7)
  })

  it('drops no connection of clients, and none that a batch is on', async (context) => {
    const target = await BrokerServer.start()
    context.after(() => target.kill())
    const files = new Files()
    const bind = (more: object): string =>
      files.write('binding.json', JSON.stringify({ policies: [policyTo(target.url, more)] }))
    const source = await BrokerServer.start({ flags: ['--replication-binding-file', bind({})] })
    context.after(() => source.kill())
    const site = new Site(source)
    await site.create('orders', { default_durability: 'replication-policy:dr' })
    const client = await HttpNativeClient.connect(source.url, { producerId: 't', streaming: true })
    context.after(() => client.close())
    for (let round = 0; round < 5; round += 1) {
      const records = Array.from({ length: 20 }, (_, i) => ({ message_id: `m-${20 * round + i}`, payload: 'x' }))
      const published = records.map((record) => client.publish('orders', record))
      bind({ max_lag_records: 1000 + round })
      await hangUp(source, READ_AGAIN)
      for (const { acknowledgement } of await Promise.all(published)) assert.equal(acknowledgement.durable, true)
    }
    await eventually(async () => (await site.worker('orders')).lag_records === 0)
    assert.deepEqual(await new Site(target).ids('orders'), numbered(0, 100))
    assert.equal((await site.worker('orders')).max_lag_records, 1004)
  })
})
