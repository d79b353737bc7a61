/**
 * What do the ids of one batch of 512 records (about 380 B each) cost: in one call for the batch, or one call of node:crypto a
 * record? `--smoke` runs each case once, so that CI catches rot.
 */
import { hash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { Bench } from 'tinybench'
import { BatchHasher, HEAD_BYTES } from '../native-free-codecs/blake2s.ts'
import { RECORDS_PER_BATCH_MAX } from '../native-free-codecs/otlp-batch.ts'

const smoke = process.argv.includes('--smoke')
const bench = new Bench({
  name: 'ids of one batch of 512 records',
  ...(smoke && { time: 0, iterations: 1, warmup: false }),
})

const recordStart = new Uint32Array(RECORDS_PER_BATCH_MAX)
const recordEnd = new Uint32Array(RECORDS_PER_BATCH_MAX)
let bodyBytes = 0
for (let i = 0; i < RECORDS_PER_BATCH_MAX; i++) {
  recordStart[i] = bodyBytes
  bodyBytes += 340 + ((i * 7919) % 81)
  recordEnd[i] = bodyBytes
}
const shared = Buffer.from(new SharedArrayBuffer(bodyBytes)) // where a batch is at ingest
for (let i = 0; i < bodyBytes; i++) shared[i] = Math.imul(i, 0x9e37_79b1) >>> 24

const oneHead = Buffer.alloc(HEAD_BYTES, 'head')
const headOfAll = new Uint16Array(RECORDS_PER_BATCH_MAX)
const ownHeads = Buffer.alloc(HEAD_BYTES * RECORDS_PER_BATCH_MAX, oneHead)
const headOfOne = Uint16Array.from(headOfAll, (_, i) => i)

const ids = new Uint32Array(4 * RECORDS_PER_BATCH_MAX)
const hasher = new BatchHasher()

function batchHasher(): void {
  hasher.idsInto(ids, shared, recordStart, recordEnd, headOfAll, oneHead, 1, RECORDS_PER_BATCH_MAX)
}
function batchHasherOwnHeads(): void {
  hasher.idsInto(ids, shared, recordStart, recordEnd, headOfOne, ownHeads, RECORDS_PER_BATCH_MAX, RECORDS_PER_BATCH_MAX)
}
/** One call of node:crypto a record, the way that costs least: the message put together in one buffer, the digest as text. */
const scratch = Buffer.concat([oneHead, Buffer.alloc(1024)])
const messages = Array.from(recordStart, (start, i) => scratch.subarray(0, HEAD_BYTES + recordEnd[i]! - start))
function oneByOne(algorithm: 'sha256' | 'blake2s256'): void {
  for (let i = 0; i < RECORDS_PER_BATCH_MAX; i++) {
    shared.copy(scratch, HEAD_BYTES, recordStart[i], recordEnd[i])
    const digest = hash(algorithm, messages[i]!, 'binary')
    for (let word = 0; word < 4; word++) {
      ids[4 * i + word] =
        (digest.charCodeAt(4 * word) << 24) |
        (digest.charCodeAt(4 * word + 1) << 16) |
        (digest.charCodeAt(4 * word + 2) << 8) |
        digest.charCodeAt(4 * word + 3)
    }
  }
}
const sha256 = (): void => oneByOne('sha256')
const blake2s256 = (): void => oneByOne('blake2s256')

/** Same records, same number: an "optimisation" that changes an id shows here. */
function checksum(): number {
  let sum = 0
  for (const identify of [batchHasher, batchHasherOwnHeads, sha256, blake2s256]) {
    identify()
    sum = crc32(new Uint8Array(ids.buffer), sum)
  }
  return sum
}

const expected = checksum()

bench.add('BatchHasher', batchHasher)
bench.add('BatchHasher, a head for each record', batchHasherOwnHeads)
bench.add('sha256, one by one', sha256)
bench.add('blake2s256, one by one', blake2s256)
await bench.run()

const medianMs = (name: string): number => {
  const result = bench.getTask(name)?.result
  return result && 'latency' in result ? result.latency.p50 : Number.NaN
}

console.table(
  bench.tasks.map(({ name }) => ({
    case: name,
    'µs / batch': Math.round(medianMs(name) * 1000),
    'ns / record': Math.round((medianMs(name) * 1e6) / RECORDS_PER_BATCH_MAX),
  })),
)
console.log({
  node: process.version,
  checksum: expected,
  bytesPerRecord: Math.round(bodyBytes / RECORDS_PER_BATCH_MAX),
  sha256OverBatchHasher: (medianMs('sha256, one by one') / medianMs('BatchHasher')).toFixed(2),
})
