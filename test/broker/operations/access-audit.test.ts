/** Contract "Broker", audit: at most one event per second for each refused principal, and one in the operator's stream for all unknown ones. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { AccessAudit } from '../../../src/broker/operations/access-audit.ts'
import type { AuditEvent } from '../../../src/broker/records/audit-event.ts'
import { BrokerWorld, CALLER, Pending, jsonOf } from '../../support/broker-world.ts'

const ACME = { tenant: 'acme', principal: 'ci' }

async function open() {
  const world = await BrokerWorld.open()
  const time = { nowMs: 0 }
  const audit = new AccessAudit(world.core, () => time.nowMs, CALLER.tenant)
  const eventsOf = async (tenant: string): Promise<readonly AuditEvent[]> => {
    await world.flush()
    const page = { startOffset: 0, maxRecords: 1000, format: 'json' } as const
    const asked = new Pending(world.broker.audit({ tenant, principal: 'auditor' }, page))
    await world.flush()
    return jsonOf<{ events: AuditEvent[] }>(asked.value).events
  }
  return { world, time, audit, eventsOf }
}

describe('credentials that are nobody’s', () => {
  it('are in the audit stream of the operator, at most once a second for all together, with how many they were', async () => {
    const { world, time, audit, eventsOf } = await open()
    for (const [nowMs, address] of [
      [0, '10.0.0.1'],
      [1, '10.0.0.2'],
      [999, '10.0.0.3'],
      [1000, '10.0.0.4'],
      [1500, '10.0.0.5'],
      [9000, '10.0.0.6'],
    ] as const) {
      time.nowMs = nowMs
      audit.unidentified('this node does not know the key', address)
    }
    const message = 'this node does not know the key'
    assert.deepEqual(
      (await eventsOf(CALLER.tenant)).map(({ kind, principal, stream, detail }) => [kind, principal, stream, detail]),
      [
        ['authentication_failed', 'unknown', null, { message, remote_address: '10.0.0.1', refusals: 1 }],
        ['authentication_failed', 'unknown', null, { message, remote_address: '10.0.0.4', refusals: 3 }],
        ['authentication_failed', 'unknown', null, { message, remote_address: '10.0.0.6', refusals: 2 }],
      ],
    )
    await world.close()
  })

  it('leave other tenants’ streams alone, and the limits of their principals', async () => {
    const { world, audit, eventsOf } = await open()
    audit.unidentified('this node does not know the key', '10.0.0.1')
    audit.refused(ACME, 'the permission stream.publish is missing', 'orders')
    audit.refused(ACME, 'the permission stream.publish is missing', 'orders')
    assert.deepEqual(
      (await eventsOf('acme')).map(({ kind, principal }) => [kind, principal]),
      [['authorization_denied', 'ci']],
    )
    await world.close()
  })

  it('are refused just the same when the log takes nothing', async () => {
    const { world, time, audit, eventsOf } = await open()
    await world.limitDisk(0)
    audit.unidentified('this node does not know the key', '10.0.0.1')
    await world.limitDisk(Infinity)
    time.nowMs = 1000
    audit.unidentified('this node does not know the key', '10.0.0.2')
    const addresses = (await eventsOf(CALLER.tenant)).map(({ detail }) => detail['remote_address'])
    assert.ok(addresses.includes('10.0.0.2'))
    await world.close()
  })
})
