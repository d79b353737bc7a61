/** Surveys on the real process: `GET /v1/datasets`, `POST /v1/query/histogram` and `POST /v1/query/fields`. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { LogStoreServer, policyTenant } from '../../support/logstore.ts'
import type { PolicyTenant, Reply, RequestOptions } from '../../support/logstore.ts'
import { HASTENED } from '../../support/process.ts'
import { eventually } from '../../support/waiting.ts'
import {
  JSON_LOGS,
  JSON_TRACES,
  LOGS,
  PROTOBUF,
  TIME,
  accept,
  assertRefused,
  find,
  jsonLogs,
  jsonTraces,
  logRecordsOf,
  protobufLogs,
  spansOf,
  startForTests,
} from './batches.ts'

const DATASETS = '/v1/datasets'
const HISTOGRAM = '/v1/query/histogram'
const FIELDS = '/v1/query/fields'
const NO_LIMIT = { records: null, bytes: null }

const both: PolicyTenant = {
  id: 'local',
  credentials: [
    ...policyTenant('local', 'local-dev-token').credentials,
    ...policyTenant('local', 'only-cart', {}, ['cart', 'nothing yet']).credentials,
  ],
  limits: NO_LIMIT,
}
const server = await startForTests({ policy: [both, policyTenant('acme', 'acme-token', NO_LIMIT)] })

await accept(server, JSON_LOGS, jsonLogs(logRecordsOf(10), { dataset: 'checkout' }))
await accept(server, JSON_TRACES, jsonTraces(spansOf(2), { dataset: 'checkout' }))
assert.equal((await server.request(LOGS, protobufLogs(logRecordsOf(3), { dataset: 'cart' }), PROTOBUF)).status, 200)

interface Datasets {
  readonly datasets: readonly { readonly dataset: string; readonly records: number }[]
}

const datasetsOf = async (from: LogStoreServer, options: RequestOptions = {}): Promise<Datasets> =>
  (await from.request(DATASETS, null, options)).ok() as Datasets // compared with what it must be

describe('the datasets', () => {
  it('are told with all that the document names, and nothing else', async () => {
    const { datasets, ...rest } = (await server.request(DATASETS, null)).ok() as {
      datasets: readonly Record<string, unknown>[]
    }
    assert.deepEqual(rest, {
      status: 'ok',
      api_version: 'v1',
      tenant_id: 'local',
      page: { limit: 1000, cursor: null, next_cursor: null },
    })
    const first = String(TIME)
    assert.deepEqual(
      datasets.map(({ bytes, ...told }) => {
        assert(Number.isInteger(bytes) && (bytes as number) > 20) // just checked
        return told
      }),
      [
        {
          dataset: 'cart',
          records: 3,
          first_time_unix_nano: first,
          last_time_unix_nano: String(TIME + 2n),
          signals: ['log'],
        },
        {
          dataset: 'checkout',
          records: 12,
          first_time_unix_nano: first,
          last_time_unix_nano: String(TIME + 9n),
          signals: ['log', 'trace'],
        },
      ],
    )
  })

  it('are those of the tenant and the credential', async () => {
    const names = async (options: RequestOptions): Promise<string[]> =>
      (await datasetsOf(server, options)).datasets.map(({ dataset }) => dataset)
    assert.deepEqual(await names({ token: 'only-cart' }), ['cart'])
    assert.deepEqual(await names({ tenant: 'acme', token: 'acme-token' }), [])
  })

  it('come in pages', async () => {
    const page = (await server.request(`${DATASETS}?limit=1`, null)).ok() as Datasets & {
      page: { next_cursor: string }
    }
    assert.deepEqual(
      page.datasets.map(({ dataset }) => dataset),
      ['cart'],
    )
    const next = (await server.request(`${DATASETS}?limit=1&cursor=${page.page.next_cursor}`, null)).ok() as typeof page
    assert.deepEqual(
      next.datasets.map(({ dataset }) => dataset),
      ['checkout'],
    )
    assert.equal(next.page.next_cursor, null)
  })

  const WRONG: readonly (readonly [query: string, kind: string])[] = [
    ['limit=0', 'invalid_page_limit'],
    ['limit=1001', 'invalid_page_limit'],
    ['limit=x', 'invalid_page_limit'],
    ['cursor=', 'invalid_cursor'],
    ['cursor=%20', 'invalid_cursor'],
    ['deadline_ms=0', 'invalid_query'],
    ['deadline_ms=60001', 'invalid_query'],
    ['dataset=cart', 'invalid_query'],
    ['limit=1&limit=1', 'invalid_query'],
  ]
  for (const [query, kind] of WRONG)
    it(`with ${query} are ${kind}`, async () =>
      assertRefused(await server.request(`${DATASETS}?${query}`, null), 400, kind))

  it('and their numbers stay through sealing, a restart and retention, as those of queries do', async (context) => {
    const own = await LogStoreServer.start({
      policy: [policyTenant('local', 'local-dev-token', NO_LIMIT)],
      env: { LOGSTORE_SEGMENT_BYTES: String(1 << 20) },
    })
    context.after(() => own.kill())
    const padding = 'x'.repeat(2000)
    for (let batch = 0; batch < 16; batch++) {
      const records = logRecordsOf(100, `${batch} ${padding}`)
      const request = protobufLogs(records, { dataset: batch % 4 === 3 ? 'seldom' : 'often' })
      assert.equal((await own.request(LOGS, request, PROTOBUF)).status, 200)
    }
    const isPublished = async (): Promise<boolean> => {
      const { text } = await own.request('/metrics', null)
      return /^logstore_sidecars_pending 0$/m.test(text) && Number(/^logstore_bundles (\d+)$/m.exec(text)?.[1]) >= 2
    }
    await eventually(isPublished)
    const assertAsQueries = async (): Promise<Datasets> => {
      const told = await datasetsOf(own)
      for (const { dataset, records } of told.datasets) {
        assert.equal(records, (await find(own, { dataset, page: { limit: 1 } })).matched_records)
      }
      return told
    }
    const before = await assertAsQueries()
    assert.deepEqual(
      before.datasets.map(({ dataset, records }) => [dataset, records]),
      [
        ['often', 1200],
        ['seldom', 400],
      ],
    )
    await own.stop()
    await own.startAgain()
    assert.deepEqual(await datasetsOf(own), before)
    await own.stop()
    await own.startAgain({ ...HASTENED, LOGSTORE_RETENTION_MAX_BYTES: String(2 << 20) })
    await eventually(async () => (await datasetsOf(own)).datasets[0]!.records < 1200)
    const after = await assertAsQueries()
    assert(after.datasets.every(({ records }) => records > 0))
  })
})

describe('a histogram', () => {
  it('counts records that were acknowledged a moment ago, with all that the document names', async () => {
    const body = {
      dataset: 'checkout',
      filter: { start_time_unix_nano: String(TIME), end_time_unix_nano: String(TIME + 10n) },
      buckets: 2,
      split_by: 'signal',
    }
    const { scanned_bundles, ...told } = (await server.request(HISTOGRAM, body)).ok() as { scanned_bundles: number }
    assert(scanned_bundles >= 1)
    assert.deepEqual(told, {
      status: 'ok',
      api_version: 'v1',
      tenant_id: 'local',
      dataset: 'checkout',
      matched_records: 12,
      interval_nano: '5',
      buckets: [
        { start_time_unix_nano: String(TIME), records: 7 },
        { start_time_unix_nano: String(TIME + 5n), records: 5 },
      ],
      split_by: 'signal',
      series: [
        { kind: 'value', value: 'log', records: 10, counts: [5, 5] },
        { kind: 'value', value: 'trace', records: 2, counts: [2, 0] },
      ],
      used_indexes: ['dataset_time'],
    })
  })

  it('of too many buckets is refused', async () => {
    const filter = { start_time_unix_nano: '0', end_time_unix_nano: String(TIME) }
    const reply = await server.request(HISTOGRAM, { dataset: 'checkout', interval_nano: 1, filter })
    assertRefused(reply, 400, 'invalid_query')
    assert.match(reply.text, /2000 are allowed/)
  })
})

describe('the fields of a dataset', () => {
  it('are told with all that the document names', async () => {
    const body = { dataset: 'checkout', filter: { search: 'signal:trace' }, values: 1 }
    const { fields, scanned_bundles, ...told } = (await server.request(FIELDS, body)).ok() as {
      fields: readonly { readonly name: string }[]
      scanned_bundles: number
    }
    assert(scanned_bundles >= 1)
    assert.deepEqual(told, {
      status: 'ok',
      api_version: 'v1',
      tenant_id: 'local',
      dataset: 'checkout',
      matched_records: 2,
      sampled: false,
      sampled_records: 2,
      used_indexes: ['dataset_time'],
    })
    assert.deepEqual(
      fields.find(({ name }) => name === 'resource.attributes.service.name'),
      {
        name: 'resource.attributes.service.name',
        of: 'resource',
        records: 2,
        distinct_values: 1,
        values: [{ value: 'checkout', records: 2 }],
      },
    )
    assert.partialDeepStrictEqual(
      fields.find(({ name }) => name === 'name'),
      { of: 'field', records: 2, distinct_values: 2 },
    )
  })
})

const BODY = { dataset: 'checkout' }
const ROUTES: readonly (readonly [path: string, body: object | null])[] = [
  [DATASETS, null],
  [HISTOGRAM, BODY],
  [FIELDS, BODY],
]

for (const [path, body] of ROUTES) {
  describe(`${path} refuses as a query does`, () => {
    const ask = (options: RequestOptions): Promise<Reply> => server.request(path, body, options)

    it('callers that it does not know', async () => {
      assertRefused(await ask({ headers: { 'x-logstore-tenant': null } }), 401, 'missing_tenant')
      assertRefused(await ask({ headers: { authorization: null } }), 401, 'missing_credentials')
      assertRefused(await ask({ tenant: 'nobody' }), 403, 'unknown_tenant')
      assertRefused(await ask({ token: 'guessed' }), 401, 'invalid_credentials')
    })

    it('methods that it does not have', async () => {
      const reply = await server.request(path, null, { method: 'DELETE' })
      assertRefused(reply, 405, 'method_not_allowed')
    })

    if (body === null) return
    it('bodies that are none of its own', async () => {
      assertRefused(await server.request(path, 'x'), 400, 'invalid_query')
      assertRefused(await server.request(path, '[]'), 400, 'invalid_query')
      assertRefused(await server.request(path, { ...body, unknown: 1 }), 400, 'invalid_query')
      assertRefused(await server.request(path, { dataset: 'checkout', filter: { search: '"' } }), 400, 'invalid_query')
      assertRefused(await ask({ headers: { 'content-type': 'text/plain' } }), 415, 'unsupported_content_type')
      assertRefused(await ask({ headers: { 'content-encoding': 'gzip' } }), 415, 'unsupported_content_encoding')
      assertRefused(await server.request(path, `{"dataset":"${'x'.repeat(70_000)}"}`), 413, 'payload_too_large')
    })

    it('datasets that the credential is not allowed for', async () => {
      assertRefused(await ask({ token: 'only-cart' }), 403, 'dataset_not_authorized')
    })
  })
}
