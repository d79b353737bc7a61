/** SIGHUP makes a node read its file of authorities again, like certificates. New connections use the new authorities. */
import { after, describe, it } from 'node:test'
import { BrokerServer } from '../support/broker.ts'
import { Authority, TlsFilesOnDisk } from '../support/certificates.ts'
import { leads, nodeEnvironment } from '../support/cluster.ts'
import { natsOrSkip, startNatsServers } from '../support/nats-server.ts'
import { eventually } from '../support/waiting.ts'

const { name, skip } = natsOrSkip('a node of a cluster')

describe(name, { skip }, () => {
  const ends: (() => Promise<unknown>)[] = []
  after(async () => Promise.all(ends.map((end) => end())))

  it('goes on when the NATS servers get certificates of another authority, once it was told', async () => {
    const files = new TlsFilesOnDisk()
    const certified = (by: Authority): void => files.write(by.certify([['CN', 'localhost']]), by)
    certified(new Authority('the first'))
    const tls = `tls { cert_file: ${JSON.stringify(files.cert)}, key_file: ${JSON.stringify(files.key)} }`
    const servers = await startNatsServers(1, tls)
    ends.push(...servers.map((server) => () => server.kill()))
    const node = await BrokerServer.start({
      env: {
        ...nodeEnvironment(servers, 'a', { replicas: 1 }),
        TRILOG_CLUSTER_LEASE_MS: '500',
        TRILOG_CLUSTER_TLS: '1',
        TRILOG_CLUSTER_CA_FILE: files.clientCa,
      },
    })
    ends.push(() => node.kill())
    await eventually(() => leads(node))
    await servers[0]!.kill()
    await eventually(async () => !(await leads(node)))
    certified(new Authority('the second'))
    node.signal('SIGHUP')
    servers[0]!.start()
    await eventually(() => leads(node))
  })
})
