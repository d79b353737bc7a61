/**
 * The TLS settings with which a command reaches a node: the files of `--tls-ca`, `--tls-cert` and `--tls-key`.
 *
 * Without `--tls-ca` only plain http targets are accepted, as the specification has it ("Command-line tool mq", row "Remote").
 */
import type { TlsSettings } from '../client/http/node-transport.ts'
import { readAuthorities, readTls } from '../config/tls.ts'
import { StoreError } from '../errors.ts'
import { usageFailure } from './failure.ts'

/** Paths, as the command line has them; null: not given. */
export interface TargetTlsFiles {
  readonly ca: string | null
  readonly cert: string | null
  readonly key: string | null
}

/**
 * @returns null: none of the options is given
 * @throws CliFailure that names the option, and quotes no file
 */
export function readTargetTls({ ca, cert, key }: TargetTlsFiles): TlsSettings | null {
  if (ca === null && cert === null && key === null) return null
  if (ca === null) throw usageFailure('--tls-cert and --tls-key need --tls-ca as well')
  if ((cert === null) !== (key === null)) throw usageFailure('--tls-cert and --tls-key go together')
  return {
    ca: readable('--tls-ca ', () => readAuthorities(ca)),
    ...(cert !== null && key !== null && clientCertificate(cert, key)),
  }
}

function clientCertificate(certFile: string, keyFile: string): Pick<TlsSettings, 'cert' | 'key'> {
  const names = { certFile: '--tls-cert', keyFile: '--tls-key', clientCaFile: '--tls-ca' }
  const { cert, key } = readable('', () => readTls({ certFile, keyFile, clientCaFile: null }, names))
  return { cert, key }
}

function readable<T>(option: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    throw usageFailure(`${option}${error.message}`, 'Name a file in PEM that can be read.')
  }
}
