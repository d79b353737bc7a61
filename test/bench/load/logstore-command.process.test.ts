import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import type { LoadResult } from '../../../bench/load/result.ts'
import { command, directory, load as loadService } from './command.ts'
import type { Ended } from './command.ts'
import { startFakeLogStore } from './fake-log-store.ts'
import type { Reaction } from './fake-log-store.ts'

const SMALL = ['--connections', '3', '--batch', '20', '--record-bytes', '200', '--disk-time', '0s']

function load(url: string, args: readonly string[]): Promise<Ended & { result: LoadResult }> {
  return loadService(['logstore', '--url', url, ...SMALL, ...args])
}

/** Reacts with `special` to the requests with these numbers, and accepts all others. */
function except(requests: readonly number[], special: Reaction): (request: number) => Reaction {
  return (request) => (requests.includes(request) ? special : { kind: 'accept' })
}

describe('load logstore', () => {
  it('sends the batches asked for, and finds every one of them again, for both signals and formats', async (t) => {
    for (const [signal, format, encoding, path] of [
      ['logs', 'protobuf', 'identity', '/v1/logs'],
      ['traces', 'protobuf', 'gzip', '/v1/traces'],
      ['logs', 'json', 'gzip', '/v1/otlp/logs'],
      ['traces', 'json', 'identity', '/v1/otlp/traces'],
    ] as const) {
      const store = await startFakeLogStore(t)
      const form = ['--signal', signal, '--format', format, '--encoding', encoding]
      const { exitCode, result } = await load(store.url, [...form, '--batches', '30', '--datasets', '2', '--verify'])
      assert.equal(exitCode, 0)
      assert.equal(result.acknowledged.units, 600)
      assert.equal(new Set(store.records.map((record) => record.span_id)).size, 600)
      assert.deepEqual(result.errors, {})
      assert.deepEqual(
        result.verification?.checks.map((check) => [check.name, check.ok]),
        [
          ['traces', true],
          ...(format === 'json' ? [['record ids', true]] : []),
          ['count of load-0000', true],
          ['count of load-0001', true],
        ],
      )
      assert(store.ingestRequests.every((request) => request.path === path))
      assert.equal(store.ingestRequests[0]?.headers['authorization'], 'Bearer local-dev-token')
      assert.equal(store.ingestRequests[0]?.headers['x-logstore-tenant'], 'local')
    }
  })

  it('notices a record that was acknowledged and lost, and exits with 1', async (t) => {
    const store = await startFakeLogStore(t, except([7], { kind: 'lose' }))
    const { exitCode, result } = await load(store.url, ['--batches', '12', '--verify'])
    assert.equal(exitCode, 1)
    assert.equal(result.verification?.ok, false)
    assert.match(JSON.stringify(result.verification), /has 0 records, not 8.*220 records, expected 240 to 240/)
  })

  it('counts refusals by status and kind, in both formats', async (t) => {
    for (const format of ['protobuf', 'json']) {
      const store = await startFakeLogStore(t, (request) =>
        request % 3 === 0
          ? { kind: 'refuse', status: 429, reason: 'record_quota_exceeded', retryAfterSeconds: 9 }
          : request % 3 === 1
            ? { kind: 'refuse', status: 503, reason: 'wal_unavailable' }
            : { kind: 'accept' },
      )
      const options = ['--format', format, '--batches', '30', '--no-obey-retry-after', '--verify']
      const { result, exitCode } = await load(store.url, options)
      assert.deepEqual(result.errors, { '429 record_quota_exceeded': 10, '503 wal_unavailable': 10 })
      assert.equal(result.retryAfterMaxSeconds, 9)
      assert.equal(result.acknowledged.units, 200)
      assert.equal(exitCode, 0)
    }
  })

  it('waits as long as Retry-After says in the closed loop', async (t) => {
    const quota = { kind: 'refuse', status: 429, reason: 'record_quota_exceeded', retryAfterSeconds: 1 } as const
    const store = await startFakeLogStore(t, except([0], quota))
    const { result } = await load(store.url, ['--connections', '1', '--batches', '2'])
    assert(result.elapsedSeconds >= 1)
    assert.equal(result.acknowledged.tasks, 1)
  })

  it('connects again after a reset, and takes both outcomes of what was under way for right', async (t) => {
    const store = await startFakeLogStore(t, except([2, 3, 11], { kind: 'reset' }))
    const { exitCode, result } = await load(store.url, ['--batches', '30', '--verify'])
    assert.deepEqual(result.errors, { connection_reset: 3 })
    assert.equal(result.acknowledged.tasks, 27)
    assert.equal(exitCode, 0)
  })

  it('gives up on a request that is never answered', async (t) => {
    const store = await startFakeLogStore(t, except([1], { kind: 'hang' }))
    const { result } = await load(store.url, ['--batches', '6', '--timeout', '100ms'])
    const { timeout, ...others } = result.errors // several requests, if the machine stalls
    assert.deepEqual(others, {})
    assert.equal(result.acknowledged.tasks + timeout!, 6)
  })

  it('says how long a request had waited that was cut off at the end', async (t) => {
    const store = await startFakeLogStore(t, except([0], { kind: 'hang' }))
    const { result, exitCode } = await load(store.url, ['--connections', '2', '--duration', '50ms'])
    assert.equal(exitCode, 0)
    assert.equal(result.aborted, 1)
    assert(result.abortedWaitMaxMs >= 2000, 'the answers under way are awaited for 2 s')
    assert(result.elapsedSeconds * 1000 < result.abortedWaitMaxMs, 'which is not part of the run')
  })

  it('keeps to the rate of the open loop', async (t) => {
    const store = await startFakeLogStore(t)
    const { result } = await load(store.url, ['--rate', '2000', '--duration', '500ms'])
    assert.equal(result.loop, 'open')
    assert.equal(result.acknowledged.tasks + result.aborted + result.missed, 50)
    assert(result.startDelayMs !== null)
    assert.equal(
      result.seconds.reduce((sum, row) => sum + row.units, 0),
      result.acknowledged.units,
    )
  })

  it('charges a stalled server for every request that was due meanwhile', async (t) => {
    const store = await startFakeLogStore(t, except([0], { kind: 'hang' }))
    const stalling = ['--connections', '1', '--rate', '2000', '--duration', '600ms', '--timeout', '300ms']
    const { result } = await load(store.url, stalling)
    assert.deepEqual(Object.keys(result.errors), ['timeout'])
    assert(result.latencyMs.max >= 250, `the request due after 10 ms waited ${result.latencyMs.max} ms`)
  })

  it('writes a line per acknowledged batch, from which the batch can be asked for', async (t) => {
    const store = await startFakeLogStore(t, except([4], { kind: 'reset' }))
    const path = join(directory(t), 'acked.tsv')
    await load(store.url, ['--batches', '10', '--acked-file', path, '--trace-records', '20'])
    const lines = readFileSync(path, 'utf8').trimEnd().split('\n')
    assert.equal(lines.length, 9)
    for (const line of lines) {
      const [, traceId, records, dataset, firstNs = '', lastNs = ''] = line.split('\t')
      const inRange = store.records.filter(({ timeNs }) => timeNs >= BigInt(firstNs) && timeNs <= BigInt(lastNs))
      assert.deepEqual([records, dataset, inRange.length], ['20', 'load', 20])
      assert(inRange.every((record) => record.traceId === traceId))
    }
  })

  it('sends the same ids with the same seed', async (t) => {
    const first = await startFakeLogStore(t)
    const second = await startFakeLogStore(t)
    for (const store of [first, second]) await load(store.url, ['--batches', '5', '--seed', '42'])
    const ids = (records: typeof first.records): string[] => records.map((record) => record.span_id).sort()
    assert.deepEqual(ids(first.records), ids(second.records))
  })

  it('ends early with a summary when it is told to stop', async (t) => {
    const stop = new AbortController()
    const store = await startFakeLogStore(t, (request) => {
      if (request === 5) stop.abort()
      return { kind: 'accept' }
    })
    const { exitCode, stdout } = await command(
      ['logstore', '--url', store.url, ...SMALL, '--duration', '1h'],
      stop.signal,
    )
    assert.equal(exitCode, 0)
    assert.match(stdout, /acknowledged +\d+ records in \d+ requests/)
  })

  it('measures the disk before and after, leaves nothing behind, and writes the report', async (t) => {
    const store = await startFakeLogStore(t)
    const path = directory(t)
    const report = join(path, 'reports', 'out.html')
    const { result, stderr } = await load(
      store.url,
      ['--batches', '5', '--disk-time', '5ms', '--disk-dir', path].concat('--report', report),
    )
    const { before, after, bytesPerSecond } = result.disk
    assert(before !== null && after !== null)
    assert.equal(bytesPerSecond, (before.bytesPerSecond + after.bytesPerSecond) / 2)
    assert.equal(result.diskRatio, result.throughput.payloadBytesPerSecond / bytesPerSecond)
    assert.deepEqual(readdirSync(path), ['reports'])
    assert.match(readFileSync(report, 'utf8'), /^<!doctype html>/)
    assert.match(stderr, /report written to/)
    assert(!JSON.stringify(result).includes('local-dev-token'))
  })

  it('says so when the disk cannot be measured, and goes on', async (t) => {
    const store = await startFakeLogStore(t)
    const { result, exitCode } = await load(
      store.url,
      ['--batches', '1', '--disk-time', '1ms'].concat('--disk-dir', '/nonexistent'),
    )
    assert.equal(exitCode, 0)
    assert.equal(result.diskRatio, null)
    assert.match(result.disk.problem ?? '', /ENOENT/)
  })

  it('says in one line that nobody listens, and exits with 1', async () => {
    const { exitCode, stderr } = await command(['logstore', '--url', 'http://127.0.0.1:1', ...SMALL])
    assert.equal(exitCode, 1)
    assert.match(stderr, /^load: connect ECONNREFUSED 127\.0\.0\.1:1; is the server running\?\n$/)
  })
})

describe('the command line', () => {
  it('is refused with one line that names the option, and exit code 2', async () => {
    for (const [args, complaint] of [
      [['nosuch'], /unknown service 'nosuch'; known: logstore, objectstore, broker/],
      [['logstore', '--nosuch'], /Unknown option '--nosuch'/],
      [['logstore', '--batch'], /--batch/],
      [['logstore', 'stray'], /stray/],
      [['logstore', '--warm-up', '5s', '--duration', '5s'], /--warm-up must be shorter than the run/],
      [['logstore', '--batch', '0'], /--batch must be a whole number from 1 to 100000, not '0'/],
      [['logstore', '--duration', '60'], /--duration must be a time such as 500ms/],
      [['logstore', '--signal', 'metrics'], /--signal must be one of logs, traces, not 'metrics'/],
      [['logstore', '--token', 'a\r\nb: c'], /--token must be visible ASCII/],
      [['logstore', '--url', 'https://127.0.0.1'], /--url must be http:\/\/host:port/],
      [['logstore', '--url', 'http://192.0.2.1:4318'], /192\.0\.2\.1 is not this machine; add --allow-remote/],
      [['logstore', '--url', 'http://127.0.0.1.example.com'], /is not this machine/],
      [['logstore', '--batch', '100000', '--record-bytes', '1000000'], /must not exceed/],
      [['logstore', '--acked-file', '/nonexistent/file'], /--acked-file: ENOENT/],
      [['broker', '--workload', 'none'], /--workload must be one of publish, publish-batch, cycle, replay, not 'none'/],
      [['broker', '--workload', 'publish-batch', '--batch', '1001'], /--batch must be a whole number from 1 to 1000/],
    ] as const) {
      const { exitCode, stdout, stderr } = await command(args)
      assert.equal(exitCode, 2, args.join(' '))
      assert.match(stderr, complaint)
      assert.match(stderr, /^load: [^\n]+\(see --help\)\n$/)
      assert.equal(stdout, '')
    }
  })

  it('reaches the tool through its entry point', () => {
    const entry = join(import.meta.dirname, '../../../bench/load/main.ts')
    const { status, stderr } = spawnSync(process.execPath, [entry, 'logstore', '--rate', 'fast'], { encoding: 'utf8' })
    assert.equal(status, 2)
    assert.match(stderr, /--rate must be a whole number/)
  })

  it('explains itself', async () => {
    const general = await command(['--help'])
    assert.equal(general.exitCode, 0)
    assert.match(general.stdout, /logstore +OTLP/)
    const { stdout } = await command(['logstore', '--help'])
    for (const option of ['--url', '--signal', '--rate', '--verify', '--acked-file', '--report', '--seed']) {
      assert.equal(stdout.split(`\n  ${option}`).length, 2, `${option} once`)
    }
    assert.match(stdout, /examples:\n {2}npm run load -- logstore/)
  })
})
