/** Clients of every kind: of a broker in the process, and over every transport to one behind HTTP. */
import { HttpNativeClient as BrowserClient } from '../../src/client/browser.ts'
import { HttpNativeClient } from '../../src/client/index.ts'
import type { BrokerClient, ClientSettings } from '../../src/client/index.ts'
import { nodeTransport } from '../../src/client/http/node-transport.ts'
import { BrokerServer } from '../support/broker.ts'
import { Authority, TlsFilesOnDisk } from '../support/certificates.ts'
import { eventually } from '../support/waiting.ts'
import { openBroker } from './support.ts'

export const KINDS = [
  'in the process',
  'over HTTP',
  'over fetch',
  'over one connection',
  'over one connection with TLS',
] as const

/** Signs the certificates of brokers over TLS. */
const authority = new Authority('brokers')

function tlsFlags(): readonly string[] {
  const files = new TlsFilesOnDisk()
  files.write(authority.certify([['CN', 'localhost']]))
  return ['--tls-cert', files.cert, '--tls-key', files.key]
}

/** A broker, and clients of one kind for it. */
export interface ClientSource {
  client(settings: ClientSettings): Promise<BrokerClient>
  /** Resolves when the broker knows that no client waits for a claim. */
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
  const isSecure = kind === 'over one connection with TLS'
  const tls = isSecure ? { ca: authority.cert } : null
  const server = await BrokerServer.start({ flags: ['--metrics-exposure', 'http', ...(isSecure ? tlsFlags() : [])] })
  const asking = nodeTransport(tls ?? {})
  const metrics = async (): Promise<string> => {
    const { signal } = new AbortController()
    const request = { origin: server.url, method: 'GET', path: '/metrics', headers: {}, body: null, signal } as const
    return (await asking.send(request)).text
  }
  const clients: HttpNativeClient[] = []
  return {
    async client(settings) {
      const library = kind === 'over fetch' ? BrowserClient : HttpNativeClient
      const streaming = kind === 'over one connection' || isSecure
      const client = await (tls === null
        ? library.connect(server.url, { ...settings, streaming })
        : HttpNativeClient.connect(server.url, { ...settings, streaming, tls }))
      clients.push(client)
      return client
    },
    noClaimWaits: () => eventually(async () => /^mq_queue_waiting_claims 0$/m.test(await metrics())),
    async close() {
      await Promise.all(clients.map((client) => client.close()))
      asking.close?.()
      await server.stop()
    },
  }
}
