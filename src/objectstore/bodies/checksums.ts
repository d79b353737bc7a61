/** Checksums of objects and their parts. Source: Amazon S3 user guide, "Checking object integrity". */

export const CHECKSUM_ALGORITHMS = [
  'CRC32',
  'CRC32C',
  'CRC64NVME',
  'SHA1',
  'SHA256',
  'SHA512',
  'MD5',
  'XXHASH64',
  'XXHASH3',
  'XXHASH128',
] as const

export type ChecksumAlgorithm = (typeof CHECKSUM_ALGORITHMS)[number]
export type ChecksumType = 'FULL_OBJECT' | 'COMPOSITE'

export interface ChecksumValue {
  readonly algorithm: ChecksumAlgorithm
  /** Base64; a composite one has `-` and the number of parts behind it. */
  readonly value: string
}

export interface Checksum extends ChecksumValue {
  readonly type: ChecksumType
}

export interface UploadChecksum {
  readonly algorithm: ChecksumAlgorithm
  readonly type: ChecksumType
  /** Whether the caller that began the upload chose it. */
  readonly isChosen: boolean
}

export interface PartChecksum {
  /** Base64. */
  readonly value: string
  readonly bytes: number
}
