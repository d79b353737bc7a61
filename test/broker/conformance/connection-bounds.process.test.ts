/** Bounds of the streaming connection that operators set, and many strangers that connect at once while a client works. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { BrokerServer } from '../../support/broker.ts'
import { temporaryDirectory } from '../../support/directories.ts'
import { Exposition } from '../../support/exposition.ts'
import { RawWebSocket, TEXT, clientFrame } from '../../support/raw-web-socket.ts'
import type { UpgradeOptions } from '../../support/raw-web-socket.ts'
import { eventually } from '../../support/waiting.ts'

const MIB = 1 << 20
const STRANGERS = 1000
const GRANTS = ['create_stream', 'stream.publish', 'tenant.inspect', 'tenant.administer'].map((permission) => ({
  permission,
}))

const codeOf = ({ error }: Readonly<Record<string, unknown>>): unknown =>
  (error as { readonly code: string } | undefined)?.code

const publishing = (id: number, stream: string): object => ({
  id,
  op: 'publish',
  stream,
  body: { message_id: `m-${id}`, payload: 'p' },
})

/** Tenants acme, globex and local, each with its name as its key. */
function keysFile(): string {
  const keys = ['acme', 'globex', 'local'].map((tenant) => ({
    key_sha256: createHash('sha256').update(tenant).digest('hex'),
    tenant,
    principal: tenant,
    grants: GRANTS,
  }))
  const file = `${temporaryDirectory()}/keys.json`
  writeFileSync(file, JSON.stringify({ keys }))
  return file
}

const WITH_KEYS = ['--auth-mode', 'api-key', '--credentials-file', keysFile()]
const bearer = (key: string): UpgradeOptions => ({ headers: { authorization: `Bearer ${key}` } })

describe('the settings of the streaming connection', () => {
  it('--max-connections and --max-tenant-connections bound how many there are; one that closes makes room', async (context) => {
    const node = await BrokerServer.start({
      flags: [...WITH_KEYS, '--max-connections', '3', '--max-tenant-connections', '2'],
    })
    context.after(() => node.kill())
    const open = (key: string): Promise<RawWebSocket> => RawWebSocket.open(node.readyLine.http, bearer(key))
    const first = await open('acme')
    const held = [first, await open('acme')]
    const third = await open('acme')
    assert.deepEqual([third.status, codeOf(JSON.parse(third.body) as Record<string, unknown>)], [429, 'quota_exceeded'])
    assert.match(third.body, /the tenant has 2 streaming connections/)
    held.push(await open('globex'))
    const fourth = await open('globex')
    assert.equal(fourth.status, 429)
    assert.match(fourth.body, /the node has 3 streaming connections/)
    first.destroy()
    await eventually(async () => {
      const again = await open('acme')
      again.destroy()
      return again.status === 101
    })
    for (const socket of held) socket.destroy()
  })

  it('--max-credit and --max-message-bytes bound what a client asks for and says', async (context) => {
    const node = await BrokerServer.start({ flags: ['--max-credit', '5', '--max-message-bytes', String(MIB)] })
    context.after(() => node.kill())
    const { name: stream } = await node.newStream()
    const socket = await RawWebSocket.open(node.readyLine.http)
    const subscribe = { op: 'subscribe', stream, consumer_group: 'g' }
    socket.text({ id: 1, ...subscribe, credit: 6 })
    assert.equal(codeOf(await socket.answer(1)), 'invalid_request')
    socket.text({ id: 2, ...subscribe, credit: 5 })
    assert.deepEqual((await socket.answer(2))['ok'], { subscription: 2, credit: 5 })
    socket.socket.write(clientFrame(TEXT, ' '.repeat(MIB + 1)))
    await eventually(() => socket.isClosed)
  })

  it('--max-in-flight bounds what is not answered yet', async (context) => {
    const node = await BrokerServer.start({ flags: ['--max-in-flight', '3'] })
    context.after(() => node.kill())
    const { name: stream } = await node.newStream()
    const socket = await RawWebSocket.open(node.readyLine.http)
    socket.text(Array.from({ length: 50 }, (_, id) => publishing(id, stream))) // one message: the node takes it in one turn
    const answers = await Promise.all(Array.from({ length: 50 }, (_, id) => socket.answer(id)))
    const refused = answers.filter((answer) => codeOf(answer) === 'quota_exceeded')
    assert.deepEqual([refused.length, answers.length - refused.length], [47, 3])
    socket.text(publishing(100, stream))
    assert.equal((await socket.answer(100))['error'], undefined)
    socket.destroy()
  })
})

describe(`${STRANGERS} clients with wrong keys at once`, () => {
  it('are each refused with 401, while a good one works on; the audit says so once a second, and nothing of them is left', async (context) => {
    const node = await BrokerServer.start({ flags: [...WITH_KEYS, '--metrics-exposure', 'http'] })
    context.after(() => node.kill())
    const authorization = { authorization: 'Bearer acme' }
    assert.equal((await node.request('PUT', '/v1/streams/orders', null, authorization)).status, 201)
    const good = await RawWebSocket.open(node.readyLine.http, bearer('acme'))
    let published = 0
    const over = new AbortController()
    const working = (async () => {
      for (; !over.signal.aborted || published < 10; published += 1) {
        good.text(publishing(published, 'orders'))
        assert.equal((await good.answer(published))['error'], undefined)
        good.messages.splice(0)
      }
    })()
    const strangers = await Promise.all(
      Array.from({ length: STRANGERS }, (_, i) =>
        i % 2 === 0
          ? RawWebSocket.open(node.readyLine.http, bearer(`wrong-${i}`)).then((socket) => {
              socket.destroy()
              return socket.status
            })
          : node
              .request('GET', '/v1/streams', null, { authorization: `Bearer wrong-${i}` })
              .then(({ status }) => status),
      ),
    )
    over.abort()
    await working
    assert.deepEqual([...new Set(strangers)], [401])
    good.destroy()
    await eventually(async () => {
      const { text } = await node.request('GET', '/metrics', null, authorization)
      return new Exposition(text).value('mq_connections', {}) === 0
    })
    const { text } = await node.request('GET', '/v1/audit/events', null, { authorization: 'Bearer local' })
    const { events } = JSON.parse(text) as { events: { kind: string; detail: { refusals: number } }[] }
    const told = events.filter(({ kind }) => kind === 'authentication_failed')
    assert(told.length >= 1 && told.length < STRANGERS / 10, `${told.length} events`)
    assert(told.reduce((sum, { detail }) => sum + detail.refusals, 0) <= STRANGERS)
    assert(!node.stderr.includes('wrong-'), 'no key is logged')
  })
})
