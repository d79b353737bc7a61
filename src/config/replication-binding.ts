/**
 * Where the broker's streams are replicated to, as operators write it: the file of MQ_REPLICATION_BINDING_FILE. Source: contract "Broker".
 *
 * Everything that a policy names is read with the binding. So a policy that was read can be used, and a file that changes later changes nothing until
 * the binding is read again.
 *
 * B1  a policy's key stands in an environment variable or in a file of its own, which the binding names: no key is ever in the binding or in a message
 */
import { Type } from '../schema.ts'
import type { Static } from 'typebox'
import { StoreError } from '../errors.ts'
import { EntryMistake, jsonFile, readEntries, readSettingFile } from './setting-file.ts'
import { readAuthorities, readTls } from './tls.ts'
import type { Environment } from './settings.ts'

export interface ReplicationPolicy {
  readonly name: string
  /** Names of streams, or prefixes of names, with `*` behind them. */
  readonly streams: readonly string[]
  readonly sourceSite: string
  readonly targetSite: string
  /** Where batches are sent to. */
  readonly applyUrl: string
  /** Authorities in PEM that the certificate of a https target is checked against. Null: those that Node knows. */
  readonly targetCa: string | null
  /** Client certificate for a https target, in PEM; null: none. */
  readonly targetCertificate: { readonly cert: string; readonly key: string } | null
  /** Null: the target asks for none. */
  readonly apiKey: string | null
  /** Most records that retention waits for; null: it waits for all. */
  readonly maxLagRecords: number | null
  /** Whether records that came from other sites are sent on. */
  readonly forward: boolean
  /** Tenant whose streams are replicated. Null: all tenants. */
  readonly tenant: string | null
}

const APPLY_PATH = '/v1/replication/target/apply'
const NAME_RULE = 'must not be blank, and has no control characters and no backslash'
const Name = Type.String({ minLength: 1, maxLength: 256 })
const Path = Type.String({ minLength: 1, maxLength: 4096 })
const nullable = <T extends Parameters<typeof Type.Optional>[0]>(schema: T) =>
  Type.Optional(Type.Union([schema, Type.Null()]))

const BindingFile = Type.Object(
  {
    policies: Type.Array(
      Type.Object(
        {
          name: Name,
          streams: Type.Array(Name, { minItems: 1 }),
          source_site: Name,
          target_site: Name,
          target_url: Name,
          target_ca_file: nullable(Path),
          target_cert_file: nullable(Path),
          target_key_file: nullable(Path),
          api_key_env: nullable(Name),
          api_key_file: nullable(Path),
          max_lag_records: nullable(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
          forward: nullable(Type.Boolean()),
          tenant: nullable(Name),
        },
        { additionalProperties: false },
      ),
      { minItems: 1 },
    ),
  },
  { additionalProperties: false },
)

type PolicyEntry = Static<typeof BindingFile>['policies'][number]
/** A rule that a field of the entry breaks. */
type Mistake = (field: string, rule: string) => EntryMistake

const badBinding = (mistake: string): StoreError => new StoreError('invalid', 'invalid_replication_binding', mistake)
const contentOf = jsonFile(BindingFile, badBinding)

/** @throws StoreError `invalid_replication_binding` or `setting_file_unreadable`; its message continues the setting's name: 'names a file …' */
export const readReplicationBinding = (path: string, env: Environment): readonly ReplicationPolicy[] =>
  parseReplicationBinding(readSettingFile(path), env)

/** @throws as `readReplicationBinding` does */
export function parseReplicationBinding(text: string, env: Environment): readonly ReplicationPolicy[] {
  const names = new Set<string>()
  return readEntries(contentOf(text).policies, badBinding, (each, index) => {
    const mistake: Mistake = (field, rule) => new EntryMistake(`policies.${index}.${field} ${rule}`)
    const { name, streams, source_site: sourceSite, target_site: targetSite } = each
    for (const field of ['name', 'source_site', 'target_site'] as const) {
      if (!isName(each[field])) throw mistake(field, NAME_RULE)
    }
    if (names.has(name)) throw mistake('name', 'is there twice: give each policy a name of its own')
    names.add(name)
    if (sourceSite === targetSite) throw mistake('target_site', 'must differ from source_site')
    for (const [number, pattern] of streams.entries()) {
      if (!isPattern(pattern))
        throw mistake(`streams.${number}`, 'must be the name of a stream, or the beginning of names followed by *')
    }
    return Object.freeze({
      name,
      streams,
      sourceSite,
      targetSite,
      applyUrl:
        applyUrlOf(each.target_url) ??
        raise(mistake('target_url', 'must be http://host:port or https://host:port, without credentials and query')),
      targetCa: targetCaOf(each, mistake),
      targetCertificate: targetCertificateOf(each, mistake),
      apiKey: apiKeyOf(each, env, mistake),
      maxLagRecords: each.max_lag_records ?? null,
      forward: each.forward ?? false,
      tenant: each.tenant ?? null,
    })
  })
}

/** B1 */
function apiKeyOf(entry: PolicyEntry, env: Environment, mistake: Mistake): string | null {
  const variable = entry.api_key_env ?? null
  const file = entry.api_key_file ?? null
  if (variable !== null && file !== null) throw mistake('api_key_file', 'excludes api_key_env: give only one of them')
  if (file !== null) {
    const key = within('api_key_file', mistake, () => readSettingFile(file)).trim()
    if (isKey(key)) return key
    throw mistake('api_key_file', 'names a file that holds no key: a key has printable ASCII characters only')
  }
  if (variable === null) return null
  const key = env[variable] ?? ''
  if (key === '') {
    const rule = 'names a variable that is not set: put the key of the target into it, or leave it out'
    throw mistake('api_key_env', rule)
  }
  if (isKey(key)) return key
  throw mistake('api_key_env', 'names a variable that holds no key: a key has printable ASCII characters only')
}

const isKey = (text: string): boolean => /^[\x21-\x7e]+$/.test(text)

function targetCaOf({ target_url, target_ca_file: file }: PolicyEntry, mistake: Mistake): string | null {
  if (file === null || file === undefined) return null
  checkSecure('target_ca_file', target_url, mistake)
  return within('target_ca_file', mistake, () => readAuthorities(file))
}

const CERTIFICATE_FIELDS = {
  certFile: 'target_cert_file',
  keyFile: 'target_key_file',
  clientCaFile: 'target_ca_file',
} as const

function targetCertificateOf(entry: PolicyEntry, mistake: Mistake): ReplicationPolicy['targetCertificate'] {
  const { target_url, target_cert_file, target_key_file } = entry
  const certFile = target_cert_file ?? null
  const keyFile = target_key_file ?? null
  if (certFile === null && keyFile === null) return null
  if (certFile === null) throw mistake('target_cert_file', 'must name a file, as target_key_file does')
  if (keyFile === null) throw mistake('target_key_file', 'must name a file, as target_cert_file does')
  checkSecure('target_cert_file', target_url, mistake)
  const { cert, key } = within(null, mistake, () =>
    readTls({ certFile, keyFile, clientCaFile: null }, CERTIFICATE_FIELDS),
  )
  return { cert, key }
}

function checkSecure(field: string, targetUrl: string, mistake: Mistake): void {
  if (!targetUrl.startsWith('https:')) throw mistake(field, 'needs a target_url that begins with https:')
}

/** @param field that `read` is about; null: its message begins with the field */
function within<T>(field: string | null, mistake: Mistake, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    const [first, ...rest] = error.message.split(' ')
    throw field === null ? mistake(first!, rest.join(' ')) : mistake(field, error.message)
  }
}

// oxlint-disable-next-line no-control-regex -- they are what names must not have
const isName = (text: string): boolean => text.trim() !== '' && !/[\u0000-\u001f\u007f-\u009f\\]/.test(text)

const isPattern = (text: string): boolean =>
  isName(text) && text.trim() === text && !text.includes('/') && !text.slice(0, -1).includes('*')

/** Null: the text is no such URL. */
function applyUrlOf(text: string): string | null {
  const url = URL.parse(text)
  if (url === null || !['http:', 'https:'].includes(url.protocol)) return null
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') return null
  const base = `${url.origin}${url.pathname.replace(/\/+$/, '')}`
  return base.endsWith(APPLY_PATH) ? base : base + APPLY_PATH
}

function raise(error: Error): never {
  throw error
}
