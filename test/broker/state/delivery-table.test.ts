import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as fc from 'fast-check'
import { DELAYED, DeliveryTable, LEASED } from '../../../src/broker/state/delivery-table.ts'

/** Dense windows that would share home buckets if offsets were not hashed, strides, and offsets beyond 32 bits. */
const offsets = fc.oneof(
  fc.nat(40),
  fc.nat(40).map((i) => 2 ** 20 + i),
  fc.nat(40).map((i) => i * 2 ** 16),
  fc.nat(40).map((i) => 2 ** 48 - 1 - i),
)

const steps = fc.array(
  fc.record({
    offset: offsets,
    step: fc.constantFrom('lease', 'delay', 'return', 'remove'),
    dueMs: fc.nat(20),
  }),
  { maxLength: 400, size: 'max' },
)

test('a delivery table finds what is in it, counts it by status, and has what is due first on top, in one order', () => {
  fc.assert(
    fc.property(steps, (steps) => {
      const table = new DeliveryTable()
      const expected = new Map<number, { status: string; dueMs: number }>()
      for (const { offset, step, dueMs } of steps) {
        const found = table.slotOf(offset)
        assert.equal(found >= 0, expected.has(offset))
        if (step === 'remove') {
          if (found >= 0) table.remove(found)
          expected.delete(offset)
        } else {
          const slot = found >= 0 ? found : table.insert(offset)
          if (step === 'lease') table.makeLeased(slot, dueMs)
          else if (step === 'delay') table.makeDelayed(slot, dueMs)
          else table.makeReturned(slot)
          expected.set(offset, { status: step, dueMs })
        }
        assert.equal(table.size, expected.size)
      }

      for (const offset of expected.keys()) assert.equal(table.offset[table.slotOf(offset)], offset)
      const waiting = [...expected]
        .filter(([, { status }]) => status !== 'return')
        .sort(([offset, { dueMs }], [other, { dueMs: otherDueMs }]) => dueMs - otherDueMs || offset - other)
      const count = (status: string): number => waiting.filter(([, each]) => each.status === status).length
      assert.equal(table.count(LEASED), count('lease'))
      assert.equal(table.count(DELAYED), count('delay'))

      const due: number[] = []
      table.due.forEachDue(10, (slot) => due.push(table.offset[slot]!))
      const isDue = waiting.filter(([, { dueMs }]) => dueMs <= 10).map(([offset]) => offset)
      assert.deepEqual(new Set(due), new Set(isDue))
      assert.equal(due.length, isDue.length)

      for (const [offset, { dueMs }] of waiting) {
        assert.equal(table.due.firstDueMs, dueMs)
        assert.equal(table.offset[table.due.first], offset)
        table.makeReturned(table.due.first)
      }
      assert.equal(table.due.firstDueMs, Infinity)
    }),
    { numRuns: 300 },
  )
})
