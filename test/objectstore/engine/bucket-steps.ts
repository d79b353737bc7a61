/** Steps that create, delete, describe and list buckets. */
import assert from 'node:assert/strict'
import type { Bucket, ListOptions, ObjectPage } from '../../../src/objectstore/operations.ts'
import { payloadOf } from '../../support/log-harness.ts'
import { pick } from '../../support/random-history.ts'
import { Steps, changesOf } from './asking.ts'
import { resultAfterFlush } from './client.ts'
import { listed, summaryOf } from './reference.ts'
import type { RefBucket, RefObject } from './reference.ts'

export class BucketSteps extends Steps {
  readonly #buckets = new Map<string, Bucket>()

  createBucket(name: string, owner: string): void {
    this.ask({
      name: `create bucket ${name}`,
      run: () => this.world.store.createBucket(name, owner),
      expected: () => {
        const existing = this.reference.bucket(name)
        if (existing === undefined) return 'effect'
        return existing.owner === owner ? 'BucketAlreadyOwnedByYou' : 'BucketAlreadyExists'
      },
      check: (bucket, frames) => {
        this.#buckets.set(name, bucket)
        const [change] = changesOf(frames)
        assert.ok(change?.kind === 'bucket_created' && change.number === bucket.number)
        const { name: created, owner: by, cors, policy } = bucket
        assert.deepEqual([created, by, cors, policy], [name, owner, null, null])
      },
    })
  }

  deleteBucket(bucket: Bucket | null): void {
    if (bucket === null) return
    this.ask({
      name: `delete bucket ${bucket.name}`,
      run: () => this.world.store.deleteBucket(bucket),
      expected: () => {
        const known = this.reference.buckets.get(bucket.number)
        if (known === undefined) return 'NoSuchBucket'
        return known.objects.size > 0 ? 'BucketNotEmpty' : 'effect'
      },
      check: (_, frames) => assert.equal(changesOf(frames)[0]?.kind, 'bucket_deleted'),
    })
  }

  setDocument(bucket: Bucket | null, kind: 'cors' | 'policy', content: number | null): void {
    if (bucket === null) return
    const document = content === null ? null : payloadOf(content, content)
    this.ask({
      name: `${kind} of ${bucket.name}`,
      run: () => this.world.store.setBucketDocument(bucket, kind, document),
      expected: () => (this.reference.buckets.has(bucket.number) ? 'effect' : 'NoSuchBucket'),
    })
  }

  list(bucket: Bucket | null, b: number, c: number): void {
    if (bucket === null) return
    const options = {
      prefix: pick(['', '', 'a', 'a/', 'b/', 'x'], b),
      delimiter: pick(['', '/', '/2'], c),
      from: pick(['', '', '', 'a/2', 'b'], b >> 2),
      after: pick(['', '', 'a/1', 'c'], c >> 2),
      max: pick([1, 2, 3, 100], b + c),
    }
    const known = this.reference.buckets.get(bucket.number)
    const objects = new Map(known?.objects)
    const expected = listed(known && { ...known, objects }, options)
    this.ask({
      name: `list ${bucket.name}`,
      judged: true,
      run: () => this.world.store.list(bucket, optionsOf(options)),
      expected: () => 'effect',
      check: (page) => checkPage(page, expected, objects),
    })
  }

  /** Asserts that a listing, page by page, has all keys of the bucket. */
  async checkAll({ name, objects }: RefBucket): Promise<void> {
    const { store } = this.world
    const bucket = store.bucket(name)!
    const keys: string[] = []
    for (let from: Buffer | null = Buffer.alloc(0); from !== null;) {
      const options = { prefix: Buffer.alloc(0), delimiter: Buffer.alloc(0), after: Buffer.alloc(0), from, max: 3 }
      const page: ObjectPage = await resultAfterFlush(this.world, store.list(bucket, options))
      keys.push(...page.objects.map(({ key }) => key.toString()))
      from = page.next
    }
    assert.deepEqual(keys, [...objects.keys()].sort())
  }

  /** The bucket, or the deleted bucket of that name; null: there never was one. */
  bucket(name: string): Bucket | null {
    return this.world.store.bucket(name) ?? this.#buckets.get(name) ?? null
  }
}

type TextOptions = Parameters<typeof listed>[1]

const optionsOf = ({ prefix, delimiter, from, after, max }: TextOptions): ListOptions => ({
  prefix: Buffer.from(prefix),
  delimiter: Buffer.from(delimiter),
  from: Buffer.from(from),
  after: Buffer.from(after),
  max,
})

function checkPage(
  page: ObjectPage,
  expected: ReturnType<typeof listed>,
  objects: ReadonlyMap<string, RefObject>,
): void {
  const keys = page.objects.map(({ key }) => key.toString())
  assert.deepEqual(keys, expected.keys)
  assert.deepEqual(page.commonPrefixes.map(String), expected.commonPrefixes)
  assert.equal(page.next === null, expected.isWhole)
  for (const entry of page.objects) {
    const object = objects.get(entry.key.toString())!
    const { checksums } = object.details
    const algorithms = checksums.map(({ algorithm }) => algorithm)
    const about = {
      ...summaryOf(object),
      key: entry.key,
      checksumAlgorithms: algorithms,
      checksumType: checksums[0]?.type,
      storageClass: object.details.storageClass,
    }
    assert.deepEqual(entry, about)
  }
}
