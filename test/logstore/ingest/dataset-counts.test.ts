import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { DatasetCounts } from '../../../src/logstore/ingest/dataset-counts.ts'

const rest = (records: number, bytes: number) => ({ name: null, records, bytes })

describe('counts by dataset', () => {
  it('are those of a map, for as many as have slots; lanes that follow each other go on in them', () => {
    const batch = fc.record({
      tenant: fc.constantFrom('a', 'b', 'ü"\\'),
      dataset: fc.constantFrom('', 'x', 'y', '😀'.repeat(20)),
      records: fc.integer({ min: 1, max: 1000 }),
      laneDies: fc.boolean(),
    })
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 8 }), fc.array(batch), (slots, batches) => {
        const counts = DatasetCounts.create(slots)
        let lane = DatasetCounts.attach(counts.shared)
        const naive = new Map<string, ReturnType<DatasetCounts['all']>[number]>()
        let restRecords = 0
        for (const { tenant, dataset, records, laneDies } of batches) {
          lane.add(tenant, dataset, records, 2 * records)
          const key = JSON.stringify([tenant, dataset])
          const before = naive.get(key)?.records ?? 0
          if (!naive.has(key) && naive.size === slots) restRecords += records
          else naive.set(key, { name: [tenant, dataset], records: before + records, bytes: 2 * (before + records) })
          if (laneDies) lane = DatasetCounts.attach(counts.shared)
        }
        const expected = [...naive.values(), ...(restRecords > 0 ? [rest(restRecords, 2 * restRecords)] : [])]
        assert.deepEqual(counts.all(), expected)
      }),
    )
  })

  it('of datasets whose names have no room are counted together', () => {
    const counts = DatasetCounts.create(2)
    const long = 'x'.repeat(400)
    counts.add('t', long, 1, 10)
    counts.add('t', `${long}y`, 2, 20)
    counts.add('t', 'short', 3, 30)
    assert.deepEqual(counts.all(), [
      { name: ['t', long], records: 1, bytes: 10 },
      { name: ['t', 'short'], records: 3, bytes: 30 },
      rest(2, 20),
    ])
  })
})
