import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { OpenSegments } from '../../src/log/open-segments.ts'

const GENERATION = 3

function opened(...bases: readonly number[]): { files: OpenSegments<{ close(): void }>; closed: number[] } {
  const files = new OpenSegments<{ close(): void }>()
  const closed: number[] = []
  files.begin(0, GENERATION)
  for (const base of bases) files.add(base, { close: () => void closed.push(base) })
  return { files, closed }
}

describe('files of segments that a reader keeps open', () => {
  it('are those used last', () => {
    const bases = Array.from({ length: 64 }, (_, base) => base)
    const { files, closed } = opened(...bases)
    assert.ok(files.get(0))
    for (const base of [64, 65]) files.add(base, { close: () => {} })
    assert.deepEqual(closed, [1, 2])
    assert.equal(files.get(1), undefined)
    assert.ok(files.get(0))
  })

  it('are closed when their segments are dropped (O2)', () => {
    const { files, closed } = opened(10, 20, 30)
    files.begin(20, GENERATION)
    assert.deepEqual(closed, [10])
    assert.ok(files.get(20))
  })

  it('are all closed when the log is of another generation (O1)', () => {
    const { files, closed } = opened(10, 20)
    files.begin(0, GENERATION + 1)
    assert.deepEqual(closed, [10, 20])
    assert.equal(files.get(20), undefined)
  })
})
