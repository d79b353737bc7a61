/**
 * Credentials of the broker as operators write them: the file of MQ_CREDENTIALS_FILE. Source: contract "Broker".
 *
 * Each entry is a key, by its digest, or the subject of a certificate. A mode takes its own entries and ignores the others.
 */
import { Type } from '../schema.ts'
import { StoreError } from '../errors.ts'
import { EntryMistake, jsonFile, readEntries, readSettingFile } from './setting-file.ts'
import { subjectWritten } from './subject.ts'
import type { Subject } from './subject.ts'

const GRANTED = 'tenant.administer|tenant.inspect|create_stream|stream.inspect|stream.publish|stream.consume|stream.ack'
const Name = Type.String({ minLength: 1, maxLength: 256, pattern: '^[\\x21-\\x7e]+$' })
const CredentialsFile = Type.Object(
  {
    keys: Type.Array(
      Type.Object(
        {
          key_sha256: Type.Optional(Type.String({ pattern: '^[0-9a-fA-F]{64}$' })),
          subject: Type.Optional(Type.String({ minLength: 1, maxLength: 4096 })),
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

/** Modes whose credentials are in the file. */
export type BrokerAuthByFile = 'api-key' | 'mtls'

export interface BrokerCredential {
  /** SHA-256 of the key in 64 lower-case digits, which does not reveal the key; or the subject of a certificate. */
  readonly proof: { readonly keySha256: string } | { readonly subject: Subject }
  readonly tenant: string
  readonly principal: string
  readonly grants: readonly { readonly permission: string; readonly stream: string | null }[]
}

const badFile = (mistake: string): StoreError => new StoreError('invalid', 'invalid_credentials_file', mistake)
const contentOf = jsonFile(CredentialsFile, badFile)

/**
 * Credentials of the mode in use.
 *
 * @throws StoreError `invalid_credentials_file` or `setting_file_unreadable`; its message continues the setting's name: 'names a file …'
 */
export const readBrokerCredentials = (path: string, mode: BrokerAuthByFile): readonly BrokerCredential[] =>
  parseBrokerCredentials(readSettingFile(path), mode)

/** @throws as `readBrokerCredentials` does */
export function parseBrokerCredentials(text: string, mode: BrokerAuthByFile): readonly BrokerCredential[] {
  const seen = new Set<string>()
  const all = readEntries(contentOf(text).keys, badFile, (key, index) => {
    const { key_sha256, subject, tenant, principal, grants } = key
    const mistake = (what: string): EntryMistake => new EntryMistake(`keys.${index}${what}`)
    const given = grants.map(({ permission, stream }) => ({ permission, stream: stream ?? null }))
    const once = (name: string, ...values: readonly string[]): void => {
      if (values.some((value) => seen.has(value))) throw mistake(`.${name} is there twice`)
      for (const value of values) seen.add(value)
    }
    if ((key_sha256 === undefined) === (subject === undefined))
      throw mistake(' needs key_sha256 or subject, one of them')
    if (key_sha256 !== undefined) {
      const keySha256 = key_sha256.toLowerCase()
      once('key_sha256', keySha256)
      return { proof: { keySha256 }, tenant, principal, grants: given }
    }
    const written = subjectWritten(subject!) // one of the two is there
    if (written === null) throw mistake('.subject must be a name as in CN=ci,O=acme')
    once('subject', ...new Set([written.forwards, written.backwards]))
    return { proof: { subject: written }, tenant, principal, grants: given }
  })
  const own = all.filter(({ proof }) => (mode === 'mtls') === 'subject' in proof)
  if (own.length > 0) return own
  throw badFile(`names a file without a ${mode === 'mtls' ? 'subject' : 'key_sha256'}, which the mode ${mode} needs`)
}
