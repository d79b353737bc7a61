import assert from 'node:assert/strict'
import { it } from 'node:test'
import { nodeFiles } from '../../../src/log/node-files.ts'
import { readBundleManifest } from '../../../src/logstore/index/manifest.ts'
import type { IndexSegmentTask, IndexedSegmentFacts } from '../../../src/logstore/index/publish.ts'
import { encodeCatalog } from '../../../src/logstore/index/catalog.ts'
import { parseQueryRequest } from '../../../src/logstore/query/request.ts'
import { processNowMs } from '../../../src/logstore/query/task.ts'
import type { QueryAnswer, QueryTask, QueryWorkerData } from '../../../src/logstore/query/task.ts'
import { Senders } from '../../../src/logstore/senders.ts'
import { JobPool } from '../../../src/pipeline/jobs.ts'
import { LOG_ID, TestStore, textsOf } from '../../support/stored-segments.ts'
import type { QueryResponseBody } from '../../support/stored-segments.ts'

it('a query thread answers from the active index, and from the bundle that an indexing thread made of it', async (context) => {
  const store = TestStore.open(context)
  const pool = <Task, Result>(name: string, workerData?: unknown): JobPool<Task, Result> => {
    const filename = new URL(`../../../workers/${name}.ts`, import.meta.url)
    const jobs = new JobPool<Task, Result>({ name, filename, threads: 1, queueMax: 4, workerData })
    context.after(() => jobs.close({ withinMs: 1000 }))
    return jobs
  }
  const senders = new Senders(processNowMs)
  senders.sent('other') // so the thread rests at times
  const workerData: QueryWorkerData = { segmentsDirectory: store.directory, grams: null, senders: senders.shared }
  const queries = pool<QueryTask, QueryAnswer>('query', workerData)
  const indexing = pool<IndexSegmentTask, IndexedSegmentFacts>('index-segment')
  const request = parseQueryRequest(Buffer.from('{"dataset":"orders"}'))
  assert.ok('dataset' in request)
  const ask = async (deadlineAtMs = processNowMs() + 10_000): Promise<QueryResponseBody> => {
    const answer = await queries.run({ tenant: 'acme', request, deadlineAtMs, snapshot: store.snapshot() })
    assert.ok(answer.kind === 'ok', answer.kind === 'ok' ? '' : answer.kind)
    return JSON.parse(Buffer.from(answer.body).toString()) as QueryResponseBody
  }

  store.add('acme', [{ dataset: 'orders', time: 2n, trace: null, text: 'b' }])
  assert.deepEqual(textsOf(await ask()), ['b'])
  store.add('acme', [{ dataset: 'orders', time: 1n, trace: null, text: 'a' }])
  assert.deepEqual(textsOf(await ask()), ['a', 'b'])

  store.seal()
  const [{ base, end, active }] = store.segments as [(typeof store.segments)[number]]
  const directory = store.directoryOf(base)
  const recordsPath = `${directory}/records.log`
  const { damaged, ...row } = await indexing.run({
    logId: LOG_ID,
    base,
    end,
    directory,
    recordsPath,
    index: active.handle,
  })
  assert.deepEqual(damaged, [])
  assert.deepEqual(readBundleManifest(nodeFiles, { base, end, directory }), row)
  const snapshot = { ...store.snapshot(), indexed: [], catalog: encodeCatalog([row]) }
  const answer = await queries.run({ tenant: 'acme', request, deadlineAtMs: processNowMs() + 10_000, snapshot })
  assert.ok(answer.kind === 'ok')
  assert.deepEqual(textsOf(JSON.parse(Buffer.from(answer.body).toString()) as QueryResponseBody), ['a', 'b'])

  const late = await queries.run({ tenant: 'acme', request, deadlineAtMs: processNowMs() - 1, snapshot })
  assert.equal(late.kind, 'deadline_exceeded')
})
