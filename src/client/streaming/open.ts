/** The streaming connection of a client whose settings ask for one. */
import { invalidConfig } from '../sdk-error.ts'
import type { HttpConfig } from '../http/settings.ts'
import { platformDefer, platformRandom, platformTimers } from '../http/timers.ts'
import type { OpenSocket } from './socket.ts'
import { Stream } from './stream.ts'

/**
 * Null: the settings ask for none.
 *
 * @param openSocket null: the platform has no WebSockets
 * @throws SdkError InvalidConfig when the settings ask for one and the platform has no WebSockets
 */
export function openStream(
  { streaming, apiKey, origins, requestTimeoutMs, maxQueuedCalls }: HttpConfig,
  openSocket: OpenSocket | null,
): Stream | null {
  if (streaming === null) return null
  if (openSocket === null) throw invalidConfig('streaming needs WebSockets, which this platform does not have')
  return new Stream({
    origins,
    apiKey,
    ...streaming,
    requestTimeoutMs,
    maxQueuedCalls,
    openSocket,
    timers: platformTimers,
    random: platformRandom,
    defer: platformDefer(),
  })
}
