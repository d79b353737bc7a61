/**
 * Certificates of a service's listeners: the settings …_TLS_CERT_FILE, …_TLS_KEY_FILE and …_TLS_CLIENT_CA_FILE.
 *
 * T1  files that were found good are a certificate, the key that fits it, and authorities; a listener that takes them can work
 * T2  no message has a part of what a file says
 */
import { X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import { StoreError } from '../errors.ts'
import type { TlsFiles, TlsMaterial } from '../tls-files.ts'
import { readSettingFile } from './setting-file.ts'
import { optional, path } from './settings.ts'
import type { Setting, SettingProblems } from './settings.ts'

/** Part of `TlsFiles` → the setting it comes from. */
export type TlsNames = Readonly<Record<keyof TlsFiles, string>>

type TlsValues = Readonly<Record<keyof TlsFiles, string | null>>

export const tlsCertSetting: Setting<string | null> = optional(
  path({
    description:
      'Certificate of the listener in PEM, with those between it and its authority: the listener speaks TLS. SIGHUP reads it again',
  }),
)
export const tlsKeySetting: Setting<string | null> = optional(
  path({ description: 'Private key of the certificate in PEM, without a passphrase. SIGHUP reads it again' }),
)
export const tlsClientCaSetting: Setting<string | null> = optional(
  path({
    description: 'Authorities in PEM: a client must show a certificate that one of them signed. SIGHUP reads it again',
  }),
)

/**
 * @param shown what the operator knows the settings by
 * @returns null: the listener speaks plain HTTP, or there are problems
 */
export function tlsOf(
  values: TlsValues,
  names: TlsNames,
  problems: SettingProblems,
  shown: TlsNames = names,
): TlsFiles | null {
  const { certFile, keyFile, clientCaFile } = values
  if (certFile === null && keyFile === null) {
    if (clientCaFile !== null)
      problems.add(names.clientCaFile, `needs ${shown.certFile} and ${shown.keyFile} beside it`)
    return null
  }
  if (certFile === null) problems.add(names.certFile, `must name a file, as ${shown.keyFile} does`)
  if (keyFile === null) problems.add(names.keyFile, `must name a file, as ${shown.certFile} does`)
  if (certFile === null || keyFile === null) return null
  const tls = Object.freeze({ certFile, keyFile, clientCaFile })
  try {
    materialOf(tls)
  } catch (error) {
    if (!(error instanceof BadTlsFile)) throw error
    problems.add(names[error.part], error.message)
  }
  return tls
}

/** Goes on after the setting's name: 'names a file …'. */
class BadTlsFile extends StoreError {
  readonly part: keyof TlsFiles

  constructor(part: keyof TlsFiles, message: string) {
    super('invalid', 'bad_tls_file', message)
    this.part = part
  }
}

/**
 * @param names what the operator knows the settings by
 * @throws StoreError that names the setting
 */
export function readTls(tls: TlsFiles, names: TlsNames): TlsMaterial {
  try {
    return materialOf(tls)
  } catch (error) {
    if (!(error instanceof BadTlsFile)) throw error
    throw new StoreError(error.kind, error.code, `${names[error.part]} ${error.message}`, { cause: error })
  }
}

/** T1. @throws BadTlsFile */
function materialOf({ certFile, keyFile, clientCaFile }: TlsFiles): TlsMaterial {
  const cert = read('certFile', certFile)
  const key = read('keyFile', keyFile)
  const clientCa = clientCaFile === null ? null : read('clientCaFile', clientCaFile)
  const { validTo } = certificatesIn('certFile', cert)
  if (clientCa !== null) certificatesIn('clientCaFile', clientCa)
  try {
    createSecureContext({ cert, key })
  } catch (error) {
    throw new BadTlsFile('keyFile', `names a file ${problemOfKey(error)}`)
  }
  return { cert, key, clientCa, validTo }
}

/** @throws StoreError whose message continues a name: 'names a file …' */
export function readAuthorities(file: string): string {
  const pem = readSettingFile(file)
  certificatesIn('clientCaFile', pem)
  return pem
}

function read(part: keyof TlsFiles, file: string): string {
  try {
    return readSettingFile(file)
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    throw new BadTlsFile(part, error.message)
  }
}

const BLOCK = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g

/** @returns the first */
function certificatesIn(part: keyof TlsFiles, pem: string): X509Certificate {
  try {
    const [first] = (pem.match(BLOCK) ?? []).map((each) => new X509Certificate(each))
    if (first !== undefined) return first
  } catch {
    // its cause quotes the file: T2
  }
  throw new BadTlsFile(part, 'names a file without a certificate in PEM, or with one that cannot be read')
}

function problemOfKey(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  if (code === 'ERR_OSSL_X509_KEY_VALUES_MISMATCH') return 'whose key does not fit the certificate'
  if (/PASSWORD|CRYPTO_READ|BAD_DECRYPT|INTERRUPTED/.test(code)) return 'whose key asks for a passphrase'
  return 'without a private key in PEM'
}
