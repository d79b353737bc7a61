/** Listeners that replace their certificates while they serve. */
import { StoreError } from '../errors.ts'
import type { TlsMaterial } from '../tls-files.ts'

export interface TlsListener {
  /** Open connections are not affected. @throws when the files cannot be used: the listener keeps the material that it had */
  renewTls(material: TlsMaterial): void
}

/**
 * Makes the listeners use the files as they are now.
 *
 * @param read throws a StoreError that says what is wrong, without the name of the setting
 * @returns whether they did
 */
export function renewTls(
  read: () => TlsMaterial,
  listeners: readonly TlsListener[],
  logger: { info(details: object, message: string): void; error(details: object, message: string): void },
): boolean {
  try {
    const material = read()
    for (const each of listeners) each.renewTls(material)
    logger.info({ valid_to: material.validTo }, 'certificates read again')
    return true
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    logger.error({ reason: error.message }, 'the certificates were not replaced: those before stay in force')
    return false
  }
}
