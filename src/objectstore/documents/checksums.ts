/** Checksums as they stand in XML. */
import { textElement } from './xml-text.ts'

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
  /** Base64; of a composite one with `-` and the number of parts behind it. */
  readonly value: string
}

export interface Checksum extends ChecksumValue {
  readonly type: ChecksumType
}

export const checksumValueElements = (checksums: readonly ChecksumValue[]): string =>
  checksums.map(({ algorithm, value }) => textElement(`Checksum${algorithm}`, value)).join('')

/** Of an object: all its checksums are of one type. */
export const checksumElements = (checksums: readonly Checksum[]): string =>
  checksumValueElements(checksums) + textElement('ChecksumType', checksums[0]?.type ?? null)
