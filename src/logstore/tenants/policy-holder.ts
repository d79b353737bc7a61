/** The tenant policy in force, and its reload. */
import { isDeepStrictEqual } from 'node:util'
import { namesUnreadable } from '../../config/setting-file.ts'
import { StoreError, messageOf } from '../../errors.ts'
import type { Files } from '../../log/files.ts'
import { readWhole } from '../../log/files.ts'
import { AUDIT, NO_AUDIT_LOG, changesBetween } from '../../observability/audit-log.ts'
import type { AuditLog } from '../../observability/audit-log.ts'
import type { Logger } from '../../observability/logger.ts'
import { developmentPolicy, parseTenantPolicy } from './tenant-policy-file.ts'
import type { Tenant, TenantPolicy } from './tenant-policy.ts'

export class PolicyHolder {
  readonly #files: Files
  readonly #path: string | null
  readonly #logger: Logger
  readonly #audit: AuditLog
  readonly #listeners: ((policy: TenantPolicy) => void)[] = []
  #policy: TenantPolicy

  /**
   * @param path  path of the policy file; null: the development policy
   * @throws StoreError when the file cannot be read or is not a policy
   */
  static load(files: Files, path: string | null, logger: Logger, audit = NO_AUDIT_LOG): PolicyHolder {
    const policy = path === null ? developmentPolicy() : readTenantPolicy(files, path, 1)
    return new PolicyHolder(files, path, logger, audit, policy)
  }

  private constructor(files: Files, path: string | null, logger: Logger, audit: AuditLog, policy: TenantPolicy) {
    this.#audit = audit
    this.#files = files
    this.#path = path
    this.#logger = logger
    this.#policy = policy
  }

  get policy(): TenantPolicy {
    return this.#policy
  }

  onChange(listener: (policy: TenantPolicy) => void): void {
    this.#listeners.push(listener)
  }

  /** Reads the file again. A bad file keeps the policy in force and says why in the log. */
  reload(): void {
    if (this.#path === null) {
      this.#logger.warn(
        { setting: POLICY_SETTING },
        'no tenant policy file is set: the development policy stays in force',
      )
      return
    }
    const before = this.#policy
    try {
      this.#policy = readTenantPolicy(this.#files, this.#path, this.#policy.generation + 1)
    } catch (error) {
      const reason = messageOf(error)
      this.#logger.error(
        { setting: POLICY_SETTING, reason },
        'the tenant policy file was refused: the policy before stays in force',
      )
      return
    }
    const { generation, tenants } = this.#policy
    this.#logger.info({ generation, tenants: tenants.length }, 'tenant policy reloaded')
    const changes = changesBetween(byId(before), byId(this.#policy), isDeepStrictEqual)
    if (changes !== null) this.#audit.info({ operation: 'ChangeTenants', principal: 'operator', ...changes }, AUDIT)
    for (const listener of this.#listeners) listener(this.#policy)
  }
}

const byId = ({ tenants }: TenantPolicy): ReadonlyMap<string, Tenant> =>
  new Map(tenants.map((tenant) => [tenant.id, tenant]))

const POLICY_SETTING = 'LOGSTORE_TENANT_POLICY_FILE'

export function readTenantPolicy(files: Files, path: string, generation: number): TenantPolicy {
  let bytes: Buffer | null
  try {
    bytes = readWhole(files, path)
  } catch (error) {
    const message = `${POLICY_SETTING} ${namesUnreadable(path, false)}`
    throw new StoreError('invalid', 'tenant_policy_unreadable', message, { cause: error })
  }
  if (!bytes)
    throw new StoreError('invalid', 'tenant_policy_missing', `${POLICY_SETTING} ${namesUnreadable(path, true)}`)
  return parseTenantPolicy(bytes.toString(), generation)
}
