/**
 * Certificates of a service's listeners: the settings …_TLS_CERT_FILE, …_TLS_KEY_FILE and …_TLS_CLIENT_CA_FILE.
 *
 * T1  files without a mistake are a certificate, the key that fits it, and authorities; a listener that takes them works
 * T2  no error quotes a file
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
      'Certificate of the listener in PEM, with its intermediate certificates: the listener then speaks TLS. SIGHUP reads it again',
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
 * @param shown names of the settings as the operator knows them
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
    if (clientCaFile !== null) problems.add(names.clientCaFile, `needs ${shown.certFile} and ${shown.keyFile} as well`)
    return null
  }
  if (certFile === null) problems.add(names.certFile, `must name a file, as ${shown.keyFile} does`)
  if (keyFile === null) problems.add(names.keyFile, `must name a file, as ${shown.certFile} does`)
  if (certFile === null || keyFile === null) return null
  const tls = Object.freeze({ certFile, keyFile, clientCaFile })
  for (const { part, message } of readingOf(tls).mistakes) problems.add(names[part], message)
  return tls
}

interface Mistake {
  readonly part: keyof TlsFiles
  /** Continues the setting's name: 'names a file …'. */
  readonly message: string
}

/**
 * @param names of the settings as the operator knows them
 * @throws StoreError that names the setting
 */
export function readTls(tls: TlsFiles, names: TlsNames): TlsMaterial {
  const { material, mistakes } = readingOf(tls)
  if (material !== null) return material
  const shown = mistakes.map(({ part, message }) => `${names[part]} ${message}`)
  throw new StoreError('invalid', 'bad_tls_file', shown.join('; '))
}

interface Reading {
  /** T1. Null: there are mistakes. */
  readonly material: TlsMaterial | null
  readonly mistakes: readonly Mistake[]
}

function readingOf({ certFile, keyFile, clientCaFile }: TlsFiles): Reading {
  const mistakes: Mistake[] = []
  const tell = <T>(part: keyof TlsFiles, readFile: () => T): T | null => {
    try {
      return readFile()
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      mistakes.push({ part, message: error.message })
      return null
    }
  }
  const certificates = tell('certFile', () => readCertificates(certFile))
  const key = tell('keyFile', () => readSettingFile(keyFile))
  const clientCa = clientCaFile === null ? null : tell('clientCaFile', () => readCertificates(clientCaFile).pem)
  if (key !== null) {
    try {
      createSecureContext(certificates === null ? { key } : { cert: certificates.pem, key })
    } catch (error) {
      mistakes.push({ part: 'keyFile', message: `names a file ${problemOfKey(error)}` })
    }
  }
  if (certificates === null || key === null || mistakes.length > 0) return { material: null, mistakes }
  return { material: { cert: certificates.pem, key, clientCa, validTo: certificates.validTo }, mistakes }
}

/** @throws StoreError whose message continues a name: 'names a file …' */
export const readAuthorities = (file: string): string => readCertificates(file).pem

const BLOCK = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g

interface Certificates {
  readonly pem: string
  /** When the first certificate expires. */
  readonly validTo: string
}

/** @throws as `readAuthorities` does */
function readCertificates(file: string): Certificates {
  const pem = readSettingFile(file)
  try {
    const [first] = (pem.match(BLOCK) ?? []).map((each) => new X509Certificate(each))
    if (first !== undefined) return { pem, validTo: first.validTo }
  } catch {
    // T2: the cause quotes the file
  }
  throw new StoreError(
    'invalid',
    'bad_tls_file',
    'names a file without a certificate in PEM, or with one that cannot be read',
  )
}

function problemOfKey(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  if (code === 'ERR_OSSL_X509_KEY_VALUES_MISMATCH') return 'whose key does not fit the certificate'
  if (/PASSWORD|CRYPTO_READ|BAD_DECRYPT|INTERRUPTED/.test(code)) return 'whose key asks for a passphrase'
  return 'without a private key in PEM'
}
