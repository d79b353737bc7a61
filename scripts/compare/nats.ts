/**
 * NATS JetStream with file storage, through its official client: publish, then next() and ackAck(), one message at a time like all
 * others. By default it answers before a message is synced; newer servers can sync every one (`sync_interval: always`).
 */
import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { writeFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { MissingError, measureClients } from './peer.ts'
import type { Measured, Peer, PeerClient, Setup } from './peer.ts'
import { freePort, startServer, untilListening, versionOf } from './server.ts'

const SERVER = 'nats-server'
const STREAM = 'load'
const CONSUMER = 'workers'
const LEASE_NS = 30e9
/** The least that the client takes; only the last call of each connection waits for it. */
const NO_MESSAGE_MS = 1000

/** What is used here of @nats-io/transport-node and @nats-io/jetstream. */
interface NatsClient {
  connect(options: { servers: string }): Promise<NatsConnection>
  jetstream(connection: NatsConnection): JetStream
  jetstreamManager(connection: NatsConnection): Promise<{
    readonly streams: { add(config: object): Promise<unknown> }
    readonly consumers: { add(stream: string, config: object): Promise<unknown> }
  }>
}
interface NatsConnection {
  close(): Promise<void>
}
interface JetStream {
  publish(subject: string, payload: Uint8Array): Promise<unknown>
  readonly consumers: {
    get(stream: string, consumer: string): Promise<{ next(options: { expires: number }): Promise<NatsMessage | null> }>
  }
}
interface NatsMessage {
  /** Resolves when the server has confirmed it. */
  ackAck(): Promise<boolean>
}

export const nats: Peer = { name: 'nats', measure: (setup) => measure(setup, false) }
export const natsSyncingAlways: Peer = { name: 'nats-sync-always', measure: (setup) => measure(setup, true) }

async function measure(setup: Setup, syncAlways: boolean): Promise<Measured> {
  const version = versionOf(SERVER, '--version', / v(\S+)/)
  const client = await loadClient(setup.natsClientDirectory)
  const port = await freePort()
  const configuration = join(setup.directory, 'nats.conf')
  const sync = syncAlways ? ', sync_interval: always' : ''
  writeFileSync(
    configuration,
    `listen: "127.0.0.1:${port}"\njetstream { store_dir: ${JSON.stringify(setup.directory)}${sync} }\n`,
  )
  if (spawnSync(SERVER, ['-t', '-c', configuration]).status !== 0) {
    throw new MissingError(`nats-server ${version} does not take this configuration: it cannot sync every message`)
  }
  const server = startServer(SERVER, ['-c', configuration])
  try {
    await untilListening(server, port)
    const servers = `127.0.0.1:${port}`
    await createStream(client, servers)
    const figures = await measureClients(setup, () => openClient(client, servers, setup.payloadBytes))
    const how = syncAlways ? 'sync_interval always' : 'default sync_interval'
    return { server: `nats-server ${version} JetStream, ${how}`, syncs: syncAlways ? 'yes' : 'no', ...figures }
  } finally {
    await server.stop()
  }
}

async function loadClient(directory: string | null): Promise<NatsClient> {
  if (directory === null) throw new MissingError('its client is needed: --nats-client DIR, see --help')
  const { resolve } = createRequire(join(directory, 'package.json'))
  try {
    const modules = await Promise.all(
      ['@nats-io/transport-node', '@nats-io/jetstream'].map(
        (name) => import(pathToFileURL(resolve(name)).href) as Promise<object>,
      ),
    )
    return Object.assign({}, ...modules) as NatsClient // as version 3.4.0 of both has it
  } catch (error) {
    throw new MissingError(`its client is not installed in ${directory}, see --help`, { cause: error })
  }
}

async function createStream(client: NatsClient, servers: string): Promise<void> {
  const connection = await client.connect({ servers })
  const { streams, consumers } = await client.jetstreamManager(connection)
  await streams.add({ name: STREAM, subjects: [STREAM], storage: 'file' })
  await consumers.add(STREAM, { durable_name: CONSUMER, ack_policy: 'explicit', ack_wait: LEASE_NS })
  await connection.close()
}

async function openClient(client: NatsClient, servers: string, payloadBytes: number): Promise<PeerClient> {
  const connection = await client.connect({ servers })
  const jetStream = client.jetstream(connection)
  const consumer = await jetStream.consumers.get(STREAM, CONSUMER)
  const payload = Buffer.alloc(payloadBytes, 'x')
  return {
    async publish() {
      await jetStream.publish(STREAM, payload)
    },
    async cycle() {
      const message = await consumer.next({ expires: NO_MESSAGE_MS })
      if (message === null) return false
      await message.ackAck()
      return true
    },
    close: () => void connection.close(),
  }
}
