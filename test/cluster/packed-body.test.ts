import assert from 'node:assert/strict'
import { test } from 'node:test'
import { zstdCompressSync } from 'node:zlib'
import { headersOf, readMessage } from '../../src/cluster/headers.ts'
import { BodyPacker, PACKED_HEADER, unpacked } from '../../src/cluster/packed-body.ts'
import { payloadOf } from '../support/log-harness.ts'
import { message } from '../support/cluster-messages.ts'

const LARGE_BYTES = 100 << 10
const REPEATED = Buffer.alloc(LARGE_BYTES, 'what a log says again and again, ')

test('a large body is packed, and comes out the same', () => {
  const { header, body } = new BodyPacker().pack(REPEATED)!
  assert.equal(header, `zstd/${LARGE_BYTES}`)
  assert.ok(body.byteLength < LARGE_BYTES / 10)
  assert.deepEqual(Buffer.from(unpacked(header, body)), REPEATED)
})

test('a small body stays as it is, and one without the header is read as it is', () => {
  assert.equal(new BodyPacker().pack(REPEATED.subarray(0, 1000)), null)
  assert.equal(unpacked('', REPEATED), REPEATED)
})

test('after a body that does not become smaller some stay as they are', () => {
  const packer = new BodyPacker()
  assert.equal(packer.pack(payloadOf(1, LARGE_BYTES)), null)
  for (let i = 0; i < 15; i += 1) assert.equal(packer.pack(REPEATED), null)
  assert.ok(packer.pack(REPEATED))
  assert.ok(packer.pack(REPEATED))
})

test('what cannot be unpacked, or says that it is larger than a message, is a message without frames', () => {
  const { header, body } = new BodyPacker().pack(REPEATED)!
  const torn = body.subarray(0, body.byteLength / 2)
  const cases: readonly (readonly [string, Uint8Array])[] = [
    [header, torn],
    [`zstd/${LARGE_BYTES - 1}`, body],
    ['brotli/100', body],
    [`zstd/${2 ** 40}`, zstdCompressSync(Buffer.alloc(4 << 20))],
  ]
  const sent = message(1, 'a/1', 1, { kind: 'frames', body: '' })
  for (const [packed, bytes] of cases) {
    const headers = new Map([...headersOf(sent), [PACKED_HEADER, packed]])
    const read = readMessage({ get: (name) => headers.get(name) ?? '' }, bytes)
    assert.deepEqual([read.kind, read.ordinal, read.body?.byteLength], ['frames', 1, 0])
  }
})
