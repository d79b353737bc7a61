/** What people are told on stderr when a process or a command cannot go on: what the error says, without what a URL holds of secrets. */
import type { StoreError } from './errors.ts'
import { withoutUrlSecrets } from './url-secrets.ts'

export function sayFailure({ message }: StoreError): void {
  process.stderr.write(`${withoutUrlSecrets(message)}\n`)
}
