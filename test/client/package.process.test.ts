/** The package that `npm pack` makes: the client library runs from it on older and newer Node, and its browser entry without Node. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { hash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { PERMISSIONS } from '../../src/broker/grants.ts'
import { BrokerServer } from '../support/broker.ts'
import { temporaryDirectory } from '../support/directories.ts'
import { RealBrowser } from './real-browser.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
/** All that packing needs: the checkout is left alone. */
const PACKED_FROM = [
  'package.json',
  'tsconfig.json',
  'tsconfig.client.json',
  'README.md',
  'LICENSE',
  'native-free-codecs',
  'proto',
  'scripts/package',
  'src',
  'workers',
]
const MAJORS = [20, 22, 24, 26]

interface FoundNode {
  readonly path: string
  readonly version: string
}

/** Those of the tests and of the machine, and of a list in TRILOG_TEST_NODES. */
function foundNodes(): readonly FoundNode[] {
  const { PATH = '', TRILOG_TEST_NODES = '' } = process.env
  const paths = [
    process.execPath,
    ...PATH.split(delimiter).map((directory) => join(directory, 'node')),
    ...TRILOG_TEST_NODES.split(delimiter),
  ]
  const byVersion = new Map<string, string>()
  for (const path of paths.filter((each) => each !== '' && existsSync(each))) {
    const { stdout } = spawnSync(path, ['--version'], { encoding: 'utf8' })
    if (/^v\d+/.test(stdout) && !byVersion.has(stdout.trim())) byVersion.set(stdout.trim(), path)
  }
  return [...byVersion].map(([version, path]) => ({ path, version }))
}

const majorOf = ({ version }: FoundNode): number => Number.parseInt(version.slice(1))

const nodes = foundNodes().filter((node) => majorOf(node) >= MAJORS[0]!)
const missing = MAJORS.filter((major) => !nodes.some((node) => majorOf(node) === major))

/** What somebody else's project has after `npm install trilog-….tgz`, but that the dependencies are those of the checkout. */
function installed(): string {
  const directory = temporaryDirectory()
  const checkout = join(directory, 'checkout')
  for (const path of PACKED_FROM) cpSync(join(root, path), join(checkout, path), { recursive: true })
  linkDependencies(checkout)
  const packed = spawnSync('npm', ['pack', '--pack-destination', directory], { cwd: checkout, encoding: 'utf8' })
  assert.equal(packed.status, 0, packed.stderr)
  assert.equal(readFileSync(join(checkout, 'package.json'), 'utf8'), readFileSync(join(root, 'package.json'), 'utf8'))
  const project = join(directory, 'project')
  linkDependencies(project)
  const tarball = readdirSync(directory).find((name) => name.endsWith('.tgz'))
  spawnSync('tar', ['xzf', join(directory, tarball!), '-C', directory])
  cpSync(join(directory, 'package'), join(project, 'node_modules/trilog'), { recursive: true })
  writeFileSync(join(project, 'package.json'), '{ "type": "module" }')
  return project
}

function linkDependencies(project: string): void {
  const target = join(project, 'node_modules')
  mkdirSync(target, { recursive: true })
  for (const name of readdirSync(join(root, 'node_modules'))) {
    if (name !== '.cache' && name !== 'trilog') symlinkSync(join(root, 'node_modules', name), join(target, name))
  }
}

const PROGRAM = `
import { HttpNativeClient, openEmbeddedBroker, textOf } from 'trilog/client'
const [url, directory] = process.argv.slice(2)
const use = async (client, stream = 'on-' + process.version) => {
  await client.createStream(stream)
  await client.publish(stream, { message_id: 'm', payload: new TextEncoder().encode('käse') })
  const stop = new AbortController()
  let payload = ''
  await client.subscribeQueue(stream, 'g', { signal: stop.signal, prefetch: 2 }).handle(({ record }) => {
    payload = textOf(record.payload)
    stop.abort()
  })
  const { lag_messages } = await client.describeConsumerGroup(stream, 'g')
  return payload + ' ' + lag_messages
}
const client = await HttpNativeClient.connect(url, { producerId: 'p' })
console.log('http', await use(client))
await client.close()
const streaming = await HttpNativeClient.connect(url, { producerId: 'p', streaming: true })
console.log('streaming', await use(streaming, 'streamed-on-' + process.version))
await streaming.close()
try {
  const broker = await openEmbeddedBroker({ dataDirectory: directory })
  console.log('embedded', await use(broker.client({ producerId: 'p' })))
  await broker.close()
} catch (error) {
  console.log('embedded', error.kind, error.message)
}
`

const TYPED = `
import { HttpNativeClient, textOf } from 'trilog/client'
import type { BrokerClient, Delivery } from 'trilog/client'
const client: BrokerClient = await HttpNativeClient.connect('http://localhost', { producerId: 'p', apiKey: 'k' })
const { offset } = await client.publish('s', { message_id: 'm', payload: 'p' })
export const checked: number = offset
export const shown = (delivery: Delivery): string => textOf(delivery.record.payload)
// @ts-expect-error an offset is no text
export const wrong: string = offset
`

describe('the packed library', () => {
  let project: string
  let server: BrokerServer
  before(async () => {
    project = installed()
    server = await BrokerServer.start()
  })
  after(() => server.stop())

  const untried = missing.length === 0 ? '' : ` (not tried, as it is not here: Node ${missing.join(', ')})`
  for (const node of nodes) {
    it(`runs on Node ${node.version}${untried}`, () => {
      writeFileSync(join(project, 'program.js'), PROGRAM)
      const data = join(project, `data-${node.version}`)
      const { stdout, stderr } = spawnSync(node.path, ['program.js', server.url, data], {
        cwd: project,
        encoding: 'utf8',
        env: { ...process.env, NODE_OPTIONS: '' },
      })
      const embedded =
        majorOf(node) >= 22
          ? 'embedded käse 0'
          : 'embedded InvalidConfig a broker in this process needs Node 22; HttpNativeClient does not'
      assert.deepEqual([stdout, stderr], [`http käse 0\nstreaming käse 0\n${embedded}\n`, ''])
    })
  }

  it('has declarations', () => {
    writeFileSync(join(project, 'typed.ts'), TYPED)
    const compilerOptions = { module: 'nodenext', target: 'es2023', strict: true, noEmit: true, types: ['node'] }
    writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['typed.ts'] }))
    const tsc = join(root, 'node_modules/typescript/bin/tsc')
    const { status, stdout } = spawnSync(process.execPath, [tsc, '-p', project], { encoding: 'utf8' })
    assert.deepEqual([stdout, status], ['', 0])
  })

  it('has an entry for browsers that imports nothing but its own files', () => {
    const manifest = JSON.parse(readFileSync(join(project, 'node_modules/trilog/package.json'), 'utf8'))
    const entry = join(project, 'node_modules/trilog', manifest.exports['./client'].browser.default)
    const files = importsOf(entry)
    assert.ok(files.size > 10)
    for (const [file, text] of files) assert.doesNotMatch(text, /\b(process|require)\b[.(]|\bnode:/, file)
  })

  it('runs where there is nothing but what browsers have', () => {
    const entry = join(project, 'node_modules/trilog/dist/src/client/browser.js')
    const program = join(root, 'test/client/in-browser.ts')
    const flags = ['--experimental-vm-modules', '--no-warnings', program, entry, server.url]
    const { stdout, stderr } = spawnSync(process.execPath, flags, { encoding: 'utf8' })
    assert.deepEqual(
      [stdout, stderr],
      ['256 bytes, käse, k, stream_not_found\nstreaming: 256 bytes, käse, k, stream_not_found\n', ''],
    )
  })
})

describe('the packed library in a browser', () => {
  const key = 'of-a-browser'
  const file = join(temporaryDirectory(), 'keys.json')
  const grants = PERMISSIONS.map((permission) => ({ permission }))
  const keys = [{ key_sha256: hash('sha256', key), tenant: 'acme', principal: 'web', grants }]
  let browser: RealBrowser
  let open: BrokerServer
  let closed: BrokerServer
  before(async () => {
    const library = join(installed(), 'node_modules/trilog')
    const manifest = JSON.parse(readFileSync(join(library, 'package.json'), 'utf8'))
    browser = await RealBrowser.start(library, manifest.exports['./client'].browser.default)
    writeFileSync(file, JSON.stringify({ keys }))
    open = await BrokerServer.start()
    closed = await BrokerServer.start({ flags: ['--auth-mode', 'api-key', '--credentials-file', file] })
  })
  after(async () => {
    await browser.close()
    await open.stop()
    await closed.stop()
  })

  for (const streaming of [false, true]) {
    for (const apiKey of [null, key]) {
      const way = `${streaming ? 'the streaming connection' : 'fetch'}, ${apiKey === null ? 'without credentials' : 'with a key'}`
      it(`publishes, claims, acknowledges and subscribes over ${way}`, async () => {
        const { url } = apiKey === null ? open : closed
        const stream = streaming ? 'streamed' : 'fetched'
        assert.deepEqual(await browser.use({ url, apiKey, streaming, stream }), [
          'published local-sync,local-sync',
          'claimed bytes true',
          'claimed käse',
          '0 left',
          'handled bytes',
          'handled text',
          'replayed bytes',
          'replayed text',
          'stream_not_found',
        ])
      })
    }
  }

  it('cannot be used by a page of another site', async () => {
    await open.request('PUT', '/v1/streams/guarded')
    assert.deepEqual(await browser.useFromElsewhere(new URL(closed.url).port, open.url, 'guarded'), [
      'opaque',
      'TypeError',
      'refused',
    ])
    assert.equal((await open.stream('guarded').describe()).next_offset, 0)
  })
})

/** Of a module and all that it imports: the text by the file. */
function importsOf(entry: string, seen = new Map<string, string>()): ReadonlyMap<string, string> {
  if (seen.has(entry)) return seen
  // what comments say is no code
  const text = readFileSync(entry, 'utf8').replaceAll(/\/\*[^]*?\*\/|(^|\s)\/\/.*$/gm, '')
  seen.set(entry, text)
  for (const [, specifier] of text.matchAll(/(?:from|import)\s*\(?\s*['"]([^'"]+)['"]/g)) {
    assert.match(specifier!, /^\.\.?\//, entry)
    importsOf(join(dirname(entry), specifier!), seen)
  }
  return seen
}
