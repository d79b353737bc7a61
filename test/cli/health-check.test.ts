/** `trilog health` before listeners that answer, refuse, or are not there. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, it } from 'node:test'
import { healthOf, outputOfHealth } from '../../src/cli/health-check.ts'
import { PLAIN } from '../../src/cli/style.ts'
import { loadConfig } from '../../src/config/config.ts'

async function listening(status: number, body: string): Promise<{ readonly server: Server; readonly address: string }> {
  const server = createServer((request, response) => {
    assert.equal(request.url, '/readyz')
    response.writeHead(status).end(body)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return { server, address: `127.0.0.1:${(server.address() as AddressInfo).port}` }
}

describe('trilog health', () => {
  it('says of each service whether it is ready', async () => {
    const [ready, recovering] = [
      await listening(200, '{"status":"degraded","reasons":[]}'),
      await listening(503, '{"status":"recovering","reasons":[]}'),
    ]
    const config = loadConfig({
      LOGSTORE_BIND_ADDRESS: ready.address,
      OBJSTORE_BIND_ADDRESS: recovering.address,
      MQ_HTTP_BIND: '127.0.0.1:0',
    })
    const found = await healthOf(config)
    assert.deepEqual(outputOfHealth(found, false, PLAIN), {
      text: [
        'logstore     degraded',
        'objectstore  recovering',
        'broker       unknown: with port 0 the settings do not say which port the service listens on',
      ].join('\n'),
      exitCode: 1,
    })
    ready.server.close()
    recovering.server.close()
  })

  it('is well when every chosen service is, also one that shows nothing without a certificate', async () => {
    const asking = await listening(401, '{}')
    const port = asking.address.split(':')[1]!
    const config = loadConfig({
      MQ_HTTP_BIND: `0.0.0.0:${port}`,
      TRILOG_ALLOW_INSECURE_BIND: '1',
      TRILOG_SERVICES: 'broker',
    })
    const { text, exitCode } = outputOfHealth(await healthOf(config), true, PLAIN)
    assert.deepEqual(
      [JSON.parse(text), exitCode],
      [{ ready: true, services: [{ service: 'broker', ready: true, status: 'answers' }] }, 0],
    )
    asking.server.close()
  })

  it('names what is wrong with a listener that is gone, or is none of ours', async () => {
    const other = await listening(200, 'hello')
    const config = loadConfig({ MQ_HTTP_BIND: other.address, TRILOG_SERVICES: 'broker' })
    assert.deepEqual(await healthOf(config), [
      { service: 'broker', isReady: false, status: 'answered 200, and is no service of trilog' },
    ])
    other.server.close()
    await once(other.server, 'close')
    const [gone] = await healthOf(config)
    assert.match(gone!.status, /^unreachable: .*ECONNREFUSED/)
    assert.equal(gone!.isReady, false)
  })
})
