import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { publishFile, readWhole } from '../../../src/log/files.ts'
import { nodeFiles } from '../../../src/log/node-files.ts'
import { readBundleManifest } from '../../../src/logstore/index/manifest.ts'
import { TestStore } from '../../support/stored-segments.ts'
import { codePoint } from '../../support/code-point.ts'

const RECORDS = Array.from({ length: 40 }, (_, i) => ({
  dataset: i % 3 === 0 ? 'orders' : 'payments',
  time: 1_700_000_000_000_000_000n + BigInt((i * 7) % 11),
  trace: i % 2 === 0 ? 'ab'.repeat(16) : null,
  text: `${i}`,
}))

/** A sealed segment of four frames with its sidecar. */
function published(context: Parameters<typeof TestStore.open>[0]) {
  const store = TestStore.open(context)
  const positions = [0, 1, 2, 3].map((frame) => store.add('acme', RECORDS.slice(10 * frame, 10 * frame + 10)))
  store.seal()
  store.publish()
  const [segment] = store.segments
  const { base, end, row } = segment!
  const directory = store.directoryOf(base)
  return { store, segment: segment!, positions, row: row!, place: { base, end, directory }, directory }
}

describe('the sidecar of a sealed segment', () => {
  it('has a manifest that says what is in the bundle', (context) => {
    const { place, row } = published(context)
    const { identity, ...facts } = readBundleManifest(nodeFiles, place)!
    assert.equal(identity, row.identity)
    assert.deepEqual(facts, {
      base: place.base,
      end: place.end,
      minTime: 1_700_000_000_000_000_000n,
      maxTime: 1_700_000_000_000_000_010n,
      receivedUntil: (1n << 32n) | 2n,
      records: 40,
    })
  })

  it('is the same, byte for byte, when it is rebuilt from the frames', (context) => {
    const { store, segment, directory } = published(context)
    const files = () => ['index.bin', 'manifest.json'].map((name) => readWhole(nodeFiles, `${directory}/${name}`)!)
    const before = files()
    const rebuilt = store.index(segment, true)
    assert.deepEqual(rebuilt, { ...segment.row, damaged: [] })
    assert.deepEqual(files(), before)
  })

  it('leaves out a damaged frame when it is rebuilt, and says which', (context) => {
    const { store, segment, positions, directory } = published(context)
    const file = nodeFiles.open(`${directory}/records.log`, 'write')
    file.writev([Buffer.from('damage')], positions[1]! + 100)
    file.close()
    const { records, damaged } = store.index(segment, true)
    assert.equal(records, 30)
    assert.deepEqual(
      damaged.map(({ from, to }) => [from, to]),
      [[positions[1], positions[2]]],
    )
  })

  it('counts as missing when a file is missing, cut, or of another segment', (context) => {
    const { place, directory, row } = published(context)
    const { identity, base, end, minTime, maxTime, receivedUntil, records } = row
    const whole = { base, end, minTime, maxTime, receivedUntil, records, identity }
    assert.deepEqual(readBundleManifest(nodeFiles, place), whole)
    assert.equal(readBundleManifest(nodeFiles, { ...place, base: place.base + 8 }), null)
    assert.equal(readBundleManifest(nodeFiles, { ...place, end: place.end + 8 }), null)
    for (const name of ['index.bin', 'manifest.json']) {
      const bytes = readWhole(nodeFiles, `${directory}/${name}`)!
      nodeFiles.removeFile(`${directory}/${name}`)
      assert.equal(readBundleManifest(nodeFiles, place), null)
      publishFile(nodeFiles, directory, name, [bytes.subarray(0, bytes.byteLength - 1)])
      assert.equal(readBundleManifest(nodeFiles, place), null)
      publishFile(nodeFiles, directory, name, [bytes])
    }
    assert.deepEqual(readBundleManifest(nodeFiles, place), whole)
  })

  it('counts as missing whichever bit of its manifest is flipped and wherever that is cut', (context) => {
    const { place, directory } = published(context)
    const path = `${directory}/manifest.json`
    const bytes = readWhole(nodeFiles, path)!
    const readAs = (damaged: Buffer): unknown => {
      const files = { ...nodeFiles, open: (name: string, access: 'read' | 'write') => open(name, access, damaged) }
      return readBundleManifest(files, place)
    }
    const open = (name: string, access: 'read' | 'write', damaged: Buffer) => {
      const file = nodeFiles.open(name, access)
      if (name !== path) return file
      return {
        writev: file.writev.bind(file),
        fdatasync: file.fdatasync.bind(file),
        truncate: file.truncate.bind(file),
        close: file.close.bind(file),
        size: () => damaged.byteLength,
        read: (into: Uint8Array, at: number) => damaged.copy(into, 0, at),
      }
    }
    assert.notEqual(readAs(bytes), null)
    for (let bit = 0; bit < bytes.byteLength * 8; bit++) {
      const damaged = Buffer.from(bytes)
      damaged[bit >> 3]! ^= 1 << (bit & 7)
      assert.equal(readAs(damaged), null)
    }
    for (let length = 0; length < bytes.byteLength; length++) assert.equal(readAs(bytes.subarray(0, length)), null)
    fc.assert(fc.property(fc.string({ unit: codePoint }), (text) => assert.equal(readAs(Buffer.from(text)), null)))
  })
})
