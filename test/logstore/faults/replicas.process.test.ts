import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import {
  openSync,
  closeSync,
  existsSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { it } from 'node:test'
import { eventually } from '../../support/waiting.ts'
import { temporaryDirectory } from '../../support/directories.ts'
import { LogStoreServer } from '../../support/logstore.ts'

const batchOf = (texts: readonly string[]) => ({
  resourceLogs: [
    {
      resource: { attributes: [{ key: 'tenant_id', value: { stringValue: 'local' } }] },
      scopeLogs: [{ logRecords: texts.map((text) => ({ timeUnixNano: '1', body: { stringValue: text } })) }],
    },
  ],
})

const batch = batchOf(['kept'])

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
  // A directory that comes back with its files is taken in without a restart.
  const away = `${replicas[0]}-away`
  renameSync(replicas[0], away)
  await eventually(async () => (await degradedBy()).includes(replicas[0]))
  ;(await server.request('/v1/otlp/logs', batch)).ok()
  const ready = (await server.request('/readyz', null)).json() as { reasons: readonly { action: string }[] }
  assert.match(ready.reasons[0]!.action, /updated while the service runs/)
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

it('a log store has a compacted bundle mended from a replica directory when a query finds it damaged', async (context) => {
  const replica = temporaryDirectory()
  const server = await LogStoreServer.start({
    env: {
      LOGSTORE_WAL_DURABILITY_MODE: 'replicated-local',
      LOGSTORE_WAL_REPLICA_PATHS: replica,
      LOGSTORE_WAL_WRITE_QUORUM: '2',
      LOGSTORE_SEGMENT_BYTES: String(1 << 20),
    },
  })
  context.after(() => server.kill())
  const words = Array.from({ length: 4 }, (_, n) => `word${n}x`)
  for (const word of words) {
    const texts = Array.from({ length: 200 }, () => `${word} ${randomBytes(1000).toString('hex')}`)
    ;(await server.request('/v1/otlp/logs', batchOf(texts))).ok()
  }
  const pathIn = (directory: string): string =>
    join(directory, 'bundles', readdirSync(join(directory, 'bundles'))[0]!, 'compact.bin')
  const primary = pathIn(server.dataDirectory)
  await eventually(() => existsSync(primary) && readdirSync(join(primary, '..')).length === 1)
  const counted = async () => {
    const body = { dataset: 'unknown_service', filter: { search: words[0]! } }
    const { status, text } = await server.request('/v1/query', body)
    return {
      status,
      text,
      matched: status === 200 ? (JSON.parse(text) as { matched_records: number }).matched_records : null,
    }
  }
  const whole = readFileSync(primary)
  const file = openSync(primary, 'r+')
  for (let at = 64; at < whole.byteLength; at += 512) writeSync(file, Buffer.from([whole[at]! ^ 1]), 0, 1, at)
  closeSync(file)
  const first = await counted()
  assert.deepEqual([first.status, /bundle_read_failed/.test(first.text)], [500, true])
  await eventually(async () => (await counted()).matched === 200)
  assert.deepEqual(readFileSync(primary), whole)
  assert.deepEqual(readFileSync(pathIn(replica)), whole)
  await server.logged('it was copied from another directory')

  await server.stop()
  writeFileSync(primary, Buffer.from(whole).fill(1, 80, 90)) // damages the part with which the file is opened
  await server.startAgain()
  assert.deepEqual(readFileSync(primary), whole)
  assert.equal((await counted()).matched, 200)
  assert.equal((await server.request('/health', null)).headers.get('x-trilog-degraded'), null)
})
