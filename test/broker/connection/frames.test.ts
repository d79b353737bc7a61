/** The binary form: the reader reads what the writer wrote, and records are checked as the publish route checks them. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { KnownHeaders, areWhole, problemAt } from '../../../src/broker/connection/encoded-records.ts'
import { RecordCursor, encodeRecord, headersOf, recordBytes } from '../../../src/broker/frames.ts'
import { parsePublish } from '../../../src/broker/publish-input.ts'
import { BrokerError } from '../../../src/broker/refusals.ts'
import { FrameReader, FrameWriter } from '../../../src/broker/wire/connection-frames.ts'
import type { RecordFields } from '../../../src/broker/wire/connection-frames.ts'
import { Lane } from '../../../src/client/streaming/lane.ts'
import { idAt, putId } from '../../../src/client/streaming/ids.ts'

const u32 = fc.integer({ min: 0, max: 2 ** 32 - 1 })
const text = fc.string({ unit: 'grapheme', maxLength: 60 })
const bytes = fc.uint8Array({ maxLength: 300 })
const record: fc.Arbitrary<RecordFields> = fc.record({
  messageId: text,
  payload: fc.oneof(text, bytes),
  key: fc.option(fc.oneof(text, bytes)),
  headers: fc.dictionary(text, text, { maxKeys: 4 }),
  eventTimeMs: fc.option(fc.oneof(fc.maxSafeNat(), fc.constant(Number.MAX_SAFE_INTEGER))),
})

const written = (write: (writer: FrameWriter) => void): Buffer => {
  const writer = new FrameWriter()
  write(writer)
  return Buffer.from(writer.written)
}
const recordsOf = (records: readonly RecordFields[]): Buffer =>
  written((writer) => {
    for (const each of records) writer.record(each)
  })

describe('frames', () => {
  it('are read as they were written, one behind the other', () => {
    const frame = fc.record({ type: fc.nat(255), flags: fc.nat(255), id: u32, name: text, body: bytes, count: u32 })
    fc.assert(
      fc.property(fc.array(frame), (frames) => {
        const message = written((writer) => {
          for (const { type, flags, id, name, body, count } of frames) {
            writer.begin(type, flags, id, name)
            writer.raw(body)
            writer.end(count)
          }
        })
        const reader = new FrameReader(message)
        const read: unknown[] = []
        while (reader.next()) {
          const { type, flags, id, count, bodyAt, end } = reader
          read.push({ type, flags, id, count, name: reader.name(), body: [...message.subarray(bodyAt, end)] })
        }
        assert.deepEqual(
          read,
          frames.map((each) => ({ ...each, body: [...each.body] })),
        )
        assert(reader.isAtEnd)
      }),
    )
  })

  it('that are cut anywhere, or lie about their lengths, are none', () => {
    const whole = written((writer) => {
      writer.begin(1, 0, 7, 'orders')
      writer.raw(new Uint8Array(20))
      writer.end(1)
    })
    for (let length = 1; length < whole.byteLength; length++) {
      const reader = new FrameReader(whole.subarray(0, length))
      assert.equal(reader.next() || reader.isAtEnd, false, String(length))
    }
    const liar = Buffer.from(whole)
    liar.writeUInt16LE(60_000, 6)
    assert.equal(new FrameReader(liar).next(), false)
  })
})

describe('records', () => {
  it('have the bytes that the log gives them', () => {
    fc.assert(
      fc.property(record, (fields) => {
        const eventTimeMs = fields.eventTimeMs ?? 0
        const contentOf = (content: string | Uint8Array) =>
          typeof content === 'string' ? ({ text: content, encoding: 'utf8' } as const) : content
        const stored = {
          ...fields,
          payload: contentOf(fields.payload),
          key: fields.key === null ? null : contentOf(fields.key),
          eventTimeMs,
        }
        const expected = Buffer.alloc(recordBytes(stored))
        encodeRecord(expected, 0, stored)
        assert.deepEqual(recordsOf([{ ...fields, eventTimeMs }]), expected)
      }),
    )
  })

  it('are good exactly when the route of a publish takes them (R1)', () => {
    const loose = fc.oneof(fc.constantFrom('', ' ', 'a b', '\n', 'ü', 'x'.repeat(200)), text)
    const fieldsOf = fc.record({
      messageId: loose,
      payload: bytes,
      key: fc.option(bytes),
      headers: fc.dictionary(loose, loose, { maxKeys: 3 }),
      eventTimeMs: fc.option(fc.maxSafeNat()),
    })
    fc.assert(
      fc.property(fieldsOf, (fields) => {
        const { messageId: message_id, payload, headers, eventTimeMs: event_time_ms } = fields
        let expected: string | null = null
        try {
          parsePublish({ message_id, payload_hex: Buffer.from(payload).toString('hex'), headers, event_time_ms })
        } catch (error) {
          assert(error instanceof BrokerError)
          expected = `${error.code} ${error.message}`
        }
        const encoded = recordsOf([fields])
        const known = new KnownHeaders()
        for (const time of ['first', 'again']) {
          const problem = problemAt(encoded, 0, known)
          assert.equal(problem && `${problem.code} ${problem.message}`, expected, time)
        }
      }),
    )
  })

  it('are whole by their lengths, or nothing of them is taken (R2)', () => {
    fc.assert(
      fc.property(fc.array(record, { minLength: 1, maxLength: 4 }), fc.nat(), fc.nat(255), (records, at, byte) => {
        const encoded = recordsOf(records)
        const { byteLength } = encoded
        assert(areWhole(encoded, 0, byteLength, records.length))
        assert(!areWhole(encoded, 0, byteLength, records.length + 1))
        assert(!areWhole(encoded, 0, byteLength - 1, records.length))
        const changed = Buffer.from(encoded)
        changed[at % byteLength] = byte
        if (!areWhole(changed, 0, byteLength, records.length)) return
        const cursor = new RecordCursor()
        for (let from = 0; from < byteLength; from += changed.readUInt32LE(from)) {
          if (problemAt(changed, from, new KnownHeaders()) !== null) return
          changed.fill(0, from + 8, from + 16) // the broker sets this time before it stores the record
          assert(cursor.read(changed, from), 'what passes can be read again')
        }
      }),
    )
  })

  it('have each header once', () => {
    const one = recordsOf([{ messageId: 'm', payload: '', key: null, headers: { a: 'b' }, eventTimeMs: 1 }])
    const header = one.subarray(29)
    const twice = Buffer.concat([one, header])
    twice.writeUInt32LE(twice.byteLength, 0)
    twice.writeUInt32LE(2 * header.byteLength, 20)
    assert.equal(headersOf(twice)?.size, 1)
    assert(areWhole(twice, 0, twice.byteLength, 1))
    assert.match(problemAt(twice, 0, new KnownHeaders())!.message, /twice/)
  })
})

describe('ids', () => {
  it('are 16 bytes and back, as Node has them, and no other text is one', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), (block) => {
        const id = idAt('dlv-', block, 0)
        assert.equal(id, `dlv-${Buffer.from(block).toString('base64url')}`)
        const back = new Uint8Array(16)
        assert(putId('dlv-', id, back, 0))
        assert.deepEqual(back, block)
        for (const bad of [
          id.slice(1),
          `${id}A`,
          id.replace('dlv', 'sub'),
          `${id.slice(0, -1)}=`,
          `${id.slice(0, -1)}é`,
        ]) {
          assert.equal(putId('dlv-', bad, back, 0), false, bad)
        }
      }),
    )
  })
})

describe('a lane', () => {
  it('puts what is alike into one frame, with ids that follow one another, and begins anew at its last id', () => {
    const lane = new Lane(0, 5)
    const add = (name: string, isAlone = false): number => lane.add(1, 0, name, isAlone, (writer) => writer.u32(7))
    assert.deepEqual([add('a'), add('a'), add('b'), add('b', true), add('b'), add('b')], [0, 1, 2, 3, 4, 0])
    const frames: unknown[] = []
    lane.flush((message) => {
      const reader = new FrameReader(message.slice())
      while (reader.next()) frames.push([reader.name(), reader.id, reader.count])
    })
    assert.deepEqual(frames, [
      ['a', 0, 2],
      ['b', 2, 1],
      ['b', 3, 2],
      ['b', 0, 1],
    ])
  })
})
