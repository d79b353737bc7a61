/** A WebSocket as the client uses it: the platform's, which browsers and Node 22 or newer have, or our own (node-socket.ts). */
export interface ClientSocket {
  send(message: Uint8Array<ArrayBuffer>): void
  close(): void
}

export interface SocketEvents {
  opened(): void
  message(bytes: Uint8Array): void
  /** Called once; also when the socket never opened. */
  closed(code: number, reason: string): void
}

export type OpenSocket = (url: string, protocols: readonly string[], events: SocketEvents) => ClientSocket

/** The standard's code for a socket that never opened, which has no `close` event on some platforms. */
export const ABNORMAL = 1006

/** The part of the platform's WebSocket that is used; absent on Node 20, although the types say otherwise. */
interface PlatformSocket {
  binaryType: string
  addEventListener(type: 'open' | 'error', listener: () => void): void
  addEventListener(type: 'message', listener: (event: { readonly data: unknown }) => void): void
  addEventListener(type: 'close', listener: (event: { readonly code: number; readonly reason: string }) => void): void
  send(message: Uint8Array<ArrayBuffer>): void
  close(): void
}
type PlatformSocketClass = new (url: string, protocols: readonly string[]) => PlatformSocket

/** Null: the platform has no WebSockets. */
export function platformSockets(): OpenSocket | null {
  const { WebSocket } = globalThis as { readonly WebSocket?: PlatformSocketClass }
  if (WebSocket === undefined) return null
  return (url, protocols, events) => {
    let isOver = false
    const over = (code: number, reason: string): void => {
      if (isOver) return
      isOver = true
      events.closed(code, reason)
    }
    const socket = new WebSocket(url, protocols)
    socket.binaryType = 'arraybuffer'
    socket.addEventListener('open', () => events.opened())
    socket.addEventListener('message', ({ data }) => {
      if (typeof data !== 'string') events.message(new Uint8Array(data as ArrayBuffer)) // by `binaryType`, perhaps of another realm
    })
    socket.addEventListener('close', ({ code, reason }) => over(code, reason))
    socket.addEventListener('error', () => over(ABNORMAL, ''))
    return {
      send: (message) => socket.send(message),
      close: () => socket.close(),
    }
  }
}
