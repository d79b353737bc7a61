/** The number of decode lanes changes no answer, no refusal, no id and nothing that is stored. */
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import fc from 'fast-check'
import { LogStoreServer, policyTenant } from '../../support/logstore.ts'
import type { PolicyTenant } from '../../support/logstore.ts'
import { INGEST_ROUTES } from './batches.ts'

const LANES = ['1', '2', '4'] as const
const NO_LIMITS = { records: null, bytes: null, concurrent_requests: null }
const TENANTS: readonly PolicyTenant[] = [
  policyTenant('plain', 'token', NO_LIMITS, ['shop', 'unknown_service']),
  { ...policyTenant('wide', 'token', NO_LIMITS), max_records_per_batch: 8192, tenant_claim: 'optional' },
  { ...policyTenant('lenient', 'token', NO_LIMITS), partial_success: true },
  { ...policyTenant('by-record', 'token', NO_LIMITS), deduplication: 'records' },
  { ...policyTenant('short', 'token', NO_LIMITS), max_records_per_batch: 39 },
]
const ENCODINGS = {
  identity: (body: Buffer): Buffer => body,
  gzip: (body: Buffer): Buffer => gzipSync(body),
  zstd: (body: Buffer): Buffer => zstdCompressSync(body),
} as const

const requests = fc.array(
  fc.record({
    route: fc.integer({ min: 0, max: INGEST_ROUTES.length - 1 }),
    tenant: fc.constantFrom(...TENANTS.map(({ id }) => id)),
    claim: fc.constantFrom('its own', 'its own', 'its own', 'of another'),
    dataset: fc.constantFrom('shop', 'shop', 'other'),
    records: fc.constantFrom(0, 1, 2, 40, 512, 513),
    /** Few, so that batches repeat. */
    label: fc.integer({ min: 0, max: 3 }),
    encoding: fc.constantFrom(...(Object.keys(ENCODINGS) as (keyof typeof ENCODINGS)[])),
    damage: fc.constantFrom('none', 'none', 'none', 'cut', 'not compressed as it says'),
  }),
  { minLength: 1, maxLength: 24 },
)
type Request = typeof requests extends fc.Arbitrary<(infer Each)[]> ? Each : never

const servers = await Promise.all(
  LANES.map((lanes) => LogStoreServer.start({ policy: TENANTS, env: { LOGSTORE_DECODE_LANES: lanes } })),
)
after(() => Promise.all(servers.map((server) => server.stop())))

/** @param run tells the batches of one run from those of others */
async function send(server: LogStoreServer, request: Request, run: number): Promise<string> {
  const { path, contentType, batch } = INGEST_ROUTES[request.route]!
  const tenant = request.claim === 'its own' ? request.tenant : 'nobody'
  const whole = batch(request.records, { dataset: request.dataset, tenant, label: `${run} ${request.label}` })
  const body = request.damage === 'cut' ? whole.subarray(0, whole.byteLength >> 1) : whole
  const sent = request.damage === 'not compressed as it says' ? body : ENCODINGS[request.encoding](body)
  const { status, text } = await server.request(path, sent, {
    tenant: request.tenant,
    token: 'token',
    headers: { 'content-type': contentType, 'content-encoding': request.encoding },
  })
  return `${JSON.stringify(request)} ${status} ${text}`
}

async function stored(server: LogStoreServer): Promise<string> {
  const counts = await Promise.all(
    TENANTS.flatMap(({ id: tenant }) =>
      ['shop', 'other'].map(async (dataset) => {
        const reply = await server.request('/v1/query', JSON.stringify({ dataset }), { tenant, token: 'token' })
        return `${tenant} ${dataset} ${reply.status} ${(reply.json() as { matched_records?: number }).matched_records}`
      }),
    ),
  )
  return counts.join('\n')
}

describe('decode lanes', () => {
  it(`answer the same when there are ${LANES.join(', ')}, one request after another`, async () => {
    let run = 0
    await fc.assert(
      fc.asyncProperty(requests, async (all) => {
        run++
        const answers = await Promise.all(
          servers.map(async (server) => {
            const told: string[] = []
            for (const request of all) told.push(await send(server, request, run))
            return told
          }),
        )
        for (const each of answers) assert.deepEqual(each, answers[0])
      }),
      { numRuns: 8 },
    )
    const [one, ...more] = await Promise.all(servers.map(stored))
    for (const each of more) assert.equal(each, one)
  })

  it('and all at once, where only twins may tell in another order which of them came first', async () => {
    let run = 1000
    await fc.assert(
      fc.asyncProperty(requests, async (all) => {
        run++
        const answers = await Promise.all(
          servers.map(async (server) => {
            const told = await Promise.all(all.map((request) => send(server, request, run)))
            return told.map((each) => each.replace(/"duplicate_records":\d+/, '')).toSorted()
          }),
        )
        for (const each of answers) assert.deepEqual(each, answers[0])
      }),
      { numRuns: 8 },
    )
    const [one, ...more] = await Promise.all(servers.map(stored))
    for (const each of more) assert.equal(each, one)
  })
})
