/**
 * Access keys as operators write them: the file of OBJSTORE_CREDENTIALS_FILE. Source: contract "Object store".
 *
 * K1  a secret leaves this file only as what was computed with it: no message, no field and no cause of an error has it.
 */
import { createHmac } from 'node:crypto'
import { Type } from '../../../schema.ts'
import { EntryMistake, jsonFile, readEntries } from '../../../config/setting-file.ts'
import { StoreError } from '../../../errors.ts'
import { isPermission, PERMISSIONS, PRINCIPAL_ID } from './principal.ts'
import type { Principal } from './principal.ts'
import { signingKeyOf } from './sigv4.ts'
import type { Credential } from './sigv4.ts'

const CredentialsFile = Type.Object(
  {
    keys: Type.Array(
      Type.Object(
        {
          // an id cannot have the comma, which separates the parts of an authorization header
          access_key_id: Type.String({ pattern: '^[\\x21-\\x2b\\x2d-\\x7e]{1,128}$' }),
          secret_access_key: Type.String({ minLength: 1, maxLength: 256 }),
          principal: Type.String({ pattern: PRINCIPAL_ID.source }),
          permissions: Type.Array(Type.String({ pattern: `^(?:${PERMISSIONS.join('|')})$` })),
        },
        { additionalProperties: false },
      ),
      { minItems: 1 },
    ),
  },
  { additionalProperties: false },
)

const badFile = (mistake: string): StoreError => new StoreError('invalid', 'invalid_credentials_file', mistake)
const contentOf = jsonFile(CredentialsFile, badFile)

/** Signing keys kept for each access key: requests are signed for today, pre-signed URLs for the days of a week, forms for any. */
const SIGNING_KEYS_MAX = 64

export class AccessKey {
  readonly id: string
  readonly principal: Principal
  readonly #secret: string
  readonly #signingKeys = new Map<string, Buffer>()

  constructor(id: string, secret: string, principal: Principal) {
    this.id = id
    this.principal = principal
    this.#secret = secret
  }

  signingKey(credential: Credential): Buffer {
    return this.#signingKeys.get(placeOf(credential)) ?? signingKeyOf(this.#secret, credential)
  }

  /** Keeps the signing key after a good signature, and not before: guessed days must not fill the memory. */
  remember(credential: Credential, signingKey: Buffer): void {
    const place = placeOf(credential)
    if (this.#signingKeys.has(place)) return
    if (this.#signingKeys.size >= SIGNING_KEYS_MAX) this.#signingKeys.clear()
    this.#signingKeys.set(place, signingKey)
  }

  /** The signature of Signature Version 2. */
  hmacSha1(text: string): string {
    return createHmac('sha1', this.#secret).update(text).digest('base64')
  }
}

/** True when both keys have the same principal, permissions and secret. */
export const isSameKey = (one: AccessKey, other: AccessKey): boolean =>
  one.principal.id === other.principal.id &&
  one.principal.permissions.size === other.principal.permissions.size &&
  [...one.principal.permissions].every((permission) => other.principal.permissions.has(permission)) &&
  one.hmacSha1('') === other.hmacSha1('') // K1

const placeOf = ({ day, region }: Credential): string => `${day}/${region}`

export type Credentials = ReadonlyMap<string, AccessKey>

/** @throws StoreError `invalid_credentials_file` whose message continues the setting's name: 'names a file …' (K1) */
export function parseCredentials(text: string): Credentials {
  const value = contentOf(text)
  const keys = new Map<string, AccessKey>()
  readEntries(value.keys, badFile, (key, index) => {
    if (keys.has(key.access_key_id)) throw new EntryMistake(`keys.${index}.access_key_id is there twice`)
    const principal = Object.freeze({ id: key.principal, permissions: new Set(key.permissions.filter(isPermission)) })
    keys.set(key.access_key_id, new AccessKey(key.access_key_id, key.secret_access_key, principal))
  })
  return keys
}
