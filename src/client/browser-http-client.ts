/** `HttpNativeClient` where there is nothing but `fetch`: in a browser, or a worker. */
import { HttpClient } from './http-client.ts'
import { HttpConnection } from './http/connection.ts'
import { fetchTransport } from './http/fetch-transport.ts'
import { httpConfigOf } from './http/settings.ts'
import type { HttpClientSettings } from './http/settings.ts'
import { openStream } from './streaming/open.ts'
import { platformSockets } from './streaming/socket.ts'
import { platformRandom, platformTimers } from './http/timers.ts'

export interface HttpNativeClientSettings extends HttpClientSettings {
  /** With it, addresses may be `https://` ones. */
  readonly tls?: Readonly<Record<string, never>>
}

/** A browser has six connections for one address; three stay for the page. */
const DEFAULTS = { maxConnections: 3, maxWaitingConnections: 3 }

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
    const transport = settings.transport ?? fetchTransport()
    const parts = { config, transport, timers: platformTimers, random: platformRandom }
    return new HttpNativeClient(settings, new HttpConnection(parts), openStream(config, platformSockets()))
  }
}
