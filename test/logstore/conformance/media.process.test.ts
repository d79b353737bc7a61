/** Contract "Log store": media types, content encodings and the size of bodies. */
import assert from 'node:assert/strict'
import { deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { describe, it } from 'node:test'
import { requestHead } from '../../support/logstore.ts'
import type { Reply, RequestOptions } from '../../support/logstore.ts'
import {
  INGEST_ROUTES,
  JSON_LOGS,
  LOGS,
  PROTOBUF_TYPE,
  QUERY,
  TRACES,
  assertRefused,
  startForTests,
} from './batches.ts'
import { snappyBlock, snappyStream } from '../../support/snappy.ts'
import type { IngestRoute } from './batches.ts'

const BODY_BYTES_MAX = 256 * 1024
/** Processor time of all threads of the service. Unpacking a whole bomb takes a tenth of a second, so only a loop that goes wrong takes this long. */
const BOMB_CPU_MS_MAX = 5000

const server = await startForTests({ env: { LOGSTORE_MAX_BODY_BYTES: String(BODY_BYTES_MAX) } })

const JSON_ERRORS = { accept: 'application/json' }

const send = (route: IngestRoute, body: Buffer, headers: RequestOptions['headers'] = {}): Promise<Reply> =>
  server.request(route.path, body, { headers: { ...JSON_ERRORS, 'content-type': route.contentType, ...headers } })

describe('a content type', () => {
  for (const route of INGEST_ROUTES) {
    const { path, contentType } = route
    for (const type of [
      `${contentType}; charset=utf-8`,
      `${contentType};v=1;b="x;y"`,
      contentType.toUpperCase(),
      ` ${contentType} `,
    ])
      it(`'${type}' is taken by ${path}`, async () => {
        assert.equal((await send(route, route.batch(1), { 'content-type': type })).status, 200)
      })

    for (const type of [
      null,
      '',
      'text/plain',
      'application/protobuf',
      'application/json+x',
      'application',
      `x${contentType}`,
    ])
      it(`${type === null ? 'that is missing' : `'${type}'`} is unsupported_content_type on ${path}`, async () => {
        assertRefused(await send(route, route.batch(1), { 'content-type': type }), 415, 'unsupported_content_type')
      })
  }

  it('application/json on the protobuf routes is refused with the name of the JSON routes', async () => {
    for (const path of [LOGS, TRACES]) {
      const reply = await server.request(path, '{"resourceLogs":[]}', { headers: JSON_ERRORS })
      assertRefused(reply, 415, 'unsupported_content_type')
      assert.match(reply.rejection().error.message, new RegExp(path.replace('/v1', '/v1/otlp')))
    }
  })
  it('application/x-protobuf on the JSON routes is refused with the name of the protobuf routes', async () => {
    const reply = await server.request(JSON_LOGS, Buffer.of(10, 0), { headers: { 'content-type': PROTOBUF_TYPE } })
    assertRefused(reply, 415, 'unsupported_content_type')
    assert.match(reply.rejection().error.message, /\/v1\/logs/)
  })
  it('is needed for a query', async () => {
    const query = '{"dataset":"checkout"}'
    for (const type of [null, 'text/plain', PROTOBUF_TYPE])
      assertRefused(
        await server.request(QUERY, query, { headers: { 'content-type': type } }),
        415,
        'unsupported_content_type',
      )
    const reply = await server.request(QUERY, query, { headers: { 'content-type': 'Application/JSON; charset=UTF-8' } })
    assert.equal(reply.status, 200)
  })
  it('is needed even where the body is empty', async () => {
    const reply = await server.request(JSON_LOGS, '', { headers: { 'content-type': null } })
    assertRefused(reply, 415, 'unsupported_content_type')
  })
})

type Encoding = readonly [name: string, encode: (bytes: Buffer) => Buffer]
const ENCODINGS: readonly [Encoding, Encoding, Encoding, ...Encoding[]] = [
  ['gzip', gzipSync],
  ['deflate', deflateSync],
  ['zstd', zstdCompressSync],
  ['snappy', snappyBlock],
  ['snappy', snappyStream],
  ['x-snappy-framed', snappyStream],
]

describe('a content encoding', () => {
  for (const route of INGEST_ROUTES) {
    it(`identity, gzip, deflate, zstd and snappy is taken by ${route.path}`, async () => {
      assert.equal((await send(route, route.batch(2), { 'content-encoding': 'identity' })).status, 200)
      for (const [name, encode] of ENCODINGS) {
        const reply = await send(route, encode(route.batch(2)), { 'content-encoding': name })
        assert.equal(reply.status, 200, `${name}: ${reply.text}`)
      }
    })
  }
  const [json] = INGEST_ROUTES
  assert(json)
  it('is matched in any case', async () => {
    assert.equal((await send(json, gzipSync(json.batch(1)), { 'content-encoding': 'GZip' })).status, 200)
  })
  it('deflate is taken without its zlib header too, as some clients send it', async () => {
    assert.equal((await send(json, deflateRawSync(json.batch(1)), { 'content-encoding': 'deflate' })).status, 200)
  })
  it('other than these is unsupported_content_encoding', async () => {
    for (const name of ['br', 'compress', 'x', 'gzip, gzip', 'gzip;q=1'])
      assertRefused(await send(json, json.batch(1), { 'content-encoding': name }), 415, 'unsupported_content_encoding')
  })
  it('whose body is damaged is malformed_batch', async () => {
    for (const [name, encode] of ENCODINGS) {
      const whole = encode(json.batch(100))
      const flipped = Buffer.from(whole)
      flipped[whole.byteLength >> 1]! ^= 0x10
      const damaged: Record<string, Buffer> = {
        'not compressed at all': json.batch(1),
        'cut in the middle': whole.subarray(0, whole.byteLength >> 1),
        'cut before its last byte': whole.subarray(0, -1),
        'a few bytes': whole.subarray(0, 3),
        // A block of Snappy has no checksum: with a flipped bit it may decode to another text.
        ...(encode !== snappyBlock && { 'with a flipped bit': flipped }),
      }
      for (const [what, bytes] of Object.entries(damaged)) {
        const reply = await send(json, bytes, { 'content-encoding': name })
        assert.deepEqual([reply.status, reply.kind], [400, 'malformed_batch'], `${name} ${what}: ${reply.text}`)
      }
    }
  })
  it('with anything behind the compressed body is malformed_batch', async () => {
    const encodings = [...ENCODINGS, ['deflate', deflateRawSync] as const]
    for (const [name, encode] of encodings) {
      for (const rest of ['garbage!', 'g', '\0', '\0garbage!']) {
        const body = Buffer.concat([encode(json.batch(3)), Buffer.from(rest)])
        assertRefused(await send(json, body, { 'content-encoding': name }), 400, 'malformed_batch')
      }
    }
  })
  it('of nothing is empty_batch, sent as zero bytes or as a compressed nothing', async () => {
    for (const [name, encode] of ENCODINGS) {
      assertRefused(await send(json, Buffer.alloc(0), { 'content-encoding': name }), 400, 'empty_batch')
      assertRefused(await send(json, encode(Buffer.alloc(0)), { 'content-encoding': name }), 400, 'empty_batch')
    }
  })
  it('of more than one member or frame is the whole of them', async () => {
    const batch = json.batch(3)
    for (const [name, encode] of [ENCODINGS[0], ENCODINGS[2]]) {
      const split = Buffer.concat([encode(batch.subarray(0, 100)), encode(batch.subarray(100))])
      const reply = await send(json, split, { 'content-encoding': name })
      assert.equal(reply.status, 200, `${name}: ${reply.text}`)
    }
  })
})

describe('a content encoding of a query', () => {
  const query = Buffer.from('{"dataset":"checkout"}')
  const ask = (body: Buffer | string, headers: Record<string, string>): Promise<Reply> =>
    server.request(QUERY, body, { headers })
  it('other than identity is unsupported_content_encoding, whatever the body is', async () => {
    for (const [name, encode] of [...ENCODINGS, ['br', (bytes: Buffer) => bytes] as const]) {
      for (const body of [query, encode(query)])
        assertRefused(await ask(body, { 'content-encoding': name }), 415, 'unsupported_content_encoding')
    }
    assert.equal((await ask(query, { 'content-encoding': 'Identity' })).status, 200)
  })
  it('is refused after the content type and before the size', async () => {
    const gzip = { 'content-encoding': 'gzip' }
    assertRefused(await ask(query, { ...gzip, 'content-type': 'text/plain' }), 415, 'unsupported_content_type')
    assertRefused(await ask('x'.repeat(100_000), gzip), 415, 'unsupported_content_encoding')
  })
})

describe('a body', () => {
  const [json, , protobuf] = INGEST_ROUTES
  assert(json && protobuf)
  /** A batch padded with white space to this many bytes. */
  const padded = (bytes: number): Buffer => {
    const batch = json.batch(1)
    return Buffer.concat([batch, Buffer.alloc(bytes - batch.byteLength, ' ')])
  }

  it('of the limit is taken, however it is encoded', async () => {
    const body = padded(BODY_BYTES_MAX)
    assert.equal((await send(json, body)).status, 200)
    for (const [name, encode] of ENCODINGS)
      assert.equal((await send(json, encode(body), { 'content-encoding': name })).status, 200, name)
  })
  it('over the limit is payload_too_large, however it is encoded', async () => {
    const body = padded(BODY_BYTES_MAX + 1)
    assertRefused(await send(json, body), 413, 'payload_too_large')
    for (const [name, encode] of ENCODINGS)
      assertRefused(await send(json, encode(body), { 'content-encoding': name }), 413, 'payload_too_large')
  })
  it('that is a bomb is refused where it passes the limit, and does not take its size in time or memory', async () => {
    for (const [name, encode] of ENCODINGS) {
      // Snappy cannot make it shorter than a twenty-first.
      const bomb = encode(Buffer.alloc(name.includes('snappy') ? 16 * BODY_BYTES_MAX : 64 * 1024 * 1024))
      assert(bomb.byteLength <= BODY_BYTES_MAX, `${name}: ${bomb.byteLength}`)
      const before = server.cpuMs
      assertRefused(await send(protobuf, bomb, { 'content-encoding': name }), 413, 'payload_too_large')
      const cpuMs = server.cpuMs - before
      assert(cpuMs < BOMB_CPU_MS_MAX, `${name} took ${cpuMs} ms of CPU`)
    }
  })
  it('of many small frames is bounded like one', async () => {
    const [, , [name, encode]] = ENCODINGS
    const frame = encode(Buffer.alloc(64 * 1024))
    const bomb = Buffer.concat(Array.from({ length: 5 }, () => frame))
    assertRefused(await send(protobuf, bomb, { 'content-encoding': name }), 413, 'payload_too_large')
    const frames = Buffer.concat(Array.from({ length: 2000 }, () => encode(Buffer.alloc(0))))
    assertRefused(await send(protobuf, frames, { 'content-encoding': name }), 400, 'malformed_batch')
  })
  it('without a declared length is bounded as it arrives', async () => {
    for (const [bytes, status] of [
      [BODY_BYTES_MAX, 200],
      [BODY_BYTES_MAX + 1, 413],
    ] as const) {
      const connection = await server.connect()
      const body = padded(bytes)
      const head = requestHead(JSON_LOGS, 0).replace('content-length: 0', 'transfer-encoding: chunked')
      connection.write(head)
      for (let at = 0; at < bytes; at += 50_000) {
        const piece = body.subarray(at, at + 50_000)
        connection.write(
          Buffer.concat([Buffer.from(`${piece.byteLength.toString(16)}\r\n`), piece, Buffer.from('\r\n')]),
        )
      }
      connection.write('0\r\n\r\n')
      const reply = await connection.reply()
      assert.equal(reply.status, status, reply.text)
      if (status === 413) assert.equal(reply.kind, 'payload_too_large')
      connection.close()
    }
  })
  it('of a query is bounded too', async () => {
    const query = JSON.stringify({ dataset: 'checkout', filter: { record_id: 'x'.repeat(65_536) } })
    assertRefused(await server.request(QUERY, query), 413, 'payload_too_large')
  })
})
