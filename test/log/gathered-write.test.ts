import assert from 'node:assert/strict'
import { test } from 'node:test'
import { GatheredWrite } from '../../src/log/gathered-write.ts'
import { SimFiles } from '../support/sim-files.ts'

test('a write gathers small and large parts in their order, however many fit in its memory', () => {
  const files = new SimFiles({ seed: 1 })
  files.makeDirectory('/data')
  const file = files.create('/data/file')
  const gathered = new GatheredWrite()
  let at = 0
  for (const sizes of [
    [100],
    [60_000, 10_000, 10_000],
    Array.from({ length: 3000 }, (_, i) => 1 + ((i * 7919) % 20_000)),
  ]) {
    const parts = sizes.map((size, i) => Buffer.alloc(size, 1 + (i % 255)))
    const expected = Buffer.concat(parts)
    gathered.begin(file, at)
    for (const part of parts) gathered.add(part, 0, part.byteLength)
    assert.ok(gathered.flush())
    assert.ok(files.contentOf('/data/file').subarray(at).equals(expected))
    at += expected.byteLength
  }
  assert.ok(!gathered.flush())
})
