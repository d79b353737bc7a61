/** Rules for test files: their places, names and imports. Each of them runs exactly once. */
import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { GROUPS, allTestFiles, inGroup } from '../scripts/tests/files.ts'
import type { Group } from '../scripts/tests/files.ts'

/** Folders of `test` that mirror no folder of the code: tests of documents, packages and lives, and files that several folders use. */
const OF_THEIR_OWN = new Set(['test', 'test/docs', 'test/package', 'test/simulation', 'test/support'])
/** Runs the services through random lives: may import their histories from any folder. */
const SIMULATION = 'test/simulation/'
/** Tests of a whole service: route by route, with faults, and killed. */
const OF_A_SERVICE = /^test\/(logstore|objectstore|broker)\/(conformance|conformance\/suites|faults|crash)$/
/** Files that the tests beside the folder load: workers that they start, tests that fail on purpose. */
const BELOW_TESTS = /\/(workers|fixtures)$/

/** Files that the runner itself adds to tests, or is tested with. */
const OF_THE_RUNNER = /^(scripts\/tests|test\/scripts\/tests\/fixtures)\//

interface Import {
  readonly to: string
  readonly typeOnly: boolean
}

const files = new Map(
  globSync('{test,scripts,bench}/**/*.ts', { exclude: ['**/node_modules'] }).map((path) => [path, read(path)]),
)
const names = [...files.keys()]
const underTest = names.filter((name) => name.startsWith('test/'))
const testFiles = underTest.filter((name) => name.endsWith('.test.ts'))

function read(path: string): { readonly code: string; readonly imports: readonly Import[] } {
  const code = readFileSync(path, 'utf8')
  const statements = code.matchAll(/^(?:import|export) (type )?[^'"`;]*?from '([^']+)'|^import '([^']+)'/gm)
  const imports = Array.from(statements, ([, type, named, bare]) => {
    const target = named ?? bare!
    return { to: target.startsWith('.') ? join(dirname(path), target) : target, typeOnly: type !== undefined }
  })
  return { code, imports }
}

/** The file, all files of `test`, `scripts` and `bench` that it loads, and the packages that these load. Imports of types are erased. */
function loadedBy(path: string, loaded = new Set<string>()): Set<string> {
  if (loaded.has(path)) return loaded
  loaded.add(path)
  for (const { to, typeOnly } of files.get(path)?.imports ?? []) if (!typeOnly) loadedBy(to, loaded)
  return loaded
}

/** The files that do not run exactly once, with how often they run. */
function notRunOnce(paths: readonly string[], run: readonly string[]): string[] {
  return paths
    .map((path) => [path, run.filter((each) => each === path).length] as const)
    .filter(([, times]) => times !== 1)
    .map(([path, times]) => `${path}: ${times}`)
}

/** The files that `npm test` would run if these were all. */
const runOf = (paths: readonly string[]): string[] =>
  (Object.keys(GROUPS) as Group[]).flatMap((group) => inGroup(paths, group)) // Object.keys loses the type of the keys

test('every file that has tests runs exactly once', () => {
  const sources = globSync('{src,workers,native-free-codecs,proto}/**/*.ts')
  const hasTests = (path: string): boolean =>
    /^import .*\b(it|test)\b.* from 'node:test'/m.test(readFileSync(path, 'utf8'))
  const loaded = new Set(testFiles.flatMap((path) => [...loadedBy(path)].filter((each) => each !== path)))
  const suspects = [...names, ...sources].filter(
    (path) => path.endsWith('.test.ts') || (hasTests(path) && !loaded.has(path) && !OF_THE_RUNNER.test(path)),
  )
  assert.ok(suspects.length > 200)
  assert.deepEqual(notRunOnce(suspects, runOf(allTestFiles())), [])
})

test('a file that no group takes is found, as is one that two take', () => {
  const odd = [
    'test/a.tests.ts',
    'test/a.test.mts',
    'test/a.slow.test.ts',
    'test/a.long.process.test.ts',
    'test/a.covered.test.ts',
  ]
  assert.deepEqual(
    notRunOnce(odd, runOf(odd)),
    odd.map((path) => `${path}: 0`),
  )
  const usual = ['test/a.test.ts', 'test/a.process.test.ts', 'test/a.covered.process.test.ts', 'test/a.long.test.ts']
  assert.deepEqual(notRunOnce(usual, runOf(usual)), [])
  assert.deepEqual(notRunOnce(usual, [...runOf(usual), 'test/a.test.ts']), ['test/a.test.ts: 2'])
  assert.deepEqual(notRunOnce(['src/a.test.ts'], runOf(usual)), ['src/a.test.ts: 0'])
})

test('a file is named *.process.test.ts when what it loads can start processes, and only then', () => {
  const startsProcesses = (path: string): boolean => loadedBy(path).has('node:child_process')
  assert.deepEqual(
    testFiles.filter((path) => startsProcesses(path) !== path.endsWith('.process.test.ts')),
    [],
  )
})

test('a folder of tests stands where the folder stands that it tests', () => {
  const isLikeCode = (folder: string): boolean => {
    const below = folder.slice('test/'.length)
    return existsSync(`src/${below}`) || (/^(bench|scripts|native-free-codecs)\b/.test(below) && existsSync(below))
  }
  const folders = new Set(underTest.map((path) => dirname(path)))
  assert.ok(folders.size > 30)
  assert.deepEqual(
    [...folders].filter(
      (folder) =>
        !isLikeCode(folder) && !OF_THEIR_OWN.has(folder) && !OF_A_SERVICE.test(folder) && !BELOW_TESTS.test(folder),
    ),
    [],
  )
})

test('a file of test is imported by files of its folder only, or stands in test/support', () => {
  const misplaced = names.flatMap((path) => {
    if (path.startsWith(SIMULATION)) return []
    const allowed = [`${dirname(path)}/`, 'test/support/', ...(path.startsWith('scripts/simulate') ? [SIMULATION] : [])]
    const strange = files
      .get(path)!
      .imports.filter(({ to }) => to.startsWith('test/') && !allowed.some((folder) => to.startsWith(folder)))
    return strange.map(({ to }) => `${path} imports ${to}`)
  })
  assert.deepEqual(misplaced, [])
})

test('what has outer hooks is loaded by one test file: a process loads it once, and its hooks are for the file that came first', () => {
  const loadedByTests = new Map(testFiles.map((path) => [path, loadedBy(path)]))
  const hasOuterHook = (path: string): boolean => /^(before|after)(Each)?\(/m.test(files.get(path)!.code)
  const withHooks = underTest.filter((path) => !path.endsWith('.test.ts') && hasOuterHook(path))
  assert(withHooks.includes('test/broker/conformance/suites/shared-node.ts'), 'an outer hook is recognised')
  const loaders = (path: string): readonly string[] => testFiles.filter((test) => loadedByTests.get(test)!.has(path))
  assert.deepEqual(
    withHooks.filter((path) => loaders(path).length > 1),
    [],
  )
})
