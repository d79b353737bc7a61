import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { ExtentList } from '../../../src/objectstore/engine/extent-list.ts'
import {
  commitFrameBytes,
  decodeChange,
  decodeCommit,
  decodeDeleted,
  decodeDetails,
  decodeExtentOwner,
  deletedFrameBytes,
  encodeChange,
  encodeCommit,
  encodeDeleted,
  encodeDetails,
  encodeExtentHead,
  encodeNewDetails,
  extentContent,
} from '../../../src/objectstore/engine/frames.ts'
import type { CommitFrame } from '../../../src/objectstore/engine/frames.ts'
import { testSeed } from '../../support/seed.ts'
import { PLAIN } from '../../support/object-attributes.ts'

const record = <T extends object>(fields: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<T> =>
  fc.record<T, keyof T>(fields, { noNullPrototype: true, requiredKeys: Object.keys(fields) as (keyof T)[] }) // the keys of T
const u48 = fc.oneof(
  fc.nat(),
  fc.constant(2 ** 48 - 1),
  fc.maxSafeNat().map((n) => n % 2 ** 48),
)
const u32 = fc.oneof(fc.nat(), fc.constant(2 ** 32 - 1))
const u16 = fc.nat(65_535)
const bytes = (max: number): fc.Arbitrary<Buffer> =>
  fc.uint8Array({ maxLength: max }).map((array) => Buffer.from(array))
const hex = fc.uint8Array({ minLength: 16, maxLength: 16 }).map((array) => Buffer.from(array).toString('hex'))
const uploadId = fc.option(hex.filter((id) => /[^0]/.test(id)))
const key = fc.oneof(bytes(40), fc.constant(Buffer.alloc(1024, 'k')))
const extents = fc
  .array(record({ position: u48, bytes: u32 }), { minLength: 1, maxLength: 5 })
  .map((all) => ExtentList.of(all))
const content = fc.oneof(record({ inline: bytes(50) }), record({ extents }))

const commit: fc.Arbitrary<CommitFrame> = record({
  bucket: u32,
  key,
  partNumber: u16,
  size: u48,
  lastModifiedMs: u48,
  commitSequence: u48,
  flags: u16,
  etag: hex,
  uploadId,
  details: bytes(60),
  content,
})

/** Encodes into the middle of a buffer, to find writes outside of its place. */
function encoded(length: number, encode: (into: Buffer, at: number) => void): Buffer {
  const around = Buffer.alloc(length + 16, 0xa5)
  encode(around, 8)
  assert.ok(around.subarray(0, 8).every((byte) => byte === 0xa5))
  assert.ok(around.subarray(8 + length).every((byte) => byte === 0xa5))
  return around.subarray(8, 8 + length)
}

describe('frames of the object store', () => {
  it('read back as they were written: objects and parts', () => {
    const law = fc.property(commit, (frame) => {
      const payload = encoded(commitFrameBytes(frame), (into, at) => encodeCommit(frame, into, at))
      assert.deepEqual(decodeCommit(payload), frame)
    })
    fc.assert(law, { seed: testSeed() })
  })

  it('read back as they were written: extents, and the bytes behind their head', () => {
    const owner = record({ bucket: u32, key, uploadId, partNumber: u16 })
    const law = fc.property(owner, bytes(50), (whose, body) => {
      const payload = Buffer.concat([encodeExtentHead(whose), body])
      assert.deepEqual(decodeExtentOwner(payload), whose)
      assert.ok(extentContent(payload).equals(body))
    })
    fc.assert(law, { seed: testSeed() })
  })

  it('read back as they were written: deletions', () => {
    const deleted = record({ bucket: u32, key, atMs: u48, commitSequence: u48 })
    const law = fc.property(deleted, (frame) => {
      const payload = encoded(deletedFrameBytes(frame.key), (into, at) => encodeDeleted(frame, into, at))
      assert.deepEqual(decodeDeleted(payload), frame)
    })
    fc.assert(law, { seed: testSeed() })
  })

  it('read back as they were written: changes, and details of objects, in any language', () => {
    const change = { kind: 'bucket_created', number: 7, name: 'fotos', owner: 'Ærøskøbing 漢字 🗂', at_ms: 5 } as const
    assert.deepEqual(decodeChange(encodeChange(change)), change)
    const details = {
      ...PLAIN,
      metadata: { title: 'Ærøskøbing 漢字 🗂' },
      tags: [{ key: 'ключ', value: '' }],
      checksums: [{ algorithm: 'CRC32', value: 'AAAAAA==', type: 'FULL_OBJECT' }],
      parts: [{ partNumber: 1, size: 5, checksum: null }],
    } as const
    assert.deepEqual(decodeDetails(encodeDetails(details)), details)
  })

  it('have the same details whether an object is new or written again, and whether its attributes are kept or not', () => {
    const parts = fc.option(fc.array(record({ partNumber: u16, size: u48, checksum: fc.option(fc.base64String()) })))
    const law = fc.property(
      fc.record(
        { contentType: fc.string(), metadata: fc.dictionary(fc.string(), fc.string()) },
        { noNullPrototype: true },
      ),
      fc.constantFrom('STANDARD', 'GLACIER_IR'),
      fc.array(fc.base64String().map((value) => ({ algorithm: 'SHA1', value, type: 'COMPOSITE' }) as const)),
      parts,
      (said, storageClass, checksums, parts) => {
        const attributes = { ...PLAIN, ...said, storageClass } as const
        const again = encodeDetails({ ...attributes, checksums, parts })
        assert.deepEqual(encodeNewDetails({ attributes, checksums, parts }), again)
        const kept = Object.freeze({ ...attributes })
        for (let i = 0; i < 2; i++) assert.deepEqual(encodeNewDetails({ attributes: kept, checksums, parts }), again)
      },
    )
    fc.assert(law, { seed: testSeed() })
  })

  it('refuse a number that does not fit its field', () => {
    const frame: CommitFrame = {
      bucket: 1,
      key: Buffer.from('k'),
      partNumber: 0,
      size: 2 ** 48,
      lastModifiedMs: 0,
      commitSequence: 0,
      flags: 0,
      etag: '0'.repeat(32),
      uploadId: null,
      details: Buffer.alloc(0),
      content: { inline: Buffer.alloc(0) },
    }
    assert.throws(() => encodeCommit(frame, Buffer.alloc(200), 0), RangeError)
  })
})
