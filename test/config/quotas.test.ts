import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { after, describe, it } from 'node:test'
import { parseQuotas, readQuotas } from '../../src/config/quotas.ts'

const directory = mkdtempSync(`${tmpdir()}/trilog-quotas-`)

const quotasOf = (...tenants: object[]): ReturnType<typeof parseQuotas> => parseQuotas(JSON.stringify({ tenants }))

describe('a quotas file', () => {
  after(() => rmSync(directory, { recursive: true }))

  it('holds limits by tenant; absent and null are no limit', () => {
    const { tenants } = quotasOf(
      {
        tenant: 'local',
        publish_records_per_second: 1000,
        publish_bytes_per_second: 1_048_576,
        consumers_per_group: 16,
        replication_egress_bytes_per_second: 1_048_577,
      },
      { tenant: 'acme', consumers_per_group: null },
    )
    assert.deepEqual(tenants.get('local'), {
      publishRecordsPerSecond: 1000,
      publishBytesPerSecond: 1_048_576,
      consumersPerGroup: 16,
      replicationEgressBytesPerSecond: 1_048_577,
    })
    assert.deepEqual(tenants.get('acme'), {
      publishRecordsPerSecond: null,
      publishBytesPerSecond: null,
      consumersPerGroup: null,
      replicationEgressBytesPerSecond: null,
    })
    assert.equal(tenants.get('other'), undefined)
    assert.ok(Object.isFrozen(tenants.get('local')))
    assert.equal(quotasOf().tenants.size, 0)
  })

  it('with a mistake is refused, and the message says where it is', () => {
    const refused = (says: RegExp, text: string): void =>
      assert.throws(() => parseQuotas(text), { kind: 'invalid', code: 'invalid_quotas', message: says })
    const tenant = (fields: object): string => JSON.stringify({ tenants: [{ tenant: 'local', ...fields }] })
    refused(/^names a file that is not valid JSON$/, '')
    refused(/^names a file with a mistake: the file must be object$/, '[]')
    refused(/tenants/, '{}')
    refused(/: tenants\.0\.publish_records_per_second must be >= 1 or null$/, tenant({ publish_records_per_second: 0 }))
    refused(/tenants\.0\.publish_bytes_per_second/, tenant({ publish_bytes_per_second: 1.5 }))
    refused(/tenants\.0\.consumers_per_group/, tenant({ consumers_per_group: '16' }))
    refused(/: tenants\.0 has an unknown field; known are tenant, /, tenant({ publish_record_per_second: 1 }))
    refused(/tenants\.0\.tenant/, tenant({ tenant: '' }))
    refused(/: tenants\.1\.tenant is there twice$/, JSON.stringify({ tenants: [{ tenant: 'a' }, { tenant: 'a' }] }))
  })

  it('that cannot be read is refused', () => {
    assert.throws(() => readQuotas(`${directory}/absent`), {
      message: `names a file that does not exist: ${directory}/absent`,
    })
    assert.throws(() => readQuotas(directory), { message: `names a file that cannot be read: ${directory}` })
  })
})
