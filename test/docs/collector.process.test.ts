/** docs/collector.md: its configurations, tested with a real Collector if one is installed; its policy, tested always. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import type { TestContext } from 'node:test'
import { Client, credentials } from '@grpc/grpc-js'
import { parseTenantPolicy } from '../../src/logstore/tenants/tenant-policy-file.ts'
import { freePort } from '../../scripts/compare/server.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { LogStoreServer } from '../support/logstore.ts'
import type { PolicyTenant } from '../support/logstore.ts'
import { encodeLogs, logsRequest, text } from '../support/otlp.ts'
import { eventually } from '../support/waiting.ts'

const page = readFileSync(new URL('../../docs/collector.md', import.meta.url), 'utf8')
const RECORDS = 3000

/** The block of the page with this first line, such as `yaml claims`. */
function blockOf(head: string): string {
  const block = new RegExp(`^\`\`\`${head}\\n([^]*?)^\`\`\`$`, 'm').exec(page)?.[1]
  assert(block !== undefined, `docs/collector.md has no block ${head}`)
  return block
}

const POLICY = JSON.parse(blockOf('json policy')) as { tenants: PolicyTenant[] } // the store parses it in the first test

function findCollector(): string | null {
  const paths = (process.env['PATH'] ?? '').split(':')
  const names = ['otelcol-contrib', 'otelcol']
  return paths.flatMap((path) => names.map((name) => `${path}/${name}`)).find((file) => existsSync(file)) ?? null
}

/** Sends one batch to the Collector, like an SDK. */
async function send(port: number, body: Buffer): Promise<void> {
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure())
  const asIs = (bytes: Buffer): Buffer => bytes
  const path = '/opentelemetry.proto.collector.logs.v1.LogsService/Export'
  await eventually(
    () =>
      new Promise<boolean>((resolve) => {
        client.makeUnaryRequest(path, asIs, asIs, body, (error) => resolve(error === null))
      }),
  )
  client.close()
}

async function assertDelivered(context: TestContext, collector: string, kind: 'policy' | 'claims'): Promise<void> {
  const [tenant] = POLICY.tenants
  const { id, credentials: allowed, limits = {} } = tenant!
  const server = await LogStoreServer.start({
    policy: kind === 'policy' ? [tenant!] : [{ id, credentials: allowed, limits }],
    env: { LOGSTORE_GATEWAY_MAX_RECORDS: '163840' },
  })
  context.after(() => server.kill())
  const directory = temporaryDirectory()
  mkdirSync(`${directory}/queue`)
  const port = await freePort()
  const configuration = blockOf(`yaml ${kind}`)
    .replaceAll('127.0.0.1:14317', `127.0.0.1:${port}`)
    .replaceAll('http://127.0.0.1:4318', server.url)
  const file = `${directory}/collector.yaml`
  writeFileSync(file, configuration)
  const env = { ...process.env, COLLECTOR_QUEUE_DIR: `${directory}/queue` }
  const log = `${directory}/collector.log`
  const child = spawn(collector, ['--config', file], { env, stdio: ['ignore', 'ignore', openSync(log, 'w')] })
  context.after(() => child.kill('SIGKILL'))
  const records = Array.from({ length: RECORDS }, (_, i) => ({ timeUnixNano: String(i + 1) }))
  const { http } = server.readyLine
  await server.kill() // the Collector has the records on disk before the store runs again
  await send(port, encodeLogs(logsRequest(records, [text('service.name', 'collected')])))
  await server.startAgain({ LOGSTORE_BIND_ADDRESS: http })
  await eventually(async () => {
    const query = { dataset: 'collected', page: { limit: 1 } }
    const reply = await server.request('/v1/query', query, { tenant: id, token: 'acme-admin' })
    return (reply.ok() as { matched_records: number }).matched_records === RECORDS
  })
  assert.doesNotMatch(readFileSync(log, 'utf8'), /deprecated|Dropping data/)
}

describe('the page about the Collector', () => {
  it('has a policy that the store takes', () => {
    const [tenant] = parseTenantPolicy(blockOf('json policy'), 1).tenants
    assert.deepEqual(tenant?.options, {
      claimOptional: true,
      recordsPerBatchMax: 8192,
      partialSuccess: true,
      smoothQuota: true,
      deduplication: 'batches',
    })
  })
  it('has a Collector repeat a batch for as long as the store is down', () => {
    for (const kind of ['policy', 'claims']) {
      assert.match(blockOf(`yaml ${kind}`), /^ {4}retry_on_failure: \{ max_elapsed_time: 0s \}$/m)
    }
  })
  const collector = findCollector()
  for (const kind of ['policy', 'claims'] as const) {
    const why = collector === null ? ', skipped as there is no otelcol in the path' : ''
    it(
      `has a configuration with which a Collector loses nothing (${kind})${why}`,
      { skip: collector === null },
      (context) => assertDelivered(context, collector!, kind),
    )
  }
})
