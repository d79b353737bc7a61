/** `GET /v1/tail` over real sockets: what docs/traces.md says of tails. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { TestContext } from 'node:test'
import { LogStoreServer, policyTenant } from '../../support/logstore.ts'
import type { ServerOptions } from '../../support/logstore.ts'
import { HASTENED } from '../../support/process.ts'
import { Tail } from '../../support/tail.ts'
import { eventually } from '../../support/waiting.ts'
import { JSON_LOGS, accept, assertRefused, jsonLogs, logRecordsOf } from './batches.ts'
import type { Accepted } from './batches.ts'

const NO_LIMIT = { records: null, bytes: null }
const POLICY = [
  policyTenant('local', 'local-dev-token', NO_LIMIT),
  policyTenant('acme', 'acme-token', NO_LIMIT, ['checkout', 'cart']),
]
const MIB = 1024 * 1024

async function start(context: TestContext, options: ServerOptions = {}): Promise<LogStoreServer> {
  const server = await LogStoreServer.start({ policy: POLICY, ...options })
  context.after(() => server.kill().catch(() => {})) // a test may have stopped it
  return server
}

const send = (server: LogStoreServer, label: string, records = 10, dataset = 'checkout'): Promise<Accepted> =>
  accept(server, JSON_LOGS, jsonLogs(logRecordsOf(records, label), { dataset }))

describe('a tail', () => {
  let shared: LogStoreServer
  before(async () => (shared = await LogStoreServer.start({ policy: POLICY })))
  after(() => shared.kill().catch(() => {})) // the last test stops it

  it('sends what is stored from now on in the datasets it names, as a query shows it', async () => {
    const server = shared
    await send(server, 'before')
    const all = await Tail.open(server, '/v1/tail')
    const cart = await Tail.open(server, '/v1/tail?dataset=cart')
    const found = await Tail.open(server, '/v1/tail?dataset=checkout&search=second%20-7')
    const first = await send(server, 'first')
    const second = await send(server, 'second')
    const third = await send(server, 'third', 3, 'cart')
    const ids = (tail: Tail): readonly string[] => tail.records.map(({ record_id }) => record_id)
    await all.until(() => all.records.length === 23)
    assert.deepEqual(ids(all), [...first.record_ids, ...second.record_ids, ...third.record_ids])
    await found.until(() => found.records.length === 9)
    assert.deepEqual(ids(found), second.record_ids.toSpliced(7, 1))
    await cart.until(() => cart.records.length === 3)
    assert.deepEqual(ids(cart), third.record_ids)
    const query = { dataset: 'cart', order: 'asc' }
    const { results } = (await server.request('/v1/query', query)).ok() as { results: { record: unknown }[] }
    assert.deepEqual(
      cart.records,
      results.map(({ record }) => record),
    )
    for (const tail of [all, cart, found]) tail.close()
  })

  it('that comes back with its last id after each kill -9 has every acknowledged record once, in order', async (context) => {
    const server = await start(context, { env: { LOGSTORE_SEGMENT_BYTES: String(MIB) } })
    const acknowledged: string[] = []
    const go = { isUp: true, isWriting: true, isReading: true }
    const writing = (async () => {
      for (let batch = 0; go.isWriting; batch++) {
        for (;;) {
          await eventually(() => go.isUp)
          // A batch without acknowledgement is sent again: if it was stored before, it is stored only once.
          const sent = await send(server, `batch ${batch} ${'x'.repeat(200)}`, 40).catch(() => null)
          if (sent === null) continue
          acknowledged.push(...sent.record_ids)
          break
        }
      }
    })()
    const seen: string[] = []
    const reading = (async () => {
      for (let lastId = ''; go.isReading;) {
        await eventually(() => go.isUp || !go.isReading)
        const tail = await Tail.open(server, '/v1/tail?dataset=checkout&search=batch', { lastId }).catch(() => null)
        if (tail === null) continue
        await tail.until(
          () => tail.isOver || (!go.isReading && seen.length + tail.records.length >= acknowledged.length),
        )
        seen.push(...tail.records.map(({ record_id }) => record_id))
        ;({ lastId } = tail)
        tail.close()
      }
    })()
    for (let kill = 1; kill <= 3; kill++) {
      const enough = acknowledged.length + 4000
      await eventually(() => acknowledged.length >= enough)
      go.isUp = false
      await server.kill()
      await server.startAgain()
      go.isUp = true
    }
    const enough = acknowledged.length + 400
    await eventually(() => acknowledged.length >= enough)
    go.isWriting = false
    await writing
    go.isReading = false
    await reading
    assert.deepEqual(seen, acknowledged)
    await server.stop()
  })

  it('whose reader takes nothing skips to the end, says how many records it missed, and costs no memory', async (context) => {
    const server = await start(context)
    const tail = await Tail.open(server, '/v1/tail?dataset=checkout&search=slow')
    tail.pause()
    const rssBefore = await rssOf(server)
    const long = 'y'.repeat(1000)
    let matching = 0
    for (let batch = 0; batch < 120; batch++) {
      const isSlow = batch % 2 === 0
      await send(server, `${isSlow ? 'slow' : 'other'} ${batch} ${long}`, 400)
      if (isSlow) matching += 400
    }
    assert.ok(
      (await rssOf(server)) - rssBefore < 400 * MIB,
      'caches and rings have bounds; 24 MiB waited for the reader',
    )
    tail.resume()
    await tail.until(() => tail.named('missed').length > 0)
    const last = await send(server, 'slow last', 1)
    await tail.until(() => tail.records.at(-1)?.record_id === last.record_ids[0])
    const missed = tail.named('missed').map(({ data }) => JSON.parse(data) as { records: number; reason: string })
    assert.ok(missed.every(({ reason, records }) => reason === 'slow_reader' && records > 0))
    const told = missed.reduce((sum, { records }) => sum + records, 0)
    assert.equal(tail.records.length + told, matching + 1)
    tail.close()
    await server.stop()
  })

  it('that comes back behind what retention removed is told so, and goes on with what is left', async (context) => {
    const limits = { LOGSTORE_SEGMENT_BYTES: String(MIB), LOGSTORE_RETENTION_MAX_BYTES: String(3 * MIB) }
    const env = { ...HASTENED, ...limits }
    const server = await start(context, { env })
    const { lastId } = await openAndClose(server)
    for (let batch = 0; batch < 20; batch++) await send(server, `${batch} ${'z'.repeat(1000)}`, 400)
    await eventually(async () => /^logstore_bundles [0-4]$/m.test((await server.request('/metrics', null)).text))
    const tail = await Tail.open(server, '/v1/tail', { lastId })
    await tail.until(() => tail.named('missed').length > 0 && tail.records.length > 0)
    assert.deepEqual(JSON.parse(tail.events[0]!.data), { records: null, reason: 'retention' })
    const last = await send(server, 'last', 1)
    await tail.until(() => tail.records.at(-1)?.record_id === last.record_ids[0])
    tail.close()
    await server.stop()
  })

  it('reads what its credential may read, until that is not valid any more', async (context) => {
    const server = await start(context)
    const as = { tenant: 'acme', token: 'acme-token' }
    const options = { tenant: 'acme', token: 'acme-token' }
    const tail = await Tail.open(server, '/v1/tail', as)
    await send(server, 'of another tenant')
    const sent = await accept(
      server,
      JSON_LOGS,
      jsonLogs(logRecordsOf(2, 'own'), { dataset: 'cart', tenant: 'acme' }),
      options,
    )
    await tail.until(() => tail.records.length === 2)
    assert.deepEqual(
      tail.records.map(({ record_id }) => record_id),
      sent.record_ids,
    )
    assertRefused(await server.request('/v1/tail?dataset=payments', null, options), 403, 'dataset_not_authorized')
    server.writePolicy([POLICY[0]!])
    server.signal('SIGHUP')
    await tail.until(() => tail.isOver)
    const [end] = tail.named('end')
    assert.equal((JSON.parse(end!.data) as { error: { kind: string } }).error.kind, 'unknown_tenant')
    await server.stop()
  })

  it('is refused for what it cannot be', async () => {
    const refused = async (path: string, status: number, kind: string, headers = {}): Promise<void> =>
      assertRefused(await shared.request(path, null, { headers }), status, kind)
    await refused('/v1/tail?search=a%20(b', 400, 'invalid_query')
    await refused('/v1/tail?dataset=', 400, 'invalid_query')
    await refused('/v1/tail?dataset=a&dataset=b', 400, 'invalid_query')
    await refused('/v1/tail?datset=a', 400, 'invalid_query')
    await refused('/v1/tail', 400, 'invalid_cursor', { 'last-event-id': 'x' })
    await refused('/v1/tail', 400, 'invalid_cursor', { 'last-event-id': '1-0-0' })
    const { lastId } = await openAndClose(shared)
    const beyond = `${lastId.split('-')[0]}-fffffff-0`
    await refused('/v1/tail', 400, 'invalid_cursor', { 'last-event-id': beyond })
    await refused('/v1/tail', 401, 'missing_credentials', { authorization: null })
    await refused('/v1/tail', 401, 'missing_tenant', { 'x-logstore-tenant': null })
  })

  it('has a place of its tenant, and gives it back when its reader leaves', async (context) => {
    const server = await start(context, { env: { LOGSTORE_MAX_CONCURRENT_QUERIES: '2' } })
    const tails = [await Tail.open(server, '/v1/tail'), await Tail.open(server, '/v1/tail')]
    assertRefused(await server.request('/v1/tail', null), 429, 'concurrency_exceeded', { retryable: true })
    tails[0]!.close()
    await eventually(async () => {
      const again = await Tail.open(server, '/v1/tail')
      again.close()
      return again.status === 200
    })
    await server.stop()
  })

  it('ends when the store stops, which does not wait for it', async () => {
    const tail = await Tail.open(shared, '/v1/tail')
    await shared.stop()
    await tail.until(() => tail.isOver)
    assert.equal(tail.wasCut, false)
  })
})

async function openAndClose(server: LogStoreServer): Promise<Tail> {
  const tail = await Tail.open(server, '/v1/tail')
  tail.close()
  return tail
}

async function rssOf(server: LogStoreServer): Promise<number> {
  const { text } = await server.request('/metrics', null)
  return Number(/^process_resident_memory_bytes ([0-9.e+]+)$/m.exec(text)![1])
}
