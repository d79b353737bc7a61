/** Tells people on stderr why a process or a command cannot go on: the message of the error, without the secrets in URLs. */
import type { StoreError } from './errors.ts'
import { withoutUrlSecrets } from './url-secrets.ts'

export function printFailure({ message }: StoreError): void {
  process.stderr.write(`${withoutUrlSecrets(message)}\n`)
}
