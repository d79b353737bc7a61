/** The streaming connection of a real node, over sockets that are cut, that never read, and that send what no client sends. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { after, describe, it } from 'node:test'
import { DELIVERIES, FrameReader, FrameWriter, PUBLISH, REQUEST } from '../../../src/broker/wire/connection-frames.ts'
import { BrokerServer } from '../../support/broker.ts'
import { temporaryDirectory } from '../../support/directories.ts'
import { BINARY, RawWebSocket, TEXT, clientFrame } from '../../support/raw-web-socket.ts'
import type { UpgradeOptions } from '../../support/raw-web-socket.ts'
import { eventually } from '../../support/waiting.ts'

const server = await BrokerServer.start()
after(() => server.kill())
const open = (options: UpgradeOptions = {}, to = server): Promise<RawWebSocket> =>
  RawWebSocket.open(to.readyLine.http, options)
const codeIn = (body: string): string => (JSON.parse(body) as { error: { code: string } }).error.code
const HOUR_MS = 3_600_000

const publishing = (id: number, stream: string, payload = 'p'): object => ({
  id,
  op: 'publish',
  stream,
  body: { message_id: `m-${id}`, payload },
})
const subscribing = (id: number, stream: string, credit: number, more: object = {}): object => ({
  id,
  op: 'subscribe',
  stream,
  consumer_group: 'workers',
  credit,
  lease_timeout_millis: HOUR_MS,
  ...more,
})
const framesOf = (write: (writer: FrameWriter) => void): Uint8Array => {
  const writer = new FrameWriter()
  write(writer)
  return writer.written.slice()
}

describe('the upgrade', () => {
  it('is refused as a route refuses: no upgrade, another protocol, another query', async () => {
    const plain = await server.request('GET', '/v1/connection')
    assert.deepEqual([plain.status, plain.code], [400, 'invalid_request'])
    for (const [options, code] of [
      [{ headers: { 'sec-websocket-protocol': 'chat, bearer.eA' } }, 'invalid_request'],
      [{ path: '/v1/connection?leases=forever' }, 'invalid_query'],
      [{ path: '/v1/connection?key=secret' }, 'invalid_query'],
    ] as const) {
      const refused = await open(options)
      assert.deepEqual([refused.status, codeIn(refused.body)], [400, code])
      assert.notEqual(refused.headers.get('x-request-id') ?? '', '')
      refused.destroy()
    }
  })

  it('is kept from other pages and names, as every change is', async () => {
    for (const options of [
      { host: 'evil.example' },
      { headers: { origin: 'https://evil.example' } },
      { headers: { 'sec-fetch-site': 'cross-site' } },
    ]) {
      const refused = await open(options)
      assert.deepEqual([refused.status, codeIn(refused.body)], [403, 'authorization_denied'], JSON.stringify(options))
      refused.destroy()
    }
    const own = await open({ headers: { origin: server.url, 'sec-fetch-site': 'same-origin' } })
    assert.equal(own.status, 101)
    own.destroy()
  })
})

describe('what is asked on it', () => {
  it('is refused with the same error as over HTTP', async () => {
    const { name } = await server.newStream()
    const socket = await open()
    const ids = ['sub-AAAAAAAAAAAAAAAAAAAAAA', 'dlv-AAAAAAAAAAAAAAAAAAAAAA'] as const
    const [subscription_id, delivery_id] = ids
    const path = (stream: string, verb: string): string =>
      `/v1/streams/${encodeURIComponent(stream)}/subscriptions/${ids[0]}/deliveries/${ids[1]}/${verb}`
    const rows: readonly (readonly [op: string, stream: string, body: object, path: string])[] = [
      ['publish', 'nowhere', { message_id: 'm', payload: 'p' }, '/v1/streams/nowhere/records'],
      ['publish', 'system.audit', { message_id: 'm', payload: 'p' }, '/v1/streams/system.audit/records'],
      ['publish', name, { payload: 'p' }, `/v1/streams/${name}/records`],
      ['publish', name, { message_id: 'm' }, `/v1/streams/${name}/records`],
      ['publish', name, { message_id: 'm', payload_hex: 'x' }, `/v1/streams/${name}/records`],
      ['publish', name, { message_id: 'm', payload: '', extra: 1 }, `/v1/streams/${name}/records`],
      ['nack', name, { reason: 'r', requeue: true }, path(name, 'nack')],
      ['nack', name, {}, path(name, 'nack')],
      ['nack', 'nowhere', { reason: 'r', requeue: true }, path('nowhere', 'nack')],
      ['renew', name, { extend_by_millis: 0 }, path(name, 'renew')],
      ['retry', name, { reason: 'r', delay_millis: 1 }, path(name, 'retry')],
      ['dead_letter', name, { reason: 'r', dead_letter_stream: 'x' }, path(name, 'dead-letter')],
      ['batch_ack', name, { delivery_ids: [] }, `/v1/streams/${name}/subscriptions/${ids[0]}/deliveries/batch-ack`],
    ]
    for (const [i, [op, stream, body, route]] of rows.entries()) {
      const named = op === 'publish' ? {} : op === 'batch_ack' ? { subscription_id } : { subscription_id, delivery_id }
      socket.text({ id: i, op, stream, ...named, body })
      const { status, error } = await socket.answer(i)
      const overHttp = await server.request('POST', route, body)
      assert.deepEqual([status, error], [overHttp.status, overHttp.refusal()], `${op} ${stream}`)
    }
    socket.destroy()
  })

  it('is bounded: a message that is too long ends the connection, and the others go on', async () => {
    const small = await BrokerServer.start({ flags: ['--max-body-bytes', '2048'] })
    const { name } = await small.newStream()
    const [long, other] = [await open({}, small), await open({}, small)]
    long.text(publishing(1, name, 'x'.repeat(3000)))
    await eventually(() => long.messages.length > 0)
    assert.deepEqual([long.said[0]!['id'], long.said[0]!['status']], [null, 413])
    const record = { messageId: 'm', payload: 'x'.repeat(3000), key: null, headers: {}, eventTimeMs: null }
    other.binary(
      framesOf((writer) => {
        writer.begin(PUBLISH, 0, 7, name)
        writer.record(record)
        writer.end(1)
      }),
    )
    await eventually(() => other.messages.length > 0)
    assert.match(other.messages[0]!.toString(), /payload_too_large/)
    long.socket.write(clientFrame(TEXT, 'x'.repeat(2 << 20)))
    await eventually(() => long.isClosed)
    other.messages.splice(0)
    other.text(publishing(2, name))
    assert.equal((await other.answer(2))['error'], undefined)
    other.destroy()
    await small.stop()
  })

  it('is answered within the quotas of the tenant', async () => {
    const limited = await BrokerServer.start({ quota: { publish_records_per_second: 5 } })
    const { name } = await limited.newStream()
    const socket = await open({}, limited)
    socket.text(Array.from({ length: 50 }, (_, i) => publishing(i, name)))
    const { status, retry_after_seconds, error } = await socket.answer(49)
    assert.deepEqual([status, (error as { code: string }).code], [429, 'quota_exceeded'])
    assert(Number(retry_after_seconds) >= 1)
    socket.destroy()
    await limited.stop()
  })
})

describe('a connection that is cut', () => {
  it('at any byte of a publish has published it as a whole or not at all', async () => {
    const stream = await server.newStream()
    const message = clientFrame(
      BINARY,
      framesOf((writer) => {
        writer.begin(PUBLISH, 0, 1, stream.name)
        for (const messageId of ['a', 'b']) {
          writer.record({ messageId, payload: 'pay', key: null, headers: { h: 'v' }, eventTimeMs: null })
        }
        writer.end(2)
      }),
    )
    for (let length = 0; length < message.byteLength; length += 1) {
      const socket = await open()
      socket.socket.end(message.subarray(0, length))
      await eventually(() => socket.isClosed)
    }
    assert.equal((await stream.describe()).next_offset, 0)
    const whole = await open()
    whole.socket.end(message)
    await eventually(async () => (await stream.describe()).next_offset === 2)
    const { records } = await stream.replay()
    assert.deepEqual(
      records.map(({ message_id, headers }) => [message_id, headers]),
      [
        ['a', { h: 'v' }],
        ['b', { h: 'v' }],
      ],
    )
  })

  it('at any byte of a delivery loses nothing: what was given comes to the next one', async () => {
    const stream = await server.newStream()
    await stream.fill(3)
    const group = stream.group()
    const first = await open()
    first.text(subscribing(1, stream.name, 3))
    await eventually(() => first.said.some((each) => 'deliveries' in each))
    const wholeBytes = first.receivedBytes
    first.destroy()
    const noneInFlight = (): Promise<boolean> => group.describe().then(({ in_flight_count }) => in_flight_count === 0)
    for (let cutAt = 1; cutAt < wholeBytes; cutAt += 97) {
      await eventually(noneInFlight)
      const socket = await open()
      socket.text(subscribing(1, stream.name, 3))
      await eventually(() => socket.receivedBytes >= cutAt)
      socket.destroy()
    }
    await eventually(noneInFlight)
    assert.deepEqual(
      (await group.claim({ max_messages: 10 })).map(({ offset }) => offset),
      [0, 1, 2],
    )
  })

  it('gives its leases back at once, or leaves them, as it said when it opened', async () => {
    for (const leases of ['release', 'keep']) {
      const stream = await server.newStream()
      await stream.fill(4)
      const socket = await open({ path: `/v1/connection?leases=${leases}` })
      socket.text(subscribing(1, stream.name, 3))
      await eventually(() => socket.said.some((each) => 'deliveries' in each))
      socket.destroy()
      const other = await open()
      other.text(subscribing(1, stream.name, 10))
      const given = (): number[] =>
        other.said.flatMap((each) => {
          const claim = each['deliveries'] as { deliveries: { offset: number }[] } | undefined
          return claim?.deliveries.map(({ offset }) => offset) ?? []
        })
      await eventually(() => given().length >= (leases === 'release' ? 4 : 1))
      assert.deepEqual(
        given().sort((a, b) => a - b),
        leases === 'release' ? [0, 1, 2, 3] : [3],
      )
      other.destroy()
    }
  })
})

describe('a client that does not read', () => {
  const residentBytes = (): number =>
    1024 * Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))![1])

  it('is given no more than its credit and its socket hold, and the others go on', async () => {
    const stream = await server.newStream()
    const payload = 'x'.repeat(60_000)
    for (let i = 0; i < 15; i++) await stream.fill(100, () => payload) // 90 MB
    const before = residentBytes()
    const socket = await open()
    socket.socket.pause()
    socket.text(subscribing(1, stream.name, 10_000))
    const group = stream.group()
    let leased = -1
    await eventually(async () => {
      const { in_flight_count } = await group.describe()
      const isStill = in_flight_count > 0 && in_flight_count === leased
      leased = in_flight_count
      return isStill
    })
    assert(leased < 1000, `${leased} of 1500 were leased`)
    assert(residentBytes() - before < 200 << 20)
    const other = await open()
    other.text(publishing(1, stream.name))
    assert.equal((await other.answer(1))['error'], undefined)
    socket.socket.resume()
    await eventually(async () => (await group.describe()).in_flight_count > leased)
    socket.destroy()
    other.destroy()
  })

  it('and asks on is cut off', async () => {
    const socket = await open()
    socket.socket.pause()
    const nothing = clientFrame(TEXT, `[${'{},'.repeat(5000)}{}]`)
    let isWritable = true
    socket.socket.on('drain', () => (isWritable = true))
    await eventually(() => {
      if (isWritable && !socket.isClosed) isWritable = socket.socket.write(nothing)
      return (
        socket.socket.destroyed ||
        socket.socket.closed ||
        socket.isClosed ||
        !socket.socket.writable ||
        socket.socket.errored !== null
      )
    })
    socket.destroy()
  })
})

describe('credentials', () => {
  const file = `${temporaryDirectory()}/keys.json`
  const keyFor = (key: string, grants: readonly object[]): object => ({
    key_sha256: createHash('sha256').update(key).digest('hex'),
    tenant: 'acme',
    principal: key,
    grants,
  })
  const writeKeys = (...keys: object[]): void => writeFileSync(file, JSON.stringify({ keys }))
  const ALL = ['create_stream', 'stream.publish', 'stream.consume', 'stream.inspect'].map((permission) => ({
    permission,
  }))
  const bearer = (key: string): UpgradeOptions => ({ headers: { authorization: `Bearer ${key}` } })
  const protocols = (key: string): UpgradeOptions => ({
    headers: { 'sec-websocket-protocol': `trilog.v1, bearer.${Buffer.from(key).toString('base64url')}` },
  })

  it('come before the upgrade, as a header or as a sub-protocol, and count for each message', async () => {
    writeKeys(keyFor('all', ALL), keyFor('reader', [{ permission: 'stream.consume' }]))
    const secured = await BrokerServer.start({ flags: ['--auth-mode', 'api-key', '--credentials-file', file] })
    const created = await secured.request('PUT', '/v1/streams/orders', null, { authorization: 'Bearer all' })
    assert.equal(created.status, 201)
    for (const [options, code] of [
      [{}, 'authentication_required'],
      [bearer('wrong'), 'authentication_failed'],
      [protocols('wrong'), 'authentication_failed'],
      [{ path: '/v1/connection?leases=x', headers: { 'sec-websocket-protocol': 'x' } }, 'authentication_required'],
    ] as const) {
      const refused = await open(options, secured)
      assert.deepEqual([refused.status, codeIn(refused.body)], [401, code])
      assert.equal(refused.headers.get('www-authenticate'), 'Bearer')
    }
    const [all, reader] = [await open(protocols('all'), secured), await open(bearer('reader'), secured)]
    assert.deepEqual([all.status, all.headers.get('sec-websocket-protocol')], [101, 'trilog.v1'])
    assert.deepEqual([reader.status, reader.headers.has('sec-websocket-protocol')], [101, false])
    all.text(publishing(1, 'orders'))
    assert.equal((await all.answer(1))['error'], undefined)
    reader.text([publishing(1, 'orders'), publishing(2, 'nowhere'), subscribing(3, 'orders', 5)])
    assert.deepEqual([(await reader.answer(1))['status'], (await reader.answer(2))['status']], [403, 403])
    await eventually(() => reader.said.some((each) => 'deliveries' in each))

    writeKeys(keyFor('all', [{ permission: 'stream.consume' }]))
    secured.signal('SIGHUP')
    await eventually(() => reader.closing !== null)
    assert.deepEqual(reader.closing, [4401, 'the credentials were revoked'])
    all.text(publishing(2, 'orders'))
    assert.equal((await all.answer(2))['status'], 403)
    assert(!secured.stderr.includes('bearer.'), 'no key is logged')
    all.destroy()
    await secured.stop()
  })
})

describe('a node that stops', () => {
  it('answers what it took, says why it closes, and ends', async () => {
    const stopping = await BrokerServer.start()
    const { name } = await stopping.newStream()
    const sockets = await Promise.all(Array.from({ length: 5 }, () => open({}, stopping)))
    for (const socket of sockets) {
      socket.text(subscribing(0, name, 10))
      await socket.answer(0)
    }
    for (const socket of sockets) {
      for (let id = 1; id <= 100; id++) socket.text(publishing(id, name))
    }
    stopping.signal('SIGTERM')
    await stopping.ended()
    for (const socket of sockets) {
      await eventually(() => socket.isClosed)
      assert.deepEqual(socket.closing, [1001, 'the node is stopping'])
      for (const { id, error } of socket.said) {
        if (error !== undefined) assert.match(JSON.stringify(error), /the node is stopping/, String(id))
      }
    }
  })
})

describe('the binary form', () => {
  it('brings deliveries in frames to who subscribed in a frame', async () => {
    const stream = await server.newStream()
    await stream.fill(2, (number) => `payload-${number}`)
    const socket = await open()
    socket.binary(
      framesOf((writer) => {
        writer.begin(REQUEST, 0, 9, '')
        writer.text(JSON.stringify(subscribing(9, stream.name, 5)))
        writer.end(1)
      }),
    )
    const types = (): number[] =>
      socket.messages.flatMap((each) => {
        const frame = new FrameReader(each)
        const found: number[] = []
        while (frame.next()) found.push(frame.type)
        return found
      })
    await eventually(() => types().includes(DELIVERIES))
    assert(socket.messages.some((each) => each.includes('payload-1')))
    socket.destroy()
  })
})
