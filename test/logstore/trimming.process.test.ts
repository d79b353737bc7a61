/** A whole log store, whose clock the test moves by hours: the space of records that have expired by the retention of their dataset comes back. */
import assert from 'node:assert/strict'
import { randomBytes, randomFillSync } from 'node:crypto'
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { loadConfig } from '../../src/config/config.ts'
import { AcceptGate } from '../../src/http/accept-gate.ts'
import { nodeFiles } from '../../src/log/node-files.ts'
import { openLogStore } from '../../src/logstore/logstore.ts'
import type { LogStore } from '../../src/logstore/logstore.ts'
import { ProcessMetrics } from '../../src/observability/process-metrics.ts'
import { systemClock } from '../../src/observability/system-clock.ts'
import { policyTenant } from '../support/logstore.ts'
import { eventually } from '../support/waiting.ts'

const HOUR_NS = 3_600_000_000_000n
const SEGMENT_BYTES = 1024 * 1024
const BATCHES = 20

let shiftNs = 0n
const clock = {
  ...systemClock,
  nowNs: () => systemClock.nowNs() + shiftNs,
  /** Tasks that look for work every second or less often run at least every 60 ms. */
  every: (intervalMs: number, run: () => void) => systemClock.every(Math.min(intervalMs, 60), run),
}

function writePolicy(path: string, hours: Readonly<Record<string, number>>): void {
  const retention = Object.fromEntries(
    Object.entries(hours).map(([dataset, each]) => [dataset, { max_age_seconds: each * 3600 }]),
  )
  const tenant = { ...policyTenant('local', 'local-dev-token', { records: null, bytes: null }), retention }
  writeFileSync(path, JSON.stringify({ tenants: [tenant] }))
}

function open(directory: string): Promise<LogStore> {
  const config = loadConfig({
    TRILOG_SERVICES: 'logstore',
    LOGSTORE_BIND_ADDRESS: '127.0.0.1:0',
    LOGSTORE_DATA_DIR: join(directory, 'data'),
    LOGSTORE_SEGMENT_BYTES: String(SEGMENT_BYTES),
    LOGSTORE_TENANT_POLICY_FILE: join(directory, 'policy.json'),
    LOGSTORE_WAL_DURABILITY_MODE: 'replicated-local',
    LOGSTORE_WAL_REPLICA_PATHS: join(directory, 'replica'),
    LOGSTORE_WAL_WRITE_QUORUM: '2',
  }).services.logstore
  assert(config)
  const logger = { debug() {}, info() {}, warn() {}, error: assert.fail }
  return openLogStore(config, {
    clock,
    random: randomFillSync,
    version: 'test',
    logger,
    acceptGate: new AcceptGate({ clock, logger }),
    processMetrics: new ProcessMetrics({ version: 'test', clock }),
    metricsSeriesMax: 10,
  })
}

async function post(store: LogStore, path: string, body: unknown): Promise<unknown> {
  const headers = {
    'content-type': 'application/json',
    'x-logstore-tenant': 'local',
    authorization: 'Bearer local-dev-token',
  }
  const answer = await fetch(`http://${store.http}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  assert.equal(answer.status, 200)
  return answer.json()
}

/** A batch of both datasets: 256 records of each, of some 200 bytes that do not compress. */
const batchOf = (number: number) => ({
  resourceLogs: ['debug', 'orders'].map((dataset) => ({
    resource: {
      attributes: [
        { key: 'tenant_id', value: { stringValue: 'local' } },
        { key: 'service.name', value: { stringValue: dataset } },
      ],
    },
    scopeLogs: [
      {
        logRecords: Array.from({ length: 256 }, (_, i) => ({
          timeUnixNano: String(clock.nowNs()),
          body: { stringValue: `${dataset} ${number} ${i} ${randomBytes(100).toString('hex')}` },
        })),
      },
    ],
  })),
})

const matched = async (store: LogStore, dataset: string): Promise<number> =>
  ((await post(store, '/v1/query', { dataset, page: { limit: 1 } })) as { matched_records: number }).matched_records

/** Bytes of all bundles below a directory of the log but the newest, and the number of segments. A file that is removed meanwhile has no bytes. */
function diskOf(directory: string): { readonly bytes: number; readonly segments: number } {
  const bundles = join(directory, 'bundles')
  const segments = readdirSync(bundles).filter((name) => /^[0-9a-f]{16}$/.test(name))
  const files = segments
    .slice(0, -1)
    .flatMap((segment) =>
      (nodeFiles.list(join(bundles, segment)) ?? []).map(
        (name) => statSync(join(bundles, segment, name), { throwIfNoEntry: false })?.size ?? 0,
      ),
    )
  return { bytes: files.reduce((sum, size) => sum + size, 0), segments: segments.length }
}

const isCompacted = (directory: string): boolean => {
  const bundles = join(directory, 'bundles')
  const segments = readdirSync(bundles).filter((name) => /^[0-9a-f]{16}$/.test(name))
  return segments.slice(0, -1).every((segment) => readdirSync(join(bundles, segment)).join() === 'compact.bin')
}

describe('the space of expired records', () => {
  it('comes back in every directory while other records of their bundles stay, and then with the bundles', async (context) => {
    const directory = mkdtempSync(join(tmpdir(), 'trilog-trimming-'))
    const directories = ['data', 'replica'].map((name) => join(directory, name))
    const policy = join(directory, 'policy.json')
    writePolicy(policy, { debug: 1 })
    let store = await open(directory)
    context.after(async () => {
      await store.close({ withinMs: 5000 })
      rmSync(directory, { recursive: true })
    })
    for (let batch = 0; batch < BATCHES; batch++) await post(store, '/v1/otlp/logs', batchOf(batch))
    await eventually(() => directories.every(isCompacted))
    const before = directories.map(diskOf)
    assert(before[0]!.segments > 2)
    const kept = await matched(store, 'orders')
    assert.equal(kept, BATCHES * 256)

    shiftNs += 2n * HOUR_NS
    await eventually(() => directories.every((each, i) => diskOf(each).bytes < 0.75 * before[i]!.bytes))
    assert.equal(await matched(store, 'debug'), 0)
    assert.equal(await matched(store, 'orders'), kept)
    await store.close({ withinMs: 5000 })
    store = await open(directory)
    assert.equal(await matched(store, 'orders'), kept)

    writePolicy(policy, { debug: 1, orders: 1 })
    store.reload()
    // One segment is being written, and the one before it is the newest sealed one.
    await eventually(() => directories.every((each) => diskOf(each).segments <= 2))
    assert.equal(await matched(store, 'orders'), 0)
  })
})
