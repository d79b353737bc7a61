import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { LOG_ID, TestStore } from '../../support/stored-segments.ts'

const batchOf = (text: string) => [{ dataset: 'orders', time: 1n, trace: null, text }]

describe('a reader of batches', () => {
  it('gives the batch that was asked for, whatever it read and forgot before', () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 15_000 }), { minLength: 1, maxLength: 12, size: 'max' })
    const reads = fc.array(fc.nat(), { minLength: 1, maxLength: 100, size: 'max' })
    fc.assert(
      fc.property(sizes, reads, fc.integer({ min: 1, max: 50_000 }), (sizes, reads, bytesMax) => {
        const store = new TestStore()
        try {
          const texts = sizes.map((size, i) => String.fromCharCode(97 + i).repeat(size))
          const positions = texts.map((text) => store.add('acme', batchOf(text)))
          const reader = store.frameReader(bytesMax)
          for (const read of reads) {
            const batch = reader.read(LOG_ID, 0, positions[read % positions.length]!)
            assert(batch.body.includes(`"${texts[read % positions.length]}"`))
          }
        } finally {
          store.close()
        }
      }),
      { numRuns: 100 },
    )
  })

  it('keeps as many of the last ones as it may, and reads the file for no other reason', (context) => {
    const store = TestStore.open(context)
    const positions = Array.from({ length: 8 }, (_, i) => store.add('acme', batchOf(`${i}`.repeat(2000))))
    const reader = store.frameReader(16 * 1024)
    const [oldest] = positions
    for (const position of positions) reader.read(LOG_ID, 0, position)
    store.unreadable = 'records.log'
    for (const position of positions.slice(-4)) reader.read(LOG_ID, 0, position)
    assert.throws(() => reader.read(LOG_ID, 0, oldest!), { code: 'bundle_read_failed' })
    store.unreadable = null
    assert(reader.read(LOG_ID, 0, oldest!).body.includes(`"${'0'.repeat(2000)}"`))
  })
})
