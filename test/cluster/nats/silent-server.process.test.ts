/** A NATS server that takes what it is sent and says nothing: its process hangs, or the network between loses what it answers. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { connectionOptionsOf } from '../../../src/cluster/nats/connection.ts'
import { LOG_BEGIN } from '../../../src/cluster/message.ts'
import { NatsStream } from '../../../src/cluster/nats/nats-stream.ts'
import type { StreamMessage } from '../../../src/cluster/nats/nats-stream.ts'
import { Link } from '../../support/link.ts'
import { natsOrSkip, startNatsServers } from '../../support/nats-server.ts'
import type { NatsServer } from '../../support/nats-server.ts'
import { eventually } from '../../support/waiting.ts'

const { name, skip } = natsOrSkip('a NATS server that says nothing any more')

describe(name, { skip }, () => {
  let servers: readonly NatsServer[] = []
  let links: readonly Link[] = []
  let stream: NatsStream

  before(async () => {
    servers = await startNatsServers(3)
    links = await Promise.all(servers.map(({ url }) => Link.to(url)))
    await eventually(async () => {
      const opened = await open().catch(() => null)
      if (opened !== null) stream = opened
      return opened !== null
    })
  })
  after(async () => {
    await stream.close()
    await Promise.all(links.map((link) => link.close()))
    await Promise.all(servers.map((server) => server.kill()))
  })

  const open = (): Promise<NatsStream> =>
    NatsStream.open({
      connection: {
        ...connectionOptionsOf({
          servers: links.map(({ address }) => address),
          credentials: { kind: 'none' },
          natsTls: null,
        }),
        timeout: 2000,
      },
      cluster: 'test',
      service: 'broker',
      replicas: 3,
      keepBytes: 16 << 20,
      keepMs: null,
      log: null,
      randomUint32: () => 1,
    })

  it('is left for another one', async () => {
    const used = links.find(({ connections }) => connections > 0)
    assert.ok(used !== undefined)
    used.hold('there', 'back')
    await eventually(async () => {
      const ends = await stream.ends().catch(() => null)
      return ends !== null && (await stream.publish(ends.last, BEAT)).kind === 'stored'
    })
  })
})

const BEAT: StreamMessage = {
  kind: 'beat',
  epoch: 1,
  writer: 'a/1',
  ordinal: 1,
  begin: LOG_BEGIN,
  end: LOG_BEGIN,
  part: null,
  successor: null,
  body: null,
}
