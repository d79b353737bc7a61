/**
 * What does a message cost on a ring: in one thread, where neither side sleeps, and between two threads, by ring size? `--smoke` runs
 * each case once, so that CI catches rot.
 */
import { Piscina } from 'piscina'
import { Bench } from 'tinybench'
import { SpscRing } from '../src/pipeline/spsc-ring.ts'
import type { RingEndReport, RingEndTask } from '../test/support/ring-end.ts'

const smoke = process.argv.includes('--smoke')
let checksum = 0 // same messages, same number

function pass(ring: SpscRing, messageBytes: number): number {
  for (let i = 0; i < 64; i++) {
    const at = ring.tryReserve(messageBytes)
    ring.bytes[at] = i
    ring.publish()
  }
  let sum = 0
  for (let at = ring.next(); at >= 0; at = ring.next()) sum += ring.bytes[at]! + ring.messageBytes
  ring.release()
  return sum
}

const bench = new Bench({ name: 'ring, one thread', ...(smoke && { time: 0, iterations: 1, warmup: false }) })
for (const messageBytes of [16, 64, 1024]) {
  const ring = SpscRing.create(1 << 20)
  checksum += pass(ring, messageBytes)
  bench.add(`64 messages of ${messageBytes} B`, () => {
    pass(ring, messageBytes)
  })
}
await bench.run()
console.table(bench.table())

const pool = new Piscina<{ data: RingEndTask }, RingEndReport>({
  filename: new URL('../test/support/ring-end.ts', import.meta.url).pathname,
  minThreads: 2,
  maxThreads: 2,
})
const messages = smoke ? 1000 : 500_000
const rows: object[] = []
for (const capacityBytes of [256, 64 * 1024, 1024 * 1024]) {
  const task = { ring: SpscRing.create(capacityBytes).shared, messages, messageBytesMax: 64, seed: 1 }
  const beganMs = performance.now()
  const [produced, consumed] = await Promise.all([
    pool.run({ data: { ...task, end: 'produce' } }),
    pool.run({ data: { ...task, end: 'consume' } }),
  ])
  const seconds = (performance.now() - beganMs) / 1000
  if (produced.checksum !== consumed.checksum) throw new Error('what arrived is not what was sent')
  rows.push({ 'two threads, ring of': capacityBytes, 'messages/s of 4 to 64 B': Math.round(messages / seconds) })
  checksum += consumed.checksum
}
await pool.destroy()
console.table(rows)
console.log({ node: process.version, checksum, messages })
