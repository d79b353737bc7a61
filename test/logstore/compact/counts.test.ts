import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { FORMAT_PROTOBUF, SIGNAL_LOG, SIGNAL_TRACE } from '../../../src/logstore/batch-frame.ts'
import { parseSearch } from '../../../src/logstore/search/parse.ts'
import { blockCountsOf, UNKNOWN } from '../../../src/logstore/compact/block-counts.ts'
import { ByteReader } from '../../../src/logstore/compact/byte-reader.ts'
import { ByteWriter } from '../../../src/logstore/compact/byte-writer.ts'
import { CompactIndex } from '../../../src/logstore/compact/compact-index.ts'
import { PieceCache } from '../../../src/logstore/compact/piece-cache.ts'
import type { Piece } from '../../../src/logstore/compact/pieces.ts'
import { ListedTokens, TokenCounts, writeTokenCounts } from '../../../src/logstore/compact/token-counts.ts'
import { TokenTable } from '../../../src/logstore/compact/token-table.ts'
import { keyHashOf, pairHash, wordHash } from '../../../src/logstore/compact/token-filter.ts'
import { ColumnTokens } from '../../../src/logstore/compact/column-tokens.ts'
import { TextColumnWriter } from '../../../src/logstore/compact/text-column-writer.ts'
import { messageType } from '../../../src/logstore/query/render/otlp-types.ts'
import { nodeFiles } from '../../../src/log/node-files.ts'
import { STAND_IN_NAME } from '../../../src/log/stand-in.ts'
import { zstdDecompressSync } from 'node:zlib'
import { parseHistogramRequest } from '../../../src/logstore/survey/request.ts'
import { mulberry32 } from '../../support/sim-files.ts'
import { testSeed } from '../../support/seed.ts'
import { TestStore } from '../../support/stored-segments.ts'

const LOGS = messageType('opentelemetry.proto.collector.logs.v1.ExportLogsServiceRequest')
const TRACES = messageType('opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest')
const WORDS = ['order', 'Paid', 'a', '17', 'c17x', 'naïve', 'na', 've', 'ORDER', '007', 'x_1', 'é5', '5']
const VALUES = ['shop-1', 'Shop-1', 'shop-2', 'order', '17', 'true', 'größe', '']

/** Logs and spans whose attributes are texts and numbers: what services send. */
function fill(store: TestStore, random: () => number, batches: number): void {
  const pick = <Item>(items: readonly Item[]): Item => items[Math.floor(random() * items.length)]!
  const text = () =>
    Array.from({ length: 1 + Math.floor(random() * 4) }, () => pick(WORDS)).join(pick([' ', '-', ', ']))
  const attributes = () =>
    Array.from({ length: Math.floor(random() * 3) }, () => ({
      key: pick(['pod', 'zone', 'n', 'a.b']),
      value: random() < 0.8 ? { stringValue: pick(VALUES) } : { intValue: '17' },
    }))
  for (let batch = 0; batch < batches; batch++) {
    const isLogs = batch % 3 !== 2
    const time = (i: number): string => String(1000 + batch * 10 + i)
    const records = Array.from({ length: 20 }, (_, i) =>
      isLogs
        ? {
            timeUnixNano: time(i),
            severityNumber: 1 + Math.floor(random() * 24),
            body: { stringValue: text() },
            attributes: attributes(),
          }
        : {
            startTimeUnixNano: time(i),
            endTimeUnixNano: time(i + 1),
            traceId: Buffer.alloc(16, 3),
            spanId: Buffer.alloc(8, 7),
            name: text(),
            attributes: attributes(),
          },
    )
    const resource = { attributes: [{ key: 'pod', value: { stringValue: pick(VALUES) } }, ...attributes()] }
    const scope = { name: 'app', attributes: attributes() }
    const message = isLogs
      ? { resourceLogs: [{ resource, scopeLogs: [{ scope, logRecords: records }] }] }
      : { resourceSpans: [{ resource, scopeSpans: [{ scope, spans: records }] }] }
    const type = isLogs ? LOGS : TRACES
    const body = Buffer.from(type.encode(type.fromObject(message)).finish())
    store.addBody('acme', body, isLogs ? SIGNAL_LOG : SIGNAL_TRACE, FORMAT_PROTOBUF, ['orders'])
  }
  store.seal()
  store.publish()
}

const SEARCHES = [
  ...WORDS.map((word) => word),
  ...['pod', 'zone', 'n', 'a.b', 'nowhere'].flatMap((key) => VALUES.map((value) => `${key}:"${value}"`)),
  'resource.attributes.pod:shop-1',
  'attributes.pod:shop-1',
  'scope.attributes.zone:shop-2',
  'severity:>=warn',
  'severity:error',
  'severity:<debug',
  'severity:3',
]

describe('what a compacted bundle counts', () => {
  it('is what a search in every record counts, on every page and in every bucket', (context) => {
    const plain = TestStore.open(context)
    const compacted = TestStore.open(context)
    for (const store of [plain, compacted]) fill(store, mulberry32(testSeed()), 30)
    compacted.compact()
    for (const search of SEARCHES) {
      for (const order of ['asc', 'desc']) {
        for (const filter of [{ search }, { search, start_time_unix_nano: 1043, end_time_unix_nano: 1204 }]) {
          const question = { dataset: 'orders', filter, order, page: { limit: 1 } }
          assert.deepEqual(compacted.query('acme', question), plain.query('acme', question), search)
        }
      }
    }
  })

  it('is what a histogram by severity counts, whole or part of a bucket, without the values of the block', (context) => {
    const plain = TestStore.open(context)
    const compacted = TestStore.open(context)
    for (const store of [plain, compacted]) fill(store, mulberry32(testSeed()), 30)
    compacted.compact()
    const path = `${compacted.directoryOf(0)}/${STAND_IN_NAME}`
    const file = nodeFiles.open(path, 'read')
    const { blocks } = new CompactIndex(file, 0, new PieceCache(1 << 20))
    file.close()
    assert(blocks.every(({ severityRows }) => severityRows !== null))
    const bytes = readFileSync(path)
    for (const { values } of blocks) bytes.fill(0, values.at, values.at + values.bytes)
    writeFileSync(path, bytes)
    const answerOf = (store: TestStore, body: object): unknown => {
      const request = parseHistogramRequest(Buffer.from(JSON.stringify(body)))
      if ('message' in request) throw new Error(request.message)
      const answer = store.askSurvey('acme', request)
      if (answer.kind !== 'ok') throw new Error(answer.message)
      return JSON.parse(Buffer.from(answer.body).toString())
    }
    for (const search of [null, '*', 'severity:>=warn', 'signal:log'])
      for (const width of [{ buckets: 1 }, { buckets: 7 }, { interval_nano: '1000000' }]) {
        const body = { dataset: 'orders', filter: { search }, ...width, split_by: 'severity' }
        assert.deepEqual(answerOf(compacted, body), answerOf(plain, body))
      }
  })

  it('needs no look at the block for words, attributes and severities that are frequent', (context) => {
    const store = TestStore.open(context)
    fill(store, mulberry32(testSeed()), 30)
    store.compact()
    const file = nodeFiles.open(`${store.directoryOf(0)}/${STAND_IN_NAME}`, 'read')
    context.after(() => file.close())
    const index = new CompactIndex(file, 0, new PieceCache(1 << 20))
    const countOf = (text: string) => blockCountsOf(parseSearch(text))?.(index)(index.blocks[0]!) ?? null
    const matched = (search: string) => store.query('acme', { dataset: 'orders', filter: { search } }).matched_records
    assert.equal(index.blocks.length, 1)
    for (const search of ['order', 'c17x', 'x_1', 'pod:shop-1', 'zone:order', 'severity:>=error', 'severity:3'])
      assert.equal(countOf(search), matched(search), search)
    // Words beside characters beyond ASCII, values that may be taken for numbers, and words that are not frequent.
    for (const search of ['na', '5', 'n:17', 'pod:true', 'nothing'])
      assert.equal(countOf(search) ?? UNKNOWN, UNKNOWN, search)
    for (const search of ['order paid', '"order paid"', 'ord*', '-order', 'attributes.pod:shop-1'])
      assert.equal(countOf(search), null)
  })
})

describe('severities of a block', () => {
  /** A length-delimited field of fewer than 128 bytes. */
  const field = (number: number, bytes: Buffer): Buffer =>
    Buffer.concat([Buffer.of((number << 3) | 2, bytes.byteLength), bytes])
  const severities = (...numbers: readonly number[]): Buffer =>
    Buffer.concat(numbers.map((number) => Buffer.of(2 << 3, number)))

  it('are those of their own rows behind a record that says its severity twice, of which the last counts', (context) => {
    const store = TestStore.open(context)
    const logs = [[9], [9, 17], [13], [21], []].map((numbers) => field(2, severities(...numbers)))
    const body = field(1, field(2, Buffer.concat(logs)))
    store.addBody('acme', body, SIGNAL_LOG, FORMAT_PROTOBUF, ['orders'])
    store.seal()
    store.publish()
    store.compact()
    const matched = (search: string) => store.query('acme', { dataset: 'orders', filter: { search } }).matched_records
    const names = ['info', 'warn', 'error', 'fatal', '>=warn']
    assert.deepEqual(
      names.map((name) => matched(`severity:${name}`)),
      [1, 1, 1, 1, 3],
    )
  })
})

describe('a bit that flipped in what a bundle counts', () => {
  it('is a refusal or changes no answer', (context) => {
    const store = TestStore.open(context)
    fill(store, mulberry32(testSeed()), 12)
    store.compact()
    const searches = ['order', 'c17x', 'pod:shop-1', 'zone:order', 'severity:>=error', '17', '"order 17"', 'nothing']
    const ask = () =>
      searches.map((search) => {
        const answer = store.ask('acme', { dataset: 'orders', filter: { search }, page: { limit: 1 } })
        return answer.kind === 'ok' ? Buffer.from(answer.body).toString() : answer.kind
      })
    const expected = ask()
    const path = `${store.directoryOf(0)}/${STAND_IN_NAME}`
    const whole = readFileSync(path)
    const random = mulberry32(testSeed())
    let refused = 0
    for (let round = 0; round < 150; round++) {
      const damaged = Buffer.from(whole)
      damaged[Math.floor(random() * whole.byteLength)]! ^= 1 << Math.floor(random() * 8)
      const file = nodeFiles.open(path, 'write')
      file.writev([damaged], 0)
      file.close()
      store.restart()
      for (const [number, answer] of ask().entries()) {
        if (answer === 'bundle_read_failed') refused++
        else assert.equal(answer, expected[number])
      }
    }
    assert(refused > 150, `${refused} refused`)
  })
})

describe('counts of tokens', () => {
  it('are found again, in however many pieces', () => {
    const token = fc.string({ unit: fc.constantFrom('a', 'b', '1', '_', '\u0001', '\0', 'Z'), maxLength: 5 })
    const counts = fc.dictionary(token, fc.uniqueArray(fc.nat(299), { minLength: 1, maxLength: 20 }), { maxKeys: 60 })
    fc.assert(
      fc.property(counts, token, (byToken, other) => {
        const expected = new Map(
          Object.entries(byToken).map(([key, blocks]) => [key, blocks.toSorted((a, b) => a - b)]),
        )
        const directory = new ByteWriter()
        const listed = new ListedTokens()
        for (let block = 0; block < 300; block++)
          for (const [key, blocks] of expected) if (blocks.includes(block)) listed.add(key, block, block + 2)
        const pieces = writeTokenCounts(directory, listed)
        const stored: Buffer[] = pieces.map(({ bytes, rawBytes }) => (rawBytes > 0 ? zstdDecompressSync(bytes) : bytes))
        let next = 0
        const place = (piece: Piece): Piece => ({ ...piece, at: next++ })
        const read = new TokenCounts(new ByteReader(directory.written()), 300, place)
        for (const key of [...expected.keys(), other]) {
          const found = read.of(key, ({ at }) => stored[at]!)
          const rows = expected.get(key)
          if (rows === undefined) assert.equal(found, null)
          else
            assert.deepEqual(
              [...found!].flatMap((count, block) => (count > 0 ? [block] : [])),
              rows,
            )
          for (const block of rows ?? []) assert.equal(found![block], block + 2)
        }
      }),
      { numRuns: 60, seed: testSeed() },
    )
    const many = new ListedTokens()
    for (let i = 0; i < 9000; i++) many.add(`token${i}`, i % 100, 3)
    assert.equal(many.count, 9000)
    const directory = new ByteWriter()
    assert(writeTokenCounts(directory, many).length > 5)
  })

  it('are those of all words and pairs, whichever texts came before', () => {
    const word = fc.constantFrom(...WORDS, 'x'.repeat(70), '\u0002')
    const text = fc.array(word, { maxLength: 5 }).map((words) => words.join(' '))
    const key = { number: 1, text: 'key', hash: keyHashOf('key') }
    const column = new TextColumnWriter(Buffer.alloc(0))
    const [counted, expected] = [new TokenTable(), new TokenTable()]
    const tokens = new ColumnTokens(counted, true, () => key)
    fc.assert(
      fc.property(fc.array(text, { maxLength: 60 }), fc.nat(600), fc.boolean(), (texts, unique, isMixed) => {
        for (const each of [counted, expected, tokens]) each.clear()
        const others = Array.from({ length: unique }, (_, i) => `order ${i} of c${i}x`)
        const all = isMixed ? [...texts, ...others, ...texts] : [...others, ...texts, ...texts]
        const source = Buffer.from(all.join(''))
        column.begin(source)
        let at = 0
        for (const [i, { length }] of all.map((each) => Buffer.from(each)).entries()) {
          const [start, row] = [at, i >> 1]
          at += length
          column.add(start, at)
          tokens.add(column, source, start, at, row)
          expected.countWords(source, start, at, row)
          if (source.subarray(start, at).every((byte) => byte < 128))
            expected.count(pairHash(key.hash, source, start, at), 1, source, start, at, row)
        }
        assert.deepEqual(counted.listed(10_000), expected.listed(10_000))
        assert(counted.filter().equals(expected.filter()))
      }),
      { numRuns: 60, seed: testSeed() },
    )
  })

  it('are those of one block alone, however many tokens the blocks before it had', () => {
    const used = new TokenTable()
    const fill = (table: TokenTable, hashes: readonly number[]): void => {
      for (const row of [0, 1]) {
        for (const hash of hashes) {
          const text = Buffer.from(`t${hash}`)
          table.count(hash, 0, text, 0, text.byteLength, row)
        }
      }
    }
    const many = Array.from({ length: 30_000 }, (_, i) => i + 1)
    const near = fc.integer({ min: 0, max: 40 }) // these share slots, so that one is found behind another
    const far = fc.integer({ min: 1, max: 50 }).map((i) => 2 ** 16 * i + (i % 3))
    fc.assert(
      fc.property(fc.array(fc.oneof(near, far), { maxLength: 80 }), fc.boolean(), (hashes, isBehindLarge) => {
        if (isBehindLarge) fill(used, many)
        used.clear()
        const fresh = new TokenTable()
        for (const table of [used, fresh]) fill(table, hashes)
        assert.deepEqual(used.listed(1000), fresh.listed(1000))
        assert.deepEqual(used.filter(), fresh.filter())
      }),
      { numRuns: 60, seed: testSeed() },
    )
  })

  it('are none of two tokens with one hash, and none of long ones', () => {
    const table = new TokenTable()
    const count = (text: string, row: number, hash: number, attribute = 0) => {
      const bytes = Buffer.from(text)
      table.count(hash, attribute, bytes, 0, bytes.byteLength, row)
    }
    const hash = wordHash(Buffer.from('one'), 0, 3)
    for (const row of [0, 1, 1, 2]) count('One', row, hash)
    assert.deepEqual(table.listed(10), [{ attribute: 0, text: 'one', rows: 3 }])
    count('two', 3, hash)
    for (const row of [0, 1]) count('x'.repeat(65), row, 7)
    for (const row of [0, 1]) count('same', row, 8, 1)
    count('same', 2, 8, 2)
    assert.deepEqual(table.listed(10), [])
    table.clear()
    for (let i = 0; i < 40_000; i++) count(`${i}`, i >> 1, 1000 + i)
    for (let i = 0; i < 40_000; i += 100) count(`${i}`, 50_000, 1000 + i)
    assert.equal(table.listed(1_000).length, 400)
    assert.equal(table.listed(7).length, 7)
    table.clear()
    for (const row of [0, 1]) count('new', row, 3)
    assert.deepEqual(table.listed(10), [{ attribute: 0, text: 'new', rows: 2 }], 'none of the blocks before')
  })
})
