import assert from 'node:assert/strict'
import { closeSync, openSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import { describe, it } from 'node:test'
import { AcceptGate } from '../../src/http/accept-gate.ts'
import type { Descriptors } from '../../src/http/accept-gate.ts'
import { descriptorLimit, hasDescriptorBelow } from '../../src/libc.ts'
import { RawClient, TestClock, serve, until } from '../support/http-server.ts'
import type { TestServer } from '../support/http-server.ts'
import { nextTurn } from '../support/next-turn.ts'

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'

class Rig implements Descriptors {
  hasRoom = true
  readonly clock = new TestClock()
  readonly warnings: string[] = []
  readonly gate = new AcceptGate(
    { clock: this.clock, logger: { warn: (_details, message) => void this.warnings.push(message) } },
    this,
  )
  /** The descriptor below which the gate last asked for a free one. */
  mark = 0

  limit(): number {
    return 256
  }

  hasOneBelow(descriptor: number): boolean {
    this.mark = descriptor
    return this.hasRoom
  }

  serve(): Promise<TestServer> {
    return serve({ 'GET /': (_head, exchange) => exchange.answer(200, null, 'ok') }, { acceptGate: this.gate })
  }

  /** A plain Node server behind the gate. */
  async listen(onConnection: (socket: Socket) => void): Promise<{ server: Server; port: number; close(): void }> {
    const server = createServer((socket) => {
      this.gate.opened()
      onConnection(socket)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const leave = this.gate.add(port)
    const close = (): void => {
      leave()
      server.close()
    }
    return { server, port, close }
  }
}

/** Waits long enough for an event loop to accept, for tests that it does not accept. */
const turns = async (count: number): Promise<void> => {
  for (let i = 0; i < count; i++) await nextTurn()
}

describe('accepting connections', () => {
  it('stops when descriptors run short, keeps who is there, and goes on when there are some again', async () => {
    const rig = new Rig()
    const { server, [Symbol.asyncDispose]: close } = await rig.serve()
    const first = await RawClient.connect(server)
    rig.hasRoom = false
    const last = await RawClient.connect(server)
    await until(() => rig.gate.pauses === 1)
    assert.equal(rig.mark, 256 - 64)
    const waiting = await Promise.all(Array.from({ length: 20 }, () => RawClient.connect(server)))
    const replies: number[] = []
    const asked = waiting.map(async (client, i) => {
      await client.send(GET)
      await client.reply()
      replies.push(i)
    })
    for (const client of [first, last]) {
      await client.send(GET)
      assert.equal((await client.reply())!.status, 200)
    }
    rig.clock.advanceMs(10_000)
    await turns(50)
    assert.deepEqual(replies, [])
    rig.hasRoom = true
    rig.clock.advanceMs(250)
    await Promise.all(asked)
    assert.equal(rig.gate.pauses, 1)
    assert.equal(rig.warnings.length, 1)
    assert.match(rig.warnings[0]!, /ulimit -n/)
    for (const client of [first, last, ...waiting]) client.destroy()
    await close()
  })

  it('takes one connection at a time when there is room for no more, and warns once a minute', async () => {
    const rig = new Rig()
    const { server, [Symbol.asyncDispose]: close } = await rig.serve()
    rig.hasRoom = false
    const clients = await Promise.all(Array.from({ length: 5 }, () => RawClient.connect(server)))
    let answered = 0
    const asked = clients.map(async (client) => {
      await client.send(GET)
      await client.reply()
      answered++
    })
    for (let pauses = 1; pauses <= 5; pauses++) {
      await until(() => rig.gate.pauses === pauses && answered === pauses)
      await turns(20)
      assert.equal(answered, pauses)
      rig.hasRoom = true
      rig.clock.advanceMs(250)
      rig.hasRoom = false
    }
    await Promise.all(asked)
    assert.equal(rig.warnings.length, 1)
    for (const client of clients) client.destroy()
    await close()
  })

  it('stops and goes on everywhere at once, and where listening begins meanwhile', async () => {
    const rig = new Rig()
    const accepted: string[] = []
    const one = await rig.listen(() => accepted.push('one'))
    const two = await rig.listen(() => accepted.push('two'))
    rig.hasRoom = false
    const clients = [connect(one.port, '127.0.0.1')]
    await until(() => accepted.length === 1)
    const three = await rig.listen(() => accepted.push('three'))
    await turns(5)
    rig.clock.advanceMs(250)
    for (const { port } of [one, two, three]) clients.push(connect(port, '127.0.0.1'))
    await turns(50)
    assert.deepEqual(accepted, ['one'])
    rig.hasRoom = true
    rig.clock.advanceMs(250)
    await until(() => accepted.length === 4)
    for (const client of clients) client.destroy()
    for (const each of [one, two, three]) each.close()
  })

  it('may end while it is stopped: the port is free then', async () => {
    const rig = new Rig()
    const { server, [Symbol.asyncDispose]: close } = await rig.serve()
    rig.hasRoom = false
    const client = await RawClient.connect(server)
    await until(() => rig.gate.pauses === 1)
    client.destroy()
    await close()
    await assert.rejects(RawClient.connect(server), { code: 'ECONNREFUSED' })
    const again = createServer()
    await new Promise<void>((resolve) => again.listen(server.port, server.host, resolve))
    again.close()
  })
})

describe('the descriptors of this process', () => {
  it('are given out lowest first, up to the limit', () => {
    const lowest = openSync('/dev/null', 'r')
    const next = openSync('/dev/null', 'r')
    closeSync(lowest)
    assert.equal(hasDescriptorBelow(lowest), false)
    assert.equal(hasDescriptorBelow(lowest + 1), true)
    closeSync(next)
    assert.ok(descriptorLimit() > next)
  })
})
