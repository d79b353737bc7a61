import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listen } from '../../src/http/server.ts'
import { RawClient, measure } from './support.ts'

/** In real time, as it is about a timer inside the library: it closes after 8 to 12 s without a sign of life. */
test('a body that pauses for 13 s is read to its end, and refused later bodies still get their answer', async () => {
  const server = await listen(
    {
      name: 'test',
      routes: [{ method: 'POST', path: '/m', endpoint: { begin: measure(100) } }],
      requestIdHeader: 'x-request-id',
      requestIdPrefix: 'req-',
      notFound: () => {},
      methodNotAllowed: () => {},
      internalError: () => {},
    },
    { host: '127.0.0.1', port: 0, setting: 'TEST' },
    {
      logger: { error: () => {} },
      clock: {
        nowMs: () => performance.now(),
        every(ms, run) {
          const timer = setInterval(run, ms)
          return () => clearInterval(timer)
        },
      },
      random: () => {},
      slowClientMs: 14_000,
    },
  )
  const patient = await RawClient.connect(server)
  const stalled = await RawClient.connect(server)
  for (const client of [patient, stalled])
    await client.send('POST /m HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf')
  await new Promise((resolve) => setTimeout(resolve, 13_000))
  await patient.send('second')
  assert.equal((await patient.reply())!.body, '10 bytes')
  assert.equal((await stalled.reply())!.status, 408)
  patient.destroy()
  await server.close({ withinMs: 1000 })
})
