/** Clients of every kind: of a broker in the process, and of one behind HTTP by all that carries calls. */
import { HttpNativeClient as BrowserClient } from '../../src/client/browser.ts'
import { HttpNativeClient } from '../../src/client/index.ts'
import type { BrokerClient, ClientSettings } from '../../src/client/index.ts'
import { BrokerServer } from '../support/broker.ts'
import { eventually } from '../support/waiting.ts'
import { openBroker } from './support.ts'

export const KINDS = ['in the process', 'over HTTP', 'over fetch', 'over one connection'] as const

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
      const library = kind === 'over fetch' ? BrowserClient : HttpNativeClient
      const streaming = kind === 'over one connection'
      const client = await library.connect(server.url, { ...settings, streaming })
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
