import assert from 'node:assert/strict'
import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { AcknowledgedBatches } from '../../../bench/load/logstore/acknowledged-batches.ts'
import { BatchNumbers, BatchSource, datasetName } from '../../../bench/load/logstore/batch-source.ts'
import type { Encoding, Format } from '../../../bench/load/logstore/batch-source.ts'
import { Ids } from '../../../bench/load/logstore/ids.ts'
import { buildTemplate } from '../../../bench/load/logstore/service.ts'
import { Random } from '../../../bench/load/random.ts'
import { readBatch } from './otlp-types.ts'
import type { SentBatch } from './otlp-types.ts'

const START_US = 1_790_000_000_999_990 // the second changes within the first batch

const ACCEPTED = { status: 200, retryAfterSeconds: null, contentType: '', keepAlive: true, body: Buffer.alloc(0) }

interface Plan {
  readonly signal: 'logs' | 'traces'
  readonly format: Format
  readonly batchRecords?: number
  readonly recordBytes?: number
  readonly recordsPerTrace?: number
  readonly datasets?: number
  readonly encoding?: Encoding
  readonly sources?: number
  readonly rounds?: number
}

/** Batches as the connections would send them, in the order in which they are built. */
async function send(plan: Plan): Promise<{ batches: SentBatch[]; bodies: Buffer[]; ids: Ids }> {
  const { signal, format, batchRecords = 20, recordBytes = 380, recordsPerTrace = 8, datasets = 1 } = plan
  const { encoding = 'identity', sources = 2, rounds = 3 } = plan
  const ids = new Ids(7)
  const numbers = new BatchNumbers(
    batchRecords,
    recordsPerTrace,
    (number) => datasetName('shop', datasets, number),
    () => START_US, // the clock stands still, but times must increase
  )
  const connections = Array.from({ length: sources }, (_, connection) => {
    const random = new Random(connection)
    const numbered = datasets > 1
    const shape = { signal, format, batchRecords, recordBytes, recordsPerTrace, numbered, random }
    return new BatchSource({
      template: buildTemplate({ ...shape, tenant: 'acme', dataset: 'shop' }),
      format,
      encoding,
      recordsPerTrace,
      datasets,
      ids,
      numbers,
      acknowledged: new AcknowledgedBatches(0, random, null),
      headFor: (bytes) => Buffer.from(`POST / HTTP/1.1\r\ncontent-length: ${bytes}\r\n\r\n`),
    })
  })
  const bodies: Buffer[] = []
  for (let round = 0; round < rounds; round++) {
    for (const connection of connections) {
      const { head, body } = await connection.next()
      assert(body !== null)
      assert.equal(head.toString(), `POST / HTTP/1.1\r\ncontent-length: ${body.byteLength}\r\n\r\n`)
      const payload =
        encoding === 'gzip' ? gunzipSync(body) : encoding === 'zstd' ? zstdDecompressSync(body) : Buffer.from(body)
      assert.deepEqual(connection.succeeded(ACCEPTED), {
        units: batchRecords,
        payloadBytes: payload.byteLength,
        bodyBytes: body.byteLength,
        refused: [],
      })
      bodies.push(payload)
    }
  }
  return { batches: bodies.map((body) => readBatch(signal, format, body)), bodies, ids }
}

const plans = fc.record({
  signal: fc.constantFrom('logs' as const, 'traces' as const),
  format: fc.constantFrom('protobuf' as const, 'json' as const),
  batchRecords: fc.integer({ min: 1, max: 40 }),
  recordBytes: fc.integer({ min: 120, max: 2000 }),
  recordsPerTrace: fc.integer({ min: 1, max: 50 }),
  datasets: fc.integer({ min: 1, max: 3 }),
  encoding: fc.constantFrom('identity' as const, 'gzip' as const, 'zstd' as const),
})

describe('the batches of a run', () => {
  it('are valid OTLP in which no record, id or time comes twice, on any connection', async () => {
    await fc.assert(
      fc.asyncProperty(plans, async (plan) => {
        const { batches, ids } = await send(plan)
        const records = batches.flatMap((batch) => batch.records)
        assert.equal(records.length, 6 * plan.batchRecords)
        assert.equal(new Set(records.map((record) => record.spanId)).size, records.length)
        assert.equal(new Set(records.map((record) => record.text)).size, records.length)
        for (const [index, record] of records.entries()) {
          if (index > 0) assert(record.timeNs > records[index - 1]!.timeNs)
          assert(record.secondTimeNs >= record.timeNs)
          assert.equal(record.spanId, ids.spanIdHex(index))
          assert(record.text.includes(String(index).padStart(12, '0')))
        }
        for (const [number, batch] of batches.entries()) {
          assert.equal(batch.tenant, 'acme')
          assert.equal(batch.dataset, datasetName('shop', plan.datasets, number))
        }
      }),
      { numRuns: 60 },
    )
  })

  it('group neighbouring records into traces that have one root each and never span two batches', async () => {
    await fc.assert(
      fc.asyncProperty(plans, async (plan) => {
        const { batches, ids } = await send({ ...plan, signal: 'traces' })
        const tracesPerBatch = Math.ceil(plan.batchRecords / plan.recordsPerTrace)
        for (const [number, { records }] of batches.entries()) {
          for (const [index, record] of records.entries()) {
            const traceInBatch = Math.floor(index / plan.recordsPerTrace)
            const root = records[traceInBatch * plan.recordsPerTrace]!
            assert.equal(record.traceId, ids.traceIdHex(number * tracesPerBatch + traceInBatch))
            assert.equal(record.parentSpanId, record === root ? '' : root.spanId)
          }
        }
      }),
      { numRuns: 30 },
    )
  })

  it('say the same in JSON as in protobuf', async () => {
    for (const signal of ['logs', 'traces'] as const) {
      const protobuf = await send({ signal, format: 'protobuf', datasets: 2 })
      const json = await send({ signal, format: 'json', datasets: 2 })
      assert.deepEqual(json.batches, protobuf.batches)
    }
  })

  it('have records of the size asked for on the average, in protobuf', async () => {
    for (const signal of ['logs', 'traces'] as const) {
      for (const recordBytes of [160, 380, 1500]) {
        const { bodies } = await send({ signal, format: 'protobuf', recordBytes, batchRecords: 512, rounds: 1 })
        for (const body of bodies) {
          const meanBytes = body.byteLength / 512
          assert(Math.abs(meanBytes / recordBytes - 1) < 0.04, `${signal}: ${meanBytes} instead of ${recordBytes}`)
        }
      }
    }
  })

  it('carry eight attributes at the usual size, with integers and doubles among them', async () => {
    const { batches } = await send({ signal: 'logs', format: 'protobuf' })
    const types = JSON.stringify(batches[0]?.records[0]?.attributes)
    assert.match(types, /"http\.response\.status_code",\[\["intValue"/)
    assert.match(types, /"http\.server\.request\.duration",\[\["doubleValue"/)
  })
})

describe('ids', () => {
  it('differ for different numbers, and for different seeds', () => {
    const number = fc.integer({ min: 0, max: 2 ** 45 })
    fc.assert(
      fc.property(number, number, fc.nat(), (one, other, seed) => {
        fc.pre(one !== other)
        const ids = new Ids(seed)
        assert.notEqual(ids.traceIdHex(one), ids.traceIdHex(other))
        assert.notEqual(ids.spanIdHex(one), ids.spanIdHex(other))
        assert.notEqual(ids.traceIdHex(one), new Ids(seed + 1).traceIdHex(one))
      }),
    )
  })
})
