/**
 * Runs the tests, and prints their failures and the totals last. Exits with 0 when all passed, else with 1.
 *
 *   node scripts/test.ts                      all test files
 *   node scripts/test.ts [--alone] FILE...    these, as in a run of all or each in a process of its own
 *     --processes N        so many at a time
 *     --coverage CONFIG    coverage must be as this configuration of c8 says, which takes a tenth more time
 *     --costs              prints what each file took when it has ended
 *     --silent-ms N        a process is ended when nothing was heard of it for so long
 *
 * The files whose coverage counts come first, but the place that has the longest others: so no core is idle at the end, nor while one
 * process reports the coverage.
 *
 * Several files share a process: what they leave behind ends with them (`tests/worker.ts`).
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { allTestFiles, inGroup, longestFirst } from './tests/files.ts'
import { runQueue } from './tests/processes.ts'
import { Results } from './tests/results.ts'

/** For what is not covered: services start in less than half the time when they are built and find their code compiled (0.5 s of processor instead of 1.2). */
const COMPILED = { NODE_COMPILE_CACHE: `${tmpdir()}/trilog-compiled-for-tests` }
const BUILT = { TRILOG_TESTED_TREE: new URL('../dist/', import.meta.url).href }
/** More processes would take more memory and little less time. */
const CORES_USED_MAX = 16

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    alone: { type: 'boolean' },
    processes: { type: 'string' },
    coverage: { type: 'string' },
    costs: { type: 'boolean' },
    'silent-ms': { type: 'string' },
  },
})
const isNamed = positionals.length > 0
const files = isNamed ? positionals : allTestFiles()
const aloneCovered = values.alone ? [] : inGroup(files, 'aloneCovered')
const uncovered = values.alone ? files : inGroup(files, 'uncovered')
const shared = isNamed
  ? files.filter((file) => !uncovered.includes(file) && !aloneCovered.includes(file))
  : inGroup(files, 'shared')
const queues = { aloneCovered: [...aloneCovered], shared: [...shared], uncovered: longestFirst(uncovered) }
const cores = Math.min(availableParallelism(), CORES_USED_MAX)
const places = Number(values.processes ?? 2 * cores + 1) // many files wait for the processes that they start; more would starve threads of the lowest priority
const computing = Math.min(places, cores + 1)
const nowMs = (): number => performance.now()
const watched = { nowMs, ...(values['silent-ms'] && { silentMsMax: Number(values['silent-ms']) }) }
const print = (line: string): void => void process.stdout.write(`${line}\n`)

const results = new Results(print, nowMs, values.costs)
const { coverage = null } = values
const env = coverage === null ? COMPILED : { NODE_V8_COVERAGE: emptyDirectoryOf(coverage) }
const built = isNamed ? null : build()
const uncoveredEnv = isNamed ? COMPILED : { ...COMPILED, ...BUILT }
const covered = Array.from({ length: computing }, async (_, place) => {
  if (place === 0) await runQueue(queues.aloneCovered, { ...watched, alone: true, env }, results)
  await runQueue(queues.shared, { ...watched, alone: false, env }, results)
})
const ends = Array.from({ length: places }, async (_, place) => {
  await covered[place]
  await built
  await runQueue(queues.uncovered, { ...watched, alone: values.alone ?? false, env: uncoveredEnv }, results)
})
const reported = Promise.all(covered).then(() => (coverage === null ? null : reportCoverage(coverage)))
await Promise.all([reported, ...ends])
results.printSummary()
process.exitCode = results.failed === 0 ? 0 : 1

async function build(): Promise<void> {
  const builder = fileURLToPath(new URL('build.ts', import.meta.url))
  const [code] = await once(
    spawn(process.execPath, [builder, '--unchecked'], { stdio: ['ignore', 'ignore', 'inherit'] }),
    'close',
  )
  if (code !== 0) throw new Error('npm run build fails')
}

/** Empties the directory where the processes leave what c8 reads. */
function emptyDirectoryOf(config: string): string {
  const settings = JSON.parse(readFileSync(config, 'utf8')) as { readonly 'temp-directory': string }
  const directory = resolve(settings['temp-directory'])
  rmSync(directory, { recursive: true, force: true })
  return directory
}

async function reportCoverage(config: string): Promise<void> {
  const c8 = fileURLToPath(import.meta.resolve('c8/bin/c8.js'))
  const child = spawn(process.execPath, [c8, 'report', '--config', config], { stdio: ['ignore', 'pipe', 'pipe'] })
  const [said, complaint, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  print(said.trim())
  if (code === 0) return
  const failure = {
    file: config,
    at: null,
    name: 'coverage',
    text: complaint.trim() || `c8 ended with ${String(code)}`,
  }
  results.add(config, { kind: 'failed', failure })
}
