import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import type { LoadResult } from '../../../bench/load/result.ts'
import { command, directory, load as loadService } from './command.ts'
import type { Ended } from './command.ts'
import { startFakeObjectStore } from './fake-object-store.ts'
import type { FakeObjectStore, Reaction } from './fake-object-store.ts'

const SMALL = ['--connections', '3', '--disk-time', '0s']

function load(
  { url }: FakeObjectStore,
  workload: string,
  args: readonly string[],
): Promise<Ended & { result: LoadResult }> {
  return loadService(['objectstore', '--workload', workload, '--url', url, ...SMALL, ...args])
}

/** Reacts with `special` to the requests of a kind with these numbers, and accepts all others. */
const except =
  (kind: string, requests: readonly number[], special: Reaction) =>
  (request: number, ofKind: string): Reaction =>
    ofKind === kind && requests.includes(request) ? special : { kind: 'accept' }

const verified = ({ verification }: LoadResult): string[] =>
  (verification?.checks ?? []).map(({ name, detail }) => `${name}: ${detail}`)

const count = ({ requests }: FakeObjectStore, method: string): number =>
  requests.filter((request) => request.startsWith(`${method} `)).length

describe('load objectstore --workload put', () => {
  it('creates the bucket, puts objects of the size asked for, each with other bytes, and finds them again', async (t) => {
    const store = await startFakeObjectStore(t)
    const args = ['--batches', '40', '--object-size', '100B', '--seed', '7', '--verify']
    const { exitCode, result } = await load(store, 'put', args)
    assert.equal(exitCode, 0)
    assert.deepEqual(result.acknowledged, { tasks: 40, units: 40, payloadBytes: 4000, bodyBytes: 4000 })
    assert.deepEqual(verified(result), ['stored: 40 of 40 there, as sent'])
    assert.equal(store.requests[0], 'PUT /load')
    assert(store.objects.has('/load/put-00000007/000000000039'))
    assert.equal(new Set([...store.objects.values()].map(String)).size, 40)
    assert([...store.objects.values()].every((bytes) => bytes.length === 100))
  })

  it('goes on with a bucket that exists, and sends the same objects for the same seed', async (t) => {
    const stores = [await startFakeObjectStore(t), await startFakeObjectStore(t)]
    for (const store of stores) {
      const args = ['--batches', '10', '--object-size', '1B-4KiB', '--seed', '1', '--bucket', 'mine']
      for (const _ of [1, 2]) assert.equal((await load(store, 'put', args)).exitCode, 0)
    }
    assert.deepEqual(stores[0]!.objects, stores[1]!.objects)
    assert.equal(stores[0]!.objects.size, 10)
  })

  it('notices an object that was acknowledged and lost or changed, and exits with 1', async (t) => {
    const one = ['--connections', '1', '--batches', '12', '--verify', '--seed', '1']
    for (const [kind, problem] of [
      ['lose', 'is missing'],
      ['damage', 'has other bytes from 0 on'],
    ] as const) {
      const store = await startFakeObjectStore(t, except('put', [11], { kind }))
      const { exitCode, result } = await load(store, 'put', one)
      assert.equal(exitCode, 1)
      assert.deepEqual(verified(result), [`stored: 1 wrong: put-00000001/000000000011 ${problem}`])
    }
  })

  it('takes both outcomes of a request without an answer for right', async (t) => {
    const reactions: Record<number, Reaction> = { 4: { kind: 'reset' }, 9: { kind: 'unnoticed' } }
    const store = await startFakeObjectStore(t, (request, kind) =>
      kind === 'put' ? (reactions[request] ?? { kind: 'accept' }) : { kind: 'accept' },
    )
    const { exitCode, result } = await load(store, 'put', ['--batches', '30', '--verify'])
    assert.deepEqual(result.errors, { connection_reset: 2 })
    assert.equal(store.objects.size, 29)
    assert.deepEqual(verified(result), ['stored: 28 of 28 there, as sent'])
    assert.equal(exitCode, 0)
  })

  it('counts refusals by status and code', async (t) => {
    const slowDown = { kind: 'refuse', status: 503, code: 'SlowDown', retryAfterSeconds: 1 } as const
    const store = await startFakeObjectStore(t, except('put', [0, 5], slowDown))
    const { result } = await load(store, 'put', ['--batches', '20', '--no-obey-retry-after'])
    assert.deepEqual(result.errors, { '503 SlowDown': 2 })
    assert.equal(result.retryAfterMaxSeconds, 1)
    assert.equal(result.acknowledged.units, 18)
  })

  it('writes a line per acknowledged object', async (t) => {
    const store = await startFakeObjectStore(t, except('put', [4], { kind: 'reset' }))
    const path = join(directory(t), 'acked.tsv')
    await load(store, 'put', ['--batches', '10', '--acked-file', path])
    const lines = readFileSync(path, 'utf8').trimEnd().split('\n')
    assert.equal(lines.length, 9)
    for (const line of lines) {
      const [fate, key = ''] = line.split('\t')
      assert.equal(fate, 'stored')
      assert(store.objects.has(`/load/${key}`))
    }
  })

  it('says so when the bucket is refused', async (t) => {
    const refused = { kind: 'refuse', status: 403, code: 'AccessDenied' } as const
    const store = await startFakeObjectStore(t, except('create-bucket', [0], refused))
    const { exitCode, stderr } = await command(['objectstore', '--url', store.url, ...SMALL, '--batches', '1'])
    assert.equal(exitCode, 1)
    assert.match(stderr, /the creation of the bucket was answered with 403 AccessDenied/)
  })
})

describe('load objectstore --workload get and head', () => {
  it('puts what is missing beforehand, and reads it', async (t) => {
    const store = await startFakeObjectStore(t)
    const args = ['--batches', '50', '--object-size', '1KiB', '--preload', '30']
    const { exitCode, result } = await load(store, 'get', args)
    assert.equal(exitCode, 0)
    assert.deepEqual(result.acknowledged, { tasks: 50, units: 50, payloadBytes: 51_200, bodyBytes: 51_200 })
    assert.equal(store.objects.size, 30)
    const puts = count(store, 'PUT')
    assert.equal((await load(store, 'get', args)).exitCode, 0)
    assert.equal(count(store, 'PUT'), puts + 1) // the one that creates the bucket
  })

  it('counts other bytes than were put as an answer that cannot be read', async (t) => {
    const store = await startFakeObjectStore(t, except('get', [3, 4], { kind: 'damage' }))
    const { result } = await load(store, 'get', ['--batches', '20', '--preload', '5'])
    assert.deepEqual(result.errors, { unreadable_answer: 2 })
  })

  it('asks for headers only', async (t) => {
    const store = await startFakeObjectStore(t)
    const { exitCode, result } = await load(store, 'head', ['--batches', '50', '--preload', '5'])
    assert.equal(exitCode, 0)
    assert.deepEqual(result.errors, {})
    assert.equal(count(store, 'HEAD'), 50)
    assert.deepEqual(result.acknowledged, { tasks: 50, units: 50, payloadBytes: 0, bodyBytes: 0 })
  })
})

describe('load objectstore --workload mixed', () => {
  it('reads, asks, puts and deletes in the shares it names, and finds what must be there, and only that', async (t) => {
    const store = await startFakeObjectStore(t)
    const args = ['--batches', '600', '--preload', '20', '--seed', '3', '--object-size', '10B-200B', '--verify']
    const before = 20 + 1
    const { exitCode, result } = await load(store, 'mixed', args)
    assert.equal(exitCode, 0)
    assert.equal(result.acknowledged.units, 600)
    const deleted = count(store, 'DELETE')
    const put = count(store, 'PUT') - before
    assert(deleted > 20 && put > deleted && count(store, 'HEAD') > put, `${deleted} deleted, ${put} put`)
    assert.deepEqual(verified(result), [
      `stored: ${put - deleted} of ${put - deleted} there, as sent`,
      `deleted: none of ${deleted} is there`,
    ])
  })

  it('notices an object that was deleted and is there', async (t) => {
    const store = await startFakeObjectStore(t, except('delete', [2], { kind: 'lose' }))
    const args = ['--batches', '300', '--preload', '5', '--seed', '3', '--verify', '--connections', '1']
    const { exitCode, result } = await load(store, 'mixed', args)
    assert.equal(exitCode, 1)
    assert.match(verified(result)[1] ?? '', /deleted: 1 wrong: mixed-00000003\/\d{12} is there/)
  })

  it('takes both outcomes of a deletion without an answer for right', async (t) => {
    const reactions: Record<number, Reaction> = { 1: { kind: 'reset' }, 2: { kind: 'unnoticed' } }
    const store = await startFakeObjectStore(t, (request, kind) =>
      kind === 'delete' ? (reactions[request] ?? { kind: 'accept' }) : { kind: 'accept' },
    )
    const args = ['--batches', '300', '--preload', '5', '--seed', '3', '--verify']
    assert.equal((await load(store, 'mixed', args)).exitCode, 0)
  })
})

describe('load objectstore --workload multipart', () => {
  const UPLOADS = ['--batches', '3', '--parts', '2', '--seed', '1', '--verify']

  it('uploads objects in parts, and finds them again', async (t) => {
    const store = await startFakeObjectStore(t)
    const { exitCode, result } = await load(store, 'multipart', UPLOADS)
    assert.equal(exitCode, 0)
    assert.deepEqual(result.acknowledged, { tasks: 3, units: 3, payloadBytes: 30 << 20, bodyBytes: 30 << 20 })
    assert.deepEqual(verified(result), ['stored: 3 of 3 there, as sent'])
    assert(store.requests.includes('POST /load/multipart-00000001/000000000000?uploads'))
    assert.deepEqual(
      [...store.objects.values()].map(({ length }) => length),
      [10 << 20, 10 << 20, 10 << 20],
    )
  })

  it('counts an upload whose parts arrived otherwise, or that failed behind its status', async (t) => {
    const lost = await startFakeObjectStore(t, except('part', [0], { kind: 'lose' }))
    assert.deepEqual((await load(lost, 'multipart', UPLOADS)).result.errors, { '400 InvalidPart': 1 })
    const late = await startFakeObjectStore(t, except('complete', [0], { kind: 'garbage' }))
    assert.deepEqual((await load(late, 'multipart', UPLOADS)).result.errors, { unreadable_answer: 1 })
  })
})

describe('load objectstore --workload list', () => {
  it('goes through the pages again and again', async (t) => {
    const store = await startFakeObjectStore(t)
    const args = ['--batches', '7', '--preload', '25', '--page', '10', '--object-size', '1B', '--connections', '1']
    const { exitCode, result } = await load(store, 'list', args)
    assert.equal(exitCode, 0)
    assert.equal(result.acknowledged.units, 10 + 10 + 5 + 10 + 10 + 5 + 10)
    assert.equal(result.unit, 'keys')
  })
})

describe('the command line of load objectstore', () => {
  const wrong = async (args: readonly string[], message: RegExp): Promise<void> => {
    const { exitCode, stderr } = await command(['objectstore', ...args])
    assert.equal(exitCode, 2)
    assert.match(stderr, message)
  }

  it('is refused where it cannot work', async () => {
    await wrong(['--workload', 'post'], /--workload must be one of put, get, head, mixed, multipart, list, not 'post'/)
    await wrong(
      ['--object-size', '4kb'],
      /--object-size must be sizes such as 100B, 4KiB or 1MiB, up to 16MiB, not '4kb'/,
    )
    await wrong(['--object-size', '17MiB'], /up to 16MiB/)
    await wrong(['--object-size', '2KiB-1KiB'], /must go from at least 1B upwards/)
    await wrong(['--preload', '5'], /--preload is for get, head, mixed and list/)
    await wrong(['--workload', 'get', '--acked-file', 'x'], /--acked-file is for put, mixed and multipart/)
    await wrong(['--workload', 'multipart', '--part-size', '1MiB'], /--part-size must be 5MiB at least/)
    await wrong(['--workload', 'get', '--verify'], /this workload leaves nothing to ask for/)
    await wrong(['--acked-file', '/nowhere/at/all'], /--acked-file: ENOENT/)
  })
})
