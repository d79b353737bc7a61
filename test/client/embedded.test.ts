import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { SdkError, openEmbeddedBroker } from '../../src/client/index.ts'
import type { EmbeddedBrokerConfig } from '../../src/client/index.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { nextTurn } from '../support/next-turn.ts'
import { SILENT, closesBrokers, newStream, openBroker, refusalOf } from './support.ts'

const SETTINGS = { producerId: 'tester' }

describe('an embedded broker', () => {
  closesBrokers()

  it('keeps everything from one life to the next', async () => {
    const directory = `${temporaryDirectory()}/below/data`
    const first = await openBroker(directory)
    const stream = await newStream(first.client(SETTINGS), 'a', 'b')
    const { deliveries } = await first.client(SETTINGS).claimQueue(stream, 'workers')
    await first.close()

    const client = (await openBroker(directory)).client(SETTINGS)
    assert.deepEqual(
      (await client.fetch(stream)).records.map(({ payload }) => payload.toString()),
      ['a', 'b'],
    )
    assert.equal((await client.ack(deliveries[0]!)).offset, 0)
  })

  it('answers what was asked before it was closed, and keeps it', async () => {
    const directory = temporaryDirectory()
    const broker = await openBroker(directory)
    const client = broker.client(SETTINGS)
    const stream = await newStream(client)
    const publishing = Array.from({ length: 50 }, (_, i) =>
      client.publish(stream, { message_id: `${i}`, payload: 'p' }),
    )
    const reading = client.fetch(stream)
    await broker.close()
    assert.deepEqual(
      (await Promise.all(publishing)).map(({ offset }) => offset),
      publishing.map((_, i) => i),
    )
    assert.equal((await reading).stream, stream)
    const again = (await openBroker(directory)).client(SETTINGS)
    assert.equal((await again.describeStream(stream)).next_offset, 50)
  })

  it('ends what waits when it is closed, once, and is asked nothing any more', async () => {
    const broker = await openBroker()
    const client = broker.client(SETTINGS)
    const stream = await newStream(client)
    const claim = client.claimQueue(stream, 'g', { wait_millis: 30_000 })
    const queue = client.subscribeQueue(stream, 'g').next()
    const replay = client.subscribeReplay(stream).next()
    await nextTurn()
    const closing = broker.close()
    assert.equal(broker.close(), closing)
    await closing
    assert.equal((await claim).delivery_count, 0)
    assert.deepEqual([(await queue).done, (await replay).done], [true, true])
    const { kind, code, retryable } = await refusalOf(client.publish(stream, { message_id: 'm', payload: 'p' }))
    assert.deepEqual({ kind, code, retryable }, { kind: 'Transport', code: 'broker_closed', retryable: false })
    assert.equal((await client.subscribeQueue(stream, 'g').next()).done, true)
  })

  it('refuses bad settings of a client', async () => {
    const broker = await openBroker()
    for (const settings of [{ producerId: ' ' }, null, undefined]) {
      assert.throws(() => broker.client(settings as never), { code: 'InvalidConfig' })
    }
  })

  it('with append-only answers after the write, and with replicas after a quorum', async () => {
    const directory = temporaryDirectory()
    const broker = await openEmbeddedBroker({
      dataDirectory: `${directory}/data`,
      replicaDirectories: [`${directory}/replica`],
      writeQuorum: 2,
      flushPolicy: 'append-only',
      logger: SILENT,
    })
    try {
      const client = broker.client(SETTINGS)
      const record = { message_id: 'm', payload: 'p' }
      await client.createStream('plain')
      await client.createStream('quorum', { default_durability: 'local-quorum' })
      assert.equal((await client.publish('plain', record)).acknowledgement.durability, 'local-append')
      assert.deepEqual((await client.publish('quorum', record)).acknowledgement, {
        durability: 'local-quorum',
        durable: true,
        replicas: 2,
      })
    } finally {
      await broker.close()
    }
  })

  it('logs what failed, and tells its caller, who finds the cause', async () => {
    const logged: string[] = []
    const logger = { ...SILENT, error: (_details: object, message: string) => void logged.push(message) }
    const broker = await openEmbeddedBroker({ dataDirectory: temporaryDirectory(), logger })
    const client = broker.client(SETTINGS)
    const headers = new Proxy(
      {},
      {
        ownKeys: () => {
          throw new Error('a bug')
        },
      },
    )
    const error = await refusalOf(client.publish('s', { message_id: 'm', payload: 'p', headers }))
    await broker.close()
    assert.deepEqual([error.code, error.retryable, (error.cause as Error).message], ['internal_error', false, 'a bug'])
    assert.deepEqual(logged, ['request failed'])
  })
})

describe('an embedded broker is not opened, and the field is named', () => {
  closesBrokers()
  const directory = temporaryDirectory()
  writeFileSync(`${directory}/file`, '')
  const dataDirectory = `${directory}/data`
  const cases: readonly (readonly [what: string, config: Partial<EmbeddedBrokerConfig>, named: RegExp])[] = [
    ['without a directory', {}, /^dataDirectory /],
    ['in a blank one', { dataDirectory: ' ' }, /^dataDirectory /],
    ['below a file', { dataDirectory: `${directory}/file/data` }, /^dataDirectory: /],
    [
      'with a flush policy there is not',
      { dataDirectory, flushPolicy: 'never' as 'append-only' },
      /^flushPolicy must be /,
    ],
    ['with a quorum that cannot be', { dataDirectory, writeQuorum: 2 }, /^writeQuorum must be /],
    ['with a quorum that is no number', { dataDirectory, writeQuorum: 0.5 }, /^writeQuorum must be /],
    ['with itself as its replica', { dataDirectory, replicaDirectories: [dataDirectory] }, /^replicaDirectories must /],
    ['with a comma in a replica', { dataDirectory, replicaDirectories: ['a,b'] }, /^replicaDirectories must /],
  ]
  for (const [what, config, named] of cases) {
    it(what, async () => {
      await assert.rejects(
        openEmbeddedBroker({ logger: SILENT, ...config } as EmbeddedBrokerConfig),
        (error) => error instanceof SdkError && error.code === 'InvalidConfig' && named.test(error.message),
      )
    })
  }

  it('without a configuration', async () => {
    for (const config of [null, undefined, 'data']) {
      const { code, message } = await refusalOf(openEmbeddedBroker(config as never))
      assert.equal(code, 'InvalidConfig')
      assert.match(message, /^the configuration /)
    }
  })

  it('twice on one directory', async () => {
    await openBroker(dataDirectory)
    const { code, message } = await refusalOf(openBroker(dataDirectory))
    assert.equal(code, 'InvalidConfig')
    assert.match(message, /^dataDirectory: /)
  })
})
