/**
 * Do other people's tools take the OpenAPI documents? Starts the services, lints their documents with Redocly, makes a client's types of each
 * with openapi-typescript, and checks a client that uses them: `node scripts/openapi.ts`. Ends with 1 when anything is wrong.
 *
 * Run by hand: the tools are fetched with npx, as together they are 59 MB, and openapi-typescript needs TypeScript 5 beside that of the project.
 * What matters of Redocly's rules is held by test/docs/openapi.process.test.ts.
 */
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const REDOCLY = '@redocly/cli@2.13.0'
const GENERATOR = ['openapi-typescript@7.13.0', 'typescript@5.9.3']
const START = fileURLToPath(new URL('../src/start.js', import.meta.url))
const TSC = fileURLToPath(new URL('../node_modules/.bin/tsc', import.meta.url))

const PATHS: Readonly<Record<string, string>> = {
  logstore: '/openapi.json',
  objectstore: '/v1/openapi.json',
  broker: '/openapi.json',
}

/** Compiles when the types are those of the specification, and not when they are others: each line that is wrong says so. */
const CLIENT = `
import type { components, operations } from './broker.ts'
import type { components as OfLogStore, operations as LogStoreOperations } from './logstore.ts'
import type { operations as ObjectStoreOperations } from './objectstore.ts'

type Reply<Operation extends { responses: object }> = Operation['responses'] extends
  { 200: { content: { 'application/json': infer Body } } } ? Body
  : Operation['responses'] extends { 201: { content: { 'application/json': infer Body } } } ? Body
  : never

async function call<Body>(method: string, path: string, body: unknown): Promise<Body> {
  const response = await fetch(path, { method, body: JSON.stringify(body) })
  return (await response.json()) as Body
}

const record: components['schemas']['PublishRecordRequest'] = { message_id: 'm-1', payload: 'x' }
// @ts-expect-error a record has a message id
const nameless: components['schemas']['PublishRecordRequest'] = { payload: 'x' }

export async function work(): Promise<number> {
  const published = await call<Reply<operations['publishRecord']>>('POST', '/v1/streams/s/records', record)
  const claimed = await call<Reply<operations['claimRecords']>>('POST', '/v1/streams/s/consumer-groups/g/claims', {})
  const delivery: components['schemas']['Delivery'] | undefined = claimed.deliveries[0]
  const stored: components['schemas']['Record'] | undefined = delivery?.record
  // @ts-expect-error an offset is a number
  const text: string = published.offset
  const streams = await call<Reply<operations['listStreams']>>('GET', '/v1/streams', null)
  const first: components['schemas']['Stream'] | undefined = streams.streams[0]
  const refusal: components['schemas']['Refusal']['error']['retryable'] = false
  return (stored?.offset ?? 0) + (first?.next_offset ?? 0) + Number(refusal) + text.length + (nameless.message_id?.length ?? 0)
}

export async function search(): Promise<OfLogStore['schemas']['Record'] | undefined> {
  const asked: OfLogStore['schemas']['QueryRecordsRequest'] = { dataset: 'checkout', order: 'desc' }
  const page = await call<Reply<LogStoreOperations['queryRecords']>>('POST', '/v1/query', asked)
  const record = page.results[0]?.record
  const time: string | undefined = record?.time_unix_nano
  return time === undefined ? undefined : record
}

export type Key = ObjectStoreOperations['putObject']['parameters']['path']['key']
`

interface Running {
  readonly urls: ReadonlyMap<string, string>
  stop(): void
}

async function start(directory: string): Promise<Running> {
  const env = {
    ...process.env,
    LOGSTORE_BIND_ADDRESS: '127.0.0.1:0',
    OBJSTORE_BIND_ADDRESS: '127.0.0.1:0',
    MQ_HTTP_BIND: '127.0.0.1:0',
  }
  const child = spawn(process.execPath, [START], { cwd: directory, env, stdio: ['ignore', 'pipe', 'ignore'] })
  const urls = new Map<string, string>()
  for await (const line of createInterface(child.stdout)) {
    const { service, http } = JSON.parse(line.slice('ready '.length)) as { service: string; http: string }
    urls.set(service, `http://${http}${PATHS[service]}`)
    if (urls.size === Object.keys(PATHS).length) break
  }
  return { urls, stop: () => void child.kill('SIGTERM') }
}

/** @returns whether it went well; what it says goes to the terminal */
function run(command: string, args: readonly string[], cwd: string): boolean {
  console.log(`\n${command} ${args.join(' ')}`)
  return spawnSync(command, args, { cwd, stdio: 'inherit' }).status === 0
}

const directory = mkdtempSync(`${tmpdir()}/trilog-openapi-`)
const running = await start(directory)
let isWell = true
try {
  for (const [service, url] of running.urls) {
    writeFileSync(`${directory}/${service}.json`, await (await fetch(url)).text())
  }
} finally {
  running.stop()
}
for (const service of running.urls.keys()) {
  isWell =
    run('npx', ['--yes', REDOCLY, 'lint', '--skip-rule=operation-4xx-response', `${service}.json`], directory) && isWell
  const packages = GENERATOR.flatMap((each) => ['-p', each])
  const generate = ['openapi-typescript', `${service}.json`, '-o', `${service}.ts`]
  isWell = run('npx', ['--yes', ...packages, ...generate], directory) && isWell
}
writeFileSync(`${directory}/client.ts`, CLIENT)
const options = ['--strict', '--noEmit', '--allowImportingTsExtensions', '--module', 'nodenext', '--target', 'esnext']
isWell = run(TSC, [...options, '--lib', 'esnext,dom', '--types', '', 'client.ts'], directory) && isWell
rmSync(directory, { recursive: true })
console.log(isWell ? '\nthe documents are well' : '\nsomething is wrong, see above')
process.exitCode = isWell ? 0 : 1
