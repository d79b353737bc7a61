/** The index entry of an object: how it is made from the object's frame, and how callers see it. */
import type { Checksum } from '../bodies/checksums.ts'
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
  FURTHER_ALGORITHM,
  STORAGE_CLASS,
} from '../index/value.ts'
import type { ObjectValue } from '../index/value.ts'
import type { Encryption, ObjectAttributes, ObjectSummary } from '../operations.ts'
import { DEFAULT_STORAGE_CLASS, STORAGE_CLASSES } from '../storage-class.ts'
import type { StorageClass } from '../storage-class.ts'
import type { CommitHead } from './frames.ts'

const FLAG_OF_ALGORITHM = {
  CRC32: FLAG_CRC32,
  CRC32C: FLAG_CRC32C,
  CRC64NVME: FLAG_CRC64NVME,
  SHA1: FLAG_SHA1,
  SHA256: FLAG_SHA256,
  SHA512: 1 << FURTHER_ALGORITHM.shift,
  MD5: 2 << FURTHER_ALGORITHM.shift,
  XXHASH64: 3 << FURTHER_ALGORITHM.shift,
  XXHASH3: 4 << FURTHER_ALGORITHM.shift,
  XXHASH128: 5 << FURTHER_ALGORITHM.shift,
} as const satisfies Record<Checksum['algorithm'], number>
const FURTHER_MASK = FURTHER_ALGORITHM.bits << FURTHER_ALGORITHM.shift
const ALGORITHMS = Object.entries(FLAG_OF_ALGORITHM) as [Checksum['algorithm'], number][] // its own keys
const FLAG_OF_ENCRYPTION = {
  AES256: FLAG_ENCRYPTED_S3,
  'aws:kms': FLAG_ENCRYPTED_KMS,
  customer: FLAG_ENCRYPTED_CUSTOMER,
} as const satisfies Record<Encryption['kind'], number>

export const valueOf = (frame: CommitHead, position: number): ObjectValue => ({
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
  const checksumAlgorithms = ALGORITHMS.filter(([, flag]) =>
    (flag & FURTHER_MASK) === 0 ? (flags & flag) !== 0 : (flags & FURTHER_MASK) === flag,
  ).map(([algorithm]) => algorithm)
  const type = (flags & FLAG_COMPOSITE) === 0 ? 'FULL_OBJECT' : 'COMPOSITE'
  return { checksumAlgorithms, checksumType: checksumAlgorithms.length === 0 ? null : type } as const
}

export function storageClassOf({ flags }: ObjectValue): StorageClass {
  return STORAGE_CLASSES[(flags >>> STORAGE_CLASS.shift) & STORAGE_CLASS.bits] ?? DEFAULT_STORAGE_CLASS
}

export function flagsOf(
  { tags, encryption, storageClass }: Pick<ObjectAttributes, 'tags' | 'encryption' | 'storageClass'>,
  checksums: readonly Checksum[],
): number {
  let flags = (tags.length > 0 ? FLAG_TAGS : 0) | (STORAGE_CLASSES.indexOf(storageClass) << STORAGE_CLASS.shift)
  for (const { algorithm, type } of checksums) {
    flags |= FLAG_OF_ALGORITHM[algorithm] | (type === 'COMPOSITE' ? FLAG_COMPOSITE : 0)
  }
  return encryption === null ? flags : flags | FLAG_OF_ENCRYPTION[encryption.kind]
}
