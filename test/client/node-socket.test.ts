/** The client's own WebSocket, against a server whose bytes the test writes: RFC 6455 followed, and broken. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import { after, before, describe, it } from 'node:test'
import fc from 'fast-check'
import { nodeSockets } from '../../src/client/streaming/node-socket.ts'
import { eventually } from '../support/waiting.ts'

const PROOF = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
const CONTINUATION = 0
const TEXT = 1
const BINARY = 2
const CLOSE = 8
const PING = 9
const PONG = 10

/** A frame as a server sends it. @param first the other bits of the byte with the opcode */
function frame(opcode: number, payload: Uint8Array, first = 0x80): Buffer {
  const { byteLength } = payload
  const head = Buffer.alloc(byteLength < 126 ? 2 : byteLength <= 0xffff ? 4 : 10)
  head[0] = first | opcode
  head[1] = byteLength < 126 ? byteLength : byteLength <= 0xffff ? 126 : 127
  if (head.byteLength === 4) head.writeUInt16BE(byteLength, 2)
  if (head.byteLength === 10) head.writeBigUInt64BE(BigInt(byteLength), 2)
  return Buffer.concat([head, payload])
}

/** Whole frames of a client, unmasked. */
function framesIn(
  bytes: Buffer,
): readonly { readonly opcode: number; readonly mask: string; readonly payload: Buffer }[] {
  const found: { opcode: number; mask: string; payload: Buffer }[] = []
  for (let at = 0; at < bytes.byteLength;) {
    assert.equal(bytes[at]! & 0xf0, 0x80, 'each message is one frame')
    assert.equal(bytes[at + 1]! & 0x80, 0x80, 'a client masks')
    const short = bytes[at + 1]! & 0x7f
    const lengthBytes = short < 126 ? 0 : short === 126 ? 2 : 8
    const length =
      short < 126 ? short : short === 126 ? bytes.readUInt16BE(at + 2) : Number(bytes.readBigUInt64BE(at + 2))
    const maskAt = at + 2 + lengthBytes
    if (maskAt + 4 + length > bytes.byteLength) break // the rest of the frame is on its way
    const mask = bytes.subarray(maskAt, maskAt + 4)
    const masked = bytes.subarray(maskAt + 4, maskAt + 4 + length)
    const payload = Buffer.from(masked.map((byte, i) => byte ^ mask[i & 3]!))
    found.push({ opcode: bytes[at]! & 0x0f, mask: mask.toString('hex'), payload })
    at = maskAt + 4 + length
  }
  return found
}

/** Both ends of one connection. */
class Ends {
  readonly messages: Buffer[] = []
  opened = 0
  readonly closed: (readonly [number, string])[] = []
  readonly client: ReturnType<ReturnType<typeof nodeSockets>>
  head = ''
  received = Buffer.alloc(0)
  peer: Socket | null = null

  constructor(port: number) {
    this.client = nodeSockets()(`ws://127.0.0.1:${port}/v1/connection?leases=keep`, ['trilog.v1', 'bearer.a2V5'], {
      opened: () => void (this.opened += 1),
      message: (bytes) => void this.messages.push(Buffer.from(bytes)),
      closed: (code, reason) => void this.closed.push([code, reason]),
    })
  }

  /** Waits for the connection and the head of its upgrade request. */
  async asked(server: Server): Promise<void> {
    const [peer] = (await once(server, 'connection')) as [Socket]
    this.peer = peer
    peer.on('error', () => {}) // a reset is a close
    peer.on('data', (bytes) => {
      if (this.head.includes('\r\n\r\n')) this.received = Buffer.concat([this.received, bytes])
      else this.head += bytes.toString('latin1')
    })
    await eventually(() => this.head.includes('\r\n\r\n'))
  }

  accept(change: (lines: Map<string, string>) => void = () => {}, behind: Uint8Array = Buffer.alloc(0)): void {
    const key = /^sec-websocket-key: (.*)\r$/im.exec(this.head)![1]!
    const lines = new Map([
      ['connection', 'Upgrade'],
      ['upgrade', 'websocket'],
      ['sec-websocket-accept', createHash('sha1').update(`${key}${PROOF}`).digest('base64')],
      ['sec-websocket-protocol', 'trilog.v1'],
    ])
    change(lines)
    const text = ['HTTP/1.1 101 Switching Protocols', ...Array.from(lines, ([name, value]) => `${name}: ${value}`)]
    this.peer!.write(Buffer.concat([Buffer.from(`${text.join('\r\n')}\r\n\r\n`), behind]))
  }
}

describe('the client’s own WebSocket', () => {
  let server: Server
  before(async () => {
    server = createServer()
    await once(server.listen(0, '127.0.0.1'), 'listening')
  })
  after(() => server.close())

  async function asking(): Promise<Ends> {
    const ends = new Ends((server.address() as AddressInfo).port)
    await ends.asked(server)
    return ends
  }

  async function open(): Promise<Ends> {
    const ends = await asking()
    ends.accept()
    await eventually(() => ends.opened === 1)
    return ends
  }

  const over = (ends: Ends): Promise<void> => eventually(() => ends.closed.length > 0)

  it('asks with its protocols, and opens on a proof that the server understood', async () => {
    const ends = await asking()
    assert.match(ends.head, /^GET \/v1\/connection\?leases=keep HTTP\/1\.1\r\n/)
    assert.match(ends.head, /^sec-websocket-protocol: trilog\.v1, bearer\.a2V5\r$/im)
    assert.match(ends.head, /^sec-websocket-version: 13\r$/im)
    ends.accept(() => {}, frame(BINARY, Buffer.from('at once')))
    await eventually(() => ends.messages.length === 1)
    assert.deepEqual([ends.opened, String(ends.messages[0])], [1, 'at once'])
    ends.client.close()
    await over(ends)
  })

  const REFUSALS: readonly (readonly [what: string, (ends: Ends) => void])[] = [
    ['a refusal', ({ peer }) => void peer!.write('HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\n{}')],
    ['a wrong proof', (ends) => ends.accept((lines) => lines.set('sec-websocket-accept', 'x'))],
    ['a protocol that it did not offer', (ends) => ends.accept((lines) => lines.set('sec-websocket-protocol', 'chat'))],
    ['a connection that ends', ({ peer }) => void peer!.destroy()],
    ['something that is not HTTP', ({ peer }) => void peer!.write('\u0016\u0003\u0001')],
  ]
  for (const [what, answer] of REFUSALS) {
    it(`never opens on ${what}, and says so once`, async () => {
      const ends = await asking()
      answer(ends)
      await over(ends)
      assert.deepEqual([ends.opened, ends.closed], [0, [[1006, '']]])
    })
  }

  it('that is closed before it opened is over', async () => {
    const ends = await asking()
    ends.client.close()
    await over(ends)
    assert.deepEqual([ends.opened, ends.closed], [0, [[1006, '']]])
  })

  it('sends each message as one frame, masked with bytes of its own', async () => {
    const ends = await open()
    const sent = [0, 1, 3, 125, 126, 65_535, 65_536, 200_000].map((length) => Buffer.alloc(length, `${length}`))
    for (const message of sent) ends.client.send(new Uint8Array(message))
    const bytes = sent.reduce((sum, { byteLength }) => sum + byteLength, 0)
    await eventually(() => ends.received.byteLength > bytes + 6 * sent.length)
    await eventually(() => framesIn(ends.received).at(-1)!.payload.byteLength === 200_000)
    const frames = framesIn(ends.received)
    assert.deepEqual(
      frames.map(({ opcode, payload }) => [opcode, payload.toString('latin1')]),
      sent.map((each) => [BINARY, each.toString('latin1')]),
    )
    assert.equal(new Set(frames.map(({ mask }) => mask)).size, frames.length)
    ends.client.close()
    await eventually(() => framesIn(ends.received).at(-1)!.opcode === CLOSE)
    await over(ends)
  })

  it('hears messages whole, however they are cut into frames and pieces, answers pings, and passes text over', async () => {
    const payload = fc.oneof(
      fc.uint8Array({ maxLength: 300 }),
      fc.nat(70_000).map((length) => new Uint8Array(length).fill(7)),
    )
    const message = fc.record({ payload, parts: fc.nat(3), pings: fc.boolean(), texts: fc.boolean() })
    await fc.assert(
      fc.asyncProperty(
        fc.array(message, { minLength: 1, maxLength: 5 }),
        fc.integer({ min: 1, max: 5000 }),
        async (messages, piece) => {
          const ends = await open()
          const bytes = Buffer.concat(
            messages.flatMap(({ payload, parts, pings, texts }) => {
              const size = Math.ceil(payload.byteLength / (parts + 1))
              const frames = Array.from({ length: parts + 1 }, (_, i) => {
                const last = i === parts ? 0x80 : 0
                return frame(i === 0 ? BINARY : CONTINUATION, payload.subarray(i * size, (i + 1) * size), last)
              })
              if (pings) frames.splice(parts, 0, frame(PING, Buffer.from('there?')))
              if (texts) frames.push(frame(TEXT, Buffer.from('{}')))
              return frames
            }),
          )
          for (let at = 0; at < bytes.byteLength; at += piece) ends.peer!.write(bytes.subarray(at, at + piece))
          await eventually(() => ends.messages.length === messages.length)
          assert.deepEqual(
            ends.messages.map((each) => each.toString('hex')),
            messages.map((each) => Buffer.from(each.payload).toString('hex')),
          )
          const pings = messages.filter(({ pings }) => pings).length
          await eventually(() => framesIn(ends.received).length === pings)
          for (const { opcode, payload } of framesIn(ends.received)) {
            assert.deepEqual([opcode, payload.toString()], [PONG, 'there?'])
          }
          ends.peer!.write(frame(CLOSE, Buffer.concat([Buffer.from([0x11, 0x31]), Buffer.from('revoked')])))
          await over(ends)
          assert.deepEqual(ends.closed, [[4401, 'revoked']])
        },
      ),
      { numRuns: 40 },
    )
  })

  const BROKEN: readonly (readonly [what: string, Buffer])[] = [
    ['a masked frame', Buffer.from([0x82, 0x80, 0, 0, 0, 0])],
    ['a bit of an extension', frame(BINARY, Buffer.from('x'), 0xc0)],
    ['a part of no message', frame(CONTINUATION, Buffer.from('x'))],
    ['a message in another', Buffer.concat([frame(BINARY, Buffer.from('x'), 0), frame(BINARY, Buffer.from('y'))])],
    ['a long ping', frame(PING, Buffer.alloc(126))],
    ['a ping in parts', frame(PING, Buffer.alloc(1), 0)],
    ['a message without end', Buffer.from([0x82, 127, 0, 0, 0, 1, 0, 0, 0, 0])],
  ]
  for (const [what, bytes] of BROKEN) {
    it(`ends on ${what}, with the code for a mistake of the other side`, async () => {
      const ends = await open()
      ends.peer!.write(bytes)
      await over(ends)
      await eventually(() => framesIn(ends.received).length > 0)
      const [said] = framesIn(ends.received)
      assert.deepEqual([said!.opcode, said!.payload.readUInt16BE(0)], [CLOSE, 1002])
      assert.deepEqual(ends.messages, [])
    })
  }
})
