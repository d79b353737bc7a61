import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import {
  MANIFEST_NAME,
  inParts,
  publishSidecars,
  readManifest,
  removeLeftovers,
  verifySidecar,
} from '../../src/log/sidecar.ts'
import { SimFiles } from '../support/sim-files.ts'

const DIRECTORY = '/segment'

function withDirectory(seed: number): SimFiles {
  const files = new SimFiles({ seed })
  files.makeDirectory(DIRECTORY)
  files.syncDirectory('/')
  return files
}

const index = Buffer.from('index of the first build')
const publishBoth = (files: SimFiles) =>
  publishSidecars(
    files,
    DIRECTORY,
    [inParts('index.bin', [index.subarray(0, 5), index.subarray(5)]), inParts('filter.bin', [])],
    () => ({ records: 3 }),
  )

describe('a published set of sidecars', () => {
  it('is found again, verified, with what the service said about it', () => {
    const files = withDirectory(1)
    publishBoth(files)
    const read = readManifest(files, DIRECTORY)
    assert.ok(read.kind === 'manifest')
    assert.deepEqual(read.manifest.about, { records: 3 })
    assert.deepEqual(
      read.manifest.files.map((entry) => verifySidecar(files, DIRECTORY, entry)),
      [true, true],
    )
  })

  it('survives a crash after it was published', () => {
    for (let seed = 0; seed < 50; seed += 1) {
      const files = withDirectory(seed)
      const manifest = publishBoth(files)
      files.crash()
      assert.equal(readManifest(files, DIRECTORY).kind, 'manifest')
      assert.ok(verifySidecar(files, DIRECTORY, manifest.files[0]!))
    }
  })

  it('is either the old, the new or none after a crash while it is replaced, never a mixture', () => {
    for (let seed = 0; seed < 100; seed += 1) {
      const files = withDirectory(seed)
      publishBoth(files)
      let writes = seed % 4
      files.faults = { sync: () => (writes-- === 0 ? 'EIO' : null) }
      try {
        publishSidecars(
          files,
          DIRECTORY,
          [inParts('index.bin', [Buffer.from('index of the second build')])],
          () => null,
        )
      } catch {
        // the disk failed in the middle of the build
      }
      files.faults = {}
      files.crash()
      const read = readManifest(files, DIRECTORY)
      if (read.kind === 'manifest') {
        for (const entry of read.manifest.files) assert.ok(verifySidecar(files, DIRECTORY, entry))
      }
      removeLeftovers(files, DIRECTORY)
      assert.ok(files.paths().every((path) => !path.endsWith('.tmp')))
    }
  })

  it('is bad with any bit flipped', () => {
    const names = ['index.bin', MANIFEST_NAME]
    fc.assert(
      fc.property(fc.constantFrom(...names), fc.nat(), (name, at) => {
        const files = withDirectory(1)
        publishBoth(files)
        files.damage(`${DIRECTORY}/${name}`, (content) => {
          const bit = at % (content.byteLength * 8)
          content[bit >> 3]! ^= 1 << (bit & 7)
          return content
        })
        const read = readManifest(files, DIRECTORY)
        const isBad =
          read.kind === 'bad' ||
          (read.kind === 'manifest' && read.manifest.files.some((entry) => !verifySidecar(files, DIRECTORY, entry)))
        assert.ok(isBad)
      }),
    )
  })

  it('is absent where none was published', () => {
    assert.equal(readManifest(withDirectory(1), DIRECTORY).kind, 'absent')
  })
})
