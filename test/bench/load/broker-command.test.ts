import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import type { LoadResult } from '../../../bench/load/result.ts'
import { command, directory, load as loadService } from './command.ts'
import type { Ended } from './command.ts'
import { startFakeBroker } from './fake-broker.ts'
import type { FakeBroker, Reaction } from './fake-broker.ts'

const SMALL = ['--connections', '3', '--payload-bytes', '30', '--disk-time', '0s']

function load(broker: FakeBroker, workload: string, args: readonly string[]): Promise<Ended & { result: LoadResult }> {
  return loadService(['broker', '--workload', workload, '--url', broker.url, ...SMALL, ...args])
}

/** Reacts with `special` to the requests of a kind with these numbers, and accepts all others. */
function except(
  kind: string,
  requests: readonly number[],
  special: Reaction,
): (request: number, kind: string) => Reaction {
  return (request, ofKind) => (ofKind === kind && requests.includes(request) ? special : { kind: 'accept' })
}

const recordsOf = (broker: FakeBroker) => [...broker.streams.values()].flat()
const verificationOf = (result: LoadResult): string => JSON.stringify(result.verification)
const failedChecks = (result: LoadResult): string[] =>
  (result.verification?.checks ?? []).filter((check) => !check.ok).map((check) => check.name)

describe('load broker --workload publish', () => {
  it('creates the streams, publishes round robin, and finds every record again', async (t) => {
    const broker = await startFakeBroker(t)
    const { exitCode, result } = await load(broker, 'publish', ['--batches', '40', '--streams', '2', '--verify'])
    assert.equal(exitCode, 0)
    assert.deepEqual(result.acknowledged, { tasks: 40, units: 40, payloadBytes: 1200, bodyBytes: 40 * 86 })
    assert.deepEqual([...broker.streams.keys()], ['load-0000', 'load-0001'])
    assert.deepEqual(
      Array.from(broker.streams.values(), (stream) => stream.length),
      [20, 20],
    )
    const records = recordsOf(broker)
    assert.equal(new Set(records.map((record) => record.message_id)).size, 40)
    assert(records.every((record) => record.payload.length === 30 && record.durability_mode === undefined))
    assert.deepEqual(
      result.verification?.checks.map(({ name, detail }) => `${name}: ${detail}`),
      [
        'acknowledged: 40 of 40 at their offsets, as sent',
        'stored once: nothing twice among 40 records',
        'offsets: without a gap',
      ],
    )
  })

  it('goes on with streams that exist, whatever is in them', async (t) => {
    const broker = await startFakeBroker(t)
    for (const all of [10, 20]) {
      const { exitCode } = await load(broker, 'publish', ['--batches', '10', '--verify'])
      assert.equal(exitCode, 0)
      assert.equal(recordsOf(broker).length, all)
    }
  })

  it('publishes with the durability asked for', async (t) => {
    const broker = await startFakeBroker(t)
    await load(broker, 'publish', ['--batches', '5', '--durability', 'volatile'])
    assert(recordsOf(broker).every((record) => record.durability_mode === 'volatile'))
  })

  it('notices a record that was acknowledged and lost, misplaced or changed, and exits with 1', async (t) => {
    const one = ['--connections', '1', '--batches', '12', '--verify']
    const losing = await startFakeBroker(t, except('records', [11], { kind: 'lose' }))
    const lost = await load(losing, 'publish', one)
    assert.equal(lost.exitCode, 1)
    assert.match(verificationOf(lost.result), /1 wrong: load-[0-9a-f]{8}-000000000011 at load-0000 11 is missing/)

    const misplacing = await startFakeBroker(t, except('records', [5], { kind: 'misplace' }))
    const misplaced = await load(misplacing, 'publish', one)
    assert.equal(misplaced.exitCode, 1)
    assert.match(
      verificationOf(misplaced.result),
      /1 wrong: load-[0-9a-f]{8}-000000000005 at load-0000 5 was acknowledged at 4/,
    )
    assert.deepEqual(failedChecks(misplaced.result), ['acknowledged'])
  })

  it('takes both outcomes of a request without an answer for right', async (t) => {
    const reactions: Record<number, Reaction> = { 4: { kind: 'reset' }, 9: { kind: 'unnoticed' } }
    const broker = await startFakeBroker(t, (request, kind) =>
      kind === 'records' ? (reactions[request] ?? { kind: 'accept' }) : { kind: 'accept' },
    )
    const { exitCode, result } = await load(broker, 'publish', ['--batches', '30', '--verify'])
    assert.deepEqual(result.errors, { connection_reset: 2 })
    assert.equal(result.acknowledged.units, 28)
    assert.equal(recordsOf(broker).length, 29)
    assert.equal(exitCode, 0)
  })

  it('counts refusals by status and code, and an answer that cannot be read', async (t) => {
    const quota = { kind: 'refuse', status: 429, code: 'quota_exceeded', retryAfterSeconds: 3 } as const
    const broker = await startFakeBroker(t, (request, kind) => {
      if (kind !== 'records' || request % 3 === 0) return { kind: 'accept' }
      return request % 3 === 1 ? quota : { kind: 'garbage' }
    })
    const options = ['--batches', '30', '--no-obey-retry-after', '--verify']
    const { exitCode, result } = await load(broker, 'publish', options)
    assert.deepEqual(result.errors, { '429 quota_exceeded': 10, unreadable_answer: 10 })
    assert.equal(result.retryAfterMaxSeconds, 3)
    assert.equal(exitCode, 0)
  })

  it('writes a line per acknowledged record', async (t) => {
    const broker = await startFakeBroker(t, except('records', [4], { kind: 'reset' }))
    const path = join(directory(t), 'acked.tsv')
    await load(broker, 'publish', ['--batches', '10', '--acked-file', path, '--streams', '2'])
    const lines = readFileSync(path, 'utf8').trimEnd().split('\n')
    assert.equal(lines.length, 9)
    for (const line of lines) {
      const [stream = '', offset, messageId] = line.split('\t')
      assert.equal(broker.streams.get(stream)?.[Number(offset)]?.message_id, messageId)
    }
  })

  it('says in one line that nobody listens, and exits with 1', async () => {
    const { exitCode, stderr } = await command(['broker', '--url', 'http://127.0.0.1:1', ...SMALL])
    assert.equal(exitCode, 1)
    assert.match(stderr, /^load: connect ECONNREFUSED [^\n]+; is the server running\?\n$/)
  })
})

describe('load broker --workload publish-batch', () => {
  it('publishes batches, each to one stream, and finds every record again', async (t) => {
    const broker = await startFakeBroker(t)
    const options = ['--batches', '9', '--batch', '7', '--streams', '3', '--verify']
    const { exitCode, result } = await load(broker, 'publish-batch', options)
    assert.equal(exitCode, 0)
    assert.equal(result.acknowledged.units, 63)
    assert.equal(result.acknowledged.tasks, 9)
    assert.deepEqual(
      Array.from(broker.streams.values(), (stream) => stream.length),
      [21, 21, 21],
    )
    assert(broker.requests.includes('POST /v1/streams/load-0002/records/batch'))
    assert.match(verificationOf(result), /63 of 63 at their offsets/)
  })

  it('counts the records of a batch that were refused apart from the others', async (t) => {
    const broker = await startFakeBroker(t, except('batch', [1, 2], { kind: 'part' }))
    const { exitCode, result } = await load(broker, 'publish-batch', ['--batches', '4', '--batch', '5', '--verify'])
    assert.equal(exitCode, 0)
    assert.equal(result.acknowledged.units, 18)
    assert.deepEqual(result.errors, { 'invalid_payload, in a batch': 2 })
    assert.match(verificationOf(result), /18 of 18 at their offsets/)
  })
})

describe('load broker --workload cycle', () => {
  it('claims and acknowledges one by one what it published beforehand', async (t) => {
    const broker = await startFakeBroker(t)
    const { exitCode, result } = await load(broker, 'cycle', ['--batches', '25', '--preload', '30', '--verify'])
    assert.equal(exitCode, 0)
    assert.equal(result.task, 'cycles')
    assert.equal(result.acknowledged.units, 25)
    assert.equal(result.acknowledged.payloadBytes, 25 * 30)
    assert.equal(result.empty, 0)
    assert.equal(recordsOf(broker).filter((record) => record.state === 'finished').length, 25)
    assert.equal(broker.requests.filter((request) => request.endsWith('/ack')).length, 25)
    assert.match(verificationOf(result), /the group finished 25 records, 25 were acknowledged/)
  })

  it('acknowledges claims of many with one request', async (t) => {
    const broker = await startFakeBroker(t)
    const options = ['--batches', '6', '--claim', '10', '--streams', '2', '--verify']
    const { exitCode, result } = await load(broker, 'cycle', options)
    assert.equal(exitCode, 0)
    assert.equal(result.acknowledged.units, 60)
    assert.equal(broker.requests.filter((request) => request.endsWith('/batch-ack')).length, 6)
    assert.match(verificationOf(result), /the group finished 60 records, 60 were acknowledged/)
  })

  it('publishes beforehand only what is not waiting already', async (t) => {
    const broker = await startFakeBroker(t)
    const batches = (): number => broker.requests.filter((request) => request.endsWith('/batch')).length
    for (let run = 0; run < 2; run++) {
      await load(broker, 'cycle', ['--batches', '10', '--preload', '50'])
      assert.equal(batches(), 1)
    }
  })

  it('counts claims that found nothing apart, and fills the queue again', async (t) => {
    const broker = await startFakeBroker(t)
    const options = ['--batches', '5', '--preload', '0', '--connections', '1', '--verify']
    const { exitCode, result } = await load(broker, 'cycle', options)
    assert.equal(exitCode, 0)
    assert.equal(result.empty, 1)
    assert.equal(result.acknowledged.tasks, 4)
    assert.deepEqual(result.errors, {})
    const { stdout } = await command(['broker', '--workload', 'cycle', '--url', broker.url, ...SMALL, '--batches', '2'])
    assert.doesNotMatch(stdout, /found nothing/)
  })

  it('says in one line what was refused beforehand, and exits with 1', async (t) => {
    const degraded = { kind: 'refuse', status: 503, code: 'storage_unavailable' } as const
    const broker = await startFakeBroker(t, except('batch', [0], degraded))
    const args = ['broker', '--workload', 'cycle', '--preload', '1', '--url', broker.url, ...SMALL]
    const { exitCode, stdout, stderr } = await command(args)
    assert.deepEqual([exitCode, stdout], [1, ''])
    assert.equal(stderr, 'load: publishing to load-0000 was answered with 503 storage_unavailable\n')
  })

  it('counts what a batch-ack refused apart, and a refused ack as an error', async (t) => {
    const parting = await startFakeBroker(t, except('batch-ack', [1], { kind: 'part' }))
    const parts = await load(parting, 'cycle', ['--batches', '3', '--claim', '4', '--verify'])
    assert.equal(parts.exitCode, 0)
    assert.equal(parts.result.acknowledged.units, 11)
    assert.deepEqual(parts.result.errors, { 'lease_expired, in a batch': 1 })

    const expired = { kind: 'refuse', status: 409, code: 'lease_expired' } as const
    const refusing = await startFakeBroker(t, except('ack', [2], expired))
    const refused = await load(refusing, 'cycle', ['--batches', '6', '--verify'])
    assert.equal(refused.exitCode, 0)
    assert.equal(refused.result.acknowledged.units, 5)
    assert.deepEqual(refused.result.errors, { '409 lease_expired': 1 })
  })

  it('notices an acknowledgement that was lost, and takes both outcomes of an unanswered one for right', async (t) => {
    const losing = await startFakeBroker(t, except('ack', [3], { kind: 'lose' }))
    const lost = await load(losing, 'cycle', ['--batches', '6', '--verify'])
    assert.equal(lost.exitCode, 1)
    assert.match(verificationOf(lost.result), /the group finished 5 records, 6 were acknowledged/)
    for (const kind of ['reset', 'unnoticed'] as const) {
      const broker = await startFakeBroker(t, except('ack', [3], { kind }))
      const { exitCode, result } = await load(broker, 'cycle', ['--batches', '6', '--verify'])
      assert.equal(exitCode, 0)
      assert.match(verificationOf(result), /5 to 6 were acknowledged/)
    }
  })
})

describe('load broker --workload replay', () => {
  it('reads the streams from start to end again and again', async (t) => {
    const broker = await startFakeBroker(t)
    const options = ['--batches', '8', '--preload', '1000', '--page', '300', '--connections', '1']
    const { exitCode, result } = await load(broker, 'replay', options)
    assert.equal(exitCode, 0)
    assert.equal(result.acknowledged.units, 2 * 1000)
    assert.equal(result.acknowledged.payloadBytes, 2 * 1000 * 30)
    assert(result.acknowledged.bodyBytes > result.acknowledged.payloadBytes)
    assert.equal(result.empty, 0)
  })

  it('is not verified, and needs no file', async (t) => {
    const broker = await startFakeBroker(t)
    for (const [option, complaint] of [
      [['--verify'], /--verify: this workload leaves nothing to ask for/],
      [['--acked-file', 'x'], /--acked-file is for publish/],
    ] as const) {
      const args = ['broker', '--workload', 'replay', '--url', broker.url, ...SMALL]
      const { exitCode, stderr } = await command([...args, ...option])
      assert.equal(exitCode, 2)
      assert.match(stderr, complaint)
    }
  })
})

describe('load broker', () => {
  it('charges a stalled broker for every cycle that was due meanwhile', async (t) => {
    const broker = await startFakeBroker(t, except('claims', [0], { kind: 'hang' }))
    const stalling = ['--connections', '1', '--rate', '100', '--duration', '600ms', '--timeout', '300ms']
    const { result } = await load(broker, 'cycle', stalling)
    assert.equal(result.loop, 'open')
    assert.deepEqual(Object.keys(result.errors), ['timeout'])
    assert(result.latencyMs.max >= 250, `the cycle due after 10 ms waited ${result.latencyMs.max} ms`)
  })

  it('explains itself', async () => {
    const { stdout, exitCode } = await command(['broker', '--help'])
    assert.equal(exitCode, 0)
    for (const option of ['--url', '--workload', '--connections', '--claim', '--preload', '--rate', '--verify']) {
      assert.equal(stdout.split(`\n  ${option}`).length, 2, `${option} once`)
    }
    assert.match(stdout, /--connections N .*the workers \(default 64\)/)
    assert.match(stdout, /examples:\n {2}npm run load -- broker/)
  })
})
