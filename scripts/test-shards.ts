/**
 * Runs test files, given as globs, in one process for each core and one more, each of which takes its share of the files.
 *
 * Most tests are shorter than the start of a process, so a process for each file would cost twice their time. What several files
 * share they must not change: their hooks are in a `describe` (`test/layers.test.ts`). A share's output comes in one piece when it is
 * done. Exits with 0 when all passed, else with 1.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'

const FLAGS = [
  '--import=./src/stripped-types.js',
  '--experimental-async-context-frame', // follows what waits without a hook at every promise: a sixth less time
  '--test',
  '--experimental-test-isolation=none',
  '--test-reporter=spec',
]

const shards = availableParallelism() + 1
const passed = await Promise.all(Array.from({ length: shards }, (_, i) => run(`${i + 1}/${shards}`)))
process.exitCode = passed.includes(false) ? 1 : 0

async function run(shard: string): Promise<boolean> {
  const child = spawn(process.execPath, [...FLAGS, `--test-shard=${shard}`, ...process.argv.slice(2)])
  const output: Buffer[] = []
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => output.push(chunk))
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null]
  process.stdout.write(Buffer.concat(output))
  if (signal !== null) process.stdout.write(`tests ${shard} were ended by ${signal}\n`)
  return code === 0
}
