/**
 * What do the digests of a body cost, a body of 4 KiB, a chunk of 64 KiB and a large piece? And is there a reason to prefer tables
 * in plain JavaScript, eight bytes a step, to the CRCs of native-free-codecs/crc.ts? `--smoke` runs each case once, so that CI
 * catches rot.
 */
import { atOnce } from '../src/steps.ts'
import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { Bench } from 'tinybench'
import { crc32 as ownCrc32 } from '../native-free-codecs/crc32.ts'
import { crc32c } from '../native-free-codecs/crc32c.ts'
import { crc64nvme } from '../native-free-codecs/crc64nvme.ts'
import { MD5_LANES, Md5Hasher, Md5Message } from '../native-free-codecs/md5.ts'
import { BodyDigests } from '../src/objectstore/bodies/incremental-digests.ts'
import { objectChecksum } from '../src/objectstore/s3/multipart/multipart-checksums.ts'

const smoke = process.argv.includes('--smoke')
const bench = new Bench({ name: 'digests', time: 200, ...(smoke && { time: 0, iterations: 1, warmup: false }) })

const TABLES = 8
const remainders = Int32Array.from({ length: TABLES * 256 }, () => 0)
for (let i = 0; i < 256; i++) {
  let remainder = i
  for (let bit = 0; bit < 8; bit++) remainder = (remainder >>> 1) ^ (remainder & 1 ? 0x82f6_3b78 : 0)
  remainders[i] = remainder
}
for (let i = 256; i < TABLES * 256; i++) {
  remainders[i] = (remainders[i - 256]! >>> 8) ^ remainders[remainders[i - 256]! & 0xff]!
}

/** CRC32C in plain JavaScript, of a multiple of eight bytes. */
function crc32cByTables(bytes: Buffer): number {
  const words = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)
  const t = remainders
  let crc = -1
  for (let i = 0; i < words.length; i += 2) {
    const a = crc ^ words[i]!
    const b = words[i + 1]!
    crc =
      t[1792 + (a & 0xff)]! ^
      t[1536 + ((a >>> 8) & 0xff)]! ^
      t[1280 + ((a >>> 16) & 0xff)]! ^
      t[1024 + (a >>> 24)]! ^
      t[768 + (b & 0xff)]! ^
      t[512 + ((b >>> 8) & 0xff)]! ^
      t[256 + ((b >>> 16) & 0xff)]! ^
      t[b >>> 24]!
  }
  return ~crc >>> 0
}

/** What every PUT pays: an ETag, and the checksum that is kept when none was sent. */
function ofPut(bytes: Buffer): string {
  const digests = new BodyDigests({ checksums: ['CRC64NVME'], sha256: false })
  digests.update(bytes)
  return digests.finish().md5
}

const hasher = new Md5Hasher()

/** So many messages, each of the bytes. */
const md5Of = (messages: number) => (bytes: Buffer) => {
  const updates = Array.from({ length: messages }, () => ({ message: new Md5Message(), bytes }))
  hasher.update(updates)
  return hasher.digests(updates.map(({ message }) => message)).map((digest) => digest.toString('hex'))
}

const hashed = (name: string) => (bytes: Buffer) => createHash(name).update(bytes).digest('hex')

/** What is measured, and how many times it digests the bytes it is given. */
const digests: readonly (readonly [name: string, digest: (bytes: Buffer) => unknown, times?: number])[] = [
  ['CRC64NVME', (bytes) => crc64nvme(bytes)],
  ['CRC32C', (bytes) => crc32c(bytes)],
  ['CRC32C by tables in JavaScript', crc32cByTables],
  ['CRC32', (bytes) => ownCrc32(bytes)],
  ['CRC32 of node:zlib', (bytes) => crc32(bytes)],
  ['MD5 of node:crypto', hashed('md5')],
  ...Array.from({ length: MD5_LANES }, (_, i) => [`MD5 of ${i + 1} at a time`, md5Of(i + 1), i + 1] as const),
  ['SHA1', hashed('sha1')],
  ['SHA256', hashed('sha256')],
  ['MD5 and CRC64NVME, as of a PUT', ofPut],
]
const sizes = [4 << 10, 64 << 10, 1 << 20]

const body = Buffer.from(new ArrayBuffer(sizes.at(-1)!))
for (let i = 0; i < body.length; i++) body[i] = Math.imul(i, 0x9e37_79b1) >>> 24

let checksum = 0 // same bytes, same number: an "optimisation" that changes a digest shows here
for (const [name, digest] of digests) {
  for (const size of sizes) {
    const bytes = body.subarray(0, size)
    checksum = crc32(String(digest(bytes)), checksum)
    bench.add(`${name}, ${size}`, () => void digest(bytes))
  }
}

const upload = { algorithm: 'CRC64NVME', type: 'FULL_OBJECT', isChosen: false } as const
const parts = Array.from({ length: 100 }, (_, i) => ({ value: `rosUhgp5mI${i % 10}=`, bytes: 5 << 20 }))
checksum = crc32(atOnce(objectChecksum(upload, parts)).value, checksum)
bench.add('combine', () => void atOnce(objectChecksum(upload, parts)))

await bench.run()

const medianMs = (name: string): number => {
  const result = bench.getTask(name)?.result
  return result && 'latency' in result ? result.latency.p50 : Number.NaN
}

console.table(
  digests.map(([name, , times = 1]) => ({
    digest: name,
    ...Object.fromEntries(
      sizes.map((size) => [
        `GB/s of ${size >> 10} KiB`,
        ((times * size) / medianMs(`${name}, ${size}`) / 1e6).toFixed(2),
      ]),
    ),
  })),
)
console.log({
  node: process.version,
  checksum,
  'µs to combine the CRC64NVME of 100 parts': Math.round(medianMs('combine') * 1000),
})
