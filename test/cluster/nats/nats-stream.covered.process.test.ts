import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { LOG_BEGIN } from '../../../src/cluster/message.ts'
import { NatsStream } from '../../../src/cluster/nats/nats-stream.ts'
import type { StreamMessage } from '../../../src/cluster/headers.ts'
import type { NatsStreamOptions } from '../../../src/cluster/nats/nats-stream.ts'
import { natsOrSkip, startNatsServers } from '../../support/nats-server.ts'
import type { NatsServer } from '../../support/nats-server.ts'
import { eventually } from '../../support/waiting.ts'
import { streamOptions } from './streams.ts'

const { name, skip } = natsOrSkip('a stream on a real NATS server')

describe(name, { skip }, () => {
  let server: NatsServer
  let options: NatsStreamOptions
  const streams: NatsStream[] = []
  let clusters = 0

  before(async () => {
    ;[server] = (await startNatsServers(1)) as [NatsServer]
    options = streamOptions({ servers: [server.url] }, { replicas: 1, randomUint32: () => 0x01234567 })
    await eventually(async () => (await connect({ servers: server.url }).catch(() => null))?.close() !== undefined)
  })
  after(async () => {
    await Promise.all(streams.map((stream) => stream.close()))
    await server.kill()
  })

  async function open(changed: Partial<NatsStreamOptions> = {}): Promise<NatsStream> {
    const stream = await NatsStream.open({ ...options, ...changed })
    streams.push(stream)
    return stream
  }
  const refusal = async (changed: Partial<NatsStreamOptions>): Promise<string> => {
    const error: unknown = await open(changed).catch((refused: unknown) => refused)
    assert.ok(error instanceof Error, 'it is refused')
    assert.ok(!error.message.includes('\n'))
    return error.message
  }
  const ofNewCluster = (): Partial<NatsStreamOptions> => ({ cluster: `test-${(clusters += 1)}` })

  it('stores a message only at the sequence that it is for, and finds it there', async () => {
    const stream = await open(ofNewCluster())
    assert.deepEqual(await stream.publish(0, message(0)), { kind: 'stored', sequence: 1 })
    assert.deepEqual(await stream.publish(0, message(1)), { kind: 'refused' })
    assert.deepEqual(await stream.publish(2, message(1)), { kind: 'refused' })
    const frames = { ...message(1), kind: 'frames', body: Buffer.from('frames') } as const
    assert.deepEqual(await stream.publish(1, frames), { kind: 'stored', sequence: 2 })
    assert.deepEqual(await stream.lookUp(1), message(0))
    const found = await stream.lookUp(2)
    assert.deepEqual({ ...found, body: Buffer.from(found!.body!) }, frames)
    assert.equal(await stream.lookUp(3), null)
    assert.deepEqual(await stream.ends(), { first: 1, last: 2 })
  })

  it('stores several that are on their way in their order', async () => {
    const stream = await open(ofNewCluster())
    const published = await Promise.all(Array.from({ length: 64 }, (_, i) => stream.publish(i, message(i))))
    assert.deepEqual(
      published,
      Array.from({ length: 64 }, (_, i) => ({ kind: 'stored', sequence: i + 1 })),
    )
  })

  it('delivers from a sequence on, what is there and what comes', async () => {
    const cluster = ofNewCluster()
    const stream = await open(cluster)
    for (let i = 0; i < 3; i += 1) await stream.publish(i, message(i))
    const delivered: [number, number][] = []
    const stop = await (
      await open(cluster)
    ).follow(2, {
      delivered: (messages) => {
        for (const { sequence, message } of messages) delivered.push([sequence, message.ordinal])
      },
      ended: () => {},
    })
    await eventually(() => delivered.length === 2)
    await stream.publish(3, message(3))
    await eventually(() => delivered.length === 3)
    assert.deepEqual(delivered, [
      [2, 1],
      [3, 2],
      [4, 3],
    ])
    stop()
  })

  it('keeps a large body in fewer bytes, and delivers it as it was', async () => {
    const cluster = ofNewCluster()
    const stream = await open(cluster)
    const body = Buffer.alloc(100 << 10, 'again and ')
    await stream.publish(0, { ...message(1), kind: 'frames', body })
    const connection = await connect({ servers: server.url })
    const { state } = await (await jetstreamManager(connection)).streams.info(stream.name)
    await connection.close()
    assert.ok(state.bytes < 10_000)
    const bodies = [(await stream.lookUp(1))?.body]
    const stop = await stream.follow(1, {
      delivered: (messages) => bodies.push(...messages.map((delivered) => delivered.message.body)),
      ended: () => {},
    })
    await eventually(() => bodies.length === 2)
    stop()
    for (const read of bodies) assert.deepEqual(Buffer.from(read!), body)
  })

  it('says when the consumer that it reads by is gone, and reads again from where it is asked to', async () => {
    const stream = await open(ofNewCluster())
    await stream.publish(0, message(0))
    let ended = 0
    const read = (from: number) =>
      stream.follow(from, {
        delivered: (messages) => delivered.push(...messages.map(({ sequence }) => sequence)),
        ended: () => (ended += 1),
      })
    const delivered: number[] = []
    await read(1)
    await eventually(() => delivered.length === 1)
    const connection = await connect({ servers: server.url })
    const { consumers } = await jetstreamManager(connection)
    for await (const { name } of consumers.list(stream.name)) await consumers.delete(stream.name, name)
    await connection.close()
    await eventually(() => ended === 1)
    await stream.publish(1, message(1))
    const stop = await read(2)
    await eventually(() => delivered.length === 2)
    stop()
    assert.deepEqual([delivered, ended], [[1, 2], 1])
  })

  it('takes the log of the stream, whoever made it, and refuses another', async () => {
    const cluster = ofNewCluster()
    const made = await Promise.all([
      open({ ...cluster, randomUint32: () => 1 }),
      open({ ...cluster, randomUint32: () => 2 }),
      open({ ...cluster, randomUint32: () => 3 }),
    ])
    assert.equal(new Set(made.map(({ logId }) => logId)).size, 1)
    const { logId } = made[0]
    assert.equal((await open({ ...cluster, log: logOf(logId) })).logId, logId)
    assert.match(
      await refusal({ ...cluster, log: logOf(99) }),
      /^TRILOG_CLUSTER_NAME: .* holds log .* another name, or an empty/,
    )
  })

  it('says in one line which setting is wrong', async () => {
    assert.match(
      await refusal({ ...ofNewCluster(), replicas: 3 }),
      /^TRILOG_CLUSTER_REPLICAS is 3, and the NATS servers cannot/,
    )
    assert.match(await refusal({ ...ofNewCluster(), keepBytes: 2 ** 50 }), /^TRILOG_CLUSTER_KEEP_BYTES is .* no room/)
    assert.match(
      await refusal({ connection: { servers: ['127.0.0.1:1'], timeout: 500 } }),
      /^TRILOG_CLUSTER_SERVERS: no NATS server can be used/,
    )
    const connection = await connect({ servers: server.url })
    const manager = await jetstreamManager(connection)
    const foreign = { name: 'trilog-foreign-broker', subjects: ['else'] }
    await manager.streams.add(foreign)
    assert.match(await refusal({ cluster: 'foreign' }), /^TRILOG_CLUSTER_NAME: .* is not of this cluster/)
    const metadata = {
      'trilog-format': '2',
      'trilog-cluster': 'newer',
      'trilog-service': 'broker',
      'trilog-log': '00000001',
    }
    await manager.streams.add({ name: 'trilog-newer-broker', subjects: ['trilog.newer.broker'], metadata })
    assert.match(
      await refusal({ cluster: 'newer' }),
      /^TRILOG_CLUSTER_NAME: .* of format 2, this version knows 1: upgrade/,
    )
    await manager.streams.add({
      name: 'trilog-memory-broker',
      subjects: ['trilog.memory.broker'],
      storage: 'memory',
      metadata: { ...metadata, 'trilog-format': '1', 'trilog-cluster': 'memory' },
    })
    assert.match(await refusal({ cluster: 'memory' }), /^TRILOG_CLUSTER_NAME: .* was changed/)
    await connection.close()
  })

  it('takes what somebody else put into the stream for a message that never counts', async () => {
    const cluster = ofNewCluster()
    const stream = await open(cluster)
    const connection = await connect({ servers: server.url })
    await connection.request(`trilog.${cluster.cluster}.broker`, 'hello')
    await connection.close()
    assert.deepEqual([(await stream.lookUp(1))?.epoch, (await stream.lookUp(1))?.ordinal], [0, -1])
  })
})

const message = (ordinal: number): StreamMessage => ({
  kind: ordinal === 0 ? 'epoch' : 'beat',
  epoch: 1,
  writer: 'a/1',
  ordinal,
  begin: LOG_BEGIN,
  end: LOG_BEGIN,
  part: null,
  successor: null,
  body: null,
})

const logOf = (id: number) => ({ id, end: LOG_BEGIN, epoch: 0 })
