/**
 * What do the steps of a shared queue cost in memory, with ten million records behind it and a million leases open? `--smoke` runs each
 * case once on a hundredth of that, so that CI catches rot.
 */
import { crc32 } from 'node:zlib'
import { Bench } from 'tinybench'
import { GroupState } from '../src/broker/state/group.ts'
import type { LeaseRun } from '../src/broker/state/group.ts'

const smoke = process.argv.includes('--smoke')
const BACKLOG = smoke ? 100_000 : 10_000_000
const LEASES = smoke ? 10_000 : 1_000_000
const EXPIRING = LEASES / 10
const LEASE_MS = 1_000_000_000

/** The leased offsets in an order that has nothing to do with them. */
const shuffled = Uint32Array.from({ length: LEASES }, (_, i) => i)
for (let i = LEASES - 1, seed = 1; i > 0; i--) {
  seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
  const other = Math.floor((seed / 2 ** 32) * (i + 1))
  const swapped = shuffled[i]!
  shuffled[i] = shuffled[other]!
  shuffled[other] = swapped
}

/** Leases expire one a millisecond. */
function loaded(): GroupState {
  const group = GroupState.create()
  for (let offset = 0; offset < LEASES; offset++) {
    group.applyClaim(offset, 0, LEASE_MS + shuffled[offset]!, [{ offset, count: 1, attempt: 1 }])
  }
  return group
}

const group = loaded()
const bytesPerLease = group.bytes / LEASES
const stored = Buffer.concat(group.encode())
/** Same history, same number: a change of state or of its format shows here. */
const checksum = crc32(stored)

let claimNumber = LEASES
let acknowledged = LEASES
function claimAndAck(max: number): void {
  if (acknowledged + max > BACKLOG) throw new Error('the backlog is used up: more records or less time')
  const runs: LeaseRun[] = group.plan(0, BACKLOG, max, null)
  group.applyClaim(claimNumber++, 0, 2 * LEASE_MS, runs)
  for (const { offset, count, attempt } of runs) {
    for (let i = 0; i < count; i++) group.applyFinish(offset + i, attempt, 'acked')
    acknowledged += count
  }
}

const bench = new Bench({
  name: `${BACKLOG} records, ${LEASES} leases`,
  ...(smoke ? { time: 0, iterations: 1, warmup: false } : { time: 300, iterations: 64, warmup: false }),
})
bench.add('claim 1, ack 1', () => claimAndAck(1))
bench.add('claim 100, ack 100', () => claimAndAck(100))
let renewed = 0
bench.add('renew 1', () => group.applyRenew(shuffled[renewed++ % LEASES]!, 1, 2 * LEASE_MS + renewed))
bench.add('in flight', () => {
  group.inFlight(0)
})
bench.add('list 1000 leases', () => {
  group.leases(0, false, 1000)
})
await bench.run()
console.table(
  bench.tasks.map(({ name, result }) => {
    const measured = 'latency' in result
    return {
      case: name,
      'median µs': measured ? (result.latency.p50 * 1000).toFixed(2) : '?',
      'p99 µs': measured ? (result.latency.p99 * 1000).toFixed(2) : '?',
      'worst µs': measured ? Math.round(result.latency.max * 1000) : '?',
    }
  }),
)

// Once through each, on a group of its own: what they do cannot be done twice.
const rows: object[] = []
function once(name: string, items: number, run: () => void): void {
  const beganMs = performance.now()
  run()
  const tookMs = performance.now() - beganMs
  rows.push({ case: name, ms: tookMs.toFixed(1), 'ns / item': Math.round((tookMs * 1e6) / items) })
}

let restored = GroupState.create()
once(`decode ${LEASES} leases`, LEASES, () => (restored = GroupState.decode(stored)))
once(`encode ${LEASES} leases`, LEASES, () => restored.encode())
let slowestMs = 0
once(`expire ${EXPIRING}, a thousand at a time`, EXPIRING, () => {
  for (let met = 0; met < EXPIRING;) {
    const beganMs = performance.now()
    met += restored.expire(LEASE_MS + EXPIRING - 1, 1000)
    slowestMs = Math.max(slowestMs, performance.now() - beganMs)
  }
})
once('claim again what expired', EXPIRING, () => {
  restored.applyClaim(1, LEASE_MS, 2 * LEASE_MS, restored.plan(0, LEASES, EXPIRING, null))
})
const unordered = GroupState.decode(stored)
let fragmentedBytes = 0
once(`ack ${LEASES} in random order`, LEASES, () => {
  for (let i = 0; i < LEASES; i++) {
    unordered.applyFinish(shuffled[i]!, 1, 'acked')
    if (i === LEASES >> 1) fragmentedBytes = unordered.bytes
  }
})
if (unordered.progressOffset() !== LEASES || restored.inFlight(LEASE_MS + EXPIRING - 1) !== LEASES) {
  throw new Error('the work was not done')
}
console.table(rows)
console.log({
  node: process.version,
  checksum,
  bytesPerLease: bytesPerLease.toFixed(1),
  slowestExpireMs: slowestMs.toFixed(2),
  bytesWhenHalfIsAcknowledged: fragmentedBytes,
})
