import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))

// What is allowed where. Each new entry is a decision: give its reason beside it.

/** Folders under src with one service each. A new service adds its folder. */
const SERVICES = ['src/logstore', 'src/objectstore', 'src/broker']
/** Folders of each service, the lowest first. Folders in one string do not import each other. */
const STOREYS = [
  ['src/broker', 'wire frames', 'records', 'state', 'engine', 'operations', 'connection', 'api'],
  ['src/objectstore', 'index bodies', 'engine', 's3'],
  ['src/logstore', 'tenants', 'index search', 'compact', 'bucket', 'ingest query', 'survey walk', 'reads', 'grpc'],
] as const
const inService = (service: string, storey: string): string[] =>
  storey.split(' ').map((folder) => `${service}/${folder}`)
/** Files that every layer above the log may import. */
const SHARED = [
  'src/errors.ts',
  'src/require-package.ts', // loads packages
  'src/tree.ts', // finds the files that code of any part reads
  'src/addresses.ts', // settings and requests name hosts and addresses alike
  'src/linked-list.ts',
  'src/queue.ts',
  'src/leading-node.ts', // members follow the node that leads, and answers name it
  'src/free-memory.ts', // answers lie in memory that threads handed over: the HTTP front frees it
  'src/tls-files.ts', // types only: settings name what listeners take
  'src/schema.ts', // shapes of settings, requests and answers
  'src/schema-check.ts', // checks values against them
  'src/validation.ts',
  'src/print-failure.ts', // for failures of processes and commands
  'src/url-secrets.ts', // settings and lines of the log show URLs without them
  'src/steps.ts', // recovery is told in steps, from the log up to the probes that ask for it
  'native-free-codecs/json-reader.ts', // computes only: reads bodies, policies and payloads
]
/** Built-in modules that only compute, and touch nothing outside the process. */
const PURE_BUILTINS = new Set(['node:assert/strict', 'node:buffer', 'node:crypto', 'node:util', 'node:zlib'])
const MAY_TOUCH_FILES = [
  'src/log/node-files.ts', // the seam itself
  'src/log/direct-writes.ts', // a part of it
  'src/log/direct-file.ts', // likewise
  'src/log/direct-reads.ts', // for reader threads, asynchronously, beside the seam
  'src/log/prepare-file.ts', // writes ahead for the journal, asynchronously, beside the seam
  'src/log/lock.ts', // a lock is about processes, and a simulated file system has none
  'src/http/receive-buffer.ts', // finds the listening socket among the open files
  'src/http/listening-socket.ts', // likewise
  'src/http/uws-listener.ts', // likewise
  'src/config/', // files that settings name
  'src/console/page-files.ts', // reads the files of the page
  'src/cli/output-file.ts', // writes where the command line says
  'src/cli/local-data.ts', // checks whether there is a directory at all
  'src/cli/place-problems.ts', // checks whether directories could be used
  'src/observability/process-metrics.ts', // counts open files
  'src/pipeline/niceness.ts', // finds the threads of the process
  'src/objectstore/platform.ts', // tests at the start what the disk can do
  'workers/',
]
const MAY_READ_CLOCKS = [
  'src/observability/system-clock.ts', // the main thread takes the time here, and hands it on
  'src/log/node-environment.ts', // likewise, for a log
  'src/pipeline/jobs.ts', // ends a thread that takes too long
  'src/log/prepare-file.ts', // paces itself by how long the disk takes
  'src/lifecycle.ts', // shares the time to close among parts
  'src/logstore/query/task.ts', // one clock for deadlines across threads
  'src/logstore/ingest/decode-loop.ts', // the decode thread's own start: hands its clock to what it runs
  'workers/', // hand them to what they run
  'src/client/http/timers.ts', // the client library's own start, where there is no Node
  'src/console/page/', // runs in the browser
]
const MAY_DEFER = [
  'src/client/http/timers.ts', // gathers the calls of a client in one turn of the event loop
  'src/http/turns.ts', // gives the event loop a turn between slices of a long body
  'src/http/server.ts', // closes outside the library's callbacks
  'src/logstore/grpc/export-call.ts', // looks again after the present event
  'src/objectstore/service.ts', // hands it to the reads, which gather the requests of one turn of the event loop
  'src/broker/headless.ts', // hands it to the reads, which gather the requests of one turn of the event loop
]

interface Import {
  readonly from: string
  /** Path in the repository, or name of a package or a built-in module. */
  readonly to: string
  readonly typeOnly: boolean
}

interface Source {
  readonly path: string
  readonly code: string
  readonly imports: readonly Import[]
}

const sources = new Map(
  ['native-free-codecs', 'src', 'workers']
    .flatMap((folder) => globSync(`${folder}/**/*.ts`, { cwd: root }))
    .map((path) => [path, read(path)]),
)

function read(path: string): Source {
  const code = readFileSync(join(root, path), 'utf8')
    .replaceAll(/\/\*[^]*?\*\//g, '')
    .replaceAll(/(^|\s)\/\/.*$/gm, '')
  const statements = code.matchAll(
    /(?:^|\n)\s*(?:import|export)\s+(type\s)?[^'"`;]*?from\s*'([^']+)'|import\(?\s*'([^']+)'/g,
  )
  const imports = Array.from(statements, ([, type, named, bare]) => {
    const target = named ?? bare!
    const to = target.startsWith('.') ? relative(root, join(root, dirname(path), target)) : target
    return { from: path, to, typeOnly: type !== undefined }
  })
  return { path, code, imports }
}

const under = (path: string, folders: readonly string[]): boolean =>
  folders.some((folder) => path === folder || path.startsWith(folder.endsWith('/') ? folder : `${folder}/`))
const isFile = (path: string): boolean =>
  under(path, ['src', 'workers', 'native-free-codecs', 'test', 'bench', 'scripts'])

/** Imports of the files under `folders` for which `allowed` is false, as lines for the failure message. */
function violations(folders: readonly string[], allowed: (each: Import) => boolean): string[] {
  return [...sources.values()]
    .filter((source) => under(source.path, folders))
    .flatMap((source) => source.imports)
    .filter((each) => !allowed(each))
    .map((each) => `${each.from} imports ${each.to}`)
}

/** Files whose code has the pattern, except the allowed ones. */
function filesWith(pattern: RegExp, allowed: readonly string[]): string[] {
  return [...sources.values()]
    .filter(({ path, code }) => !under(path, allowed) && pattern.test(code))
    .map(({ path }) => path)
}

/** Everything that a file loads at run time, including itself. Imports of types are erased. */
function loadedBy(path: string, loaded = new Set<string>()): Set<string> {
  if (loaded.has(path)) return loaded
  loaded.add(path)
  for (const each of sources.get(path)?.imports ?? []) if (!each.typeOnly) loadedBy(each.to, loaded)
  return loaded
}

/** Everything that a file loads at once, without files that `await import` loads later. */
function loadedStatically(path: string, loaded = new Set<string>()): Set<string> {
  if (loaded.has(path)) return loaded
  loaded.add(path)
  const lazy = new Set(Array.from(sources.get(path)?.code.matchAll(/await import\('([^']+)'\)/g) ?? [], ([, to]) => to))
  for (const { to, typeOnly } of sources.get(path)?.imports ?? []) {
    if (!typeOnly && ![...lazy].some((each) => join(dirname(path), each!) === to)) loadedStatically(to, loaded)
  }
  return loaded
}

/** The forbidden files that workers load, as lines for the failure message. */
function loadedByWorkers(isForbidden: (path: string) => boolean): string[] {
  return [...sources.keys()]
    .filter((path) => under(path, ['workers']))
    .flatMap((worker) => [...loadedBy(worker)].filter(isForbidden).map((path) => `${worker} loads ${path}`))
}

test('the sources are read and their imports exist', () => {
  assert.ok(sources.size > 20)
  assert.ok(sources.get('src/pipeline/jobs.ts')!.imports.some(({ to }) => to === 'src/errors.ts'))
  assert.deepEqual(
    violations(['src', 'workers', 'native-free-codecs'], ({ to }) => !isFile(to) || sources.has(to)),
    [],
  )
})

test('codecs import only each other, pure packages and built-ins that touch nothing', () => {
  const allowed = ({ to }: Import): boolean =>
    isFile(to) ? under(to, ['native-free-codecs']) : !to.startsWith('node:') || PURE_BUILTINS.has(to)
  assert.deepEqual(violations(['native-free-codecs'], allowed), [])
})

test('the pipeline imports nothing of src but the errors, the C library and the way to packages and files', () => {
  const folders = ['src/pipeline', 'src/errors.ts', 'src/libc.ts', 'src/require-package.ts', 'src/tree.ts']
  const allowed = ({ to }: Import): boolean => !isFile(to) || under(to, folders)
  assert.deepEqual(violations(['src/pipeline'], allowed), [])
})

test('the log imports nothing of src but the pipeline, steps and the errors', () => {
  const folders = ['src/log', 'src/pipeline', 'src/errors.ts', 'src/libc.ts', 'src/steps.ts', 'native-free-codecs']
  assert.deepEqual(
    violations(['src/log'], ({ to }) => !isFile(to) || under(to, folders)),
    [],
  )
})

test('the engine imports nothing of src but the log, queues, steps, spans and the errors', () => {
  const single = ['src/errors.ts', 'src/queue.ts', 'src/steps.ts', 'src/spans.ts']
  const folders = ['src/engine', 'src/log', ...single, 'native-free-codecs']
  assert.deepEqual(
    violations(['src/engine'], ({ to }) => !isFile(to) || under(to, folders)),
    [],
  )
})

test('the cluster protocol imports nothing of src but the formats of the log and the errors, and touches nothing', () => {
  const folders = ['src/cluster', 'src/log/segment-format.ts', 'src/errors.ts', 'native-free-codecs']
  const besides = ['src/cluster/lane', 'src/cluster/member', 'src/cluster/catch-up']
  const allowed = ({ from, to }: Import): boolean =>
    isFile(to)
      ? under(to, folders) && !under(to, besides)
      : PURE_BUILTINS.has(to) || (under(from, ['src/cluster/nats']) && to.startsWith('@nats-io/'))
  assert.deepEqual(
    violations(['src/cluster'], (each) => under(each.from, besides) || allowed(each)),
    [],
  )
})

test('the lane of a cluster and what main has of it know the protocol, the log and the pipeline, and of settings those of the cluster', () => {
  const folders = [
    'src/cluster',
    'src/log',
    'src/pipeline',
    'src/errors.ts',
    'src/steps.ts',
    'native-free-codecs',
    'src/leading-node.ts',
    'src/config/cluster.ts',
  ]
  const allowed = ({ to }: Import): boolean => !isFile(to) || under(to, folders)
  assert.deepEqual(violations(['src/cluster/lane', 'src/cluster/member'], allowed), [])
})

test('NATS is loaded by the thread of the lane alone, and main loads nothing of clusters unless there is one', () => {
  const mains = ['src/run.ts', 'src/broker/service.ts'].flatMap((path) => [...loadedStatically(path)])
  assert.deepEqual(
    mains.filter((path) => path.startsWith('@nats-io/') || under(path, ['src/cluster'])),
    [],
  )
})

test('the tools for data directories import nothing of src but the log and the errors: they know directories, no service', () => {
  const folders = ['src/maintenance', 'src/log', 'src/errors.ts', 'native-free-codecs']
  assert.deepEqual(
    violations(['src/maintenance'], ({ to }) => !isFile(to) || under(to, folders)),
    [],
  )
})

test('the HTTP front knows no service, no log and no pipeline', () => {
  const allowed = ({ to }: Import): boolean => !isFile(to) || under(to, ['src/http', ...SHARED, 'src/libc.ts'])
  assert.deepEqual(violations(['src/http'], allowed), [])
})

test('configuration and observability know no service', () => {
  // Bounds of formats and of the log are bounds of settings too. Metrics show the histograms of threads.
  const folders = [
    'src/config',
    'src/observability',
    ...SHARED,
    'src/log',
    'src/pipeline/histogram.ts',
    'native-free-codecs',
  ]
  assert.deepEqual(
    violations(['src/config', 'src/observability'], ({ to }) => !isFile(to) || under(to, folders)),
    [],
  )
})

test('the console knows services by their addresses alone', () => {
  const folders = ['src/console', 'src/config', 'src/http', ...SHARED]
  assert.deepEqual(
    violations(['src/console'], ({ to }) => !isFile(to) || under(to, folders)),
    [],
  )
})

test('the page of the console loads nothing of Node, and nothing from outside its folder', () => {
  const allowed = ({ to }: Import): boolean => (isFile(to) ? under(to, ['src/console/page']) : !to.startsWith('node:'))
  assert.deepEqual(violations(['src/console/page'], allowed), [])
})

test('no file imports itself by way of others, types included', () => {
  const stage = new Map<string, 'open' | 'done'>()
  const circles: string[] = []
  const visit = (path: string, way: readonly string[]): void => {
    if (stage.get(path) === 'open') circles.push([...way.slice(way.indexOf(path)), path].join(' → '))
    if (stage.has(path)) return
    stage.set(path, 'open')
    for (const { to } of sources.get(path)?.imports ?? []) if (sources.has(to)) visit(to, [...way, path])
    stage.set(path, 'done')
  }
  for (const path of sources.keys()) visit(path, [])
  assert.deepEqual(circles, [])
})

test('inside a service, folders import downward', () => {
  const upward = STOREYS.flatMap(([service, ...storeys]) =>
    storeys.flatMap((storey, i) => {
      const above = storeys.slice(i + 1).flatMap((each) => inService(service, each))
      const beside = inService(service, storey)
      return beside.flatMap((folder) =>
        violations([folder], ({ to }) => under(to, [folder]) || !under(to, [...above, ...beside])),
      )
    }),
  )
  assert.deepEqual(upward, [])
  const folders = STOREYS.flatMap(([service, ...storeys]) => storeys.flatMap((storey) => inService(service, storey)))
  const seen = SERVICES.flatMap((service) => globSync(`${service}/*/`, { cwd: root }))
  assert.deepEqual(folders.toSorted(), seen.map((path) => path.replace(/\/$/, '')).toSorted())
})

test('what the broker stores and knows takes nothing from its answers: only operations fill them', () => {
  const folders = ['frames', 'records', 'state', 'engine'].map((folder) => `src/broker/${folder}`)
  assert.deepEqual(
    violations(folders, ({ to }) => !under(to, ['src/broker/wire'])),
    [],
  )
})

test('decisions refuse by what they return: in operations only promises are rejected', () => {
  const control = /^\s*(?:\}\s*)?(?:if|else|for|while|do|switch|case|default|try|catch|finally)\b/
  const thrown = [...sources.values()]
    .filter(({ path }) => under(path, ['src/broker/operations', 'src/objectstore/engine/store.ts']))
    .flatMap(({ path, code }) => {
      const lines = code.split('\n')
      const indentOf = (line: string): number => line.search(/\S/)
      return lines.flatMap((line, number) => {
        if (!/\bthrow\b/.test(line)) return []
        let indent = indentOf(line)
        for (let at = number - 1; at >= 0; at--) {
          const before = lines[at]!
          if (before.trim() === '' || indentOf(before) >= indent) continue
          indent = indentOf(before)
          if (/[{(]$/.test(before) && !control.test(before))
            return /\basync\b|Promise</.test(before) ? [] : [`${path}: ${line}`]
        }
        return [`${path}: ${line}`]
      })
    })
  assert.deepEqual(thrown, [])
})

test('services never import each other', () => {
  for (const service of SERVICES) {
    const others = SERVICES.filter((each) => each !== service)
    assert.deepEqual(
      violations([service], ({ to }) => !under(to, others)),
      [],
    )
  }
})

test('only run.ts, the client library, the command line and workers import services from outside, and nothing imports an entry point or a worker', () => {
  const allowed = ({ from, to }: Import): boolean =>
    !under(to, SERVICES) || under(from, ['src/run.ts', 'src/client', 'src/cli', 'workers', ...SERVICES])
  assert.deepEqual(violations(['src', 'workers', 'native-free-codecs'], allowed), [])
  assert.deepEqual(
    violations(
      ['src', 'workers', 'native-free-codecs'],
      ({ to }) => !under(to, ['src/start.js', 'src/cli/mq.js', 'src/cli/trilog.js', 'workers']),
    ),
    [],
  )
})

test('the client library for browsers loads nothing of Node, and no package', () => {
  const loaded = [...loadedBy('src/client/browser.ts')]
  assert.ok(loaded.includes('src/client/http-client.ts'))
  assert.deepEqual(
    loaded.filter((path) => !isFile(path)),
    [],
  )
  assert.deepEqual(
    loaded.filter((path) => sources.has(path) && /\b(process|Buffer)\.\w/.test(sources.get(path)!.code)),
    [],
  )
})

test('only src/libc.ts calls the C library', () => {
  assert.deepEqual(filesWith(/\bkoffi\b/, ['src/libc.ts']), [])
})

test('only src/http knows uWebSockets.js', () => {
  const allowed = ({ from, to }: Import): boolean => to !== 'src/http/uws.ts' || under(from, ['src/http'])
  assert.deepEqual(violations(['src', 'workers'], allowed), [])
  assert.deepEqual(filesWith(/@uwsjs/, ['src/http/uws.ts']), [])
})

test('workers load codecs, the log, the pipeline and services, but no route and nothing of the HTTP front', () => {
  const isForbidden = (path: string): boolean =>
    under(path, ['src/http', 'src/observability', 'src/config']) || /(^|\/)[\w-]*routes[\w-]*\.ts$/.test(path)
  assert.deepEqual(loadedByWorkers(isForbidden), [])
})

test('what takes long to load is loaded in the shortest way', () => {
  // Import src/schema.ts instead: this package loads 374 modules.
  assert.deepEqual(filesWith(/^import (?!type).* from 'typebox'$/m, []), [])
  // It loads 235 modules, so src/schema-check.ts loads it only where a value is checked.
  assert.deepEqual(filesWith(/^import (?!type).* from 'typebox\/schema'$/m, []), [])
  // Use src/require-package.ts: an import would search the text of these packages for the names that they export.
  assert.deepEqual(
    filesWith(/^import (?!type).* from '(koffi|pino|piscina|fast-json-stringify|protobufjs|saxes)'$/m, []),
    [],
  )
})

test('files of threads are named by src/pipeline/worker-file.ts alone, which knows whether they are built', () => {
  assert.deepEqual(filesWith(/\.\.\/workers\//, ['src/pipeline/worker-file.ts']), [])
})

test('workers load no schemas: their library takes longer to load than all that a thread needs', () => {
  const isForbidden = (path: string): boolean => path.startsWith('typebox') || path === 'fast-json-stringify'
  assert.deepEqual(loadedByWorkers(isForbidden), [])
})

test('only the seam and the edges of the process touch files', () => {
  const allowed = ({ from, to }: Import): boolean => !/^node:fs(\/|$)/.test(to) || under(from, MAY_TOUCH_FILES)
  assert.deepEqual(violations(['src', 'workers', 'native-free-codecs'], allowed), [])
})

test('clocks, timers and randomness come in as arguments', () => {
  const clocks = /\b(Date\.now|new Date\(\)|Math\.random|performance\.now|process\.hrtime|setTimeout|setInterval)\b/
  assert.deepEqual(filesWith(clocks, MAY_READ_CLOCKS), [])
  assert.deepEqual(filesWith(/\bsetImmediate\b/, MAY_DEFER), [])
})
