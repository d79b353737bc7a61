/** The checksums of objects: how each is computed, and how the checksum of a whole comes from those of its parts. */
import { createHash } from 'node:crypto'
import { combineCrc32, crc32 } from '../../../native-free-codecs/crc32.ts'
import { combineCrc32c, crc32c } from '../../../native-free-codecs/crc32c.ts'
import { combineCrc64nvme, crc64nvme } from '../../../native-free-codecs/crc64nvme.ts'
import { CHECKSUM_ALGORITHMS } from './checksums.ts'
import type { ChecksumAlgorithm } from './checksums.ts'
import { XxhashDigest, loadXxhash } from './xxhash.ts'

/** A digest that is fed as bytes come. */
export interface Digest {
  update(bytes: Uint8Array): void
  /** Call it once, at the end. Numbers are in big-endian order. */
  digest(): Buffer
}

interface AlgorithmRule {
  readonly digestBytes: number
  readonly begin: () => Digest
  /** Digest of two messages one behind the other, from their digests; null where that takes the messages themselves. */
  readonly combine: ((first: Buffer, second: Buffer, secondBytes: number) => Buffer) | null
}

class Crc32Digest implements Digest {
  #crc = 0
  readonly #of: (bytes: Uint8Array, before: number) => number

  constructor(of: (bytes: Uint8Array, before: number) => number) {
    this.#of = of
  }

  update(bytes: Uint8Array): void {
    this.#crc = this.#of(bytes, this.#crc)
  }

  digest(): Buffer {
    return fourBytes(this.#crc)
  }
}

class Crc64NvmeDigest implements Digest {
  #crc = 0n

  update(bytes: Uint8Array): void {
    this.#crc = crc64nvme(bytes, this.#crc)
  }

  digest(): Buffer {
    return eightBytes(this.#crc)
  }
}

export const beginHash = (name: 'md5' | 'sha1' | 'sha256' | 'sha512'): Digest => createHash(name)

const RULES: Readonly<Record<ChecksumAlgorithm, AlgorithmRule>> = {
  CRC32: {
    digestBytes: 4,
    begin: () => new Crc32Digest(crc32),
    combine: (a, b, bytes) => fourBytes(combineCrc32(a.readUInt32BE(), b.readUInt32BE(), bytes)),
  },
  CRC32C: {
    digestBytes: 4,
    begin: () => new Crc32Digest(crc32c),
    combine: (a, b, bytes) => fourBytes(combineCrc32c(a.readUInt32BE(), b.readUInt32BE(), bytes)),
  },
  CRC64NVME: {
    digestBytes: 8,
    begin: () => new Crc64NvmeDigest(),
    combine: (a, b, bytes) => eightBytes(combineCrc64nvme(a.readBigUInt64BE(), b.readBigUInt64BE(), bytes)),
  },
  SHA1: { digestBytes: 20, begin: () => beginHash('sha1'), combine: null },
  SHA256: { digestBytes: 32, begin: () => beginHash('sha256'), combine: null },
  SHA512: { digestBytes: 64, begin: () => beginHash('sha512'), combine: null },
  MD5: { digestBytes: 16, begin: () => beginHash('md5'), combine: null },
  XXHASH64: { digestBytes: 8, begin: () => new XxhashDigest('XXHASH64'), combine: null },
  XXHASH3: { digestBytes: 8, begin: () => new XxhashDigest('XXHASH3'), combine: null },
  XXHASH128: { digestBytes: 16, begin: () => new XxhashDigest('XXHASH128'), combine: null },
}

function fourBytes(crc: number): Buffer {
  const bytes = Buffer.allocUnsafe(4)
  bytes.writeUInt32BE(crc)
  return bytes
}

function eightBytes(crc: bigint): Buffer {
  const bytes = Buffer.allocUnsafe(8)
  bytes.writeBigUInt64BE(crc)
  return bytes
}

/** @returns null: `beginChecksum` can be called for all of them now; otherwise when the promise has resolved */
export const loadChecksums = (algorithms: readonly ChecksumAlgorithm[]): Promise<void> | null =>
  algorithms.some((algorithm) => algorithm.startsWith('XXHASH')) ? loadXxhash() : null

/** The algorithm must be loaded: `loadChecksums`. */
export const beginChecksum = (algorithm: ChecksumAlgorithm): Digest => RULES[algorithm].begin()

export const combinerOf = (algorithm: ChecksumAlgorithm): AlgorithmRule['combine'] => RULES[algorithm].combine

/** The algorithm of that name, in upper or lower case; null: there is none. */
export const algorithmOf = (name: string): ChecksumAlgorithm | null =>
  CHECKSUM_ALGORITHMS.find((algorithm) => algorithm === name.toUpperCase()) ?? null

/** The bytes of a text in Base64 with padding; null when the text is anything else. */
export function decodeBase64(text: string): Buffer | null {
  const decoded = Buffer.from(text, 'base64')
  return decoded.toString('base64') === text ? decoded : null
}

/** The bytes of a digest in Base64; null when the text is not a digest of that length. */
export function parseBase64(text: string, bytes: number): Buffer | null {
  const decoded = decodeBase64(text)
  return decoded?.length === bytes ? decoded : null
}

/** Whether the text can be a checksum of one body. */
export const isChecksum = (algorithm: ChecksumAlgorithm, text: string): boolean =>
  parseBase64(text, RULES[algorithm].digestBytes) !== null
