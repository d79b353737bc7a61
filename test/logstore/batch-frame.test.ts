import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { OtlpBatch } from '../../native-free-codecs/otlp-batch.ts'
import {
  FLAG_COLLAPSED,
  StoredBatch,
  batchHeadBytes,
  encodeNames,
  writeBatchHead,
} from '../../src/logstore/batch-frame.ts'

const ranges = fc
  .tuple(fc.nat(400), fc.nat(100))
  .map(([start, length]) => ({ start: start + 1, end: start + 1 + length }))

const urls = fc.oneof(ranges, fc.constant({ start: 0, end: 0 }))

const batches = fc.array(
  fc.record({
    range: ranges,
    url: urls,
    dataset: fc.nat(2),
    groups: fc.array(
      fc.record({ scope: ranges, url: urls, records: fc.array(ranges, { minLength: 1, maxLength: 3 }) }),
      {
        minLength: 1,
        maxLength: 3,
      },
    ),
  }),
  { minLength: 1, maxLength: 4 },
)

test('a stored batch gives back every record with its resource, scope, dataset and collapse flag', () => {
  fc.assert(
    fc.property(
      batches,
      fc.string({ minLength: 1, maxLength: 20 }),
      fc.array(fc.boolean(), { minLength: 36, maxLength: 36 }),
      (resources, tenant, collapsed) => {
        const body = Buffer.from(Uint8Array.from({ length: 502 }, (_, i) => (i * 7) & 255))
        const datasets = ['checkout', 'größe', '']
        const batch = new OtlpBatch()
        const resourceDataset = new Uint16Array(8)
        const flags = new Uint16Array(512)
        const expected: ReturnType<StoredBatch['record']>[] = []
        const slice = ({ start, end }: { start: number; end: number }) => body.subarray(start, end)
        for (const [r, resource] of resources.entries()) {
          batch.resourceStart[r] = resource.range.start
          batch.resourceEnd[r] = resource.range.end
          batch.resourceSchemaUrlStart[r] = resource.url.start
          batch.resourceSchemaUrlEnd[r] = resource.url.end
          if (resource.url.end > 0) batch.schemaUrlCount++
          resourceDataset[r] = resource.dataset
          batch.resourceCount++
          for (const group of resource.groups) {
            const g = batch.groupCount++
            batch.groupResource[g] = r
            batch.groupScopeStart[g] = group.scope.start
            batch.groupScopeEnd[g] = group.scope.end
            batch.groupSchemaUrlStart[g] = group.url.start
            batch.groupSchemaUrlEnd[g] = group.url.end
            if (group.url.end > 0) batch.schemaUrlCount++
            for (const record of group.records) {
              const i = batch.recordCount++
              batch.recordGroup[i] = g
              batch.recordStart[i] = record.start
              batch.recordEnd[i] = record.end
              flags[i] = collapsed[i]! ? FLAG_COLLAPSED : 0
              expected.push({
                resource: slice(resource.range),
                scope: slice(group.scope),
                record: slice(record),
                resourceSchemaUrl: slice(resource.url),
                scopeSchemaUrl: slice(group.url),
                dataset: datasets[resource.dataset]!,
                collapsed: collapsed[i]!,
              })
            }
          }
        }
        const names = encodeNames(tenant, datasets)
        const headBytes = batchHeadBytes(batch, names)
        const payload = Buffer.alloc(headBytes + body.byteLength, 0xff)
        const envelope = { signal: 2, format: 1, source: 3, tenant, receivedAtHigh: 401, receivedAtLow: 0xffff_fffe }
        writeBatchHead(payload, 0, envelope, batch, body.byteLength, names, datasets.length, resourceDataset, flags)
        body.copy(payload, headBytes)

        assert.equal(headBytes % 8, 0)
        const stored = new StoredBatch(payload)
        assert.deepEqual(stored.envelope, envelope)
        assert.deepEqual(stored.body, body)
        assert.deepEqual(
          Array.from({ length: stored.recordCount }, (_, i) => stored.record(i)),
          expected,
        )
      },
    ),
    { numRuns: 50 },
  )
})
