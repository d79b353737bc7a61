/** The streaming connection of a client whose settings ask for one. */
import type { HttpConfig } from '../http/settings.ts'
import { platformDefer, platformRandom, platformTimers } from '../http/timers.ts'
import { platformSockets } from './socket.ts'
import { Stream } from './stream.ts'

/** Null: they do not. @throws SdkError InvalidConfig where there are no WebSockets */
export function openStream({
  streaming,
  apiKey,
  origins,
  requestTimeoutMs,
  maxQueuedCalls,
}: HttpConfig): Stream | null {
  if (streaming === null) return null
  return new Stream({
    origins,
    apiKey,
    ...streaming,
    requestTimeoutMs,
    maxQueuedCalls,
    openSocket: platformSockets(),
    timers: platformTimers,
    random: platformRandom,
    defer: platformDefer(),
  })
}
