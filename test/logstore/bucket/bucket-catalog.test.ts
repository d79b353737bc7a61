import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { encodeCheckedJson } from '../../../src/log/checked-json.ts'
import { nodeFiles } from '../../../src/log/node-files.ts'
import { writeQuarantine } from '../../../src/log/quarantine.ts'
import { segmentName } from '../../../src/log/segment-format.ts'
import { BucketCatalog } from '../../../src/logstore/bucket/bucket-catalog.ts'
import { ObjectReadError } from '../../../src/logstore/bucket/object-client.ts'
import type { ListedObject, ObjectClient } from '../../../src/logstore/bucket/object-client.ts'
import { LOG_ID, TestStore } from '../../support/stored-segments.ts'
import { fillBundles } from './bundles.ts'

const NEVER = new AbortController().signal

/** A bucket in memory, whose objects have a new ETag with each change. */
class MemoryBucket implements ObjectClient {
  readonly counts = { requests: 0, bytes: 0, failures: 0 }
  readonly objects = new Map<string, { bytes: Buffer; etag: string }>()
  /** Keys whose reads fail. */
  readonly failing = new Map<string, ObjectReadError>()
  #changes = 0

  put(key: string, bytes: Buffer): void {
    this.objects.set(key, { bytes, etag: `"${this.#changes++}"` })
  }

  copy(store: TestStore, prefix = ''): void {
    for (const segment of readdirSync(store.directory)) {
      for (const name of readdirSync(`${store.directory}/${segment}`)) {
        this.put(`${prefix}${segment}/${name}`, readFileSync(`${store.directory}/${segment}/${name}`))
      }
    }
  }

  async list(prefix: string): Promise<readonly ListedObject[]> {
    return [...this.objects]
      .filter(([key]) => key.startsWith(prefix))
      .map(([key, { bytes, etag }]) => ({ key, bytes: bytes.byteLength, etag }))
  }

  async read({ key, etag }: ListedObject, from: number, to: number): Promise<Uint8Array> {
    this.counts.requests += 1
    const object = this.objects.get(key)
    const failure = this.failing.get(key)
    if (failure !== undefined) throw failure
    if (object?.etag !== etag) throw new ObjectReadError('stale', 'the object was replaced')
    return object.bytes.subarray(from, to)
  }

  close(): void {}
}

interface Checked {
  readonly content: { readonly about: Record<string, unknown> }
}

describe('the catalog of a bucket', () => {
  let store: TestStore
  let bucket: MemoryBucket
  let catalog: BucketCatalog
  beforeEach(() => {
    store = new TestStore()
    fillBundles(store, 3)
    bucket = new MemoryBucket()
    bucket.copy(store)
    catalog = new BucketCatalog(bucket, '')
  })
  afterEach(() => store.close())
  const rows = () => store.segments.map(({ row }) => row!)
  const manifestOf = (segment: number): string => `${readdirSync(store.directory).toSorted()[segment]!}/manifest.json`
  const changeAbout = (key: string, change: (about: Record<string, unknown>) => void): void => {
    const { content } = JSON.parse(bucket.objects.get(key)!.bytes.toString()) as Checked // as checked-json.ts writes it
    change(content.about)
    bucket.put(key, encodeCheckedJson(content))
  }

  it('is what the manifests say, and reads each of them once', async () => {
    const { bundles, logId, damaged } = await catalog.refresh(NEVER)
    const described = rows().map(({ base, end, minTime, maxTime, receivedUntil, records, identity }) => {
      return { base, end, minTime, maxTime, receivedUntil, records, identity }
    })
    assert.deepEqual(bundles, described)
    assert.deepEqual([logId, damaged, bucket.counts.requests], [LOG_ID, [], 3])
    assert.deepEqual(await catalog.refresh(NEVER), { bundles, logId, damaged })
    assert.equal(bucket.counts.requests, 3)
    const first = catalog.objectsOf(0)!
    assert.deepEqual(
      [first.index!.key, first.records!.key],
      ['0000000000000000/index.bin', '0000000000000000/records.log'],
    )
    assert(first.indexHeadBytes! < first.index!.bytes)
    assert.equal(catalog.objectsOf(8), null)
  })

  it('knows bundles whose manifest is of an older version by the header of their records', async () => {
    for (const segment of [0, 1, 2]) {
      changeAbout(manifestOf(segment), (about) => {
        delete about['log_id']
        delete about['index_head_bytes']
      })
    }
    const { bundles, logId } = await catalog.refresh(NEVER)
    assert.deepEqual([bundles.length, logId, catalog.objectsOf(0)!.indexHeadBytes], [3, LOG_ID, null])
  })

  it('leaves out what is damaged, of another version, replaced since it was listed, or not whole', async () => {
    bucket.put(manifestOf(0), Buffer.from('{"crc32":"00000000","content":{}}\n'))
    changeAbout(manifestOf(1), (about) => (about['index_version'] = 99))
    bucket.failing.set(manifestOf(2), new ObjectReadError('stale', 'the object was replaced'))
    assert.deepEqual((await catalog.refresh(NEVER)).bundles, [])
    bucket.failing.clear()
    bucket.put(manifestOf(2).replace('manifest.json', 'index.bin'), Buffer.alloc(16))
    assert.deepEqual((await catalog.refresh(NEVER)).bundles, [])
  })

  it('stays as it was when a read fails, and goes on from what it has read', async () => {
    bucket.failing.set(manifestOf(2), new ObjectReadError('failed', '500 InternalError'))
    await assert.rejects(catalog.refresh(NEVER), /500 InternalError/)
    assert.equal(catalog.objectsOf(0), null)
    bucket.failing.clear()
    assert.equal((await catalog.refresh(NEVER)).bundles.length, 3)
    assert.equal(bucket.counts.requests, 3 + 1)
  })

  it('is refused for bundles of several logs, as their positions say nothing of each other', async () => {
    changeAbout(manifestOf(1), (about) => (about['log_id'] = LOG_ID + 1))
    await assert.rejects(catalog.refresh(NEVER), /of several logs/)
  })

  it('knows the damage that was written down, and forgets a bundle that is gone', async () => {
    const { base } = store.segments[1]!
    const [from, to] = [base + 64, base + 128]
    writeQuarantine(nodeFiles, store.directoryOf(base), [{ from, to, reason: 'payload checksum' }])
    bucket.copy(store)
    assert.deepEqual((await catalog.refresh(NEVER)).damaged, [{ from, to }])
    for (const key of bucket.objects.keys()) if (key.startsWith(segmentName(base))) bucket.objects.delete(key)
    const { bundles, damaged } = await catalog.refresh(NEVER)
    assert.deepEqual([bundles.length, damaged, catalog.objectsOf(base)], [2, [], null])
  })

  it('takes a compacted bundle for what it stands in for, when it is whole, whatever is left of the other form', async () => {
    bucket.copy(store)
    const plain = await catalog.refresh(NEVER)
    const copied = store.segments[0]!.base
    store.compact()
    const path = `${store.directoryOf(copied)}/compact.bin`
    const compact = readFileSync(path)
    const key = `${segmentName(copied)}/compact.bin`
    const rowOf = async () => (await catalog.refresh(NEVER)).bundles.find(({ base }) => base === copied)
    bucket.put(key, compact.subarray(0, 200)) // on its way
    assert.deepEqual(await rowOf(), plain.bundles[0])
    bucket.objects.delete(`${segmentName(copied)}/records.log`) // no form is whole: the bundle is not forgotten
    assert.deepEqual(await rowOf(), plain.bundles[0])
    assert.equal(catalog.objectsOf(copied)!.records, null)
    bucket.put(key, compact)
    assert.deepEqual(await rowOf(), store.segments[0]!.row)
    const { compact: object, index, indexHeadBytes } = catalog.objectsOf(copied)!
    assert.deepEqual([object!.key, index], [key, null])
    assert(indexHeadBytes! < object!.bytes)
  })

  it('is of one prefix only', async () => {
    bucket.copy(store, 'logs/acme/')
    const other = new BucketCatalog(bucket, 'logs/acme/')
    assert.equal((await other.refresh(NEVER)).bundles.length, 3)
    assert.equal(other.objectsOf(0)!.index!.key, 'logs/acme/0000000000000000/index.bin')
    assert.equal((await catalog.refresh(NEVER)).bundles.length, 3)
  })
})
