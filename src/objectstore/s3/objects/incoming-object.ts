/** A body on its way to become an object. */
import { checkBody } from '../body/body-claims.ts'
import type { BodyClaims } from '../body/body-claims.ts'
import type { Checksum, ChecksumAlgorithm } from '../../bodies/checksums.ts'
import type { NewObject, ObjectStore, ObjectSummary, ReceivedBody } from '../../operations.ts'

export interface KeptObject {
  readonly summary: ObjectSummary
  readonly checksums: readonly Checksum[]
}

/**
 * Makes a body that was received an object.
 *
 * @param algorithms of the checksums to be kept, which were computed of the body
 * @throws S3Error what the precondition refuses, and what the store throws; the body is abandoned then
 */
export async function keepObject(
  store: ObjectStore,
  object: Omit<NewObject, 'checksums'>,
  algorithms: readonly ChecksumAlgorithm[],
): Promise<KeptObject> {
  const checksums = object.body.digest.checksums
    .filter(({ algorithm }) => algorithms.includes(algorithm))
    .map((checksum): Checksum => ({ ...checksum, type: 'FULL_OBJECT' }))
  try {
    return { summary: await store.putObject({ ...object, checksums }), checksums }
  } catch (error) {
    object.body.abandon()
    throw error
  }
}

/** Of a body that came without trailers. @throws S3Error when it is not what was claimed; it is abandoned then */
export function demandClaimed(claims: BodyClaims, body: ReceivedBody): void {
  try {
    checkBody(claims, body.digest, null)
  } catch (error) {
    body.abandon()
    throw error
  }
}
