/** A body on its way to become an object. */
import { checkBody } from '../body/body-claims.ts'
import type { BodyClaims } from '../body/body-claims.ts'
import type { Checksum, ChecksumAlgorithm } from '../../bodies/checksums.ts'
import type { NewObject, ObjectStore, ObjectSummary, ReceivedBody } from '../../operations.ts'

/** @param algorithms of the checksums to be kept, which were computed of the body */
export const newObject = (
  object: Omit<NewObject, 'checksums'>,
  algorithms: readonly ChecksumAlgorithm[],
): NewObject => ({ ...object, checksums: keptChecksums(object.body, algorithms) })

function keptChecksums({ digest }: ReceivedBody, algorithms: readonly ChecksumAlgorithm[]): Checksum[] {
  const checksums: Checksum[] = []
  for (const { algorithm, value } of digest.checksums) {
    if (algorithms.includes(algorithm)) checksums.push({ algorithm, value, type: 'FULL_OBJECT' })
  }
  return checksums
}

export const storeObject = (store: Pick<ObjectStore, 'putObject'>, object: NewObject): Promise<ObjectSummary> =>
  new Promise((answered, refused) => store.putObject({ answered, refused }, object))

/**
 * @param trailer as for `checkBody`
 * @throws S3Error when the body is not what was claimed; it is abandoned then
 */
export function demandClaimed(claims: BodyClaims, body: ReceivedBody, trailer: string | null): void {
  try {
    checkBody(claims, body.digest, trailer)
  } catch (error) {
    body.abandon()
    throw error
  }
}
