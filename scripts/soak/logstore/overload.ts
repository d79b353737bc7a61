/**
 * Four times the connections that keep the store busy, with quotas on: it may refuse, but only in so many words, and it must not grow.
 *
 *   warm-up    the connections that its places allow: the level of memory at full load. As long as the overload, as rings and
 *              caches take their memory with time
 *   overload   four times as many, that press on without heeding Retry-After
 *   aftermath  every batch is acknowledged in the end, and every record is there, once
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { LogStoreServer, policyTenant } from '../../../test/support/logstore.ts'
import { Load } from './load.ts'

/** The limit of the contract's default policy; also the connections of the warm-up. */
const CONCURRENT_REQUESTS = 16
const OVERLOAD = 4
/** Wide enough for the disk and not for four times the connections. */
const RECORDS_PER_SECOND = 20_000
const MEMORY_GROWTH_MAX = 0.25
const SAMPLE_MS = 250

export interface OverloadOptions {
  readonly seed: number
  readonly seconds: number
  readonly report?: (line: string) => void
}

export interface OverloadSummary {
  readonly records: number
  readonly refusals: Readonly<Record<string, number>>
  readonly fullLoadMiB: number
  readonly overloadMiB: number
}

/** @throws AssertionError when anything is refused in other words, memory grows, or a record is missing */
export async function runOverload({ seed, seconds, report }: OverloadOptions): Promise<OverloadSummary> {
  const limits = {
    window_seconds: 1,
    records: RECORDS_PER_SECOND,
    bytes: null,
    concurrent_requests: CONCURRENT_REQUESTS,
  }
  const server = await LogStoreServer.start({
    policy: [policyTenant('local', 'local-dev-token', limits)],
    env: { LOGSTORE_SEGMENT_BYTES: String(16 << 20) }, // every index in memory is in use before the overload begins
  })
  const options = { recordsPerBatch: 200, pauseMs: 0 }
  const loads = [Load.start(server, { ...options, seed, connections: CONCURRENT_REQUESTS, dataset: 'full-load' })]
  try {
    const fullLoadMiB = await highestMemory(server, loads, seconds)
    report?.(`full load: ${fullLoadMiB.toFixed(0)} MiB, refused ${JSON.stringify(refusalsOf(loads))}`)
    const connections = (OVERLOAD - 1) * CONCURRENT_REQUESTS
    loads.push(Load.start(server, { ...options, seed: seed + 1, connections, dataset: 'overload' }))
    const overloadMiB = await highestMemory(server, loads, seconds)
    report?.(`overload: ${overloadMiB.toFixed(0)} MiB, refused ${JSON.stringify(refusalsOf(loads))}`)
    const growth = overloadMiB / fullLoadMiB - 1
    assert(growth <= MEMORY_GROWTH_MAX, `memory grew from ${fullLoadMiB} to ${overloadMiB} MiB`)
    const refusals = refusalsOf(loads)
    assert(Object.keys(refusals).length > 0, 'it was no overload: nothing was refused')

    await Promise.all(loads.map((load) => load.stop()))
    for (const load of loads) await load.checkEverything()
    await server.stop()
    const records = loads.reduce((sum, { batches }) => sum + batches.acknowledgedRecords, 0)
    return { records, refusals, fullLoadMiB, overloadMiB }
  } finally {
    for (const load of loads) load.abandon()
  }
}

function refusalsOf(loads: readonly Load[]): Record<string, number> {
  const all: Record<string, number> = {}
  for (const load of loads) {
    for (const [name, count] of Object.entries(load.refusals)) all[name] = (all[name] ?? 0) + count
  }
  return all
}

/** Resident memory of the process in MiB, the highest in a while. */
async function highestMemory(server: LogStoreServer, loads: readonly Load[], seconds: number): Promise<number> {
  let highest = 0
  for (let left = (seconds * 1000) / SAMPLE_MS; left > 0; left--) {
    await Promise.all(loads.map((load) => load.during(sleep(SAMPLE_MS))))
    const status = readFileSync(`/proc/${server.pid}/status`, 'utf8')
    highest = Math.max(highest, Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)![1]) / 1024)
  }
  return highest
}
