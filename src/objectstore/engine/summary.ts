/** What the index keeps of an object, as it is written from its frame and shown to whoever asks. */
import type { Checksum } from '../documents/checksums.ts'
import {
  FLAG_COMPOSITE,
  FLAG_CRC32,
  FLAG_CRC32C,
  FLAG_CRC64NVME,
  FLAG_ENCRYPTED_CUSTOMER,
  FLAG_ENCRYPTED_KMS,
  FLAG_ENCRYPTED_S3,
  FLAG_SHA1,
  FLAG_SHA256,
  FLAG_TAGS,
} from '../index/value.ts'
import type { ObjectValue } from '../index/value.ts'
import type { Encryption, ObjectAttributes, ObjectSummary } from '../operations.ts'
import type { CommitFrame, ObjectDetails } from './frames.ts'

const FLAG_OF_ALGORITHM = {
  CRC32: FLAG_CRC32,
  CRC32C: FLAG_CRC32C,
  CRC64NVME: FLAG_CRC64NVME,
  SHA1: FLAG_SHA1,
  SHA256: FLAG_SHA256,
} as const
const ALGORITHMS = Object.entries(FLAG_OF_ALGORITHM) as [Checksum['algorithm'], number][] // its own keys
const FLAG_OF_ENCRYPTION = {
  AES256: FLAG_ENCRYPTED_S3,
  'aws:kms': FLAG_ENCRYPTED_KMS,
  customer: FLAG_ENCRYPTED_CUSTOMER,
} as const satisfies Record<Encryption['kind'], number>

export const valueOf = (frame: CommitFrame, position: number): ObjectValue => ({
  position,
  size: frame.size,
  lastModifiedMs: frame.lastModifiedMs,
  commitSequence: frame.commitSequence,
  etag: frame.etag,
  parts: frame.partNumber,
  flags: frame.flags,
})

export const summaryOf = ({ size, lastModifiedMs, etag, parts, commitSequence }: ObjectValue): ObjectSummary => ({
  size,
  lastModifiedMs,
  etag: parts > 0 ? `${etag}-${parts}` : etag,
  commitSequence,
})

export function checksumsOf({ flags }: ObjectValue) {
  const checksumAlgorithms = ALGORITHMS.filter(([, flag]) => (flags & flag) !== 0).map(([algorithm]) => algorithm)
  const type = (flags & FLAG_COMPOSITE) === 0 ? 'FULL_OBJECT' : 'COMPOSITE'
  return { checksumAlgorithms, checksumType: checksumAlgorithms.length === 0 ? null : type } as const
}

export function flagsOf({ tags, checksums, encryption }: Pick<ObjectDetails, 'checksums'> & ObjectAttributes): number {
  let flags = tags.length > 0 ? FLAG_TAGS : 0
  for (const { algorithm, type } of checksums) {
    flags |= FLAG_OF_ALGORITHM[algorithm] | (type === 'COMPOSITE' ? FLAG_COMPOSITE : 0)
  }
  return encryption === null ? flags : flags | FLAG_OF_ENCRYPTION[encryption.kind]
}
