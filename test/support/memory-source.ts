import type { BundleFile } from '../../src/logstore/index/segment-files.ts'

/** A file of a bundle that is in memory. */
export const memorySource = (bytes: Buffer): BundleFile => ({
  size: () => bytes.byteLength,
  read: (into, at) => bytes.copy(into, 0, at, at + into.byteLength),
  close: () => {},
})
