/** What the pages tell their readers to do, done as they would, against a real process. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { describe, it, test } from 'node:test'
import { parseBrokerCredentials } from '../../src/config/broker-credentials.ts'
import { ReplicationStatusReply } from '../../src/broker/wire/node-answers.ts'
import { parseQuotas } from '../../src/config/quotas.ts'
import { parseReplicationBinding } from '../../src/config/replication-binding.ts'
import { parseCredentials } from '../../src/objectstore/s3/auth/credentials.ts'
import { parseTenantPolicy } from '../../src/logstore/tenants/tenant-policy-file.ts'
import { BrokerServer } from '../support/broker.ts'
import { eventually } from '../support/waiting.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { RunningService, launch } from '../support/process.ts'
import type { Command, ReadyLine } from '../support/process.ts'
import { PAGES, blocksOf, document, root } from './markdown.ts'
import type { Block } from './markdown.ts'

const DEFAULT_ADDRESSES = { logstore: '127.0.0.1:4318', objectstore: '127.0.0.1:9000', broker: '127.0.0.1:7400' }
type Service = keyof typeof DEFAULT_ADDRESSES
/** What the step about health, metrics and OpenAPI prints, which the page does not show. */
const ABOUT: Readonly<Record<string, readonly RegExp[]>> = {
  'docs/start-log-store.md': [
    /^"Healthy"/,
    /^logstore_ingest_collapsed_records_total 1$/m,
    /^\{"openapi":"3.1.0",.*"\/v1\/query"/m,
  ],
  'docs/start-object-store.md': [/^"Healthy"/, /^objstore_buckets 1$/m],
}
const BLOCK_END = '-- end of block --'

/** For machines without curl: the options that the pages use. */
const CURL_STAND_IN = `
const { positionals, values } = require('node:util').parseArgs({ allowPositionals: true, options: {
  silent: { type: 'boolean', short: 's' }, 'show-error': { type: 'boolean', short: 'S' }, request: { type: 'string', short: 'X' },
  data: { type: 'string', short: 'd' }, 'data-binary': { type: 'string' }, header: { type: 'string', short: 'H', multiple: true },
  include: { type: 'boolean', short: 'i' }, head: { type: 'boolean', short: 'I' }, range: { type: 'string', short: 'r' } } })
const headers = (values.header ?? []).map((header) => header.split(/: (.*)/s).slice(0, 2))
if (values.range !== undefined) headers.push(['range', 'bytes=' + values.range])
const data = values['data-binary'] === '@-' ? require('node:fs').readFileSync(0) : values.data
const method = values.request ?? (values.head ? 'HEAD' : data === undefined ? 'GET' : 'POST')
fetch(positionals[0], { method, headers, body: method === 'GET' ? undefined : data })
  .then(async (response) => {
    const lines = [...response.headers].map((header) => header.join(': '))
    const head = ['HTTP/1.1 ' + response.status + ' ' + response.statusText, ...lines, '', ''].join('\\r\\n')
    process.stdout.write((values.include || values.head ? head : '') + (await response.text()))
  })
`
const PREAMBLE = `
command -v curl > /dev/null || curl() { '${process.execPath}' -e '${CURL_STAND_IN.replaceAll("'", `'\\''`)}' -- "$@"; }
npx() { [ "$1" = mq ] && shift && '${process.execPath}' '${root}/src/cli/mq.js' "$@"; }
`

/** As `npm start` does: all services in one process. */
class Trilog extends RunningService {
  static async start(): Promise<Trilog> {
    const directory = temporaryDirectory()
    const command: Command = {
      entry: 'src/start.js',
      args: [],
      env: {
        LOGSTORE_BIND_ADDRESS: '127.0.0.1:0',
        LOGSTORE_DATA_DIR: `${directory}/logstore`,
        OBJSTORE_BIND_ADDRESS: '127.0.0.1:0',
        OBJSTORE_DATA_DIR: `${directory}/objectstore`,
        MQ_HTTP_BIND: '127.0.0.1:0',
        MQ_DATA_DIR: `${directory}/broker`,
      },
    }
    const trilog = new Trilog(command, await launch(command))
    await eventually(() => trilog.readyLines.length === Object.keys(DEFAULT_ADDRESSES).length)
    return trilog
  }

  get readyLines(): readonly ReadyLine[] {
    const lines = this.stdout.matchAll(/^ready (\{.*\})\n/gm)
    return Array.from(lines, ([, line]) => JSON.parse(line!) as ReadyLine) // as the contract says
  }

  /** The text with the addresses of this process instead of the default ones. */
  addressed(text: string): string {
    return this.readyLines.reduce((rest, { service, http }) => {
      assert(isService(service))
      return rest.replaceAll(DEFAULT_ADDRESSES[service], http)
    }, text)
  }
}

const isService = (name: string): name is Service => name in DEFAULT_ADDRESSES

/** Runs a script in a shell that stops at the first failure; what it printed. */
async function shell(script: string, directory: string): Promise<string> {
  const child = spawn('sh', ['-e'], { cwd: directory, stdio: ['pipe', 'pipe', 'pipe'] })
  child.stdin.end(script)
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  assert.equal(code, 0, `${stdout}\n${stderr}`)
  assert.equal(stderr, '')
  return stdout
}

/** What a step printed is what the block behind it shows. */
function assertPrinted(printed: string, shown: Block, where: string): void {
  switch (shown.language) {
    case 'json':
      return assertShown(JSON.parse(printed), JSON.parse(shown.text), where)
    case 'xml':
      return assert.match(withoutIndents(printed), shownPattern(withoutIndents(shown.text)), where)
    case 'text':
      return assert.match(printed.trim(), shownPattern(shown.text.trim()), where)
    case 'http': {
      const lines = printed.split(/\r?\n/)
      for (const line of shown.text.trim().split('\n')) {
        const pattern = shownPattern(line)
        assert.ok(
          lines.some((each) => pattern.test(each)),
          `${where}\n${line}\nis not in\n${printed}`,
        )
      }
      return
    }
    default:
      assert.fail(`a block of ${shown.language} shows nothing that can be compared`)
  }
}

/** Documents are shown on several lines. */
const withoutIndents = (xml: string): string => xml.replaceAll(/>\s+</g, '><').trim()

/** The text; an … is for anything without a quote, a tag or the end of a line. Names of headers come in any case. */
const shownPattern = (text: string): RegExp =>
  new RegExp(`^${text.split('…').map(escaped).join('[^"<\\n]*')}$`, /^[\w-]+: /.test(text) ? 'i' : '')

const escaped = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')

/** Everything shown is in the value; a string that ends in … shows how it begins. */
function assertShown(value: unknown, shown: unknown, where: string): void {
  if (typeof shown === 'string' && shown.endsWith('…')) {
    assert.ok(typeof value === 'string' && value.startsWith(shown.slice(0, -1)), where)
  } else if (typeof shown === 'object' && shown !== null) {
    assert.ok(typeof value === 'object' && value !== null, where)
    if (Array.isArray(shown)) assert.equal((value as unknown[]).length, shown.length, where)
    for (const [name, member] of Object.entries(shown)) {
      assertShown((value as Record<string, unknown>)[name], member, `${where}.${name}`)
    }
  } else {
    assert.equal(value, shown, where)
  }
}

/** Runs the blocks of a page one behind the other, in one shell. @returns what each printed, and the block that shows it, if there is one */
async function walk(page: string): Promise<readonly { step: Block; printed: string; shown: Block | null }[]> {
  const trilog = await Trilog.start()
  const directory = temporaryDirectory()
  const blocks = blocksOf(trilog.addressed(document(page)), 'tour')
  const steps = blocks.filter(({ language }) => language === 'sh' || language === 'js')
  const script = steps.map((step, number) => {
    if (step.language === 'sh') return step.text
    const file = `${directory}/${number}.mjs`
    writeFileSync(file, step.text)
    return `(cd '${root}' && '${process.execPath}' --input-type=module < '${file}')`
  })
  const outputs = (await shell(PREAMBLE + script.join(`\necho '${BLOCK_END}'\n`), directory)).split(`${BLOCK_END}\n`)
  assert.equal(outputs.length, steps.length)
  await trilog.stop()
  return steps.map((step, number) => {
    const next = blocks[blocks.indexOf(step) + 1]
    return { step, printed: outputs[number]!, shown: next === undefined || steps.includes(next) ? null : next }
  })
}

describe('tours', () => {
  for (const page of PAGES.filter((each) => blocksOf(document(each), 'tour').length > 0)) {
    it(`${page} runs block by block, and shows what it says`, async () => {
      const steps = await walk(page)
      for (const { step, printed, shown } of steps) if (shown !== null) assertPrinted(printed, shown, step.text)
      const patterns = ABOUT[page] ?? []
      const about = steps.find(({ step: { text } }) => text.includes('/openapi.json') || text.includes('/v1/metrics'))
      for (const pattern of patterns) assert.match(about?.printed ?? '', pattern)
    })
  }
})

test('the example of a tenant policy is one, and its digest is made as shown', async () => {
  const [example, command] = blocksOf(document('docs/log-store.md'), 'policy')
  const { tenants } = parseTenantPolicy(example!.text, 1)
  const { id, credentials, limits } = tenants[0]!
  assert.equal(id, 'acme')
  assert.deepEqual(limits, { windowSeconds: 60, records: 600_000, bytes: Infinity, concurrentRequests: 32 })
  const digest = (await shell(command!.text, temporaryDirectory())).split(' ')[0]
  assert.equal(credentials[0]?.tokenDigest.toString('hex'), digest)
})

test('the example of a quotas file is one', () => {
  const [example] = blocksOf(document('docs/broker.md'), 'quotas')
  assert.deepEqual(parseQuotas(example!.text).tenants.get('local'), {
    publishRecordsPerSecond: 1000,
    publishBytesPerSecond: 1_048_576,
    consumersPerGroup: 16,
    replicationEgressBytesPerSecond: null,
  })
})

test('the example of a replication binding is one, and a node starts with it', async () => {
  const [example] = blocksOf(document('docs/replication.md'), 'binding')
  const [policy] = parseReplicationBinding(example!.text, { PARIS_KEY: 'k' })
  assert.deepEqual([policy?.name, policy?.streams, policy?.forward], ['dr', ['orders*'], false])
  assert.equal(policy?.applyUrl, 'http://10.0.0.2:7400/v1/replication/target/apply')
  const file = `${temporaryDirectory()}/binding.json`
  writeFileSync(file, example!.text)
  const flags = ['--replication-binding-file', file]
  const broker = await BrokerServer.start({ flags, env: { PARIS_KEY: 'k' } })
  assert.equal((await broker.get('/v1/replication/status', ReplicationStatusReply)).status, 'running')
  await broker.stop()
})

test('the example of a file of keys of the broker is one', () => {
  const [example] = blocksOf(document('docs/broker.md'), 'brokerkeys')
  const [key] = parseBrokerCredentials(example!.text, 'api-key')
  assert.deepEqual([key?.tenant, key?.principal, key?.grants.length], ['acme', 'shop', 3])
})

test('the example of a credentials file is one', () => {
  const [example] = blocksOf(document('docs/start-object-store.md'), 'credentials')
  const keys = Array.from(parseCredentials(example!.text).values(), ({ id, principal }) => [
    id,
    principal.id,
    [...principal.permissions],
  ])
  assert.deepEqual(keys, [
    ['AKIDSHOP', 'shop', ['read', 'write', 'list', 'delete', 'admin']],
    ['AKIDREPORT', 'report', ['read', 'list']],
  ])
})
