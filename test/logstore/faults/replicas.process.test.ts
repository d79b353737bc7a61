import assert from 'node:assert/strict'
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { it } from 'node:test'
import { eventually } from '../../support/waiting.ts'
import { temporaryDirectory } from '../../support/directories.ts'
import { LogStoreServer } from '../../support/logstore.ts'

const batch = {
  resourceLogs: [
    {
      resource: { attributes: [{ key: 'tenant_id', value: { stringValue: 'local' } }] },
      scopeLogs: [{ logRecords: [{ timeUnixNano: '1', body: { stringValue: 'kept' } }] }],
    },
  ],
}

it('a log store names a replica directory that vanishes, and starts without one that cannot be used', async (context) => {
  const replicas = [temporaryDirectory(), temporaryDirectory()] as const
  const server = await LogStoreServer.start({
    env: {
      LOGSTORE_WAL_DURABILITY_MODE: 'replicated-local',
      LOGSTORE_WAL_REPLICA_PATHS: replicas.join(','),
      LOGSTORE_WAL_WRITE_QUORUM: '2',
    },
  })
  context.after(() => server.kill())
  const degradedBy = async (): Promise<string> => {
    const { status, text, headers } = await server.request('/health', null)
    assert.deepEqual([status, text], [200, '"Healthy"\n'])
    return headers.get('x-trilog-degraded') ?? ''
  }
  assert.equal(await degradedBy(), '')
  ;(await server.request('/v1/otlp/logs', batch)).ok()
  // One that comes back with its files is taken in without a restart.
  const away = `${replicas[0]}-away`
  renameSync(replicas[0], away)
  await eventually(async () => (await degradedBy()).includes(replicas[0]))
  ;(await server.request('/v1/otlp/logs', batch)).ok()
  const ready = (await server.request('/readyz', null)).json() as { reasons: readonly { action: string }[] }
  assert.match(ready.reasons[0]!.action, /brought up to date while the service runs/)
  renameSync(away, replicas[0])
  const lost = async (): Promise<string> => (await server.request('/metrics', null)).text
  await eventually(async () => /^logstore_wal_replicas_lost 0$/m.test(await lost()))
  await eventually(async () => (await server.request('/health', null)).status === 200) // the log restarts in place
  assert.equal(await degradedBy(), '')
  rmSync(replicas[1], { recursive: true })
  await eventually(async () => (await degradedBy()).includes(replicas[1]))
  assert.match((await server.request('/metrics', null)).text, /^logstore_wal_replicas_lost 1$/m)
  await server.logged(replicas[1])
  ;(await server.request('/v1/otlp/logs', batch)).ok()

  await server.stop()
  writeFileSync(replicas[1], 'something else is in its way')
  await server.startAgain()
  assert((await degradedBy()).includes(replicas[1]))
  ;(await server.request('/v1/otlp/logs', batch)).ok()
})
