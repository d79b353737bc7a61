/**
 * Reads a checkpoint by its description (checkpoint.ts, page.ts), without the code that wrote it, and checks the promises of the tree. So it
 * tests both format and structure.
 */
import assert from 'node:assert/strict'
import { textOf } from './naive-index.ts'

const PAGE_BYTES = 8192
const HEADER_BYTES = 16
const SLOT_BYTES = 8
const HEAD_BYTES = 4
const VALUE_BYTES = 44
const CHILD_BYTES = 4

interface Entry {
  /** Bucket, highest byte first, and key; one character for each byte. */
  readonly key: string
  readonly value: Buffer
}

interface StoredPage {
  readonly level: number
  readonly entries: readonly Entry[]
  readonly usedBytes: number
}

export interface Structure {
  readonly entries: readonly Entry[]
  readonly height: number
  readonly pages: number
  /** Used bytes by number of the page. */
  readonly usedBytes: readonly number[]
}

/** @returns the content of the tree. @throws AssertionError when a promise of the tree is broken */
export function checkStructure(parts: readonly Uint8Array[]): Structure {
  const bytes = Buffer.concat(parts)
  assert.equal(bytes.toString('latin1', 0, 4), 'TKIX')
  assert.deepEqual([bytes.readUInt16LE(4), bytes.readUInt16LE(6), bytes.readUInt16LE(8)], [1, PAGE_BYTES, VALUE_BYTES])
  const root = bytes.readUInt32LE(12)
  const pageCount = bytes.readUInt32LE(16)
  const sizes = new Map<number, number>()
  let at = 24
  for (let left = bytes.readUInt32LE(20); left > 0; left--, at += 12) {
    sizes.set(bytes.readUInt32LE(at), bytes.readDoubleLE(at + 4))
  }

  const pages = new Map<number, StoredPage>()
  while (at < bytes.length) {
    const number = bytes.readUInt32LE(at)
    assert.ok(number < pageCount && !pages.has(number), 'each page once')
    const { page, end } = readPage(bytes, at + 4)
    pages.set(number, page)
    at = end
  }
  assert.equal(pages.size, pageCount)

  const entries: Entry[] = []
  const reached = new Set<number>()
  const walk = (number: number, level: number, from: string, end: string | null): void => {
    assert.ok(!reached.has(number), 'each page is in the tree once')
    reached.add(number)
    const page = pages.get(number)!
    assert.equal(page.level, level)
    assert.ok(page.entries.length > 0 || (number === root && level === 0), 'no page is empty')
    for (const [i, { key, value }] of page.entries.entries()) {
      const isKeyless = level > 0 && i === 0
      if (!isKeyless) {
        assert.ok(key >= from && (end === null || key < end), 'keys are in the range of their page')
        const before = page.entries[i - 1]
        if (before !== undefined && (i > 1 || level === 0)) assert.ok(before.key < key, 'keys ascend')
      }
      if (level === 0) entries.push({ key, value })
      else walk(value.readUInt32LE(), level - 1, isKeyless ? from : key, page.entries[i + 1]?.key ?? end)
    }
  }
  const height = pages.get(root)!.level + 1
  walk(root, height - 1, '', null)
  assert.equal(reached.size, pageCount, 'all pages are in the tree')
  if (height > 1) assert.ok(pages.get(root)!.entries.length > 1, 'a root has two pages below it')

  const counted = new Map<number, number>()
  for (const { key } of entries) {
    const bucket = Buffer.from(key, 'latin1').readUInt32BE()
    counted.set(bucket, (counted.get(bucket) ?? 0) + 1)
  }
  assert.deepEqual(sizes, counted)
  const usedBytes = Array.from({ length: pageCount }, (_, number) => pages.get(number)!.usedBytes)
  return { entries, height, pages: pageCount, usedBytes }
}

/** A page without its gap. */
function readPage(bytes: Buffer, at: number): { page: StoredPage; end: number } {
  const word = (number: number): number => bytes.readUInt16LE(at + 2 * number)
  const [level, count, heapBegin, holes, prefixBytes] = [word(0), word(1), word(2), word(3), word(4)]
  assert.equal(word(7), 0)
  const slotsEnd = HEADER_BYTES + SLOT_BYTES * count
  assert.ok(slotsEnd <= heapBegin && heapBegin + prefixBytes <= PAGE_BYTES)
  const heapAt = at + slotsEnd - heapBegin // where byte 0 of the page would be
  const prefix = textOf(bytes.subarray(heapAt + PAGE_BYTES - prefixBytes, heapAt + PAGE_BYTES))
  const valueBytes = level === 0 ? VALUE_BYTES : CHILD_BYTES

  const entries: Entry[] = []
  const taken: [number, number][] = []
  for (let slot = at + HEADER_BYTES; slot < at + slotsEnd; slot += SLOT_BYTES) {
    const head = Buffer.alloc(HEAD_BYTES)
    head.writeUInt32BE(bytes.readUInt32LE(slot))
    const offset = bytes.readUInt16LE(slot + 4)
    const restBytes = bytes.readUInt16LE(slot + 6)
    const tailBytes = Math.max(0, restBytes - HEAD_BYTES)
    const isKeyless = level > 0 && slot === at + HEADER_BYTES
    assert.ok(isKeyless || head.subarray(restBytes).every((byte) => byte === 0), 'zeros behind a short rest')
    const valueAt = heapAt + offset + tailBytes
    const rest = textOf(head.subarray(0, restBytes)) + textOf(bytes.subarray(heapAt + offset, valueAt))
    entries.push({ key: prefix + rest, value: bytes.subarray(valueAt, valueAt + valueBytes) })
    taken.push([offset, offset + tailBytes + valueBytes])
  }
  taken.sort(([a], [b]) => a - b)
  let end = heapBegin
  let free = 0
  for (const [from, to] of taken) {
    assert.ok(from >= end, 'entries do not overlap')
    free += from - end
    end = to
  }
  const heapEnd = PAGE_BYTES - prefixBytes
  assert.ok(end <= heapEnd)
  assert.equal(free + heapEnd - end, holes, 'holes are counted')
  const usedBytes = slotsEnd + PAGE_BYTES - heapBegin - holes
  return { page: { level, entries, usedBytes }, end: heapAt + PAGE_BYTES }
}
