/** After SIGTERM, a process goes on serving for TRILOG_DRAIN_SECONDS, and loses nothing. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { BrokerServer } from './support/broker.ts'
import { eventually } from './support/waiting.ts'

/** A drain that no test waits for: SIGINT ends it. */
const LONG = { TRILOG_DRAIN_SECONDS: '3600' }

const readiness = async (server: BrokerServer): Promise<readonly [number, string]> => {
  const { status, text } = await server.request('GET', '/readyz')
  return [status, (JSON.parse(text) as { status: string }).status]
}

describe('a drain', { concurrency: true }, () => {
  it('serves everything and says that it is not ready, until SIGINT ends it; what was acknowledged is kept', async () => {
    const server = await BrokerServer.start({ env: LONG })
    assert.deepEqual(await readiness(server), [200, 'ok'])
    await server.request('PUT', '/v1/streams/load')
    let published = 0
    const load = { isOver: false }
    const publishers = Array.from({ length: 8 }, async (_, number) => {
      for (let i = 0; !load.isOver; i++) {
        const record = { message_id: `${number}-${i}`, payload_hex: '00' }
        assert.equal((await server.request('POST', '/v1/streams/load/records', record)).status, 201)
        published++
      }
    })
    await eventually(() => published > 100)
    server.signal('SIGTERM')
    await eventually(async () => (await readiness(server))[0] === 503)
    assert.deepEqual(await readiness(server), [503, 'draining'])
    const before = published
    await eventually(() => published > before + 100)
    assert.equal((await server.request('GET', '/livez')).status, 200)
    assert.equal((await server.request('GET', '/health')).status, 200)
    server.signal('SIGTERM') // changes nothing: npm passes on a signal that the process group got already
    const again = published
    await eventually(() => published > again + 100)
    load.isOver = true
    await Promise.all(publishers)
    server.signal('SIGINT')
    await server.ended()

    await server.startAgain()
    const stream = await server.request('GET', '/v1/streams/load')
    assert.match(stream.text, new RegExp(`"next_offset":${published}\\b`))
    server.signal('SIGINT')
    await server.ended()
  })

  it('ends by itself when its time is over', async () => {
    const server = await BrokerServer.start({ env: { TRILOG_DRAIN_SECONDS: '1' } })
    server.signal('SIGTERM')
    await server.ended()
  })

  it('is none for SIGINT', async () => {
    const server = await BrokerServer.start({ env: LONG })
    server.signal('SIGINT')
    await server.ended()
  })
})
