/** API keys of the broker as operators write them: the file of MQ_CREDENTIALS_FILE. Source: contract "Broker". */
import { Type } from 'typebox'
import { StoreError } from '../errors.ts'
import { jsonFile, readSettingFile } from './setting-file.ts'

const GRANTED = 'tenant.administer|tenant.inspect|create_stream|stream.inspect|stream.publish|stream.consume|stream.ack'
const Name = Type.String({ minLength: 1, maxLength: 256, pattern: '^[\\x21-\\x7e]+$' })
const CredentialsFile = Type.Object(
  {
    keys: Type.Array(
      Type.Object(
        {
          key_sha256: Type.String({ pattern: '^[0-9a-fA-F]{64}$' }),
          tenant: Name,
          principal: Name,
          grants: Type.Array(
            Type.Object(
              {
                permission: Type.String({ pattern: `^(?:${GRANTED})$` }),
                stream: Type.Optional(Type.Union([Type.String({ minLength: 1, maxLength: 257 }), Type.Null()])),
              },
              { additionalProperties: false },
            ),
          ),
        },
        { additionalProperties: false },
      ),
      { minItems: 1 },
    ),
  },
  { additionalProperties: false },
)

export interface BrokerKey {
  /** 64 lower-case digits: nobody can ask with it. */
  readonly keySha256: string
  readonly tenant: string
  readonly principal: string
  readonly grants: readonly { readonly permission: string; readonly stream: string | null }[]
}

const badFile = (mistake: string): StoreError => new StoreError('invalid', 'invalid_credentials_file', mistake)
const contentOf = jsonFile(CredentialsFile, badFile)

/** @throws StoreError `invalid_credentials_file` or `setting_file_unreadable` that goes on after the setting's name: 'names a file …' */
export const readBrokerKeys = (path: string): readonly BrokerKey[] => parseBrokerKeys(readSettingFile(path))

/** @throws as `readBrokerKeys` does */
export function parseBrokerKeys(text: string): readonly BrokerKey[] {
  const seen = new Set<string>()
  return contentOf(text).keys.map(({ key_sha256, tenant, principal, grants }, index) => {
    const keySha256 = key_sha256.toLowerCase()
    if (seen.has(keySha256)) throw badFile(`names a file with a mistake: keys.${index}.key_sha256 is there twice`)
    seen.add(keySha256)
    const given = grants.map(({ permission, stream }) => ({ permission, stream: stream ?? null }))
    return { keySha256, tenant, principal, grants: given }
  })
}
