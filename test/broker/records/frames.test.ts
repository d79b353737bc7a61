import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { crc32, writeU32 } from '../../../native-free-codecs/frame.ts'
import {
  DEAD_LETTER_HEAD_BYTES,
  FRAME_DEAD_LETTER,
  FRAME_RECORDS,
  FRAME_RECORDS_REPLICATED,
  FrameRecords,
  RECORDS_HEAD_BYTES,
  RESOLVE_VERBS,
  RecordCursor,
  claimBytes,
  decodeClaim,
  decodeDeadLetter,
  decodeDeadLetterHead,
  decodeOrigin,
  decodeRecordsHead,
  deadLetterOriginOf,
  decodeResolve,
  encodeClaim,
  encodeResolve,
  headersOf,
  resolveBytes,
  withHeaders,
} from '../../../src/broker/frames.ts'
import { decodeChange, encodeChange } from '../../../src/broker/frames/change.ts'
import { eventTimeOf } from '../../../src/broker/records/audit-event.ts'
import { encoded, newRecord, plain, plainRecord, text } from './support.ts'
import {
  head,
  records,
  readBack,
  given,
  allRecords,
  encodedRecords,
  encodedReplicated,
  encodedDeadLetter,
  rawOf,
  replicated,
  deadLetter,
  claim,
  resolutions,
  changes,
} from './frame-samples.ts'

describe('a frame of records', () => {
  it('takes exactly the bytes announced, and gives every record back', () => {
    fc.assert(
      fc.property(head, records, fc.boolean(), (head, list, relocated) => {
        const payload = encodedRecords({ ...head, records: list, relocated })
        assert.deepEqual(decodeRecordsHead(payload), { ...head, relocated, count: list.length })
        assert.deepEqual(allRecords(FRAME_RECORDS, payload), list.map(given))
      }),
    )
  })

  it('gives its records out in any order', () => {
    fc.assert(
      fc.property(records, fc.array(fc.nat(7), { maxLength: 10 }), (list, order) => {
        const payload = encodedRecords({ streamNumber: 1, firstOffset: 0, ingestTimeMs: 1, records: list })
        const frame = new FrameRecords()
        assert.ok(frame.open(FRAME_RECORDS, payload))
        for (const number of order) {
          assert.equal(frame.seek(number), number < list.length)
          if (number < list.length) assert.deepEqual(readBack(payload, frame.record), given(list[number]!))
        }
      }),
    )
  })

  it('takes records as they stood in another frame', () => {
    fc.assert(
      fc.property(records, (list) => {
        const frame = { streamNumber: 1, firstOffset: 3, ingestTimeMs: 1 }
        const moved = encodedRecords({ ...frame, records: list.map(rawOf) })
        assert.ok(moved.equals(encodedRecords({ ...frame, records: list })))
      }),
    )
  })

  it('stores half a surrogate pair as the replacement character, in short and in long texts', () => {
    for (const messageId of ['\ud800', `${'x'.repeat(60)}\udc00`]) {
      const payload = encodedRecords({
        streamNumber: 1,
        firstOffset: 0,
        ingestTimeMs: 1,
        records: [{ ...plainRecord(1), messageId }],
      })
      const frame = new FrameRecords()
      assert.ok(frame.open(FRAME_RECORDS, payload) && frame.seek(0))
      const { messageIdAt, messageIdEnd } = frame.record
      assert.equal(payload.toString('utf8', messageIdAt, messageIdEnd), messageId.toWellFormed())
    }
  })

  it('says which offsets it held as long as its head is whole, and nothing when it is not', () => {
    fc.assert(
      fc.property(head, records, fc.nat(), (head, list, pick) => {
        const payload = encodedRecords({ ...head, records: list })
        const flipped = flip(payload, pick % (8 * payload.byteLength))
        const isHead = pick % (8 * payload.byteLength) < 8 * RECORDS_HEAD_BYTES
        assert.deepEqual(decodeRecordsHead(flipped), isHead ? null : { ...head, relocated: false, count: list.length })
        assert.deepEqual(decodeRecordsHead(payload.subarray(0, RECORDS_HEAD_BYTES)), decodeRecordsHead(payload))
      }),
    )
  })

  it('from another site also says where its records come from', () => {
    fc.assert(
      fc.property(replicated, (frame) => {
        const payload = encodedReplicated(frame)
        const { sourceSite, targetSite, policy, firstOriginOffset, originOffsets, source, records: list } = frame
        const sourceIngestTimesMs = list.map(({ sourceIngestTimeMs }) => sourceIngestTimeMs)
        assert.deepEqual(decodeOrigin(payload), {
          sourceSite,
          targetSite,
          policy,
          firstOriginOffset,
          originOffsets,
          source,
          sourceIngestTimesMs,
        })
        assert.equal(decodeRecordsHead(payload)?.count, list.length)
        assert.deepEqual(allRecords(FRAME_RECORDS_REPLICATED, payload), list.map(given))
      }),
    )
  })
})

describe('a record with more headers', () => {
  it('keeps all else, and of its own headers those of other names', () => {
    fc.assert(
      fc.property(newRecord, fc.dictionary(text, text, { maxKeys: 3 }), fc.boolean(), (record, more, same) => {
        const own = Object.keys(record.headers)[0]
        const added = same && own !== undefined ? { ...more, [own]: 'new' } : more
        const raw = withHeaders(rawOf(record), added)
        assert.ok(raw)
        const cursor = new RecordCursor()
        assert.ok(cursor.read(raw, 0) && cursor.end === raw.byteLength)
        const kept = Object.entries(record.headers).filter(([name]) => !Object.hasOwn(added, name))
        const expected = { ...(given(record) as object), headers: [...kept, ...Object.entries(added)] }
        assert.deepEqual(readBack(raw, cursor), expected)
      }),
    )
  })

  it('is refused when the record is not whole', () => {
    const raw = rawOf(plainRecord(1))
    assert.equal(withHeaders(raw.subarray(0, -1), {}), null)
    assert.equal(withHeaders(Buffer.concat([raw, Buffer.alloc(1)]), {}), null)
  })
})

describe('a dead-letter frame', () => {
  it('gives back what it says, and the copy with the headers that name its source', () => {
    fc.assert(
      fc.property(deadLetter, (value) => {
        const payload = encodedDeadLetter(value)
        const { record, ...facts } = value
        assert.deepEqual(decodeDeadLetter(payload), { ...facts, eventAtMs: value.ingestTimeMs })
        const frame = new FrameRecords()
        assert.ok(frame.open(FRAME_DEAD_LETTER, payload) && frame.seek(0) && frame.record.end === payload.byteLength)
        assert.deepEqual(
          [frame.streamNumber, frame.firstOffset, frame.count, frame.ingestTimeMs],
          [value.targetNumber, value.targetOffset, 1, value.ingestTimeMs],
        )
        const copy = withHeaders(record.bytes, {
          'x-dead-letter-source-stream': value.sourceStream,
          'x-dead-letter-source-offset': String(value.offset),
          'x-dead-letter-reason': value.reason,
          'x-dead-letter-origin-stream': value.sourceStream,
          'x-dead-letter-origin-offset': String(value.offset),
          'x-dead-letter-count': '1',
        })
        assert.ok(copy?.equals(payload.subarray(frame.record.at)))
      }),
    )
  })

  it('of an older version has its event at the end of the delivery, as it had', () => {
    const [value] = fc.sample(deadLetter, { seed: 3, numRuns: 1 })
    const older = changed(encodedDeadLetter(value!), 2, 0)
    writeU32(older, 60, crc32(older, 0, 60))
    assert.equal(decodeDeadLetter(older)?.eventAtMs, value!.atMs)
  })

  it('keeps the first origin through all hops and counts them, however many headers the record has', () => {
    const headers = Object.fromEntries(Array.from({ length: 128 }, (_, i) => [`h${i}`, 'x'.repeat(500)]))
    const [sample] = fc.sample(deadLetter, { seed: 3, numRuns: 1 })
    let raw = rawOf({ ...plainRecord(1), headers })
    for (let hop = 1; hop <= 12; hop++) {
      const value = { ...sample!, sourceStream: `s${hop}`, offset: hop, record: { bytes: raw } }
      const payload = encodedDeadLetter(value)
      const frame = new FrameRecords()
      assert.ok(frame.open(FRAME_DEAD_LETTER, payload) && frame.seek(0))
      raw = Buffer.from(payload.subarray(frame.record.at, frame.record.end))
      assert.deepEqual(deadLetterOriginOf(raw), { stream: 's1', offset: '1', count: hop })
      const copied = headersOf(raw)!
      assert.equal(copied.size, 128 + 6)
      assert.deepEqual(
        [copied.get('x-dead-letter-source-stream'), copied.get('x-dead-letter-source-offset')],
        [`s${hop}`, String(hop)],
      )
    }
  })

  it('has as origin of a copy of an older version the source that this names, and begins to count', () => {
    const headers = { 'x-dead-letter-source-stream': 'orders', 'x-dead-letter-source-offset': '7' }
    const of = (more: Record<string, string>) => deadLetterOriginOf(rawOf({ ...plainRecord(1), headers: more }))
    assert.deepEqual(of(headers), { stream: 'orders', offset: '7', count: 1 })
    assert.equal(of({}), null)
    for (const count of ['', '0', '-1', 'x', '1e9', '9'.repeat(30)]) {
      assert.equal(of({ ...headers, 'x-dead-letter-count': count })?.count, 1, 'what is no number of hops is none')
    }
  })

  it('says which delivery and which offsets it is about as long as its head is whole', () => {
    const value = fc.sample(deadLetter, { seed: 3, numRuns: 1 })[0]!
    const payload = encodedDeadLetter(value)
    for (let bit = 0; bit < 8 * payload.byteLength; bit++) {
      const decoded = decodeDeadLetterHead(flip(payload, bit))
      if (bit < 8 * DEAD_LETTER_HEAD_BYTES) assert.equal(decoded, null)
      else assert.equal(decoded?.auditOffset, value.auditOffset)
    }
  })
})

describe('frames of claims, resolutions and changes', () => {
  it('give back what was written', () => {
    fc.assert(
      fc.property(claim, resolutions, (claim, entries) => {
        assert.deepEqual(decodeClaim(encoded(claimBytes(claim), (into, at) => encodeClaim(into, at, claim))), claim)
        const payload = encoded(resolveBytes(entries), (into, at) => encodeResolve(into, at, entries))
        assert.deepEqual(decodeResolve(payload), entries)
      }),
    )
    for (const change of changes) assert.deepEqual(decodeChange(encodeChange(change)), change)
  })

  it('are refused when a field is missing, of another type or an unknown one of the closed kinds', () => {
    for (const change of changes) {
      for (const field of Object.keys(change)) {
        const { [field]: _, ...rest } = change as Record<string, unknown>
        assert.equal(decodeChange(Buffer.from(JSON.stringify(rest))), null, `${change.kind} without ${field}`)
        assert.equal(decodeChange(Buffer.from(JSON.stringify({ ...rest, [field]: [] }))), null)
      }
    }
    for (const other of ['', '{', 'null', '{"kind":"later","at_ms":1}'])
      assert.equal(decodeChange(Buffer.from(other)), null)
  })
})

describe('a delivery that was stopped', () => {
  it('has an event of the wall clock, or in older frames of broker time', () => {
    const change = changes.find(({ kind }) => kind === 'delivery_stopped')!
    const newer = decodeChange(encodeChange({ ...change, wall_ms: 77 } as typeof change))!
    assert.deepEqual([eventTimeOf(change), eventTimeOf(newer)], [change.at_ms, 77])
  })
})

describe('a payload of a later version', () => {
  it('is refused, and so is a verb that is not known', () => {
    const entry = { groupNumber: 1, verb: 'ack' as const, offset: 1, attempt: 1, atMs: 1, valueMs: 0 }
    const resolve = encoded(resolveBytes([entry]), (into, at) => encodeResolve(into, at, [entry]))
    assert.ok(decodeResolve(resolve))
    const VERB_AT = 8 + 14
    for (const verb of [0, RESOLVE_VERBS.length + 1]) assert.equal(decodeResolve(changed(resolve, VERB_AT, verb)), null)
    assert.equal(decodeResolve(changed(resolve, 0, 3)), null)
    const reasoned = encoded(resolveBytes([{ ...entry, reason: 'no' }]), (into, at) =>
      encodeResolve(into, at, [{ ...entry, reason: 'no' }]),
    )
    assert.deepEqual([resolve[0], reasoned[0]], [1, 2], 'only a frame with reasons is of the new version')
    assert.equal(decodeResolve(reasoned.subarray(0, -1)), null)
    assert.equal(decodeResolve(Buffer.concat([reasoned, Buffer.alloc(1)])), null)
    const claim = { groupNumber: 1, claimNumber: 1, atMs: 1, expiresAtMs: 2, runs: [] }
    const claimed = encoded(claimBytes(claim), (into, at) => encodeClaim(into, at, claim))
    assert.equal(decodeClaim(changed(claimed, 0, 2)), null)
    const records = encodedRecords({ streamNumber: 1, firstOffset: 0, ingestTimeMs: 1, records: [plainRecord(1)] })
    assert.equal(new FrameRecords().open(FRAME_RECORDS, changed(records, 0, 2)), false)
  })
})

describe('a payload that is damaged', () => {
  const samples = {
    records: fc.tuple(head, records).map(([head, list]) => encodedRecords({ ...head, records: list })),
    replicated: replicated.map(encodedReplicated),
    deadLetter: deadLetter.map(encodedDeadLetter),
    claim: claim.map((value) => encoded(claimBytes(value), (into, at) => encodeClaim(into, at, value))),
    resolve: resolutions.map((list) => encoded(resolveBytes(list), (into, at) => encodeResolve(into, at, list))),
    change: fc.constantFrom(...changes).map(encodeChange),
  }
  const damage = plain({
    cut: fc.option(fc.nat(), { freq: 2 }),
    at: fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { maxLength: 3 }),
  })

  it('never makes a decoder throw, or point outside it', () => {
    fc.assert(
      fc.property(fc.oneof(...Object.values(samples)), damage, (whole, { cut, at }) => {
        const payload = Buffer.from(cut === null ? whole : whole.subarray(0, cut % (whole.byteLength + 1)))
        for (const [pick, value] of at) if (payload.byteLength > 0) payload[pick % payload.byteLength] = value
        decodeRecordsHead(payload)
        decodeOrigin(payload)
        decodeDeadLetter(payload)
        decodeClaim(payload)
        decodeResolve(payload)
        decodeChange(payload)
        for (const type of [FRAME_RECORDS, FRAME_RECORDS_REPLICATED, FRAME_DEAD_LETTER]) {
          const frame = new FrameRecords()
          if (!frame.open(type, payload)) continue
          assert.ok(frame.count <= payload.byteLength)
          for (let number = 0; number < frame.count && frame.seek(number); number++) {
            const { at, messageIdAt, keyAt, headersAt, payloadAt, end } = frame.record
            const places = [0, at, messageIdAt, keyAt, headersAt, payloadAt, end, payload.byteLength]
            assert.deepEqual(
              places,
              places.toSorted((a, b) => a - b),
            )
            const { record } = frame
            for (let at = record.headersAt; at < record.headersEnd; at = record.headerEnd) {
              record.readHeader(payload, at)
              assert.ok(at < record.nameAt && record.nameAt <= record.valueAt && record.valueAt <= record.headerEnd)
              assert.ok(record.headerEnd <= record.headersEnd)
            }
          }
        }
      }),
      { numRuns: 1000 },
    )
  })

  it('is refused when it is cut, whichever kind of frame it is', () => {
    fc.assert(
      fc.property(
        samples.records,
        samples.replicated,
        samples.deadLetter,
        fc.nat(),
        (records, replicated, dead, pick) => {
          const cut = (payload: Buffer): Buffer => payload.subarray(0, pick % payload.byteLength)
          assert.equal(allRecords(FRAME_RECORDS, cut(records)), null)
          assert.equal(allRecords(FRAME_RECORDS_REPLICATED, cut(replicated)), null)
          assert.equal(allRecords(FRAME_DEAD_LETTER, cut(dead)), null)
        },
      ),
    )
  })
})

function changed(bytes: Buffer, at: number, value: number): Buffer {
  const copy = Buffer.from(bytes)
  copy[at] = value
  return copy
}

function flip(bytes: Buffer, bit: number): Buffer {
  const flipped = Buffer.from(bytes)
  flipped[bit >> 3]! ^= 1 << (bit & 7)
  return flipped
}
