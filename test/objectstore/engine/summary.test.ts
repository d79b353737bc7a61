/** The facts that the index keeps of an object. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { CHECKSUM_ALGORITHMS } from '../../../src/objectstore/bodies/checksums.ts'
import type { Checksum } from '../../../src/objectstore/bodies/checksums.ts'
import { STORAGE_CLASSES } from '../../../src/objectstore/storage-class.ts'
import { completeAttributes, decodeDetails, encodeDetails } from '../../../src/objectstore/engine/frames.ts'
import { checksumsOf, flagsOf, storageClassOf } from '../../../src/objectstore/engine/summary.ts'
import type { ObjectValue } from '../../../src/objectstore/index/value.ts'
import { PLAIN } from '../../support/object-attributes.ts'

const valueOf = (flags: number): ObjectValue => {
  return { position: 0, size: 0, lastModifiedMs: 0, commitSequence: 1, etag: '0'.repeat(32), parts: 0, flags }
}
const flagsWith = (checksums: readonly Checksum[], about: object = {}): number =>
  flagsOf({ ...PLAIN, ...about }, checksums)

describe('the flags of an object', () => {
  it('say algorithm and type of its checksum, its storage class, and fit their field', () => {
    for (const algorithm of CHECKSUM_ALGORITHMS) {
      for (const type of ['FULL_OBJECT', 'COMPOSITE'] as const) {
        for (const storageClass of STORAGE_CLASSES) {
          const about = { storageClass, tags: [{ key: 'a', value: 'b' }], encryption: { kind: 'customer', keyMd5: '' } }
          const flags = flagsWith([{ algorithm, value: '', type }], about)
          assert.ok(flags < 1 << 16)
          assert.deepEqual(checksumsOf(valueOf(flags)), { checksumAlgorithms: [algorithm], checksumType: type })
          assert.equal(storageClassOf(valueOf(flags)), storageClass)
        }
      }
    }
    assert.deepEqual(checksumsOf(valueOf(flagsWith([]))), { checksumAlgorithms: [], checksumType: null })
  })

  it('are what they were for what older versions stored', () => {
    const older = { CRC32: 2, CRC32C: 4, CRC64NVME: 8, SHA1: 16, SHA256: 32 } as const
    for (const [algorithm, flag] of Object.entries(older)) {
      const checksum = { algorithm: algorithm as keyof typeof older, value: '', type: 'FULL_OBJECT' } as const
      assert.equal(flagsWith([checksum]), flag)
      assert.equal(storageClassOf(valueOf(flag)), 'STANDARD')
    }
  })
})

describe('details of an object', () => {
  const { storageClass: _, ...older } = PLAIN

  it('are of the class STANDARD when an older version wrote them', () => {
    const details = { ...older, checksums: [], parts: null }
    assert.equal(decodeDetails(Buffer.from(JSON.stringify(details))).storageClass, 'STANDARD')
    assert.equal(completeAttributes(older).storageClass, 'STANDARD')
  })

  it('keep the class they were written with', () => {
    const details = { ...PLAIN, storageClass: 'GLACIER_IR', checksums: [], parts: null } as const
    assert.deepEqual(decodeDetails(encodeDetails(details)), details)
  })
})
