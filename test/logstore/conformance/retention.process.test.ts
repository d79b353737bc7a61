/** Retention of datasets, as a tenant's policy says it: on the real process, as time passes and the policy changes. */
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { policyTenant } from '../../support/logstore.ts'
import type { PolicyTenant } from '../../support/logstore.ts'
import { eventually } from '../../support/waiting.ts'
import {
  JSON_LOGS,
  JSON_TRACES,
  accept,
  find,
  jsonLogs,
  jsonTraces,
  logRecordsOf,
  spansOf,
  startForTests,
} from './batches.ts'

const HOUR_NS = 3_600_000_000_000n
const nowNs = (): bigint => BigInt(Date.now()) * 1_000_000n

const tenant = (retention: PolicyTenant['retention']): PolicyTenant => ({
  ...policyTenant('local', 'local-dev-token', { records: null, bytes: null }),
  ...(retention && { retention }),
})

const server = await startForTests({ policy: [tenant({ debug: { max_age_seconds: 3600 } })] })
after(() => server.stop())
for (const dataset of ['debug', 'orders']) {
  for (const age of [0n, 2n * HOUR_NS]) {
    const timeUnixNano = String(nowNs() - age)
    const records = logRecordsOf(3, `${dataset} ${age}`).map((record) => ({ ...record, timeUnixNano }))
    await accept(server, JSON_LOGS, jsonLogs(records, { dataset }))
  }
}
const matched = async (dataset: string): Promise<number> => (await find(server, { dataset })).matched_records
const counts = async (): Promise<readonly number[]> => [await matched('debug'), await matched('orders')]

describe('a dataset with a retention', () => {
  it('has no record that is older, where others have', async () => {
    assert.deepEqual(await counts(), [3, 6])
    const { datasets } = (await server.request('/v1/datasets', null)).ok() as {
      datasets: readonly { dataset: string; records: number }[]
    }
    assert.deepEqual(
      datasets.map(({ dataset, records }) => [dataset, records]),
      [
        ['debug', 3],
        ['orders', 6],
      ],
    )
  })

  it('hides them from a trace over all datasets', async () => {
    const [recent, old] = [nowNs(), nowNs() - 2n * HOUR_NS]
    const id = 'ab'.repeat(16)
    const traceId = Buffer.from(id, 'hex')
    for (const startTimeUnixNano of [recent, old].map(String)) {
      const spans = spansOf(1).map((span) => ({
        ...span,
        traceId,
        startTimeUnixNano,
        endTimeUnixNano: startTimeUnixNano,
      }))
      for (const dataset of ['debug', 'orders']) await accept(server, JSON_TRACES, jsonTraces(spans, { dataset }))
    }
    assert.equal((await find(server, { filter: { trace_id: id } })).matched_records, 3)
  })

  it('follows the policy that is read again, and the time', async () => {
    server.writePolicy([tenant(undefined)])
    server.signal('SIGHUP')
    await eventually(async () => (await matched('debug')) === 8)
    server.writePolicy([tenant({ debug: { max_age_seconds: 1 } })])
    server.signal('SIGHUP')
    await eventually(async () => (await matched('debug')) === 0)
    assert.equal(await matched('orders'), 8)
    await server.restart()
    assert.deepEqual(await counts(), [0, 8])
  })
})
