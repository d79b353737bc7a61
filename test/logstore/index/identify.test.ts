import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { OtlpBatch } from '../../../native-free-codecs/otlp-batch.ts'
import { formatRecordId } from '../../../native-free-codecs/record-id-text.ts'
import { groupPrefix } from '../../../native-free-codecs/record-id.ts'
import { BatchIdentifier } from '../../../src/logstore/index/identify.ts'

const EMPTY = Buffer.alloc(0)

/** The id as documented, of one record at a time. */
function idOf(dataset: string, record: Buffer, ordinal: number, batch: Buffer | null): string {
  const head = Buffer.alloc(64)
  groupPrefix('local', dataset, 1, EMPTY, EMPTY, EMPTY, EMPTY).copy(head)
  head.writeUInt32BE(ordinal, 32)
  if (batch) {
    head[36] = 1
    createHash('sha256').update(batch).digest().copy(head, 37, 0, 27)
  }
  return `logstore_${createHash('blake2s256').update(head).update(record).digest('hex').slice(0, 32)}`
}

const records = fc.array(
  fc.record({ text: fc.constantFrom('a', 'b', 'c'.repeat(200)), timeless: fc.boolean(), group: fc.nat({ max: 2 }) }),
  { minLength: 1, maxLength: 40 },
)

test('ids of a batch are those of its records one by one: by group, by time, and by ordinal among equal ones', () => {
  const identifier = new BatchIdentifier()
  fc.assert(
    fc.property(records, (written) => {
      const batch = new OtlpBatch()
      const datasets = ['x', 'y', 'z']
      batch.groupCount = batch.resourceCount = datasets.length
      datasets.forEach((_, i) => (batch.groupResource[i] = i))
      const body = Buffer.from(written.map(({ text }) => text).join(''))
      const sameBefore = new Map<string, number>()
      let at = 0
      const expected = written.map(({ text, timeless, group }, i) => {
        batch.recordStart[i] = at
        batch.recordEnd[i] = at += text.length
        batch.recordGroup[i] = group
        batch.timeLow[i] = timeless ? 0 : 7
        const key = JSON.stringify([text, timeless, group])
        const ordinal = sameBefore.get(key) ?? 0
        sameBefore.set(key, ordinal + 1)
        return idOf(datasets[group]!, Buffer.from(text), ordinal, timeless ? body : null)
      })
      batch.recordCount = written.length
      identifier.identify(batch, body, 'local', 1, datasets)
      assert.deepEqual(
        written.map((_, i) => formatRecordId(identifier.ids, 4 * i)),
        expected,
      )
    }),
  )
})
