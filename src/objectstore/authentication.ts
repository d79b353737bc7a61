/** Authenticates callers of the store. The credentials file is read at the start and on SIGHUP. */
import type { ObjectStoreConfig } from '../config/objectstore.ts'
import { readSettingFile } from '../config/setting-file.ts'
import { StoreError, messageOf } from '../errors.ts'
import { AUDIT, NO_AUDIT_LOG, changesBetween } from '../observability/audit-log.ts'
import type { AuditLog } from '../observability/audit-log.ts'
import type { Logger } from '../observability/logger.ts'
import { localAuthenticator, signedAuthenticator } from './s3/auth/authenticator.ts'
import type { Authenticator } from './s3/auth/authenticator.ts'
import type { SignedRequest } from './s3/auth/canonical-request.ts'
import { isSameKey, parseCredentials } from './s3/auth/credentials.ts'
import type { Credentials } from './s3/auth/credentials.ts'

const CREDENTIALS_SETTING = 'OBJSTORE_CREDENTIALS_FILE'

export class Authentication implements Authenticator {
  readonly #config: ObjectStoreConfig
  readonly #logger: Logger
  readonly #audit: AuditLog
  #keys: Credentials = new Map()
  #current: Authenticator

  /** @throws StoreError that names the setting when the file cannot be used */
  constructor(config: ObjectStoreConfig, logger: Logger, audit = NO_AUDIT_LOG) {
    this.#audit = audit
    this.#config = config
    this.#logger = logger
    this.#current = this.#read()
  }

  authenticate: Authenticator['authenticate'] = (...call) => this.#current.authenticate(...call)

  authenticateForm: Authenticator['authenticateForm'] = (...call) => this.#current.authenticateForm(...call)

  /** True when the caller is known. Where no credentials are asked for, every caller is. */
  isKnown(request: SignedRequest, nowMs: number): boolean {
    if (this.#config.auth.mode === 'local') return true
    try {
      return this.authenticate(request, nowMs).principal !== null
    } catch {
      return false
    }
  }

  reload(): void {
    if (this.#config.auth.mode === 'local') {
      this.#logger.warn({ setting: CREDENTIALS_SETTING }, 'no credentials file is set: callers still name themselves')
      return
    }
    const before = this.#keys
    try {
      this.#current = this.#read()
      this.#logger.info({}, 'credentials read again')
      const changes = changesBetween(before, this.#keys, isSameKey)
      if (changes !== null) this.#audit.info({ operation: 'ChangeKeys', principal: 'operator', ...changes }, AUDIT)
    } catch (error) {
      const reason = messageOf(error)
      this.#logger.error({ reason }, 'the credentials file was refused: the credentials before stay in force')
    }
  }

  #read(): Authenticator {
    const { auth, region } = this.#config
    if (auth.mode === 'local') return localAuthenticator
    try {
      const credentials = parseCredentials(readSettingFile(auth.credentialsFile))
      this.#keys = credentials
      return signedAuthenticator({ credentials, region })
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      throw new StoreError(error.kind, error.code, `${CREDENTIALS_SETTING} ${error.message}`, { cause: error })
    }
  }
}
