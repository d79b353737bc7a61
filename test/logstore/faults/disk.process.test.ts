import assert from 'node:assert/strict'
import { closeSync, openSync, statfsSync, unlinkSync, writeSync } from 'node:fs'
import { after, describe, it } from 'node:test'
import type { TestContext } from 'node:test'
import { checkBatches, timeRangeOf } from '../../../scripts/soak/logstore/checks.ts'
import type { Load } from '../../../scripts/soak/logstore/load.ts'
import { eventually } from '../../support/waiting.ts'
import type { Reply } from '../../support/logstore.ts'
import { WHERE_MOUNTED, mountSmallDisk } from '../../support/small-disk.ts'
import { BreakableStore } from './breakable.ts'

const store = await BreakableStore.start()
const { server, faults } = store
after(() => server.kill())

/** A load, a part of which is in a bundle by now. */
async function loaded(context: TestContext, on = store): Promise<Load> {
  const load = on.load(context, 11)
  await on.sealing(load, 1)
  return load
}

/** Batches on their way may still be accepted. Then every connection is refused, and nothing is acknowledged meanwhile. */
async function assertNothingIsAccepted(load: Load): Promise<void> {
  const refusalsOf = (): number[] =>
    load.senders.map(({ refusals }) => [...refusals.values()].reduce((sum, count) => sum + count, 0))
  const nothingIsAccepted = async (): Promise<boolean> => {
    const { acknowledgedRecords } = load.batches
    const before = refusalsOf()
    await load.during(eventually(() => refusalsOf().every((count, sender) => count > before[sender]! + 1)))
    return load.batches.acknowledgedRecords === acknowledgedRecords
  }
  await eventually(nothingIsAccepted)
  // The senders fail on anything but a typed refusal with Retry-After.
  assert.deepEqual([...new Set(Object.keys(load.refusals).map((name) => name.slice(0, 3)))], ['503'])
}

describe('a disk that fails', () => {
  it('makes the store read-only until a restart when fdatasync of the log fails: refused, unhealthy, nothing false acknowledged, queries answered', async (context) => {
    const load = await loaded(context)
    faults.set('fdatasync-eio', 'records.log')
    const isReadOnly = /log: read-only: .*EIO/
    await load.during(eventually(async () => isReadOnly.test((await server.request('/health', null)).text)))
    assert.equal(server.stderr.split('"msg":"the log is read-only"').length - 1, 1)
    await assertNothingIsAccepted(load)
    await load.check()

    faults.clear('fdatasync-eio') // a sync that succeeds after one that failed proves nothing
    await assertNothingIsAccepted(load)
    assert.equal(await store.health(), 503)
    await server.kill()
    await server.startAgain()
    await load.check()
    await load.stop()
    await load.checkEverything()
  })

  it('that is slow delays acknowledgements, not queries', async (context) => {
    const load = await loaded(context)
    faults.set('fdatasync-slow', '1000')
    const batch = (text: string) => ({
      resourceLogs: [resource('slow', [{ timeUnixNano: '1', body: { stringValue: text } }])],
    })
    await server.request('/v1/otlp/logs', batch('first')) // batches that were on their way are through
    const sentMs = performance.now()
    const written = server
      .request('/v1/otlp/logs', batch('second'))
      .then(({ status }) => [status, performance.now() - sentMs])
    await load.check()
    const queriedMs = performance.now() - sentMs
    const [status, acknowledgedMs = 0] = await written
    assert.equal(status, 200)
    assert(acknowledgedMs >= 900, `acknowledged after ${acknowledgedMs} ms`)
    context.diagnostic(`14 queries and more in ${queriedMs} ms, one write in ${acknowledgedMs} ms`)
    assert.equal(await store.health(), 200)
    faults.clear('fdatasync-slow')
    await load.stop()
    await load.checkEverything()
  })

  it('that cannot read a bundle fails the query that needs it, naming the bundle, and serves the others', async (context) => {
    const load = await loaded(context)
    await store.sealing(load, 1)
    await load.stop()
    await server.restart() // nothing is open or cached
    const [first] = load.batches.sent
    const ask = (): Promise<Reply> =>
      server.request('/v1/query', { dataset: load.batches.dataset, filter: timeRangeOf([first!]) })
    faults.set('read-eio', '/index.bin') // of the bundle that has the first batch
    const bundle = /[0-9a-f]{16}/.exec((await ask()).text)![0]
    faults.set('read-eio', `/${bundle}/`)
    const reply = await ask()
    assert.deepEqual([reply.status, reply.rejection().retryable, reply.kind], [500, true, 'bundle_read_failed'])
    assert(reply.text.includes(bundle), reply.text)
    const last = load.batches.sent.at(-1)!
    await checkBatches(load.ask, load.batches, [last])
    faults.clear('read-eio')
    await load.checkEverything()
    const health = await server.request('/health', null)
    assert.deepEqual([health.status, health.text], [200, '"Healthy"\n'])
    // Both queries, and the store itself if it noted frames for searches meanwhile.
    assert.match(health.headers.get('x-trilog-degraded')!, new RegExp(`^[2-9] reads .* failed, .*${bundle}.*EIO`))
    const ready = await server.request('/readyz', null)
    assert.match(ready.text, /^\{"status":"degraded","reasons":\[\{"kind":"read_errors",/)
    assert.match((await server.request('/metrics', null)).text, /^logstore_read_errors_total [2-9]$/m)
    await server.logged(/"reason":"[^"]*EIO[^"]*"[^\n]*"msg":"stored data could not be read"/)
  })
})

describe('a full disk', () => {
  it('that says it has room is found out by a write: nothing false is acknowledged, nothing is taken until there is room, then all goes on without a restart', async (context) => {
    const load = await loaded(context)
    faults.set('write-enospc', '.log')
    await load.during(eventually(() => /the log is restarting/.test(server.stderr)))
    await assertNothingIsAccepted(load)
    await load.check()
    await eventually(async () => (await store.health()) === 200)
    faults.clear('write-enospc')
    const { acknowledgedRecords } = load.batches
    await load.during(eventually(() => load.batches.acknowledgedRecords > acknowledgedRecords))
    assert.equal(await store.health(), 200)
    await load.stop()
    await load.checkEverything()
  })

  it('refuses new batches before any write fails, answers queries, and takes batches again by itself when there is room', async (context) => {
    const load = await loaded(context)
    faults.set('disk-full')
    await load.during(eventually(() => (load.refusals['503 retry-after 1'] ?? 0) > 0))
    await assertNothingIsAccepted(load)
    await load.check()
    faults.clear('disk-full')
    const { acknowledgedRecords } = load.batches
    await load.during(eventually(() => load.batches.acknowledgedRecords > acknowledgedRecords))
    assert.equal(await store.health(), 200)
    await load.stop()
    await load.checkEverything()
  })

  it(`does so on a file system of 96 MiB that is filled to the last byte${WHERE_MOUNTED}`, async (context) => {
    const disk = mountSmallDisk(context, 96)
    if (disk === null) return
    // Bodies have at most 1 MiB: the reserve of the log follows from this, and is 72 MiB.
    const small = await BreakableStore.start({
      LOGSTORE_DATA_DIR: `${disk}/data`,
      LOGSTORE_MAX_BODY_BYTES: String(1 << 20),
    })
    context.after(() => small.server.kill())
    const load = await loaded(context, small)
    for (const steps of [[0], [32 << 20, 0]]) {
      for (const leaveBytes of steps) {
        fillUp(`${disk}/other`, leaveBytes) // filled at once, writes may fail; filled in two steps, the reserve is used up only by the second
        await assertNothingIsAccepted(load)
      }
      await eventually(async () => (await small.health()) === 200)
      await load.check()
      unlinkSync(`${disk}/other`)
      const { acknowledgedRecords } = load.batches
      await load.during(eventually(() => load.batches.acknowledgedRecords > acknowledgedRecords))
      assert.equal(await small.health(), 200)
    }
    await load.stop()
    await load.checkEverything()
    await small.server.kill()
    await small.server.startAgain()
    await load.checkEverything()
  })
})

/** Lets a file grow until this many bytes are free on its file system. */
function fillUp(path: string, leaveBytes: number): void {
  const file = openSync(path, 'a')
  try {
    for (const bytes = Buffer.alloc(1 << 16); ;) {
      const { bavail, bsize } = statfsSync(path)
      const left = bavail * bsize - leaveBytes
      if (left <= 0) return
      writeSync(file, bytes, 0, Math.min(left, bytes.byteLength))
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error // node:fs throws nothing else
  } finally {
    closeSync(file)
  }
}

const resource = (dataset: string, logRecords: readonly object[]): object => ({
  resource: {
    attributes: [
      { key: 'service.name', value: { stringValue: dataset } },
      { key: 'tenant_id', value: { stringValue: 'local' } },
    ],
  },
  scopeLogs: [{ logRecords }],
})
