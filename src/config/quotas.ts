/**
 * Quotas of the broker's tenants as operators write them: the file of MQ_QUOTAS_FILE. A tenant that is not in it has no limits.
 * Source: contract "Broker".
 */
import { Type } from '../schema.ts'
import { StoreError } from '../errors.ts'
import { EntryMistake, jsonFile, readEntries, readSettingFile } from './setting-file.ts'

/** null: no limit. */
interface TenantQuota {
  readonly publishRecordsPerSecond: number | null
  readonly publishBytesPerSecond: number | null
  /** Subscriptions with an active lease. */
  readonly consumersPerGroup: number | null
  readonly replicationEgressBytesPerSecond: number | null
}

export interface Quotas {
  readonly tenants: ReadonlyMap<string, TenantQuota>
}

const Limit = Type.Optional(Type.Union([Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }), Type.Null()]))
const QuotasFile = Type.Object(
  {
    tenants: Type.Array(
      Type.Object(
        {
          tenant: Type.String({ minLength: 1, maxLength: 256, pattern: '^[\\x21-\\x7e]+$' }),
          publish_records_per_second: Limit,
          publish_bytes_per_second: Limit,
          consumers_per_group: Limit,
          replication_egress_bytes_per_second: Limit,
        },
        { additionalProperties: false },
      ),
    ),
  },
  { additionalProperties: false },
)

const badQuotas = (mistake: string): StoreError => new StoreError('invalid', 'invalid_quotas', mistake)
const contentOf = jsonFile(QuotasFile, badQuotas)

export const NO_QUOTAS: Quotas = Object.freeze({ tenants: new Map<string, TenantQuota>() })

/** @throws StoreError `invalid_quotas` or `setting_file_unreadable`; its message continues the setting's name: 'names a file …' */
export function readQuotas(path: string): Quotas {
  return parseQuotas(readSettingFile(path))
}

/** @throws as `readQuotas` does */
export function parseQuotas(text: string): Quotas {
  const value = contentOf(text)
  const tenants = new Map<string, TenantQuota>()
  readEntries(value.tenants, badQuotas, (each, index) => {
    if (tenants.has(each.tenant)) throw new EntryMistake(`tenants.${index}.tenant is there twice`)
    const quota: TenantQuota = {
      publishRecordsPerSecond: each.publish_records_per_second ?? null,
      publishBytesPerSecond: each.publish_bytes_per_second ?? null,
      consumersPerGroup: each.consumers_per_group ?? null,
      replicationEgressBytesPerSecond: each.replication_egress_bytes_per_second ?? null,
    }
    tenants.set(each.tenant, Object.freeze(quota))
  })
  return Object.freeze({ tenants })
}
