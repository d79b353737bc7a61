/** A NATS server that takes requests and answers none: its process hangs, or the network loses its answers. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { connectionOptionsOf } from '../../../src/cluster/nats/connection.ts'
import { LOG_BEGIN } from '../../../src/cluster/message.ts'
import { NatsStream } from '../../../src/cluster/nats/nats-stream.ts'
import type { StreamMessage } from '../../../src/cluster/headers.ts'
import { Link } from '../../support/link.ts'
import { natsOrSkip, startLinkedNatsServers } from '../../support/nats-server.ts'
import type { LinkedServers } from '../../support/nats-server.ts'
import { eventually } from '../../support/waiting.ts'
import { openedSoon, streamOptions } from './streams.ts'

const { name, skip } = natsOrSkip('a NATS server that says nothing any more')

describe(name, { skip }, () => {
  let linked: LinkedServers
  let links: readonly Link[] = []
  let stream: NatsStream

  before(async () => {
    linked = await startLinkedNatsServers(3)
    links = await Promise.all(linked.servers.map(({ url }) => Link.to(url)))
    stream = await openedSoon(open)
  })
  after(async () => {
    await stream.close()
    await Promise.all([...links, ...linked.routes.flat()].map((link) => link.close()))
    await Promise.all(linked.servers.map((server) => server.kill()))
  })

  /** Opens the stream over the first server that answers, unless another one leads the stream. */
  const open = (among = links): Promise<NatsStream> => {
    const servers = among.map(({ address }) => address)
    const connection = connectionOptionsOf({ servers, credentials: { kind: 'none' }, natsTls: null })
    return NatsStream.open(streamOptions({ ...connection, timeout: 2000, noRandomize: true }))
  }

  const used = (): number => links.findIndex(({ connections }) => connections > 0)
  const isStored = async (): Promise<boolean> => {
    const ends = await stream.ends().catch(() => null)
    return ends !== null && (await stream.publish(ends.last, BEAT)).kind === 'stored'
  }

  it('was the one that leads the stream, whichever is named first', async () => {
    const connection = await connect({ servers: linked.servers[0]!.url })
    const { cluster } = await (await jetstreamManager(connection)).streams.info(stream.name)
    await connection.close()
    const leading = links[Number(/^nats-(\d)$/.exec(cluster!.leader!)![1]) - 1]!
    await stream.close()
    stream = await open([...links.filter((link) => link !== leading), leading])
    await eventually(() => links.filter(({ connections }) => connections > 0).length === 1)
    assert.equal(links[used()], leading)
  })

  it('is left for another one', async () => {
    const link = links[used()]!
    link.hold('there', 'back')
    await eventually(isStored)
    link.heal()
  })

  it('is left for another one when it hears nothing of the others', async () => {
    await eventually(() => links.filter(({ connections }) => connections > 0).length === 1)
    const routes = linked.routes[used()]!
    for (const link of routes) link.hold('there', 'back')
    await eventually(isStored)
    for (const link of routes) link.heal()
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
