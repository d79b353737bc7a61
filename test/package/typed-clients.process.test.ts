/**
 * Common tools take the OpenAPI documents: Redocly finds no mistake in them, openapi-typescript makes the types of a client, and the client
 * compiles and works.
 *
 * The tools come from npm into a directory of their own, as openapi-typescript needs TypeScript 5, and the project has another version.
 * Redocly's linter is installed without its command, which would bring 170 MB more. If no registry answers, the tests say so and are skipped.
 */
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { TestContext } from 'node:test'
import { BrokerServer } from '../support/broker.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { LogStoreServer } from '../support/logstore.ts'
import { ObjectStoreServer } from '../support/objectstore.ts'
import { npmInstall } from './checkout.ts'
import { outputOf } from './program.ts'

const TOOLS = ['@redocly/openapi-core@2.64.0', 'openapi-typescript@7.13.0', 'typescript@5.9.3']
const DOCUMENTS = { logstore: '/openapi.json', objectstore: '/v1/openapi.json', broker: '/openapi.json' }
type Service = keyof typeof DOCUMENTS
const SERVICES = Object.keys(DOCUMENTS) as readonly Service[]

/** Prints each mistake that Redocly finds, in a line. Its rule that operations have answers 4xx is off: probes have none. */
const LINT = `
import { createConfig, lint } from '@redocly/openapi-core'
const config = await createConfig({ extends: ['recommended'], rules: { 'operation-4xx-response': 'off' } })
for (const ref of process.argv.slice(2)) {
  for (const { severity, ruleId, message, location } of await lint({ ref, config })) {
    if (severity === 'error') console.log(ref + ': ' + ruleId + ': ' + message + ' ' + location[0]?.pointer)
  }
}
`

/** Compiles only with the types of the specification. Lines that must not compile are marked. */
const CLIENT = `
import type { components, operations } from './broker.ts'
import type { components as LogStoreComponents, operations as LogStoreOperations } from './logstore.ts'
import type { operations as ObjectStoreOperations } from './objectstore.ts'

type Reply<Operation extends { responses: object }> = Operation['responses'] extends
  { 200: { content: { 'application/json': infer Body } } } ? Body
  : Operation['responses'] extends { 201: { content: { 'application/json': infer Body } } } ? Body
  : never

const [, , broker, logstore, objectstore] = process.argv

async function call<Body>(method: string, url: string, body: unknown, headers: Record<string, string> = {}): Promise<Body> {
  const init = body === null ? { method, headers } : { method, headers, body: JSON.stringify(body) }
  const response = await fetch(url, init)
  if (!response.ok) throw new Error(method + ' ' + url + ': ' + (await response.text()))
  return (await response.json()) as Body
}

export async function work() {
  await call('PUT', broker + '/v1/streams/jobs', {})
  const record: components['schemas']['PublishRecordRequest'] = { message_id: 'm-1', payload: 'resize' }
  // @ts-expect-error a record has a message id
  const nameless: components['schemas']['PublishRecordRequest'] = { payload: 'x' }
  const published = await call<Reply<operations['publishRecord']>>('POST', broker + '/v1/streams/jobs/records', record)
  // @ts-expect-error an offset is a number
  const text: string = published.offset
  const asked: components['schemas']['ClaimRecordsRequest'] = { max_messages: 1 }
  const claimed = await call<Reply<operations['claimRecords']>>('POST', broker + '/v1/streams/jobs/consumer-groups/g/claims', asked)
  const delivery: components['schemas']['Delivery'] | undefined = claimed.deliveries[0]
  const stored: components['schemas']['Record'] | undefined = delivery?.record
  const streams = await call<Reply<operations['listStreams']>>('GET', broker + '/v1/streams', null)
  const first: components['schemas']['Stream'] | undefined = streams.streams[0]
  const refusal: components['schemas']['Refusal']['error']['retryable'] = false
  return { offset: published.offset, message: stored?.message_id, next: first?.next_offset, refusal, unused: [text, nameless].length }
}

export async function search() {
  const headers = { 'content-type': 'application/json', 'x-logstore-tenant': 'local', authorization: 'Bearer local-dev-token' }
  const attributes = [['tenant_id', 'local'], ['service.name', 'shop']].map(([key, stringValue]) => ({ key, value: { stringValue } }))
  const logRecords = [{ timeUnixNano: '1763721600000000000', body: { stringValue: 'order 1042 was paid' } }]
  const batch = { resourceLogs: [{ resource: { attributes }, scopeLogs: [{ logRecords }] }] }
  const taken = await call<Reply<LogStoreOperations['ingestJsonLogs']>>('POST', logstore + '/v1/otlp/logs', batch, headers)
  const asked: LogStoreComponents['schemas']['QueryRecordsRequest'] = { dataset: 'shop', order: 'desc' }
  // @ts-expect-error a page has one of two orders
  const disordered: LogStoreComponents['schemas']['QueryRecordsRequest'] = { dataset: 'shop', order: 'up' }
  const page = await call<Reply<LogStoreOperations['queryRecords']>>('POST', logstore + '/v1/query', asked, headers)
  const found: LogStoreComponents['schemas']['Record'] | undefined = page.results[0]?.record
  return { accepted: taken.accepted_records, time: found?.time_unix_nano, dataset: found?.dataset, unused: [disordered].length }
}

export async function store() {
  const key: ObjectStoreOperations['putObject']['parameters']['path']['key'] = 'rose'
  // @ts-expect-error a key is text
  const wrong: ObjectStoreOperations['putObject']['parameters']['path']['key'] = 1
  await fetch(objectstore + '/photos', { method: 'PUT' })
  await fetch(objectstore + '/photos/' + key, { method: 'PUT', body: 'a rose' })
  return { body: await (await fetch(objectstore + '/photos/' + key)).text(), unused: [wrong].length }
}

console.log(JSON.stringify([await work(), await search(), await store()]))
`

describe('clients that other tools make of the OpenAPI documents', () => {
  const directory = temporaryDirectory()
  let servers: Readonly<Record<Service, { readonly url: string; stop(): Promise<void> }>>
  let missing: string | null

  before(async () => {
    const [toolsMissing, logstore, objectstore, broker] = await Promise.all([
      npmInstall(directory, TOOLS),
      LogStoreServer.start(),
      ObjectStoreServer.start(),
      BrokerServer.start(),
    ])
    missing = toolsMissing
    servers = { logstore, objectstore, broker }
    for (const service of SERVICES) {
      const answer = await fetch(`${servers[service].url}${DOCUMENTS[service]}`)
      writeFileSync(join(directory, `${service}.json`), await answer.text())
    }
    writeFileSync(join(directory, 'lint.mjs'), LINT)
    mkdirSync(join(directory, 'client'))
    writeFileSync(join(directory, 'client/client.ts'), CLIENT)
  })
  after(() => Promise.all(SERVICES.map((service) => servers[service].stop())))

  const node = (...args: readonly string[]): Promise<string> =>
    outputOf({ command: process.execPath, args, cwd: directory })

  function isSkipped(t: TestContext): boolean {
    if (missing !== null) t.skip(missing)
    return missing !== null
  }

  it('Redocly finds no error in the document of any service, if npm can bring it', async (t) => {
    if (!isSkipped(t)) assert.equal(await node('lint.mjs', ...SERVICES.map((service) => `${service}.json`)), '')
  })

  it('openapi-typescript makes types with which a client compiles and works, if npm can bring it', async (t) => {
    if (isSkipped(t)) return
    const apis = SERVICES.map((service) => [
      service,
      { root: `${service}.json`, 'x-openapi-ts': { output: `client/${service}.ts` } },
    ])
    writeFileSync(join(directory, 'redocly.yaml'), JSON.stringify({ apis: Object.fromEntries(apis) })) // JSON is YAML
    await node('node_modules/openapi-typescript/bin/cli.js')
    const options = [
      '--strict',
      '--noEmit',
      '--skipDefaultLibCheck', // skips only the declarations of TypeScript itself
      '--allowImportingTsExtensions',
      '--module',
      'nodenext',
      '--target',
      'esnext',
    ]
    writeFileSync(join(directory, 'client/node.d.ts'), 'declare const process: { readonly argv: readonly string[] }')
    const files = ['client/client.ts', 'client/node.d.ts']
    await node('node_modules/typescript/bin/tsc', ...options, '--lib', 'esnext,dom', ...files)
    const urls = (['broker', 'logstore', 'objectstore'] as const).map((service) => servers[service].url)
    assert.deepEqual(JSON.parse(await node('client/client.ts', ...urls)), [
      { offset: 0, message: 'm-1', next: 1, refusal: false, unused: 2 },
      { accepted: 1, time: '1763721600000000000', dataset: 'shop', unused: 1 },
      { body: 'a rose', unused: 1 },
    ])
  })
})
