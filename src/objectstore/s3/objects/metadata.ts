/** Limits of user metadata: names and values are counted in bytes of UTF-8. */
import { refuse } from '../../refusals.ts'
import type { S3Error } from '../../refusals.ts'
import { METADATA_BYTES_MAX, METADATA_KEY_BYTES_MAX, METADATA_VALUE_BYTES_MAX } from '../document-limits.ts'

/**
 * @param metadata names without the `x-amz-meta-` in front of them
 * @throws S3Error MetadataTooLarge
 */
export function checkMetadata(metadata: Readonly<Record<string, string>>): void {
  let metadataBytes = 0
  for (const [name, value] of Object.entries(metadata)) {
    const [nameBytes, valueBytes] = [Buffer.byteLength(name), Buffer.byteLength(value)]
    if (nameBytes > METADATA_KEY_BYTES_MAX) throw tooLarge(nameBytes, METADATA_KEY_BYTES_MAX)
    if (valueBytes > METADATA_VALUE_BYTES_MAX) throw tooLarge(valueBytes, METADATA_VALUE_BYTES_MAX)
    metadataBytes += nameBytes + valueBytes
  }
  if (metadataBytes > METADATA_BYTES_MAX) throw tooLarge(metadataBytes, METADATA_BYTES_MAX)
}

const tooLarge = (bytes: number, bytesMax: number): S3Error =>
  refuse('MetadataTooLarge', undefined, { fields: { Size: bytes, MaxSizeAllowed: bytesMax } })
