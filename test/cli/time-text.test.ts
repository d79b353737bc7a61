import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { timeOf } from '../../src/cli/time-text.ts'

const NOW_MS = Date.parse('2026-03-01T00:00:00Z')
const timeFrom = (text: string): string =>
  new Date(Number(BigInt(timeOf('--from', text, NOW_MS)) / 1_000_000n)).toISOString()

describe('a time on a command line', () => {
  it('is so long ago, a date, a date and time, or nanoseconds', () => {
    for (const [text, expected] of [
      ['15m', '2026-02-28T23:45:00.000Z'],
      ['2026-01-31', '2026-01-31T00:00:00.000Z'],
      ['2024-02-29', '2024-02-29T00:00:00.000Z'],
      ['2026-01-31T12:00Z', '2026-01-31T12:00:00.000Z'],
      ['2026-01-31T12:00:01.5Z', '2026-01-31T12:00:01.500Z'],
      ['2026-01-31T12:00:01.123456789Z', '2026-01-31T12:00:01.123Z'],
      ['2026-01-31 12:00:00+02:00', '2026-01-31T10:00:00.000Z'],
      ['2026-01-31T12:00:00-0130', '2026-01-31T13:30:00.000Z'],
      ['1769860800000000000', '2026-01-31T12:00:00.000Z'],
    ] as const) {
      assert.equal(timeFrom(text), expected, text)
    }
    assert.equal(timeFrom('2026-01-31T12:00'), new Date('2026-01-31T12:00').toISOString()) // local time
  })

  it('is refused when there is no such day or time, or more stands behind it', () => {
    for (const text of [
      '2025-02-30',
      '2025-02-29',
      '2025-04-31T10:00:00Z',
      '2025-13-01',
      '2025-00-10',
      '2025-01-00',
      '2025-01-01T25:00:00Z',
      '2025-01-01T10:61:00Z',
      '2025-01-01x',
      '2025-01-01T',
      '2025-01-01T10Z',
      '2025-01-01 (yesterday)',
      '2025-01-01Z',
      '1969-12-31',
    ]) {
      assert.throws(() => timeFrom(text), /--from must be/, text)
    }
  })
})
