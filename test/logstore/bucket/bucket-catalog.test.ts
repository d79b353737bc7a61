import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { encodeCheckedJson } from '../../../src/log/checked-json.ts'
import { nodeFiles } from '../../../src/log/node-files.ts'
import { writeQuarantine } from '../../../src/log/quarantine.ts'
import { MOVED_BYTES, mergedName } from '../../../src/log/merged.ts'
import { SEGMENT_FOOTER_BYTES, segmentName } from '../../../src/log/segment-format.ts'
import { BucketCatalog } from '../../../src/logstore/bucket/bucket-catalog.ts'
import { ObjectReadError } from '../../../src/logstore/bucket/object-client.ts'
import type { ListedObject, ObjectClient } from '../../../src/logstore/bucket/object-client.ts'
import { seedOf } from '../../support/seed.ts'
import { mulberry32 } from '../../support/sim-files.ts'
import { LOG_ID, TestStore } from '../../support/stored-segments.ts'
import { trimIn } from '../../support/trimmed-bundles.ts'
import { fillBundles } from './bundles.ts'

const NEVER = new AbortController().signal

/** A bucket in memory. Each change gives an object a new ETag. */
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

/** The files of a store, by key. */
function filesOf(store: TestStore): Map<string, Buffer> {
  const folders = readdirSync(store.directory)
  const keys = folders.flatMap((folder) =>
    readdirSync(`${store.directory}/${folder}`).map((name) => `${folder}/${name}`),
  )
  return new Map(keys.map((key) => [key, readFileSync(`${store.directory}/${key}`)]))
}

/** The changes that a copy of these files makes to the bucket, which may come in any order. */
function changesTo(bucket: MemoryBucket, files: ReadonlyMap<string, Buffer>, deletes: boolean): (() => void)[] {
  const changes: (() => void)[] = []
  for (const [key, bytes] of files)
    if (bucket.objects.get(key)?.bytes.equals(bytes) !== true) changes.push(() => bucket.put(key, bytes))
  for (const key of bucket.objects.keys())
    if (deletes && !files.has(key)) changes.push(() => bucket.objects.delete(key))
  return changes
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

  it('leaves out what is replaced since it was listed, or not whole', async () => {
    bucket.failing.set(manifestOf(2), new ObjectReadError('stale', 'the object was replaced'))
    assert.equal((await catalog.refresh(NEVER)).bundles.length, 2)
    bucket.failing.clear()
    bucket.put(manifestOf(2).replace('manifest.json', 'index.bin'), Buffer.alloc(16))
    assert.equal((await catalog.refresh(NEVER)).bundles.length, 2)
  })

  /** Checks that every segment is listed, and that this one counts with all times up to the next one and has nothing to read. */
  async function countsAsUnreadable(looked: BucketCatalog, segment: number): Promise<void> {
    const { bundles, logId } = await looked.refresh(NEVER)
    assert.deepEqual(
      bundles.map(({ base }) => base),
      store.segments.map(({ base }) => base),
    )
    const { end, minTime, maxTime, records } = bundles[segment]!
    const isLast = segment === 2
    assert.equal(isLast || end === store.segments[segment]!.end, true)
    assert.deepEqual(
      [end >= store.segments[segment]!.end, minTime, maxTime, records > 0],
      [true, 0n, 2n ** 64n - 1n, true],
    )
    assert.equal(logId, LOG_ID)
    const { compact, index, records: file } = looked.objectsOf(store.segments[segment]!.base)!
    assert.deepEqual([compact, index, file], [null, null, null])
  }

  it('counts a segment whose manifest or quarantine list is damaged, or of another version: nobody knows what it holds', async () => {
    const whole = bucket.objects.get(manifestOf(0))!.bytes
    const { version: _, ...rest } = (JSON.parse(whole.toString()) as { content: object & { version: number } }).content
    const bad: readonly [string, Buffer][] = [
      [manifestOf(0), Buffer.from('{"crc32":"00000000","content":{}}\n')],
      [manifestOf(0), Buffer.alloc(0)],
      [manifestOf(0), encodeCheckedJson({ ...rest, version: 99 })],
      [manifestOf(0).replace('manifest', 'quarantine'), Buffer.from('[]')],
    ]
    for (const [key, bytes] of bad) {
      bucket.put(key, bytes)
      await countsAsUnreadable(new BucketCatalog(bucket, ''), 0)
      await countsAsUnreadable(catalog, 0)
      if (key === manifestOf(0)) bucket.put(key, whole)
      else bucket.objects.delete(key)
      assert.deepEqual(
        (await catalog.refresh(NEVER)).bundles.map(({ records }) => records),
        rows().map(({ records }) => records),
      )
    }
    changeAbout(manifestOf(1), (about) => (about['index_version'] = 99))
    await countsAsUnreadable(new BucketCatalog(bucket, ''), 1)
  })

  it('counts a compacted bundle whose header is damaged, unless another form of it is whole, or a merged file is over it', async () => {
    const plain = new Map(bucket.objects)
    store.compact()
    bucket.objects.clear()
    bucket.copy(store)
    const compacted = new Map(bucket.objects)
    assert(store.merge(0, 2))
    for (const segment of [0, 1, 2]) {
      const { base } = store.segments[segment]!
      const key = `${segmentName(base)}/compact.bin`
      const whole = compacted.get(key)!.bytes
      const damages = [Buffer.from(whole).fill(1, 20, 24), Buffer.from(whole).fill(1, 70, 74), whole.subarray(0, 9)]
      for (const damaged of [...damages, Buffer.alloc(0), Buffer.alloc(MOVED_BYTES)]) {
        bucket.objects.clear()
        for (const [each, { bytes }] of compacted) bucket.put(each, bytes)
        bucket.put(key, damaged)
        catalog = new BucketCatalog(bucket, '')
        await countsAsUnreadable(catalog, segment)
        await countsAsUnreadable(catalog, segment) // the second time that it is listed
        bucket.put(key, whole)
        assert.deepEqual((await catalog.refresh(NEVER)).bundles, rows())
      }
      bucket.put(key, damages[0]!)
      for (const [each, { bytes }] of plain) if (each.startsWith(segmentName(base))) bucket.put(each, bytes)
      catalog = new BucketCatalog(bucket, '')
      assert.notEqual((await catalog.refresh(NEVER)).bundles[segment]!.isCompacted, true)
      // The segment's file in the bucket is damaged, but a merged file covers it.
      bucket.objects.clear()
      bucket.copy(store)
      if (segment === 2) continue
      bucket.put(key, Buffer.alloc(MOVED_BYTES))
      assert.deepEqual((await new BucketCatalog(bucket, '').refresh(NEVER)).bundles, store.bundles())
      bucket.put(key, damages[0]!)
      assert.deepEqual((await new BucketCatalog(bucket, '').refresh(NEVER)).bundles, store.bundles())
    }
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
    bucket.put(key, compact.subarray(0, 200)) // not copied as a whole yet
    assert.deepEqual(await rowOf(), plain.bundles[0])
    bucket.objects.delete(`${segmentName(copied)}/records.log`) // no form of the bundle is whole, but it is not forgotten
    assert.deepEqual(await rowOf(), plain.bundles[0])
    assert.equal(catalog.objectsOf(copied)!.records, null)
    bucket.put(key, compact)
    assert.deepEqual(await rowOf(), store.segments[0]!.row)
    const { compact: object, index, indexHeadBytes } = catalog.objectsOf(copied)!
    assert.deepEqual([object!.key, index], [key, null])
    assert(indexHeadBytes! < object!.bytes)
  })

  it('takes a merged file for all that it is over, once one of its segments has moved, and then alone', async () => {
    store.compact()
    assert(store.merge(0, 2, false))
    bucket.objects.clear()
    bucket.copy(store)
    assert.deepEqual(
      (await catalog.refresh(NEVER)).bundles,
      store.segments.map(({ row }) => row),
    )
    const [first, second, third] = store.segments
    assert(store.merge(0, 2))
    bucket.copy(store)
    const { bundles } = await catalog.refresh(NEVER)
    assert.deepEqual(bundles, store.bundles())
    assert.deepEqual([bundles[0]!.isMerged, bundles[0]!.end, bundles[1]!.base], [true, second!.end, third!.base])
    const { compact, indexHeadBytes } = catalog.objectsOf(first!.base)!
    assert.equal(compact!.key, `${segmentName(first!.base)}/${mergedName(second!.end)}`)
    assert(indexHeadBytes! < compact!.bytes)
    assert.equal(catalog.objectsOf(second!.base), null)
    const { requests } = bucket.counts
    await catalog.refresh(NEVER)
    assert.equal(bucket.counts.requests, requests) // C2
  })

  it('counts what has moved into a file that is not there, and has nothing to read of it', async () => {
    store.compact()
    store.merge(0, 3)
    bucket.objects.clear()
    bucket.copy(store)
    const name = `${segmentName(0)}/${mergedName(store.segments[2]!.end)}`
    const whole = bucket.objects.get(name)!.bytes
    for (const how of ['missing', 'short', 'stale'] as const) {
      if (how === 'missing') bucket.objects.delete(name)
      else bucket.put(name, how === 'short' ? whole.subarray(0, whole.byteLength - 9) : whole)
      if (how === 'stale') bucket.failing.set(name, new ObjectReadError('stale', 'the object was replaced'))
      const fresh = new BucketCatalog(bucket, '')
      const { bundles } = await fresh.refresh(NEVER)
      assert.deepEqual(
        bundles.map(({ base, end }) => [base, end]),
        store.segments.map(({ base, end }) => [base, end]),
      )
      for (const { base, minTime, maxTime } of bundles) {
        assert.deepEqual([minTime, maxTime], [store.bundles()[0]!.minTime, store.bundles()[0]!.maxTime])
        const { compact, index, records } = fresh.objectsOf(base)!
        assert.deepEqual([compact, index, records], [null, null, null])
      }
    }
    bucket.failing.clear()
    assert.equal((await catalog.refresh(NEVER)).bundles.length, 1)
  })

  it('has every position once, in whatever order files of a merge arrive and others go', async (context) => {
    const random = mulberry32(seedOf(context))
    const stages = [filesOf(store)]
    store.compact()
    stages.push(filesOf(store))
    for (const [from, to] of [
      [0, 2],
      [0, 3],
    ] as const) {
      assert(store.merge(from, to))
      stages.push(filesOf(store))
    }
    let unreadable = 0
    for (let round = 0; round < 60; round++) {
      const deletes = round % 3 !== 0
      bucket.objects.clear()
      if (round % 2 === 0) for (const [key, bytes] of stages[0]!) bucket.put(key, bytes)
      for (const [key, bytes] of stages[1]!) bucket.put(key, bytes)
      catalog = new BucketCatalog(bucket, '')
      // A copy may miss stages: it takes the files that are there at its time.
      const wanted = round % 5 === 0 ? [stages[3]!] : [stages[2]!, stages[3]!]
      for (const stage of wanted) {
        const changes = changesTo(bucket, stage, deletes)
        while (changes.length > 0) {
          changes.splice(Math.floor(random() * changes.length), 1)[0]!()
          const looked = random() < 0.3 ? (catalog = new BucketCatalog(bucket, '')) : catalog
          const { bundles } = await looked.refresh(NEVER)
          assert.equal(bundles[0]!.base, 0)
          assert.equal(bundles.at(-1)!.end, store.segments[2]!.end)
          for (const [number, { base }] of bundles.entries()) {
            if (number > 0) assert.equal(bundles[number - 1]!.end + SEGMENT_FOOTER_BYTES, base)
            const { compact, records } = looked.objectsOf(base)!
            if (compact === null && records === null) unreadable++
          }
        }
      }
      const { bundles } = await catalog.refresh(NEVER)
      assert.equal(bundles.length, 1)
      assert.notEqual(catalog.objectsOf(0)!.compact, null)
    }
    assert(unreadable > 20, `${unreadable} unreadable`)
  })

  it('has every position once, too, while files of bundles that were written again without expired records arrive and others go', async (context) => {
    const random = mulberry32(seedOf(context))
    store.compact()
    assert(store.merge(0, 2))
    const stages = [filesOf(store)]
    for (const [segment, dataset] of [
      [0, 'orders'],
      [2, 'orders'],
      [0, 'payments'],
    ] as const) {
      assert.equal(trimIn(store, segment, { [dataset]: 9 }), 'trimmed')
      stages.push(filesOf(store))
    }
    for (let round = 0; round < 30; round++) {
      const deletes = round % 2 === 0
      bucket.objects.clear()
      for (const [key, bytes] of stages[0]!) bucket.put(key, bytes)
      catalog = new BucketCatalog(bucket, '')
      for (const stage of round % 3 === 0 ? [stages[3]!] : stages.slice(1)) {
        const changes = changesTo(bucket, stage, deletes)
        while (changes.length > 0) {
          changes.splice(Math.floor(random() * changes.length), 1)[0]!()
          const looked = random() < 0.3 ? (catalog = new BucketCatalog(bucket, '')) : catalog
          const { bundles } = await looked.refresh(NEVER)
          assert.deepEqual([bundles[0]!.base, bundles.at(-1)!.end], [0, store.segments[2]!.end])
          for (const [number, { base }] of bundles.entries())
            if (number > 0) assert.equal(bundles[number - 1]!.end + SEGMENT_FOOTER_BYTES, base)
        }
      }
      // Without deletions, an older merged file may go on counting, which holds more than the newer ones.
      if (deletes) assert.deepEqual((await catalog.refresh(NEVER)).bundles, store.bundles())
    }
  })

  it('reads from the merged file what is on its way in a form of its own', async () => {
    store.compact()
    assert(store.merge(0, 3))
    bucket.objects.clear()
    bucket.copy(store)
    const merged = store.bundles()
    assert.deepEqual((await catalog.refresh(NEVER)).bundles, merged)
    assert.equal(trimIn(store, 0, { orders: 9 }), 'trimmed')
    const arriving = [...filesOf(store)]
    for (const size of [200, Infinity]) {
      for (const [key, bytes] of arriving) {
        for (const looked of [catalog, new BucketCatalog(bucket, '')])
          assert.deepEqual((await looked.refresh(NEVER)).bundles, merged, `${key} of ${size} bytes`)
        bucket.put(key, bytes.subarray(0, size))
      }
    }
    assert.deepEqual((await catalog.refresh(NEVER)).bundles, store.bundles())
  })

  it('is of one prefix only', async () => {
    bucket.copy(store, 'logs/acme/')
    const other = new BucketCatalog(bucket, 'logs/acme/')
    assert.equal((await other.refresh(NEVER)).bundles.length, 3)
    assert.equal(other.objectsOf(0)!.index!.key, 'logs/acme/0000000000000000/index.bin')
    assert.equal((await catalog.refresh(NEVER)).bundles.length, 3)
  })
})
