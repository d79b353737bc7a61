import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { testSeed } from '../../support/seed.ts'
import { BlockKeys, BlockTexts } from '../../../src/logstore/compact/block-reader.ts'
import { BlockRecords } from '../../../src/logstore/compact/block-records.ts'
import { BlockWriter } from '../../../src/logstore/compact/block-writer.ts'
import type { Group } from '../../../src/logstore/compact/block-writer.ts'
import { ByteReader } from '../../../src/logstore/compact/byte-reader.ts'
import { ByteTable } from '../../../src/logstore/compact/byte-table.ts'
import { ByteWriter } from '../../../src/logstore/compact/byte-writer.ts'
import {
  readEnds,
  readNumbers,
  readPairs,
  sumNumbers,
  writeNumbers,
  writePairs,
  WordPairs,
} from '../../../src/logstore/compact/number-columns.ts'
import { ROOT_LOG, RecordCutter } from '../../../src/logstore/compact/record-shape.ts'
import { Shapes } from '../../../src/logstore/compact/shapes.ts'
import { TextColumn } from '../../../src/logstore/compact/text-column.ts'
import { TextColumnWriter } from '../../../src/logstore/compact/text-column-writer.ts'
import { messageType } from '../../../src/logstore/query/render/otlp-types.ts'
import { ByteFinder } from '../../../src/logstore/search/byte-finder.ts'
import { codePoint } from '../../support/code-point.ts'

const OWNER = { tenant: 'acme', dataset: 'orders' }
const NO_TRACE = new Uint32Array(4)
const seed = testSeed()

const value: fc.Arbitrary<object> = fc.letrec<{ value: object }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 2 },
    fc.record({
      stringValue: fc.oneof(
        fc.string({ unit: codePoint }),
        fc.constantFrom('order 17 of 007', 'a1 b22', '9'.repeat(20)),
      ),
    }),
    fc.record({ boolValue: fc.boolean() }),
    fc.record({ intValue: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String) }),
    fc.record({ doubleValue: fc.double() }),
    fc.record({ bytesValue: fc.uint8Array({ maxLength: 200 }) }),
    fc.record({ arrayValue: fc.record({ values: fc.array(tie('value'), { maxLength: 3 }) }) }),
    fc.record({
      kvlistValue: fc.record({
        values: fc.array(fc.record({ key: fc.string(), value: tie('value') }), { maxLength: 3 }),
      }),
    }),
  ),
})).value
const u64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(String)
const attributes = fc.array(fc.record({ key: fc.constantFrom('a', 'b', 'service.name', ''), value }), { maxLength: 4 })
const log = fc.record(
  {
    timeUnixNano: u64,
    observedTimeUnixNano: u64,
    severityNumber: fc.nat(24),
    severityText: fc.string(),
    body: value,
    attributes,
    flags: fc.nat(),
    traceId: fc.oneof(fc.uint8Array({ minLength: 16, maxLength: 16 }), fc.uint8Array({ maxLength: 20 })),
    spanId: fc.uint8Array({ minLength: 8, maxLength: 8 }),
    eventName: fc.string(),
  },
  { requiredKeys: [] },
)
const LogRecord = messageType('opentelemetry.proto.logs.v1.LogRecord')
const encoded = log.map((record) => Buffer.from(LogRecord.encode(LogRecord.fromObject(record)).finish()))
/** Records come over the wire, so they may be anything: cut, changed, encoded in another way than ours. */
const record = fc.oneof(
  { arbitrary: encoded, weight: 6 },
  { arbitrary: fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)), weight: 1 },
  {
    arbitrary: fc.tuple(encoded, fc.nat(), fc.nat(255)).map(([bytes, at, byte]) => {
      if (bytes.byteLength > 0) bytes[at % bytes.byteLength] = byte
      return bytes
    }),
    weight: 3,
  },
)

const groupOf = (root: number): Group => ({
  signal: root === 2 ? 2 : 1,
  format: root === 4 ? 2 : 1,
  source: 3,
  resource: Buffer.from(`resource ${root}`),
  scope: Buffer.alloc(0),
  resourceSchemaUrl: Buffer.from('https://example.com/schema'),
  scopeSchemaUrl: Buffer.alloc(0),
  root,
})
const GROUPS = [1, 2, 4].map(groupOf)

interface Row {
  readonly bytes: Buffer
  readonly group: number
  readonly id: readonly number[] | null
  readonly trace: readonly number[] | null
}

/** The keys and the records of a block with these rows. */
function readBack(rows: readonly Row[], times: readonly bigint[]): { keys: BlockKeys; records: BlockRecords } {
  const shapes = new Shapes()
  const writer = new BlockWriter(shapes)
  writer.begin(Buffer.concat(rows.map(({ bytes }) => bytes)))
  let at = 0
  for (const [entry, { bytes, group, id, trace }] of rows.entries()) {
    const [high, low] = [Number(times[entry]! >> 32n), Number(times[entry]! & 0xffff_ffffn)]
    const words = trace === null ? NO_TRACE : Uint32Array.from(trace)
    const end = at + bytes.byteLength
    writer.add(at, end, GROUPS[group]!, high, low, 7 * entry, words, 0, id && Uint32Array.from(id))
    at = end
  }
  const parts = writer.finish()
  const directory = new ByteWriter()
  shapes.write(directory)
  const read = Shapes.read(new ByteReader(directory.written()))
  const keys = new BlockKeys(parts.keys, rows.length, times[0]!)
  const texts = new BlockTexts(parts.texts, rows.length, read, {
    keys: () => keys,
    numbers: () => parts.numbers,
    values: () => parts.values,
  })
  return { keys, records: new BlockRecords(texts, keys, read, OWNER) }
}

describe('a block', () => {
  it('gives every record back byte for byte, whatever it is, with times, entries, ids and traces', () => {
    const row = fc.record({
      bytes: record,
      group: fc.nat(2),
      step: fc.oneof(fc.nat(1000).map(BigInt), fc.bigInt({ min: 0n, max: 2n ** 58n })),
      id: fc.option(fc.array(fc.nat(), { minLength: 4, maxLength: 4 }), { freq: 8 }),
      trace: fc.option(fc.array(fc.nat(), { minLength: 4, maxLength: 4 }), { freq: 8 }),
    })
    fc.assert(
      fc.property(fc.array(row, { minLength: 1, maxLength: 40 }), fc.boolean(), (rows, isReversed) => {
        let time = 0n
        const times = rows.map(({ step }) => (time += step))
        const { keys, records } = readBack(rows, times)
        // A record is the same, whichever records were made before it.
        const odd = Uint16Array.from(rows.keys()).filter((number) => number % 2 === 1)
        if (isReversed) for (const number of [...rows.keys()].reverse()) records.record(number)
        records.gather(odd, odd.length)
        for (let i = 0, before = -1; i < odd.length; i++) {
          const { recordStart, recordEnd } = records.placeOf(odd[i]!)
          assert(recordStart >= before)
          assert(rows[odd[i]!]!.bytes.equals(records.body.subarray(recordStart, recordEnd)))
          before = recordEnd
        }
        for (const [number, { bytes, group, id, trace }] of rows.entries()) {
          const stored = records.record(number)
          assert(bytes.equals(stored.record))
          assert.deepEqual(stored.resource, GROUPS[group]!.resource)
          assert.equal(Buffer.from(stored.resourceSchemaUrl).toString(), 'https://example.com/schema')
          const keyTime = (BigInt(keys.timeHigh[number]!) << 32n) | BigInt(keys.timeLow[number]!)
          assert.equal(keyTime, times[number])
          assert.equal(keys.entry[number], 7 * number)
          assert.deepEqual([...records.traceOf(number)], trace ?? [0, 0, 0, 0])
          if (id !== null) assert.deepEqual([...records.ids.of(number)], id)
          else assert.deepEqual(records.ids.of(number), records.ids.all().slice(4 * number, 4 * number + 4))
        }
      }),
      { numRuns: 150, seed },
    )
  })

  it('finds the rows of a trace, where its id stands in the record and where it does not', () => {
    const row = fc.record({
      number: fc.nat(3),
      isInRecord: fc.boolean(),
      severityText: fc.option(fc.string(), { nil: undefined }),
      traceBytes: fc.constantFrom(16, 15, 0),
    })
    fc.assert(
      fc.property(fc.array(row, { minLength: 1, maxLength: 40 }), (wanted) => {
        const rows = wanted.map(({ number, isInRecord, severityText, traceBytes }): Row => {
          const bytes = isInRecord ? 16 : traceBytes
          const traceId = Buffer.alloc(bytes, number)
          const encodedRecord = LogRecord.encode(LogRecord.fromObject({ severityText, traceId })).finish()
          const word = number * 0x01010101
          const hasTrace = isInRecord || number > 1
          return { bytes: Buffer.from(encodedRecord), group: 0, id: null, trace: hasTrace ? Array(4).fill(word) : null }
        })
        const { records } = readBack(
          rows,
          rows.map(() => 1n),
        )
        for (let number = 1; number <= 3; number++) {
          const words = Array(4).fill(number * 0x01010101)
          const its = [...rows.keys()].filter((each) => String(rows[each]!.trace) === String(words))
          assert.deepEqual(records.rowsOfTrace(Uint32Array.from(words)), its)
        }
      }),
      { numRuns: 100, seed },
    )
  })
})

describe('a record', () => {
  it('is cut by a shape that is known exactly if it has that shape, into the same values', () => {
    const other = fc.tuple(record, fc.option(fc.tuple(fc.nat(), fc.nat(255))))
    fc.assert(
      fc.property(record, fc.array(other, { minLength: 1, maxLength: 4 }), (first, others) => {
        const shapes = new Shapes()
        const [cut, byShape] = [new RecordCutter(), new RecordCutter()]
        cut.cut(first, 0, first.byteLength, ROOT_LOG)
        if (cut.isWhole) return
        const shape = shapes.all[shapes.numberOf(cut.shape, cut.shapeBytes)]!
        const changed = others.map(([bytes, change]) => {
          if (change === null) return bytes
          const copy = Buffer.from(first)
          if (copy.byteLength > 0) copy[change[0] % copy.byteLength] = change[1]
          return copy
        })
        for (const bytes of [first, ...changed]) {
          const source = Buffer.concat([Buffer.from('x'), bytes, first])
          const end = 1 + bytes.byteLength
          cut.cut(source, 1, end, ROOT_LOG)
          const isSame: boolean = !cut.isWhole && shape.bytes.equals(cut.shape.subarray(0, cut.shapeBytes))
          assert.equal(byShape.cutAs(shape.steps, shape.kinds, source, 1, end), isSame)
          if (!isSame) continue
          assert.equal(byShape.valueCount, cut.valueCount)
          assert.deepEqual(shape.kinds, cut.kinds.slice(0, cut.valueCount))
          for (const words of ['first', 'second'] as const)
            assert.deepEqual(byShape[words].slice(0, cut.valueCount), cut[words].slice(0, cut.valueCount))
        }
      }),
      { numRuns: 400, seed },
    )
  })
})

describe('a table of bytes', () => {
  it('has a number for each, in the order in which they came first', () => {
    const table = new ByteTable()
    const some = fc.oneof(
      fc.uint8Array({ maxLength: 3 }),
      fc.uint8Array({ maxLength: 40 }),
      fc.constant(new Uint8Array(9)),
    )
    fc.assert(
      fc.property(fc.array(some, { maxLength: 200 }), (each) => {
        table.clear()
        const numbers = new Map<string, number>()
        for (const bytes of each) {
          const key = Buffer.from(bytes).toString('hex')
          const source = Buffer.concat([Buffer.of(7), bytes, Buffer.of(9)])
          const end = 1 + bytes.byteLength
          assert.equal(table.find(source, 1, end), numbers.get(key) ?? -1)
          if (!numbers.has(key)) numbers.set(key, numbers.size)
          assert.equal(table.numberOf(source, 1, end), numbers.get(key))
        }
        assert.equal(table.count, numbers.size)
        for (const [key, number] of numbers)
          assert.equal(table.bytes.toString('hex', table.startOf(number), table.endOf(number)), key)
      }),
      { numRuns: 100, seed },
    )
  })
})

describe('columns', () => {
  it('of texts give each back, and have a form for what differs in numbers only', () => {
    const text = fc.oneof(
      fc.string({ unit: codePoint }),
      fc.string({ unit: fc.constantFrom('a', '1', '0', '-', '_', 'é', '\u0001', '\u0002', '\u0003', ' ') }),
      fc.tuple(fc.nat(), fc.nat()).map(([a, b]) => `order ${a} of c-${b}x in ${a % 7} ms`),
    )
    const used = new TextColumnWriter(Buffer.alloc(0))
    fc.assert(
      fc.property(fc.array(text, { maxLength: 60 }), fc.integer({ min: 1, max: 20 }), (some, times) => {
        const texts = Array.from({ length: times }, () => some).flat()
        const bytes = texts.map((each) => Buffer.from(each))
        const writer = times % 2 === 0 ? used : new TextColumnWriter(Buffer.alloc(0))
        writer.begin(Buffer.concat(bytes))
        let at = 0
        for (const { byteLength } of bytes) writer.add(at, (at += byteLength))
        const [head, values, into] = [new ByteWriter(), new ByteWriter(), new ByteWriter(1)]
        writer.writeHead(head)
        writer.writeValues(values)
        const column = new TextColumn(new ByteReader(head.written()), texts.length)
        column.readValues(new ByteReader(values.written()))
        for (let i = 0; i < texts.length; i++) column.writeValue(into, i)
        assert(Buffer.concat(bytes).equals(into.written()))
      }),
      { numRuns: 200, seed },
    )
    const lines = Array.from({ length: 50 }, (_, i) => Buffer.from(`GET /api/v1/orders/${i * 7} 200 in ${i} ms`))
    const writer = new TextColumnWriter(Buffer.concat(lines))
    let at = 0
    for (const { byteLength } of lines) writer.add(at, (at += byteLength))
    const head = new ByteWriter()
    writer.writeHead(head)
    assert.equal(new TextColumn(new ByteReader(head.written()), 50).formCount, 1)
  })

  it('of texts name the forms in which a text stands, and those of whole texts, without a look at the others', () => {
    const texts = Array.from({ length: 300 }, (_, i) => [
      `order ${i} of ${'abcdefgh'[i % 8]} was Paid`,
      `unpaid ${'abcdefgh'[i % 8]}`,
      'abc', // its length is the placeholder of a whole text
      'x'.repeat(200),
      `text ${i % 7 === 0 ? '\u0003' : 'paid'} ${i % 2}`,
    ]).flat()
    const source = Buffer.from(texts.join(''))
    const writer = new TextColumnWriter(source)
    let at = 0
    for (const text of texts) writer.add(at, (at += Buffer.byteLength(text)))
    const head = new ByteWriter()
    writer.writeHead(head)
    const column = new TextColumn(new ByteReader(head.written()), texts.length)
    assert(column.formCount > 16)
    for (const needle of ['paid', 'order', 'x', 'c', 'nothing']) {
      const wanted = Array.from({ length: column.formCount }, (_, form) => form).filter((form) => {
        const { bytes, kinds } = column.form(form)
        return kinds.includes(3) || bytes.toString('latin1').toLowerCase().includes(needle)
      })
      const found = column.formsThatMayHold(new ByteFinder(needle)).sort((a, b) => a - b)
      assert.deepEqual(found, wanted, needle)
    }
  })

  it('of numbers give each back', () => {
    const number = fc.oneof(fc.nat(300), fc.integer({ min: 0, max: 999_999_999_999_999 }))
    fc.assert(
      fc.property(fc.array(number), fc.array(fc.tuple(fc.nat(0xffff_ffff), fc.nat(0xffff_ffff))), (numbers, pairs) => {
        const into = new ByteWriter(1)
        writeNumbers(into, Float64Array.from(numbers), numbers.length)
        const words = new WordPairs(1)
        for (const [high, low] of pairs) words.add(high, low)
        writePairs(into, words)
        const from = new ByteReader(into.written())
        assert.deepEqual([...readNumbers(from, numbers.length)], numbers)
        const { high, low } = readPairs(from, pairs.length)
        assert.deepEqual(
          pairs.map((_, i) => [high[i], low[i]]),
          pairs,
        )
      }),
      { numRuns: 300, seed },
    )
  })

  it('of lengths say where each thing ends, and how long all are', () => {
    const length = fc.oneof(fc.nat(3), fc.nat(300), fc.nat(70_000))
    fc.assert(
      fc.property(fc.oneof(fc.array(length), fc.array(fc.constant(16))), (lengths) => {
        const into = new ByteWriter(1)
        writeNumbers(into, Float64Array.from(lengths), lengths.length)
        const from = new ByteReader(into.written())
        let end = 0
        assert.deepEqual([...readEnds(from, lengths.length)], [0, ...lengths.map((each) => (end += each))])
        assert.equal(from.at, into.at)
        from.at = 0
        assert.equal(sumNumbers(from, lengths.length), end)
        assert.equal(from.at, into.at)
      }),
      { numRuns: 200, seed },
    )
  })
})
