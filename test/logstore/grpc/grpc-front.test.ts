import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { connect, constants as http2 } from 'node:http2'
import type { ClientHttp2Session, ClientHttp2Stream, IncomingHttpHeaders } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { gunzipSync, zstdCompressSync } from 'node:zlib'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Client, compressionAlgorithms, credentials, status } from '@grpc/grpc-js'
import type { ClientWritableStream, Metadata } from '@grpc/grpc-js'
import { FORMAT_PROTOBUF, SIGNAL_LOG, SIGNAL_TRACE, SOURCE_OTLP_GRPC } from '../../../src/logstore/batch-frame.ts'
import { EXPORT_METHODS } from '../../../src/logstore/grpc/export-methods.ts'
import { GrpcFront } from '../../../src/logstore/grpc/grpc-front.ts'
import { ENCODINGS } from '../../../src/logstore/ingest/messages.ts'
import { permanentRefusal, refusal } from '../../../src/logstore/refusals.ts'
import { DEVELOPMENT_TENANT, DEVELOPMENT_TOKEN } from '../../../src/logstore/tenants/tenant-policy-file.ts'
import {
  BODY_BYTES_MAX,
  GrpcRig,
  acceptedBatch,
  asIs,
  exportOnce,
  goodMetadata,
  metadataOf,
  outcomeOf,
} from './grpc-rig.ts'
import type { Outcome, Submitted } from './grpc-rig.ts'
import { nextTurn } from '../../support/next-turn.ts'

const MESSAGE = Buffer.from('not looked at before the decode lane')
const MARKED_COMPRESSED = 1

let rig: GrpcRig

describe('the gRPC front', () => {
  beforeEach(async () => {
    rig = await GrpcRig.start()
  })
  afterEach(() => rig.close())

  describe('an export call', () => {
    it('hands its message to the ingest byte for byte and is answered with an empty response', async () => {
      const { code, message, response } = await exportOnce(rig.client(), MESSAGE)
      assert.deepEqual([code, message, response], [status.OK, '', Buffer.alloc(0)])
      const [batch] = rig.ingest.submitted
      assert.deepEqual(batch?.body, MESSAGE)
      assert.deepEqual(
        [batch.client.signal, batch.client.format, batch.client.source, batch.encoding, batch.caller.tenant.id],
        [SIGNAL_LOG, FORMAT_PROTOBUF, SOURCE_OTLP_GRPC, 0, 'local'],
      )
    })

    it('of the trace service is a batch of spans', async () => {
      await exportOnce(rig.client(), MESSAGE, goodMetadata(), {}, 1)
      assert.equal(rig.ingest.submitted[0]?.client.signal, SIGNAL_TRACE)
    })

    it('may be gzipped', async () => {
      const message = Buffer.alloc(BODY_BYTES_MAX, 'x')
      const client = rig.client({ 'grpc.default_compression_algorithm': compressionAlgorithms.gzip })
      const outcome = await exportOnce(client, message)
      assert.equal(outcome.code, status.OK)
      const [batch] = rig.ingest.submitted
      assert.equal(ENCODINGS[batch!.encoding], 'gzip')
      assert.deepEqual(gunzipSync(batch!.body), message)
    })

    it('may be compressed with zstd, which is told, and not with what is not told', async () => {
      const compressed = zstdCompressSync(MESSAGE)
      const zstd = openRaw({ 'grpc-encoding': 'zstd' })
      zstd.request.end(frameOf(compressed, MARKED_COMPRESSED))
      const headers = await new Promise<IncomingHttpHeaders>((resolve) => zstd.request.once('response', resolve))
      assert.equal(headers['grpc-accept-encoding'], 'identity,gzip,deflate,zstd,snappy,x-snappy-framed')
      const [batch] = rig.ingest.submitted
      assert.deepEqual([ENCODINGS[batch!.encoding], batch!.body], ['zstd', compressed])
      zstd.session.destroy()

      const lz4 = openRaw({ 'grpc-encoding': 'lz4' })
      lz4.request.end(frameOf(MESSAGE, MARKED_COMPRESSED))
      const refused = await new Promise<IncomingHttpHeaders>((resolve) => lz4.request.once('response', resolve))
      assert.equal(refused['grpc-status'], String(status.UNIMPLEMENTED))
      assert.deepEqual(rig.refused, ['unsupported_content_encoding'])
      await until(() => rig.ingest.slots.taken === 0)
      lz4.session.destroy()
    })

    it('without bytes reaches the ingest, which has its own word for it', async () => {
      assert.equal((await exportOnce(rig.client(), Buffer.alloc(0))).code, status.OK)
      assert.equal(rig.ingest.submitted[0]?.body.byteLength, 0)
    })

    it('is answered in its own time among many on one connection', async () => {
      const client = rig.client()
      const waiting: (() => void)[] = []
      rig.ingest.answer = ({ client: batch }) => {
        waiting.push(() => batch.accepted(acceptedBatch(1)))
        if (waiting.length === 12) for (const answer of waiting.reverse()) answer()
      }
      const outcomes = await Promise.all(Array.from({ length: 12 }, (_, i) => exportOnce(client, Buffer.from([i]))))
      assert.deepEqual(
        outcomes.map(({ code }) => code),
        Array.from({ length: 12 }, () => status.OK),
      )
      assert.deepEqual(
        rig.ingest.submitted.map(({ body }) => body[0]).sort((a, b) => a! - b!),
        [...outcomes.keys()],
      )
    })
  })

  describe('a refused export call', () => {
    const cases = [
      ['without a tenant', metadataOf(null, 'Bearer x'), status.UNAUTHENTICATED, 'missing_tenant'],
      ['without credentials', metadataOf('local', null), status.UNAUTHENTICATED, 'missing_credentials'],
      ['of an unknown tenant', metadataOf('nobody', 'Bearer x'), status.PERMISSION_DENIED, 'unknown_tenant'],
      ['with a wrong token', metadataOf('local', 'Bearer x'), status.UNAUTHENTICATED, 'invalid_credentials'],
    ] as const
    for (const [what, metadata, code, kind] of cases) {
      it(`${what} is told so before its message is read`, async () => {
        const outcome = await exportOnce(rig.client(), Buffer.alloc(4 * BODY_BYTES_MAX), metadata)
        assert.equal(outcome.code, code)
        assert.match(outcome.message, new RegExp(`^${kind}: `))
        assert.equal(outcome.status?.reason, kind)
        assert.equal(outcome.status?.code, code)
        assert.equal(outcome.status?.retryAfterSeconds, null)
        assert.deepEqual(rig.ingest.submitted, [])
        assert.deepEqual(rig.refused, [kind])
      })
    }

    it('says in RetryInfo when there may be a place', async () => {
      for (let i = 0; i < 16; i++) assert.equal(rig.ingest.slots.tryTake('local', 16), 'taken')
      const outcome = await exportOnce(rig.client(), MESSAGE)
      assert.equal(outcome.code, status.RESOURCE_EXHAUSTED)
      assert.equal(outcome.status?.reason, 'concurrency_exceeded')
      assert.equal(outcome.status?.retryAfterSeconds, 2)
    })

    it('has the code, the message and the details of the refusal the ingest gives', async () => {
      const client = rig.client()
      rig.ingest.answer = ({ client: batch }) => batch.refused(refusal('wal_unavailable', 'nothing was stored', 5))
      const unavailable = await exportOnce(client, MESSAGE)
      assert.deepEqual(
        [unavailable.code, unavailable.message],
        [status.UNAVAILABLE, 'wal_unavailable: nothing was stored'],
      )
      assert.equal(unavailable.status?.retryAfterSeconds, 5)

      rig.ingest.answer = ({ client: batch }) => batch.refused(permanentRefusal('byte_quota_exceeded', 'never fits'))
      const never = await exportOnce(client, MESSAGE)
      assert.equal(never.code, status.RESOURCE_EXHAUSTED)
      assert.equal(never.status?.retryAfterSeconds, null)
      assert.deepEqual(rig.refused, [], 'the ingest counts its own refusals')
    })

    it('is told when the body space is full, and may come again', async () => {
      while (rig.ingest.arena.allocate(1) >= 0);
      const outcome = await exportOnce(rig.client(), MESSAGE)
      assert.equal(outcome.status?.reason, 'concurrency_exceeded')
      assert.notEqual(outcome.status?.retryAfterSeconds, null)
      assert.equal(rig.ingest.slots.taken, 0)
    })

    it('to a method that is not served is UNIMPLEMENTED', async () => {
      const path = '/opentelemetry.proto.collector.metrics.v1.MetricsService/Export'
      const code = await new Promise((resolve) => {
        rig.client().makeUnaryRequest(path, asIs, asIs, MESSAGE, goodMetadata(), (error) => resolve(error?.code))
      })
      assert.equal(code, status.UNIMPLEMENTED)
    })
  })

  describe('a request id', () => {
    const answers = [
      ['an empty response', `Bearer ${DEVELOPMENT_TOKEN}`, status.OK],
      ['a refusal', 'Bearer wrong', status.UNAUTHENTICATED],
    ] as const
    const withId = (authorization: string, id: string): Metadata => {
      const metadata = metadataOf(DEVELOPMENT_TENANT, authorization)
      if (id !== '') metadata.set('x-request-id', id)
      return metadata
    }
    for (const [what, authorization, code] of answers) {
      it(`of up to 128 visible characters is kept in ${what}`, async () => {
        for (const id of ['a', '!~{}"', 'x'.repeat(128)]) {
          const outcome = await exportOnce(rig.client(), MESSAGE, withId(authorization, id))
          assert.deepEqual([outcome.code, outcome.requestId], [code, id])
        }
      })

      it(`that is missing, longer or not visible is replaced by one of our own in ${what}`, async () => {
        const given: string[] = []
        for (const id of ['', 'x'.repeat(129), 'a b']) {
          const outcome = await exportOnce(rig.client(), MESSAGE, withId(authorization, id))
          assert.equal(outcome.code, code)
          assert.match(outcome.requestId, /^req-[0-9a-f]{24}$/)
          given.push(outcome.requestId)
        }
        assert.equal(new Set(given).size, given.length)
      })
    }

    it('is in the refusals of the ingest, and beside their details', async () => {
      rig.ingest.answer = ({ client: batch }) => batch.refused(refusal('wal_unavailable', 'nothing was stored', 5))
      const outcome = await exportOnce(rig.client(), MESSAGE, withId(`Bearer ${DEVELOPMENT_TOKEN}`, 'mine'))
      assert.deepEqual([outcome.requestId, outcome.status?.reason], ['mine', 'wal_unavailable'])
    })

    it('is logged with what failed', async () => {
      const broken = new Error('broken')
      const logged: unknown[] = []
      rig.logged = (details, message) => logged.push(details, message)
      rig.ingest.answer = () => {
        throw broken
      }
      const outcome = await exportOnce(rig.client(), MESSAGE, withId(`Bearer ${DEVELOPMENT_TOKEN}`, 'mine'))
      assert.deepEqual([outcome.requestId, outcome.status?.reason], ['mine', 'internal_error'])
      assert.deepEqual(logged, [
        { service: 'logstore', transport: 'grpc', request_id: 'mine', err: broken },
        'request failed',
      ])
    })

    it('does not keep a client that has a retry policy from repeating what was refused', async () => {
      let batches = 0
      rig.ingest.answer = ({ client: batch }) => {
        if (++batches === 1) batch.refused(refusal('wal_unavailable', 'nothing was stored', 1))
        else batch.accepted(acceptedBatch(1))
      }
      const retryPolicy = {
        maxAttempts: 2,
        initialBackoff: '0.001s',
        maxBackoff: '0.001s',
        backoffMultiplier: 1,
        retryableStatusCodes: ['UNAVAILABLE'],
      }
      const methodConfig = [{ name: [{}], retryPolicy }]
      const client = rig.client({ 'grpc.service_config': JSON.stringify({ loadBalancingConfig: [], methodConfig }) })
      const outcome = await exportOnce(client, MESSAGE, withId(`Bearer ${DEVELOPMENT_TOKEN}`, 'mine'))
      assert.deepEqual([outcome.code, outcome.requestId, batches], [status.OK, 'mine', 2])
    })
  })

  describe('a message over the body limit', () => {
    it('is payload_too_large without RetryInfo, and its place is free again', async () => {
      const outcome = await exportOnce(rig.client(), Buffer.alloc(BODY_BYTES_MAX + 1))
      assert.equal(outcome.code, status.RESOURCE_EXHAUSTED)
      assert.deepEqual([outcome.status?.reason, outcome.status?.retryAfterSeconds], ['payload_too_large', null])
      assert.match(outcome.requestId, /^req-/)
      assert.deepEqual(rig.refused, ['payload_too_large'])
      assert.deepEqual(rig.ingest.submitted, [])
      assert.equal(rig.ingest.slots.taken, 0)
    })
  })

  describe('a call that does not bring exactly one message', () => {
    /** A call whose messages the test writes itself, which no OTLP client does. */
    function open(): { call: ClientWritableStream<Buffer>; outcome: Promise<Outcome> } {
      const { path } = EXPORT_METHODS[0]!
      const { promise, resolve } = Promise.withResolvers<Outcome>()
      const call = rig
        .client()
        .makeClientStreamRequest(path, asIs, asIs, goodMetadata(), (error, response) =>
          resolve(outcomeOf(error, response ?? null)),
        )
      return { call, outcome: promise }
    }

    it('is malformed without any', async () => {
      const { call, outcome } = open()
      call.end()
      assert.equal((await outcome).status?.reason, 'malformed_batch')
      assert.equal(rig.ingest.slots.taken, 0)
    })

    it('is malformed with two', async () => {
      const { call, outcome } = open()
      call.write(MESSAGE)
      call.end(MESSAGE)
      assert.equal((await outcome).code, status.INVALID_ARGUMENT)
      assert.deepEqual(rig.ingest.submitted, [])
      assert.equal(rig.ingest.slots.taken, 0)
    })

    it('that stalls for 30 s gives its place back', async () => {
      const { call, outcome } = open()
      call.write(MESSAGE)
      await until(() => rig.ingest.slots.taken === 1)
      rig.clock.advanceMs(29_000)
      assert.equal(rig.ingest.slots.taken, 1)
      rig.clock.advanceMs(4000)
      assert.equal((await outcome).code, status.DEADLINE_EXCEEDED)
      assert.equal((await outcome).status?.reason, 'request_timeout')
      assert.equal(rig.ingest.slots.taken, 0)
      assert.equal(rig.clock.waiting, 0)
    })

    it('that brings anything at all has time', async () => {
      const { session, request } = openRaw()
      const frame = frameOf(MESSAGE)
      for (let at = 0; at < 5; at++) {
        await new Promise((sent) => request.write(frame.subarray(at, at + 1), sent))
        await new Promise((answered) => session.ping(answered)) // the byte is there
        rig.clock.advanceMs(28_000)
        assert.equal(rig.ingest.slots.taken, 1)
      }
      request.end(frame.subarray(5))
      await until(() => rig.ingest.submitted.length === 1)
      assert.deepEqual(rig.ingest.submitted[0]!.body, MESSAGE)
      session.destroy()
    })

    it('that is slow gives its place to the next call when there is no other', async () => {
      const calls = Array.from({ length: 16 }, () => open())
      for (const { call } of calls) call.write(MESSAGE)
      await until(() => rig.ingest.slots.taken === 16)
      const client = rig.client()
      assert.equal((await exportOnce(client, MESSAGE)).status?.reason, 'concurrency_exceeded', 'none is slow yet')
      rig.clock.advanceMs(10_000)
      assert.equal((await exportOnce(client, MESSAGE)).code, status.OK)
      const refused = await Promise.race(calls.map(({ outcome }) => outcome))
      assert.equal(refused.code, status.RESOURCE_EXHAUSTED)
      assert.equal(refused.status?.reason, 'concurrency_exceeded')
      assert.notEqual(refused.status?.retryAfterSeconds, null)
      assert.equal(rig.ingest.slots.taken, 15)
      for (const { call } of calls) call.cancel()
    })

    it('gives its place back when the client goes away in the middle of it, and counts as nothing', async () => {
      const { session, request } = openRaw()
      request.write(frameOf(MESSAGE).subarray(0, 20))
      await until(() => rig.ingest.slots.taken === 1)
      request.close(http2.NGHTTP2_CANCEL)
      await until(() => rig.ingest.slots.taken === 0)
      assert.equal(rig.clock.waiting, 0)
      assert.deepEqual(rig.ingest.submitted, [])
      assert.deepEqual(rig.refused, [])
      session.destroy()
    })
  })

  describe('many calls at once on one connection', () => {
    const CALLS = 300

    it('are each answered, or refused with RetryInfo, and counted: none is reset', async () => {
      const held = holdSixteen()
      const client = rig.client()
      const outcomes = Promise.all(Array.from({ length: CALLS }, () => exportOnce(client, MESSAGE)))
      await until(() => rig.refused.length === CALLS - 16)
      for (const batch of held) batch.client.accepted(acceptedBatch(1))
      const refused = (await outcomes).filter(({ code }) => code !== status.OK)
      assert.equal(refused.length, CALLS - 16)
      for (const outcome of refused) {
        assert.equal(outcome.code, status.RESOURCE_EXHAUSTED)
        assert.equal(outcome.status?.reason, 'concurrency_exceeded')
        assert.equal(outcome.status?.retryAfterSeconds, 2)
      }
    })

    it('of a client that did not wait for the settings of the server, too', async () => {
      const held = holdSixteen()
      const { session, request } = openRaw()
      const requests = [request, ...Array.from({ length: CALLS - 1 }, () => openOn(session))]
      const resets: number[] = []
      const codes: unknown[] = []
      for (const each of requests) {
        each.on('response', (headers) => {
          if (headers['grpc-status'] !== undefined) codes.push(headers['grpc-status'])
        })
        each.on('trailers', (trailers) => codes.push(trailers['grpc-status']))
        each.on('close', () => {
          if (each.rstCode !== http2.NGHTTP2_NO_ERROR) resets.push(each.rstCode)
        })
        each.resume()
        each.end(frameOf(MESSAGE))
      }
      await until(() => codes.length + resets.length === CALLS - 16 || rig.refused.length === CALLS - 16)
      for (const batch of held) batch.client.accepted(acceptedBatch(1))
      await until(() => codes.length + resets.length === CALLS)
      assert.deepEqual(resets, [])
      const count = (code: string): number => codes.filter((each) => each === code).length
      assert.deepEqual([count('0'), count(String(status.RESOURCE_EXHAUSTED))], [16, CALLS - 16])
      session.destroy()
    })

    /** As many requests as the tenant has slots: none is answered until the test does it. */
    function holdSixteen(): Submitted[] {
      const held: Submitted[] = []
      rig.ingest.answer = (batch) => held.push(batch)
      rig.ingest.releaseSlot = () => {}
      return held
    }
  })

  describe('a client that goes away before the answer', () => {
    it('only misses it', async () => {
      const client = rig.client()
      const submitted = Promise.withResolvers<() => void>()
      rig.ingest.answer = ({ client: batch }) => submitted.resolve(() => batch.accepted(acceptedBatch(1)))
      const gone = new AbortController()
      const late = exportOnce(client, MESSAGE, goodMetadata(), {}, 0, gone.signal)
      const answer = await submitted.promise
      gone.abort()
      assert.equal((await late).code, status.CANCELLED)
      answer()
      rig.ingest.answer = ({ client: batch }) => batch.accepted(acceptedBatch(1))
      assert.equal((await exportOnce(client, MESSAGE)).code, status.OK)
    })
  })

  describe('closing', () => {
    it('answers what is in flight, and accepts nothing new', async () => {
      const client = rig.client()
      const submitted = Promise.withResolvers<() => void>()
      rig.ingest.answer = ({ client: batch }) => submitted.resolve(() => batch.accepted(acceptedBatch(1)))
      const inFlight = exportOnce(client, MESSAGE)
      const answer = await submitted.promise
      const closed = rig.front.close({ withinMs: 60_000 })
      answer()
      assert.equal((await inFlight).code, status.OK)
      await closed
      const later = new Client(`127.0.0.1:${rig.front.port}`, credentials.createInsecure())
      assert.equal((await exportOnce(later, MESSAGE)).code, status.UNAVAILABLE)
      later.close()
    })

    it('ends what does not finish in time', async () => {
      const submitted = Promise.withResolvers<void>()
      rig.ingest.answer = () => submitted.resolve()
      const inFlight = exportOnce(rig.client(), MESSAGE)
      await submitted.promise
      const closed = rig.front.close({ withinMs: 5000 })
      rig.clock.advanceMs(5000)
      await closed
      assert.notEqual((await inFlight).code, status.OK)
    })
  })

  describe('listening', () => {
    it('on port 0 picks a free port and reports it', () => {
      assert(rig.front.port > 0)
    })

    it('on a taken port names the setting', async () => {
      const taken = createServer()
      await new Promise<void>((resolve) => {
        taken.listen(0, '127.0.0.1', resolve)
      })
      const { port } = taken.address() as AddressInfo // of a TCP server
      await assert.rejects(
        GrpcFront.listen({ host: '127.0.0.1', port, setting: 'LOGSTORE_OTLP_GRPC_BIND_ADDRESS' }, rig.parts),
        {
          name: 'StoreError',
          code: 'grpc_bind_failed',
          message: `LOGSTORE_OTLP_GRPC_BIND_ADDRESS: cannot listen on 127.0.0.1:${port}, the port is taken`,
        },
      )
      taken.close()
    })
  })
})

/** A call on HTTP/2 itself, for what no gRPC library sends. */
function openRaw(headers: Record<string, string> = {}): { session: ClientHttp2Session; request: ClientHttp2Stream } {
  const session = connect(`http://127.0.0.1:${rig.front.port}`, { peerMaxConcurrentStreams: 1000 })
  session.on('error', () => {})
  return { session, request: openOn(session, headers) }
}

function openOn(session: ClientHttp2Session, headers: Record<string, string> = {}): ClientHttp2Stream {
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

/** A message as it stands in the stream: a flag, its length in 4 bytes, big-endian, its bytes. */
function frameOf(message: Buffer, flag = 0): Buffer {
  const head = Buffer.alloc(5)
  head[0] = flag
  head.writeUInt32BE(message.byteLength, 1)
  return Buffer.concat([head, message])
}

/** Lets everything else run until `isSo` holds. */
async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await nextTurn()
}
