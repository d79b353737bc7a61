/** Calls that are answered while their client still sends. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, constants } from 'node:http2'
import type { ClientHttp2Session, ClientHttp2Stream, IncomingHttpHeaders } from 'node:http2'
import { after, before, describe, it } from 'node:test'
import { EXPORT_METHODS } from '../../../src/logstore/grpc/export-methods.ts'
import { GrpcRig } from './grpc-rig.ts'

const LOOK_MS = 10_000
const UNSERVED = '/opentelemetry.proto.collector.metrics.v1.MetricsService/Export'

describe('a call that is answered before its client has sent all', () => {
  let rig: GrpcRig
  let session: ClientHttp2Session
  before(async () => {
    rig = await GrpcRig.start()
    session = connect(`http://127.0.0.1:${rig.front.port}`)
  })
  after(async () => {
    session.destroy()
    await rig.close()
  })

  async function answered(
    path: string,
    headers: object = {},
  ): Promise<{ stream: ClientHttp2Stream; answer: IncomingHttpHeaders }> {
    const stream = session.request(
      { ':method': 'POST', ':path': path, 'content-type': 'application/grpc', ...headers },
      { endStream: false },
    )
    stream.write('x')
    const [answer] = (await once(stream, 'response')) as [IncomingHttpHeaders]
    stream.resume()
    return { stream, answer }
  }

  for (const [what, path] of [
    ['without credentials', EXPORT_METHODS[0]!.path],
    ['of a method that is not served', UNSERVED],
  ] as const) {
    it(`(${what}) is ended without an error when its client does not end it`, async () => {
      const { stream } = await answered(path)
      const closed = once(stream, 'close')
      rig.clock.advanceMs(LOOK_MS)
      assert.ok(!stream.closed)
      rig.clock.advanceMs(LOOK_MS)
      await closed
      assert.equal(stream.rstCode, constants.NGHTTP2_NO_ERROR)
    })
  }

  it('has its request id in the answer, also to what is not served', async () => {
    for (const [path, headers] of [
      [UNSERVED, {}],
      ['/', { 'content-type': 'text/plain' }],
    ] as const) {
      const { stream, answer } = await answered(path, { ...headers, 'x-request-id': 'mine' })
      assert.equal(answer['x-request-id'], 'mine')
      stream.close()
    }
  })
})
