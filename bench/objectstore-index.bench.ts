/**
 * What do objects cost the key index of the object store: memory, changes, look-ups, pages of a listing, checkpoints? A million keys of 40
 * bytes, or `--keys 10000000`. `--smoke` runs each case once on few keys, so that CI catches rot.
 *
 * Keys come in their own order (a back-up tool that uploads a folder) or in none (identifiers). All times are CPU time: what else runs on the
 * machine shows less.
 */
import { crc32 } from 'node:zlib'
import { KeyIndex } from '../src/objectstore/index/key-index.ts'
import { mix32 } from './load/random.ts'

const smoke = process.argv.includes('--smoke')
const keysOption = process.argv.indexOf('--keys')
const KEYS = smoke ? 20_000 : keysOption < 0 ? 1_000_000 : Number(process.argv[keysOption + 1])
const PAGE_KEYS = 1000
const PAGES_READ = smoke ? 10 : 2000
const LOOKUPS = Math.min(KEYS, 1_000_000)
const BUCKET = 1
const VALUE = {
  position: 2 ** 40,
  size: 4096,
  lastModifiedMs: 1_795_000_000_000,
  commitSequence: 2 ** 33,
  etag: '0123456789abcdef0123456789abcdef',
  parts: 0,
  flags: 0,
}

/** Writes the key of a number into one buffer that all calls share: what is measured is the index, not how keys are held. */
type KeyOf = (number: number) => Buffer

const ascendingKey = Buffer.from('a/2026/11/20/hosts/database/000000000.zst')
/** Ascending keys in three folders. */
const ascending: KeyOf = (number) => {
  ascendingKey[0] = 0x61 + Math.floor((3 * number) / KEYS)
  writeDigits(ascendingKey, 28, 9, 10, number)
  return ascendingKey
}

const scatteredKey = Buffer.from('tenants/00/photos/0000000000000000.jpeg')
/** Scattered keys in a hundred folders. */
const scattered: KeyOf = (number) => {
  const low = mix32(number)
  writeDigits(scatteredKey, 8, 2, 10, low % 100)
  writeDigits(scatteredKey, 18, 8, 16, mix32(number ^ 0x5bd1_e995))
  writeDigits(scatteredKey, 26, 8, 16, low)
  return scatteredKey
}

function writeDigits(into: Buffer, at: number, count: number, radix: number, value: number): void {
  let rest = value
  for (let i = count - 1; i >= 0; i--) {
    const digit = rest % radix
    into[at + i] = digit < 10 ? 0x30 + digit : 0x57 + digit
    rest = Math.floor(rest / radix)
  }
}

const rows: object[] = []
const figures: Record<string, string | number> = { node: process.version, keys: KEYS }

function measure(name: string, items: number, run: () => void): void {
  const before = process.cpuUsage()
  run()
  const { user, system } = process.cpuUsage(before)
  const tookMs = (user + system) / 1000
  rows.push({
    case: name,
    'CPU ms': tookMs.toFixed(1),
    'ns / item': Math.round((tookMs * 1e6) / items),
    'items / s': Math.round((items / tookMs) * 1000),
  })
}

/** Numbers below KEYS, all different: a stride that has no divisor in common with any power of ten. */
const mixed = (i: number): number => (i * 7_368_787) % KEYS

let callsMs: number[] = []
function timed<Result>(run: () => Result): Result {
  const before = process.cpuUsage()
  const result = run()
  const { user, system } = process.cpuUsage(before)
  callsMs.push((user + system) / 1000)
  return result
}
/** The 99th percentile of the calls since the last time. */
function p99(): string {
  const sorted = callsMs.toSorted((a, b) => a - b)
  callsMs = []
  return `${sorted[Math.floor(0.99 * sorted.length)]!.toFixed(2)} ms`
}

function benchmark(name: string, keyOf: KeyOf, prefixes: number): void {
  const index = KeyIndex.create()
  measure(`${name}: put`, KEYS, () => {
    for (let i = 0; i < KEYS; i++) index.put(BUCKET, keyOf(i), VALUE)
  })
  figures[`${name}: bytes a key`] = (index.bytes / index.size(BUCKET)).toFixed(1)
  measure(`${name}: get`, LOOKUPS, () => {
    for (let i = 0; i < LOOKUPS; i++) if (index.get(BUCKET, keyOf(mixed(i))) === null) throw new Error('a key is gone')
  })
  measure(`${name}: put again`, LOOKUPS, () => {
    for (let i = 0; i < LOOKUPS; i++) index.put(BUCKET, keyOf(mixed(i)), VALUE)
  })
  measure(`${name}: page of ${PAGE_KEYS} anywhere`, PAGES_READ, () => {
    for (let i = 0; i < PAGES_READ; i++) {
      timed(() => index.scan(BUCKET, { after: keyOf(mixed(i)), max: PAGE_KEYS }))
    }
  })
  figures[`${name}: 99 % of pages within`] = p99()
  let listed = 0
  measure(`${name}: whole listing, a key`, KEYS, () => {
    let from: Buffer | null = Buffer.alloc(0)
    while (from !== null) {
      const { keys, next } = index.scan(BUCKET, { from, max: PAGE_KEYS })
      listed += keys.length
      from = next
    }
  })
  if (listed !== KEYS) throw new Error(`${listed} keys listed`)
  const delimiter = Buffer.from('/')
  const prefix = Buffer.from(name === 'ascending' ? '' : 'tenants/')
  measure(`${name}: delimiter listing of ${prefixes} prefixes`, PAGES_READ, () => {
    for (let i = 0; i < PAGES_READ; i++) {
      timed(() => {
        const { commonPrefixes } = index.scan(BUCKET, { prefix, delimiter, max: PAGE_KEYS })
        if (commonPrefixes.length !== prefixes) throw new Error(`${commonPrefixes.length} prefixes listed`)
      })
    }
  })
  figures[`${name}: 99 % of delimiter listings within`] = p99()

  let parts: Uint8Array[] = []
  measure(`${name}: encode, a key`, KEYS, () => {
    const writer = index.checkpoint()
    for (let part = timed(() => writer.next()); part !== null; part = timed(() => writer.next())) parts.push(part)
  })
  figures[`${name}: 99 % of parts of a checkpoint within`] = p99()
  figures[`${name}: checkpoint, bytes a key`] = (parts.reduce((sum, part) => sum + part.length, 0) / KEYS).toFixed(1)
  // Same keys put in the same order, same number: a change of the format or of how pages split shows here.
  figures[`${name}: checksum`] = parts.reduce((checksum, part) => crc32(part, checksum), 0)
  measure(`${name}: decode, a key`, KEYS, () => {
    KeyIndex.decode(parts)
  })
  parts = []
  measure(`${name}: delete`, KEYS, () => {
    for (let i = 0; i < KEYS; i++) index.delete(BUCKET, keyOf(mixed(i)))
  })
  if (index.pages !== 1) throw new Error(`${index.pages} pages left`)
}

benchmark('ascending', ascending, 3)
benchmark('scattered', scattered, Math.min(100, KEYS))
console.table(rows)
console.log(figures)
