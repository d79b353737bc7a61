/** `HttpNativeClient` on Node: over connections that are kept, by `node:http`. */
import { HttpClient } from './http-client.ts'
import { HttpConnection } from './http/connection.ts'
import { nodeTransport } from './http/node-transport.ts'
import type { TlsSettings } from './http/node-transport.ts'
import { httpConfigOf } from './http/settings.ts'
import type { HttpClientSettings } from './http/settings.ts'
import { nodeSockets } from './streaming/node-socket.ts'
import { openStream } from './streaming/open.ts'
import { platformSockets } from './streaming/socket.ts'
import { platformRandom, platformTimers } from './http/timers.ts'

export interface HttpNativeClientSettings extends HttpClientSettings {
  /** With it, addresses may be `https://` ones. */
  readonly tls?: TlsSettings
}

const DEFAULTS = { maxConnections: 16, maxWaitingConnections: 64 }

export class HttpNativeClient extends HttpClient {
  /**
   * Sends nothing yet: the first call finds out whether the broker can be reached.
   *
   * @param addresses `http://host[:port]`, one or several of the same broker
   * @throws SdkError InvalidConfig
   */
  static async connect(
    addresses: string | readonly string[],
    settings: HttpNativeClientSettings,
  ): Promise<HttpNativeClient> {
    const config = httpConfigOf(addresses, settings, DEFAULTS)
    const { tls } = settings
    const transport = settings.transport ?? nodeTransport(tls)
    const parts = { config, transport, timers: platformTimers, random: platformRandom }
    const openSocket = (tls === undefined ? platformSockets() : null) ?? nodeSockets(tls)
    return new HttpNativeClient(settings, new HttpConnection(parts), openStream(config, openSocket))
  }
}
