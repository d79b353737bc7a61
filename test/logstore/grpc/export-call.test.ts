/** Calls on HTTP/2 itself: requests that no gRPC library sends, and what only servers see of a call. */
import assert from 'node:assert/strict'
import { connect as connectTcp } from 'node:net'
import { connect, constants as http2 } from 'node:http2'
import type { ClientHttp2Session, ClientHttp2Stream, IncomingHttpHeaders } from 'node:http2'
import { once } from 'node:events'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { EXPORT_METHODS } from '../../../src/logstore/grpc/export-methods.ts'
import { framedMessage } from '../../../src/logstore/grpc/grpc-wire.ts'
import { DEVELOPMENT_TENANT, DEVELOPMENT_TOKEN } from '../../../src/logstore/tenants/tenant-policy-file.ts'
import { eventually } from '../../support/waiting.ts'
import { BODY_BYTES_MAX, GrpcRig, acceptedBatch, exportOnce } from './grpc-rig.ts'

const MESSAGE = Buffer.from('not looked at before the decode lane')

let rig: GrpcRig
let session: ClientHttp2Session

function open(headers: Record<string, string> = {}): ClientHttp2Stream {
  const request = session.request({
    ':method': 'POST',
    ':path': EXPORT_METHODS[0]!.path,
    'content-type': 'application/grpc',
    te: 'trailers',
    'x-logstore-tenant': DEVELOPMENT_TENANT,
    authorization: `Bearer ${DEVELOPMENT_TOKEN}`,
    ...headers,
  })
  request.on('error', () => {})
  return request
}

/** Headers and trailers, once the answer is whole. */
async function answerOf(request: ClientHttp2Stream): Promise<IncomingHttpHeaders> {
  let told: IncomingHttpHeaders = {}
  request.on('response', (headers) => (told = { ...told, ...headers }))
  request.on('trailers', (headers) => (told = { ...told, ...headers }))
  request.resume()
  await once(request, 'close')
  return told
}

describe('an export call on HTTP/2', () => {
  beforeEach(async () => {
    rig = await GrpcRig.start()
    session = connect(`http://127.0.0.1:${rig.front.port}`)
    session.on('error', () => {})
  })
  afterEach(async () => {
    session.destroy()
    await rig.close()
  })

  it('is read however its message is cut into frames', async () => {
    const request = open()
    const answer = answerOf(request)
    for (const byte of framedMessage(MESSAGE)) await new Promise((sent) => request.write(Uint8Array.of(byte), sent))
    request.end()
    assert.equal((await answer)['grpc-status'], '0')
    assert.deepEqual(rig.ingest.submitted[0]!.body, MESSAGE)
  })

  it('whose deadline passes before its answer is DEADLINE_EXCEEDED, and what comes later is ignored', async () => {
    const request = open({ 'grpc-timeout': '2S' })
    const answer = answerOf(request)
    let late = (): void => {}
    rig.ingest.answer = ({ client }) => (late = () => client.accepted(acceptedBatch(1)))
    request.end(framedMessage(MESSAGE))
    await eventually(() => rig.ingest.submitted.length === 1)
    rig.clock.advanceMs(1500)
    assert.equal(rig.ended.length, 0)
    rig.clock.advanceMs(1000)
    assert.equal((await answer)['grpc-status'], '4')
    late()
    assert.deepEqual(
      rig.ended.map(([, status]) => status),
      [400],
    )
    assert.equal(rig.clock.waiting, 0)
  })

  it('whose deadline passes before its message is whole gives its place back', async () => {
    const request = open({ 'grpc-timeout': '2S' })
    const answer = answerOf(request)
    request.write(framedMessage(MESSAGE).subarray(0, 10))
    await eventually(() => rig.ingest.slots.taken === 1)
    rig.clock.advanceMs(2500)
    assert.equal(rig.ingest.slots.taken, 0)
    request.end()
    assert.equal((await answer)['grpc-status'], '4')
  })

  it('with a flag that is neither 0 nor 1, or bytes behind its message, is malformed', async () => {
    const flagged = framedMessage(MESSAGE)
    flagged[0] = 2
    for (const bytes of [flagged, Buffer.concat([framedMessage(MESSAGE), Buffer.of(0)])]) {
      const request = open()
      const answer = answerOf(request)
      request.end(bytes)
      assert.equal((await answer)['grpc-status'], '3')
    }
    assert.deepEqual(rig.refused, ['malformed_batch', 'malformed_batch'])
    assert.equal(rig.ingest.slots.taken, 0)
  })

  it('that ends in the middle of its message is malformed', async () => {
    const request = open()
    const answer = answerOf(request)
    request.end(framedMessage(MESSAGE).subarray(0, 10))
    assert.equal((await answer)['grpc-status'], '3')
    assert.equal(rig.ingest.slots.taken, 0)
  })

  it('that says it is too long is refused before it is read, and reset when its client sends on without end', async () => {
    const request = open()
    const answer = answerOf(request)
    const head = Buffer.alloc(5)
    head.writeUInt32BE(0xffff_ffff, 1)
    request.write(head)
    await eventually(() => rig.refused.length === 1)
    assert.deepEqual(rig.refused, ['payload_too_large'])
    while (!request.destroyed) await new Promise((sent) => request.write(Buffer.alloc(BODY_BYTES_MAX), sent))
    assert.equal((await answer)['grpc-status'], '8')
    assert.equal(request.rstCode, http2.NGHTTP2_NO_ERROR)
  })

  it('of another content type is 415', async () => {
    const request = open({ 'content-type': 'application/json' })
    const answer = answerOf(request)
    request.end('{}')
    assert.equal((await answer)[':status'], 415)
  })

  it('is not disturbed by connections that speak no HTTP/2, or break off', async () => {
    const stranger = connectTcp(rig.front.port, '127.0.0.1')
    stranger.on('error', () => {})
    stranger.resume()
    stranger.end('GET / HTTP/1.1\r\n\r\n')
    await once(stranger, 'close')
    const request = open()
    request.write(framedMessage(MESSAGE).subarray(0, 10))
    await eventually(() => rig.ingest.slots.taken === 1)
    session.destroy()
    await eventually(() => rig.ingest.slots.taken === 0)
    assert.equal((await exportOnce(rig.client(), MESSAGE)).code, 0)
  })

  it('ends with its connection when the other end answers no ping', async () => {
    const silent = connectTcp(rig.front.port, '127.0.0.1')
    silent.resume()
    silent.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
    silent.write(Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    await once(silent, 'data')
    for (let minute = 0; minute < 2; minute++) rig.clock.advanceMs(60_000)
    await once(silent, 'close')
  })
})
