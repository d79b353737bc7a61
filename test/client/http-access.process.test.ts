/** A client with credentials, against a node that needs them. */
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { after, before, it } from 'node:test'
import { inspect } from 'node:util'
import { HttpBrokerError, HttpNativeClient, nodeTransport } from '../../src/client/index.ts'
import type { HttpRequest } from '../../src/client/index.ts'
import { BrokerServer } from '../support/broker.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { refusalOf } from './support.ts'

const KEY = 'a-key-that-is-secret'
const SETTINGS = { producerId: 'tester' }
const RECORD = { message_id: 'm', payload: 'p' }

let server: BrokerServer
const clients: HttpNativeClient[] = []

before(async () => {
  const file = `${temporaryDirectory()}/credentials.json`
  const grants = [{ permission: 'create_stream' }, { permission: 'stream.publish', stream: 'orders' }]
  const keys = [{ key_sha256: hash('sha256', KEY), tenant: 'acme', principal: 'ci', grants }]
  writeFileSync(file, JSON.stringify({ keys }))
  server = await BrokerServer.start({ flags: ['--auth-mode', 'api-key', '--credentials-file', file] })
})
after(async () => {
  await Promise.all(clients.map((client) => client.close()))
  await server.stop()
})

async function connect(settings: object): Promise<HttpNativeClient> {
  const client = await HttpNativeClient.connect(server.url, { ...SETTINGS, ...settings })
  clients.push(client)
  return client
}

it('a client with a key does what its grants allow, and hears what they do not', async () => {
  const client = await connect({ apiKey: KEY })
  await client.createStream('orders')
  assert.equal((await client.publish('orders', RECORD)).offset, 0)
  const refused = await refusalOf(client.fetch('orders'))
  assert(refused instanceof HttpBrokerError)
  assert.deepEqual([refused.status, refused.code, refused.retryable], [403, 'authorization_denied', false])
})

it('a client without a key, or with a wrong one, is refused, and its key is in no error', async () => {
  for (const [apiKey, code] of [
    [null, 'authentication_required'],
    ['another-key-that-is-secret', 'authentication_failed'],
  ] as const) {
    const client = await connect({ apiKey })
    for (const call of [client.publish('orders', RECORD), client.subscribeQueue('orders', 'g').next()]) {
      const refused = await refusalOf(call)
      assert(refused instanceof HttpBrokerError)
      assert.deepEqual([refused.status, refused.code, refused.retryable], [401, code, false])
      assert.doesNotMatch(inspect(refused, { depth: 9, showHidden: true }), /that-is-secret/)
    }
  }
})

it('a transport of its own can add the credentials', async () => {
  const inner = nodeTransport()
  const transport = {
    send: (request: HttpRequest) =>
      inner.send({ ...request, headers: { ...request.headers, authorization: `Bearer ${KEY}` } }),
    close: () => inner.close?.(),
  }
  const client = await connect({ transport })
  assert.equal((await client.publish('orders', RECORD)).offset, 1)
})
