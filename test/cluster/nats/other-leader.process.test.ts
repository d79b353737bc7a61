/** When another NATS server becomes the leader of the stream, the node connects to that server. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo, Server } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import type { NatsConnection } from '@nats-io/transport-node'
import { LOG_BEGIN } from '../../../src/cluster/message.ts'
import { NatsStream } from '../../../src/cluster/nats/nats-stream.ts'
import type { NatsStreamOptions } from '../../../src/cluster/nats/nats-stream.ts'
import type { StreamMessage } from '../../../src/cluster/headers.ts'
import { Link } from '../../support/link.ts'
import { systemClock } from '../../../src/observability/system-clock.ts'
import { NATS_VERSION, natsOrSkip, startNatsServers } from '../../support/nats-server.ts'
import type { NatsServer } from '../../support/nats-server.ts'
import { eventually } from '../../support/waiting.ts'
import { openedSoon, streamOptions } from './streams.ts'

const { name, skip } = natsOrSkip('another server that leads the stream')

describe(name, { skip }, () => {
  let servers: readonly NatsServer[] = []
  let links: readonly Link[] = []
  let stream: NatsStream
  let beside: NatsConnection
  /** The next look for the stream's leader, which the test runs. */
  let look = (): void => {}

  before(async () => {
    servers = await startNatsServers(3)
    links = await Promise.all(servers.map(({ url }) => Link.to(url)))
    stream = await openedSoon(open)
    beside = await connect({ servers: servers[0]!.url })
  })
  after(async () => {
    await stream.close()
    await beside.close()
    await Promise.all(links.map((link) => link.close()))
    await Promise.all(servers.map((server) => server.kill()))
  })

  const open = (): Promise<NatsStream> => {
    const after: NatsStreamOptions['after'] = (delayMs, run) => {
      if (delayMs < LOOK_MS) return systemClock.wait(delayMs, run)
      look = run
      return () => {}
    }
    const servers = links.map(({ address }) => address)
    return NatsStream.open(streamOptions({ servers, timeout: 2000 }, { after }))
  }

  /** Number of the server that leads the stream, from 0; -1: none does now. */
  const leading = async (): Promise<number> => {
    const { cluster } = await (
      await jetstreamManager(beside, { timeout: 500, checkAPI: false })
    ).streams.info(stream.name)
    return Number(/^nats-(\d)$/.exec(cluster?.leader ?? '')?.[1] ?? 0) - 1
  }
  const usesOnly = (server: number): boolean => links.every(({ connections }, i) => connections > 0 === (i === server))

  it('is gone over to, without a message that is not stored', async () => {
    const first = await leading()
    await eventually(() => usesOnly(first))
    await beside.request(`$JS.API.STREAM.LEADER.STEPDOWN.${stream.name}`)
    await eventually(async () => ![-1, first].includes(await leading().catch(() => -1)))
    const second = await leading()
    const move = { isOver: false }
    const kinds = new Set<string>()
    let { last } = await stream.ends()
    const publishing = (async () => {
      for (; !move.isOver; last += 1) kinds.add((await stream.publish(last, BEAT)).kind)
    })()
    look()
    await eventually(() => usesOnly(second))
    move.isOver = true
    await publishing
    assert.deepEqual([...kinds], ['stored'])
  })

  it('is read from, and hears and tells what nodes say', async () => {
    const heard: string[] = []
    stream.receiveFromNodes((text) => heard.push(text))
    const delivered: number[] = []
    let ended = 0
    const read = (from: number): Promise<() => void> =>
      stream.follow(from, {
        delivered: (messages) => delivered.push(...messages.map(({ sequence }) => sequence)),
        ended: () => (ended += 1),
      })
    const { last } = await stream.ends()
    await read(last)
    await eventually(() => delivered.length === 1)
    const before = await leading()
    await beside.request(`$JS.API.STREAM.LEADER.STEPDOWN.${stream.name}`)
    await eventually(async () => ![-1, before].includes(await leading().catch(() => -1)))
    look()
    await eventually(() => ended === 1)
    stream.sendToNodes('here I am')
    await eventually(() => heard.length > 0)
    const stop = await read(last)
    await eventually(() => delivered.length === 2)
    stop()
    assert.deepEqual([heard, delivered, ended], [['here I am'], [last, last], 1])
  })

  it('is not gone over to while the stream does not answer by way of it', async () => {
    let first = -1
    await eventually(async () => (first = await leading().catch(() => -1)) >= 0)
    const link = await Link.to(servers[(first + 1) % servers.length]!.url)
    const { server, refused } = await withoutStreams(`nats-${first + 1}`)
    const { port } = server.address() as AddressInfo
    const addresses = [link.address, `127.0.0.1:${port}`]
    const opened = await NatsStream.open(streamOptions({ servers: addresses, timeout: 2000, noRandomize: true }))
    try {
      assert.equal(refused(), 1)
      await eventually(() => link.connections === 1) // looking for the leader by name made another connection
      const { last } = await opened.ends()
      assert.deepEqual(await opened.publish(last, BEAT), { kind: 'stored', sequence: last + 1 })
    } finally {
      await opened.close()
      await link.close()
      server.close()
    }
  })
})

/** A fake server of that name without streams. @returns also a count of the requests for streams that it refused */
async function withoutStreams(
  serverName: string,
): Promise<{ readonly server: Server; readonly refused: () => number }> {
  const info = { server_id: 'X', server_name: serverName, version: NATS_VERSION, proto: 1, headers: true }
  let refused = 0
  const server = createServer((socket) => {
    socket.write(`INFO ${JSON.stringify({ ...info, jetstream: true, max_payload: 1 << 20 })}\r\n`)
    let inbox = ''
    socket.on('data', (bytes) => {
      for (const line of bytes.toString('latin1').split('\r\n')) {
        const [word, subject = '', third = ''] = line.split(' ')
        if (word === 'PING') socket.write('PONG\r\n')
        if (word === 'SUB') inbox = third
        if (word !== 'PUB' || !subject.startsWith('$JS.API.STREAM.INFO.')) continue
        refused += 1
        socket.write(`HMSG ${third} ${inbox} 16 16\r\nNATS/1.0 503\r\n\r\n\r\n`)
      }
    })
    socket.on('error', () => {})
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { server, refused: () => refused }
}

/** Delay from which a timer is taken for the look for the leader: all others are shorter. */
const LOOK_MS = 10_000
const BEAT: StreamMessage = {
  kind: 'beat',
  epoch: 1,
  ordinal: 0,
  writer: 'a/1',
  begin: LOG_BEGIN,
  end: LOG_BEGIN,
  part: null,
  successor: null,
  body: null,
}
