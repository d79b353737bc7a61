/** Brokers on directories of their own, in the test's own process or behind HTTP, and their clients. */
import assert from 'node:assert/strict'
import { after } from 'node:test'
import { HttpNativeClient as BrowserClient } from '../../src/client/browser.ts'
import { HttpNativeClient, SdkError, openEmbeddedBroker } from '../../src/client/index.ts'
import type { BrokerClient, ClientSettings, EmbeddedBroker, NativeClient } from '../../src/client/index.ts'
import { BrokerServer } from '../support/broker.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { eventually } from '../support/waiting.ts'

export const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

const opened: EmbeddedBroker[] = []

/** For a `describe`: closes the brokers that its tests leave open. An open broker keeps its process alive. */
export function closesBrokers(): void {
  after(() => Promise.all(opened.splice(0).map((broker) => broker.close())))
}

export async function openBroker(dataDirectory = `${temporaryDirectory()}/data`): Promise<EmbeddedBroker> {
  const broker = await openEmbeddedBroker({ dataDirectory, logger: SILENT })
  opened.push(broker)
  return broker
}

export async function openClient(): Promise<NativeClient> {
  return (await openBroker()).client({ producerId: 'tester' })
}

export const KINDS = ['in the process', 'over HTTP', 'over fetch'] as const

/** A broker, and clients of it of one kind. */
export interface ClientSource {
  client(settings: ClientSettings): Promise<BrokerClient>
  /** The broker has noticed that nobody waits for a claim any more. */
  noClaimWaits(): Promise<void>
  close(): Promise<void>
}

export async function openSource(kind: (typeof KINDS)[number]): Promise<ClientSource> {
  if (kind === 'in the process') {
    const broker = await openBroker()
    return {
      client: async (settings) => broker.client(settings),
      noClaimWaits: async () => {},
      close: () => broker.close(),
    }
  }
  const server = await BrokerServer.start({ flags: ['--metrics-exposure', 'http'] })
  const clients: HttpNativeClient[] = []
  return {
    async client(settings) {
      const library = kind === 'over HTTP' ? HttpNativeClient : BrowserClient
      const client = await library.connect(server.url, settings)
      clients.push(client)
      return client
    },
    noClaimWaits: () =>
      eventually(async () => /^mq_queue_waiting_claims 0$/m.test((await server.request('GET', '/metrics')).text)),
    async close() {
      await Promise.all(clients.map((client) => client.close()))
      await server.stop()
    },
  }
}

let streams = 0

/** A new stream under a name of its own: tests share a broker, not their streams. */
export async function newStream(client: BrokerClient, ...payloads: readonly string[]): Promise<string> {
  const stream = `stream-${streams++}`
  await client.createStream(stream)
  for (const payload of payloads) await client.publish(stream, { message_id: payload, payload })
  return stream
}

/** What a call was refused with. */
export async function refusalOf(call: Promise<unknown>): Promise<SdkError> {
  try {
    await call
  } catch (error) {
    assert(error instanceof SdkError, String(error))
    return error
  }
  return assert.fail('it was not refused')
}

/** The first so many; then the loop is left. */
export async function take<T>(from: AsyncIterable<T>, count: number): Promise<T[]> {
  const taken: T[] = []
  for await (const each of from) if (taken.push(each) === count) break
  return taken
}
