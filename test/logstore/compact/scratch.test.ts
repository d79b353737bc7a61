import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ScratchFile } from '../../../src/logstore/compact/scratch-file.ts'
import { MemoryScratch } from '../../../src/logstore/compact/scratch.ts'
import type { Scratch } from '../../../src/logstore/compact/scratch.ts'
import { seedOf } from '../../support/seed.ts'
import { SimFiles, mulberry32 } from '../../support/sim-files.ts'

const SCRATCHES: Record<string, () => Scratch> = {
  'in memory': () => new MemoryScratch(),
  'in a file': () => new ScratchFile(new SimFiles({ seed: 1 }).create('/scratch')),
}

describe('a scratch', () => {
  for (const [where, open] of Object.entries(SCRATCHES)) {
    it(`${where} gives the row of each entry, in the order of entries`, (context) => {
      const random = mulberry32(seedOf(context))
      for (const entries of [0, 1, 8192, 70_001]) {
        const scratch = open()
        const rows = scratch.rows(entries)
        const rowOf = Uint32Array.from({ length: entries }, (_, entry) => entry)
        for (let entry = entries - 1; entry > 0; entry--) {
          const other = Math.floor(random() * (entry + 1))
          ;[rowOf[entry], rowOf[other]] = [rowOf[other]!, rowOf[entry]!]
        }
        for (let entry = entries - 1; entry >= 0; entry--) rows.set(entry, rowOf[entry]!)
        const read: number[] = []
        for (const chunk of rows.chunks(8192)) {
          assert.equal(chunk.length, Math.min(8192, entries - read.length))
          read.push(...chunk)
        }
        assert.deepEqual(Uint32Array.from(read), rowOf)
      }
    })

    it(`${where} keeps lists and numbers apart that grow beside each other`, (context) => {
      const random = mulberry32(seedOf(context))
      const scratch = open()
      const lists = [scratch.list(), scratch.list()]
      const numbers = scratch.numbers(2 ** 40, 10)
      const added: number[] = []
      for (let i = 0; i < 20_000; i++) {
        const number = Math.floor(random() ** 8 * 2 ** 40)
        numbers.add(number)
        added.push(number)
        if (i % 100 === 0) lists[i % 200 === 0 ? 0 : 1]!.add(Buffer.from(`${i};`), Buffer.alloc(0), Buffer.from('x'))
      }
      assert.equal(numbers.count, added.length)
      const sorted: number[] = []
      for (const range of numbers.ranges()) sorted.push(...range.toSorted())
      assert.deepEqual(
        sorted,
        added.toSorted((a, b) => a - b),
      )
      for (const [number, list] of lists.entries()) {
        const expected = Array.from({ length: 100 }, (_, i) => `${200 * i + 100 * number};x`).join('')
        assert.equal(Buffer.concat([...list]).toString(), expected)
        assert.equal(list.bytes, expected.length)
      }
    })
  }
})
