/** Listings of buckets and of uploads look only at what they list. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ExtentList } from '../../../src/objectstore/engine/extent-list.ts'
import { StoreState } from '../../../src/objectstore/engine/state.ts'
import type { UploadState } from '../../../src/objectstore/engine/state.ts'
import { UploadView } from '../../../src/objectstore/engine/upload-view.ts'
import type { Bucket } from '../../../src/objectstore/operations.ts'
import { PLAIN } from '../../support/object-attributes.ts'

const bucketNamed = (number: number, name: string, owner = 'ann'): Bucket => ({
  number,
  name,
  owner,
  createdMs: 1,
  cors: null,
  policy: null,
})

const names = (buckets: Iterable<Bucket>): string[] => Array.from(buckets, ({ name }) => name)

describe('the buckets of an owner', () => {
  it('are listed by name, from anywhere on, as they are now', () => {
    const state = new StoreState()
    for (const [i, name] of ['m', 'a', 'z', 'k'].entries()) state.addBucket(bucketNamed(i + 1, name))
    state.addBucket(bucketNamed(9, 'b', 'bob'))
    const set = { kind: 'bucket_document', number: 1, document: 'cors', content: 'eA==', at_ms: 2 } as const
    state.applyChange(set, 0)
    assert.deepEqual(names(state.bucketsOf('ann', '')), ['a', 'k', 'm', 'z'])
    assert.equal(String([...state.bucketsOf('ann', 'm')][0]!.cors), 'x')
    assert.deepEqual(names(state.bucketsOf('ann', 'l')), ['m', 'z'])
    state.applyChange({ kind: 'bucket_deleted', number: 1, at_ms: 3 }, 0)
    assert.deepEqual(names(state.bucketsOf('ann', 'l')), ['z'])
    assert.deepEqual(names(state.bucketsOf('bob', '')), ['b'])
    assert.deepEqual(names(state.bucketsOf('bc', '')), [])
  })

  it('are not all looked at for the first of them', () => {
    const state = new StoreState()
    let looks = 0
    for (let i = 0; i < 5000; i++) {
      const bucket = bucketNamed(i + 1, String(10_000 + i))
      Object.defineProperty(bucket, 'owner', { get: () => (looks++, 'ann') })
      state.addBucket(bucket)
    }
    looks = 0
    assert.equal(state.bucketsOf('ann', '12345').next().value?.name, '12345')
    assert.ok(looks < 100, `${looks} looks`)
  })
})

describe('the uploads of a bucket', () => {
  const checksum = { algorithm: 'CRC64NVME', type: 'FULL_OBJECT', isChosen: false } as const
  const uploadOf = (uploadId: string, bucketNumber: number, key: string, initiatedMs: number): UploadState => ({
    uploadId,
    bucketNumber,
    key: Buffer.from(key),
    initiator: 'ann',
    initiatedMs,
    attributes: PLAIN,
    checksum,
    parts: new Map(),
  })
  const ids = (uploads: Iterable<UploadState>): string[] => Array.from(uploads, ({ uploadId }) => uploadId)

  it('are listed by key and by when they began, from a key or behind an upload on', () => {
    const { uploads } = new StoreState()
    for (const upload of [
      uploadOf('5', 2, 'b', 1),
      uploadOf('3', 1, 'b', 7),
      uploadOf('9', 1, 'b', 5),
      uploadOf('4', 1, 'c', 1),
      uploadOf('2', 1, 'b', 7),
      uploadOf('1', 1, 'a', 9),
    ]) {
      uploads.set(upload.uploadId, upload)
    }
    const from = (key: string, behind: string | null = null): string[] => ids(uploads.from(1, Buffer.from(key), behind))
    assert.deepEqual(from(''), ['1', '9', '2', '3', '4'])
    assert.deepEqual(from('b'), ['9', '2', '3', '4'])
    assert.deepEqual(from('b', '2'), ['3', '4'])
    assert.deepEqual(from('b', 'gone'), ['9', '2', '3', '4'])
    assert.deepEqual(from('b', '5'), ['9', '2', '3', '4'], 'it is of another bucket')
    uploads.delete('2')
    assert.deepEqual(from('b', '9'), ['3', '4'])
    assert.deepEqual(ids(uploads.values()), ['5', '3', '9', '4', '1'], 'as they came')
  })

  it('go with their bucket', () => {
    const state = new StoreState()
    for (const number of [1, 2, 3]) {
      state.addBucket(bucketNamed(number, `bkt${number}`))
      for (let i = 0; i < 3; i++) state.uploads.set(`${number}.${i}`, uploadOf(`${number}.${i}`, number, `k${i}`, 1))
    }
    state.applyChange({ kind: 'bucket_deleted', number: 2, at_ms: 3 }, 0)
    assert.deepEqual([...state.uploads.keys()], ['1.0', '1.1', '1.2', '3.0', '3.1', '3.2'])
  })

  it('sort their parts when somebody looks at them, once', (t) => {
    const upload = uploadOf('u', 1, 'k', 1)
    const value = { value: 'x', bytes: 1 }
    for (const partNumber of [3, 1, 2]) {
      const part = { partNumber, size: 1, etag: 'e', lastModifiedMs: 1, checksum: value, extents: ExtentList.EMPTY }
      upload.parts.set(partNumber, part)
    }
    const looked = t.mock.method(upload.parts, 'values')
    const view = new UploadView(bucketNamed(1, 'bkt'), upload)
    assert.deepEqual([view.uploadId, view.key, view.initiator], ['u', 'k', 'ann'])
    assert.equal(looked.mock.callCount(), 0)
    assert.deepEqual(
      [...view.parts, ...view.parts].map(({ partNumber }) => partNumber),
      [1, 2, 3, 1, 2, 3],
    )
    assert.equal(looked.mock.callCount(), 1)
  })
})
