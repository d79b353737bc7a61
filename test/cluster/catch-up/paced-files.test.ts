import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { pacedFiles } from '../../../src/cluster/catch-up/paced-files.ts'
import { nodeFiles } from '../../../src/log/node-files.ts'
import { temporaryDirectory } from '../../support/directories.ts'

const KIB = 1 << 10

describe('the files of a copy', () => {
  it('are read in short steps, with a rest after each long one, and have the same bytes', () => {
    const name = `${temporaryDirectory()}/file`
    const bytes = Buffer.from(Uint8Array.from({ length: 700 * KIB }, (_, i) => i + (i >>> 8)))
    const plain = nodeFiles.create(name)
    plain.writev([bytes], 0)
    plain.close()
    const steps: number[] = []
    const rests: number[] = []
    let nowMs = 0
    const counted = {
      ...nodeFiles,
      open(...place: Parameters<typeof nodeFiles.open>) {
        assert.equal(place[2], 'short')
        const file = nodeFiles.open(...place)
        return {
          writev: (parts: readonly Uint8Array[], at: number) => file.writev(parts, at),
          fdatasync: () => file.fdatasync(),
          truncate: (end: number) => file.truncate(end),
          size: () => file.size(),
          close: () => file.close(),
          read(into: Uint8Array, at: number) {
            nowMs += 3
            steps.push(into.byteLength / KIB)
            return file.read(into, at)
          },
        }
      },
    }
    const parts = { nowMs: () => nowMs, waitMs: (forMs: number) => void rests.push(forMs) }
    const file = pacedFiles(counted, parts).open(name, 'read')
    const into = Buffer.alloc(1024 * KIB)
    assert.equal(file.read(into, 0), bytes.byteLength)
    assert(into.subarray(0, bytes.byteLength).equals(bytes))
    assert.deepEqual(steps, [256, 256, 256])
    assert.deepEqual(rests, [3, 3])
    assert.equal(file.size(), bytes.byteLength)
    file.close()
  })
})
