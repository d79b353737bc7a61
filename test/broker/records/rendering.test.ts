import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { FRAME_RECORDS, FrameRecords, encodeRecords, recordsBytes } from '../../../src/broker/frames.ts'
import { JsonText } from '../../../src/broker/records/json-text.ts'
import { renderRecord } from '../../../src/broker/records/render-record.ts'
import { encoded, newRecord, shownRecord, text, timeMs } from './support.ts'

describe('JSON written as bytes', () => {
  const written = (write: (text: JsonText) => void): string => {
    const json = new JsonText(0)
    json.reserve(10_000)
    write(json)
    return json.bytes.toString('utf8', 0, json.length)
  }

  it('writes any string as JSON.stringify does', () => {
    const control = fc.string({ unit: fc.integer({ min: 0, max: 0x9f }).map((code) => String.fromCharCode(code)) })
    fc.assert(
      fc.property(fc.oneof(text, control), (value) => {
        const bytes = Buffer.from(`<${value}>`)
        assert.equal(
          written((json) => json.string(bytes, 1, bytes.byteLength - 1)),
          JSON.stringify(value),
        )
      }),
    )
  })

  it('writes any integer', () => {
    const power = fc.integer({ min: 0, max: 53 }).chain((exponent) => fc.maxSafeNat().map((n) => n % 2 ** exponent))
    const edges = Array.from({ length: 16 }, (_, digits) => [10 ** digits - 1, 10 ** digits]).flat()
    fc.assert(
      fc.property(fc.oneof(power, fc.constantFrom(...edges, Number.MAX_SAFE_INTEGER)), (value) => {
        assert.equal(
          written((json) => json.number(value)),
          String(value),
        )
      }),
    )
  })

  it('writes bytes as hexadecimal digits, few and many', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
        const from = Buffer.from(bytes)
        assert.equal(
          written((json) => json.hex(from, 0, from.byteLength)),
          `"${from.toString('hex')}"`,
        )
      }),
    )
  })
})

describe('a rendered record', () => {
  it('is what JSON.stringify makes of the record, however little room there was', () => {
    const times = fc.record({ offset: fc.nat(), ingestTimeMs: timeMs })
    fc.assert(
      fc.property(fc.array(newRecord, { minLength: 1, maxLength: 4 }), times, (records, { offset, ingestTimeMs }) => {
        const frame = { streamNumber: 1, firstOffset: offset, ingestTimeMs, records }
        const payload = encoded(recordsBytes(records), (into, at) => encodeRecords(into, at, frame))
        const stored = new FrameRecords()
        assert.ok(stored.open(FRAME_RECORDS, payload))
        const json = new JsonText(0)
        let expected = ''
        for (const [number, record] of records.entries()) {
          assert.ok(stored.seek(number))
          renderRecord(json, payload, stored.record, offset + number, ingestTimeMs)
          expected += JSON.stringify(shownRecord(record, offset + number, ingestTimeMs))
        }
        assert.equal(json.bytes.toString('utf8', 0, json.length), expected)
      }),
      { numRuns: 500 },
    )
  })
})
