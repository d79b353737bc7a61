/**
 * WebSockets over `node:http` and `node:https`. They take the authorities and the certificate of the client's settings, which the platform's
 * WebSocket does not, and they work on Node 20, which has no WebSocket.
 *
 * N1  the handshake is that of RFC 6455, and the server has to prove that it understood it; a refusal is a socket that never opened
 * N2  what is sent is masked with random bytes (RFC 6455, 5.3)
 * N3  a message is passed on when it is whole; it has MESSAGE_BYTES_MAX at most. A violation of the protocol ends the connection
 * N4  a socket has no events after it closed, and it closes once
 *
 * @see RFC 6455
 */
import { createHash, randomBytes } from 'node:crypto'
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { Socket } from 'node:net'
import { tlsOptionsOf } from '../http/node-transport.ts'
import type { TlsSettings } from '../http/node-transport.ts'
import type { ClientSocket, OpenSocket, SocketEvents } from './socket.ts'
import { ABNORMAL } from './socket.ts'

/** More than the broker ever sends in one message. */
const MESSAGE_BYTES_MAX = 256 << 20
/** RFC 6455, 1.3. */
const PROOF = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
const CONTINUATION = 0
const BINARY = 2
const CLOSE = 8
const PING = 9
const PONG = 10
const NORMAL = 1000
const PROTOCOL_ERROR = 1002
/** Random bytes are fetched for the masks of many frames at once; a mask takes four. */
const MASKS_BYTES = 4096

export const nodeSockets =
  (tls: TlsSettings = {}): OpenSocket =>
  (url, protocols, events) =>
    new NodeSocket(new URL(url.replace(/^ws/, 'http')), protocols, events, tls)

class NodeSocket implements ClientSocket {
  readonly #events: SocketEvents
  readonly #abandon = new AbortController()
  #socket: Socket | null = null
  #isOver = false
  readonly #frames = new FrameParser((opcode, payload) => this.#handle(opcode, payload))

  constructor(url: URL, protocols: readonly string[], events: SocketEvents, tls: TlsSettings) {
    this.#events = events
    const key = randomBytes(16).toString('base64')
    const options = {
      agent: false,
      signal: this.#abandon.signal,
      headers: {
        connection: 'Upgrade',
        upgrade: 'websocket',
        'sec-websocket-version': '13',
        'sec-websocket-key': key,
        'sec-websocket-protocol': protocols.join(', '),
      },
    } as const
    const isSecure = url.protocol === 'https:'
    const sent = isSecure ? httpsRequest(url, { ...options, ...tlsOptionsOf(tls) }) : httpRequest(url, options)
    sent.on('error', () => this.#over(ABNORMAL, ''))
    sent.on('response', (response) => {
      response.destroy()
      this.#over(ABNORMAL, '')
    })
    sent.on('upgrade', ({ headers }, socket: Socket, head) => {
      const proof = createHash('sha1').update(`${key}${PROOF}`).digest('base64')
      const chosen = headers['sec-websocket-protocol']
      const isOurs = chosen === undefined || protocols.includes(chosen)
      if (this.#isOver || headers['sec-websocket-accept'] !== proof || !isOurs) {
        socket.destroy() // N1
        return this.#over(ABNORMAL, '')
      }
      this.#opened(socket, head)
    })
    sent.end()
  }

  send(message: Uint8Array): void {
    if (!this.#isOver) this.#socket?.write(frameOf(BINARY, message))
  }

  /** Earlier messages still go out, unless the other side does not take them. */
  close(): void {
    const socket = this.#socket
    if (socket === null) this.#abandon.abort()
    else if (socket.writableLength > 0) socket.destroy()
    else this.#end(NORMAL)
  }

  #opened(socket: Socket, head: Buffer): void {
    this.#socket = socket
    socket.setNoDelay()
    socket.on('error', () => {}) // `close` follows
    socket.on('close', () => this.#over(ABNORMAL, ''))
    socket.on('data', (bytes) => this.#receive(bytes))
    this.#events.opened()
    if (head.byteLength > 0) this.#receive(head)
  }

  #receive(bytes: Buffer): void {
    if (this.#isOver) return
    if (!this.#frames.take(bytes)) this.#end(PROTOCOL_ERROR) // N3
  }

  #handle(opcode: number, payload: Buffer): void {
    if (this.#isOver) return
    if (opcode === BINARY) this.#events.message(payload)
    else if (opcode === PING) this.#socket?.write(frameOf(PONG, payload))
    else if (opcode === CLOSE) {
      const hasCode = payload.byteLength >= 2
      this.#over(hasCode ? payload.readUInt16BE(0) : ABNORMAL, hasCode ? payload.toString('utf8', 2) : '')
      this.#socket?.write(frameOf(CLOSE, payload))
      this.#socket?.destroySoon()
    }
  }

  #end(code: number): void {
    const bytes = Buffer.alloc(2)
    bytes.writeUInt16BE(code)
    this.#socket?.write(frameOf(CLOSE, bytes))
    this.#socket?.destroySoon()
  }

  /** N4 */
  #over(code: number, reason: string): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#events.closed(code, reason)
  }
}

/** Makes whole messages of the pieces that come. */
class FrameParser {
  readonly #give: (opcode: number, payload: Buffer) => void
  #pieces: Buffer[] = []
  #have = 0
  /** Bytes that must have come before the next frame can be read. */
  #need = 2
  /** Payloads of a message that comes in several frames. */
  #parts: Buffer[] = []
  #partBytes = 0
  #opcode = CONTINUATION

  constructor(give: (opcode: number, payload: Buffer) => void) {
    this.#give = give
  }

  /** @returns false when the bytes are no frames of a server */
  take(bytes: Buffer): boolean {
    this.#pieces.push(bytes)
    this.#have += bytes.byteLength
    if (this.#have < this.#need) return true
    let rest = this.#pieces.length === 1 ? bytes : Buffer.concat(this.#pieces, this.#have)
    for (;;) {
      const whole = wholeBytesOf(rest)
      if (whole === null) return false
      this.#need = whole.bytes
      if (rest.byteLength < whole.bytes) break
      if (!this.#frame(rest[0]!, rest.subarray(whole.headBytes, whole.bytes))) return false
      rest = rest.subarray(whole.bytes)
    }
    this.#pieces = rest.byteLength === 0 ? [] : [rest]
    this.#have = rest.byteLength
    return true
  }

  #frame(first: number, payload: Buffer): boolean {
    const opcode = first & 0x0f
    const isLast = (first & 0x80) !== 0
    if ((first & 0x70) !== 0) return false // no extension was asked for
    if (opcode >= CLOSE) {
      if (!isLast || payload.byteLength > 125) return false
      this.#give(opcode, payload)
      return true
    }
    const isFirst = opcode !== CONTINUATION
    if (isFirst === (this.#opcode !== CONTINUATION)) return false // a message inside another, or a continuation of none
    if (isFirst && isLast) {
      this.#give(opcode, payload)
      return true
    }
    if (isFirst) this.#opcode = opcode
    this.#parts.push(payload)
    this.#partBytes += payload.byteLength
    if (this.#partBytes > MESSAGE_BYTES_MAX) return false
    if (!isLast) return true
    const [whole, kind] = [Buffer.concat(this.#parts, this.#partBytes), this.#opcode]
    this.#parts = []
    this.#partBytes = 0
    this.#opcode = CONTINUATION
    this.#give(kind, whole)
    return true
  }
}

/** Lengths of the frame that begins here, as far as its bytes have come. Null: no server sends such a frame. */
function wholeBytesOf(bytes: Buffer): { readonly headBytes: number; readonly bytes: number } | null {
  if (bytes.byteLength < 2) return { headBytes: 2, bytes: 2 }
  if ((bytes[1]! & 0x80) !== 0) return null // only clients mask
  const short = bytes[1]! & 0x7f
  const headBytes = short < 126 ? 2 : short === 126 ? 4 : 10
  if (bytes.byteLength < headBytes) return { headBytes, bytes: headBytes }
  const length = short < 126 ? short : short === 126 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2))
  return length > MESSAGE_BYTES_MAX ? null : { headBytes, bytes: headBytes + length }
}

let masks = Buffer.alloc(0)
let masksUsed = 0

/** N2 */
function nextMask(): Buffer {
  if (masksUsed === masks.byteLength) {
    masks = randomBytes(MASKS_BYTES)
    masksUsed = 0
  }
  masksUsed += 4
  return masks.subarray(masksUsed - 4, masksUsed)
}

/** The frame of a whole message, as a client sends it. */
function frameOf(opcode: number, payload: Uint8Array): Buffer {
  const { byteLength } = payload
  const lengthBytes = byteLength < 126 ? 0 : byteLength <= 0xffff ? 2 : 8
  const bodyAt = 6 + lengthBytes
  const frame = Buffer.allocUnsafe(bodyAt + byteLength)
  frame[0] = 0x80 | opcode
  frame[1] = 0x80 | (lengthBytes === 0 ? byteLength : lengthBytes === 2 ? 126 : 127)
  if (lengthBytes === 2) frame.writeUInt16BE(byteLength, 2)
  else if (lengthBytes === 8) frame.writeBigUInt64BE(BigInt(byteLength), 2)
  const mask = nextMask()
  frame.set(mask, bodyAt - 4)
  const [a, b, c, d] = mask as unknown as readonly [number, number, number, number] // it has four bytes
  const inFours = byteLength & ~3
  for (let i = 0; i < inFours; i += 4) {
    frame[bodyAt + i] = payload[i]! ^ a
    frame[bodyAt + i + 1] = payload[i + 1]! ^ b
    frame[bodyAt + i + 2] = payload[i + 2]! ^ c
    frame[bodyAt + i + 3] = payload[i + 3]! ^ d
  }
  for (let i = inFours; i < byteLength; i += 1) frame[bodyAt + i] = payload[i]! ^ mask[i & 3]!
  return frame
}
