import assert from 'node:assert/strict'
import fs from 'node:fs'
import { describe, it } from 'node:test'
import type { TestContext } from 'node:test'
import { checkBatches, timeRangeOf } from '../../../scripts/soak/logstore/checks.ts'
import type { QueryReply } from '../../../scripts/soak/logstore/checks.ts'
import { Load, UNLIMITED, bundlesOf } from '../../../scripts/soak/logstore/load.ts'
import { FRAME_HEADER_BYTES } from '../../../native-free-codecs/frame.ts'
import { headBytesOf, readIndexHeader } from '../../../src/logstore/index/index-file.ts'
import { eventually } from '../../support/waiting.ts'
import { temporaryDirectory } from '../../support/directories.ts'
import { LogStoreServer, failToStart } from '../../support/logstore.ts'
import type { Reply } from '../../support/logstore.ts'

const SEGMENT_HEADER_BYTES = 64
/** Directory of the first bundle. */
const BUNDLE = 'bundles/0000000000000000'

/** The store before it is damaged: it has a bundle, and is stopped. */
const server = await LogStoreServer.start({
  policy: [UNLIMITED],
  env: { LOGSTORE_SEGMENT_BYTES: String(1 << 20), LOGSTORE_COMPACTION: 'off' },
})
const load = Load.start(server, { seed: 3, recordsPerBatch: 5, recordBytes: 2000 })
await load.during(eventually(async () => (await bundlesOf(server)) > 0))
await load.stop()
await server.stop()

/** Copies the store, and flips one bit of a file in the copy. */
function damaged(file: string, at: number): { LOGSTORE_DATA_DIR: string } {
  const copy = temporaryDirectory()
  fs.cpSync(server.dataDirectory, copy, { recursive: true })
  const path = `${copy}/${file}`
  const bytes = fs.readFileSync(path)
  bytes[at]! ^= 0x10
  fs.writeFileSync(path, bytes)
  return { LOGSTORE_DATA_DIR: copy }
}

/** Starts a copy of the store without one file or directory of the bundle with this number, counted from the oldest. */
async function startWithout(
  context: TestContext,
  number: number,
  file: string,
): Promise<{ readonly name: string; readonly restart: () => Promise<void> }> {
  const copy = temporaryDirectory()
  fs.cpSync(server.dataDirectory, copy, { recursive: true })
  const names = fs.readdirSync(`${copy}/bundles`).filter((name) => /^[0-9a-f]{16}$/.test(name))
  const name = names.sort().at(number)!
  fs.rmSync(`${copy}/bundles/${name}${file}`, { recursive: true })
  const env = { LOGSTORE_DATA_DIR: copy }
  await server.startAgain(env)
  context.after(() => server.kill())
  const restart = async (): Promise<void> => {
    await server.stop()
    await server.startAgain(env)
  }
  return { name, restart }
}

interface Ready {
  readonly status: string
  readonly reasons: readonly { readonly kind: string; readonly reason: string; readonly since: string }[]
}

/** Checks that the service answers, and reports an incident that is not acknowledged. Returns the reason. */
async function assertDamaged(): Promise<string> {
  const health = await server.request('/health', null)
  assert.deepEqual([health.status, health.json()], [200, 'Healthy'])
  const reply = await server.request('/readyz', null)
  const ready = reply.ok() as Ready // checked field by field
  assert.deepEqual([ready.status, ready.reasons.map(({ kind }) => kind)], ['degraded', ['damage']])
  assert(!Number.isNaN(Date.parse(ready.reasons[0]!.since)))
  assert.equal(health.headers.get('x-trilog-degraded'), ready.reasons[0]!.reason)
  assert.match((await server.request('/metrics', null)).text, /^logstore_degraded 1$/m)
  return ready.reasons[0]!.reason
}

async function startDamaged(context: TestContext, ...damage: Parameters<typeof damaged>): Promise<void> {
  await server.startAgain(damaged(...damage))
  context.after(() => server.kill())
}

describe('a store whose files were damaged while it was stopped', () => {
  it('refuses to start with one line and exit code 2 when FORMAT is', async () => {
    const { code, stdout, stderr } = await failToStart(damaged('FORMAT', 12))
    assert.deepEqual([code, stdout], [2, ''])
    assert.match(stderr, /^[^\n]*FORMAT[^\n]*\n$/)
  })

  it('builds an index file again that a query found damaged, and answers the next query rightly', async (context) => {
    const index = fs.readFileSync(`${server.dataDirectory}/${BUNDLE}/index.bin`)
    const header = readIndexHeader(index, index.byteLength)
    assert('base' in header)
    await startDamaged(context, `${BUNDLE}/index.bin`, headBytesOf(header) + 500) // its first entries
    const isAnswered = async (): Promise<boolean> => {
      const reply = await server.request('/v1/query', { dataset: 'soak', page: { limit: 500 } })
      if (reply.status !== 200) assert.deepEqual([reply.status, reply.kind], [500, 'bundle_read_failed'])
      return reply.status === 200
    }
    assert.equal(await isAnswered(), false)
    await eventually(isAnswered)
    await load.checkEverything()
  })

  it('names the bundle of a damaged record once, counts it as quarantined from then on, and takes and serves all others', async (context) => {
    const inFirstPayload = SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES + 2000
    await startDamaged(context, `${BUNDLE}/records.log`, inFirstPayload)
    // It is not known which batch stands first in the log: the first ones are asked for until one of them fails.
    let failure: Reply | null = null
    const whole = []
    for (const batch of load.batches.sent.slice(0, 20)) {
      const query = { dataset: 'soak', filter: timeRangeOf([batch]), page: { limit: 500 } }
      const reply = await server.request('/v1/query', query)
      if (reply.status === 200) {
        whole.push(batch)
        continue
      }
      failure = reply
      const again = (await server.request('/v1/query', query)).ok() as QueryReply // checked field by field
      assert.deepEqual([again.matched_records, again.quarantined_records], [0, batch.records])
    }
    assert(failure)
    assert.deepEqual([failure.status, failure.kind, failure.rejection().retryable], [500, 'bundle_read_failed', true])
    assert.match(failure.text, /0000000000000000/)
    await server.logged(/quarantine incident/)
    assert.equal(whole.length, 19)
    for (const batch of whole) await checkBatches(load.ask, load.batches, [batch])

    const more = Load.start(server, { seed: 4, connections: 2 })
    context.after(() => more.abandon())
    await more.during(eventually(() => more.batches.acknowledgedRecords > 0))
    await more.stop()
    for (const batch of more.batches.sent.slice(0, 5)) await checkBatches(more.ask, more.batches, [batch])
  })
})

describe('a store of which a part was lost while it was stopped', () => {
  it('starts without the frames of its newest bundle, at every start, and takes and serves everything else', async (context) => {
    const { name, restart } = await startWithout(context, -1, '/records.log')
    for (const isAgain of [false, true]) {
      assert.match(await assertDamaged(), /records\.log is missing/)
      await server.logged(name)
      await checkBatches(load.ask, load.batches, [load.batches.sent[0]!])
      const more = Load.start(server, { seed: isAgain ? 6 : 5, connections: 2 })
      context.after(() => more.abandon())
      await more.during(eventually(() => more.batches.acknowledgedRecords > 0))
      await more.stop()
      await checkBatches(more.ask, more.batches, [more.batches.sent[0]!])
      if (!isAgain) await restart()
    }
  })

  it('tells that its oldest bundle is gone until an operator has acknowledged it', async (context) => {
    const { restart } = await startWithout(context, 0, '')
    const reason = await assertDamaged()
    await server.logged(/quarantine incident/)
    await restart()
    assert.equal(await assertDamaged(), reason)
    const [id] = /inc-[0-9a-f]+/.exec(reason)!
    const [, file] = / (\S+\/acknowledged-incidents) /.exec((await server.request('/readyz', null)).text)!
    fs.writeFileSync(file!, `${id} it was a test\n`)
    server.signal('SIGHUP')
    const isWell = async (): Promise<boolean> =>
      (await server.request('/health', null)).headers.get('x-trilog-degraded') === null
    await eventually(isWell)
    await restart()
    assert(await isWell())
    assert.equal(((await server.request('/readyz', null)).ok() as Ready).status, 'ok')
  })
})
