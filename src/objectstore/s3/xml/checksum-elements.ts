/** Checksums as they stand in XML. */
import type { Checksum, ChecksumValue } from '../../bodies/checksums.ts'
import { textElement } from './xml-text.ts'

export const checksumValueElements = (checksums: readonly ChecksumValue[]): string =>
  checksums.map(({ algorithm, value }) => textElement(`Checksum${algorithm}`, value)).join('')

/** Checksums of an object: all of one type. */
export const checksumElements = (checksums: readonly Checksum[]): string =>
  checksumValueElements(checksums) + textElement('ChecksumType', checksums[0]?.type ?? null)
